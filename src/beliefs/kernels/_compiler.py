"""Numba's compiler, without what it does more than once for the same piece of code, or for nothing.

Numba optimises and translates every function that a kernel calls on its own, as if Python called it too, and then again
inside the kernel, and inside whatever calls that. Here a kernel that is reached from another one is a *part*: its code
is typed and lowered once and goes as it is into the kernels that Python calls, the *wholes*, which are optimised,
translated and kept on disk. Numba's own functions (``max``, ``np.empty``) are parts as well within wholes, one for each
set of flags that matters to them. No kernel is called from C, so none gets an entrance for that. What Numba's front end
finds out again and again is remembered: see ``_front_end``. And Python's search for cyclic garbage, which the
compiler's many small objects set off again and again without finding much, waits until a whole is done. So does Ctrl-C,
until the next pass: LLVM calls back while it translates, and what is raised there is lost.

All together take half off the time of compiling, and nothing is different in what is computed. This, ``_front_end`` and
``_on_disk`` know Numba from inside; ``_jit`` imports this one when a first kernel is compiled.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from llvmlite import binding
from numba.core import codegen, compiler
from numba.core.compiler_lock import require_global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.targetconfig import ConfigStack
from numba.core.typing.templates import _OverloadFunctionTemplate

from beliefs.interrupts import interrupts_wait
from beliefs.kernels._front_end import replacements

__all__ = ["Part", "Whole", "counts_references"]

_SKIPPED = {  # closures, comprehensions, ``with``, ``literal_unroll`` and fused array expressions
    "inline_closure_likes",
    "inline_inlinables",
    "inline_overloads",
    "literal_unroll",
    "make_function_op_code_to_jit_function",
    "nopython_rewrites",
    "with_lifting",
}


def counts_references() -> bool:
    """Whether the function that is being compiled counts references to arrays."""
    flags = ConfigStack.top_or_none()
    return flags is None or bool(flags.nrt)


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


class FunctionPart(compiler.Compiler):
    """The pipeline of a function of Numba's that kernels call."""

    def __init__(
        self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, locals: Any
    ) -> None:
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        library = _PartLibrary(targetctx.codegen(), "part")
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)


def _short(pipeline: compiler.Compiler) -> list[Any]:
    """Return a pipeline without the passes that look for what kernels do not have, or can do without."""
    passes = compiler.DefaultPassBuilder.define_nopython_pipeline(pipeline.state)
    passes.passes = [(kind, about) for kind, about in passes.passes if kind.name() not in _SKIPPED]
    passes.finalize()
    return [passes]


class Part(FunctionPart):
    """The pipeline of a kernel that is called from kernels."""

    def define_pipelines(self) -> list[Any]:
        return _short(self)


class Whole(compiler.Compiler):
    """The pipeline of a kernel that is called from Python."""

    def __init__(
        self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, locals: Any
    ) -> None:
        flags.no_cfunc_wrapper = True
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)

    def define_pipelines(self) -> list[Any]:
        return _short(self)

    def compile_extra(self, func: Any) -> Any:
        require_global_compiler_lock()
        with interrupts_wait() as come, _without_garbage_collection(), _in_the_place_of_numbas(come):
            compiled = super().compile_extra(func)
            compiled.library._shared_module = _names_alone(compiled.library._final_module)
        return compiled


def _names_alone(module: Any) -> Any:
    """Return a module in which the same names stand for nothing.

    Numba's cache keeps the module beside the machine code, for others to contain, and reads it to learn the names: four
    fifths of what would be on disk, and most of the time to load a kernel. Nothing contains a whole.
    """
    functions = (f'define void @"{f.name}"() {{ ret void }}' for f in module.functions if not f.is_declaration)
    variables = (f'@"{g.name}" = global i8 0' for g in module.global_variables if not g.is_declaration)
    return binding.parse_assembly("\n".join((*functions, *variables)))


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Put off the collection of cyclic garbage, and let what has come up count as old, which is looked at rarely."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@contextmanager
def _in_the_place_of_numbas(come: Callable[[], None]) -> Iterator[None]:
    """Let the functions below do some of Numba's work while a whole is compiled; compilers run one at a time."""
    ours = [
        *replacements(),
        (PassManager, "_runPass", _after(come, PassManager._runPass)),
        (_OverloadFunctionTemplate, "_get_jit_decorator", _part_maker(_OverloadFunctionTemplate._get_jit_decorator)),
    ]
    numbas = [(owner, name, getattr(owner, name)) for owner, name, _ in ours]
    for owner, name, function in ours:
        setattr(owner, name, function)
    try:
        yield
    finally:
        for owner, name, function in numbas:
            setattr(owner, name, function)


def _after(first: Callable[[], None], run: Callable[..., Any]) -> Callable[..., Any]:
    """Do something before each pass: interrupts that wait come between passes."""

    def run_after(*arguments: Any) -> Any:
        first()
        return run(*arguments)

    return run_after


def _part_maker(decorator_for: Callable[..., Any]) -> Callable[..., Any]:
    """Compile functions of Numba's as parts."""

    def _get_jit_decorator(self: Any) -> Any:
        return partial(decorator_for(self), pipeline_class=FunctionPart)

    return _get_jit_decorator
