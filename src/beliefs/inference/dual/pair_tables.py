"""Split tables of pairwise models, by :mod:`beliefs.kernels.dual.pairs.sums`: the same steps, many times faster."""

from __future__ import annotations

from queue import Empty, SimpleQueue

import numpy as np

from beliefs.inference.clusters.junction_graph import JunctionGraph
from beliefs.inference.dual.state import DualWarmStart, Gradients, SplitTables
from beliefs.kernels.dual.pairs.maxima import absorb_shifts, node_values, pair_values, update_max_pairs
from beliefs.kernels.dual.pairs.sums import update_pairs
from beliefs.kernels.dual.structure import (
    CLUSTER,
    COLUMNS,
    COUPLED,
    KIND,
    LATER,
    OTHER_SHIFT,
    OTHER_WEIGHT,
    OWN_SHIFT,
    OWN_WEIGHT,
    POOLED,
    RECORD,
    TABLE,
    BlockOptions,
    PairMemory,
    PairWorkspace,
)
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import offsets
from beliefs.typing import Bools, Floats, Ints

__all__ = ["PairTables", "scratch_bytes"]

_SPARE = 4  # entries: kernels take four columns at a time
_LINE = 8  # entries of a line of the cache: vectors do not cross two
_ARRAYS = PairWorkspace._fields.index("proposed") + 1  # what follows are numbers


def pair_memory(graph: JunctionGraph) -> PairMemory:
    """Return memory for one thread's updates."""
    begin = _begins(graph)
    memory = np.zeros(int(begin[-1]) + _LINE)
    begin += -(memory.ctypes.data // memory.itemsize) % _LINE
    begin.setflags(write=False)
    return PairMemory(memory, begin)


def scratch_bytes(graph: JunctionGraph) -> float:
    """Return the size of one thread's memory."""
    return 8.0 * float(_begins(graph)[-1])


def _begins(graph: JunctionGraph) -> Ints:
    """Return where the arrays of one thread's memory begin, and their end."""
    n_links, card = np.diff(graph.links.ptr), graph.separators.card
    owner = np.repeat(np.arange(card.size), n_links)
    other = graph.clusters.card[_other_axis(graph)]
    cells = int(np.bincount(owner, graph.link_width * other, card.size).max(initial=1))
    columns = int(np.bincount(owner, other, card.size).max(initial=1))
    widest, rows = int(card.max(initial=1)), int((n_links * card).max(initial=1))
    terms = int(n_links.max(initial=0)) + 1
    sizes = {
        "e": 2 * cells + 8, "tops": 2 * columns + 8, "entropy": terms, "held": terms, "proposed": terms,
        **dict.fromkeys(("g", "direction", "mu", "fresh"), rows),
    }  # fmt: skip
    room = [sizes.get(name, widest) + _SPARE for name in PairWorkspace._fields[:_ARRAYS]]
    return offsets(-(-np.array(room) // _LINE) * _LINE)


class PairTables(SplitTables):
    """Tables of two variables each, with the shifts of both kept beside them until the tables are asked for."""

    def __init__(
        self, model: FactorGraph, graph: JunctionGraph, tau: Floats, floor: float, spread: float | None = None
    ) -> None:
        super().__init__(model, graph, tau, floor, spread)
        self.shift = np.zeros(int(graph.link_width.sum()) + _SPARE)
        self.record = _records(graph, self.coupled)
        self._spare_pairs: SimpleQueue[PairMemory] = SimpleQueue()
        self._summed = bool((tau[graph.separators.var] > 0).any())
        self._none = np.zeros(int(graph.clusters.card.max(initial=1)))
        self._sums = np.empty(self._none.size + _SPARE)

    @staticmethod
    def fits(graph: JunctionGraph) -> bool:
        """Whether all clusters have two variables and all separators one."""
        return bool((np.diff(graph.clusters.ptr) == 2).all() and (np.diff(graph.separators.ptr) == 1).all())

    def absorb(self) -> None:
        """Move all shifts to the tables."""
        absorb_shifts(self.graph.separators.card, self.graph.links.ptr, self.record, self.shift, self.tables)

    def value(self) -> float:
        """Return the bound at the present iterate."""
        self.absorb()
        state = self.state
        pair_values(self.graph.clusters, state.weight, state.tables, self._none, self._sums, self.values)
        return self.constant + float(self.values.sum()) + self.separator_values()

    def separator_values(self) -> float:
        """Return the variables' terms of the bound."""
        node_values(self.graph.separators.cell, self.state.sep_weight, self.state.sep_tables, self.sep_values)
        return float(self.sep_values.sum())

    def gradients(self, *, of_clusters: bool = True) -> Gradients:
        """Return beliefs and entropies, as for all tables."""
        self.absorb()
        return super().gradients(of_clusters=of_clusters)

    def decoded(self) -> Ints:
        """Return a joint state read off all tables."""
        self.absorb()
        return super().decoded()

    def warm_start(self, recent: tuple[float, ...]) -> DualWarmStart:
        """Return what a warm start needs."""
        self.absorb()
        return super().warm_start(recent)

    def update(self, order: Ints, begin: int, end: int, options: BlockOptions) -> int:
        """Update the variables ``order[begin:end]`` in turn."""
        g, state = self.graph, self.state
        try:
            work = self._spare_pairs.get_nowait()
        except Empty:
            work = pair_memory(g)
        where = order, begin, end, g.separators, g.links.ptr, self.record
        if self._summed:
            update_pairs(*where, options, state, self.shift, work)
        else:
            update_max_pairs(*where, options.revisited, state, self.shift, work)
        self._spare_pairs.put(work)
        return 0


def _other_axis(graph: JunctionGraph) -> Ints:
    """Return the axis of each link's other variable."""
    other: Ints = 2 * graph.clusters.ptr[graph.links.cluster] + 1 - graph.links.first
    return other


def _records(graph: JunctionGraph, coupled: Bools) -> Ints:
    """Return the records of all links, one after the other, read-only."""
    clusters, links, n = graph.clusters, graph.links, graph.links.cluster.size
    own_at = np.cumsum(graph.link_width) - graph.link_width
    link_of = np.empty(clusters.var.size, np.int64)
    link_of[links.first] = np.arange(n)
    other = _other_axis(graph)
    later = links.first > clusters.ptr[links.cluster]
    record = np.empty((n, RECORD), np.int64)
    record[:, TABLE] = clusters.cell[links.cluster]
    record[:, KIND] = np.where(later, LATER, np.where(coupled, COUPLED, POOLED))
    record[:, OWN_SHIFT] = own_at
    record[:, OTHER_SHIFT] = own_at[link_of[other]]
    record[:, COLUMNS] = clusters.card[other]
    record[:, OWN_WEIGHT] = links.first
    record[:, OTHER_WEIGHT] = other
    record[:, CLUSTER] = links.cluster
    flat = record.reshape(-1)
    flat.setflags(write=False)
    return flat
