"""Slices of factors at the labels of the variables outside a component, and components without cycles.

The edges of a slice lead to variables inside the component, all others of its factor are at their labels. Its table is
in C order over the inside variables.
"""

from __future__ import annotations

from typing import NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.kernels.layout import Scopes
from beliefs.kernels.primitives.unionfind import find
from beliefs.typing import Bools, Floats, Ints

__all__ = ["Slices", "gather_slices", "grow_acyclic", "scatter_slices"]


class Slices(NamedTuple):
    """Which cells of which factors are read, and where they go."""

    factor: Ints  # (n_slices,)
    inside_ptr: Ints  # (n_slices+1,)
    inside_edges: Ints  # the edges of a slice's factor that lead to variables inside, in the factor's order
    target: Ints  # (n_slices,) where the slice's table begins in another array of cells; several may share it


@kernel
def _row_start(row: int, s: int, slices: Slices, scopes: Scopes, stride: Ints, cell: int) -> int:
    """Return the first cell of a row of a slice: the last inside axis is at 0, those before it at the row's digits."""
    for i in range(slices.inside_ptr[s + 1] - 2, slices.inside_ptr[s] - 1, -1):
        e = slices.inside_edges[i]
        k = scopes.card[scopes.scope_vars[e]]
        cell += row % k * stride[e]
        row //= k
    return cell


@kernel
def _shape(
    s: int, slices: Slices, scopes: Scopes, stride: Ints, labels: Ints, label_cells: Ints
) -> tuple[int, int, int, int]:
    """Return the rows of a slice, the cells of a row, how far apart they are, and the first cell of all."""
    rows, k, step, cell = 1, 1, 1, label_cells[slices.factor[s]]
    for i in range(slices.inside_ptr[s], slices.inside_ptr[s + 1]):
        e = slices.inside_edges[i]
        v = scopes.scope_vars[e]
        rows, k, step = rows * k, scopes.card[v], stride[e]
        cell -= labels[v] * step
    return rows, k, step, cell


@kernel
def gather_slices(
    slices: Slices, scopes: Scopes, stride: Ints, labels: Ints, label_cells: Ints, theta: Floats, out: Floats
) -> None:
    """Add the cells of every slice to its target.

    Equivalent to ``out[target[s]:][:size] += theta_f[labels outside, all inside].ravel()`` per slice. Cost: the cells
    of the slices.
    """
    for s in range(slices.factor.size):
        rows, k, step, start = _shape(s, slices, scopes, stride, labels, label_cells)
        for row in range(rows):
            at, to = _row_start(row, s, slices, scopes, stride, start), slices.target[s] + row * k
            for x in range(k):
                out[to + x] += theta[at + x * step]


@kernel
def scatter_slices(
    slices: Slices, scopes: Scopes, stride: Ints, labels: Ints, label_cells: Ints, values: Floats, grad: Floats
) -> None:
    """Add the values at each slice's target to the cells that it was gathered from: the transpose of the above."""
    for s in range(slices.factor.size):
        rows, k, step, start = _shape(s, slices, scopes, stride, labels, label_cells)
        for row in range(rows):
            at, to = _row_start(row, s, slices, scopes, stride, start), slices.target[s] + row * k
            for x in range(k):
                grad[at + x * step] += values[to + x]


@kernel
def grow_acyclic(ptr: Ints, adj: Ints, order: Ints, leader: Ints, seen: Ints, inside: Bools, covered: Bools) -> None:
    """Grow a set of variables whose induced graph is a forest, greedily along ``order``, and mark the edges it covers.

    A variable joins if it has at most one neighbour in each tree so far. ``ptr, adj`` is the interaction graph; on
    entry ``leader (n_vars,)`` is 0..n_vars-1, ``seen (n_vars,)`` -1 and ``inside (n_vars,)`` False; ``covered
    (adj.size,)`` is added to, in both directions. Cost: the neighbours of all variables.
    """
    for i in range(order.size):
        v = order[i]
        free = not inside[v]
        for j in range(ptr[v], ptr[v + 1]):
            if inside[adj[j]]:
                tree = find(leader, adj[j])
                free = free and seen[tree] != v
                seen[tree] = v
        if free:
            inside[v] = True
            for j in range(ptr[v], ptr[v + 1]):
                if inside[adj[j]]:
                    leader[find(leader, adj[j])] = v
    for v in range(inside.size):
        for j in range(ptr[v], ptr[v + 1]):
            covered[j] = covered[j] or (inside[v] and inside[adj[j]])
