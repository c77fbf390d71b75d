"""Kernels of searches that hold most variables fixed: where the sliced tables lie, and regions to free."""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.primitives.random import Bits, draw
from beliefs.typing import Bools, Ints

__all__ = ["clamped_cells", "grow_region"]


@twofold_kernel
def clamped_cells(
    cells: Ints, table_ptr: Ints, shift_ptr: Ints, shift_var: Ints, shift_stride: Ints, states: Ints, out: Ints
) -> None:
    """Write the cell of ``theta`` that each cell of the sliced tables copies, the clamped variables at ``states``.

    Equivalent to ``out[f's cells] = cells[f's cells] + sum(shift_stride * states[shift_var])`` over the clamped
    variables of each factor. ``cells (n_cells,)`` are those for state 0 of all clamped variables, ``table_ptr
    (n_factors+1,)`` their offsets, ``shift_ptr (n_factors+1,)`` those of the clamped variables. Cost: n_cells.
    """
    for f in range(table_ptr.size - 1):
        shift = 0
        for i in range(shift_ptr[f], shift_ptr[f + 1]):
            shift += shift_stride[i] * states[shift_var[i]]
        for k in range(table_ptr[f], table_ptr[f + 1]):
            out[k] = cells[k] + shift


@twofold_kernel
def grow_region(
    ptr: Ints, adj: Ints, free: Bools, root: int, size: int, random: Bits, member: Bools, found: Ints
) -> int:
    """Collect about ``size`` variables marked ``free`` near ``root``, nearly breadth first; return their number.

    The walk passes through all other variables of the graph ``(ptr, adj)``. ``member (n_vars,)`` comes in False and
    goes out so; ``found (n_vars,)`` gets the region, free variables only. Cost: the neighbourhoods walked.
    """
    n = member.size
    queue = np.empty(n, np.int64)
    queue[0], member[root] = root, True
    head, tail, count = 0, 1, 0
    while head < tail and count < size:
        k = head + int(draw(random) * min(tail - head, 4))  # nearly breadth first: no two regions are alike
        v = queue[k]
        queue[k] = queue[head]
        queue[head] = v
        head += 1
        if free[v]:
            found[count] = v
            count += 1
        for e in range(ptr[v], ptr[v + 1]):
            if not member[adj[e]]:
                member[adj[e]] = True
                queue[tail] = adj[e]
                tail += 1
    for k in range(tail):
        member[queue[k]] = False
    return count
