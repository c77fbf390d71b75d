r"""The iterate of generalised dual decomposition: tables, weights, and the bound they give.

.. math:: L = \text{const} + \sum_s V_s(n_s) + \sum_c V_c(r_c), \qquad \sum_s n_s + \sum_c r_c = \theta

is an upper bound for all tables with this sum and all weights that add up to the temperatures (Theorem 3.3.1
[ping2016]). Cost shifts are not kept: moving one is subtracting it here and adding it there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import NamedTuple

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
from beliefs.kernels.dual.structure import BlockOptions, Chain, Decomposition, Workspace
from beliefs.kernels.dual.terms import best_states, factor_marginals, term_gradients, term_values
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.typing import Bools, Floats, Ints

__all__ = ["SplitTables", "DualWarmStart", "answer_bytes", "bucket_bytes", "split_bytes"]

_WORTH_THREADS = 20_000  # cells of a level: a smaller one is over before a second thread has begun
_CHUNKS = 16
_CELLS_UNWATCHED = 100_000  # updated between two looks at the clock: tenths of a second at worst
_SPARE = 4
_AN_AXIS, _SCRATCH = 250.0, 56.0  # bytes of a cluster's variable, and of a cell of the largest cluster, measured


@dataclass(frozen=True, eq=False)
class DualWarmStart:
    """What a warm start needs: the graph it belongs to, the shifts of all tables, which cells are zeros, weights."""

    graph: JunctionGraph
    tau: Floats
    tables: Floats
    sep_tables: Floats
    weight: Floats
    sep_weight: Floats
    step_scale: Floats
    rate: Floats
    n_sweeps: int
    recent: tuple[float, ...]
    moved: float


class Gradients(NamedTuple):
    """Gradients of the bound: beliefs in tables, conditional entropies in weights."""

    beliefs: Floats
    entropies: Floats
    sep_beliefs: Floats
    sep_entropies: Floats
    mu_var: Floats  # weights times beliefs, added up for each variable


class SweepPlan(NamedTuple):
    """One direction of a sweep."""

    order: Ints  # the separators in turn
    ends: Ints  # of levels to do side by side; none: one after the other
    revisited: Bools  # (n_links,) whether the sweep meets the cluster again


def split_bytes(graph: JunctionGraph, *, pairs: bool, joint: bool) -> float:
    """Predict the memory of split tables with weights, one thread's scratch, and what a sweep makes on the way.

    ``pairs`` adds shifts and records of :class:`PairTables`, ``joint`` the memory of a quasi-Newton method.
    """
    clusters, separators, links = graph.clusters, graph.separators, graph.links
    cells = float(graph.n_cells)
    n_links, axes, seps = links.cluster.size, clusters.var.size, separators.var.size
    shifts = float((np.diff(separators.cell) * np.diff(links.ptr)).sum())
    numbers = cells + 2.0 * float(separators.cell[-1]) + axes + 1.4 * n_links + 6.0 * seps
    numbers += 3.0 * graph.n_clusters + 6.0 * graph.n_separators + WorkspaceSize.of(graph).numbers
    numbers += shifts + 8.0 * n_links if pairs else 0.0
    numbers += 2.0 * cells + 30.0 * (shifts + axes + seps) if joint else 0.0
    return 8.0 * numbers


def answer_bytes(graph: JunctionGraph, layout: Layout, *, marginals: bool) -> float:
    """Predict the memory of the answer: marginals and the steps they are read off, and what a warm start keeps."""
    kept = 1.2 * float(graph.n_cells) + graph.clusters.var.size + graph.links.cluster.size
    if not marginals:
        return 8.0 * kept
    steps = float(graph.steps.begin[-1])
    return 8.0 * (float(layout.table_ptr[-1]) + max(kept, steps) + 3.0 * layout.n_states)


def bucket_bytes(buckets: MiniBuckets) -> float:
    """Predict the memory of a run on mini-buckets before their graph is made.

    A cell of a cluster comes in its table, in the steps of its power sum or what is kept, and twice, a K-th part of it,
    in separators; a tenth is for weights. The graph takes its share a cluster and variable, and
    the scratch of an update is that of the largest cluster.
    """
    states = float(np.exp2(np.log2(buckets.card).mean())) if buckets.card.size else 1.0
    steps = states / (states - 1.0) if states > 1.0 else 1.2
    cells = 8.8 * buckets.n_cells * (1.0 + max(1.2, min(steps, 2.0)) + 2.0 / states)
    largest = math.ldexp(1.0, min(math.ceil(buckets.log2_cells.max(initial=0.0)), 1000))
    return cells + _AN_AXIS * buckets.axes.size + _SCRATCH * largest


class WorkspaceSize(NamedTuple):
    """How large the arrays of one thread's block updates are.

    Attributes
    ----------
    largest, wide : int
        Cells of a cluster, and of a separator.
    room, rows, heads : int
        Around a separator: cells of all its clusters reduced to it, its own cells a link, its axes a link.
    deepest : int
        Variables of a cluster.
    """

    largest: int
    wide: int
    room: int
    rows: int
    heads: int
    deepest: int

    @classmethod
    def of(cls, graph: JunctionGraph) -> WorkspaceSize:
        """Return what the largest clusters and separators of a graph need."""
        width, n_links, n_axes = np.diff(graph.separators.cell), np.diff(graph.links.ptr), np.diff(graph.separators.ptr)
        wide = int(width.max(initial=1))
        largest = int(max(np.diff(graph.clusters.cell).max(initial=1), wide))
        reduced = np.bincount(np.repeat(np.arange(width.size), n_links), graph.links.size, width.size)
        rows, heads = int((n_links * width).max(initial=1)), int(((n_links + 1) * n_axes).max(initial=1))
        deepest = int(np.diff(graph.clusters.ptr).max(initial=1))
        return cls(largest, wide, int(max(reduced.max(initial=1), largest)), rows, heads, deepest)

    @property
    def numbers(self) -> int:
        """How many numbers all arrays have."""
        small = 5 * self.largest + 5 * self.wide + 3 * self.deepest
        return 2 * self.room + 5 * self.rows + 4 * self.heads + small


def workspace(graph: JunctionGraph) -> Workspace:
    """Return memory for one thread's block updates."""
    largest, wide, room, rows, heads, deepest = WorkspaceSize.of(graph)
    return Workspace(
        cell_map=np.empty(room, np.int64), axes=np.empty(heads, np.int64), h=np.empty(room),
        chain=Chain(np.empty(2 * largest + 1), np.empty(2 * largest + 1), np.empty(largest)),
        belief=np.empty(2 * wide), pooled=np.empty(wide), trial_pooled=np.empty(wide), separator_term=np.empty(wide),
        shift=np.empty(rows), trial=np.empty(rows), direction=np.empty(rows), mu=np.empty(rows), fresh=np.empty(rows),
        entropy=np.empty(heads + deepest), held=np.empty(heads + deepest), proposed=np.empty(heads + deepest),
    )  # fmt: skip


class SplitTables:
    """Cluster and separator tables with their weights (``state``), and the block updates on them."""

    def __init__(
        self, model: FactorGraph, graph: JunctionGraph, tau: Floats, floor: float, spread: float | None = None
    ) -> None:
        self.model, self.graph, self.tau = model, graph, tau
        self.work = workspace(graph)
        self.coupled, self.small = graph.coupled(tau), 0.1 * tau[graph.separators.var]
        least = least_weights(graph, tau, floor)
        self.least = least[graph.separators.var]
        for array in (self.coupled, self.small, self.least):
            array.setflags(write=False)
        room = np.zeros(graph.n_cells + _SPARE)  # some kernels read four cells at a time
        self.tables, sep_tables = room[: graph.n_cells], np.zeros(int(graph.separators.cell[-1]))
        self.constant = self._load(self.tables, sep_tables)
        weight, sep_weight = initial_weights(graph, tau, least, spread)
        several = np.repeat(np.diff(graph.separators.ptr) > 1, np.diff(graph.links.ptr))
        self.state = Decomposition(
            room, weight, sep_tables, sep_weight, np.zeros(sep_weight.size), np.zeros(sep_weight.size),
            step_scale=np.where(several, 0.5, np.maximum(0.5 * weight[graph.links.first], 1e-3)),
            rate=np.ones(graph.n_separators), decrease=np.zeros(graph.n_separators), scores=sep_tables.copy(),
        )  # fmt: skip
        self.values, self.sep_values = np.empty(graph.n_clusters), np.empty(graph.n_separators)
        self._spare: SimpleQueue[Workspace] = SimpleQueue()
        self._spare.put(self.work)
        self._plans: dict[bool, SweepPlan] = {}  # backward or not
        self.n_sweeps = 0
        self.drift = Drift(self)

    def absorb(self) -> None:
        """Bring the tables up to date: here they always are."""

    def _load(self, tables: Floats, sep_tables: Floats) -> float:
        """Lay the model's potentials out and remove states that cannot be; return the constant factors."""
        model, g, index = self.model, self.graph, self.work.cell_map
        strides = np.empty(int(np.diff(g.clusters.ptr).max(initial=1)), np.int64)
        constant = float(load_tables(
            model.layout.scopes, model.theta, g.home, g.node, g.clusters, g.separators, index, strides, tables,
            sep_tables,
        ))  # fmt: skip
        possible = constant > -np.inf
        if possible and (model.theta == -np.inf).any():
            flags = np.empty((2, int(np.diff(g.separators.cell).max(initial=1))), np.bool_)
            possible = prune_states(g.clusters, g.separators, g.links, index, flags, tables, sep_tables)
        if not possible:
            raise zero_probability(model)
        return constant

    # -- warm starts ------------------------------------------------------------------------------------------------
    def warm_start(self, recent: tuple[float, ...]) -> DualWarmStart:
        """Return the shifts of all tables (``-inf`` at zeros), and the weights."""
        state = self.state
        tables, sep_tables = np.zeros(self.tables.size), np.zeros(state.sep_tables.size)
        self._load(tables, sep_tables)
        for now, loaded in ((self.tables, tables), (state.sep_tables, sep_tables)):
            np.subtract(now, loaded, out=loaded, where=loaded > -np.inf)
        return DualWarmStart(
            self.graph, self.tau, tables, sep_tables, state.weight.copy(), state.sep_weight.copy(),
            state.step_scale.copy(), state.rate.copy(), self.n_sweeps, recent, self.drift.moved,
        )  # fmt: skip

    def resume(self, warm: DualWarmStart) -> bool:
        """Go on from earlier shifts and weights; return whether they fit this graph and its zeros."""
        state = self.state
        same = warm.graph is self.graph or warm.graph.equals(self.graph)
        if not (same and np.array_equal(warm.tau, self.tau)):
            return False
        tables = (self.tables, warm.tables), (state.sep_tables, warm.sep_tables)
        if not all(np.array_equal(now == -np.inf, before == -np.inf) for now, before in tables):
            return False
        for now, before in tables:
            now += np.where(before == -np.inf, 0.0, before)
        state.weight[:], state.sep_weight[:] = warm.weight, warm.sep_weight
        state.step_scale[:], state.rate[:], self.n_sweeps = warm.step_scale, warm.rate, warm.n_sweeps
        self.drift.moved += warm.moved
        return True

    # -- decoding ---------------------------------------------------------------------------------------------------
    def rounded(self) -> Ints:
        """Return the maximiser of each variable's pooled table at its last update; ties go to the first."""
        states = np.maximum(self.model.evidence_states, 0)
        best_states(self.graph.node, self.graph.separators.cell, self.state.scores, states)
        return states

    def decoded(self) -> Ints:
        """Return a joint state, variable after variable from the last eliminated to the first, each given those."""
        g = self.graph
        states = np.maximum(self.model.evidence_states, 0)
        decode_chains(
            g.order, g.clusters, g.steps, g.node, g.separators, self._chains(in_logs=True), self.state.sep_tables,
            np.empty(int(self.model.layout.card.max(initial=1))), states,
        )  # fmt: skip
        return states

    # -- the bound --------------------------------------------------------------------------------------------------
    def value(self) -> float:
        """Return the bound at the present iterate."""
        term_values(self.graph.clusters, self.state.weight, self.tables, self.work.chain, self.values)
        return self.constant + float(self.values.sum()) + self.separator_values()

    def separator_values(self) -> float:
        """Return the separators' terms of the bound."""
        state = self.state
        term_values(self.graph.separators, state.sep_weight, state.sep_tables, self.work.chain, self.sep_values)
        return float(self.sep_values.sum())

    def gradients(self, *, of_clusters: bool = True) -> Gradients:
        """Return beliefs and entropies of clusters, of separators, and weights times beliefs for each variable."""
        g, state, chain, state_ptr = self.graph, self.state, self.work.chain, self.model.layout.state_ptr
        found = Gradients(
            np.empty_like(self.tables), np.empty_like(state.weight), np.empty_like(state.sep_tables),
            np.empty_like(state.sep_weight), np.zeros(self.model.layout.n_states),
        )  # fmt: skip
        if of_clusters:
            term_gradients(
                g.clusters, state.weight, self.tables, state_ptr, chain, found.beliefs, found.entropies, found.mu_var
            )
        term_gradients(
            g.separators, state.sep_weight, state.sep_tables, state_ptr, chain, found.sep_beliefs, found.sep_entropies,
            found.mu_var,
        )  # fmt: skip
        return found

    def marginals(self) -> tuple[Floats, Floats]:
        """Return the beliefs of variables and of factors, normalised; observed variables have zeros."""
        lay, g = self.model.layout, self.graph
        mu_var = self.gradients(of_clusters=False).mu_var
        chains = self._chains(in_logs=False)
        own = np.empty(int(lay.card.max(initial=1)))
        consensus_beliefs(g.order, g.clusters, g.steps, self.state.weight, lay.state_ptr, own, chains, mu_var)
        mu_factor = np.empty(int(lay.table_ptr[-1]))
        begin = np.append(g.steps.begin[:-1], 0)[g.clusters.ptr[:-1]]
        strides = np.empty(int(np.diff(g.clusters.ptr).max(initial=1)), np.int64)
        factor_marginals(
            lay.scopes, lay.table_ptr, g.home, g.clusters, begin, chains, mu_var, self.work.cell_map, strides, mu_factor
        )
        return mu_var, mu_factor

    def _chains(self, *, in_logs: bool) -> Floats:
        """Return the steps of all clusters' power sums: conditionals, or in logs the tables they come from."""
        begin = self.graph.steps.begin
        chains = np.empty(int(begin[-1]))
        cluster_chains(
            self.graph.clusters, self.state.weight, self.tables, self.work.chain, begin, in_logs, chains
        )  # fmt: skip
        return chains

    # -- block updates ----------------------------------------------------------------------------------------------
    def options(self, revisited: Bools, local_steps: int, moves_weights: bool) -> BlockOptions:
        """Return what updates are to do, as kernels take it."""
        return BlockOptions(self.coupled, revisited, self.least, self.small, local_steps, moves_weights)

    def update(self, order: Ints, begin: int, end: int, options: BlockOptions) -> int:
        """Update the separators ``order[begin:end]`` in turn."""
        g = self.graph
        try:
            work = self._spare.get_nowait()
        except Empty:
            work = workspace(g)
        update_separators(order, begin, end, g.clusters, g.separators, g.links, options, self.state, work)
        self._spare.put(work)
        return 0

    def sweep(self, local_steps: int, moves_weights: bool, threads: int) -> float:
        """Update every separator once, along the order and then, the next time, against it; return the decrease.

        Out of time it ends between separators: the tables are still a split of the model.
        """
        backward = self.n_sweeps % 2 == 1
        self.drift.sweep()
        self.n_sweeps += 1
        if backward not in self._plans:
            self._plans[backward] = self._plan(backward, threads)
        order, ends, revisited = self._plans[backward]
        options = self.options(revisited, local_steps, moves_weights)

        def task(begin: int, end: int) -> int:
            return self.update(order, begin, end, options)

        if ends.size == 0:
            parts = in_chunks(order.size, 1 + self.graph.n_cells // _CELLS_UNWATCHED)
            for a, b in zip(parts[:-1].tolist(), parts[1:].tolist(), strict=True):
                task(a, b)
                check_time()
        for a, b in zip(ends[:-1], ends[1:], strict=False):
            parallel_chunks(task, int(a) + in_chunks(int(b - a), _CHUNKS), threads)
            check_time()
        return float(self.state.decrease.sum())

    def _plan(self, backward: bool, threads: int) -> SweepPlan:
        """Return the separators in turn; levels are diagonals of a grid, so without threads memory's order is faster.

        The results are the same.
        """
        revisited = self.graph.revisited(backward=backward)
        if threads > 1:
            order, ends = self.graph.levels(backward=backward)
            if self.graph.n_cells >= _WORTH_THREADS * (ends.size - 1):
                return SweepPlan(order, ends, revisited)
        order = np.arange(self.graph.n_separators)[:: -1 if backward else 1].copy()
        return SweepPlan(order, np.zeros(0, np.int64), revisited)
