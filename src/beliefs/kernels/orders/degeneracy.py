"""An order in which every variable has few later neighbours: repeatedly remove a vertex of least degree."""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Ints

__all__ = ["degeneracy_order"]


@twofold_kernel
def degeneracy_order(ptr: Ints, near: Ints, stage: Ints, order: Ints) -> int:
    """Write the vertices in the order of their removal; return how many.

    ``near[ptr[v] : ptr[v + 1]]`` lists the neighbours of ``v``, each once. Vertices of stage 0 go before those of stage
    1; a negative stage takes no part and counts as no neighbour. Ties go to the vertex whose degree fell last, at first
    to the smallest index. Linear in vertices and edges [matula1983].
    """
    n = stage.size
    degree = np.zeros(n, np.int64)
    most = 0
    for v in range(n):
        for e in range(ptr[v], ptr[v + 1]):
            degree[v] += stage[near[e]] >= 0
        most = max(most, degree[v])
    head = np.empty(most + 1, np.int64)
    after, before = np.empty(n, np.int64), np.empty(n, np.int64)
    gone = np.zeros(n, np.bool_)
    count = 0
    for now in range(2):
        head[:] = -1
        for v in range(n - 1, -1, -1):
            if stage[v] == now:
                _insert(v, degree, head, after, before)
        least = 0
        while least <= most:
            v = head[least]
            if v < 0:
                least += 1
                continue
            _remove(v, degree, head, after, before)
            gone[v] = True
            order[count] = v
            count += 1
            for e in range(ptr[v], ptr[v + 1]):
                u = near[e]
                if stage[u] < now or gone[u]:
                    continue
                if stage[u] == now:
                    _remove(u, degree, head, after, before)
                degree[u] -= 1
                if stage[u] == now:
                    _insert(u, degree, head, after, before)
            least = max(least - 1, 0)
    return count


@twofold_kernel
def _insert(v: int, degree: Ints, head: Ints, after: Ints, before: Ints) -> None:
    """Put a vertex at the head of the list of its degree."""
    first = head[degree[v]]
    after[v], before[v] = first, -1
    if first >= 0:
        before[first] = v
    head[degree[v]] = v


@twofold_kernel
def _remove(v: int, degree: Ints, head: Ints, after: Ints, before: Ints) -> None:
    """Take a vertex out of the list of its degree."""
    if before[v] >= 0:
        after[before[v]] = after[v]
    else:
        head[degree[v]] = after[v]
    if after[v] >= 0:
        before[after[v]] = before[v]
