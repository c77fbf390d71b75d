"""Kernels for libDAI factor graphs: finding the factors among the numbers, and the other order of cells."""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.primitives.strides import axis_room, table_index
from beliefs.typing import Floats, Ints

__all__ = ["fg_factors", "first_fastest"]


@twofold_kernel
def _is_count(value: float, most: int) -> bool:
    return 0.0 <= value <= most and value == np.floor(value)


@twofold_kernel
def fg_factors(numbers: Floats, at: Ints, arity: Ints, n_entries: Ints) -> tuple[int, int]:
    """Find the factors ``arity, labels.., cards.., n_entries, (index value)..`` after ``numbers[0]``.

    Writes where each starts in ``numbers``, its arity and its number of entries. Returns the place after the last
    factor, and how many factors are whole; if not all, the place is that of a number that is no count, or the end of
    ``numbers``. Equivalent to a loop of slices. Cost: the number of factors.
    """
    k = 1
    for f in range(at.size):
        at[f] = k
        if k >= numbers.size or not _is_count(numbers[k], numbers.size):
            return min(k, numbers.size), f
        arity[f] = np.int64(numbers[k])
        k += 1 + 2 * arity[f]
        if k >= numbers.size or not _is_count(numbers[k], numbers.size):
            return min(k, numbers.size), f
        n_entries[f] = np.int64(numbers[k])
        k += 1 + 2 * n_entries[f]
        if k > numbers.size:
            return numbers.size, f
    return k, at.size


@twofold_kernel
def first_fastest(card: Ints, scope_ptr: Ints, scope_vars: Ints, cell_ptr: Ints, cells: Ints) -> None:
    """Write the cell that each position denotes when the first variable of a scope varies fastest.

    Equivalent to ``cells[run] = arange(n)[run].reshape(shape).ravel(order="F")`` for the run of each factor, without a
    limit on the number of axes. Cost: n_cells.
    """
    stride, extent = axis_room(scope_ptr)
    for f in range(cell_ptr.size):
        end, step = scope_ptr[f + 1], 1
        for a in range(end - scope_ptr[f]):  # the last axis first
            stride[a] = step
            extent[a] = card[scope_vars[end - 1 - a]]
            step *= extent[a]
        table_index(extent, stride, 0, end - scope_ptr[f], 0, cell_ptr[f], cells, cell_ptr[f])
