"""Kernels that cut a factor graph into induced trees, and lay out their tables; see ``structured_mean_field``.

Scopes here leave out variables of one state: these join nothing, and a table's cells are the same without them.
"""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.layout import Adjacency, Scopes
from beliefs.kernels.primitives.unionfind import find
from beliefs.typing import Floats, Ints

__all__ = ["add_tables", "coupling_strength", "grow_trees", "lay_trees", "scatter_tables"]


@twofold_kernel
def coupling_strength(
    factors: Ints, scopes: Scopes, floor: float, theta: Floats, rest: Floats, strength: Floats
) -> None:
    """Write how much of each factor's table no sum of functions of single variables explains.

    The mean square of the table after its mean over all other axes has been taken off along each axis in turn, the
    interaction part of an analysis of variance: moving a function of one variable between factors does not change it.
    ``-inf`` counts as ``floor`` nats below the table's maximum. Scratch ``rest``: the largest table. Cost: arity x
    cells.
    """
    card, scope_ptr, scope_vars, cell_ptr = scopes.card, scopes.scope_ptr, scopes.scope_vars, scopes.cell_ptr
    for i in range(factors.size):
        f = factors[i]
        size = 1
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            size *= card[scope_vars[e]]
        top = -1e300  # finite, so that a table of zeros only gives 0
        for k in range(size):
            top = max(top, theta[cell_ptr[f] + k])
        for k in range(size):
            rest[k] = max(theta[cell_ptr[f] + k] - top, -floor)
        step = size
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            n = card[scope_vars[e]]
            block, step = step, step // n
            for x in range(n):
                mean = 0.0
                for k in range(x * step, size, block):
                    for r in range(k, k + step):
                        mean += rest[r]
                mean *= n / size
                for k in range(x * step, size, block):
                    for r in range(k, k + step):
                        rest[r] -= mean
        total = 0.0
        for k in range(size):
            total += rest[k] * rest[k]
        strength[i] = total / size


@twofold_kernel
def _lies_within(scopes: Scopes, inner: int, outer: int) -> bool:
    """Whether all variables of factor ``inner`` are among those of ``outer``."""
    scope_ptr, scope_vars = scopes.scope_ptr, scopes.scope_vars
    for d in range(scope_ptr[inner], scope_ptr[inner + 1]):
        found = False
        for e in range(scope_ptr[outer], scope_ptr[outer + 1]):
            found = found or scope_vars[e] == scope_vars[d]
        if not found:
            return False
    return True


@twofold_kernel
def _may_join(
    f: int, scopes: Scopes, adjacency: Adjacency, leader: Ints, following: Ints, size: Ints, mark: Ints
) -> bool:
    """Whether factor ``f`` joins distinct trees, and no other factor but parts of ``f`` has variables in two of them.

    Marks the trees' leaders with ``f``. Looks at the variables of all trees but the largest, and stops at the first
    obstacle.
    """
    scope_ptr, scope_vars = scopes.scope_ptr, scopes.scope_vars
    var_ptr, var_edges, edge_factor = adjacency
    largest, most = -1, 0
    for e in range(scope_ptr[f], scope_ptr[f + 1]):
        r = find(leader, scope_vars[e])
        if mark[r] == f:
            return False
        mark[r] = f
        if size[r] > most:
            largest, most = r, size[r]
    for e in range(scope_ptr[f], scope_ptr[f + 1]):
        r = find(leader, scope_vars[e])
        if r == largest:
            continue
        v = r
        while v >= 0:
            for i in range(var_ptr[v], var_ptr[v + 1]):
                g = edge_factor[var_edges[i]]
                if g == f:
                    continue
                across = False
                for d in range(scope_ptr[g], scope_ptr[g + 1]):
                    other = find(leader, scope_vars[d])
                    across = across or (other != r and mark[other] == f)
                if across and not _lies_within(scopes, g, f):
                    return False
            v = following[v]
    return True


@twofold_kernel
def grow_trees(order: Ints, scopes: Scopes, adjacency: Adjacency, host: Ints) -> None:
    """Take factors greedily, in ``order``, as tree factors: those that leave every tree induced.

    A factor is taken if its variables lie in distinct trees and no factor outside gets two variables in the tree that
    it makes of them; factors over a part of its scope go with it. ``host (n_factors,)`` gets the tree factor that each
    goes with (itself if it is one), -1 for factors outside. Cost: edges, plus for each factor the smaller trees that it
    would join.
    """
    scope_ptr, scope_vars = scopes.scope_ptr, scopes.scope_vars
    var_ptr, var_edges, edge_factor = adjacency
    n_vars = var_ptr.size - 1
    leader, size = np.arange(n_vars), np.ones(n_vars, np.int64)
    following, last = np.full(n_vars, -1, np.int64), np.arange(n_vars)
    mark = np.full(n_vars, -1, np.int64)
    host[:] = -1
    for f in order:
        if host[f] >= 0 or not _may_join(f, scopes, adjacency, leader, following, size, mark):
            continue
        root = find(leader, scope_vars[scope_ptr[f]])
        for e in range(scope_ptr[f] + 1, scope_ptr[f + 1]):
            r = find(leader, scope_vars[e])
            if size[r] > size[root]:
                root, r = r, root
            leader[r] = root
            size[root] += size[r]
            following[last[root]] = r
            last[root] = last[r]
        host[f] = f
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            v = scope_vars[e]
            for i in range(var_ptr[v], var_ptr[v + 1]):
                g = edge_factor[var_edges[i]]
                if host[g] < 0 and scope_ptr[g + 1] - scope_ptr[g] > 1 and _lies_within(scopes, g, f):
                    host[g] = f


@twofold_kernel
def lay_trees(
    variables: Ints, scopes: Scopes, adjacency: Adjacency, host: Ints, member_ptr: Ints, members: Ints,
    branch_ptr: Ints, branch_factor: Ints, branch_scope_ptr: Ints, branch_vars: Ints,
) -> int:  # fmt: skip
    """Write the trees breadth first, each from its lowest variable; return their number.

    ``branch_vars`` has a tree factor's parent first, the others in the order of its scope. For the arrays see
    :class:`beliefs.kernels.mean_field.trees.Trees`. Cost: edges.
    """
    scope_ptr, scope_vars = scopes.scope_ptr, scopes.scope_vars
    var_ptr, var_edges, edge_factor = adjacency
    seen = np.zeros(var_ptr.size - 1, np.bool_)
    used = np.zeros(scope_ptr.size - 1, np.bool_)
    n_trees, tail, n_branches, n_places = 0, 0, 0, 0
    member_ptr[0] = branch_ptr[0] = branch_scope_ptr[0] = 0
    for root in variables:
        if seen[root]:
            continue
        seen[root] = True
        head = tail
        members[tail] = root
        tail += 1
        while head < tail:
            v = members[head]
            head += 1
            for i in range(var_ptr[v], var_ptr[v + 1]):
                f = edge_factor[var_edges[i]]
                if host[f] != f or used[f]:
                    continue
                used[f] = True
                branch_factor[n_branches] = f
                branch_vars[n_places] = v
                n_places += 1
                for e in range(scope_ptr[f], scope_ptr[f + 1]):
                    u = scope_vars[e]
                    if u != v:
                        seen[u] = True
                        members[tail] = u
                        tail += 1
                        branch_vars[n_places] = u
                        n_places += 1
                n_branches += 1
                branch_scope_ptr[n_branches] = n_places
        n_trees += 1
        member_ptr[n_trees] = tail
        branch_ptr[n_trees] = n_branches
    return n_trees


@twofold_kernel
def _cell_of(k: int, size: int, t: int, branches: Scopes, g: int, scopes: Scopes) -> int:
    """Return the cell of factor ``g`` that agrees with cell ``k`` of the table, of that size, of tree factor ``t``."""
    card, branch_vars, scope_vars = scopes.card, branches.scope_vars, scopes.scope_vars
    cell = 0
    for d in range(scopes.scope_ptr[g], scopes.scope_ptr[g + 1]):
        step = size
        for e in range(branches.scope_ptr[t], branches.scope_ptr[t + 1]):
            step //= card[branch_vars[e]]
            if branch_vars[e] == scope_vars[d]:
                cell = cell * card[scope_vars[d]] + k // step % card[scope_vars[d]]
                break
    return cell


@twofold_kernel
def add_tables(guests: Ints, branch: Ints, scopes: Scopes, branches: Scopes, theta: Floats, table: Floats) -> None:
    """Add the table of each factor in ``guests`` to that of its tree factor, number ``branch[i]``, spread over it.

    ``branches`` are the scopes of the tree factors, as in :class:`beliefs.kernels.mean_field.trees.Trees`.
    """
    for i in range(guests.size):
        g, t = guests[i], branch[i]
        start, cell = branches.cell_ptr[t], scopes.cell_ptr[g]
        size = branches.cell_ptr[t + 1] - start
        for k in range(size):
            table[start + k] += theta[cell + _cell_of(k, size, t, branches, g, scopes)]


@twofold_kernel
def scatter_tables(
    guests: Ints, branch: Ints, scopes: Scopes, branches: Scopes, place: Ints, tree: Floats, tables: Floats
) -> None:
    """Add the marginals of tree factors, summed to the scopes of ``guests``, to ``tables[place[g]:]``, zero before."""
    for i in range(guests.size):
        g, t = guests[i], branch[i]
        start = branches.cell_ptr[t]
        size = branches.cell_ptr[t + 1] - start
        for k in range(size):
            tables[place[g] + _cell_of(k, size, t, branches, g, scopes)] += tree[start + k]
