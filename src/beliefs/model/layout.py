"""Structure without values: the flat integer arrays that kernels read.

====================  ==============  =======================================================================
array                 shape           meaning
====================  ==============  =======================================================================
``card``              (n_vars,)       states of each variable
``scope_ptr``         (n_factors+1,)  factor ``f`` has scope ``scope_vars[scope_ptr[f]:scope_ptr[f+1]]``
``scope_vars``        (n_edges,)
``cell_ptr``          (n_factors,)    its table is ``theta[cell_ptr[f] : cell_ptr[f]+factor_size[f]]``;
                                      a repeated start means a tied table
``factor_size``       (n_factors,)    product of its cardinalities, 1 for an empty scope
``state_ptr``         (n_vars+1,)     marginal of ``v`` is ``mu_var[state_ptr[v]:state_ptr[v+1]]``
``observed``          (n_vars,)       variables fixed by evidence: in no scope, and not counted in Z
====================  ==============  =======================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, TypeVarTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from beliefs.errors import BudgetError, ModelError
from beliefs.kernels.layout import Adjacency, Scopes, condition_scopes, repeated_variable
from beliefs.kernels.primitives.strides import table_strides
from beliefs.model.pieces import pieces
from beliefs.model.plans import PlanKey, Plans
from beliefs.typing import Bools, Floats, Ints

__all__ = ["Layout", "UnaryCells", "offsets", "read_only", "sums_to_one"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Array = TypeVar("Array", bound=NDArray[Any])

_ROUNDING = 1e-12  # a column whose sum is nearer to one sums to one


def frozen_ints(values: ArrayLike, what: str) -> Ints:
    """Return a read-only int64 copy, or the array itself where it is one that is read-only; non-integers raise."""
    array = np.asarray(values)
    flags = array.flags
    if array.dtype == np.int64 and flags.owndata and flags.c_contiguous and not flags.writeable:
        return array
    if array.size and array.dtype.kind not in "iub":
        raise ModelError(f"{what} must be integers, found {array.dtype}")
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise ModelError(f"{what} must be below 2^63, found {array.max()}")
    copy = np.array(array, dtype=np.int64, order="C")
    copy.setflags(write=False)
    return copy


def offsets(counts: ArrayLike) -> Ints:
    """Return where runs of so many entries begin, laid end to end, and where the last one ends, ``(n + 1,)``.

    Examples
    --------
    >>> offsets([2, 0, 3])
    array([0, 2, 2, 5])
    """
    sizes = np.asarray(counts)
    ptr = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=ptr[1:])
    return ptr


def read_only(array: Array) -> Array:
    """Return the array itself, no longer writeable: the type that kernels take for what they only read."""
    array.setflags(write=False)
    return array


class UnaryCells(NamedTuple):
    """The cells of all factors of one variable: in ``theta``, in tables side by side, and the states they stand for."""

    cells: Ints
    table_cells: Ints
    states: Ints


def frozen(state: dict[str, Any]) -> dict[str, Any]:
    """Make the arrays of an unpickled or copied object read-only again; kernels are compiled for that type."""
    for value in state.values():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    return state


@dataclass(frozen=True, eq=False)
class Layout:
    """Cardinalities, scopes and offsets of a factor graph; see the module's table. Build with :meth:`build`."""

    card: Ints
    scope_ptr: Ints
    scope_vars: Ints
    cell_ptr: Ints
    factor_size: Ints
    n_cells: int
    observed: Bools
    _plans: Plans = field(default_factory=Plans, repr=False)

    @classmethod
    def build(
        cls,
        card: ArrayLike,
        scope_ptr: ArrayLike,
        scope_vars: ArrayLike,
        cell_ptr: ArrayLike | None = None,
        observed: Bools | None = None,
    ) -> Layout:
        """Check the arrays and derive the offsets; ``cell_ptr=None`` gives each factor its own cells."""
        cards, ptr, scope = (
            frozen_ints(card, "cardinalities"),
            frozen_ints(scope_ptr, "scope offsets"),
            frozen_ints(scope_vars, "scopes"),
        )
        _check_scopes(cards, ptr, scope)
        sizes = _factor_sizes(cards, ptr, scope)
        if cell_ptr is None:
            starts = read_only(offsets(sizes)[:-1])
            n_cells = int(sizes.sum())
        else:
            starts = frozen_ints(cell_ptr, "cell offsets")
            n_cells = _check_tied(starts, sizes)
        mask = np.zeros(cards.size, np.bool_) if observed is None else np.array(observed, np.bool_)
        mask.setflags(write=False)
        if mask[scope].any():
            raise ModelError(f"variable {scope[mask[scope]][0]} is observed and in a scope")
        return cls(cards, ptr, scope, starts, sizes, n_cells, mask)

    @classmethod
    def of_scopes(cls, cards: ArrayLike, scopes: Sequence[Sequence[int]]) -> Layout:
        """Build from cardinalities and one scope a factor, each factor with its own cells."""
        ends = np.cumsum([len(scope) for scope in scopes], dtype=np.int64)
        flat = [v for scope in scopes for v in scope]
        ptr = np.concatenate([[0], ends])
        try:
            variables = np.array(flat) if flat else np.zeros(0, int)
        except ValueError:  # lists of several lengths
            variables = np.zeros((0, 0))
        if variables.ndim != 1:
            raise ModelError("a scope is a list of variables by index, found a list within it")
        return cls.build(np.asarray(cards).ravel(), ptr, variables)

    # -- counts -------------------------------------------------------------------------------------------------
    @property
    def n_vars(self) -> int:
        """Number of variables, observed ones included."""
        return int(self.card.size)

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return int(self.cell_ptr.size)

    @property
    def n_edges(self) -> int:
        """Number of (factor, variable) incidences."""
        return int(self.scope_vars.size)

    @property
    def n_states(self) -> int:
        """Sum of cardinalities."""
        return int(self.state_ptr[-1])

    # -- derived arrays -----------------------------------------------------------------------------------------
    @cached_property
    def state_ptr(self) -> Ints:
        """Offsets of each variable's states in ``mu_var``, (n_vars+1,)."""
        return read_only(offsets(self.card))

    @cached_property
    def table_ptr(self) -> Ints:
        """Offsets of the factors' tables laid side by side, tied ones repeated, (n_factors+1,)."""
        return read_only(offsets(self.factor_size))

    @cached_property
    def arity(self) -> Ints:
        """Number of variables of each factor, (n_factors,)."""
        return read_only(np.diff(self.scope_ptr))

    @cached_property
    def constants(self) -> Ints:
        """The cells of factors of no variable."""
        return read_only(self.cell_ptr[self.arity == 0])

    @cached_property
    def edge_factor(self) -> Ints:
        """The factor of each edge, (n_edges,)."""
        return read_only(np.repeat(np.arange(self.n_factors), self.arity))

    @cached_property
    def var_ptr(self) -> Ints:
        """Offsets into :attr:`var_edges`, (n_vars+1,)."""
        degree = np.bincount(self.scope_vars, minlength=self.n_vars)
        return read_only(offsets(degree))

    @cached_property
    def degree(self) -> Ints:
        """Number of factors of each variable, (n_vars,)."""
        return read_only(np.diff(self.var_ptr))

    @cached_property
    def var_edges(self) -> Ints:
        """Edges at each variable in factor order, (n_edges,); see :attr:`var_ptr`."""
        return read_only(np.argsort(self.scope_vars, kind="stable"))

    @cached_property
    def scopes(self) -> Scopes:
        """The arrays that say who is in which factor and where its table lies, as kernels take them."""
        return Scopes(self.card, self.state_ptr, self.scope_ptr, self.scope_vars, self.cell_ptr)

    @cached_property
    def adjacency(self) -> Adjacency:
        """The arrays that say which edges each variable has, as kernels take them."""
        return Adjacency(self.var_ptr, self.var_edges, self.edge_factor)

    @cached_property
    def message_ptr(self) -> Ints:
        """Offsets of each edge's message, one entry a state of its variable, (n_edges+1,)."""
        return read_only(offsets(self.card[self.scope_vars]))

    @cached_property
    def edge_stride(self) -> Ints:
        """For each edge, the cells between two neighbouring states of its variable in the factor's table, (n_edges,).

        Examples
        --------
        >>> Layout.build([2, 3, 4], [0, 3, 4], [1, 0, 2, 0]).edge_stride
        array([8, 4, 1, 1])
        """
        stride = np.empty(self.n_edges, np.int64)
        table_strides(self.card, self.scope_ptr, self.scope_vars, stride)
        return read_only(stride)

    @cached_property
    def isolated(self) -> Ints:
        """Unobserved variables in no factor."""
        return read_only(np.flatnonzero(~self.observed & (self.degree == 0)))

    @cached_property
    def single_cells(self) -> Ints:
        """The cells of factors whose table has one cell: a -inf among them is a proof that Z = 0."""
        return read_only(self.cell_ptr[self.factor_size == 1])

    @cached_property
    def unary_cells(self) -> UnaryCells:
        """Where the tables of factors of one variable lie, cell by cell, and the states that the cells belong to."""
        single = np.flatnonzero(self.arity == 1)
        variables = self.scope_vars[self.scope_ptr[single]]
        sizes = self.card[variables]
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        firsts = (self.cell_ptr[single], self.table_ptr[single], self.state_ptr[variables])
        return UnaryCells(*(read_only(np.repeat(first, sizes) + within) for first in firsts))

    @cached_property
    def is_pairwise(self) -> bool:
        """Whether no factor has more than two variables."""
        return bool(self.arity.max(initial=0) <= 2)

    @cached_property
    def tied(self) -> bool:
        """Whether any two factors share their cells."""
        return self.n_cells != int(self.factor_size.sum())

    def scope(self, f: int) -> Ints:
        """Variables of factor ``f``."""
        return self.scope_vars[self.scope_ptr[f] : self.scope_ptr[f + 1]]

    def shape(self, f: int) -> tuple[int, ...]:
        """Table shape of factor ``f``."""
        return tuple(int(k) for k in self.card[self.scope(f)])

    def cells(self, f: int) -> slice:
        """The run of ``theta`` that holds factor ``f``."""
        start = int(self.cell_ptr[f])
        return slice(start, start + int(self.factor_size[f]))

    def table_cells(self) -> Ints:
        """Return the cell of ``theta`` that each cell of the tables laid side by side holds, ``(table_ptr[-1],)``."""
        shift = np.repeat(self.cell_ptr - self.table_ptr[:-1], self.factor_size)
        cells: Ints = shift + np.arange(shift.size)
        return cells

    def in_cells(self, tables: Floats) -> Floats:
        """Return factors' tables laid side by side as cells ``(n_cells,)``: those of tied factors are added up."""
        if not self.tied and np.array_equal(self.cell_ptr, self.table_ptr[:-1]):
            return tables
        return np.bincount(self.table_cells(), tables, self.n_cells).astype(np.float64, copy=False)

    def __getstate__(self) -> dict[str, Any]:
        # plans, and tuples of arrays, are made again where they are needed
        arrays = {name: value for name, value in self.__dict__.items() if not isinstance(value, tuple)}
        return arrays | {"_plans": Plans()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(frozen(state))

    def equals(self, other: Layout) -> bool:
        """Whether the structure is the same, array by array."""
        return self is other or all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("card", "scope_ptr", "scope_vars", "cell_ptr", "observed")
        )

    def __eq__(self, other: object) -> bool:
        return self.equals(other) if isinstance(other, Layout) else NotImplemented

    @cached_property
    def _hash(self) -> int:
        return hash((self.card.tobytes(), self.scope_vars.tobytes(), self.observed.tobytes()))

    def __hash__(self) -> int:
        return self._hash

    # -- kept work ----------------------------------------------------------------------------------------------
    def plan(self, make: Callable[[Layout, *Ts], T], *arguments: *Ts) -> T:
        """Return ``make(self, *arguments)``, made on first use and kept (orders, junction trees, colourings).

        It is kept under the function, which must have a name, and the arguments, of which arrays count by their bytes.
        """
        what: list[Any] = [a.tobytes() if isinstance(a, np.ndarray) else a for a in arguments]
        return self.keep((make, *what), lambda: make(self, *arguments))

    def keep(self, key: PlanKey, make: Callable[[], T]) -> T:
        """Return the plan kept under ``key``, made on first use; for those that are made of more than their key."""
        return self._plans.of(key, make)

    def conditioned(self, observed: Bools) -> Layout:
        """Return the layout with these variables removed from all scopes, kept for the next evidence on them.

        Factors keep number and order. A tied factor that loses a variable gets cells of its own, because tied
        factors may then be sliced at different states.
        """
        mask = observed | self.observed
        return self.plan(Layout._condition, mask)

    def _condition(self, mask: Bools) -> Layout:
        ptr = np.zeros(self.n_factors + 1, np.int64)
        scope = np.empty(self.n_edges, np.int64)
        starts = np.empty(self.n_factors, np.int64)
        n_edges = condition_scopes(
            self.card, self.scope_ptr, self.scope_vars, self.cell_ptr, self.n_cells, mask, ptr, scope, starts
        )
        return Layout.build(self.card, ptr, scope[:n_edges], starts, mask)


def _check_scopes(card: Ints, scope_ptr: Ints, scope_vars: Ints) -> None:
    if (card < 1).any():
        v = int(np.argmax(card < 1))
        raise ModelError(f"variable {v} needs at least one state, found cardinality {card[v]}")
    if scope_vars.size and not (0 <= scope_vars.min() and scope_vars.max() < card.size):
        bad = scope_vars[(scope_vars < 0) | (scope_vars >= card.size)][0]
        raise ModelError(f"a scope names variable {bad}, but the model has variables 0..{card.size - 1}")
    if float(card.sum(dtype=np.float64)) > 2.0**60:
        raise BudgetError(f"the variables have {float(card.sum(dtype=np.float64)):.3g} states in all")
    f = repeated_variable(scope_ptr, scope_vars, np.full(card.size, -1, np.int64))
    if f >= 0:
        scope = tuple(int(v) for v in scope_vars[scope_ptr[f] : scope_ptr[f + 1]])
        raise ModelError(f"factor {f} has a variable twice in its scope {scope}")


def _factor_sizes(card: Ints, scope_ptr: Ints, scope_vars: Ints) -> Ints:
    """Products of cardinalities; a table too large to address is a BudgetError."""
    sizes = np.empty(scope_ptr.size - 1, np.int64)
    for piece in pieces(sizes.size):
        ptr = scope_ptr[piece.start : piece.stop + 1]
        sizes[piece] = _products(card[scope_vars[ptr[0] : ptr[-1]]], ptr - ptr[0], piece.start)
    return read_only(sizes)


def _products(card: Ints, ptr: Ints, first: int) -> Ints:
    """Products over runs of cardinalities, those of the factors from ``first`` on."""
    log2 = np.concatenate([[0.0], np.cumsum(np.log2(card))])
    bits = log2[ptr[1:]] - log2[ptr[:-1]]
    if bits.max() > 60:
        f = int(bits.argmax())
        arity = int(ptr[f + 1] - ptr[f])
        raise BudgetError(f"factor {first + f} over {arity} variables needs a table of 2^{bits[f]:.0f} cells")
    # reduceat gives the element itself on empty runs, so a leading 1 is added to every scope
    padded = np.ones(card.size + ptr.size - 1, np.int64)
    at = ptr[:-1] + np.arange(ptr.size - 1)
    keep = np.ones(padded.size, np.bool_)
    keep[at] = False
    padded[keep] = card
    sizes: Ints = np.multiply.reduceat(padded, at)
    return sizes


def _check_tied(starts: Ints, sizes: Ints) -> int:
    """Check that the runs of cells partition ``0..n_cells`` up to exact repeats; return ``n_cells``."""
    order = np.lexsort((sizes, starts))
    first, length = starts[order], sizes[order]
    new = np.ones(first.size, np.bool_)
    new[1:] = first[1:] != first[:-1]
    ends = first + length
    same = np.all(length[1:][~new[1:]] == length[:-1][~new[1:]])
    joined = np.array_equal(first[new], np.concatenate([[0], ends[new][:-1]])) if first.size else True
    if not (same and joined):
        raise ModelError("tied factors must share whole runs of cells, and runs must follow one another")
    return int(ends[-1]) if first.size else 0


def sums_to_one(theta: Floats, layout: Layout, f: int, child: int) -> bool:
    """Whether the columns of a conditional table, logs over the states of ``child``, sum to one to rounding."""
    shape, axis = layout.shape(f), layout.scope(f).tolist().index(child)
    table = np.exp(theta[layout.cells(f)]).reshape(-1, shape[axis], math.prod(shape[axis + 1 :]))
    return bool(np.abs(table.sum(axis=1) - 1).max() < _ROUNDING)
