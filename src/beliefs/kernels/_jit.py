"""The one compiler decorator, so that its flags are chosen once.

``cache=True`` keeps compiled code on disk beside the sources; ``nogil=True`` lets a pool of threads run kernels side by
side; ``error_model="numpy"`` removes division checks (0/0 is nan, which kernels never let out). No ``fastmath``:
flags that assume away infinities turn the log-sum-exp of an all-zero slice into nan. Linear-domain kernels, whose
values are finite and non-negative by construction, use ``linear_kernel``: sums may be reassociated (SIMD), no more.

Numba's cache asks whether a kernel's own file has another time. A kernel also contains the code of the kernels it
calls, so here the files that those come from count too; and contents count instead of times, so that a copy of the tree
or another checkout of the same sources compiles nothing anew.

Time limits do not count compiling, nor loading what was compiled: Numba tells a listener when either begins and ends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event

from beliefs.deadline import compiling

__all__ = ["inlined_kernel", "kernel", "kernels", "linear_kernel"]

F = TypeVar("F", bound=Callable[..., Any])

_STAMPS: dict[Any, str] = {}  # compiled kernel -> what its machine code depends on


class _Compiler(event.Listener):
    """Stops the clock of time limits while the compiler is held or waited for."""

    def on_start(self, event: Any) -> None:
        compiling(True)

    def on_end(self, event: Any) -> None:
        compiling(False)


event.register("numba:compiler_lock", _Compiler())  # type: ignore[no-untyped-call]


def _compile(function: F, **flags: Any) -> F:
    compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy", **flags)(function)
    stamp = _source_stamp(function)
    _STAMPS[compiled] = stamp
    cache_file: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(cache_file, "_source_stamp"):  # compared by equality when the index is read; absent with the JIT off
        cache_file._source_stamp = stamp
    return compiled  # type: ignore[no-any-return]


def _source_stamp(function: Callable[..., Any]) -> str:
    """Return a digest of the kernel's file and of all files whose kernels its module has imported."""
    called = sorted({_STAMPS[value] for value in function.__globals__.values() if _is_kernel(value, function)})
    return hashlib.sha256(repr((_contents(function.__code__.co_filename), called)).encode()).hexdigest()


@cache
def _contents(path: str) -> str:
    """Return a digest of a file's contents: its time says nothing, as copies and checkouts change it."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _is_kernel(value: Any, function: Callable[..., Any]) -> bool:
    code = getattr(getattr(value, "py_func", None), "__code__", None)
    return code is not None and value in _STAMPS and code.co_filename != function.__code__.co_filename


def kernel(function: F) -> F:
    """Compile a kernel: lazy signature, cached, without the interpreter lock."""
    return _compile(function, fastmath=False)  # said, because what is not said is taken over from the first caller


def linear_kernel(function: F) -> F:
    """Compile a kernel on finite values: sums may be reassociated and multiply-adds contracted."""
    return _compile(function, fastmath={"contract", "reassoc", "nsz", "arcp"})


def inlined_kernel(function: F) -> F:
    """Compile a part of a linear kernel that is always made part of its caller: a call with many arrays is slow."""
    return _compile(function, fastmath={"contract", "reassoc", "nsz", "arcp"}, forceinline=True)


def kernels() -> list[Any]:
    """Return all compiled kernels that have been imported so far (Numba dispatchers)."""
    return list(_STAMPS)
