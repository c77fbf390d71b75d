"""Cells of a table by the states of its variables, the last fastest."""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import kernel, twofold_kernel
from beliefs.typing import BlockMaps, Ints

__all__ = ["axis_room", "count_on", "table_index", "table_strides"]


@twofold_kernel
def axis_room(scope_ptr: Ints) -> tuple[Ints, Ints]:
    """Return room for the strides and for the cardinalities of one scope's axes, enough for the widest.

    Equivalent to ``np.empty((2, max(1, np.diff(scope_ptr).max())), np.int64)``. Cost: the number of scopes.
    """
    widest = 1
    for f in range(scope_ptr.size - 1):
        widest = max(widest, scope_ptr[f + 1] - scope_ptr[f])
    return np.empty(widest, np.int64), np.empty(widest, np.int64)


@twofold_kernel
def table_strides(card: Ints, scope_ptr: Ints, scope_vars: Ints, stride: Ints) -> None:
    """Write, for each edge, how many cells apart two neighbouring states of its variable are in its factor's table.

    Equivalent to ``np.zeros(shape(f)).strides[axis] // 8``. Writes ``stride (n_edges,)``. Cost: n_edges.
    """
    for f in range(scope_ptr.size - 1):
        step = 1
        for e in range(scope_ptr[f + 1] - 1, scope_ptr[f] - 1, -1):
            stride[e] = step
            step *= card[scope_vars[e]]


@twofold_kernel
def table_index(
    card: Ints, stride: Ints, first: int, last: int, step: int, origin: int, index: Ints | BlockMaps, at: int
) -> int:
    """Write, for each cell over the axes ``first..last``, its place in a table with these strides; return the cells.

    ``card[a]`` and ``stride[step + a]`` belong to axis ``a``; a stride of 0 leaves the axis out. ``origin`` is the
    place of the first cell. Equivalent to ``index[at:] = origin + sum_a stride_a * np.indices(shape)[a].ravel()``.
    Cost: an addition a cell.
    """
    index[at] = origin
    size = 1
    for a in range(last - 1, first - 1, -1):
        for x in range(1, card[a]):
            shift = x * stride[step + a]
            for k in range(size):
                index[at + x * size + k] = index[at + k] + shift
        size *= card[a]
    return size


@kernel
def count_on(n_axes: int, sizes: Ints, digit: Ints) -> None:
    """Go to the next joint state of the first ``n_axes`` axes, the last fastest; the first follows the last.

    Equivalent to ``digit[:n] = np.unravel_index((np.ravel_multi_index(digit[:n], sizes[:n]) + 1) % cells, sizes[:n])``.
    Cost: a step or two, ``n_axes`` at worst.
    """
    for a in range(n_axes - 1, -1, -1):
        digit[a] += 1
        if digit[a] < sizes[a]:
            return
        digit[a] = 0
