r"""Loop regions: cycles of a pairwise model, with the edges and vertices that keep their beliefs together.

Every cycle has c = 1. With :math:`n_e` cycles through an edge and :math:`l_i` through a vertex [gelfand2014]

.. math:: c_e = 1 - n_e, \qquad c_i = 1 - l_i - \sum_{e \ni i} c_e,

so that an edge in no cycle is an outer region, with c = 1. What imposes nothing is left out: edges in exactly one cycle
(c = 0), and a vertex with c = 0 whose outer regions are held together at it by the edges that were kept. A vertex with
c = 0 whose outer regions are not held together stays. Parents follow by covering; a cycle is a direct parent of a
vertex where none of its own edges there was kept.

Cost: linear in the cycles' lengths and the edges.
"""

from __future__ import annotations

import numpy as np

from beliefs.cycles.pairs import Cycle, PairGraph
from beliefs.inference.clusters.region_sets import Region
from beliefs.model.graph import FactorGraph
from beliefs.model.scopes import Scopes
from beliefs.typing import Bools, Floats, Ints

__all__ = ["loop_regions"]


def loop_regions(graph: FactorGraph, cycles: list[Cycle]) -> tuple[list[Region], Floats, Ints]:
    """Return regions (cycles first), counting numbers, and edges from parent to child."""
    pairs, rows = PairGraph.of(graph), Scopes.of(cycles)
    n_vars, n_cycles = pairs.n_vars, len(cycles)
    side = pairs.numbers(rows.var, rows.next)
    n_loops = np.bincount(side, minlength=pairs.n_edges)
    alone, kept = np.flatnonzero(n_loops == 0), np.flatnonzero(n_loops > 1)
    place = np.full(pairs.n_edges, -1, np.int64)  # the region of an edge
    place[alone] = n_cycles + np.arange(alone.size)
    place[kept] = n_cycles + alone.size + np.arange(kept.size)
    of_edges = 1.0 - n_loops[kept]
    # at a vertex: cycles through it, each with the edges before and after it, and edges in no cycle
    before = np.roll(side, 1)
    before[rows.ptr[:-1]] = side[rows.ptr[1:] - 1]
    near = np.bincount(rows.var, minlength=n_vars) + np.bincount(pairs.edges[alone].ravel(), minlength=n_vars)
    debts = np.bincount(pairs.edges[kept].ravel(), np.repeat(of_edges, 2), n_vars)
    number = 1.0 - near - debts
    through = np.stack([np.where(n_loops[edge] > 1, edge, -1) for edge in (before, side)], axis=1)
    held = _held_together(pairs, rows.var, through, alone)
    own = np.flatnonzero(~graph.layout.observed & ~((near > 0) & (number == 0.0) & held))
    region = np.full(n_vars, -1, np.int64)
    region[own] = n_cycles + alone.size + kept.size + np.arange(own.size)
    free = (through < 0).all(axis=1)  # a cycle is a direct parent of a vertex where none of its edges there was kept
    several = n_loops[side] > 1
    links = np.concatenate([
        np.stack([rows.row[several], place[side[several]]], axis=1),
        np.stack([rows.row[free], region[rows.var[free]]], axis=1),
        *(np.stack([place[edges], region[pairs.edges[edges, k]]], axis=1) for edges in (alone, kept) for k in (0, 1)),
    ])  # fmt: skip
    scopes = [*cycles, *map(tuple, pairs.edges[np.append(alone, kept)].tolist()), *((v,) for v in own.tolist())]
    counting = np.concatenate([np.ones(n_cycles + alone.size), of_edges, number[own]])
    return scopes, counting, links[links[:, 1] >= 0]


def _held_together(pairs: PairGraph, var: Ints, through: Ints, alone: Ints) -> Bools:
    """Return at which vertices the outer regions are connected through edges that were kept.

    ``var`` and ``through`` are the vertices of cycles, and the two edges there, -1 for one that was not kept.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = var.size
    entry, k = np.nonzero(through >= 0)
    edge = through[entry, k]
    end = n + 2 * edge + (pairs.edges[edge, 1] == var[entry])  # a kept edge at one of its two ends
    size = n + 2 * pairs.n_edges
    links = coo_array((np.ones(entry.size), (entry, end)), shape=(size, size))
    label = connected_components(links, directed=False)[1][:n].astype(np.int64)
    alone_at = pairs.edges[alone].ravel()
    label, at = np.append(label, size + np.arange(alone_at.size)), np.append(var, alone_at)
    low, high = np.full(pairs.n_vars, 2 * size), np.full(pairs.n_vars, -1)
    np.minimum.at(low, at, label)
    np.maximum.at(high, at, label)
    return low >= high
