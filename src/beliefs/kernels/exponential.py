"""Four exponentials at once, for rows that are too short for a loop around ``fast_exp`` to become SIMD.

The same reduction and series as in :mod:`beliefs.kernels.elementary`, on the vectors of :mod:`beliefs.kernels.simd`.
"""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, config
from numba.extending import intrinsic

from beliefs.kernels._jit import kernel
from beliefs.kernels.simd import vector4

__all__ = ["exp4"]

_LEAST = -708.0  # below, the result would not be a normal number
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52
_FOUR, _LONGS = ir.VectorType(ir.DoubleType(), 4), ir.VectorType(ir.IntType(64), 4)
_FLAGS = ("contract",)


def _all(value: float) -> Any:
    return ir.Constant(_FOUR, [value] * 4)


def _multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return builder.fadd(builder.fmul(a, b, flags=_FLAGS), c, flags=_FLAGS)


def _reduced(builder: Any, x: Any) -> tuple[Any, Any]:
    """Return n + 1.5 * 2^52 and r, where ``x = n log 2 + r``."""
    shifted = _multiply_add(builder, x, _all(_LOG2_E), _all(_ROUND))
    n = builder.fsub(_all(_ROUND), shifted)  # its negative
    r = _multiply_add(builder, n, _all(_LN2_LOW), _multiply_add(builder, n, _all(_LN2_HIGH), x))
    return shifted, r


def _series(builder: Any, r: Any) -> Any:
    """Return the terms 1, r, r^2/2, ..., r^13/13! added up in pairs of pairs."""
    r2 = builder.fmul(r, r)
    r4 = builder.fmul(r2, r2)
    terms = [_all(1.0 / factorial(i)) for i in range(14)]
    pairs = [_multiply_add(builder, r, odd, even) for even, odd in zip(terms[::2], terms[1::2], strict=True)]
    low, middle, high = (_multiply_add(builder, r2, pairs[i + 1], pairs[i]) for i in (0, 2, 4))
    high = _multiply_add(builder, r4, pairs[6], high)
    return _multiply_add(builder, r4, _multiply_add(builder, r4, high, middle), low)


if getattr(config, "DISABLE_JIT", False):

    def exp4(x: Any) -> Any:
        """Return the exponentials; 0 for arguments up to -708."""
        return np.where(x > _LEAST, np.exp(x), 0.0)

else:

    def _typed(context: Any, x: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            maximum = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(_FOUR, [_FOUR, _FOUR]), "llvm.maxnum.v4f64"
            )
            x = builder.call(maximum, [arguments[0], _all(_LEAST)], fastmath=("nnan", "nsz"))
            shifted, r = _reduced(builder, x)
            power = builder.shl(builder.bitcast(shifted, _LONGS), ir.Constant(_LONGS, [52] * 4))
            value = builder.bitcast(builder.add(power, builder.bitcast(_series(builder, r), _LONGS)), _FOUR)
            return builder.select(builder.fcmp_ordered(">", x, _all(_LEAST)), value, _all(0.0))

        return vector4(vector4), generate

    _exp4: Any = intrinsic(_typed)

    @kernel  # a function of its own, because the flags of linear kernels would cancel the rounding away
    def exp4(x: Any) -> Any:
        """Return the exponentials of numbers up to 709, within 2 units in the last place; 0 for those up to -708."""
        return _exp4(x)
