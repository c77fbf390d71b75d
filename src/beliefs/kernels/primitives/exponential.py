"""Four exponentials or logarithms at once, for rows that are too short for a loop around scalar ones to become SIMD.

The same reduction and series as in :mod:`beliefs.kernels.primitives.elementary`, on the vectors of
:mod:`beliefs.kernels.primitives.simd`. What the compiler makes of them is in
:mod:`beliefs.kernels.primitives.exponential_code`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from beliefs.kernels._jit import kernel, operation

__all__ = ["exp4", "log4"]

_LEAST = -708.0  # below, the result would not be a normal number


@operation
def vector_exp(x: Any) -> Any:
    """Return the exponentials; 0 for arguments up to -708."""
    return np.where(x > _LEAST, np.exp(x), 0.0)


@operation
def vector_log(x: Any) -> Any:
    """Return the logarithms of positive normal numbers."""
    return np.log(x)


@kernel  # a function of its own, because the flags of linear kernels would cancel the rounding away
def exp4(x: Any) -> Any:
    """Return the exponentials of numbers up to 709, within 2 units in the last place; 0 for those up to -708."""
    return vector_exp(x)


@kernel
def log4(x: Any) -> Any:
    """Return the logarithms of positive normal numbers, within 2 units in the last place."""
    return vector_log(x)
