"""Four doubles side by side, as a type that kernels can use.

Compilers turn long loops into SIMD; loops of 3 to 30 steps, as over the states of a variable, they mostly do not. Here
the vector is said outright: ``load4``, ``store4`` and arithmetic on ``Vector4``. Any machine can run it (narrower ones
split the vector). Memory is an array or an :func:`beliefs.kernels.primitives.memory.address`, with an index; there are
no bounds checks, so rows are padded to multiples of four.
Without the compiler, NumPy arrays of four stand in; :mod:`beliefs.kernels.primitives.simd_code` is what the compiler
makes of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from beliefs.kernels._jit import operation

__all__ = [
    "add4",
    "divide4",
    "fill4",
    "first4",
    "load4",
    "maximum4",
    "multiply4",
    "multiply_add4",
    "pair4",
    "peak4",
    "peaks4",
    "root4",
    "second4",
    "store4",
    "subtract4",
    "total4",
    "totals4",
]


@operation
def load4(array: Any, index: int) -> Any:
    """Return entries ``index`` to ``index + 3``; beyond the end there is padding."""
    return array[index : index + 4].copy()


@operation
def store4(array: Any, index: int, value: Any) -> None:
    """Write four entries."""
    array[index : index + 4] = value


@operation
def fill4(value: float) -> Any:
    """Return the number four times."""
    return np.full(4, value)


@operation
def pair4(a: float, b: float) -> Any:
    """Return the two numbers and two ones."""
    return np.array([a, b, 1.0, 1.0])


@operation
def first4(a: Any) -> float:
    """Return the first number."""
    return float(a[0])


@operation
def second4(a: Any) -> float:
    """Return the second number."""
    return float(a[1])


@operation
def add4(a: Any, b: Any) -> Any:
    """Return the sums."""
    return np.add(a, b)


@operation
def subtract4(a: Any, b: Any) -> Any:
    """Return the differences."""
    return np.subtract(a, b)


@operation
def multiply4(a: Any, b: Any) -> Any:
    """Return the products."""
    return np.multiply(a, b)


@operation
def divide4(a: Any, b: Any) -> Any:
    """Return the quotients."""
    return np.divide(a, b)


@operation
def maximum4(a: Any, b: Any) -> Any:
    """Return the larger of each pair; none may be nan."""
    return np.maximum(a, b)


@operation
def root4(a: Any) -> Any:
    """Return the square roots."""
    return np.sqrt(a)


@operation
def multiply_add4(a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c``."""
    return a * b + c


@operation
def total4(a: Any) -> float:
    """Return the sum of the four."""
    return float(a.sum())


@operation
def peak4(a: Any) -> float:
    """Return the largest of the four."""
    return float(a.max())


@operation
def totals4(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the four sums."""
    return np.array([a.sum(), b.sum(), c.sum(), d.sum()])


@operation
def peaks4(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the four maxima."""
    return np.array([a.max(), b.max(), c.max(), d.max()])
