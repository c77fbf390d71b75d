"""Two things that Numba's language lacks: arrays on the stack, and a word to the memory system.

``stack_floats(n)`` gives a small array whose memory the compiler can see is nobody else's, so that loops over it and
over tables need no overlap checks (these cost more than short loops do). ``prefetch(array, index)`` asks for a cache
line early: tables read backwards are not foreseen by the hardware.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from beliefs.typing import Floats

__all__ = ["prefetch", "stack_floats"]

if getattr(config, "DISABLE_JIT", False):

    def stack_floats(n: int) -> Floats:
        """Return an uninitialised array."""
        return np.empty(n)

    def prefetch(array: Floats, index: int) -> None:
        """Do nothing."""

else:

    @intrinsic
    def stack_floats(context: Any, n: Any) -> Any:
        """Return an uninitialised array of ``n`` doubles (a constant), gone when the function returns."""
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
    def prefetch(context: Any, array: Any, index: Any) -> Any:
        """Ask for the cache line of ``array[index]``; an index beyond the array is harmless."""

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            view = target.make_array(signature.args[0])(target, builder, arguments[0])
            byte_pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            address = builder.bitcast(builder.gep(view.data, [arguments[1]]), byte_pointer)
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(ir.VoidType(), [byte_pointer, word, word, word]), "llvm.prefetch.p0i8"
            )
            builder.call(function, [address, word(0), word(3), word(1)])  # to read, soon again, data
            return target.get_dummy_value()

        return types.void(array, types.int64), generate
