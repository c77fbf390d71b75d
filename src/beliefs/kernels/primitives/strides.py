"""Kernel on table strides."""

from __future__ import annotations

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Ints

__all__ = ["table_strides"]


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
