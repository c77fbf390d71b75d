"""A factor: a scope and a table of log potentials. The order of axes is defined here and nowhere else.

Axis ``a`` of ``log_table`` belongs to ``scope[a]``; flattened in C order, the **last variable varies fastest**,
as in UAI files. Every other convention is turned at the border of its file format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError, UnsupportedError
from beliefs.model.pieces import pieces
from beliefs.model.variable import Variable
from beliefs.typing import Floats

__all__ = ["Factor", "log_table"]

LARGEST_LOG = 1e200  # nats: sums over 1e100 factors stay finite, and no model means more
_MOST_AXES = 64  # of a NumPy array


def log_table(values: ArrayLike, *, what: str = "table") -> Floats:
    r"""Return :math:`\log` of non-negative values; zeros become ``-inf``. Negative or non-finite entries raise."""
    table = numeric(values, what)
    if table.size and not (table >= 0).all():
        bad = table[~(table >= 0)].flat[0]
        raise ModelError(f"{what} must have non-negative entries, found {bad}")
    if np.isinf(table).any():
        raise ModelError(f"{what} must have finite entries, found inf")
    with np.errstate(divide="ignore"):
        return np.log(table)


def numeric(values: ArrayLike, what: str) -> Floats:
    """Return a new C-ordered float64 array or raise."""
    if values is None:  # NumPy takes it for nan
        raise ModelError(f"{what} must be an array of numbers, found None")
    try:
        return np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{what} must be an array of numbers ({error})") from None


def check_axes(n_axes: int, instead: str) -> None:
    """Raise unless a NumPy array can have so many axes. Inference has no such limit: it works on flat tables."""
    if n_axes > _MOST_AXES:
        raise UnsupportedError(f"a NumPy array has at most {_MOST_AXES} axes, this one needs {n_axes}: {instead}")


def check_logs(logs: Floats, what: str) -> None:
    """Raise unless every entry is ``-inf`` or of a magnitude whose sums cannot overflow."""
    cells = logs.reshape(-1)
    for part in (cells[piece] for piece in pieces(cells.size)):
        fine = (np.abs(part) <= LARGEST_LOG) | (part == -np.inf)  # False for nan as well
        if not fine.all():
            bad = part[~fine][0]
            raise ModelError(f"{what} must have -inf or finite log potentials (up to {LARGEST_LOG:g}), found {bad}")


def numbers_key(values: np.ndarray) -> bytes:
    """Return what equal arrays of numbers have in common, to be hashed: both zeros are one number."""
    return (values + 0.0).tobytes()


def scopes_and_tables(given: Iterable[Any], what: str) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield pairs of a scope and a table; ModelError names the first that is none."""
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise ModelError(f"factors are a list of pairs (scope, table), found {type(given).__name__}")
    for f, pair in enumerate(given):
        try:
            scope, table = pair
            yield tuple(scope), table
        except (TypeError, ValueError):
            raise ModelError(f"{what} {f} must be a pair (scope, table), the scope a list of variables") from None


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Factor:
    """A non-negative function of a few variables, stored as natural logs.

    Parameters
    ----------
    scope : sequence of Variable
        Any number, none included (a constant); no variable twice.
    log_table : array_like
        Log potentials of shape ``tuple(v.card for v in scope)``, or flat with the last variable fastest;
        ``-inf`` is a true zero.

    Examples
    --------
    >>> rain = Variable("Rain", ["no", "yes"])
    >>> Factor.from_table([rain], [0.8, 0.2]).table
    array([0.8, 0.2])
    """

    scope: tuple[Variable, ...]
    log_table: Floats

    def __init__(self, scope: Sequence[Variable], log_table: ArrayLike) -> None:
        variables = tuple(scope)
        if not all(isinstance(v, Variable) for v in variables):
            raise ModelError("the scope of a Factor is a sequence of Variable objects; from_tables takes indices")
        names = [v.name for v in variables]
        label = f"table of factor ({', '.join(names)})"
        if len(set(names)) < len(names):
            raise ModelError(f"factor ({', '.join(names)}) has a variable twice in its scope")
        shape = tuple(v.card for v in variables)
        check_axes(len(shape), "build the graph from flat tables, and read graph.theta[graph.layout.cells(f)]")
        table = numeric(log_table, label)
        if table.shape != shape:
            if table.ndim > 1 or table.size != np.prod([float(k) for k in shape]):
                raise ModelError(f"{label} must have shape {shape}, found {table.shape}")
            table = table.reshape(shape)
        check_logs(table, label)
        table.setflags(write=False)
        object.__setattr__(self, "scope", variables)
        object.__setattr__(self, "log_table", table)

    @classmethod
    def from_table(cls, scope: Sequence[Variable], table: ArrayLike) -> Factor:
        """Make a factor from potentials (not logs); zeros are hard."""
        return cls(scope, log_table(table, what=f"table of factor ({', '.join(v.name for v in scope)})"))

    @property
    def table(self) -> Floats:
        """Potentials, ``exp(log_table)``."""
        return np.exp(self.log_table)

    def __eq__(self, other: object) -> bool:
        """Whether scope and numbers are the same."""
        if not isinstance(other, Factor):
            return NotImplemented
        return self.scope == other.scope and np.array_equal(self.log_table, other.log_table)

    def __hash__(self) -> int:
        return hash((self.scope, numbers_key(self.log_table)))

    def __repr__(self) -> str:
        return f"Factor(({', '.join(v.name for v in self.scope)}), shape={self.log_table.shape})"
