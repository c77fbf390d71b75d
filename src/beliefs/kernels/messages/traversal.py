"""Walks over a factor graph that plan the order of messages."""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Ints

__all__ = ["factor_classes", "factor_traversal"]


@twofold_kernel
def factor_traversal(
    scope_ptr: Ints, scope_vars: Ints, var_ptr: Ints, var_edges: Ints, edge_factor: Ints, order: Ints
) -> bool:
    """Write the factors breadth first, part by part, from the lowest variable; return whether the graph is a forest.

    Leaves-to-root is this order reversed. A factor graph is a forest when edges = variables + factors - parts.
    Cost: edges.
    """
    n_vars, n_factors = var_ptr.size - 1, scope_ptr.size - 1
    seen_var = np.zeros(n_vars, np.bool_)
    seen_factor = np.zeros(n_factors, np.bool_)
    queue = np.empty(n_vars, np.int64)
    count = 0
    parts = 0
    for f in range(n_factors):  # constants first; they send nothing
        if scope_ptr[f] == scope_ptr[f + 1]:
            order[count] = f
            count += 1
            parts += 1
    for root in range(n_vars):
        if seen_var[root]:
            continue
        seen_var[root] = True
        parts += 1
        queue[0] = root
        head, tail = 0, 1
        while head < tail:
            v = queue[head]
            head += 1
            for i in range(var_ptr[v], var_ptr[v + 1]):
                f = edge_factor[var_edges[i]]
                if seen_factor[f]:
                    continue
                seen_factor[f] = True
                order[count] = f
                count += 1
                for e in range(scope_ptr[f], scope_ptr[f + 1]):
                    u = scope_vars[e]
                    if not seen_var[u]:
                        seen_var[u] = True
                        queue[tail] = u
                        tail += 1
    return scope_vars.size == n_vars + n_factors - parts


@twofold_kernel
def factor_classes(scope_ptr: Ints, scope_vars: Ints, n_vars: int, colour: Ints) -> int:
    """Colour factors greedily so that factors of one class share no variable; return the number of classes.

    Factor by factor, the smallest class that none of its variables has met. A 4-connected grid needs about five.
    Cost: edges times classes / 64.
    """
    n_classes = 0
    words = 1
    met = np.zeros((n_vars, words), np.uint64)
    for f in range(scope_ptr.size - 1):
        found = -1
        for w in range(words):
            taken = np.uint64(0)
            for e in range(scope_ptr[f], scope_ptr[f + 1]):
                taken |= met[scope_vars[e], w]
            for bit in range(64):
                if not (taken >> np.uint64(bit)) & np.uint64(1):
                    found = 64 * w + bit
                    break
            if found >= 0:
                break
        if found < 0:  # all known classes are taken: twice as many words
            more = np.zeros((n_vars, 2 * words), np.uint64)
            for v in range(n_vars):
                for w in range(words):
                    more[v, w] = met[v, w]
            met = more
            found = 64 * words
            words *= 2
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            met[scope_vars[e], found // 64] |= np.uint64(1) << np.uint64(found % 64)
        colour[f] = found
        n_classes = max(n_classes, found + 1)
    return n_classes
