"""Adjoints of the three ways to update a naive mean field: binary pairs, pairs of one cardinality, and any factors.

An :class:`Adjoints` is one way back: it begins with the gradient in the final marginals, undoes sweeps one after the
other (or, at a fixed point, iterates with the marginals held), and in the end has the gradient in ``theta``. See
:mod:`beliefs.kernels.adjoints.mean_field` for the formulas.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from beliefs.inference.variational.naive import BinaryField, NaiveField, PairwiseField
from beliefs.kernels.adjoints.mean_field import (
    ProductAdjoint,
    add_outer_products,
    add_single_tables,
    adjoint_binary,
    adjoint_variables,
    spread_binary,
)
from beliefs.kernels.adjoints.mean_field_pairwise import (
    SWEEPS_AT_ONCE,
    add_pair_products,
    add_ternary_products,
    adjoint_ternary,
    pairwise_adjoint,
)
from beliefs.kernels.mean_field.pairwise import CONSTANT_WIDTHS
from beliefs.model.layout import Layout, read_only
from beliefs.typing import Bools, Floats, Ints

__all__ = ["Adjoints", "adjoints"]


class Adjoints(ABC):
    """One way back through the sweeps of a field; ``bar (n_states,)`` is the gradient in the final marginals."""

    def __init__(self, field: NaiveField, mu: Floats, bar: Floats) -> None:
        self.field, self.layout = field, field.graph.layout
        self.mu, self.grad = mu, np.zeros(self.layout.n_cells)
        self._begin(bar)

    def undo(self, sweep: int, before: Floats, after: Floats) -> None:
        """Undo one sweep, that led from the marginals ``before`` to those ``after``; the last one comes first."""
        for items in self._backwards(sweep):
            self._undo(items, before, after)

    def settle(self) -> float:
        """Take one step of the adjoint iteration with the marginals held; return the largest change."""
        return max((self._settle(items) for items in self._backwards(0)), default=0.0)

    @abstractmethod
    def gradient(self, *, held: bool) -> Floats:
        """Return the gradient ``(n_cells,)`` once all sweeps are undone, or all adjoints settled."""

    @abstractmethod
    def _begin(self, bar: Floats) -> None: ...

    @abstractmethod
    def _undo(self, items: Ints, before: Floats, after: Floats) -> None: ...

    @abstractmethod
    def _settle(self, items: Ints) -> float: ...

    def _backwards(self, sweep: int) -> Sequence[Ints]:
        """Return the updates of a sweep, last first; sweeps go forward and backward in turn, the first forward."""
        orders = self.field.orders
        if orders.parallel:  # the order within a colour does not matter
            return list(reversed(orders.forward))
        return orders.backward if sweep % 2 == 0 else orders.forward

    def _add_unary(self, totals: Floats) -> None:
        """Add the gradient of factors of one variable: the sum of its variable's adjoints."""
        add_single_tables(self.layout.scopes, totals, self.grad)


class GeneralAdjoints(Adjoints):
    """Factors of any arity, mixed cardinalities, hard zeros."""

    def _begin(self, bar: Floats) -> None:
        lay = self.layout
        self.adjoint = ProductAdjoint(self.mu.copy(), bar.copy(), np.zeros(lay.n_states), self.grad)
        self.buffer = np.empty(room(lay))

    def _undo(self, items: Ints, before: Floats, after: Floats) -> None:
        self._back(items, before, held=False)

    def _settle(self, items: Ints) -> float:
        return self._back(items, self.mu, held=True)

    def _back(self, items: Ints, before: Floats, *, held: bool) -> float:
        lay = self.layout
        return adjoint_variables(
            items, held, lay.scopes, lay.adjacency, self.field.theta, before, self.buffer, self.adjoint
        )  # fmt: skip

    def gradient(self, *, held: bool) -> Floats:
        """Return the gradient; products with held marginals are made here."""
        lay = self.layout
        if held:
            for items in self._backwards(0):
                add_outer_products(items, lay.scopes, lay.adjacency, self.buffer, self.adjoint)
        self._add_unary(self.adjoint.totals)
        return self.grad


class BinaryAdjoints(Adjoints):
    """Binary pairs without hard zeros: one number a vertex and one a neighbour."""

    field: BinaryField

    def _begin(self, bar: Floats) -> None:
        moving = self._moving()
        self.slope = np.zeros(self.field.couplings.coupling.size)
        self.totals = self.mu.copy()  # (N, q) of each variable that is updated
        self.totals[moving] = 0.0
        self.shift = np.zeros(self.layout.n_vars)
        self.shift[self.layout.degree > 0] = bar[moving + 1] - bar[moving]

    def _moving(self) -> Ints:
        """The first states of variables that are updated."""
        return self.layout.state_ptr[:-1][self.layout.degree > 0]

    def _undo(self, items: Ints, before: Floats, after: Floats) -> None:
        self._back(items, after, before, held=False)

    def _settle(self, items: Ints) -> float:
        return self._back(items, self.mu, self.mu, held=True)

    def _back(self, items: Ints, after: Floats, before: Floats, *, held: bool) -> float:
        return adjoint_binary(
            items, held, self.field.couplings, after, before, self.shift, self.totals, self.slope
        )  # fmt: skip

    def gradient(self, *, held: bool) -> Floats:
        """Spread what belongs to log-odds over the cells of pairs and of single variables."""
        lay, near = self.layout, self.field.near
        moving = self._moving()
        total = self.totals[moving]
        slope = self.slope
        if held:
            own = self.totals[np.repeat(lay.state_ptr[:-1], np.diff(near.ptr))]
            slope = own * self.mu[self.field.couplings.second]
        spread_binary(near, slope, self.totals, self.grad)
        totals = np.zeros(lay.n_states)
        totals[moving], totals[moving + 1] = -total, total
        self._add_unary(totals)
        return self.grad


class PairwiseAdjoints(Adjoints):
    """Pairs of variables with one cardinality, without hard zeros."""

    field: PairwiseField

    def _begin(self, bar: Floats) -> None:
        lay, n = self.layout, self.field.n_states
        self.shift, self.totals = bar.copy(), np.zeros(lay.n_states)
        self.marks, self.steps = np.empty((SWEEPS_AT_ONCE + 1, lay.n_states)), np.empty((SWEEPS_AT_ONCE, lay.n_states))
        self.place, self.first = SWEEPS_AT_ONCE, 0  # rows from here on are of sweeps not yet in the gradient
        width = -(-n // 4) * 4
        self.kernel = adjoint_ternary if n == 3 else pairwise_adjoint(width if width in CONSTANT_WIDTHS else 0)
        orders = self.field.orders
        self.early = lay.keep((PairwiseAdjoints._early, orders.parallel), self._early)

    def _early(self) -> Bools:
        """Tell for each entry whether the neighbour is updated before the vertex in a forward sweep."""
        lay, near = self.layout, self.field.near
        place = np.empty(lay.n_vars, np.int64)
        moving = np.concatenate([np.zeros(0, np.int64), *self.field.orders.forward])
        place[moving] = np.arange(moving.size)
        vertex = np.repeat(np.arange(lay.n_vars), np.diff(near.ptr))
        neighbour = np.searchsorted(lay.state_ptr, near.nbr, "right") - 1
        return read_only(place[neighbour] < place[vertex])

    def undo(self, sweep: int, before: Floats, after: Floats) -> None:
        """Undo a sweep; the products of several are added to the tables together."""
        if self.place == 0:
            self._flush()
        if self.place == SWEEPS_AT_ONCE:
            self.marks[SWEEPS_AT_ONCE] = after
        self.place, self.first = self.place - 1, sweep
        self.marks[self.place] = before
        super().undo(sweep, before, after)

    def _flush(self) -> None:
        self._add_products(self.marks[self.place :], self.steps[self.place :], self.first)
        self.place = SWEEPS_AT_ONCE

    def _undo(self, items: Ints, before: Floats, after: Floats) -> None:
        self._back(items, after, held=False)

    def _settle(self, items: Ints) -> float:
        return self._back(items, self.mu, held=True)

    def _back(self, items: Ints, after: Floats, *, held: bool) -> float:
        field, steps = self.field, self.steps[min(self.place, SWEEPS_AT_ONCE - 1)]
        return self.kernel(
            items, held, field.n_states, field.near, field.theta, after, self.shift, self.totals, steps
        )  # fmt: skip

    def _add_products(self, marks: Floats, steps: Floats, first: int) -> None:
        near, n = self.field.near, self.field.n_states
        along = (np.arange(first, first + len(steps)) % 2 == 0) | self.field.orders.parallel
        add = add_ternary_products if n == 3 else add_pair_products
        if n > 3:
            marks, steps = marks.ravel(), steps.ravel()
        for items in self.field.orders.forward:
            add(items, n, near, self.early, along, marks, steps, self.grad)

    def gradient(self, *, held: bool) -> Floats:
        """Return the gradient; products with held marginals are those of one sweep."""
        if held:
            self._add_products(np.stack([self.mu, self.mu]), self.totals[None].copy(), 0)
        else:
            self._flush()
        self._add_unary(self.totals)
        return self.grad


def adjoints(field: NaiveField, mu: Floats, bar: Floats) -> Adjoints:
    """Begin the way back that fits the field."""
    if isinstance(field, BinaryField):
        return BinaryAdjoints(field, mu, bar)
    return (PairwiseAdjoints if isinstance(field, PairwiseField) else GeneralAdjoints)(field, mu, bar)


def room(layout: Layout) -> int:
    """Return the scratch that products over any factor need."""
    return int(layout.factor_size.max(initial=1)) + int(layout.card.max(initial=1))
