"""Split tables of pairwise models, by :mod:`beliefs.kernels.dual.pairs.sums`: the same steps, many times faster."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from beliefs.inference.clusters.junction_graph import JunctionGraph
from beliefs.inference.dual.state import SplitTables, Start
from beliefs.kernels.dual.pairs.maxima import absorb_shifts, node_values, pair_values, update_max_pairs
from beliefs.kernels.dual.pairs.sums import APART, LATER, POOLED, RECORD, update_pairs
from beliefs.model.graph import FactorGraph
from beliefs.typing import Bools, Floats, Ints

__all__ = ["PairTables"]

_SPARE = 4  # entries: kernels take four columns at a time


class PairScratch:
    """Memory of one thread's updates."""

    def __init__(self, graph: JunctionGraph) -> None:
        n_links, card = np.diff(graph.link_ptr), graph.sep_card
        owner = np.repeat(np.arange(card.size), n_links)
        other = graph.link_width.size and _other_card(graph)
        cells = int(np.bincount(owner, graph.link_width * other, card.size).max(initial=1))
        columns = int(np.bincount(owner, other, card.size).max(initial=1))
        widest, rows = int(card.max(initial=1)), int((n_links * card).max(initial=1))
        few = int(n_links.max(initial=0)) + 1
        sizes = (
            widest, rows, widest, 2 * cells + 8, 2 * columns + 8, widest, widest, widest, widest, widest, widest,
            widest, rows, rows, rows, few, few, few,
        )  # fmt: skip
        self.arrays: tuple[Any, ...] = tuple(np.zeros(n + _SPARE) for n in sizes)


class PairTables(SplitTables):
    """Tables of two variables each, with the shifts of both kept beside them until somebody asks for the tables."""

    def __init__(
        self, model: FactorGraph, graph: JunctionGraph, tau: Floats, floor: float, spread: float | None = None
    ) -> None:
        super().__init__(model, graph, tau, floor, spread)
        self.shift = np.zeros(int(graph.link_width.sum()) + _SPARE)
        self.record = _records(graph, self.apart)
        self._spare_pairs: SimpleQueue[PairScratch] = SimpleQueue()
        self._summed = bool((tau[graph.sep_var] > 0).any())
        self._none = np.zeros(int(graph.card.max(initial=1)))
        self._sums = np.empty(self._none.size + _SPARE)

    @staticmethod
    def fits(graph: JunctionGraph) -> bool:
        """Whether all clusters have two variables and all separators one."""
        return bool((np.diff(graph.axis_ptr) == 2).all() and (np.diff(graph.sep_ptr) == 1).all())

    def absorb(self) -> None:
        """Move all shifts to the tables."""
        g = self.graph
        absorb_shifts(g.sep_card, g.link_ptr, self.record, self.shift, self.tables)

    def value(self) -> float:
        """Return the bound at the present iterate."""
        self.absorb()
        g = self.graph
        pair_values(
            g.axis_ptr, g.card, g.cell_ptr, self.weight, self.table_room, self._none, self._sums, self.values[0]
        )
        return self.constant + float(self.values[0].sum()) + self.separator_values()

    def separator_values(self) -> float:
        """Return the variables' terms of the bound."""
        node_values(self.graph.sep_cell, self.sep_weight, self.nodes, self.values[1])
        return float(self.values[1].sum())

    def gradients(self, *, of_clusters: bool = True) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Return beliefs and entropies, as for all tables."""
        self.absorb()
        return super().gradients(of_clusters=of_clusters)

    def decoded(self) -> Ints:
        """Return a joint state read off all tables."""
        self.absorb()
        return super().decoded()

    def kept(self, recent: tuple[float, ...]) -> Start:
        """Return what a warm start needs."""
        self.absorb()
        return super().kept(recent)

    def update(self, order: Ints, ahead: Bools, begin: int, end: int, local_steps: int, moving: bool) -> int:
        """Update the variables ``order[begin:end]`` in turn."""
        g = self.graph
        try:
            work = self._spare_pairs.get_nowait()
        except Empty:
            work = PairScratch(g)
        if not self._summed:
            update_max_pairs(
                order, begin, end, g.sep_card, g.sep_cell, g.link_ptr, self.record, ahead, self.table_room, self.shift,
                self.nodes, self.drop, self.marks, *work.arrays[:3],
            )  # fmt: skip
            self._spare_pairs.put(work)
            return 0
        update_pairs(
            order, begin, end, g.sep_card, g.sep_cell, g.link_ptr, self.record, ahead, self.least, self.small,
            local_steps, moving, self.table_room, self.shift, self.weight, self.nodes, self.sep_weight, self.metric,
            self.rate, self.drop, self.marks, *work.arrays,
        )  # fmt: skip
        self._spare_pairs.put(work)
        return 0


def _other_axis(graph: JunctionGraph) -> Ints:
    """Return the axis of each link's other variable."""
    first = graph.axis_ptr[graph.link_cluster]
    other: Ints = 2 * first + 1 - graph.link_first
    return other


def _other_card(graph: JunctionGraph) -> Ints:
    return graph.card[_other_axis(graph)]


def _records(graph: JunctionGraph, apart: Bools) -> Ints:
    """Return the eight integers of each link, read-only."""
    n = graph.link_cluster.size
    own_at = np.cumsum(graph.link_width) - graph.link_width
    link_of = np.empty(graph.axis_var.size, np.int64)
    link_of[graph.link_first] = np.arange(n)
    other = _other_axis(graph)
    later = graph.link_first > graph.axis_ptr[graph.link_cluster]
    record = np.empty((n, RECORD), np.int64)
    record[:, 0] = graph.cell_ptr[graph.link_cluster]
    record[:, 1] = np.where(later, LATER, np.where(apart, APART, POOLED))
    record[:, 2] = own_at
    record[:, 3] = own_at[link_of[other]]
    record[:, 4] = graph.card[other]
    record[:, 5] = graph.link_first
    record[:, 6] = other
    record[:, 7] = graph.link_cluster
    flat = record.reshape(-1)
    flat.setflags(write=False)
    return flat
