"""Structure of a junction graph and its tables: links, levels, potentials, and states that are impossible."""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.dual.structure import Axes, Links
from beliefs.kernels.layout import Scopes
from beliefs.kernels.primitives.strides import table_index
from beliefs.typing import Bools, Floats, Ints

__all__ = ["link_axes", "load_tables", "prune_states", "separator_levels"]


@twofold_kernel
def link_axes(
    clusters: Axes, separators: Axes, link_ptr: Ints, link_cluster: Ints, link_first: Ints, link_size: Ints,
    link_step: Ints, stride: Ints,
) -> None:  # fmt: skip
    """Write, for each link, the first common axis, the cells from there on, and the strides of the cluster's axes.

    ``stride[link_step[l] + a]`` is that of axis ``a`` in the separator, 0 where the separator lacks it; ``link_step``
    holds the room of the links before on entry, and on return that less the cluster's first axis.
    """
    axis_ptr, axis_var, card = clusters.ptr, clusters.var, clusters.card
    sep_ptr, sep_var, sep_card = separators.ptr, separators.var, separators.card
    for s in range(sep_ptr.size - 1):
        for link in range(link_ptr[s], link_ptr[s + 1]):
            c = link_cluster[link]
            link_step[link] -= axis_ptr[c]
            link_first[link] = -1
            size = 1
            for a in range(axis_ptr[c], axis_ptr[c + 1]):
                after, found = 1, 0
                for k in range(sep_ptr[s + 1] - 1, sep_ptr[s] - 1, -1):
                    if sep_var[k] == axis_var[a]:
                        found = after
                        break
                    after *= sep_card[k]
                stride[link_step[link] + a] = found
                if found > 0 and link_first[link] < 0:
                    link_first[link] = a
                if link_first[link] >= 0:
                    size *= card[a]
            link_size[link] = size


@twofold_kernel
def separator_levels(order: Ints, link_ptr: Ints, link_cluster: Ints, last: Ints, level: Ints) -> int:
    """Write the level of each separator: one more than those before it in ``order`` that share a cluster with it.

    Separators of one level share none, so they can be updated side by side, and level by level the result is that of
    the order. ``last (n_clusters,)`` is scratch, filled with -1. Returns the number of levels.
    """
    n_levels = 0
    for s in order:
        here = 0
        for link in range(link_ptr[s], link_ptr[s + 1]):
            here = max(here, last[link_cluster[link]] + 1)
        for link in range(link_ptr[s], link_ptr[s + 1]):
            last[link_cluster[link]] = here
        level[s] = here
        n_levels = max(n_levels, here + 1)
    return n_levels


@twofold_kernel
def factor_strides(
    f: int, scope_ptr: Ints, scope_vars: Ints, var_card: Ints, axis_var: Ints, first: int, last: int, stride: Ints
) -> None:
    """Write the strides of factor ``f`` for the axes ``first..last``, 0 where it lacks the variable."""
    for a in range(first, last):
        after = 1
        stride[a - first] = 0
        for e in range(scope_ptr[f + 1] - 1, scope_ptr[f] - 1, -1):
            if scope_vars[e] == axis_var[a]:
                stride[a - first] = after
                break
            after *= var_card[scope_vars[e]]


@twofold_kernel
def load_tables(
    scopes: Scopes, theta: Floats, home: Ints, node: Ints, clusters: Axes, separators: Axes, index: Ints, stride: Ints,
    tables: Floats, sep_tables: Floats,
) -> float:  # fmt: skip
    """Add every factor to its cluster or, with one variable, to that variable's separator; return the constants.

    Equivalent to ``tables[c] += theta_f`` broadcast over the cluster's axes. ``home[f]`` is the cluster, ``node[v]``
    the separator of variable ``v`` alone; ``index`` and ``stride`` are scratch.
    """
    scope_ptr, scope_vars, var_card, factor_cell = scopes.scope_ptr, scopes.scope_vars, scopes.card, scopes.cell_ptr
    constant = 0.0
    for f in range(factor_cell.size):
        arity, start = scope_ptr[f + 1] - scope_ptr[f], factor_cell[f]
        if arity == 0:
            constant += theta[start]
        elif arity == 1:
            v = scope_vars[scope_ptr[f]]
            for x in range(var_card[v]):
                sep_tables[separators.cell[node[v]] + x] += theta[start + x]
        else:
            c = home[f]
            first, last, begin = clusters.ptr[c], clusters.ptr[c + 1], clusters.cell[c]
            factor_strides(f, scope_ptr, scope_vars, var_card, clusters.var, first, last, stride)
            size = table_index(clusters.card, stride, first, last, -first, 0, index, 0)
            for k in range(size):
                tables[begin + k] += theta[start + index[k]]
    return constant


@twofold_kernel
def prune_separator(
    s: int, now: int, clusters: Axes, separators: Axes, links: Links, index: Ints, flags: Bools, changed: Ints,
    tables: Floats, sep_tables: Floats,
) -> bool:  # fmt: skip
    """Make the states of separator ``s`` that one of its terms forbids impossible in all; return whether one is left.

    Clusters that lost a cell are noted in ``changed`` with the time ``now``; ``flags (2, largest separator)`` is
    scratch.
    """
    possible, seen, card, cell_ptr, stride = flags[0], flags[1], clusters.card, clusters.cell, links.stride
    n0, width = separators.cell[s], separators.cell[s + 1] - separators.cell[s]
    l0, l1, left = links.ptr[s], links.ptr[s + 1], False
    for x in range(width):
        possible[x] = sep_tables[n0 + x] > -math.inf
    for link in range(l0, l1):
        c = links.cluster[link]
        size = table_index(card, stride, clusters.ptr[c], clusters.ptr[c + 1], links.step[link], 0, index, 0)
        for x in range(width):
            seen[x] = False
        for k in range(size):
            if tables[cell_ptr[c] + k] > -math.inf:
                seen[index[k]] = True
        for x in range(width):
            possible[x] &= seen[x]
    for x in range(width):
        left |= possible[x]
        sep_tables[n0 + x] = sep_tables[n0 + x] if possible[x] else -math.inf
    for link in range(l0, l1):
        c = links.cluster[link]
        size = table_index(card, stride, clusters.ptr[c], clusters.ptr[c + 1], links.step[link], 0, index, 0)
        for k in range(size):
            cell = cell_ptr[c] + k
            if not possible[index[k]] and tables[cell] > -math.inf:
                tables[cell] = -math.inf
                changed[c] = now
    return left


@twofold_kernel
def prune_states(
    clusters: Axes, separators: Axes, links: Links, index: Ints, flags: Bools, tables: Floats, sep_tables: Floats
) -> bool:
    """Remove impossible states until separators and clusters agree on them; return whether all have one left.

    Arc consistency: afterwards, wherever a separator's table is finite, each of its clusters has a finite cell there.
    Cost: the tables, as often as the removals need to travel against the order of the separators.
    """
    link_ptr, link_cluster, n_seps = links.ptr, links.cluster, links.ptr.size - 1
    changed, visited = np.zeros(clusters.ptr.size - 1, np.int64), np.full(n_seps, -1, np.int64)
    now, busy = 0, True
    while busy:
        busy = False
        for s in range(n_seps):
            due = visited[s] < 0
            for link in range(link_ptr[s], link_ptr[s + 1]):
                due |= changed[link_cluster[link]] > visited[s]
            if due:
                now += 1
                busy = True
                visited[s] = now
                if not prune_separator(s, now, clusters, separators, links, index, flags, changed, tables, sep_tables):
                    return False
    return True
