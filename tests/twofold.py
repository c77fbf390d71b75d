"""Every call of a kernel that may be interpreted, made both ways: the same results, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from beliefs.kernels._interpreted import interpreted, n_entries
from beliefs.kernels._jit import Twofold

LARGEST = 200_000  # entries of a call that is worth interpreting


@contextmanager
def made_both_ways() -> Iterator[dict[str, int]]:
    """Compare the two ways at every call; yields the number of calls by kernel."""
    calls: dict[str, int] = {}

    def both(self: Twofold, *arguments: Any) -> Any:
        if n_entries(arguments) > LARGEST:
            return self.dispatcher(*arguments)
        name = f"{self.__module__.rpartition('.')[2]}.{self.__name__}"
        calls[name] = calls.get(name, 0) + 1
        copies = copied(arguments, {})
        compiled = self.dispatcher(*copies)
        result = interpreted(self)(*arguments)
        assert described(result) == described(compiled), name
        assert described(arguments) == described(copies), name
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Twofold, "__call__", both)
        yield calls


def copied(value: Any, known: dict[int, Any]) -> Any:
    """Return arguments with arrays of their own, shared where they were shared, and writeable where they were."""
    if isinstance(value, tuple):
        parts = [copied(part, known) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if not isinstance(value, np.ndarray):
        return value
    owner = value
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if id(owner) not in known:
        known[id(owner)] = (owner, owner.copy(order="K"))
    fresh = known[id(owner)][1]
    shift = value.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    view = np.ndarray(
        value.shape, value.dtype, fresh.data if fresh.size else None, shift if fresh.size else 0, value.strides
    )
    view.flags.writeable = value.flags.writeable
    return view


def described(value: Any) -> Any:
    """Return what can be compared: types and bytes."""
    if isinstance(value, tuple):
        return tuple(described(part) for part in value)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return type(value).__name__, repr(value)
