"""What the compiler makes of the vectors of :mod:`beliefs.kernels.primitives.simd`; loaded with the compiler."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

from beliefs.kernels.primitives.memory_code import first_entry

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
    "vector4",
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
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_FOUR, [_FOUR]), "llvm.sqrt.v4f64")
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
