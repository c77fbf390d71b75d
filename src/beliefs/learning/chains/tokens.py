"""Features of tokens: rows of numbers, or the few attributes that a token has.

The tokens of many sequences lie one after the other; a piece of that union is made of views.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from beliefs.kernels.chains.features import Occurrences
from beliefs.model.layout import offsets
from beliefs.typing import Floats, Ints

__all__ = ["DenseTokens", "SparseTokens", "Tokens", "gathered", "joined"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class DenseTokens:
    """Tokens with ``values (n_tokens, n_features)``, float32 or float64; ``intercept`` adds a last feature of 1."""

    values: Any
    intercept: bool = False

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return int(self.values.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features, the intercept counted."""
        return int(self.values.shape[1]) + self.intercept

    def rows(self, begin: int, end: int) -> Floats:
        """Return the features of some tokens as float64."""
        part = self.values[begin:end]
        if not self.intercept:
            return np.asarray(part, np.float64)
        return np.concatenate([part, np.ones((len(part), 1))], axis=1, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class SparseTokens:
    """Tokens by their attributes: ``attribute[ptr[t]:ptr[t+1]]`` are those of token t.

    ``value`` are their values, or is empty if all are 1. An attribute may occur twice in a token: the values add up.
    """

    ptr: Ints
    attribute: Ints
    value: Floats

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return int(self.ptr.size) - 1

    @cached_property
    def occurrences(self) -> Occurrences:
        """The arrays as kernels take them."""
        return Occurrences(self.ptr, self.attribute, self.value)

    @cached_property
    def token(self) -> Ints:
        """The token of each occurrence of an attribute."""
        return np.repeat(np.arange(self.n_tokens), np.diff(self.ptr))


Tokens = DenseTokens | SparseTokens


def gathered(sequences: Iterable[tuple[T, int]], least: int) -> Iterator[list[T]]:
    """Yield sequences, each with its number of tokens, in lists: a list ends when it has so many; the last has fewer.

    Examples
    --------
    >>> list(gathered([("a", 3), ("b", 1), ("c", 2), ("d", 1)], 4))
    [['a', 'b'], ['c', 'd']]
    """
    waiting: list[T] = []
    size = 0
    for sequence, n_tokens in sequences:
        waiting.append(sequence)
        size += n_tokens
        if size >= least:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def joined(parts: Sequence[Tokens]) -> Tokens:
    """Return the tokens of all parts, one after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, DenseTokens):
        return DenseTokens(np.concatenate([p.values for p in parts]), first.intercept)  # type: ignore[union-attr]
    sparse = [p for p in parts if isinstance(p, SparseTokens)]
    counts = np.concatenate([np.diff(p.ptr) for p in sparse])
    values = [p.value if p.value.size or not p.attribute.size else np.ones(p.attribute.size) for p in sparse]
    ones = not any(p.value.size for p in sparse)
    return SparseTokens(
        offsets(counts),
        np.concatenate([p.attribute for p in sparse]),
        np.zeros(0) if ones else np.concatenate(values),
    )
