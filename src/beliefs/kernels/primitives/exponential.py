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

from beliefs.kernels._jit import kernel, operation

__all__ = ["exp4", "exponentials16", "log4"]

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
