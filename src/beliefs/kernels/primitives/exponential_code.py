"""What the compiler makes of :mod:`beliefs.kernels.primitives.exponential`; loaded when something is compiled."""

from __future__ import annotations

from math import factorial
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from beliefs.kernels.primitives.simd_code import vector4

__all__ = ["vector_exp", "vector_log"]

_LEAST = -708.0  # below, the result would not be a normal number
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52
_FOUR, _LONGS = ir.VectorType(ir.DoubleType(), 4), ir.VectorType(ir.IntType(64), 4)
_FLAGS = ("contract",)


_ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_TWO_52 = 0x4330000000000000  # 2^52, whose low bits hold an integer


def _all(value: float) -> Any:
    return ir.Constant(_FOUR, [value] * 4)


def _longs(value: int) -> Any:
    return ir.Constant(_LONGS, [value] * 4)


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


def _logarithm(builder: Any, x: Any) -> Any:
    """Return the logs: n log 2 + 2 artanh s, where x = 2^n m, s = (m - 1)/(m + 1), as in ``fast_log``."""
    bits = builder.bitcast(x, _LONGS)
    octave = builder.ashr(builder.sub(bits, _longs(_ROOT_HALF)), _longs(52))
    held = builder.bitcast(builder.or_(builder.add(octave, _longs(2048)), _longs(_TWO_52)), _FOUR)
    n = builder.fsub(held, _all(4503599627372544.0))  # 2^52 + 2048
    m = builder.bitcast(builder.sub(bits, builder.shl(octave, _longs(52))), _FOUR)
    s = builder.fdiv(builder.fsub(m, _all(1.0)), builder.fadd(m, _all(1.0)))
    z = builder.fmul(s, s)
    z2 = builder.fmul(z, z)
    z4 = builder.fmul(z2, z2)
    terms = [_all(2.0 / odd) for odd in range(3, 23, 2)]
    pairs = [_multiply_add(builder, z, high, low) for low, high in zip(terms[::2], terms[1::2], strict=True)]
    low, high = (_multiply_add(builder, z2, pairs[i + 1], pairs[i]) for i in (0, 2))
    total = _multiply_add(builder, z4, _multiply_add(builder, z4, pairs[4], high), low)
    tail = _multiply_add(builder, builder.fmul(s, z), total, builder.fmul(n, _all(_LN2_LOW)))
    return _multiply_add(builder, n, _all(_LN2_HIGH), _multiply_add(builder, s, _all(2.0), tail))


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


vector_exp: Any = intrinsic(_typed)


def _typed_log(context: Any, x: Any) -> Any:
    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _logarithm(builder, arguments[0])

    return vector4(vector4), generate


vector_log: Any = intrinsic(_typed_log)
