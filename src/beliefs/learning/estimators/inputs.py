"""What comes in: arrays of one instance, checked at the border, and the structure that follows from them.

An estimator parses each input into a :class:`ParsedInput`; layouts are made from it, one for all inputs of equal
structure. Every error names the instance and says what to do.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefs.errors import BudgetError, ModelError
from beliefs.inference.budget import default_budget
from beliefs.model.distinct import distinct_rows
from beliefs.model.features import HUGE
from beliefs.model.layout import Layout
from beliefs.typing import Bools, Ints

__all__ = [
    "FactorSpec",
    "Layouts",
    "LazyFeatures",
    "ParsedInput",
    "as_array",
    "check_kinds",
    "check_tables",
    "checked_features",
    "checked_scopes",
    "with_intercept",
]

_FEW = 2**12  # features that are not worth making again and again
_KEPT = 5_000_000  # variables and incidences of the layouts that are kept, some 100 MB


@dataclass(frozen=True)
class FactorSpec:
    """One type of factors: how messages call them, variables of a factor, features of a factor.

    ``tied``: there are no features but the constant, and all factors of the type share one table.
    """

    name: str
    arity: int
    width: int = 1
    tied: bool = False


@dataclass(frozen=True, eq=False)
class ParsedInput:
    """One input as an estimator has understood it.

    Attributes
    ----------
    shape : tuple of int
        The shape of its labels; the variables are their entries in C order.
    inputs : object
        What the template takes: for log-linear templates one :class:`Rows` per type of factors.
    kinds : tuple of FactorSpec
        The types of factors, the same for all inputs of one fit.
    scopes : callable ``() -> list of int arrays (n_factors, arity)``
        The variables of the factors, one array per type; asked once for each structure.
    key : hashable
        Inputs with equal keys have equal structure.
    hidden : ndarray of bool (n_vars,), optional
        Which variables are declared hidden; None: none.
    """

    shape: tuple[int, ...]
    inputs: Any
    kinds: tuple[FactorSpec, ...]
    scopes: Callable[[], Sequence[Ints]]
    key: Hashable
    hidden: Bools | None = None

    @property
    def n_vars(self) -> int:
        """Number of variables."""
        return math.prod(self.shape)


class Layouts:
    """One layout for each structure met, so that plans made for one instance serve all of its kind.

    The least recently used are let go when all together are large.
    """

    def __init__(self, make: Callable[[ParsedInput], Layout]) -> None:
        self.make = make
        self._made: OrderedDict[Hashable, Layout] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def of(self, parsed: ParsedInput) -> Layout:
        """Return the layout of an input."""
        with self._lock:
            found = self._made.get(parsed.key)
            if found is None:
                found = self._made[parsed.key] = self.make(parsed)
                self._size += found.n_edges + found.n_vars
                while self._size > _KEPT and len(self._made) > 1:
                    _, old = self._made.popitem(last=False)
                    self._size -= old.n_edges + old.n_vars
            self._made.move_to_end(parsed.key)
            return found

    def __getstate__(self) -> Callable[[ParsedInput], Layout]:
        return self.make  # layouts are made again where they are needed

    def __setstate__(self, make: Callable[[ParsedInput], Layout]) -> None:
        self.__init__(make)  # type: ignore[misc]


# -- arrays -------------------------------------------------------------------------------------------------------
def as_array(values: Any, name: str, what: str) -> np.ndarray:
    """Return what was given as an array; lists whose rows differ in length, and masks, are refused."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ModelError(f"{name}: {what} are masked, which would be ignored; fill them in first (filled)")
    try:
        return np.asarray(values)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ModelError(f"{name}: {what} make no array, because the rows differ in length") from None


# -- features -----------------------------------------------------------------------------------------------------
def checked_features(values: Any, n_rows: int | None, name: str, what: str) -> Any:
    """Return features as rows ``(n_rows, width)``: sparse rows as CSR, anything else as an array of its own type.

    Numbers must be finite; nothing is copied that need not be.
    """
    rows = values.tocsr() if hasattr(values, "tocsr") else as_array(values, name, what)
    if rows.ndim != 2 or (n_rows is not None and rows.shape[0] != n_rows):
        asked = "n" if n_rows is None else n_rows
        raise ModelError(f"{name}: {what} must have shape ({asked}, width), found {rows.shape}")
    numbers: Any = rows.data if hasattr(values, "tocsr") else rows
    if numbers.dtype.kind not in "fiub":
        raise ModelError(f"{name}: {what} must be real numbers, found {numbers.dtype}; encode them first")
    if numbers.size and not _within_range(numbers):
        bad = ~(np.abs(numbers) < HUGE)
        advice = "fill in or drop such values" if not np.isfinite(numbers[bad][0]) else "scale them, to about 1"
        raise ModelError(f"{name}: {what} hold {numbers[bad][0]}{_place(rows, bad)}; {advice}")
    return rows


def _within_range(numbers: np.ndarray) -> bool:
    """Whether all numbers are below HUGE in size, and none is nan; a sum of squares says so of most in one step."""
    if numbers.dtype == np.float64 and np.vdot(numbers, numbers) < HUGE:
        return True
    return float(numbers.min()) > -HUGE and float(numbers.max()) < HUGE


def _place(rows: Any, bad: Bools) -> str:
    return "" if bad.ndim != 2 else " in row {}, feature {}".format(*(int(at[0]) for at in np.nonzero(bad)))


@dataclass(frozen=True, eq=False)
class LazyFeatures:
    """Features ``(n_rows, width)`` that a function makes whenever they are needed."""

    shape: tuple[int, int]
    make: Callable[[], Any]

    def __call__(self) -> Any:
        """Make them."""
        return self.make()


def with_intercept(rows: Any) -> Any:
    """Return features with a last one that is 1; many that are not float64 get it at their use, and stay small."""
    n, width = rows.shape
    if hasattr(rows, "tocsr"):
        from scipy.sparse import csr_array, hstack

        return csr_array(hstack([rows, np.ones((n, 1))]))
    if isinstance(rows, LazyFeatures):
        return LazyFeatures((n, width + 1), lambda: _beside_ones(rows()))
    if rows.dtype == np.float64 or rows.size <= _FEW:
        return _beside_ones(rows)
    return LazyFeatures((n, width + 1), lambda: _beside_ones(rows))


def _beside_ones(rows: np.ndarray) -> np.ndarray:
    n, width = rows.shape
    wider = np.empty((n, width + 1))
    wider[:, :width], wider[:, width] = rows, 1.0
    return wider


def check_kinds(
    found: Sequence[FactorSpec], expected: Sequence[FactorSpec], name: str, model: str, added: int = 0
) -> None:
    """Raise unless an input has the types and widths of ``model`` (the fitted model, or the first instance).

    ``added`` is how many features of a variable are ours, and not counted in messages.
    """
    if len(found) != len(expected):
        raise ModelError(f"{name} has {len(found)} types of factors, {model} has {len(expected)}; all must be alike")
    for mine, other in zip(found, expected, strict=True):
        if mine.arity != other.arity:
            raise ModelError(f"{name}: {mine.name} join {mine.arity} variables, those of {model} {other.arity}")
        if mine.tied != other.tied:
            with_features, without = (model, name) if mine.tied else (name, model)
            raise ModelError(f"{mine.name} have features in {with_features} and none in {without}; give all or none")
        if mine.width != other.width:
            ours = added if mine.arity == 1 else 0
            raise ModelError(
                f"{name}: {mine.name} have {mine.width - ours} features, those of {model} {other.width - ours}; "
                "all inputs need the same features in the same order"
            )


def check_tables(kinds: Sequence[FactorSpec], n_states: int) -> None:
    """Raise if one table of a type, or its weights, would not fit into memory."""
    for kind in kinds:
        entries = n_states**kind.arity * max(1, kind.width)
        if 8 * entries > default_budget():
            raise BudgetError(
                f"{kind.name} of {kind.arity} variables with {n_states} states have {entries:.2g} weights, "
                f"{8e-9 * entries:.2g} GB; number the labels 0, 1, ..., or use fewer states or smaller factors"
            )


# -- scopes -------------------------------------------------------------------------------------------------------
def checked_scopes(
    values: Any, n_vars: int, name: str, what: str = "edges", arity: int | None = 2, repeated: bool = False
) -> Ints:
    """Return the scopes of one type of factors as ints ``(m, arity)``: in range, without loops, each set once.

    ``repeated``: a set may occur again, because types are yet to be told apart.
    """
    array = as_array(values, name, what)
    if array.size == 0:
        array = np.zeros((0, arity or (array.shape[-1] if array.ndim == 2 else 1)), np.int64)
    if array.ndim != 2 or (arity is not None and array.shape[1] != arity):
        raise ModelError(f"{name}: {what} must have shape (m, {arity or 'arity'}), found {array.shape}")
    if array.dtype.kind not in "iu":
        raise ModelError(f"{name}: {what} must be integers, found {array.dtype}")
    scopes = np.ascontiguousarray(array, np.int64)
    if scopes.size and scopes.view(np.uint64).max() >= n_vars:  # as which negative numbers are large
        e = int(np.argmax(((array < 0) | (array >= n_vars)).any(axis=1)))
        raise ModelError(
            f"{name}: {what}[{e}] is {_shown(array[e])}, but the variables are 0..{n_vars - 1}; count from 0"
        )
    if not repeated:
        _check_sets(scopes, n_vars, name, what)
    return scopes


def _check_sets(scopes: Ints, n_vars: int, name: str, what: str) -> None:
    """Raise for a scope that names a variable twice, and for two scopes over the same variables."""
    if scopes.shape[1] == 2:  # by far the most frequent, and rows are slow to compare
        u, v = scopes.T
        pairs = np.minimum(u, v) * n_vars + np.maximum(u, v)
        pairs.sort()
        if not ((u == v).any() or (pairs[1:] == pairs[:-1]).any()):
            return
    sets = np.sort(scopes, axis=1)
    loops = (sets[:, 1:] == sets[:, :-1]).any(axis=1)
    if loops.any():
        e = int(np.argmax(loops))
        raise ModelError(f"{name}: {what}[{e}] is {_shown(scopes[e])}, which names a variable twice; leave it out")
    _, first, number = distinct_rows(sets)
    again = first[number] != np.arange(len(scopes))
    if again.any():
        e = int(np.argmax(again))
        old = int(first[number[e]])
        raise ModelError(
            f"{name}: {what}[{e}] {_shown(scopes[e])} joins the same variables as {what}[{old}] "
            f"{_shown(scopes[old])}; give each once in a type, or another type"
        )


def _shown(scope: Ints) -> str:
    return f"({', '.join(str(int(v)) for v in scope)})"
