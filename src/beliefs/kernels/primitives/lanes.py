"""Sums and products in four lanes: an addition waits for every fourth one before it, in an order that is fixed."""

from __future__ import annotations

from beliefs.kernels._jit import kernel
from beliefs.typing import Floats

__all__ = ["lane_product", "lane_sum"]


@kernel
def lane_sum(values: Floats, n: int) -> float:
    """Return the sum of the first ``n`` entries, in four lanes."""
    a = b = c = d = 0.0
    whole = n - n % 4
    for j in range(0, whole, 4):
        a += values[j]
        b += values[j + 1]
        c += values[j + 2]
        d += values[j + 3]
    for j in range(whole, n):
        a += values[j]
    return (a + b) + (c + d)


@kernel
def lane_product(values: Floats, begin: int, end: int) -> float:
    """Return the product of the entries from ``begin`` to ``end``, in four lanes."""
    a = b = c = d = 1.0
    whole = end - (end - begin) % 4
    for j in range(begin, whole, 4):
        a *= values[j]
        b *= values[j + 1]
        c *= values[j + 2]
        d *= values[j + 3]
    for j in range(whole, end):
        a *= values[j]
    return (a * b) * (c * d)
