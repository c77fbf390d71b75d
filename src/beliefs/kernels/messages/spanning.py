"""Greedy rooted forests of a factor graph, built factor by factor.

A *rooted forest* (branching) is a set of factors in which every factor hangs from one of its variables, its parent;
its other variables are its children, and each variable is a child of at most one factor.
"""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.primitives.unionfind import find
from beliefs.typing import Ints

__all__ = ["component_leaders", "rooted_forest", "tally_forest"]


@twofold_kernel
def component_leaders(scope_ptr: Ints, scope_vars: Ints, leader: Ints) -> None:
    """Write to ``leader (n_vars,)`` one variable for each connected component, the same for all that it contains."""
    for v in range(leader.size):
        leader[v] = v
    for f in range(scope_ptr.size - 1):
        for e in range(scope_ptr[f] + 1, scope_ptr[f + 1]):
            leader[find(leader, scope_vars[e])] = find(leader, scope_vars[scope_ptr[f]])
    for v in range(leader.size):
        leader[v] = find(leader, v)


@twofold_kernel
def _reroot(scope_ptr: Ints, scope_vars: Ints, hangs: Ints, parent_edge: Ints, root: int) -> None:
    """Make ``root`` the root of its tree: every factor on the path to the old root hangs from its other end."""
    below, f = root, hangs[root]
    while f >= 0:
        above = scope_vars[parent_edge[f]]
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            if scope_vars[e] == below:
                parent_edge[f] = e
        further = hangs[above]
        hangs[above] = f
        below, f = above, further


@twofold_kernel
def rooted_forest(n_vars: int, scope_ptr: Ints, scope_vars: Ints, order: Ints, parent_edge: Ints) -> int:
    """Take the factors in ``order`` as long as they close no cycle; return how many were taken.

    A factor is taken if its variables lie in distinct components so far (Kruskal's rule [kruskal1956]: on pairwise
    factors sorted by falling weight this is the maximum-weight forest). It hangs from its variable in the largest of
    them, and the smaller ones are turned to have their root at their variable in it.

    Shapes: ``order`` any subset of the factors with at least one variable each; ``parent_edge (n_factors,)`` gets the
    edge by which a taken factor hangs, -1 elsewhere. Cost: edges, plus n log n for turning (each time the smaller
    side).
    """
    leader = np.arange(n_vars)
    size = np.ones(n_vars, np.int64)
    hangs = np.full(n_vars, -1, np.int64)  # the factor that a variable is a child of
    mark = np.full(n_vars, -1, np.int64)
    parent_edge[:] = -1
    taken = 0
    for f in order:
        largest, top, distinct = scope_ptr[f], 0, True
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            r = find(leader, scope_vars[e])
            if mark[r] == f:
                distinct = False
                break
            mark[r] = f
            if size[r] > top:
                largest, top = e, size[r]
        if not distinct:
            continue
        taken += 1
        parent_edge[f] = largest
        r = find(leader, scope_vars[largest])
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            if e == largest:
                continue
            v = scope_vars[e]
            _reroot(scope_ptr, scope_vars, hangs, parent_edge, v)
            hangs[v] = f
            s = find(leader, v)
            leader[s] = r
            size[r] += size[s]
    return taken


@twofold_kernel
def tally_forest(parent_edge: Ints, count: Ints, hung: Ints) -> None:
    """Count one more forest: ``taken = parent_edge >= 0; count[taken] += 1; hung[parent_edge[taken]] += 1``.

    Shapes: ``parent_edge, count (n_factors,)``, ``hung (n_edges,)``.
    """
    for f in range(parent_edge.size):
        if parent_edge[f] >= 0:
            count[f] += 1
            hung[parent_edge[f]] += 1
