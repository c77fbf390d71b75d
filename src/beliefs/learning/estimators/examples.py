"""Examples to learn from: two lists, or pairs that are loaded one by one or part by part, as often as needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.learning.data import InParts
from beliefs.learning.estimators.parts import Parts
from beliefs.learning.instances import Instance
from beliefs.typing import Floats

__all__ = ["Example", "Examples", "PartStream", "Stream", "array_bytes", "checked_costs", "inputs_of", "largest"]


class Example(NamedTuple):
    """One input with its labels, its weight, what messages call it, and what wrong labels cost, if that is given."""

    name: str
    x: Any
    y: Any
    weight: float
    costs: Any = None


class Examples:
    """All examples of one fit, in the same order at every pass.

    Parameters
    ----------
    X : list of inputs; or, with ``Y=None``, (input, labels) pairs
        A list of pairs, or any object that starts anew at every ``iter``, or a function that returns a fresh
        generator, or :class:`~beliefs.learning.estimators.parts.Parts`: pairs are then loaded when they are needed and
        not kept, for data larger than memory.
    Y : list of labels, optional
    sample_weight : array_like (n_instances,), optional
        How much each instance counts.
    costs : list of arrays, optional
        What each label of each variable costs, an array an instance; for losses with a margin.
    """

    def __init__(self, X: Any, Y: Any = None, sample_weight: ArrayLike | None = None, costs: Any = None) -> None:
        self.lazy = Y is None and not isinstance(X, list | tuple)
        self._pairs: Callable[[], Iterable[Any]]
        self.parts = X if isinstance(X, Parts) else None
        self.sizes: list[int] = []  # of parts, as far as they were loaded
        if self.parts is not None:
            self._pairs = self._from_parts
        elif Y is not None:
            self._pairs = _paired(X, Y)
        elif callable(X):
            self._pairs = X
        else:
            self._pairs = _again(X)
        self.weights = None if sample_weight is None else _weights(sample_weight)
        n = len(X) if isinstance(X, Sized) and self.parts is None else None
        if n == 0:
            raise ModelError("there is no instance; give at least one")
        if n is not None and self.weights is not None and len(self.weights) != n:
            raise ModelError(f"sample_weight has {len(self.weights)} entries for {n} instances")
        self.costs = costs
        if costs is not None and (not isinstance(costs, list | tuple | np.ndarray) or n is None or len(costs) != n):
            found = len(costs) if isinstance(costs, Sized) else type(costs).__name__
            raise ModelError(f"costs must be a list with one array for each of {n} instances, found {found}")

    def __iter__(self) -> Iterator[Example]:
        count = 0
        pairs = self._pairs()
        if not isinstance(pairs, Iterable):
            raise ModelError(f"the function must return pairs (input, labels), found {type(pairs).__name__}")
        for count, pair in enumerate(pairs, 1):
            yield self._example(count - 1, pair)
        if self.weights is not None and 0 < count < len(self.weights):
            raise ModelError(f"sample_weight has {len(self.weights)} entries for {count} instances")
        if count == 0:
            raise ModelError("there is no instance; a generator is exhausted after one pass, so give the function")

    def of_part(self, number: int) -> Iterator[Example]:
        """Yield the examples of a part, when all parts have been gone through once."""
        assert self.parts is not None
        pairs, begin = self.parts.load(number), sum(self.sizes[:number])
        if len(pairs) != self.sizes[number]:
            raise _other_number(self.sizes[number], len(pairs), f" in part {number}")
        return (self._example(begin + k, pair) for k, pair in enumerate(pairs))

    def _from_parts(self) -> Iterator[Any]:
        assert self.parts is not None
        sizes = []
        for number in range(len(self.parts)):
            pairs = self.parts.load(number)
            sizes.append(len(pairs))
            yield from pairs
        self.sizes = sizes

    def _example(self, number: int, pair: Any) -> Example:
        name = f"instance {number}"
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise ModelError(f"{name}: expected a pair (input, labels), found {type(pair).__name__}")
        if self.weights is not None and number >= len(self.weights):
            raise ModelError(f"sample_weight has {len(self.weights)} entries, and there are more instances")
        weight = 1.0 if self.weights is None else float(self.weights[number])
        return Example(name, *pair, weight, None if self.costs is None else self.costs[number])


def _other_number(before: int, now: int, where: str = "") -> ModelError:
    return ModelError(f"there were {before} instances{where}, and now there are {now}; every pass needs the same ones")


@dataclass(frozen=True, eq=False)
class Stream:
    """Instances made from examples whenever they are asked for, and not kept.

    Attributes
    ----------
    n_labelled : float, optional
        The labelled variables of all instances, weighted; None where labels are of hidden states.
    largest_bytes : (int, int)
        What the largest instance takes, and the largest part.
    """

    examples: Examples
    make: Callable[[Example], Instance]
    n_instances: int
    any_hidden: bool = False
    n_labelled: float | None = None
    largest_bytes: tuple[int, int] = (0, 0)

    def __len__(self) -> int:
        return self.n_instances

    def __iter__(self) -> Iterator[Instance]:
        count = 0
        for example in self.examples:
            yield self.make(example)
            count += 1
        if count != self.n_instances:
            raise _other_number(self.n_instances, count)


class PartStream(Stream, InParts):
    """Such instances of examples in parts."""

    @property
    def sizes(self) -> Sequence[int]:
        """How many instances each part has."""
        return self.examples.sizes

    def part(self, number: int) -> list[Instance]:
        """Load a part."""
        return [self.make(example) for example in self.examples.of_part(number)]


def array_bytes(thing: Any) -> int:
    """Return the bytes of the arrays in something parsed, in tuples and dataclasses; the rest is left out."""
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    if hasattr(thing, "tocsr"):
        return int(thing.data.nbytes + thing.indices.nbytes + thing.indptr.nbytes)
    if isinstance(thing, list | tuple):
        return sum(array_bytes(part) for part in thing)
    return sum(array_bytes(getattr(thing, f.name)) for f in fields(thing)) if is_dataclass(thing) else 0


def largest(sizes: Sequence[int], parts: Sequence[int]) -> tuple[int, int]:
    """Return the bytes of the largest instance, and of the largest part: read, and made into instances."""
    ends = np.cumsum([0, *parts])
    of_parts = [sum(sizes[begin:end]) for begin, end in pairwise(ends.tolist())]
    return max(sizes, default=0), 2 * max(of_parts, default=0)


def checked_costs(example: Example, shape: tuple[int, ...]) -> Floats:
    """Return the costs of an example as rows ``(n_vars, n_states)``; what they may be is said by the loss."""
    try:
        costs = np.asarray(example.costs)
        costs = costs.astype(np.float64, casting="unsafe" if costs.dtype == object else "same_kind")
    except (TypeError, ValueError):
        raise ModelError(f"{example.name}: costs must be an array of numbers of shape {shape}") from None
    if costs.shape != shape:
        raise ModelError(f"{example.name}: costs must have shape {shape}, found {costs.shape}")
    return costs.reshape(-1, shape[-1])


def inputs_of(X: Any) -> Iterator[tuple[str, Any]]:
    """Yield the inputs to predict for, with what messages call them."""
    if not (callable(X) or _is_list(X)):
        raise ModelError(f"X must be a list of instances, found {type(X).__name__}; a single one goes in a list")
    for number, x in enumerate(X() if callable(X) else X):
        yield f"instance {number}", x


def _is_list(values: Any) -> bool:
    """Whether the entries of a collection may be instances; those of tables and sparse matrices are not."""
    table = hasattr(values, "columns") or hasattr(values, "tocsr")
    return isinstance(values, Iterable) and not (table or isinstance(values, str | Mapping))


def _paired(X: Any, Y: Any) -> Callable[[], Iterable[tuple[Any, Any]]]:
    for values, what in ((X, "X"), (Y, "Y")):
        if not (isinstance(values, Sized) and _is_list(values)):
            raise ModelError(
                f"{what} must be a list with one entry per instance, found {type(values).__name__}; "
                "more data than memory goes as pairs (input, labels) without Y"
            )
    if len(X) != len(Y):
        raise ModelError(f"X has {len(X)} instances and Y has {len(Y)}; each input needs its labels")
    return lambda: zip(X, Y, strict=True)


def _again(X: Any) -> Callable[[], Iterable[Any]]:
    if not _is_list(X):
        raise ModelError(f"X must be a list of instances (and Y of labels), found {type(X).__name__}")
    if iter(X) is X:
        raise ModelError(
            "X is a generator, which can be gone through only once, and fitting needs several passes; give the "
            "function that makes it, or an object whose __iter__ starts anew"
        )
    return lambda: X


def _weights(values: ArrayLike) -> Floats:
    try:
        weights = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        weights = np.zeros(0)
    if weights.ndim != 1 or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ModelError("sample_weight must be one number of at least 0 per instance, not all of them 0")
    return weights
