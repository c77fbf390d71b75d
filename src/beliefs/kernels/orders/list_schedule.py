"""Orders that give the results of another order, to the last bit, without waiting for each result.

In raster order each update needs the one just before it, and a processor that could do three at a time does one. An
update depends only on those of its neighbours, so any order that leaves neighbours in their turn has the same results:
on a grid, some rows side by side, each a step behind the one above it.
"""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.layout import Adjacency, Scopes
from beliefs.typing import Ints

__all__ = ["list_schedule"]


@twofold_kernel
def _push(heap: Ints, size: int, v: int) -> None:
    """Put ``v`` into a heap of ``size`` entries, smallest first."""
    i = size
    while i > 0 and heap[(i - 1) // 2] > v:
        heap[i] = heap[(i - 1) // 2]
        i = (i - 1) // 2
    heap[i] = v


@twofold_kernel
def _pop(heap: Ints, size: int) -> int:
    """Take the smallest of ``size`` entries out of the heap."""
    smallest, v, i = heap[0], heap[size - 1], 0
    while 2 * i + 1 < size - 1:
        child = 2 * i + 1
        if child + 1 < size - 1 and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= v:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = v
    return int(smallest)


@twofold_kernel
def list_schedule(items: Ints, delay: int, scopes: Scopes, adjacency: Adjacency, order: Ints) -> None:
    """Write the variables ``items``, ascending, to ``order`` so that neighbours stay in their turn but ``delay`` apart.

    At each place comes the smallest variable whose smaller neighbours are all ``delay`` places back; where there is
    none, the one whose neighbours are furthest back. All variables of factors must be among ``items``. Reversed, the
    order is one for the reversed items. Cost: edges times arity, and a heap as large as the choice there is.
    """
    scope_ptr, scope_vars = scopes.scope_ptr, scopes.scope_vars
    var_ptr, var_edges, edge_factor = adjacency
    n_vars = var_ptr.size - 1
    waits, heap = np.zeros(n_vars, np.int64), np.empty(n_vars, np.int64)
    queue, due = np.empty(n_vars, np.int64), np.empty(n_vars, np.int64)
    size, head, tail = 0, 0, 0
    for v in items:
        for i in range(var_ptr[v], var_ptr[v + 1]):
            f = edge_factor[var_edges[i]]
            for j in range(scope_ptr[f], scope_ptr[f + 1]):
                waits[v] += scope_vars[j] < v
        if waits[v] == 0:
            heap[size] = v
            size += 1
    for t in range(items.size):
        while head < tail and due[head] <= t:
            _push(heap, size, queue[head])
            size, head = size + 1, head + 1
        if size > 0:
            v = _pop(heap, size)
            size -= 1
        else:
            v = queue[head]
            head += 1
        order[t] = v
        for i in range(var_ptr[v], var_ptr[v + 1]):
            f = edge_factor[var_edges[i]]
            for j in range(scope_ptr[f], scope_ptr[f + 1]):
                u = scope_vars[j]
                if u > v:
                    waits[u] -= 1
                    if waits[u] == 0:
                        queue[tail], due[tail] = u, t + delay
                        tail += 1
