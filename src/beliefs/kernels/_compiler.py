"""Numba's compiler, without what it does more than once for the same piece of code.

Numba optimises and translates every function that a kernel calls on its own, as if Python called it too, and then again
inside the kernel, and inside whatever calls that. Here a kernel that is reached from another one is a *part*: its code
is typed and lowered once and goes as it is into the kernels that Python calls, the *wholes*, which are optimised,
translated and kept on disk. And what an operation such as ``int + int`` returns is looked up among all of Numba's
definitions of ``+`` at every place where it stands; within a whole the first answer is remembered.

The two together take a third off the time of compiling, and nothing is different in what is compiled. This is the one
module that knows Numba from inside; ``_jit`` imports it when a first kernel is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import codegen, compiler
from numba.core.compiler_lock import require_global_compiler_lock
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction

__all__ = ["Part", "Whole"]


class _Aside:
    """The code generator as a part sees it: it has no place in memory, so no address of its environment either."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def set_env(self, env_name: str, env: Any) -> None:
        """Leave it: environments are for what kernels never do, to make Python's objects."""


class _PartLibrary(codegen.JITCodeLibrary):
    """Code to be linked into others, and never run from where it is."""

    @property
    def codegen(self) -> _Aside:
        return _Aside(self._codegen)

    def finalize(self) -> None:
        """Collect the code of the parts of this part; no optimiser, no machine code."""
        require_global_compiler_lock()
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            if hasattr(library, "_reload_init"):  # not in Numba 0.60
                self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return that there is none."""
        self._ensure_finalized()
        return 0


class Part(compiler.Compiler):
    """The pipeline of a kernel that is called from kernels."""

    def __init__(
        self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, locals: Any
    ) -> None:
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        library = _PartLibrary(targetctx.codegen(), "part")
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)


class Whole(compiler.Compiler):
    """The pipeline of a kernel that is called from Python."""

    def compile_extra(self, func: Any) -> Any:
        with _remembered_call_types():
            return super().compile_extra(func)


@contextmanager
def _remembered_call_types() -> Iterator[None]:
    """Resolve a function for the same types of arguments and the same flags once; compilers run one at a time."""
    require_global_compiler_lock()
    known: dict[Any, Any] = {}
    resolve = BaseFunction.get_call_type

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        flags = ConfigStack.top_or_none()
        kept = None if flags is None else tuple((name, repr(value)) for name, value in flags._values.items())
        key = self, context, tuple(args), tuple(kws.items()), kept
        found = known.get(key)
        if found is None:
            found = known[key] = resolve(self, context, args, kws)
        return found

    BaseFunction.get_call_type = get_call_type  # type: ignore[method-assign]
    try:
        yield
    finally:
        BaseFunction.get_call_type = resolve  # type: ignore[method-assign]
