"""Numba's front end, without the work that it does again and again.

Half of compiling is Python: bytes of code become statements, statements get types, and what is typed is written down
for LLVM. A profile of a warm-up shows a good part of that in a few places which find out what was known already: which
variables a statement names (some thirty times, by looking into everything it holds), which function an operation is for
given types and flags (at every place where it stands), whether Numba has learned of new functions (whenever a
definition is looked up in vain), how large a type is (by having LLVM parse a module that holds one), and what lives
where, after passes that nobody asks. The functions here give the same results; what is compiled stays the same to the
byte. They stand in for Numba's own while :mod:`beliefs.kernels._compiler` compiles a kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from numba.core import compiler, ir, postproc, ssa, transforms
from numba.core.base import BaseContext
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction
from numba.core.typing.templates import _OverloadFunctionTemplate

__all__ = ["replacements"]

_INHERITED = ("error_model", "fastmath", "forceinline", "nrt")  # flags that a function takes over from its caller

_STACK: Any = ConfigStack
_top: Callable[[], Any] = _STACK.top_or_none

_VARIABLE, _INSTRUCTION, _SEQUENCE, _MAPPING = range(1, 5)

Replacement = tuple[Any, str, Callable[..., Any]]


class _Kinds(dict[type, int]):
    """What a value of a type can hold of variables; 0 is nothing."""

    def __missing__(self, cls: type) -> int:
        of = ((ir.Var, _VARIABLE), (ir.Inst, _INSTRUCTION), ((list, tuple), _SEQUENCE), (dict, _MAPPING))
        kind = self[cls] = next((kind for known, kind in of if issubclass(cls, known)), 0)
        return kind


_KINDS = _Kinds()


def _add_variables(values: Iterable[Any], found: list[Any]) -> None:
    for value in values:
        kind = _KINDS[type(value)]
        if kind == _VARIABLE:
            found.append(value)
        elif kind == _INSTRUCTION:
            found.extend(value.list_vars())
        elif kind == _SEQUENCE:
            _add_variables(value, found)
        elif kind == _MAPPING:
            _add_variables(value.values(), found)


def _variables_within(self: Any, value: Any) -> list[Any]:
    """Return the variables that a value holds, in order."""
    found: list[Any] = []
    _add_variables((value,), found)
    return found


def _rewritten_blocks(blocks: Any, states: Any, handler: Any) -> dict[int, Any]:
    """Let a handler replace the statements of all blocks, without a word to the log for each."""
    rewritten = {}
    for label, block in blocks.items():
        states["label"], states["block"] = label, block
        body = [
            (handler.on_assign if isinstance(statement, ir.Assign) else handler.on_other)(states, statement)
            for statement in block.body
        ]
        rewritten[label] = ir.Block(scope=block.scope, loc=block.loc)  # type: ignore[no-untyped-call]
        rewritten[label].body = body
    return rewritten


def _processed_after(run: Callable[..., Any]) -> Callable[..., Any]:
    """Bring blocks into their form; what lives where is found when it is asked for."""

    def run_lazily(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        if emit_dels or self.func_ir.is_generator:
            run(self, emit_dels=emit_dels, extend_lifetimes=extend_lifetimes)
            return
        self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)  # type: ignore[no-untyped-call]
        self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)  # type: ignore[no-untyped-call]
        self.func_ir.generator_info = None

    return run_lazily


def _refreshed_if_new(refresh: Callable[..., Any]) -> Callable[..., Any]:
    """Look for new definitions only where modules or registrations have come, in whichever registry.

    Every function is lowered in a context of its own; they are held, as another may come where one has died.
    """
    seen: dict[int, tuple[Any, list[int]]] = {}

    def refresh_if_new(self: Any) -> None:
        known = seen.get(id(self))
        if known is None or known[1] != _registered(self):
            refresh(self)
            seen[id(self)] = self, _registered(self)

    return refresh_if_new


def _registered(context: Any) -> list[int]:
    """Return the number of modules, and of definitions in each list of each registry."""
    sizes = [len(sys.modules)]
    for registry in (*context._registries, *context.typing_context._registries):
        sizes += [len(found) for found in vars(registry).values() if isinstance(found, list)]
    return sizes


_SIZES: dict[tuple[type, str], int] = {}


def _remembered_sizes(size_of: Callable[..., int]) -> Callable[..., int]:
    """Ask LLVM for the size of a type once; types with names may have others elsewhere."""

    def get_abi_sizeof(self: Any, ty: Any) -> int:
        key = type(self), str(ty)
        found = _SIZES.get(key)
        if found is None:
            found = size_of(self, ty)
            if "%" not in key[1]:
                _SIZES[key] = found
        return found

    return get_abi_sizeof


_FLAGS: dict[int, tuple[Any, Any]] = {}  # of the flags that are being compiled with: themselves, and their values


def _flags_key(flags: Any) -> Any:
    """Return the values of the flags of a function, which do not change while it is compiled."""
    kept = _FLAGS.get(id(flags))
    if kept is None:
        kept = _FLAGS[id(flags)] = flags, flags and tuple((name, repr(value)) for name, value in flags._values.items())
    return kept[1]


def _remembered_call_types(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """Resolve a function for the same types of arguments and the same flags once."""
    known: dict[Any, Any] = {}

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        key = self, context, tuple(args), tuple(kws.items()), _flags_key(_top())
        found = known.get(key)
        if found is None:
            found = known[key] = resolve(self, context, args, kws)
        return found

    return get_call_type


_IMPLEMENTATIONS: dict[Any, Any] = {}


def _implementation_for(find: Callable[..., Any]) -> Callable[..., Any]:
    """Look for a function of Numba's under the flags that it takes over, whatever other flags its callers have."""

    def _get_impl(self: Any, args: Any, kws: Any) -> Any:
        caller = _top()
        if caller is None:
            return find(self, args, kws)
        key = type(self), self.context, tuple(args), tuple(kws.items()), _flags_key(caller)
        found = _IMPLEMENTATIONS.get(key)
        if found is None:
            flags: Any = compiler.Flags()  # type: ignore[no-untyped-call]
            for name in _INHERITED:
                if caller.is_set(name):
                    setattr(flags, name, getattr(caller, name))
            flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True  # no code but ours has flags like these
            with _STACK().enter(flags):
                found = _IMPLEMENTATIONS[key] = find(self, args, kws)
        return found

    return _get_impl


def replacements() -> list[Replacement]:
    """Return what stands in for functions of Numba's: where, under which name, and with what."""
    _FLAGS.clear()
    return [
        (ir.Inst, "_rec_list_vars", _variables_within),
        (ssa, "_run_block_rewrite", _rewritten_blocks),
        (postproc.PostProcessor, "run", _processed_after(postproc.PostProcessor.run)),
        (BaseContext, "refresh", _refreshed_if_new(BaseContext.refresh)),
        (BaseContext, "get_abi_sizeof", _remembered_sizes(BaseContext.get_abi_sizeof)),
        (BaseFunction, "get_call_type", _remembered_call_types(BaseFunction.get_call_type)),
        (_OverloadFunctionTemplate, "_get_impl", _implementation_for(_OverloadFunctionTemplate._get_impl)),
    ]
