r"""Fundamental cycle bases grown ear by ear from a tree-robust core: Algorithm 3.1 of [gelfand2014].

Begin with the core's cycles; its edges are *used*, its vertices *visited*. As long as an edge (s, t) is unused with s
visited, walk on from t over unused edges, through vertices not yet visited, to the first visited vertex u: an *ear*.
Ear and the shortest path from u back to s over used edges are the next cycle. Every ear brings an edge that no cycle
before it has, so the result is fundamental, contains the core, and is as large as the cycle space has dimensions.

Edges in no cycle (bridges) are put aside first. Where the core has several pieces, an ear between two of them closes no
cycle and joins them. A component that the core does not touch begins with one visited vertex, whose first ear is a
cycle.

Cost: a breadth-first search a cycle outside the core, and linear work besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from beliefs.cycles.cores import grid_faces, grid_inside, planar_faces, star_at
from beliefs.cycles.pairs import Cycle, PairGraph, canonical, checked_cycles, components, edge_set
from beliefs.cycles.predicates import not_peeled
from beliefs.errors import ModelError, UnsupportedError
from beliefs.kernels.orders.paths import Incidence, Walk, meeting, nearest_target
from beliefs.model.graph import Model
from beliefs.model.layout import frozen_ints
from beliefs.options import check_integer, check_option
from beliefs.typing import Ints, VariableRef

__all__ = ["partially_tree_robust", "random_fundamental"]

_UNUSED, _USED, _BRIDGE = 0, 1, 2
_CORES = ("auto", "star", "faces")


def partially_tree_robust(model: Model, core: str | Iterable[Sequence[VariableRef]] = "auto") -> list[Cycle]:
    """Return a fundamental basis that contains a tree-robust core.

    Parameters
    ----------
    core : {"auto", "star", "faces"} or list of cycles
        ``"star"``: in every component the triangles at the vertex of largest degree. ``"faces"``: those of a grid in
        row order that the graph contains, else those of a planar graph. ``"auto"``: of the two the one with more
        cycles; without networkx, only faces of grids are known.
    """
    pairs = PairGraph.of(model)
    if isinstance(core, str):
        check_option(core in _CORES, "core", f"one of {', '.join(_CORES)} or a list of cycles", core)
        first = _named_core(pairs, core)
    else:
        first = [canonical(c) for c in checked_cycles(model, core)]
        if not_peeled([edge_set(c) for c in first]):
            raise ModelError("a core must be fundamental: each of its cycles, in some order, has an edge of its own")
    return _grown(pairs, first, None)


def random_fundamental(model: Model, seed: int = 0) -> list[Cycle]:
    """Return a fundamental basis of random ears, from a random vertex of each component."""
    check_integer("seed", seed, 0)
    return _grown(PairGraph.of(model), [], np.random.default_rng(seed))


def _named_core(pairs: PairGraph, core: str) -> list[Cycle]:
    stars = _stars(pairs) if core != "faces" else []
    if core == "star":
        return stars
    shape = grid_inside(pairs)
    if shape is not None:
        found: list[Cycle] | None = grid_faces(*shape)
    else:
        try:
            found = planar_faces(pairs)
        except UnsupportedError:
            if core == "faces":
                raise
            found = None
    if found is None and core == "faces":
        raise ModelError("the graph is not planar and contains no grid in row order; use core='star' or 'auto'")
    return stars if found is None or len(found) <= len(stars) else found


def _stars(pairs: PairGraph) -> list[Cycle]:
    """Return the triangles at the first vertex of largest degree of every component."""
    by_degree = np.lexsort((np.arange(pairs.n_vars), -pairs.degree))
    _, first = np.unique(pairs.component[by_degree], return_index=True)
    return [cycle for v in np.sort(by_degree[first]).tolist() for cycle in star_at(pairs, v)]


@dataclass(eq=False)
class _Growth:
    """What is used and visited, and which used edges hang together."""

    pairs: PairGraph
    incidence: Incidence
    kind: Ints
    visited: Ints = field(init=False)
    piece: list[int] = field(init=False)
    walk: Walk = field(init=False)
    back: Walk = field(init=False)
    n_walks: int = 0

    def __post_init__(self) -> None:
        n = self.pairs.n_vars
        self.visited = np.zeros(n, np.int64)
        self.piece = list(range(n))
        self.walk, self.back = (
            Walk(np.zeros(n, np.int64), np.empty(n, np.int64), np.empty(n + 1, np.int64)) for _ in range(2)
        )

    def root(self, v: int) -> int:
        """Return the representative of all vertices that used edges join to this one."""
        while self.piece[v] != v:
            self.piece[v] = v = self.piece[self.piece[v]]
        return v

    def use(self, u: int, v: int) -> None:
        """Mark an edge as used and its ends as visited."""
        self.kind[self.pairs.number[(u, v) if u < v else (v, u)]] = _USED
        self.visited[u] = self.visited[v] = 1
        self.piece[self.root(u)] = self.root(v)

    def use_cycles(self, cycles: Sequence[Cycle]) -> None:
        """Mark the edges of the core as used, all at once."""
        if not cycles:
            return
        n = self.pairs.n_vars
        sizes = np.array([len(cycle) for cycle in cycles])
        here = np.array([v for cycle in cycles for v in cycle])
        there = np.roll(here, -1)
        ends = np.cumsum(sizes) - 1
        there[ends] = here[ends - sizes + 1]
        keys = np.minimum(here, there) * n + np.maximum(here, there)
        used = np.unique(np.searchsorted(self.pairs.edges @ np.array([n, 1]), keys))
        self.kind[used] = _USED
        self.visited[here] = 1
        _, first, label = np.unique(components(n, self.pairs.edges[used]), return_index=True, return_inverse=True)
        self.piece = first[label].tolist()

    def path(self, start: int, target: Ints, kind: int, skipped: int) -> list[int]:
        """Return the vertices of a shortest path from a target back to the start."""
        self.n_walks += 1
        end = int(nearest_target(self.incidence, self.kind, kind, target, start, skipped, self.n_walks, self.walk))
        found = []
        while end >= 0:
            found.append(end)
            end = int(self.walk.before[end])
        return found

    def way(self, start: int, goal: int) -> list[int]:
        """Return the vertices of a shortest path over used edges, from the goal back to the start."""
        if start == goal:
            return [start]
        self.n_walks += 1
        one, other = meeting(self.incidence, self.kind, _USED, start, goal, self.n_walks, self.walk, self.back)
        found = []
        while other >= 0:
            found.append(int(other))
            other = self.back.before[other]
        found.reverse()
        while one >= 0:
            found.append(int(one))
            one = self.walk.before[one]
        return found


def _grown(pairs: PairGraph, core: list[Cycle], rng: np.random.Generator | None) -> list[Cycle]:
    """Add ears to the core until no edge is unused; with a generator, ears and their first edges are drawn."""
    incidence = Incidence(*pairs.incident) if rng is None else _shuffled(pairs, rng)
    kind = _bridges(pairs)
    growth = _Growth(pairs, incidence, kind)
    block = components(pairs.n_vars, pairs.edges[kind != _BRIDGE])
    cycles = list(core)
    growth.use_cycles(core)
    begun = np.flatnonzero(growth.visited)
    touched = set(block[begun].tolist())
    cycles += _ears(growth, begun.tolist(), rng)
    for first in (np.arange(pairs.n_vars) if rng is None else rng.permutation(pairs.n_vars)).tolist():
        if int(block[first]) not in touched:
            touched.add(int(block[first]))
            growth.visited[first] = 1
            cycles += _ears(growth, [first], rng)
    return cycles


def _ears(growth: _Growth, begun: list[int], rng: np.random.Generator | None) -> list[Cycle]:
    """Add ears at visited vertices, and at those that ears visit, until their edges are used."""
    ptr, neighbour, edge = growth.incidence
    found: list[Cycle] = []
    unused = growth.kind[edge] == _UNUSED
    todo = [(s, k) for s in begun for k in range(ptr[s], ptr[s + 1]) if rng is not None or unused[k]]
    done = 0
    while done < len(todo):
        if rng is not None:
            chosen = done + int(rng.integers(len(todo) - done))
            todo[done], todo[chosen] = todo[chosen], todo[done]
        s, k = todo[done]
        done += 1
        if growth.kind[edge[k]] != _UNUSED:
            continue
        ear = growth.path(int(neighbour[k]), growth.visited, _UNUSED, int(edge[k]))[::-1]
        closed = growth.root(s) == growth.root(ear[-1])
        back = growth.way(ear[-1], s) if closed else []
        for u, v in zip([s, *ear], ear, strict=False):
            growth.use(u, v)
        if closed:
            found.append(canonical([*back[:-1], *ear[::-1]]))
        todo += [(v, entry) for v in ear[:-1] for entry in range(ptr[v], ptr[v + 1])]
    return found


def _shuffled(pairs: PairGraph, rng: np.random.Generator) -> Incidence:
    """Return the incidence with the entries of every vertex in random order."""
    ptr, neighbour, edge = pairs.incident
    owner = np.repeat(np.arange(pairs.n_vars), np.diff(ptr))
    order = np.lexsort((rng.random(owner.size), owner))
    return Incidence(ptr, frozen_ints(neighbour[order], "edges"), frozen_ints(edge[order], "edges"))


def _bridges(pairs: PairGraph) -> Ints:
    """Return the kind of each edge at the start, bridge or unused, by lowest ancestors [tarjan1974], no recursion."""
    ptr, neighbour, edge = (array.tolist() for array in pairs.incident)
    n = pairs.n_vars
    kind = np.zeros(pairs.n_edges, np.int64)
    entry, low, at, came = [0] * n, [0] * n, ptr[:-1], [-1] * n
    clock = 0
    for root in range(n):
        if entry[root]:
            continue
        clock += 1
        entry[root] = low[root] = clock
        stack = [root]
        while stack:
            v = stack[-1]
            if at[v] < ptr[v + 1]:
                u, e = neighbour[at[v]], edge[at[v]]
                at[v] += 1
                if entry[u] and e != came[v]:
                    low[v] = min(low[v], entry[u])
                elif not entry[u]:
                    clock += 1
                    entry[u] = low[u] = clock
                    came[u] = e
                    stack.append(u)
                continue
            stack.pop()
            if stack:
                low[stack[-1]] = min(low[stack[-1]], low[v])
                if low[v] == entry[v]:
                    kind[came[v]] = _BRIDGE
    return kind
