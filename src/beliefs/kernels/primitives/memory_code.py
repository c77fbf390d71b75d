"""What the compiler makes of the operations of :mod:`beliefs.kernels.primitives.memory`; loaded with the compiler."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = ["address", "addresses", "first_entry", "get", "onward", "prefetch", "put", "stack_memory"]


def first_entry(target: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return the pointer that an array or an address stands for, in the compiler's terms."""
    return target.make_array(kind)(target, builder, value).data if isinstance(kind, types.Array) else value


@intrinsic
def address(context: Any, array: Any) -> Any:
    """Return the address of the first entry."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return target.make_array(signature.args[0])(target, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), generate


@intrinsic
def addresses(context: Any, structure: Any) -> Any:
    """Return a named tuple with the addresses of its arrays, tuples inside it included; scalars stay as they are."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _addresses(target, builder, signature.args[0], arguments[0])

    return _address_type(structure)(structure), generate


def _address_type(kind: Any) -> Any:
    if isinstance(kind, types.NamedTuple | types.NamedUniTuple):
        return types.BaseTuple.from_types([_address_type(part) for part in kind.types], kind.instance_class)
    if isinstance(kind, types.Array) and kind.dtype != types.boolean:
        return types.CPointer(kind.dtype)
    return kind


def _addresses(target: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.NamedTuple | types.NamedUniTuple):
        parts = [_addresses(target, builder, k, builder.extract_value(value, i)) for i, k in enumerate(kind.types)]
        return target.make_tuple(builder, _address_type(kind), parts)
    if not isinstance(kind, types.Array):
        return value
    array = target.make_array(kind)(target, builder, value)
    if kind.dtype != types.boolean:
        return array.data
    array.meminfo = cgutils.get_null_value(array.meminfo.type)  # entries of such arrays are not loaded as they lie
    array.parent = cgutils.get_null_value(array.parent.type)
    return array._getvalue()


@intrinsic
def onward(context: Any, pointer: Any, index: Any) -> Any:
    """Return the address of an entry further on."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return pointer(pointer, types.int64), generate


@intrinsic
def stack_memory(context: Any, n: Any) -> Any:
    """Return the address of ``n`` doubles (a constant), uninitialised and gone when the function returns."""
    if not isinstance(n, types.IntegerLiteral):
        return None
    size = n.literal_value

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), size))
        memory.align = 32
        return builder.bitcast(memory, ir.DoubleType().as_pointer())

    return types.CPointer(types.float64)(n), generate


@intrinsic
def get(context: Any, pointer: Any, index: Any) -> Any:
    """Return one entry."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.gep(arguments[0], [arguments[1]]))

    return pointer.dtype(pointer, types.int64), generate


@intrinsic
def put(context: Any, pointer: Any, index: Any, value: Any) -> Any:
    """Write one entry."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, index, value = arguments
        builder.store(value, builder.gep(place, [index]))
        return target.get_dummy_value()

    return types.void(pointer, types.int64, pointer.dtype), generate


@intrinsic
def prefetch(context: Any, pointer: Any, index: Any) -> Any:
    """Ask for the cache line of one entry; an index beyond the end is harmless."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte_pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        begin = first_entry(target, builder, signature.args[0], arguments[0])
        place = builder.bitcast(builder.gep(begin, [arguments[1]]), byte_pointer)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte_pointer, word, word, word]), "llvm.prefetch.p0i8"
        )
        builder.call(function, [place, word(0), word(2), word(1)])  # to read, into the second cache, data
        return target.get_dummy_value()

    return types.void(pointer, types.int64), generate
