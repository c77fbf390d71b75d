"""The interaction graph of a model and the vertices that every good elimination order takes first.

Two variables are joined when a factor contains both. A vertex whose neighbours are all joined already (*simplicial*)
can be eliminated without adding an edge, and first: the clique it makes is in every triangulation. Leaves and isolated
vertices are the smallest case, so chains and trees are planned here, in linear time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Bools, Floats, Ints

__all__ = ["EliminationGraph", "connected_components", "primal_graph", "strip_simplicial"]

MAX_NEIGHBOURS = 32  # larger cliques are left to the greedy search, which finds them too


class EliminationGraph(NamedTuple):
    """A graph whose vertices are to be eliminated, in CSR; see :func:`primal_graph`."""

    ptr: Ints  # (n+1,)
    adj: Ints  # (n_edges,) neighbours, each edge in both directions
    card: Floats  # (n,) cardinalities
    stage: Ints  # (n,) vertices of a smaller stage go first


@twofold_kernel
def _offsets(ptr: Ints) -> None:
    """Turn counts in ``ptr[1:]`` to offsets: ``ptr[:] = np.cumsum(ptr)``."""
    for i in range(1, ptr.shape[0]):
        ptr[i] += ptr[i - 1]


def primal_graph(scope_ptr: Ints, scope_vars: Ints, active: Bools) -> tuple[Ints, Ints]:
    """Return the interaction graph of the active variables in CSR, both directions, neighbours ascending.

    Equivalent to ``A = B @ B.T`` with the (variable, factor) incidence matrix ``B``, its diagonal and inactive rows
    removed. Shapes: ``scope_ptr (n_factors+1,)``, ``scope_vars (n_edges,)``, ``active (n_vars,)``; returns ``ptr
    (n_vars+1,)`` and ``adj (ptr[-1],)``. Cost: the sum of the squared scope lengths, to count and to write.
    """
    ptr = np.zeros(active.size + 1, np.int64)
    list_neighbours(scope_ptr, scope_vars, active, ptr, np.empty(0, np.int64))
    adj = np.empty(int(ptr[-1]), np.int64)
    if adj.size:
        list_neighbours(scope_ptr, scope_vars, active, ptr, adj)
    return ptr, adj


@twofold_kernel(cost=1.5)
def list_neighbours(scope_ptr: Ints, scope_vars: Ints, active: Bools, ptr: Ints, adj: Ints) -> None:
    """Write the lists' offsets to ``ptr``, if ``adj`` is empty; else the lists to ``adj``, with ``ptr`` as it is."""
    n = active.shape[0]
    var_ptr, var_factors = np.zeros(n + 1, np.int64), np.empty(scope_vars.shape[0], np.int64)
    for e in range(scope_vars.shape[0]):
        var_ptr[scope_vars[e] + 1] += 1
    _offsets(var_ptr)
    cursor = var_ptr.copy()
    for f in range(scope_ptr.shape[0] - 1):
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            var_factors[cursor[scope_vars[e]]] = f
            cursor[scope_vars[e]] += 1
    seen, write = np.full(n, -1, np.int64), adj.shape[0] > 0
    for v in range(n + 1):
        cursor[v] = ptr[v]
    for v in range(n):  # v goes to the lists of its neighbours, so these come out sorted
        seen[v] = v
        if not active[v]:
            continue
        for q in range(var_ptr[v], var_ptr[v + 1]):
            f = var_factors[q]
            for e in range(scope_ptr[f], scope_ptr[f + 1]):
                u = scope_vars[e]
                if seen[u] == v or not active[u]:
                    continue
                seen[u] = v
                if write:
                    adj[cursor[u]] = v
                    cursor[u] += 1
                else:
                    ptr[u + 1] += 1
    if not write:
        _offsets(ptr)


@twofold_kernel
def _has_edge(ptr: Ints, adj: Ints, a: int, b: int) -> bool:
    """Say whether a and b are joined, by bisection in the shorter list."""
    if ptr[a + 1] - ptr[a] > ptr[b + 1] - ptr[b]:
        a, b = b, a
    low, high = ptr[a], ptr[a + 1]
    while low < high:
        middle = (low + high) >> 1
        if adj[middle] < b:
            low = middle + 1
        else:
            high = middle
    return bool(low < ptr[a + 1] and adj[low] == b)


@twofold_kernel
def strip_simplicial(ptr: Ints, adj: Ints, eligible: Bools, queue: Ints, alive: Bools, order: Ints) -> int:
    """Eliminate eligible simplicial vertices until none is left; return how many there were.

    Writes them to ``order`` and clears them in ``alive``. ``queue`` holds the vertices of the graph in the order in
    which to look at them, and is used up. Vertices with more than `MAX_NEIGHBOURS` neighbours are not looked at.
    Shapes: ``(n,)``. Cost: linear in vertices and edges, times the square of the cliques found.
    """
    n, size = ptr.shape[0] - 1, queue.shape[0]
    degree, queued = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    near = np.empty(MAX_NEIGHBOURS, np.int64)
    for v in range(n):
        for e in range(ptr[v], ptr[v + 1]):
            degree[v] += 1 if alive[adj[e]] else 0
    for i in range(size):
        queued[queue[i]] = True
    head, waiting, count = 0, size, 0
    while waiting > 0:
        v = queue[head]
        head = head + 1 if head + 1 < size else 0
        waiting -= 1
        queued[v] = False
        if not (alive[v] and eligible[v] and degree[v] <= MAX_NEIGHBOURS):
            continue
        m = 0
        for e in range(ptr[v], ptr[v + 1]):
            if alive[adj[e]]:
                near[m] = adj[e]
                m += 1
        simplicial = True
        for i in range(1, m):
            for j in range(i):
                simplicial = simplicial and _has_edge(ptr, adj, near[i], near[j])
            if not simplicial:
                break
        if not simplicial:
            continue
        alive[v], order[count] = False, v
        count += 1
        for i in range(m):
            u = near[i]
            degree[u] -= 1
            if not queued[u]:
                queued[u] = True
                queue[(head + waiting) % size] = u
                waiting += 1
    return count


@twofold_kernel
def connected_components(ptr: Ints, adj: Ints, alive: Bools, members: Ints, component_ptr: Ints) -> int:
    """Write the connected components of the alive vertices, breadth first; return how many there are.

    Component c is ``members[component_ptr[c] : component_ptr[c + 1]]``. Shapes: ``members (n,)``, ``component_ptr
    (n+1,)``. Linear.
    """
    n = alive.shape[0]
    seen = np.zeros(n, np.bool_)
    count, tail = 0, 0
    component_ptr[0] = 0
    for root in range(n):
        if seen[root] or not alive[root]:
            continue
        head = tail
        members[tail], seen[root] = root, True
        tail += 1
        while head < tail:
            v = members[head]
            head += 1
            for e in range(ptr[v], ptr[v + 1]):
                u = adj[e]
                if alive[u] and not seen[u]:
                    seen[u], members[tail] = True, u
                    tail += 1
        count += 1
        component_ptr[count] = tail
    return count
