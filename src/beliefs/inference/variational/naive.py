r"""The naive mean field: every variable on its own, :math:`q(x) = \prod_v \mu_v(x_v)`.

Three ways to do the same update, chosen by the model: binary pairwise models in log-odds, pairwise models of one
cardinality vertex by vertex, and everything else (other arities, mixed cardinalities, hard zeros) factor by factor.
They agree to rounding. Where tables are small, a sequential sweep of pairwise models takes neighbours in their turn but
others out of it, with the same result: an update need not wait for the one before it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from beliefs.inference.orders.colouring import colouring
from beliefs.inference.variational.field import Field, Orders, Run, entropy
from beliefs.kernels.mean_field.general import sweep_variables
from beliefs.kernels.mean_field.pairwise import (
    CONSTANT_WIDTHS,
    LARGEST_STATES,
    Couplings,
    Neighbours,
    pairwise_sweep,
    sweep_binary,
    sweep_ternary,
)
from beliefs.kernels.orders.list_schedule import list_schedule
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout, offsets, read_only
from beliefs.model.pieces import pieces
from beliefs.typing import Bools, Floats, Ints

__all__ = ["BinaryField", "NaiveField", "PairwiseField", "naive_field"]

_SMALL = 4  # states: the exponentials of larger variables are soon enough behind their tables
_DELAY = 3  # places between neighbours in a sweep, as many updates as a processor has under way


def neighbours(layout: Layout) -> Neighbours:
    """Return the factors of two variables by vertex, kept with the layout; there are none of more."""
    return layout.plan(_neighbours)


def _neighbours(layout: Layout) -> Neighbours:
    n_entries = 2 * int((layout.arity == 2).sum())
    nbr, cell = np.empty((2, n_entries), np.int64)
    is_first, degree = np.empty(n_entries, np.bool_), layout.degree.copy()
    alone = layout.scope_ptr[:-1][layout.arity == 1]
    np.subtract.at(degree, layout.scope_vars[alone], 1)
    end = 0
    for piece in pieces(layout.n_edges):
        edges = layout.var_edges[piece]
        factor = layout.edge_factor[edges]
        edges, factor = edges[layout.arity[factor] == 2], factor[layout.arity[factor] == 2]
        here = slice(end, end := end + edges.size)
        is_first[here] = edges == layout.scope_ptr[factor]
        nbr[here] = layout.state_ptr[layout.scope_vars[np.where(is_first[here], edges + 1, edges - 1)]]
        cell[here] = layout.cell_ptr[factor]
    if layout.tied:  # equal tables side by side, so that their neighbours are added up before the table is read
        order = np.lexsort((is_first, cell, np.repeat(np.arange(layout.n_vars), degree)))
        nbr, cell, is_first = nbr[order], cell[order], is_first[order]
    ptr = read_only(offsets(degree))
    return Neighbours(layout.state_ptr, ptr, read_only(nbr), read_only(cell), read_only(is_first))


class NaiveField(Field):
    """Products of marginals on any model."""

    def __init__(self, graph: FactorGraph, hard: Bools, schedule: str) -> None:
        super().__init__(graph, hard)
        layout = graph.layout
        joins = np.bincount(layout.edge_factor, layout.card[layout.scope_vars] > 1, minlength=layout.n_factors)
        self.exact = not (joins > 1).any()
        self.orders = _orders(layout, schedule)

    def update(self, items: Ints, run: Run) -> int:
        """Update these variables one after the other."""
        lay, logs = self.graph.layout, np.empty(self.widest)
        return sweep_variables(
            items, True, lay.scopes, lay.adjacency, self.potentials, self._scratch(), logs, run.product
        )  # fmt: skip

    def value(self, run: Run) -> float:
        """Return the expected score plus the entropies of all variables."""
        lay = self.graph.layout
        score = self._score(_all_factors(lay), lay.scopes, run)
        return score + float(entropy(run.mu).sum())

    def tables(self, run: Run) -> Floats:
        """Return products of marginals."""
        lay = self.graph.layout
        tables = np.empty(int(lay.table_ptr[-1]))
        self._products(_all_factors(lay), lay.scopes, run, tables)
        return tables


class BinaryField(NaiveField):
    """Products of marginals on binary pairwise models without hard zeros."""

    def __init__(self, graph: FactorGraph, hard: Bools, schedule: str) -> None:
        super().__init__(graph, hard, schedule)
        self.orders = _pairwise_orders(graph.layout, schedule)
        self.near = neighbours(graph.layout)
        self.couplings = _couplings(graph, self.near)

    def update(self, items: Ints, run: Run) -> int:
        """Update these variables one after the other, in log-odds."""
        return sweep_binary(items, self.couplings, run.mu)

    @classmethod
    def n_bytes(cls, layout: Layout, hard: Bools, runs: int) -> float:
        """Predict the memory of the marginals, who touches whom, the neighbours and their couplings."""
        return _incidence_bytes(layout, 4.1) + 8.0 * layout.n_states * (2 * runs + 2)


def _couplings(graph: FactorGraph, near: Neighbours) -> Couplings:
    """Return the pairs of a binary model in log-odds."""
    layout, t = graph.layout, graph.theta
    alone = np.flatnonzero(layout.arity == 1)
    start = layout.cell_ptr[alone]
    terms = t[start + 1] - t[start]
    field = np.bincount(layout.scope_vars[layout.scope_ptr[alone]], terms, layout.n_vars).astype(np.float64)
    coupling = np.empty(near.cell.size)
    for piece in pieces(near.cell.size):
        c = near.cell[piece]
        vertex = np.searchsorted(near.ptr, np.arange(piece.start, piece.stop), side="right") - 1
        lift = np.where(near.is_first[piece], t[c + 2], t[c + 1]) - t[c]  # where the neighbour is in its first state
        np.add.at(field, vertex, lift)
        coupling[piece] = (t[c + 3] - t[c + 2]) - (t[c + 1] - t[c])
    second = read_only(near.nbr + 1)
    return Couplings(near.state_ptr, near.ptr, second, read_only(coupling), read_only(field))


class PairwiseField(NaiveField):
    """Products of marginals on pairwise models of one cardinality without hard zeros."""

    def __init__(self, graph: FactorGraph, hard: Bools, schedule: str) -> None:
        super().__init__(graph, hard, schedule)
        layout = graph.layout
        self.near = neighbours(layout)
        self.n_states = int(layout.card[layout.scope_vars[0]])
        if self.n_states <= _SMALL:
            self.orders = _pairwise_orders(layout, schedule)
        self.kernel = _sweep(self.n_states)
        alone = np.flatnonzero(layout.arity == 1)
        states = np.arange(self.n_states)
        where = layout.state_ptr[layout.scope_vars[layout.scope_ptr[alone]]][:, None] + states
        potentials = graph.theta[layout.cell_ptr[alone][:, None] + states]
        unary = np.bincount(where.ravel(), potentials.ravel(), layout.n_states)
        self.unary: Floats = unary.astype(np.float64)  # as the adjoints, so that kernels of both are compiled once

    def update(self, items: Ints, run: Run) -> int:
        """Update these variables one after the other."""
        return self.kernel(items, self.n_states, self.near, self.unary, self.theta, run.mu)

    @classmethod
    def n_bytes(cls, layout: Layout, hard: Bools, runs: int) -> float:
        """Predict the memory of the marginals, who touches whom, the neighbours and the unary potentials."""
        return _incidence_bytes(layout, 2.1) + 8.0 * layout.n_states * (2 * runs + 4)


def _incidence_bytes(layout: Layout, entries: float) -> float:
    """Predict the memory of the edges at each variable, the order and, an entry, so many numbers of neighbours."""
    links = 2.0 * float((layout.arity == 2).sum())
    return 8.0 * (2.0 * layout.n_edges + 2.0 * layout.n_factors + 10.0 * layout.n_vars + entries * links)


def naive_field(layout: Layout, hard: Bools) -> type[NaiveField]:
    """Return the quickest way to update products of marginals on this model."""
    if hard.any() or not layout.n_edges or not layout.is_pairwise:
        return NaiveField
    card = layout.card[layout.scope_vars]
    if card.min() < card.max() or not 2 <= card[0] <= LARGEST_STATES:
        return NaiveField
    return BinaryField if card[0] == 2 else PairwiseField


def _sweep(n_states: int) -> Callable[..., int]:
    """Return the kernel for pairs of variables with so many states, three or more."""
    width = -(-n_states // 4) * 4
    return sweep_ternary if n_states == 3 else pairwise_sweep(width if width in CONSTANT_WIDTHS else 0)


def _orders(layout: Layout, schedule: str) -> Orders:
    """Return the order of updates; observed variables and those without factors have nothing to update."""
    return layout.plan(_raster if schedule == "sequential" else _coloured)


def _pairwise_orders(layout: Layout, schedule: str) -> Orders:
    """Return orders with the results of :func:`_orders`, in which an update seldom needs the one before it."""
    if schedule != "sequential":
        return _orders(layout, schedule)
    return layout.plan(_interleaved)


def _raster(layout: Layout) -> Orders:
    return Orders.raster(np.flatnonzero(layout.degree > 0))


def _interleaved(layout: Layout) -> Orders:
    items = read_only(np.flatnonzero(layout.degree > 0))
    order = np.empty(items.size, np.int64)
    list_schedule(items, _DELAY, layout.scopes, layout.adjacency, order)
    return Orders.raster(order)


def _coloured(layout: Layout) -> Orders:
    colours = colouring(layout)
    kept = layout.degree[colours.order] > 0
    before = offsets(kept)
    return Orders.coloured(colours.order[kept], before[colours.colour_ptr])


def _all_factors(layout: Layout) -> Ints:
    factors: Ints = read_only(np.arange(layout.n_factors))
    return factors
