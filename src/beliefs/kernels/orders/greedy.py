"""Greedy elimination orders: eliminate the cheapest vertex, join its neighbours, update only the scores that changed.

The *score* of a vertex v in the current graph is one of

.. math:: fill(v) = \\sum_{a, b \\in N(v),\\ a \\not\\sim b} w_a w_b, \\qquad size(v) = \\sum_{u \\in N(v) \\cup v} w_u,

so that unit weights give min-fill and min-degree, ``w = card`` weighted min-fill and ``w = log2(card)`` min-weight. The
vertex of smallest ``score * noise`` is next; noise 1 is the plain heuristic. When an edge a - b is added, each common
neighbour loses ``w_a w_b`` and a gains ``w_b * w(N(a) \\ N(b))``; when v leaves, ``fill(a)`` loses the pairs (v, u)
with u not next to v. Only those vertices are touched.

The graph is bit rows: bit ``u & 63`` of ``rows[v, u >> 6]`` says that u and v are neighbours. The next vertex comes
from a tournament of eights over the scores.

================  ==============================================================
symbol            array
================  ==============================================================
N(v)              ``rows[v]``
w(N(v))           ``mass[v]``
fill(v)           ``fill[v]``
================  ==============================================================
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Bits, Floats, Ints

__all__ = ["GreedyScores", "GreedyScratch", "bit_rows", "fill_scores", "greedy_elimination", "greedy_scratch"]

ZERO, ONE = np.uint64(0), np.uint64(1)


class GreedyScores(NamedTuple):
    """What a run of greedy elimination minimises; ``fill`` and ``mass`` follow the graph and are used up."""

    by_fill: bool  # fill scores; else sizes
    weight: Floats  # (n,) w
    fill: Floats  # (n,) fill(v)
    mass: Floats  # (n,) w(N(v))
    noise: Floats  # (n,) factor of each score


class GreedyScratch(NamedTuple):
    """Scratch for runs of greedy elimination, one after the other."""

    offsets: Ints  # where each level of the tournament begins; the last entry is the place of the least
    key: Floats  # the tournament
    members: Ints  # (n,) the neighbours of a vertex
    vertex: Ints  # (n,) of each leaf
    touched: Bits  # (n_words,) vertices whose scores have changed


def greedy_scratch(n: int) -> GreedyScratch:
    """Return scratch for a graph of n vertices."""
    offsets, width = [0], n
    while width > 1 or len(offsets) == 1:
        width = (width + 7) >> 3
        offsets.append(offsets[-1] + 8 * width)
    members, vertex = np.empty((2, n), np.int64)
    return GreedyScratch(
        np.array(offsets, np.int64), np.empty(offsets[-1] + 1), members, vertex, np.empty((n + 63) // 64, np.uint64)
    )


@twofold_kernel
def lowest(x: np.uint64) -> int:
    """Return the index of the lowest set bit (the loop compiles to one population count)."""
    below, n = (x & (~x + ONE)) - ONE, 0
    while below != ZERO:
        below &= below - ONE
        n += 1
    return n


@twofold_kernel
def bit_rows(ptr: Ints, adj: Ints, rows: Bits) -> None:
    """Write a CSR graph as bit rows. Shapes: ``ptr (n+1,)``, ``rows (n, n_words)``."""
    for v in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            rows[v, k] = ZERO
        for e in range(ptr[v], ptr[v + 1]):
            rows[v, adj[e] >> 6] |= ONE << np.uint64(adj[e] & 63)


@twofold_kernel
def fill_scores(rows: Bits, weight: Floats, by_fill: bool, fill: Floats, mass: Floats) -> float:
    """Write the neighbours' weight and, if ``by_fill``, the fill score of every vertex; return the operations.

    Equivalent to, with the adjacency matrix ``A`` and ``w = weight``::

        mass[:] = A @ w
        fill[v] = sum(w[a] * w[b] for a, b in combinations(neighbours(v), 2) if not A[a, b])

    Shapes: ``rows (n, n_words)``, the others ``(n,)``; ``fill`` is zero if not ``by_fill``. Cost:
    ``n_edges * n_words``, and the missing pairs.
    """
    n, n_words = rows.shape
    ops = 0.0
    for v in range(n):
        twice, total = 0.0, 0.0
        for k in range(n_words):
            x = rows[v, k]
            while x != ZERO:
                a = (k << 6) + lowest(x)
                x &= x - ONE
                total += weight[a]
                if not by_fill:
                    continue
                apart = -weight[a]  # a is not next to itself
                for q in range(n_words):
                    y = rows[v, q] & ~rows[a, q]
                    while y != ZERO:
                        apart += weight[(q << 6) + lowest(y)]
                        y &= y - ONE
                twice += weight[a] * apart
                ops += n_words
        fill[v], mass[v] = 0.5 * twice, total
    return ops


@twofold_kernel
def update_tournament(key: Floats, offsets: Ints, leaf: int) -> None:
    """Update the places above one leaf: every place of a level holds the least of eight below it."""
    for level in range(offsets.shape[0] - 1):
        leaf >>= 3
        first = offsets[level] + 8 * leaf
        least = key[first]
        for k in range(1, 8):
            x = key[first + k]
            least = x if x < least else least
        at = offsets[level + 1] + leaf
        if key[at] == least:
            break
        key[at] = least


@twofold_kernel
def tournament_min(key: Floats, offsets: Ints) -> int:
    """Return the first leaf of smallest key."""
    leaf = 0
    for level in range(offsets.shape[0] - 2, -1, -1):
        least = key[offsets[level + 1] + leaf]
        leaf <<= 3
        while key[offsets[level] + leaf] != least:
            leaf += 1
    return leaf


@twofold_kernel
def greedy_elimination(
    rows: Bits,
    card: Floats,
    stage: Ints,
    scores: GreedyScores,
    leaf_of: Ints,
    max_cells: float,
    max_ops: float,
    scratch: GreedyScratch,
    order: Ints,
    cells_of: Floats,
) -> tuple[float, float]:
    """Eliminate all vertices greedily; write order and clique cells, return total cells and operations.

    Equivalent to::

        for step in range(n):
            v = argmin(score(u) * scores.noise[u] for u of the smallest stage left)
            cells_of[v] = prod(card[N(v) + [v]]); join all pairs of N(v); remove v; order[step] = v
        return cells_of.sum(), ops

    ``rows`` and ``scores`` (of `fill_scores`) are used up. ``leaf_of`` is a permutation: among equal scores the
    smallest leaf goes first. The run gives up with ``-1``, the order incomplete, when the total passes ``max_cells``
    or the operations ``max_ops``. Shapes: ``rows (n, n_words)``, the others ``(n,)``.

    Cost: for each elimination ``degree * n_words``, for each added edge ``n_words`` and the common neighbours.
    Numerics: scores are exact as long as products of two weights are multiples of a common quantum and their sums
    stay below 2**53 of it.
    """
    n, n_words = rows.shape
    by_fill, weight, fill, mass, noise = scores
    offsets, key, members, vertex, touched = scratch
    for i in range(key.size):
        key[i] = np.inf
    for v in range(n):
        vertex[leaf_of[v]] = v
    current, total, ops, scale = -1, 0.0, 8.0 * n, 1.0 + 0.25 * n_words
    for step in range(n):
        while key[offsets[-1]] == np.inf:
            current += 1
            for v in range(n):
                if stage[v] == current:
                    key[leaf_of[v]] = (fill[v] if by_fill else mass[v] + weight[v]) * noise[v]
                    update_tournament(key, offsets, leaf_of[v])
        v = vertex[tournament_min(key, offsets)]
        order[step], key[leaf_of[v]] = v, np.inf
        update_tournament(key, offsets, leaf_of[v])
        degree, cells = 0, card[v]
        for k in range(n_words):
            x = rows[v, k]
            touched[k] = x
            while x != ZERO:
                members[degree] = (k << 6) + lowest(x)
                x &= x - ONE
                cells *= card[members[degree]]
                degree += 1
        total += cells
        cells_of[v] = cells
        if total > max_cells or ops > max_ops:
            return -1.0, ops
        for i in range(degree):  # the neighbours become a clique
            a = members[i]
            first, bit = a >> 6, ONE << np.uint64(a & 63)
            for k in range(first, n_words):
                x = rows[v, k] & ~rows[a, k]
                if k == first:
                    x &= ~(bit | (bit - ONE))  # each pair once
                while x != ZERO:
                    b = (k << 6) + lowest(x)
                    x &= x - ONE
                    if by_fill:
                        pair, common = weight[a] * weight[b], 0.0
                        for q in range(n_words):
                            y = rows[a, q] & rows[b, q]
                            touched[q] |= y
                            while y != ZERO:
                                u = (q << 6) + lowest(y)
                                y &= y - ONE
                                common += weight[u]
                                fill[u] -= pair
                                ops += 1.0
                        fill[a] += weight[b] * (mass[a] - common)
                        fill[b] += weight[a] * (mass[b] - common)
                        ops += scale
                    mass[a] += weight[b]
                    mass[b] += weight[a]
                    rows[a, k] |= ONE << np.uint64(b & 63)
                    rows[b, first] |= bit
                    ops += 4.0
        ops += (degree + 8.0) * scale
        others = ~(ONE << np.uint64(v & 63))
        for i in range(degree):  # and v leaves
            a = members[i]
            rows[a, v >> 6] &= others
            mass[a] -= weight[v]
            fill[a] -= weight[v] * (mass[a] - (mass[v] - weight[a]))
        for k in range(n_words):
            x = touched[k]
            while x != ZERO:
                u = (k << 6) + lowest(x)
                x &= x - ONE
                if stage[u] == current and u != v:
                    key[leaf_of[u]] = (fill[u] if by_fill else mass[u] + weight[u]) * noise[u]
                    update_tournament(key, offsets, leaf_of[u])
                    ops += 8.0
    return total, ops
