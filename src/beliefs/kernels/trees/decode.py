"""Reading assignments off a collected cluster tree, roots to leaves: the maximiser, or random draws.

A cluster's eliminated variables depend on the rest only through its separator: given those states, one column of its
table decides. Only that column is made.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.trees.blocks import Tree, advance, cluster_view, largest_block, odometer, rewind
from beliefs.kernels.trees.log import add_operands
from beliefs.typing import Floats, Ints

__all__ = ["decode_maximum", "draw_samples"]

_PIECE = 1024  # cells of a column read at a time by the maximiser, which needs no more


@twofold_kernel
def column_of(tree: Tree, c: int, row: Ints) -> int:
    """Return the column of cluster ``c``'s table that the assignment ``row (n_vars,)`` of its separator selects."""
    s = 0
    for a in range(tree.axes_ptr[c] + tree.n_eliminated[c], tree.axes_ptr[c + 1]):
        s = s * tree.axes_card[a] + row[tree.axes_var[a]]
    return s


@twofold_kernel
def n_rows_of(tree: Tree, c: int) -> int:
    """Return the number of rows of cluster ``c``'s table, the states of its eliminated variables."""
    rows = 1
    for a in range(tree.axes_ptr[c], tree.axes_ptr[c] + tree.n_eliminated[c]):
        rows *= tree.axes_card[a]
    return rows


@twofold_kernel
def to_column(tree: Tree, c: int, row: Ints, offset: Ints, digit: Ints) -> None:
    """Set cluster ``c``'s operands to the top of the column that the assignment ``row`` of its separator selects."""
    first, n_ops = tree.op_ptr[c], tree.op_ptr[c + 1] - tree.op_ptr[c] - 1
    begin, width = tree.axes_ptr[c], tree.axes_ptr[c + 1] - tree.axes_ptr[c]
    strides = tree.op_stride[tree.stride_ptr[first] :]
    for k in range(n_ops):
        offset[k] = tree.slot_ptr[tree.op_slot[first + k]]
        for a in range(tree.n_eliminated[c], width):
            offset[k] += strides[k * width + a] * row[tree.axes_var[begin + a]]
    for a in range(tree.n_eliminated[c]):
        digit[a] = 0


@twofold_kernel
def read_column(tree: Tree, c: int, tables: Floats, logs: bool, offset: Ints, digit: Ints, column: Floats) -> None:
    """Write the next cells of a column of cluster ``c``'s table: products of its operands, or sums of their ``logs``.

    From the top, equivalent to ``table.reshape(rows, columns)[: column.size, column_of(row)]``. ``offset`` and
    ``digit`` move on. Cost: cells times operands.
    """
    first, n_ops = tree.op_ptr[c], tree.op_ptr[c + 1] - tree.op_ptr[c] - 1
    extents = tree.axes_card[tree.axes_ptr[c] : tree.axes_ptr[c + 1]]
    strides = tree.op_stride[tree.stride_ptr[first] :]
    for r in range(column.size):
        value = 0.0 if logs else 1.0
        for k in range(n_ops):
            if logs:
                value += tables[offset[k]]
            else:
                value *= tables[offset[k]]
        column[r] = value
        advance(extents, tree.n_eliminated[c], tree.n_eliminated[c], strides, n_ops, offset, digit)


@twofold_kernel
def assign_row(tree: Tree, c: int, r: int, row: Ints) -> None:
    """Write the states of cluster ``c``'s eliminated variables that row ``r`` of its table stands for."""
    for a in range(tree.axes_ptr[c] + tree.n_eliminated[c] - 1, tree.axes_ptr[c] - 1, -1):
        row[tree.axes_var[a]] = r % tree.axes_card[a]
        r //= tree.axes_card[a]


@twofold_kernel
def best_cell(tree: Tree, c: int, tables: Floats, offset: Ints, digit: Ints, scratch: Floats) -> int:
    """Return the first maximiser of the table of cluster ``c``, a root, walked block by block as passes do."""
    slots, modes, starts, _, extents, strides, n_fast = cluster_view(tree, c)
    n_ops, size, n_outer = slots.size - 1, tree.block[c], tree.n_outer[c]
    block = scratch[:size]
    best, best_at = -math.inf, 0
    rewind(slots, tree.slot_ptr, n_outer, offset, digit)
    for at in range(0, tree.cell_ptr[c + 1] - tree.cell_ptr[c], size):
        if tree.stop[0] != 0:
            return 0
        add_operands(modes, starts, tree.maps, n_ops, offset, tables, block)
        for i in range(size):
            if block[i] > best:
                best, best_at = block[i], at + i
        advance(extents, n_fast, n_outer, strides, n_ops + 1, offset, digit)
    return best_at


@twofold_kernel
def best_row(tree: Tree, c: int, row: Ints, tables: Floats, offset: Ints, digit: Ints, scratch: Floats) -> int:
    """Return the first maximiser of the column of cluster ``c`` that the assignment ``row`` selects, piece by piece."""
    n_rows = n_rows_of(tree, c)
    to_column(tree, c, row, offset, digit)
    best, best_at = -math.inf, 0
    for start in range(0, n_rows, _PIECE):
        piece = scratch[: min(_PIECE, n_rows - start)]
        read_column(tree, c, tables, True, offset, digit, piece)
        for r in range(piece.size):
            if piece[r] > best:
                best, best_at = piece[r], start + r
    return best_at


@twofold_kernel(cost=2.0)
def decode_maximum(tree: Tree, tables: Floats, row: Ints) -> None:
    """Assign the variables of all clusters of temperature 0, each its first maximiser given its separator.

    Equivalent to ``unravel_index(argmax(column), ...)`` cluster by cluster. A root has one column, its whole table, and
    most of the cells that must be read. ``tables`` are logs; ``tree.stop`` ends it.
    """
    offset, digit = odometer(tree)
    scratch = np.empty(max(_PIECE, largest_block(tree)))
    for c in range(tree.block.size - 1, -1, -1):
        if tree.temperature[c] > 0.0 or tree.n_eliminated[c] == 0:
            continue
        if tree.stop[0] != 0:
            return
        if n_rows_of(tree, c) == tree.cell_ptr[c + 1] - tree.cell_ptr[c]:
            assign_row(tree, c, best_cell(tree, c, tables, offset, digit, scratch), row)
        else:
            assign_row(tree, c, best_row(tree, c, row, tables, offset, digit, scratch), row)


@twofold_kernel
def draw_samples(tree: Tree, tables: Floats, logs: bool, uniform: Floats, samples: Ints) -> None:
    """Draw every row of ``samples (n, n_vars)`` from the distribution of a collected tree.

    Given its separator a cluster's eliminated variables have probabilities proportional to one column of its table
    (exponentiated when ``logs``). ``uniform (n, n_clusters)`` gives one number a draw. Cost: n times the rows of
    each cluster; columns that follow one another unchanged, as those of roots, are made once. ``tree.stop`` ends it.
    """
    offset, digit = odometer(tree)
    for c in range(tree.block.size - 1, -1, -1):
        if tree.n_eliminated[c] == 0:
            continue
        cumulative = np.empty(n_rows_of(tree, c))
        n_rows = cumulative.size
        known = -1
        for i in range(samples.shape[0]):
            if tree.stop[0] != 0:
                return
            s = column_of(tree, c, samples[i])
            if s != known:
                known = s
                to_column(tree, c, samples[i], offset, digit)
                read_column(tree, c, tables, logs, offset, digit, cumulative)
                accumulate(cumulative, logs)
            r = _place(cumulative, uniform[i, c] * cumulative[n_rows - 1])
            while r > 0 and cumulative[r] == cumulative[r - 1]:  # rounding at the very end: never a zero row
                r -= 1
            assign_row(tree, c, r, samples[i])


@twofold_kernel
def _place(cumulative: Floats, weight: float) -> int:
    """Return the first entry above ``weight``, the last one if there is none."""
    low, high = 0, cumulative.size - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] <= weight:
            low = middle + 1
        else:
            high = middle
    return low


@twofold_kernel
def accumulate(weights: Floats, logs: bool) -> None:
    """Replace weights, or their ``logs``, by their cumulative sums; logs are shifted by their maximum first."""
    top = -math.inf
    if logs:
        for r in range(weights.size):
            top = max(top, weights[r])
    total = 0.0
    for r in range(weights.size):
        total += math.exp(weights[r] - top) if logs else weights[r]
        weights[r] = total
