"""What Numba's language lacks: plain addresses, memory on the stack, and a word to the memory system.

An array handed to a function is counted, in and out, and comes as seven values; in a loop of a hundred cycles that is
the loop. ``address(array)`` is one value and is not counted: the array must outlive it. An argument of the kernel that
Python calls does; an array made inside a kernel does not, it is freed after its last mention. ``addresses(structure)``
is a named tuple with the addresses of its arrays, so that a kernel can hand whole structures to its parts (booleans
stay arrays that are not counted); entries are read and written with brackets, as those of arrays are, but there are no
sizes. ``stack_memory(n)`` gives the address of a small piece of memory that the compiler can see is nobody else's, so
that loops over it need no overlap checks. ``prefetch`` asks for a cache line early: tables read backwards are not
foreseen by the hardware. The line is brought into the second cache, as only few can be on their way to the first one.
There are no bounds checks. Without the compiler, arrays stand for addresses; what the
compiler makes of these operations is in :mod:`beliefs.kernels.primitives.memory_code`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from beliefs.kernels._jit import operation

__all__ = ["address", "addresses", "get", "onward", "prefetch", "put", "stack_memory"]


@operation
def address(array: Any) -> Any:
    """Return the array as one row, whatever its shape: a view, since the array is C-contiguous."""
    return array.reshape(-1)


@operation
def addresses(structure: Any) -> Any:
    """Return the structure."""
    return structure


@operation
def onward(pointer: Any, index: int) -> Any:
    """Return the array from an entry on."""
    return pointer[index:]


@operation
def stack_memory(n: int) -> Any:
    """Return an uninitialised array."""
    return np.empty(n)


@operation
def get(pointer: Any, index: int) -> Any:
    """Return one entry."""
    return pointer[index]


@operation
def put(pointer: Any, index: int, value: float) -> None:
    """Write one entry."""
    pointer[index] = value


@operation
def prefetch(pointer: Any, index: int) -> None:
    """Do nothing."""
