"""Shortest paths by breadth-first search, over some of the edges of a graph, to the first vertex that will do."""

from typing import NamedTuple

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Ints

__all__ = ["Incidence", "Walk", "nearest_target"]


class Incidence(NamedTuple):
    """Offsets a vertex, and the neighbour and the edge behind each entry."""

    ptr: Ints
    neighbour: Ints
    edge: Ints


class Walk(NamedTuple):
    """Room for a search: ``seen``, ``before`` and ``queue``, ``(n_vertices,)`` each.

    ``seen`` has the number of the last search that met a vertex, ``before`` the vertex that it came from.
    """

    seen: Ints
    before: Ints
    queue: Ints


@twofold_kernel
def nearest_target(
    graph: Incidence, kind: Ints, wanted: int, target: Ints, start: int, skipped: int, number: int, walk: Walk
) -> int:
    """Return the nearest vertex that is a target, over edges of one kind; -1 if none can be reached.

    Equivalent to ``networkx``'s breadth-first search from ``start`` on the edges with ``kind[e] == wanted`` without the
    edge ``skipped``, up to the first vertex ``v`` with ``target[v] == 1``; ``start`` itself counts.
    Shapes: ``kind (n_edges,)``, ``target (n_vertices,)``; ``walk.before`` leads back from the answer to the start.
    Cost: the edges at all vertices that are nearer.
    Numerics: integers; ``number`` must be another one at every call with the same ``walk``.
    """
    walk.seen[start] = number
    walk.before[start] = -1
    walk.queue[0] = start
    first, last = 0, 1
    while first < last:
        v = walk.queue[first]
        first += 1
        if target[v] == 1:
            return int(v)
        for k in range(graph.ptr[v], graph.ptr[v + 1]):
            e, u = graph.edge[k], graph.neighbour[k]
            if kind[e] == wanted and e != skipped and walk.seen[u] != number:
                walk.seen[u] = number
                walk.before[u] = v
                walk.queue[last] = u
                last += 1
    return -1
