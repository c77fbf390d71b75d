"""Adjoints of the three ways to update a naive mean field: binary pairs, pairs of one cardinality, and any factors.

An :class:`Adjoints` is one way back: it begins with the gradient in the final marginals, undoes sweeps one after the
other (or, at a fixed point, iterates with the marginals held), and in the end has the gradient in ``theta``. See
:mod:`beliefs.kernels.back_mean_field` for the formulas.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from beliefs.inference.variational.field import read_only
from beliefs.inference.variational.naive import BinaryField, NaiveField, PairwiseField
from beliefs.kernels.back_mean_field import (
    add_outer_products,
    add_pair_products,
    back_binary,
    back_pairwise,
    back_variables,
)
from beliefs.model.layout import Layout
from beliefs.typing import Floats, Ints

__all__ = ["Adjoints", "adjoints"]

_AT_ONCE = 8  # sweeps whose products are added to a table at once: as many more marginals are held for it


class Adjoints(ABC):
    """One way back through the sweeps of a field; ``bar (n_states,)`` is the gradient in the final marginals."""

    def __init__(self, field: NaiveField, mu: Floats, bar: Floats) -> None:
        self.field, self.layout = field, field.graph.layout
        self.mu, self.grad = mu, np.zeros(self.layout.n_cells)
        self._begin(bar)

    def undo(self, marks: Sequence[Floats], first: int) -> None:
        """Undo sweeps, last first: number ``first + s`` led from ``marks[s]`` to ``marks[s + 1]``."""
        for s in range(len(marks) - 2, -1, -1):
            for items in self._backwards(first + s):
                self._undo(items, marks[s + 1], marks[s])

    def settle(self) -> float:
        """Take one step of the adjoint iteration with the marginals held; return the largest change."""
        return max((self._settle(items) for items in self._backwards(0)), default=0.0)

    @abstractmethod
    def gradient(self, *, held: bool) -> Floats:
        """Return the gradient ``(n_cells,)`` once all sweeps are undone, or all adjoints settled."""

    @abstractmethod
    def _begin(self, bar: Floats) -> None: ...

    @abstractmethod
    def _undo(self, items: Ints, after: Floats, before: Floats) -> None: ...

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
        lay = self.layout
        alone = np.flatnonzero(np.diff(lay.scope_ptr) == 1)
        owner = lay.scope_vars[lay.scope_ptr[alone]]
        card = lay.card[owner]
        within = np.arange(int(card.sum())) - np.repeat(np.cumsum(card) - card, card)
        cells, states = np.repeat(lay.cell_ptr[alone], card) + within, np.repeat(lay.state_ptr[owner], card) + within
        self.grad += np.bincount(cells, totals[states], lay.n_cells)


class GeneralAdjoints(Adjoints):
    """Factors of any arity, mixed cardinalities, hard zeros."""

    def _begin(self, bar: Floats) -> None:
        lay = self.layout
        self.bar, self.totals, self.now = bar.copy(), np.zeros(lay.n_states), self.mu.copy()
        self.buffer = np.empty(room(lay))

    def _undo(self, items: Ints, after: Floats, before: Floats) -> None:
        self._back(items, before, held=False)

    def _settle(self, items: Ints) -> float:
        return self._back(items, self.mu, held=True)

    def _back(self, items: Ints, before: Floats, *, held: bool) -> float:
        lay = self.layout
        return back_variables(
            items, held, lay.card, lay.state_ptr, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, lay.var_ptr,
            lay.var_edges, lay.edge_factor, self.field.theta, before, self.now, self.buffer, self.bar, self.totals,
            self.grad,
        )  # fmt: skip

    def gradient(self, *, held: bool) -> Floats:
        """Return the gradient; products with held marginals are made here."""
        lay = self.layout
        if held:
            for items in self._backwards(0):
                add_outer_products(
                    items, lay.card, lay.state_ptr, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, lay.var_ptr,
                    lay.var_edges, lay.edge_factor, self.totals, self.now, self.buffer, self.grad,
                )  # fmt: skip
        self._add_unary(self.totals)
        return self.grad


class BinaryAdjoints(Adjoints):
    """Binary pairs without hard zeros: one number a vertex and one a neighbour."""

    field: BinaryField

    def _begin(self, bar: Floats) -> None:
        self.slope = np.zeros(self.field.coupling.size)
        self.totals = np.where(self._firsts(), 0.0, self.mu)  # (N, q) of each variable that is updated
        odds = np.zeros(self.layout.n_vars)
        moving = np.flatnonzero(np.diff(self.layout.var_ptr) > 0)
        start = self.layout.state_ptr[moving]
        odds[moving] = bar[start + 1] - bar[start]
        self.shift = odds

    def _firsts(self) -> Floats:
        first = np.zeros(self.layout.n_states)
        first[self.layout.state_ptr[:-1]] = 1.0
        return first

    def _undo(self, items: Ints, after: Floats, before: Floats) -> None:
        self._back(items, after, before, held=False)

    def _settle(self, items: Ints) -> float:
        return self._back(items, self.mu, self.mu, held=True)

    def _back(self, items: Ints, after: Floats, before: Floats, *, held: bool) -> float:
        field = self.field
        return back_binary(
            items, held, self.layout.state_ptr, field.near.ptr, field.second, field.coupling, after, before, self.shift,
            self.totals, self.slope,
        )  # fmt: skip

    def gradient(self, *, held: bool) -> Floats:
        """Spread what belongs to log-odds over the cells of pairs and of single variables."""
        lay, near = self.layout, self.field.near
        moving = np.flatnonzero(np.diff(lay.var_ptr) > 0)
        total = np.zeros(lay.n_vars)
        total[moving] = self.totals[lay.state_ptr[moving]]
        vertex = np.repeat(np.arange(lay.n_vars), np.diff(near.ptr))
        slope = total[vertex] * self.mu[self.field.second] if held else self.slope
        rest = total[vertex] - slope  # the part that met the neighbour's first state
        own, other = np.where(near.is_first, 2, 1), np.where(near.is_first, 1, 2)
        for offset, value in ((0, -rest), (other, -slope), (own, rest), (3, slope)):
            self.grad += np.bincount(near.cell + offset, value, lay.n_cells)
        totals = np.zeros(lay.n_states)
        start = lay.state_ptr[moving]
        totals[start], totals[start + 1] = -total[moving], total[moving]
        self._add_unary(totals)
        return self.grad


class PairwiseAdjoints(Adjoints):
    """Pairs of variables with one cardinality, without hard zeros."""

    field: PairwiseField

    def _begin(self, bar: Floats) -> None:
        lay, n = self.layout, self.field.n_states
        self.shift, self.totals, self.steps = bar.copy(), np.zeros(lay.n_states), np.zeros(lay.n_states)
        self.pool, self.row = np.empty(n), np.empty(n)
        place = np.empty(lay.n_vars, np.int64)
        moving = np.concatenate([np.zeros(0, np.int64), *self.field.orders.forward])
        place[moving] = np.arange(moving.size)
        near = self.field.near
        vertex = np.repeat(np.arange(lay.n_vars), np.diff(near.ptr))
        neighbour = np.searchsorted(lay.state_ptr, near.nbr, "right") - 1
        self.early = read_only(place[neighbour] < place[vertex])

    def undo(self, marks: Sequence[Floats], first: int) -> None:
        """Undo sweeps a few at a time, and add their products to the tables together."""
        for end in range(len(marks), 1, -_AT_ONCE):
            begin = max(0, end - 1 - _AT_ONCE)
            steps = np.empty((end - 1 - begin, self.layout.n_states))
            for s in range(end - 2, begin - 1, -1):
                self.steps = steps[s - begin]
                super().undo(marks[s : s + 2], first + s)
            self._add_products(np.stack(marks[begin:end]), steps, first + begin)

    def _undo(self, items: Ints, after: Floats, before: Floats) -> None:
        self._back(items, after, held=False)

    def _settle(self, items: Ints) -> float:
        return self._back(items, self.mu, held=True)

    def _back(self, items: Ints, after: Floats, *, held: bool) -> float:
        field, near = self.field, self.field.near
        return back_pairwise(
            items, held, field.n_states, self.layout.state_ptr, near.ptr, near.nbr, near.cell, near.is_first,
            field.theta, after, self.shift, self.totals, self.steps, self.pool, self.row,
        )  # fmt: skip

    def _add_products(self, marks: Floats, steps: Floats, first: int) -> None:
        near, n = self.field.near, self.field.n_states
        scratch = np.empty((2, len(steps), n))
        along = (np.arange(first, first + len(steps)) % 2 == 0) | self.field.orders.parallel
        for items in self.field.orders.forward:
            add_pair_products(
                items, n, self.layout.state_ptr, near.ptr, near.nbr, near.cell, near.is_first, self.early, along, marks,
                steps, scratch[0], scratch[1], self.grad,
            )  # fmt: skip

    def gradient(self, *, held: bool) -> Floats:
        """Return the gradient; products with held marginals are those of one sweep."""
        if held:
            self._add_products(np.stack([self.mu, self.mu]), self.totals[None].copy(), 0)
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
