r"""Four or sixteen exponentials or logarithms at once, where a loop around scalar ones would not become SIMD.

The reduction and the series for logarithms are those of :mod:`beliefs.kernels.primitives.elementary`, on the vectors of
:mod:`beliefs.kernels.primitives.simd`. Exponentials take a quotient instead of a series of 14 terms,

.. math:: e^r = 1 + \frac{2 r}{r \coth(r/2) - r}, \qquad
          r \coth\frac{r}{2} = 2 + \frac{r^2}{6} - \frac{r^4}{360} + \dots,

of which seven terms are enough for :math:`|r| \le \tfrac12 \log 2`: the eighth is below 1e-17. The division has a unit
of its own in most machines. What the compiler makes of them is in
:mod:`beliefs.kernels.primitives.exponential_code`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from beliefs.kernels._jit import inlined_kernel, kernel, operation
from beliefs.kernels.primitives.memory import get, put
from beliefs.kernels.primitives.simd import fill4, multiply4, multiply_add4, subtract4

__all__ = ["NEAR_ONE", "binomials", "exp4", "exponentials16", "log4", "power_near_one4"]

NEAR_ONE = 1.0 / 64.0
"""How far from 1 :func:`power_near_one4` takes its arguments."""

_LEAST = -708.0  # below, the result would not be a normal number


@operation
def vector_exp(x: Any) -> Any:
    """Return the exponentials; 0 for arguments up to -708."""
    return np.where(x > _LEAST, np.exp(x), 0.0)


@operation
def vector_log(x: Any) -> Any:
    """Return the logarithms of positive normal numbers."""
    return np.log(x)


@operation
def vector_exp16(logs: Any, begin: int, shift: float, over: float, out: Any, at: int) -> None:
    """Write sixteen exponentials from memory to memory."""
    out[at : at + 16] = vector_exp((logs[begin : begin + 16] - shift) * over)


@kernel  # a function of its own, because the flags of linear kernels would cancel the rounding away
def exp4(x: Any) -> Any:
    """Return the exponentials of numbers up to 709, within 2 units in the last place; 0 for those up to -708."""
    return vector_exp(x)


@kernel
def exponentials16(logs: Any, begin: int, shift: float, over: float, out: Any, at: int) -> None:
    """Write ``exp((logs - shift) * over)`` of the sixteen entries from ``begin`` on to ``out`` from ``at`` on.

    Each number is that of :func:`exp4`. One exponential is a long chain of steps; sixteen side by side keep the machine
    busy, where four wait for one another.
    """
    vector_exp16(logs, begin, shift, over, out, at)


@kernel
def log4(x: Any) -> Any:
    """Return the logarithms of positive normal numbers, within 2 units in the last place."""
    return vector_log(x)


@inlined_kernel
def binomials(exponent: float, out: Any) -> None:
    """Write the binomial coefficients of ``exponent`` over 1 to 8 to ``out``, in memory."""
    coefficient = exponent
    for k in range(8):
        put(out, k, coefficient)
        coefficient *= (exponent - (k + 1.0)) / (k + 2.0)


@inlined_kernel
def power_near_one4(x: Any, c: Any) -> Any:
    """Return the powers of numbers within ``NEAR_ONE`` of 1, for an exponent of 0 to 1 with :func:`binomials` ``c``.

    The series up to the eighth power of ``x - 1``: the ninth term is below 1e-17. Within 2 units in the last place, at
    less than half of what a logarithm and an exponential take.
    """
    d = subtract4(x, fill4(1.0))
    d2 = multiply4(d, d)
    d4 = multiply4(d2, d2)
    low = multiply_add4(d, fill4(get(c, 0)), fill4(1.0))
    low = multiply_add4(d2, multiply_add4(d, fill4(get(c, 2)), fill4(get(c, 1))), low)
    high = multiply_add4(d, fill4(get(c, 4)), fill4(get(c, 3)))
    high = multiply_add4(d2, multiply_add4(d, fill4(get(c, 6)), fill4(get(c, 5))), high)
    return multiply_add4(d4, multiply_add4(d4, fill4(get(c, 7)), high), low)
