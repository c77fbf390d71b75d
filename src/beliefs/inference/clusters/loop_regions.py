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

from collections import Counter

import numpy as np

from beliefs.cycles.pairs import Cycle, PairGraph, edge_set
from beliefs.inference.clusters.region_sets import Region
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["loop_regions"]


def loop_regions(graph: FactorGraph, cycles: list[Cycle]) -> tuple[list[Region], Floats, list[tuple[int, int]]]:
    """Return regions (cycles first), counting numbers, and edges from parent to child."""
    pairs = PairGraph.of(graph)
    sides = [edge_set(cycle) for cycle in cycles]
    n_loops = Counter(e for edges in sides for e in edges)
    edges = [tuple(edge) for edge in pairs.edges.tolist()]
    alone = [e for e in edges if n_loops[e] == 0]
    kept = [e for e in edges if n_loops[e] > 1]
    outer: list[Region] = [*cycles, *alone]
    place: dict[Region, int] = {e: len(outer) + k for k, e in enumerate(kept)}
    links = [(c, place[e]) for c, own in enumerate(sides) for e in sorted(own) if e in place]
    regions: list[Region] = [*outer, *kept]
    counting = [*[1.0] * len(outer), *(1.0 - n_loops[e] for e in kept)]
    tops: dict[int, list[tuple[int, list[int]]]] = {}  # outer regions at a vertex, and the edges of each that were kept
    for k, scope in enumerate(outer):
        turned = (scope[-1], *scope, scope[0]) if k < len(cycles) else ()
        for at, v in enumerate(scope):
            own = [place.get((min(u, v), max(u, v)), -1) for u in turned[at : at + 3 : 2]]
            tops.setdefault(v, []).append((k, [e for e in own if e >= 0]))
    inner: dict[int, list[int]] = {}
    for e, k in place.items():
        for v in e:
            inner.setdefault(v, []).append(k)
    for v in np.flatnonzero(~graph.layout.observed).tolist():
        near = tops.get(v, [])
        number = 1.0 - len(near) - sum(counting[k] for k in inner.get(v, []))
        if near and number == 0.0 and _held_together(near):
            continue
        parents = [*(k for k, own in near if not own), *inner.get(v, [])]
        links += [(k, len(regions)) for k in parents]
        regions.append((v,))
        counting.append(number)
    return regions, np.array(counting), links


def _held_together(near: list[tuple[int, list[int]]]) -> bool:
    """Whether outer regions at a vertex are connected through their common edges."""
    holders: dict[int, list[int]] = {}
    for k, own in near:
        for e in own:
            holders.setdefault(e, []).append(k)
    edges_of = dict(near)
    reached, todo = {near[0][0]}, [near[0][0]]
    for k in todo:  # grows while it is walked
        for other in (o for e in edges_of[k] for o in holders.pop(e, [])):
            if other not in reached:
                reached.add(other)
                todo.append(other)
    return len(reached) == len(near)
