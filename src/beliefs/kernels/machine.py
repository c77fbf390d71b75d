"""What Numba's language lacks: plain addresses, memory on the stack, and a word to the memory system.

An array handed to a function is counted, in and out, and comes as seven values; in a loop of a hundred cycles that is
the loop. ``address(array)`` is one value and is not counted: the array must outlive it. An argument of the kernel that
Python calls does; an array made inside a kernel does not, it is freed after its last mention. ``stack_memory(n)`` gives
the address of a small piece of memory that the compiler can see is nobody else's, so that loops over it need no overlap
checks. ``prefetch`` asks for a cache line early: tables read backwards are not foreseen by the hardware. There are no
bounds checks. With the compiler switched off, arrays stand for addresses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

__all__ = ["address", "first_entry", "get", "onward", "prefetch", "put", "stack_floats", "stack_memory"]


def first_entry(target: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return the pointer that an array or an address stands for, in the compiler's terms."""
    return target.make_array(kind)(target, builder, value).data if isinstance(kind, types.Array) else value


if getattr(config, "DISABLE_JIT", False):

    def address(array: Any) -> Any:
        """Return the array."""
        return array

    def onward(pointer: Any, index: int) -> Any:
        """Return the array from an entry on."""
        return pointer[index:]

    def stack_memory(n: int) -> Any:
        """Return an uninitialised array."""
        return np.empty(n)

    def stack_floats(n: int) -> Any:
        """Return an uninitialised array."""
        return np.empty(n)

    def get(pointer: Any, index: int) -> Any:
        """Return one entry."""
        return pointer[index]

    def put(pointer: Any, index: int, value: float) -> None:
        """Write one entry."""
        pointer[index] = value

    def prefetch(pointer: Any, index: int) -> None:
        """Do nothing."""

else:

    @intrinsic
    def address(context: Any, array: Any) -> Any:
        """Return the address of the first entry."""

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return target.make_array(signature.args[0])(target, builder, arguments[0]).data

        return types.CPointer(array.dtype)(array), generate

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
    def stack_floats(context: Any, n: Any) -> Any:
        """Return such memory as an array of ``n`` doubles."""
        if not isinstance(n, types.IntegerLiteral):
            return None
        array_type, size = types.Array(types.float64, 1, "C"), n.literal_value

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            memory = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), size))
            memory.align = 32
            array = target.make_array(array_type)(target, builder)
            populate_array(
                array,
                data=builder.bitcast(memory, ir.DoubleType().as_pointer()),
                shape=[target.get_constant(types.intp, size)],
                strides=[target.get_constant(types.intp, 8)],
                itemsize=target.get_constant(types.intp, 8),
                meminfo=None,
            )
            return array._getvalue()

        return array_type(n), generate

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
            builder.call(function, [place, word(0), word(3), word(1)])  # to read, soon again, data
            return target.get_dummy_value()

        return types.void(pointer, types.int64), generate
