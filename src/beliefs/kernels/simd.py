"""Four doubles side by side, as a type that kernels can use.

Compilers turn long loops into SIMD; loops of 3 to 30 steps, as over the states of a variable, they mostly do not. Here
the vector is said outright: ``load4``, ``store4`` and arithmetic on ``Vector4``. Any machine can run it (narrower ones
split the vector). Memory is an array or an :func:`beliefs.kernels.machine.address`, with an index; there are no bounds
checks, so rows are padded to multiples of four.
With the compiler switched off, NumPy arrays of four stand in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic, models, register_model

from beliefs.kernels.machine import first_entry

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

_FOUR = ir.VectorType(ir.DoubleType(), 4)
_FLAGS = ("contract", "reassoc", "nsz", "arcp", "nnan")


class Vector4(types.Type):
    """The Numba type of four doubles."""

    def __init__(self) -> None:
        super().__init__(name="Vector4")


vector4 = Vector4()


@register_model(Vector4)
class Vector4Model(models.PrimitiveModel):
    """Kept in a vector register."""

    def __init__(self, data_model_manager: Any, numba_type: Any) -> None:
        super().__init__(data_model_manager, numba_type, _FOUR)


def _place(target: Any, builder: Any, kind: Any, memory: Any, index: Any) -> Any:
    return builder.bitcast(builder.gep(first_entry(target, builder, kind, memory), [index]), _FOUR.as_pointer())


def _maximum(builder: Any, a: Any, b: Any) -> Any:
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_FOUR, [_FOUR, _FOUR]), "llvm.maxnum.v4f64"
    )
    return builder.call(function, [a, b], fastmath=("nnan", "nsz"))


def _shuffle(builder: Any, a: Any, b: Any, places: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(ir.IntType(32), 4), places)
    return builder.shuffle_vector(a, b, mask)


def _fold(builder: Any, vectors: list[Any], combine: Any) -> Any:
    """Reduce four vectors to one: entry i of the result is the reduction of vector i."""
    low, high = (
        combine(_shuffle(builder, a, b, [0, 4, 2, 6]), _shuffle(builder, a, b, [1, 5, 3, 7]))
        for a, b in (vectors[:2], vectors[2:])
    )
    return combine(_shuffle(builder, low, high, [0, 1, 4, 5]), _shuffle(builder, low, high, [2, 3, 6, 7]))


if getattr(config, "DISABLE_JIT", False):

    def load4(array: Any, index: int) -> Any:
        """Return entries ``index`` to ``index + 3``; beyond the end there is padding."""
        return array[index : index + 4].copy()

    def store4(array: Any, index: int, value: Any) -> None:
        """Write four entries."""
        array[index : index + 4] = value

    def fill4(value: float) -> Any:
        """Return the number four times."""
        return np.full(4, value)

    def pair4(a: float, b: float) -> Any:
        """Return the two numbers and two ones."""
        return np.array([a, b, 1.0, 1.0])

    def first4(a: Any) -> float:
        """Return the first number."""
        return float(a[0])

    def second4(a: Any) -> float:
        """Return the second number."""
        return float(a[1])

    add4, subtract4, multiply4, divide4, maximum4, root4 = (
        np.add, np.subtract, np.multiply, np.divide, np.maximum, np.sqrt,
    )  # fmt: skip

    def multiply_add4(a: Any, b: Any, c: Any) -> Any:
        """Return ``a * b + c``."""
        return a * b + c

    def total4(a: Any) -> float:
        """Return the sum of the four."""
        return float(a.sum())

    def peak4(a: Any) -> float:
        """Return the largest of the four."""
        return float(a.max())

    def totals4(a: Any, b: Any, c: Any, d: Any) -> Any:
        """Return the four sums."""
        return np.array([a.sum(), b.sum(), c.sum(), d.sum()])

    def peaks4(a: Any, b: Any, c: Any, d: Any) -> Any:
        """Return the four maxima."""
        return np.array([a.max(), b.max(), c.max(), d.max()])

else:

    @intrinsic
    def load4(context: Any, pointer: Any, index: Any) -> Any:
        """Return entries ``index`` to ``index + 3``."""

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(_place(target, builder, signature.args[0], *arguments), align=8)

        return vector4(pointer, types.int64), generate

    @intrinsic
    def store4(context: Any, pointer: Any, index: Any, value: Any) -> Any:
        """Write four entries."""

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer, index, value = arguments
            builder.store(value, _place(target, builder, signature.args[0], pointer, index), align=8)
            return target.get_dummy_value()

        return types.void(pointer, types.int64, vector4), generate

    @intrinsic
    def fill4(context: Any, value: Any) -> Any:
        """Return the number four times."""

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            one = builder.insert_element(ir.Constant(_FOUR, ir.Undefined), arguments[0], ir.Constant(ir.IntType(32), 0))
            return _shuffle(builder, one, one, [0, 0, 0, 0])

        return vector4(types.float64), generate

    def _binary(name: str) -> Any:
        def typed(context: Any, a: Any, b: Any) -> Any:
            def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                return getattr(builder, name)(*arguments, flags=_FLAGS)

            return vector4(vector4, vector4), generate

        return intrinsic(typed)

    add4, subtract4, multiply4, divide4 = (_binary(name) for name in ("fadd", "fsub", "fmul", "fdiv"))

    @intrinsic
    def multiply_add4(context: Any, a: Any, b: Any, c: Any) -> Any:
        """Return ``a * b + c``."""

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a, b, c = arguments
            return builder.fadd(builder.fmul(a, b, flags=_FLAGS), c, flags=_FLAGS)

        return vector4(vector4, vector4, vector4), generate

    @intrinsic
    def maximum4(context: Any, a: Any, b: Any) -> Any:
        """Return the larger of each pair; none may be nan."""

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _maximum(builder, *arguments)

        return vector4(vector4, vector4), generate

    @intrinsic
    def root4(context: Any, a: Any) -> Any:
        """Return the square roots."""

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(_FOUR, [_FOUR]), "llvm.sqrt.v4f64"
            )
            return builder.call(function, arguments)

        return vector4(vector4), generate

    @intrinsic
    def totals4(context: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        """Return the four sums."""

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _fold(builder, list(arguments), lambda x, y: builder.fadd(x, y, flags=_FLAGS))

        return vector4(vector4, vector4, vector4, vector4), generate

    @intrinsic
    def peaks4(context: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        """Return the four maxima."""

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _fold(builder, list(arguments), lambda x, y: _maximum(builder, x, y))

        return vector4(vector4, vector4, vector4, vector4), generate

    @intrinsic
    def total4(context: Any, a: Any) -> Any:
        """Return the sum of the four."""

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a = arguments[0]
            folded = _fold(builder, [a, a, a, a], lambda x, y: builder.fadd(x, y, flags=_FLAGS))
            return builder.extract_element(folded, ir.Constant(ir.IntType(32), 0))

        return types.float64(vector4), generate

    @intrinsic
    def peak4(context: Any, a: Any) -> Any:
        """Return the largest of the four."""

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a = arguments[0]
            folded = _fold(builder, [a, a, a, a], lambda x, y: _maximum(builder, x, y))
            return builder.extract_element(folded, ir.Constant(ir.IntType(32), 0))

        return types.float64(vector4), generate

    @intrinsic
    def pair4(context: Any, a: Any, b: Any) -> Any:
        """Return the two numbers and two ones."""

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = ir.Constant(_FOUR, [1.0] * 4)
            for place, value in enumerate(arguments):
                vector = builder.insert_element(vector, value, ir.Constant(ir.IntType(32), place))
            return vector

        return vector4(types.float64, types.float64), generate

    def _entry(place: int) -> Any:
        def typed(context: Any, a: Any) -> Any:
            def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                return builder.extract_element(arguments[0], ir.Constant(ir.IntType(32), place))

            return types.float64(vector4), generate

        return intrinsic(typed)

    first4, second4 = _entry(0), _entry(1)
