"""Greedy elimination of graphs too large for bit rows: adjacency lists in one pool, otherwise as on bit rows.

Scores, updates and the tournament are those of :mod:`beliefs.kernels.orders.greedy`; the work of an elimination depends
on the neighbours' degrees and not on the number of vertices, so a million variables of small width take about a second.

================  ==============================================================
symbol            array
================  ==============================================================
N(v)              ``pool[start[v] : start[v] + length[v]]``, unordered
================  ==============================================================
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.orders.graph import EliminationGraph
from beliefs.kernels.orders.greedy import GreedyScores, GreedyScratch, tournament_min, update_tournament
from beliefs.typing import Floats, Ints

__all__ = ["sparse_elimination", "sparse_fill_scores"]

Pool: TypeAlias = NDArray[np.uint32]  # unsigned, so that indexing by its entries needs no wrap-around


@twofold_kernel
def sparse_fill_scores(ptr: Ints, adj: Ints, weight: Floats, fill: Floats, mass: Floats) -> None:
    """Write the fill score and the neighbours' weight of every vertex.

    Equivalent to `beliefs.kernels.orders.greedy.fill_scores`, for a CSR graph. Cost: for each edge the degree of one
    end.
    """
    n = weight.shape[0]
    near = np.full(n, -1, np.int64)
    for v in range(n):
        total, twice = 0.0, 0.0
        for e in range(ptr[v], ptr[v + 1]):
            near[adj[e]] = v
            total += weight[adj[e]]
        for e in range(ptr[v], ptr[v + 1]):
            a = adj[e]
            joined = weight[a]
            for q in range(ptr[a], ptr[a + 1]):
                joined += weight[adj[q]] if near[adj[q]] == v else 0.0
            twice += weight[a] * (total - joined)
        fill[v], mass[v] = 0.5 * twice, total


@twofold_kernel
def _append(v: int, u: int, used: int, pool: Pool, start: Ints, length: Ints, room: Ints) -> int:
    """Add u to the list of v, which moves to the pool's end when full; return the first free place.

    There must be ``2 len(N(v)) + 4`` free places.
    """
    m = length[v]
    if m == room[v]:
        for q in range(m):
            pool[used + q] = pool[start[v] + q]
        start[v], room[v] = used, 2 * m + 4
        used += room[v]
    pool[start[v] + m] = u
    length[v] = m + 1
    return used


@twofold_kernel
def _compact(pool: Pool, used: int, start: Ints, length: Ints, room: Ints, gone: Ints, first: Ints) -> int:
    """Move the lists of the vertices that are left together, each as it was; return the first free place.

    The first entry of each list is kept in ``first (n,)`` while the list's vertex stands in its place, so that one pass
    over the pool meets the lists in their order; what else looks like a vertex there does not begin at that place.
    """
    n = gone.shape[0]
    for v in range(n):
        room[v] = length[v]
        if gone[v] == 0 and length[v] > 0:
            first[v] = pool[start[v]]
            pool[start[v]] = v
    read, end = 0, 0
    while read < used:
        v = int(pool[read])
        if v >= n or start[v] != read or gone[v] != 0 or length[v] == 0:
            read += 1
            continue
        pool[read] = first[v]
        for q in range(length[v]):
            pool[end + q] = pool[read + q]
        start[v] = end
        read += length[v]
        end += length[v]
    return end


@twofold_kernel
def _by_layers(pool: Pool, start: Ints, length: Ints, gone: Ints, step: int, order: Ints) -> None:
    """Order the vertices that are left breadth first, each component from a vertex far from its middle.

    Written to ``order[step:]``. The last vertex of a first search starts the second, so on grids the front stays one
    layer wide. Linear in the edges left.
    """
    for root in range(gone.shape[0]):
        if gone[root] == 1:
            continue
        source, tail = root, step
        for sweep in range(2):
            mark = 2 + sweep  # 2 after the first search, 3 after the second
            head, tail = step, step + 1
            order[step], gone[source] = source, mark
            while head < tail:
                v = order[head]
                head += 1
                for q in range(start[v], start[v] + length[v]):
                    u = pool[q]
                    if gone[u] != mark:
                        gone[u], order[tail] = mark, u
                        tail += 1
            source = order[tail - 1]
        for i in range(step, tail):
            gone[order[i]] = 1
        step = tail


@twofold_kernel
def sparse_elimination(
    graph: EliminationGraph,
    scores: GreedyScores,
    max_cells: float,
    max_ops: float,
    scratch: GreedyScratch,
    pool: Pool,
    order: Ints,
) -> tuple[float, float]:
    """Eliminate all vertices greedily; write the order, return total cells and operations.

    Equivalent to `beliefs.kernels.orders.greedy.greedy_elimination`; among equal scores the smallest vertex goes first.
    ``scores`` (of `sparse_fill_scores`) are used up. The run gives up with ``-1``, the order incomplete, when the total
    passes ``max_cells``; it ends with ``-2`` when the lists fill half of the pool (at least ``len(adj)`` places);
    and when the operations pass ``max_ops``, the rest is ordered breadth first and the cells are ``inf``.

    Cost: for each elimination the degrees of the neighbours, for each added edge the degree of one end.
    """
    ptr, adj, card, stage = graph
    by_fill, weight, fill, mass, noise = scores
    n, used = card.shape[0], adj.shape[0]
    start, length, room = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    inside, near, seen = np.full(n, -1, np.int64), np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    missing, gone = np.empty(n, np.int64), np.zeros(n, np.int64)
    hits, touched = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    offsets, key, members = scratch.offsets, scratch.key, scratch.members
    for i in range(key.size):
        key[i] = np.inf
    for e in range(used):
        pool[e] = adj[e]
    for v in range(n):
        start[v], length[v], room[v] = ptr[v], ptr[v + 1] - ptr[v], ptr[v + 1] - ptr[v]
    current, stamp, total, ops = -1, -1, 0.0, 8.0 * n
    for step in range(n):
        while key[offsets[-1]] == np.inf:
            current += 1
            for v in range(n):
                if stage[v] == current:
                    key[v] = (fill[v] if by_fill else mass[v] + weight[v]) * noise[v]
                    update_tournament(key, offsets, v)
        v = tournament_min(key, offsets)
        order[step], gone[v], key[v] = v, 1, np.inf
        update_tournament(key, offsets, v)
        degree, cells = length[v], card[v]
        for i in range(degree):
            a = pool[start[v] + i]
            members[i], touched[i], inside[a], seen[a] = a, a, step, step
            cells *= card[a]
        total += cells
        if total > max_cells:
            return -1.0, ops
        for i in range(degree):  # v leaves the lists of its neighbours
            a = members[i]
            first, last = start[a], start[a] + length[a] - 1
            joined, n_joined, at = 0.0, 0, first
            for q in range(first, last + 1):  # selections, not branches: half of them would be mispredicted
                u = pool[q]
                hit = inside[u] == step
                joined += weight[u] if hit else 0.0
                n_joined += 1 if hit else 0
                at = q if u == v else at
            pool[at] = pool[last]
            length[a] -= 1
            missing[i] = degree - 1 - n_joined
            mass[a] -= weight[v]
            fill[a] -= weight[v] * (mass[a] - joined)
            ops += last - first + 4.0
        n_touched = degree
        for i in range(degree):  # and these become a clique
            if missing[i] == 0:
                continue
            a = members[i]
            stamp += 1
            for q in range(start[a], start[a] + length[a]):
                near[pool[q]] = stamp
            for j in range(i + 1, degree):
                b = members[j]
                if near[b] == stamp:
                    continue
                if by_fill:
                    n_hits = 0
                    for q in range(start[b], start[b] + length[b]):
                        u = pool[q]
                        hits[n_hits] = u
                        n_hits += 1 if near[u] == stamp else 0
                    pair, common = weight[a] * weight[b], 0.0
                    for q in range(n_hits):
                        u = hits[q]
                        common += weight[u]
                        fill[u] -= pair
                        touched[n_touched] = u
                        n_touched += 1 if seen[u] != step else 0
                        seen[u] = step
                    fill[a] += weight[b] * (mass[a] - common)
                    fill[b] += weight[a] * (mass[b] - common)
                    ops += length[b]
                mass[a] += weight[b]
                mass[b] += weight[a]
                if used + 2 * (length[a] + length[b]) + 8 > pool.shape[0]:
                    used = _compact(pool, used, start, length, room, gone, hits)
                    if used + 2 * (length[a] + length[b]) + 8 > pool.shape[0] // 2:
                        return -2.0, ops
                used = _append(a, b, used, pool, start, length, room)
                used = _append(b, a, used, pool, start, length, room)
                near[b] = stamp
                missing[j] -= 1
                ops += 8.0
        for i in range(n_touched):
            u = touched[i]
            if stage[u] == current:
                key[u] = (fill[u] if by_fill else mass[u] + weight[u]) * noise[u]
                update_tournament(key, offsets, u)
        ops += 8.0 * n_touched
        if ops > max_ops:
            _by_layers(pool, start, length, gone, step + 1, order)
            return np.inf, ops
    return total, ops
