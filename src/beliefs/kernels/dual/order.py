"""An order in which few factors have several variables left."""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.layout import Adjacency, Scopes
from beliefs.kernels.primitives.heap import Heap, pop, put
from beliefs.typing import Ints

__all__ = ["fewest_factors_order"]


@twofold_kernel
def fewest_factors_order(scopes: Scopes, adjacency: Adjacency, stage: Ints, order: Ints) -> int:
    """Write the variables, each time the one in the fewest factors that have another variable left.

    Smaller stages come first, ties go to the smaller index; variables with a negative stage are left out. On a forest
    leaves come first, on a grid the order is row by row. Returns how many were written. Cost: edges times arity, and a
    heap.
    """
    scope_ptr, scope_vars = scopes.scope_ptr, scopes.scope_vars
    var_ptr, var_edges, edge_factor = adjacency.var_ptr, adjacency.var_edges, adjacency.edge_factor
    n_vars, most = var_ptr.size - 1, float(edge_factor.size + 1)
    left, done = np.empty(scope_ptr.size - 1, np.int64), np.zeros(n_vars, np.bool_)
    for f in range(left.size):
        left[f] = scope_ptr[f + 1] - scope_ptr[f]
    key, size = np.zeros(n_vars), np.zeros(1, np.int64)
    heap = Heap(np.empty(n_vars, np.int64), np.full(n_vars, -1, np.int64), key, size)
    for v in range(n_vars):
        if stage[v] >= 0:
            key[v] = stage[v] * most
            for i in range(var_ptr[v], var_ptr[v + 1]):
                key[v] += 1.0 if left[edge_factor[var_edges[i]]] > 1 else 0.0
            put(heap, v)
    n = 0
    while size[0] > 0:
        v = pop(heap)
        done[v] = True
        order[n] = v
        n += 1
        for i in range(var_ptr[v], var_ptr[v + 1]):
            f = edge_factor[var_edges[i]]
            left[f] -= 1
            if left[f] == 1:
                for e in range(scope_ptr[f], scope_ptr[f + 1]):
                    u = scope_vars[e]
                    if not done[u]:
                        key[u] -= 1.0
                        put(heap, u)
    return n
