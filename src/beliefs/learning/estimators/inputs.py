"""What comes in: arrays of one instance, checked at the border, and the structure that follows from them.

An estimator reads each input into a :class:`Reading`; layouts are made from it, one for all inputs of equal structure.
Every error names the instance and says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.model.layout import Layout
from beliefs.typing import Bools, Ints

__all__ = ["Kind", "Layouts", "Reading", "check_kinds", "features", "scopes_of"]


@dataclass(frozen=True)
class Kind:
    """One type of factors: how messages call its features, variables of a factor, features of a factor.

    ``tied``: there are no features but the constant, and all factors of the type share one table.
    """

    name: str
    arity: int
    width: int = 1
    tied: bool = False


@dataclass(frozen=True, eq=False)
class Reading:
    """One input as an estimator has understood it.

    Attributes
    ----------
    shape : tuple of int
        The shape of its labels; the variables are their entries in C order.
    inputs : object
        What the template takes: for log-linear templates one :class:`Rows` per type of factors.
    kinds : tuple of Kind
        The types of factors, the same for all inputs of one fit.
    scopes : callable ``() -> list of int arrays (n_factors, arity)``
        The variables of the factors, one array per type; asked once for each structure.
    key : hashable
        Inputs with equal keys have equal structure.
    """

    shape: tuple[int, ...]
    inputs: Any
    kinds: tuple[Kind, ...]
    scopes: Callable[[], Sequence[Ints]]
    key: Hashable

    @property
    def n_vars(self) -> int:
        """Number of variables."""
        return int(np.prod(self.shape, dtype=np.int64))


class Layouts:
    """One layout for each structure met, so that plans made for one instance serve all of its kind."""

    def __init__(self, n_states: int) -> None:
        self.n_states = n_states
        self._made: dict[Hashable, Layout] = {}

    def of(self, reading: Reading) -> Layout:
        """Return the layout of an input: its variables have one cardinality, its factors come type after type."""
        if reading.key not in self._made:
            self._made[reading.key] = self._layout(reading)
        return self._made[reading.key]

    def _layout(self, reading: Reading) -> Layout:
        scopes = reading.scopes()
        arity = np.repeat([kind.arity for kind in reading.kinds], [len(s) for s in scopes]).astype(np.int64)
        starts, at = [], 0
        for scope, kind in zip(scopes, reading.kinds, strict=True):
            size, n = self.n_states**kind.arity, len(scope)
            starts.append(np.full(n, at) if kind.tied else at + size * np.arange(n))
            at += size * (min(1, n) if kind.tied else n)
        return Layout.build(
            np.full(reading.n_vars, self.n_states),
            np.concatenate([[0], np.cumsum(arity)]),
            np.concatenate([np.zeros(0, np.int64), *(s.ravel() for s in scopes)]),
            np.concatenate([np.zeros(0, np.int64), *starts]),
        )


# -- features -----------------------------------------------------------------------------------------------------
def features(values: Any, n_rows: int | None, name: str, what: str) -> Any:
    """Return features as rows ``(n_rows, width)``: sparse rows as CSR, anything else as an array of its own type.

    Numbers must be finite; nothing is copied that need not be.
    """
    rows = values.tocsr() if hasattr(values, "tocsr") else np.asarray(values)
    if rows.ndim != 2 or (n_rows is not None and rows.shape[0] != n_rows):
        asked = "n" if n_rows is None else n_rows
        raise ModelError(f"{name}: {what} must have shape ({asked}, width), found {rows.shape}")
    numbers: Any = rows.data if hasattr(values, "tocsr") else rows
    if numbers.dtype.kind not in "fiub":
        raise ModelError(f"{name}: {what} must be real numbers, found {numbers.dtype}; encode words as numbers first")
    bad = ~np.isfinite(numbers)
    if bad.any():
        raise ModelError(f"{name}: {what} hold {numbers[bad][0]}{_place(rows, bad)}; fill in or drop such values")
    return rows


def _place(rows: Any, bad: Bools) -> str:
    return "" if bad.ndim != 2 else " in row {}, feature {}".format(*(int(at[0]) for at in np.nonzero(bad)))


def check_kinds(found: Sequence[Kind], expected: Sequence[Kind], name: str, model: str) -> None:
    """Raise unless an input has the types and widths of ``model`` (the fitted model, or the first instance)."""
    if len(found) != len(expected):
        raise ModelError(
            f"{name} has {len(found)} types of factors, {model} has {len(expected)}; all must have the same"
        )
    for mine, other in zip(found, expected, strict=True):
        if mine.arity != other.arity:
            raise ModelError(f"{name}: {mine.name} join {mine.arity} variables, in {model} {other.arity}")
        if mine.tied != other.tied:
            with_features, without = (model, name) if mine.tied else (name, model)
            raise ModelError(f"{mine.name} have features in {with_features} and none in {without}; give all or none")
        if mine.width != other.width:
            raise ModelError(
                f"{name}: {mine.name} have {mine.width} features, in {model} {other.width}; "
                "all instances need the same features in the same order"
            )


# -- scopes -------------------------------------------------------------------------------------------------------
def scopes_of(values: Any, n_vars: int, name: str, what: str = "edges", arity: int | None = 2) -> Ints:
    """Return the scopes of one type of factors as ints ``(m, arity)``: in range, without loops, each set once."""
    array = np.asarray(values)
    if array.size == 0:
        array = np.zeros((0, arity or (array.shape[-1] if array.ndim == 2 else 1)), np.int64)
    if array.ndim != 2 or (arity is not None and array.shape[1] != arity):
        raise ModelError(f"{name}: {what} must have shape (m, {arity or 'arity'}), found {array.shape}")
    if array.dtype.kind not in "iu":
        raise ModelError(f"{name}: {what} must be integers, found {array.dtype}")
    scopes = np.ascontiguousarray(array, np.int64)
    outside = (scopes < 0) | (scopes >= n_vars)
    if outside.any():
        e = int(np.argmax(outside.any(axis=1)))
        raise ModelError(
            f"{name}: {what}[{e}] is {_shown(scopes[e])}, but the variables are 0..{n_vars - 1}; count from 0"
        )
    _check_sets(scopes, name, what)
    return scopes


def _check_sets(scopes: Ints, name: str, what: str) -> None:
    """Raise for a scope that names a variable twice, and for two scopes over the same variables."""
    sets = np.sort(scopes, axis=1)
    loops = (sets[:, 1:] == sets[:, :-1]).any(axis=1)
    if loops.any():
        e = int(np.argmax(loops))
        raise ModelError(f"{name}: {what}[{e}] is {_shown(scopes[e])}, which names a variable twice; leave it out")
    _, first, inverse = np.unique(sets, axis=0, return_index=True, return_inverse=True)
    again = first[inverse.ravel()] != np.arange(len(scopes))
    if again.any():
        e = int(np.argmax(again))
        old = int(first[inverse.ravel()[e]])
        raise ModelError(
            f"{name}: {what}[{e}] {_shown(scopes[e])} joins the same variables as {what}[{old}] "
            f"{_shown(scopes[old])}; give each once in a type, or another type"
        )


def _shown(scope: Ints) -> str:
    return f"({', '.join(str(int(v)) for v in scope)})"
