"""Slices of factors at the labels of the variables outside a component, and components without cycles.

Slice ``s`` belongs to factor ``slice_factor[s]``; the edges ``inside_edges[inside_ptr[s]:inside_ptr[s + 1]]`` of that
factor, in their order, lead to variables inside the component, all others are at their labels. Its table begins at
``target[s]`` of another array of cells, in C order over the inside variables; several slices may have the same target.
"""

from __future__ import annotations

from beliefs.kernels._jit import kernel
from beliefs.kernels.primitives.unionfind import find
from beliefs.typing import Bools, Floats, Ints

__all__ = ["gather_slices", "grow_acyclic", "scatter_slices"]


@kernel
def _row_start(
    row: int, first: int, last: int, inside_edges: Ints, scope_vars: Ints, card: Ints, stride: Ints, cell: int
) -> int:
    """Return the first cell of a row of a slice: the last inside axis is at 0, those before it at the row's digits."""
    for i in range(last - 2, first - 1, -1):
        e = inside_edges[i]
        k = card[scope_vars[e]]
        cell += row % k * stride[e]
        row //= k
    return cell


@kernel
def _shape(
    first: int, last: int, inside_edges: Ints, scope_vars: Ints, card: Ints, stride: Ints, labels: Ints, cell: int
) -> tuple[int, int]:
    """Return the number of rows of a slice, and its first cell, given the cell that the labels pick."""
    rows = 1
    for i in range(first, last):
        v = scope_vars[inside_edges[i]]
        cell -= labels[v] * stride[inside_edges[i]]
        rows *= card[v] if i < last - 1 else 1
    return rows, cell


@kernel
def gather_slices(
    slice_factor: Ints, inside_ptr: Ints, inside_edges: Ints, target: Ints, scope_vars: Ints, card: Ints, stride: Ints,
    labels: Ints, label_cells: Ints, theta: Floats, out: Floats,
) -> None:  # fmt: skip
    """Add the cells of every slice to its target.

    Equivalent to ``out[target[s]:][:size] += theta_f[labels outside, all inside].ravel()`` per slice. Cost: the cells
    of the slices.
    """
    for s in range(slice_factor.size):
        first, last = inside_ptr[s], inside_ptr[s + 1]
        e = inside_edges[last - 1]
        k, step = card[scope_vars[e]], stride[e]
        rows, start = _shape(
            first, last, inside_edges, scope_vars, card, stride, labels, label_cells[slice_factor[s]]
        )  # fmt: skip
        for row in range(rows):
            at, to = _row_start(row, first, last, inside_edges, scope_vars, card, stride, start), target[s] + row * k
            for x in range(k):
                out[to + x] += theta[at + x * step]


@kernel
def scatter_slices(
    slice_factor: Ints, inside_ptr: Ints, inside_edges: Ints, target: Ints, scope_vars: Ints, card: Ints, stride: Ints,
    labels: Ints, label_cells: Ints, values: Floats, grad: Floats,
) -> None:  # fmt: skip
    """Add the values at each slice's target to the cells that it was gathered from: the transpose of the above."""
    for s in range(slice_factor.size):
        first, last = inside_ptr[s], inside_ptr[s + 1]
        e = inside_edges[last - 1]
        k, step = card[scope_vars[e]], stride[e]
        rows, start = _shape(
            first, last, inside_edges, scope_vars, card, stride, labels, label_cells[slice_factor[s]]
        )  # fmt: skip
        for row in range(rows):
            at, to = _row_start(row, first, last, inside_edges, scope_vars, card, stride, start), target[s] + row * k
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
