"""What the compiler makes of :mod:`beliefs.kernels.primitives.exponential`; loaded when something is compiled."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from beliefs.kernels.primitives.memory_code import first_entry
from beliefs.kernels.primitives.simd_code import vector4

__all__ = ["vector_exp", "vector_exp16", "vector_log"]

_LEAST = -708.0  # below, the result would not be a normal number
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52
_FLAGS = ("contract",)
_COTH = (1 / 6, -1 / 360, 1 / 15120, -1 / 604800, 1 / 23950080, -691 / 653837184000)
"""Of ``r coth(r/2) - 2`` in powers of ``r^2``: ``2 B_2k / (2k)!`` with the numbers of Bernoulli."""

_ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_TWO_52 = 0x4330000000000000  # 2^52, whose low bits hold an integer


def _all(like: Any, value: float) -> Any:
    """Return a vector as long as another, with one number everywhere."""
    return ir.Constant(like.type, [value] * like.type.count)


def _longs(like: Any, value: int) -> Any:
    return ir.Constant(_integers(like), [value] * like.type.count)


def _integers(like: Any) -> Any:
    return ir.VectorType(ir.IntType(64), like.type.count)


def _multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return builder.fadd(builder.fmul(a, b, flags=_FLAGS), c, flags=_FLAGS)


def _reduced(builder: Any, x: Any) -> tuple[Any, Any]:
    """Return n + 1.5 * 2^52 and r, where ``x = n log 2 + r``."""
    shifted = _multiply_add(builder, x, _all(x, _LOG2_E), _all(x, _ROUND))
    n = builder.fsub(_all(x, _ROUND), shifted)  # its negative
    r = _multiply_add(builder, n, _all(x, _LN2_LOW), _multiply_add(builder, n, _all(x, _LN2_HIGH), x))
    return shifted, r


def _quotient(builder: Any, r: Any) -> Any:
    """Return ``exp(r) = 1 + 2 r / (r coth(r/2) - r)``, where ``r coth(r/2) = 2 + r^2/6 - r^4/360 + ...``."""
    z = builder.fmul(r, r)
    z2 = builder.fmul(z, z)
    terms = [_all(r, term) for term in _COTH]
    pairs = [_multiply_add(builder, z, high, low) for low, high in zip(terms[::2], terms[1::2], strict=True)]
    tail = _multiply_add(builder, z2, _multiply_add(builder, z2, pairs[2], pairs[1]), pairs[0])
    below = _multiply_add(builder, z, tail, builder.fsub(_all(r, 2.0), r))
    return builder.fadd(_all(r, 1.0), builder.fdiv(builder.fadd(r, r), below))


def _exponential(builder: Any, x: Any) -> Any:
    """Return the exponentials, 0 from -708 down."""
    name, kind = f"llvm.maxnum.v{x.type.count}f64", ir.FunctionType(x.type, [x.type, x.type])
    maximum = cgutils.get_or_insert_function(builder.module, kind, name)
    x = builder.call(maximum, [x, _all(x, _LEAST)], fastmath=("nnan", "nsz"))
    shifted, r = _reduced(builder, x)
    power = builder.shl(builder.bitcast(shifted, _integers(x)), _longs(x, 52))
    value = builder.bitcast(builder.add(power, builder.bitcast(_quotient(builder, r), _integers(x))), x.type)
    return builder.select(builder.fcmp_ordered(">", x, _all(x, _LEAST)), value, _all(x, 0.0))


def _logarithm(builder: Any, x: Any) -> Any:
    """Return the logs: n log 2 + 2 artanh s, where x = 2^n m, s = (m - 1)/(m + 1), as in ``fast_log``."""
    bits = builder.bitcast(x, _integers(x))
    octave = builder.ashr(builder.sub(bits, _longs(x, _ROOT_HALF)), _longs(x, 52))
    held = builder.bitcast(builder.or_(builder.add(octave, _longs(x, 2048)), _longs(x, _TWO_52)), x.type)
    n = builder.fsub(held, _all(x, 4503599627372544.0))  # 2^52 + 2048
    m = builder.bitcast(builder.sub(bits, builder.shl(octave, _longs(x, 52))), x.type)
    s = builder.fdiv(builder.fsub(m, _all(x, 1.0)), builder.fadd(m, _all(x, 1.0)))
    z = builder.fmul(s, s)
    z2 = builder.fmul(z, z)
    z4 = builder.fmul(z2, z2)
    terms = [_all(x, 2.0 / odd) for odd in range(3, 23, 2)]
    pairs = [_multiply_add(builder, z, high, low) for low, high in zip(terms[::2], terms[1::2], strict=True)]
    low, high = (_multiply_add(builder, z2, pairs[i + 1], pairs[i]) for i in (0, 2))
    total = _multiply_add(builder, z4, _multiply_add(builder, z4, pairs[4], high), low)
    tail = _multiply_add(builder, builder.fmul(s, z), total, builder.fmul(n, _all(x, _LN2_LOW)))
    return _multiply_add(builder, n, _all(x, _LN2_HIGH), _multiply_add(builder, s, _all(x, 2.0), tail))


def _four(make: Any) -> Any:
    """Return the operation on four numbers."""

    def typed(context: Any, x: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return make(builder, arguments[0])

        return vector4(vector4), generate

    return intrinsic(typed)


vector_exp, vector_log = _four(_exponential), _four(_logarithm)


@intrinsic
def vector_exp16(context: Any, logs: Any, begin: Any, shift: Any, over: Any, out: Any, at: Any) -> Any:
    """Write sixteen exponentials, each step of all of them side by side: four alone would wait for one another."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        many = ir.VectorType(ir.DoubleType(), 16)
        logs, begin, shift, over, out, at = arguments
        source = builder.gep(first_entry(target, builder, signature.args[0], logs), [begin])
        goal = builder.gep(first_entry(target, builder, signature.args[4], out), [at])
        low, scale = (_spread(builder, many, value) for value in (shift, over))
        x = builder.fmul(builder.fsub(builder.load(builder.bitcast(source, many.as_pointer()), align=8), low), scale)
        builder.store(_exponential(builder, x), builder.bitcast(goal, many.as_pointer()), align=8)
        return target.get_dummy_value()

    number, index = types.float64, types.int64
    return types.void(logs, index, number, number, out, index), generate


def _spread(builder: Any, kind: Any, value: Any) -> Any:
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count))
