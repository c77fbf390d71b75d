"""The one compiler decorator, so that its flags are chosen once.

``cache=True`` keeps compiled code on disk beside the sources; ``nogil=True`` lets a pool of threads run kernels side by
side; ``error_model="numpy"`` removes division checks (0/0 is nan, which kernels never let out). No ``fastmath``:
flags that assume away infinities turn the log-sum-exp of an all-zero slice into nan. Linear-domain kernels, whose
values are finite and non-negative by construction, use ``linear_kernel``: sums may be reassociated (SIMD), no more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

__all__ = ["kernel", "inline_kernel", "linear_kernel", "kernels"]

F = TypeVar("F", bound=Callable[..., Any])

_COMPILED: list[Any] = []


def _compile(function: F, **flags: Any) -> F:
    compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy", **flags)(function)
    _COMPILED.append(compiled)
    return compiled  # type: ignore[no-any-return]


def kernel(function: F) -> F:
    """Compile a kernel: lazy signature, cached, without the interpreter lock."""
    return _compile(function)


def inline_kernel(function: F) -> F:
    """Compile a small kernel that is always inlined into its caller."""
    return _compile(function, inline="always")


def linear_kernel(function: F) -> F:
    """Compile a kernel on finite values: sums may be reassociated and multiply-adds contracted."""
    return _compile(function, fastmath={"contract", "reassoc", "nsz", "arcp"})


def kernels() -> list[Any]:
    """Return all compiled kernels that have been imported so far (Numba dispatchers)."""
    return list(_COMPILED)
