"""Layered drawing of a directed acyclic graph, arcs pointing down (after Sugiyama, Tagawa and Toda, 1981).

Four steps: (1) layers that make all arcs together shortest, by a linear program; (2) an arc across several layers
becomes a chain of *bends*, so that it is led between the vertices; (3) within each layer the
order follows the barycentres of the neighbours, sweeping down and up, and neighbours are exchanged while that removes
crossings; the order with fewest crossings is kept; (4) coordinates are the least-squares answer to "stand below your
neighbours" under the order and the widths, layer by layer: an isotonic regression.

Everything is deterministic. Cost: a sweep is E log E in the arcs and bends. Crossings are reduced, not minimised (that
is NP-hard).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beliefs.typing import Floats, Ints

__all__ = ["Drawing", "layered_drawing", "layers"]

_ORDER_SWEEPS, _PLACE_SWEEPS = 24, 40
_BEND_WIDTH = 0.2  # of the gap between vertices: lines need less room than boxes
_STAY = 0.01  # weight of staying where one is
_STRAIGHT = 4.0  # a line prefers to be straight over its ends being centred


@dataclass(frozen=True, eq=False)
class Drawing:
    """Where things are: ``x (n,)``, ``layer (n,)`` from the top, and each arc's bends as ``(x, layer)`` rows."""

    x: Floats
    layer: Ints
    bends: tuple[Floats, ...]
    n_crossings: int


def layered_drawing(n: int, arcs: Sequence[tuple[int, int]], width: Floats, gap: float = 1.0) -> Drawing:
    """Place ``n`` vertices of given widths so that all ``arcs (parent, child)`` point down and nothing overlaps."""
    layer = layers(n, arcs)
    chains, levels = _with_bends(n, arcs, layer)
    links = [pair for chain in chains for pair in zip(chain[:-1], chain[1:], strict=True)]
    above, below = _neighbours(len(levels), links)
    rows = _ordered(levels, above, below)
    sizes = np.full(len(levels), _BEND_WIDTH * gap)
    sizes[:n] = width
    x = _placed(rows, above, below, sizes, gap, n)
    bends = tuple(np.array([(x[v], levels[v]) for v in chain[1:-1]]).reshape(-1, 2) for chain in chains)
    return Drawing(x[:n], layer, bends, _crossings(rows, below))


def layers(n: int, arcs: Sequence[tuple[int, int]]) -> Ints:
    r"""Return each vertex's layer, ``(n,)``, such that all arcs together are shortest.

    .. math:: \min \sum_{(u, v)} (\ell_v - \ell_u) \quad \text{where } \ell_v - \ell_u \ge 1, \; \ell \ge 0

    The constraint matrix is totally unimodular, so the vertex that the simplex method returns is integral.
    """
    if not arcs:
        return np.zeros(n, np.int64)
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    tails, heads = np.array(arcs).T
    m, ones = len(arcs), np.ones(len(arcs))
    cost = np.bincount(heads, minlength=n) - np.bincount(tails, minlength=n)
    rows = csr_array(
        (np.concatenate([ones, -ones]), (np.tile(np.arange(m), 2), np.concatenate([tails, heads]))), (m, n)
    )
    answer = linprog(cost, A_ub=rows, b_ub=-ones, bounds=(0, None), method="highs-ds")
    layer: Ints = np.rint(answer.x).astype(np.int64)
    assert (layer[heads] > layer[tails]).all(), "the arcs form a cycle"
    return layer


def _neighbours(n: int, arcs: Sequence[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    parents: list[list[int]] = [[] for _ in range(n)]
    children: list[list[int]] = [[] for _ in range(n)]
    for u, v in arcs:
        parents[v].append(u)
        children[u].append(v)
    return parents, children


def _with_bends(n: int, arcs: Sequence[tuple[int, int]], layer: Ints) -> tuple[list[list[int]], list[int]]:
    """Return each arc as the chain of its vertices and bends, and everyone's layer; bends are numbered from ``n``."""
    levels, chains = [int(k) for k in layer], []
    for u, v in arcs:
        inner = range(levels[u] + 1, levels[v])
        chains.append([u, *range(len(levels), len(levels) + len(inner)), v])
        levels.extend(inner)
    return chains, levels


# -- the order within layers --------------------------------------------------------------------------------------
def _ordered(levels: list[int], above: list[list[int]], below: list[list[int]]) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in range(max(levels, default=-1) + 1)]
    for v in _by_connection(len(levels), above, below):
        rows[levels[v]].append(v)
    best, fewest = [row[:] for row in rows], _crossings(rows, below)
    for sweep in range(_ORDER_SWEEPS):
        if not fewest:
            break
        if sweep % 2 == 0:
            for k in range(1, len(rows)):
                _sort_by_barycentre(rows[k], rows[k - 1], above)
        else:
            for k in range(len(rows) - 2, -1, -1):
                _sort_by_barycentre(rows[k], rows[k + 1], below)
        _exchange(rows, above, below)
        count = _crossings(rows, below)
        if count < fewest:
            best, fewest = [row[:] for row in rows], count
    return best


def _by_connection(n: int, above: list[list[int]], below: list[list[int]]) -> list[int]:
    """Return all vertices depth first along arcs in either direction, so that what is connected starts together."""
    seen, found = [False] * n, []
    for root in range(n):
        stack = [root]
        while stack:
            v = stack.pop()
            if not seen[v]:
                seen[v] = True
                found.append(v)
                stack.extend(reversed(below[v] + above[v]))
    return found


def _positions(rows: list[list[int]]) -> dict[int, int]:
    return {v: k for row in rows for k, v in enumerate(row)}


def _sort_by_barycentre(row: list[int], beside: list[int], near: list[list[int]]) -> None:
    """Sort a layer by its neighbours' mean place in the one beside; who has none there keeps its own."""
    place = {v: k for k, v in enumerate(beside)}
    mean = {v: sum(place[u] for u in near[v]) / len(near[v]) for v in row if near[v]}
    moving = iter(sorted(mean, key=lambda v: mean[v]))
    row[:] = [next(moving) if v in mean else v for v in row]


def _exchange(rows: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Exchange vertices that stand side by side while that removes crossings."""
    place = _positions(rows)
    improved = True
    while improved:
        improved = False
        for row in rows:
            for k in range(len(row) - 1):
                u, v = row[k], row[k + 1]
                if _pair(u, v, above, below, place) > _pair(v, u, above, below, place):
                    row[k], row[k + 1] = v, u
                    place[u], place[v] = k + 1, k
                    improved = True


def _pair(u: int, v: int, above: list[list[int]], below: list[list[int]], place: dict[int, int]) -> int:
    """Return the crossings between the arcs of ``u`` and those of ``v`` when ``u`` stands to the left."""
    return sum(place[a] > place[b] for side in (above, below) for a in side[u] for b in side[v])


def _crossings(rows: list[list[int]], below: list[list[int]]) -> int:
    """Count pairs of arcs that cross between adjacent layers: inversions of the children's places."""
    place, total = _positions(rows), 0
    for row in rows:
        seen: list[int] = []
        for u in row:
            ends = sorted(place[v] for v in below[u])
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


# -- coordinates --------------------------------------------------------------------------------------------------
def _placed(
    rows: list[list[int]], above: list[list[int]], below: list[list[int]], size: Floats, gap: float, n: int
) -> Floats:
    x = np.zeros(len(size))
    for row in rows:
        ends = np.cumsum(size[row] + gap)
        x[row] = ends - 0.5 * (size[row] + gap) - 0.5 * ends[-1]
    for sweep in range(_PLACE_SWEEPS):
        sides = ((above,), (below,), (above, below), (above, below))[sweep % 4]
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _settle(np.array(row), sides, size, gap, n, x)
    x -= x.min(initial=0.0)
    return x


def _settle(row: Ints, sides: tuple[list[list[int]], ...], size: Floats, gap: float, n: int, x: Floats) -> None:
    """Move one layer next to its neighbours: least squares under the order and the distances."""
    from scipy.optimize import isotonic_regression

    wish, weight = x[row].copy(), np.full(row.size, _STAY)
    for k, v in enumerate(row):
        near = [u for side in sides for u in side[v]]
        if near:
            pull = np.array([_STRAIGHT if v >= n and u >= n else 1.0 for u in near])
            wish[k], weight[k] = x[near] @ pull / pull.sum(), pull.sum()
        elif len(sides) == 2:  # it has no neighbours at all
            wish[k] = x[row].mean()
    apart = 0.5 * (size[row][1:] + size[row][:-1]) + np.where((row[1:] >= n) & (row[:-1] >= n), 0.5, 1.0) * gap
    offset = np.concatenate([[0.0], np.cumsum(apart)])
    x[row] = isotonic_regression(wish - offset, weights=weight).x + offset
