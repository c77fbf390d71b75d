r"""The iterate of generalised dual decomposition: tables, weights, and the bound they give.

.. math:: L = \text{const} + \sum_s V_s(n_s) + \sum_c V_c(r_c), \qquad \sum_s n_s + \sum_c r_c = \theta

is an upper bound for all tables with this sum and all weights that add up to the temperatures (Theorem 3.3.1
[ping2016]). Cost shifts are not kept: moving one is subtracting it here and adding it there.
"""

from __future__ import annotations

from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from beliefs.deadline import check_time
from beliefs.inference.base import zero_probability
from beliefs.inference.clusters.junction_graph import JunctionGraph
from beliefs.inference.clusters.partition import MiniBuckets
from beliefs.inference.dual.drift import Drift
from beliefs.inference.dual.weights import initial_weights, least_weights
from beliefs.inference.parallel import in_chunks, parallel_chunks
from beliefs.kernels.dual.beliefs import cluster_chains, consensus_beliefs, decode_chains
from beliefs.kernels.dual.blocks import update_separators
from beliefs.kernels.dual.graph import load_tables, prune_states
from beliefs.kernels.dual.terms import best_states, cluster_gradients, factor_marginals, term_values
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.typing import Bools, Floats, Ints

__all__ = ["Scratch", "SplitTables", "Start", "answer_bytes", "bucket_bytes", "split_bytes"]

_WORTH_THREADS = 20_000  # cells of a level: a smaller one is over before a second thread has begun
_CHUNKS = 16
_CELLS_UNWATCHED = 100_000  # updated between two looks at the clock: tenths of a second at worst
_SPARE = 4


@dataclass(frozen=True, eq=False)
class Start:
    """What a warm start needs: the graph it belongs to, the shifts of all tables, which cells are zeros, weights."""

    graph: JunctionGraph
    tau: Floats
    tables: Floats
    nodes: Floats
    weight: Floats
    sep_weight: Floats
    metric: Floats
    rate: Floats
    n_sweeps: int
    recent: tuple[float, ...]
    moved: float


def split_bytes(graph: JunctionGraph, *, pairs: bool, joint: bool) -> float:
    """Predict the memory of split tables with weights, one thread's scratch, and what a sweep makes on the way.

    ``pairs`` adds shifts and records of :class:`PairTables`, ``joint`` the memory of a quasi-Newton method.
    """
    cells, widest = float(graph.cell_ptr[-1]), float(np.diff(graph.cell_ptr).max(initial=1))
    links, axes, seps = graph.link_cluster.size, graph.axis_var.size, graph.sep_var.size
    shifts = float((np.diff(graph.sep_cell) * np.diff(graph.link_ptr)).sum())
    numbers = cells + 2.0 * float(graph.sep_cell[-1]) + graph.stride.size + axes + 1.4 * links + 6.0 * seps
    numbers += 3.0 * graph.n_clusters + 6.0 * graph.n_separators + 12.0 * widest
    numbers += shifts + 8.0 * links if pairs else 0.0
    numbers += 2.0 * cells + 30.0 * (shifts + axes + seps) if joint else 0.0
    return 8.0 * numbers


def answer_bytes(graph: JunctionGraph, layout: Layout, *, marginals: bool) -> float:
    """Predict the memory of the answer: marginals and the steps they are read off, and what a warm start keeps."""
    kept = 1.2 * float(graph.cell_ptr[-1]) + graph.axis_var.size + graph.link_cluster.size
    if not marginals:
        return 8.0 * kept
    steps = float(graph.chains[0][-1])
    return 8.0 * (float(layout.table_ptr[-1]) + max(kept, steps) + 3.0 * layout.n_states)


def bucket_bytes(buckets: MiniBuckets) -> float:
    """Predict the memory of a run on mini-buckets before their graph is made.

    A cell of a cluster comes in its table, in the steps of its power sum or what is kept, and twice, a K-th part of it,
    in separators; a tenth is for weights and the graph.
    """
    states = float(np.exp2(np.log2(buckets.card).mean())) if buckets.card.size else 1.0
    steps = states / (states - 1.0) if states > 1.0 else 1.2
    return 8.8 * buckets.n_cells * (1.0 + max(1.2, min(steps, 2.0)) + 2.0 / states)


class Scratch:
    """Memory of one thread's block updates, allocated once."""

    def __init__(self, graph: JunctionGraph) -> None:
        width = np.diff(graph.sep_cell)
        n_links, n_axes = np.diff(graph.link_ptr), np.diff(graph.sep_ptr)
        largest = int(max(np.diff(graph.cell_ptr).max(initial=1), width.max(initial=1)))
        reduced = np.bincount(np.repeat(np.arange(width.size), n_links), graph.link_size, width.size)
        rows, heads = int((n_links * width).max(initial=1)), int(((n_links + 1) * n_axes).max(initial=1))
        widest = int(np.diff(graph.axis_ptr).max(initial=1))
        room, wide = int(max(reduced.max(initial=1), largest)), int(width.max(initial=1))
        self.index = np.empty(room, np.int64)
        self.axes, self.strides = np.empty(heads, np.int64), np.empty(widest, np.int64)
        self.h = np.empty(room)
        self.z, self.p, self.total = np.empty(2 * largest + 1), np.empty(2 * largest + 1), np.empty(largest)
        self.belief, self.pooled = np.empty(2 * wide), np.empty(wide)
        self.trial_pooled, self.push = np.empty(wide), np.empty(wide)
        self.rows = [np.empty(rows) for _ in range(5)]
        self.heads = [np.empty(heads + widest) for _ in range(3)]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays in the order in which the kernel takes them."""
        return (
            self.index, self.axes, self.h, self.z, self.p, self.total, self.belief, self.pooled, self.trial_pooled,
            self.push, *self.rows, *self.heads,
        )  # fmt: skip


class SplitTables:
    """Cluster and separator tables with their weights, and the block updates on them."""

    def __init__(
        self, model: FactorGraph, graph: JunctionGraph, tau: Floats, floor: float, spread: float | None = None
    ) -> None:
        self.model, self.graph, self.tau = model, graph, tau
        self.stride = graph.stride.copy()  # writeable, as the kernels' own strides are
        n_cells = int(graph.cell_ptr[-1])
        self.table_room = np.zeros(n_cells + _SPARE)  # some kernels read four cells at a time
        self.tables = self.table_room[:n_cells]
        self.nodes = np.zeros(int(graph.sep_cell[-1]))
        self.scratch = Scratch(graph)
        least = least_weights(graph, tau, floor)
        self.weight, self.sep_weight = initial_weights(graph, tau, least, spread)
        self.least, self.apart = least[graph.sep_var], graph.apart(tau)
        self.small = 0.1 * tau[graph.sep_var]
        self.small.setflags(write=False)
        self.least.setflags(write=False)
        self.apart.setflags(write=False)
        self.pool_weight, self.matched = np.zeros(self.sep_weight.size), np.zeros(self.sep_weight.size)
        several = np.repeat(np.diff(graph.sep_ptr) > 1, np.diff(graph.link_ptr))
        self.metric = np.where(several, 0.5, np.maximum(0.5 * self.weight[graph.link_first], 1e-3))
        self.rate, self.drop = np.ones(graph.n_separators), np.zeros(graph.n_separators)
        self.values = np.empty(graph.n_clusters), np.empty(graph.n_separators)
        self.constant = self._load(self.tables, self.nodes)
        self._spare: SimpleQueue[Scratch] = SimpleQueue()
        self._spare.put(self.scratch)
        self._orders: dict[bool, tuple[Ints, Ints, Bools]] = {}
        self.n_sweeps = 0
        self.marks = self.nodes.copy()
        self.drift = Drift(self)

    def absorb(self) -> None:
        """Bring the tables up to date: here they always are."""

    def _load(self, tables: Floats, nodes: Floats) -> float:
        """Lay the model's potentials out and remove states that cannot be; return the constant factors."""
        lay, g, work = self.model.layout, self.graph, self.scratch
        constant = float(load_tables(
            lay.scope_ptr, lay.scope_vars, lay.card, lay.cell_ptr, self.model.theta, g.home, g.node, g.axis_ptr,
            g.axis_var, g.card, g.cell_ptr, g.sep_cell, work.index, work.strides, tables, nodes,
        ))  # fmt: skip
        possible = constant > -np.inf
        if possible and (self.model.theta == -np.inf).any():
            wide = int(np.diff(g.sep_cell).max(initial=1))
            possible = prune_states(
                g.axis_ptr, g.card, g.cell_ptr, g.sep_cell, g.link_ptr, g.link_cluster, g.link_step, self.stride,
                work.index, np.empty(wide, np.bool_), np.empty(wide, np.bool_), tables, nodes,
            )  # fmt: skip
        if not possible:
            raise zero_probability(self.model)
        return constant

    # -- warm starts ------------------------------------------------------------------------------------------------
    def kept(self, recent: tuple[float, ...]) -> Start:
        """Return the shifts of all tables (``-inf`` at zeros), and the weights."""
        tables, nodes = np.zeros(self.tables.size), np.zeros(self.nodes.size)
        self._load(tables, nodes)
        for now, loaded in ((self.tables, tables), (self.nodes, nodes)):
            np.subtract(now, loaded, out=loaded, where=loaded > -np.inf)
        return Start(
            self.graph, self.tau, tables, nodes, self.weight.copy(), self.sep_weight.copy(), self.metric.copy(),
            self.rate.copy(), self.n_sweeps, recent, self.drift.moved,
        )  # fmt: skip

    def resume(self, warm: Start) -> bool:
        """Go on from earlier shifts and weights; return whether they fit this graph and its zeros."""
        same = warm.graph is self.graph or warm.graph.equals(self.graph)
        if not (same and np.array_equal(warm.tau, self.tau)):
            return False
        for now, before in ((self.tables, warm.tables), (self.nodes, warm.nodes)):
            if not np.array_equal(now == -np.inf, before == -np.inf):
                return False
        for now, before in ((self.tables, warm.tables), (self.nodes, warm.nodes)):
            now += np.where(before == -np.inf, 0.0, before)
        self.weight[:], self.sep_weight[:] = warm.weight, warm.sep_weight
        self.metric[:], self.rate[:], self.n_sweeps = warm.metric, warm.rate, warm.n_sweeps
        self.drift.moved += warm.moved
        return True

    def rounded(self) -> Ints:
        """Return the maximiser of each variable's pooled table at its last update; ties go to the first."""
        states = np.maximum(self.model.evidence_states, 0)
        best_states(self.graph.node, self.graph.sep_cell, self.marks, states)
        return states

    # -- the bound --------------------------------------------------------------------------------------------------
    def value(self) -> float:
        """Return the bound at the present iterate."""
        g, work = self.graph, self.scratch
        scratch = (work.z, work.p, work.total)
        term_values(g.axis_ptr, g.card, g.cell_ptr, self.weight, self.tables, *scratch, self.values[0])
        return self.constant + float(self.values[0].sum()) + self.separator_values()

    def separator_values(self) -> float:
        """Return the separators' terms of the bound."""
        g, work = self.graph, self.scratch
        scratch = (work.z, work.p, work.total)
        term_values(g.sep_ptr, g.sep_card, g.sep_cell, self.sep_weight, self.nodes, *scratch, self.values[1])
        return float(self.values[1].sum())

    def gradients(self, *, of_clusters: bool = True) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Return beliefs and entropies of clusters, of separators, and weights times beliefs for each variable."""
        g, work, lay = self.graph, self.scratch, self.model.layout
        scratch = (work.z, work.p, work.total)
        beliefs, entropies = np.empty_like(self.tables), np.empty_like(self.weight)
        of_seps, sep_entropies = np.empty_like(self.nodes), np.empty_like(self.sep_weight)
        mu_var = np.zeros(lay.n_states)
        if of_clusters:
            cluster_gradients(
                g.axis_ptr, g.axis_var, g.card, g.cell_ptr, self.weight, lay.state_ptr, self.tables, *scratch,
                beliefs, entropies, mu_var,
            )  # fmt: skip
        cluster_gradients(
            g.sep_ptr, g.sep_var, g.sep_card, g.sep_cell, self.sep_weight, lay.state_ptr, self.nodes, *scratch,
            of_seps, sep_entropies, mu_var,
        )  # fmt: skip
        return beliefs, entropies, of_seps, sep_entropies, mu_var

    def marginals(self) -> tuple[Floats, Floats]:
        """Return the beliefs of variables and of factors, normalised; observed variables have zeros."""
        lay, g, work = self.model.layout, self.graph, self.scratch
        mu_var = self.gradients(of_clusters=False)[4]
        level, var_ptr, var_axes = g.chains
        chains = self._chains(in_logs=False)
        consensus_beliefs(
            g.order, g.axis_ptr, g.axis_cluster, g.card, self.weight, var_ptr, var_axes, level, lay.state_ptr,
            np.empty(int(lay.card.max(initial=1))), chains, mu_var,
        )  # fmt: skip
        mu_factor = np.empty(int(lay.table_ptr[-1]))
        begin = np.append(level[:-1], 0)[g.axis_ptr[:-1]]
        factor_marginals(
            lay.scope_ptr, lay.scope_vars, lay.card, lay.table_ptr, g.home, lay.state_ptr, g.axis_ptr, g.axis_var,
            g.card, begin, chains, mu_var, work.index, work.strides, mu_factor,
        )  # fmt: skip
        return mu_var, mu_factor

    def decoded(self) -> Ints:
        """Return a joint state, variable after variable from the last eliminated to the first, each given those."""
        g = self.graph
        level, var_ptr, var_axes = g.chains
        states = np.maximum(self.model.evidence_states, 0)
        decode_chains(
            g.order, g.axis_ptr, g.axis_var, g.axis_cluster, g.card, var_ptr, var_axes, level, g.node, g.sep_cell,
            self._chains(in_logs=True), self.nodes, np.empty(int(self.model.layout.card.max(initial=1))), states,
        )  # fmt: skip
        return states

    def _chains(self, *, in_logs: bool) -> Floats:
        """Return the steps of all clusters' power sums: conditionals, or in logs the tables they come from."""
        g, work = self.graph, self.scratch
        chains = np.empty(int(g.chains[0][-1]))
        scratch = (work.z, work.p, work.total)
        cluster_chains(g.axis_ptr, g.card, g.cell_ptr, self.weight, self.tables, *scratch, g.chains[0], in_logs, chains)
        return chains

    # -- block updates ----------------------------------------------------------------------------------------------
    def update(self, order: Ints, ahead: Bools, begin: int, end: int, local_steps: int, moving: bool) -> int:
        """Update the separators ``order[begin:end]`` in turn."""
        g = self.graph
        try:
            work = self._spare.get_nowait()
        except Empty:
            work = Scratch(g)
        update_separators(
            order, begin, end, g.axis_ptr, g.card, g.cell_ptr, g.sep_ptr, g.sep_card, g.sep_cell, g.link_ptr,
            g.link_cluster, g.link_first, g.link_step, g.link_size, self.apart, ahead, self.stride, self.least,
            self.small, local_steps, moving, self.tables, self.weight, self.nodes, self.sep_weight, self.pool_weight,
            self.matched, self.metric, self.rate, self.drop, self.marks, *work.arrays,
        )  # fmt: skip
        self._spare.put(work)
        return 0

    def sweep(self, local_steps: int, moving: bool, threads: int) -> float:
        """Update every separator once, along the order and then, the next time, against it; return the decrease.

        Out of time it ends between separators: the tables are still a split of the model.
        """
        backward = self.n_sweeps % 2 == 1
        self.drift.sweep()
        self.n_sweeps += 1
        if backward not in self._orders:
            self._orders[backward] = self._order(backward, threads)
        order, ends, ahead = self._orders[backward]

        def task(begin: int, end: int) -> int:
            return self.update(order, ahead, begin, end, local_steps, moving)

        if ends.size == 0:
            parts = in_chunks(order.size, 1 + int(self.graph.cell_ptr[-1] // _CELLS_UNWATCHED))
            for a, b in zip(parts[:-1].tolist(), parts[1:].tolist(), strict=True):
                task(a, b)
                check_time()
        for a, b in zip(ends[:-1], ends[1:], strict=False):
            parallel_chunks(task, int(a) + in_chunks(int(b - a), _CHUNKS), threads)
            check_time()
        return float(self.drop.sum())

    def _order(self, backward: bool, threads: int) -> tuple[Ints, Ints, Bools]:
        """Return the separators in turn, the ends of levels to do side by side (none: one after the other), and ahead.

        Levels are diagonals of a grid, so without threads the order in memory is faster; the results are the same.
        """
        ahead = self.graph.ahead(backward=backward)
        ahead.setflags(write=False)
        if threads > 1:
            order, ends = self.graph.levels(backward=backward)
            if int(self.graph.cell_ptr[-1]) >= _WORTH_THREADS * (ends.size - 1):
                return order, ends, ahead
        order = np.arange(self.graph.n_separators)[:: -1 if backward else 1].copy()
        return order, np.zeros(0, np.int64), ahead
