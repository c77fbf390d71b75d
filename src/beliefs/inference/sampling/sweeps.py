"""Sweeps of Gibbs sampling: the order of the variables, the tables in that order, and the threads.

Two tiers make the same draws: pairwise models with one cardinality multiply rows of tables that are laid out in the
order of the sweep; all others add up cells of their factors.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from beliefs.inference.orders.colouring import colouring
from beliefs.kernels.gibbs.general import GibbsModel, States, count_cells, gibbs_sweeps
from beliefs.kernels.gibbs.pairwise import (
    PairRows,
    count_neighbours,
    exponentiate_rows,
    gibbs_sweeps_binary,
    gibbs_sweeps_pairwise,
    orient_pairs,
    orient_tables,
    sum_unary,
)
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout, frozen_ints, offsets
from beliefs.typing import Floats, Ints

__all__ = ["Pairs", "Schedule", "Sweeper"]

_ENOUGH = 20_000  # draws: fewer are done by one thread before others have started


@dataclass(frozen=True, eq=False)
class Schedule:
    """Unobserved variables in the order of a sweep; ``blocks`` are the offsets of runs without a common factor."""

    order: Ints
    blocks: Ints

    @classmethod
    def of(cls, layout: Layout, kind: str) -> Schedule:
        """Return the schedule ``"color"`` or ``"sequential"``, kept with the layout."""
        return layout.plan(cls._plan, kind)

    @classmethod
    def _plan(cls, layout: Layout, kind: str) -> Schedule:
        hidden = np.flatnonzero(~layout.observed)
        if kind == "sequential":
            return cls(frozen_ints(hidden, "order"), frozen_ints(np.arange(hidden.size + 1), "blocks"))
        plan = colouring(layout)
        kept = ~layout.observed[plan.order]
        ends = offsets(kept)[plan.colour_ptr]
        return cls(frozen_ints(plan.order[kept], "order"), frozen_ints(np.unique(ends), "blocks"))

    @property
    def largest(self) -> tuple[int, int]:
        """Begin and end of the largest block."""
        sizes = np.diff(self.blocks)
        b = int(np.argmax(sizes)) if sizes.size else -1
        return (int(self.blocks[b]), int(self.blocks[b + 1])) if sizes.size else (0, 0)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Neighbours of each variable in the order of a schedule; see :mod:`beliefs.kernels.gibbs.pairwise`."""

    k: int
    in_ptr: Ints
    other: Ints
    rows: Ints
    source: Ints
    turned: Ints

    @classmethod
    def of(cls, layout: Layout, schedule: Schedule) -> Pairs | None:
        """Return the neighbours if the model is pairwise with one cardinality, else None; kept with the layout."""
        return layout.plan(cls._plan, schedule)

    @classmethod
    def _plan(cls, layout: Layout, schedule: Schedule) -> Pairs | None:
        order = schedule.order
        cards = layout.card[order]
        if order.size == 0 or cards.min() < cards.max() or layout.arity.max(initial=0) > 2:
            return None
        in_ptr = np.empty(order.size + 1, np.int64)
        count_neighbours(layout.scopes, layout.adjacency, order, in_ptr)
        other, source, turned = (np.empty(int(in_ptr[-1]), np.int64) for _ in range(3))
        orient_pairs(layout.scopes, layout.adjacency, order, other, source, turned)
        k, rows = int(cards[0]), np.arange(other.size)
        if layout.tied:  # one copy of each table and direction; otherwise each pair's own, in the order of the sweep
            ends, rows = np.unique(2 * source + turned, return_inverse=True)
            source, turned = ends // 2, ends % 2
        frozen = [frozen_ints(array, "neighbours") for array in (in_ptr, other, k * rows, source, turned)]
        return cls(k, *frozen)

    @staticmethod
    def n_bytes(layout: Layout) -> float:
        """Memory of the neighbours, with what making them takes, and of the turned tables: that of untied ones."""
        links = float((layout.arity == 2).sum()) * 2.0
        return 8.0 * links * (8.0 + float(layout.card.max(initial=1)) ** 2)

    def weights(self, graph: FactorGraph, order: Ints) -> PairRows:
        """Return the neighbours with the rows of all turned tables and of the unary potentials, exponentiated."""
        lay = graph.layout
        tables = np.empty(self.source.size * self.k**2)
        orient_tables(graph.theta, self.k, self.source, self.turned, tables)
        unary = np.empty((order.size, self.k))
        sum_unary(lay.scopes, lay.adjacency, graph.theta, order, unary)
        rows = tables.reshape(-1, self.k)
        exponentiate_rows(rows)
        exponentiate_rows(unary)
        return PairRows(order, self.in_ptr, self.other, self.rows, rows, unary)


class Sweeper:
    """Redraws all variables of all chains; the draws do not depend on the tier or the number of threads."""

    def __init__(
        self, graph: FactorGraph, schedule: Schedule, pairs: Pairs | None, key: np.uint64, threads: int
    ) -> None:
        self.graph, self.schedule, self.key, self.threads = graph, schedule, key, threads
        lay = graph.layout
        self.model = GibbsModel(*lay.scopes, *lay.adjacency, graph.theta, lay.edge_stride)
        self.pairs = None if pairs is None else pairs.weights(graph, schedule.order)

    def sweep(self, first: int, n_sweeps: int, keep: bool, states: States, sums: Floats) -> None:
        """Do the sweeps ``first``, ``first + 1``, ...; with ``keep``, add all conditionals to ``sums (n_states,)``."""
        blocks = self.schedule.blocks
        n_blocks = blocks.size - 1
        if self.threads == 1 or self.schedule.order.size * states.shape[1] < _ENOUGH * max(1, n_blocks):
            self._redraw(0, self.schedule.order.size, first, n_sweeps, keep, states, sums)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            for t in range(first, first + n_sweeps):
                for b in range(n_blocks):
                    cuts = np.linspace(blocks[b], blocks[b + 1], self.threads + 1).astype(int)
                    _run_ranges(
                        pool, cuts, partial(self._redraw, first=t, n_sweeps=1, keep=keep, states=states, sums=sums)
                    )

    def count(self, states: States, counts: Floats) -> None:
        """Add 1 to the cell of every factor that each chain is in, ``counts (table_ptr[-1],)``."""
        lay = self.graph.layout

        def part(begin: int, end: int) -> None:
            count_cells(lay.scope_ptr, lay.scope_vars, lay.table_ptr, lay.edge_stride, begin, end, states, counts)

        if self.threads == 1 or lay.n_factors * states.shape[1] < _ENOUGH:
            part(0, lay.n_factors)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            _run_ranges(pool, np.linspace(0, lay.n_factors, self.threads + 1).astype(int), part)

    def _redraw(
        self, begin: int, end: int, first: int, n_sweeps: int, keep: bool, states: States, sums: Floats
    ) -> None:
        if self.pairs is None:
            order = self.schedule.order
            gibbs_sweeps(self.model, order, begin, end, self.key, first, n_sweeps, keep, states, sums)
            return
        redraw = gibbs_sweeps_binary if self.pairs.unary.shape[1] == 2 else gibbs_sweeps_pairwise
        redraw(self.pairs, self.model, begin, end, self.key, first, n_sweeps, keep, states, sums)


def _run_ranges(pool: ThreadPoolExecutor, cuts: Ints, work: Callable[[int, int], None]) -> None:
    """Run ``work`` on the ranges between ``cuts`` and wait for all of them."""
    for done in [pool.submit(work, int(a), int(z)) for a, z in zip(cuts[:-1], cuts[1:])]:
        done.result()
