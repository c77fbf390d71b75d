"""The interaction graph of a model, and the steps that find an elimination order on it.

1. Hubs of very large graphs go last; simplicial variables go first (:mod:`beliefs.kernels.orders.graph`).
2. The rest falls into connected components, whose costs add, so that each is searched for itself.
3. A component of a few thousand variables is searched on bit rows (:mod:`beliefs.kernels.orders.search`), a larger one
   by greedy runs on adjacency lists (:mod:`beliefs.kernels.orders.sparse`).
4. The pieces are joined; with stages, by a stable sort, which changes no clique because a variable is never eliminated
   before one of an earlier stage within a piece, and pieces do not touch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beliefs.deadline import check_time, now
from beliefs.kernels.orders.graph import EliminationGraph, connected_components, primal_graph, strip_simplicial
from beliefs.kernels.orders.greedy import GreedyScores, greedy_scratch
from beliefs.kernels.orders.search import (
    LOG_MIN_FILL,
    MIN_DEGREE,
    MIN_FILL,
    MIN_WEIGHT,
    WEIGHTED_MIN_FILL,
    allowance,
    search_keys,
    search_scratch,
    vertex_weights,
)
from beliefs.kernels.orders.sparse import sparse_elimination, sparse_fill_scores
from beliefs.kernels.orders.symbolic import clique_sizes
from beliefs.kernels.orders.windows import refine_order
from beliefs.model.layout import offsets
from beliefs.typing import Bools, Floats, Ints

__all__ = ["BITS_LIMIT", "CRITERIA", "InteractionGraph"]

CRITERIA = {
    "min_fill": MIN_FILL,
    "weighted_min_fill": WEIGHTED_MIN_FILL,
    "log_min_fill": LOG_MIN_FILL,
    "min_weight": MIN_WEIGHT,
    "min_degree": MIN_DEGREE,
}
_NAMES = {code: name for name, code in CRITERIA.items()} | {-1: "simplicial"}
_AUTO = (MIN_WEIGHT, MIN_FILL, LOG_MIN_FILL, WEIGHTED_MIN_FILL)  # the first never takes long, so it comes first

BITS_LIMIT = 8192
"""Vertices of a component: its bit rows take 8 MB. What the lists of a larger one take is not known before."""

_HOPELESS = 1e18  # cells: windows make no such order fit a machine, and bounds gain nothing from them
_MAX_OPS = 1e8  # operations for one component in a search without a time limit: about 0.3 s
_MAX_LARGE_OPS = 1e8  # and for one run on a large component, before its rest is ordered breadth first
_MAX_LARGE_RESTARTS = 4
_PLACES = 16  # of its pool to begin with, for each vertex
_MAX_PLACES = 1 << 28  # of the pool of a large component: 1 GB
_OPS_PER_SECOND = 3e8
_PATIENCE = 16  # rounds without a gain before a search with a time limit ends early


@dataclass
class _Part:
    """One connected component as a graph of its own, and the best order found for it."""

    members: Ints
    graph: EliminationGraph
    order: Ints
    cells: float = np.inf
    runs: int = 0
    criterion: int = -1

    def keep(self, order: Ints, cells: float, criterion: int) -> None:
        """Take an order that is better, or the first."""
        if cells < self.cells or self.criterion < 0:
            self.order, self.cells, self.criterion = self.members[order], cells, criterion


class InteractionGraph:
    """Variables joined when a factor contains both.

    Parameters
    ----------
    card, stage : (n_vars,) int64
        Cardinalities; variables of a smaller stage are eliminated first.
    scope_ptr, scope_vars : (n_factors + 1,), (n_edges,) int64
        The factors' scopes in CSR.
    active : (n_vars,) bool
        The variables to eliminate.
    """

    def __init__(self, card: Ints, scope_ptr: Ints, scope_vars: Ints, active: Bools, stage: Ints) -> None:
        self.card, self.active = card, active
        self.ptr, self.adj = primal_graph(scope_ptr, scope_vars, active)
        self.stage: Ints = np.zeros(card.size, np.int64)
        if stage.any():
            self.stage[active] = np.unique(stage[active], return_inverse=True)[1]

    def cliques(self, order: Ints) -> tuple[Ints, Ints, Floats]:
        """Return, by position in an order of the active variables, parent, size and log2 cells of each clique."""
        position = np.full(self.card.size, -1, np.int64)
        position[order] = np.arange(order.size)
        parent, size, bits = np.empty(order.size, np.int64), np.empty(order.size, np.int64), np.empty(order.size)
        clique_sizes(self.ptr, self.adj, order, position, np.log2(self.card), parent, size, bits)
        return parent, size, bits

    def search(self, method: str, restarts: int | None, seed: int, deadline: float | None) -> tuple[Ints, str, int]:
        """Return an order, and the criterion and number of runs in its most expensive component."""
        first, parts, last = self._parts()
        automatic = method == "auto"
        criteria = np.array(_AUTO if automatic else (CRITERIA[method],), np.int64)
        wanted = (-1 if automatic else 0) if restarts is None else restarts
        _rounds(parts, criteria, wanted, seed, deadline)
        order = np.concatenate([first, *(part.order for part in parts), last])
        order = order[np.argsort(self.stage[order], kind="stable")]
        if not parts:
            return order, _NAMES[-1], 0
        hardest = max(parts, key=lambda part: part.cells)
        return order, _NAMES[hardest.criterion], hardest.runs

    def _parts(self) -> tuple[Ints, list[_Part], Ints]:
        """Return the simplicial variables, the components of what is left without the hubs, and the hubs."""
        n, alive, degree = self.card.size, self.active.copy(), np.diff(self.ptr)
        n_active = int(alive.sum())
        # A neighbour of thousands would be looked at in each of their eliminations, and cannot be cheap: it goes last.
        hubs = np.flatnonzero(degree > 10.0 * np.sqrt(n_active)) if n_active > 4096 else np.empty(0, np.int64)
        hubs = hubs[np.argsort(degree[hubs], kind="stable")]
        alive[hubs] = False
        queue = np.flatnonzero(alive)
        if self.card[queue].min(initial=2**62) < self.card[queue].max(initial=0):
            queue = queue[np.argsort(-self.card[queue], kind="stable")]  # in one clique the largest should go first
        stripped, members, bounds = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n + 1, np.int64)
        n_stripped = strip_simplicial(self.ptr, self.adj, self.stage == 0, queue, alive, stripped)
        count = connected_components(self.ptr, self.adj, alive, members, bounds)
        return stripped[:n_stripped], self._split(members[: bounds[count]], bounds[: count + 1]), hubs

    def _split(self, members: Ints, bounds: Ints) -> list[_Part]:
        """Return the graphs of the components ``members[bounds[c] : bounds[c + 1]]``."""
        label = np.full(self.card.size, -1, np.int64)
        label[members] = np.arange(members.size)
        lengths = np.diff(self.ptr)[members]
        ends = np.cumsum(lengths)
        places = np.repeat(self.ptr[members] - ends + lengths, lengths) + np.arange(lengths.sum())
        adj = label[self.adj[places]]
        owner = np.repeat(np.arange(members.size), lengths)[adj >= 0]
        adj = adj[adj >= 0]
        ptr = offsets(np.bincount(owner, minlength=members.size))
        card, stage = self.card[members].astype(np.float64), self.stage[members]
        return [
            _Part(
                members[a:b],
                EliminationGraph(ptr[a : b + 1] - ptr[a], adj[ptr[a] : ptr[b]] - a, card[a:b], stage[a:b]),
                members[a:b],
            )
            for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist())
        ]


def _rounds(parts: list[_Part], criteria: Ints, restarts: int, seed: int, deadline: float | None) -> None:
    """Search each part once, or again with other seeds until the deadline or until nothing is gained any more."""
    max_ops, idle = _MAX_OPS, 0
    for turn in range(1 if deadline is None else 2**31):
        before = sum(part.cells for part in parts)
        for c, part in enumerate(parts):
            check_time()
            if deadline is not None:
                left = deadline - now()
                if turn > 0 and left <= 0:
                    return
                max_ops = max(1.0, left * _OPS_PER_SECOND)
            if part.members.size <= BITS_LIMIT:
                _search_part(part, criteria, restarts, max_ops, seed + c + 1_000_003 * turn)
            else:
                _search_large(part, criteria, restarts, max_ops, seed + c + 1_000_003 * turn)
        idle = 0 if sum(part.cells for part in parts) < before else idle + 1
        if idle == _PATIENCE:
            return


def _search_part(part: _Part, criteria: Ints, restarts: int, max_ops: float, seed: int) -> None:
    """Greedy runs and, for several criteria, the refinement of the best."""
    n = part.members.size
    state = np.array([_mixed(seed)], np.uint64)
    order, cells_of = np.empty(n, np.int64), np.empty(n)
    cells, spent, runs, criterion = search_keys(
        part.graph, criteria, restarts, max_ops, state, search_scratch(n), greedy_scratch(n), order, cells_of
    )
    left = allowance(cells, max_ops) - (spent if restarts < 0 else 0.0)
    if criteria.size > 1 and cells < _HOPELESS and left > 0:
        cells = refine_order(part.graph, left, state, order, cells_of)
    part.runs += runs
    part.keep(order, cells, criterion)


def _mixed(seed: int) -> int:
    """Return 64 well-mixed bits, not all zero, so that neighbouring seeds start unlike sequences."""
    x = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93 % 2**64
    return (x ^ (x >> 29)) | 1


def _search_large(part: _Part, criteria: Ints, restarts: int, max_ops: float, seed: int) -> None:
    """Greedy runs on adjacency lists."""
    n = part.members.size
    weights = np.empty((3, n))
    even = vertex_weights(part.graph.card, weights)
    if criteria.size > 1:
        criteria = np.array((MIN_FILL,) if even else (MIN_FILL, LOG_MIN_FILL), np.int64)
    generator, key, spent, turn = np.random.default_rng(seed & 0x7FFFFFFF), np.ones(n), 0.0, 0
    while True:
        keys = turn - criteria.size
        if keys >= 0:
            pays = keys < _MAX_LARGE_RESTARTS and spent < allowance(part.cells, max_ops)
            if keys >= restarts if restarts >= 0 else not pays:
                break
            key = np.exp(0.25 * generator.standard_normal(n))
        criterion = int(criteria[turn % criteria.size])
        order, cells, ops = _sparse_run(part, weights, criterion, key)
        part.keep(order, cells, criterion)
        spent += ops
        turn += 1
    part.runs += turn


def _sparse_run(part: _Part, weights: Floats, criterion: int, key: Floats) -> tuple[Ints, float, float]:
    """Return an order, its cells (``inf`` if it was given up) and the operations of one greedy run."""
    graph, n = part.graph, key.size
    places, max_ops = 3 * graph.adj.size + _PLACES * n, _MAX_LARGE_OPS
    weight = weights[{MIN_FILL: 0, MIN_DEGREE: 0, WEIGHTED_MIN_FILL: 2}.get(criterion, 1)]
    scores = GreedyScores(criterion <= WEIGHTED_MIN_FILL, weight, np.empty(n), np.empty(n), key)
    order = np.empty(n, np.int64)
    while True:
        sparse_fill_scores(graph.ptr, graph.adj, weight, scores.fill, scores.mass)
        pool = np.empty(places, np.uint32)
        cells, ops = sparse_elimination(graph, scores, part.cells, max_ops, greedy_scratch(n), pool, order)
        if cells != -2.0:
            return order, cells if cells >= 0 else np.inf, ops
        places *= 2
        if places > _MAX_PLACES:
            max_ops = 0.9 * ops  # breadth first shortly before the pool is full again
            places = _MAX_PLACES
