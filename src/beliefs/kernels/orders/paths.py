"""Shortest paths by breadth-first search, over some of the edges of a graph, to the first vertex that will do."""

from typing import NamedTuple

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Ints

__all__ = ["Incidence", "Walk", "meeting", "nearest_target"]


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
    if target[start] == 1:
        return int(start)
    while first < last:
        v = walk.queue[first]
        first += 1
        for k in range(graph.ptr[v], graph.ptr[v + 1]):
            e, u = graph.edge[k], graph.neighbour[k]
            if walk.seen[u] != number and kind[e] == wanted and e != skipped:
                walk.seen[u] = number
                walk.before[u] = v
                if target[u] == 1:
                    return int(u)
                walk.queue[last] = u
                last += 1
    return -1


@twofold_kernel
def meeting(
    graph: Incidence, kind: Ints, wanted: int, start: int, goal: int, number: int, walk: Walk, back: Walk
) -> tuple[int, int]:
    """Return the two vertices between which searches from both ends meet on a shortest path; -1, -1 if there is none.

    Equivalent to ``networkx``'s bidirectional search between ``start`` and ``goal``, which are not the same, on the
    edges with ``kind[e] == wanted``.
    Shapes: as in :func:`nearest_target`; ``walk.before`` leads from the first vertex back to the start, ``back.before``
    from the second one to the goal.
    Cost: in a plane about half of a search from one end; the side with fewer vertices to go on from goes on.
    Numerics: integers; as there.
    """
    walk.seen[start] = number
    walk.before[start] = -1
    walk.queue[0] = start
    back.seen[goal] = number
    back.before[goal] = -1
    back.queue[0] = goal
    first, last, first_back, last_back = 0, 1, 0, 1
    while first < last and first_back < last_back:
        forth = last - first <= last_back - first_back
        near, far = (walk, back) if forth else (back, walk)
        at, end = (first, last) if forth else (first_back, last_back)
        new = end
        for place in range(at, end):
            v = near.queue[place]
            for k in range(graph.ptr[v], graph.ptr[v + 1]):
                u = graph.neighbour[k]
                if near.seen[u] != number and kind[graph.edge[k]] == wanted:
                    if far.seen[u] == number:
                        return (int(v), int(u)) if forth else (int(u), int(v))
                    near.seen[u] = number
                    near.before[u] = v
                    near.queue[new] = u
                    new += 1
        if forth:
            first, last = end, new
        else:
            first_back, last_back = end, new
    return -1, -1
