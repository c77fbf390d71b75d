"""Kernel of the greedy colouring."""

from __future__ import annotations

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.layout import Adjacency, Scopes
from beliefs.typing import Ints

__all__ = ["greedy_colours"]


@twofold_kernel
def greedy_colours(scopes: Scopes, adjacency: Adjacency, taken_by: Ints, colours: Ints) -> int:
    """Give each variable the smallest colour that no neighbour of smaller index has; return the number of colours.

    Equivalent to ``colours[v] = min(set(range(n)) - {colours[u] for u in neighbours(v) if u < v})`` for ascending
    ``v``, where neighbours share a factor. ``taken_by (n_vars,)`` is scratch filled with -1; writes
    ``colours (n_vars,)``. Cost: the sum over factors of arity squared.
    """
    scope_ptr, scope_vars = scopes.scope_ptr, scopes.scope_vars
    var_ptr, var_edges, edge_factor = adjacency
    n_colours = 0
    for v in range(colours.size):
        for i in range(var_ptr[v], var_ptr[v + 1]):
            f = edge_factor[var_edges[i]]
            for e in range(scope_ptr[f], scope_ptr[f + 1]):
                if scope_vars[e] < v:
                    taken_by[colours[scope_vars[e]]] = v
        c = 0
        while c < n_colours and taken_by[c] == v:
            c += 1
        colours[v] = c
        n_colours = max(n_colours, c + 1)
    return n_colours
