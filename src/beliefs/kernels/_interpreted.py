"""Kernels as Python runs them, with the arithmetic of the compiled ones.

A kernel's interpreted twin is the same code with other globals: the kernels it calls are twins too, so that nothing is
looked up or compiled on the way, and ``math`` follows IEEE 754 where Python raises. NumPy's scalars wrap and divide
as compiled code does, without warnings.

Interpreting stands for compiling and loading, which time limits do not count: nor do they count it, so that a question
has the same time whether or not kernels are on disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from beliefs.deadline import compiling

__all__ = ["interpreted", "n_entries"]


def n_entries(arguments: tuple[Any, ...]) -> int:
    """Return how many numbers the arguments hold, arrays in structures included, but not those in a ``...Scratch``."""
    total = 0
    for value in arguments:
        if isinstance(value, np.ndarray):
            total += value.size
        elif isinstance(value, tuple) and not type(value).__name__.endswith("Scratch"):
            total += n_entries(value)
    return total


def interpreted(kernel: Any) -> Callable[..., Any]:
    """Return a function that runs a kernel without the compiler and returns what Numba would return, off the clock."""
    twin = _twin(kernel)

    def run(*arguments: Any) -> Any:
        compiling(True)
        try:
            with np.errstate(all="ignore"):
                return _plain(twin(*arguments))
        finally:
            compiling(False)

    return run


_GLOBALS: dict[str, dict[str, Any]] = {}  # module -> its globals, with twins for kernels


def _twin(kernel: Any) -> FunctionType:
    """Return the kernel's function with its module's twin globals, which are made at the first need."""
    function = kernel.py_func
    module = function.__module__
    if module not in _GLOBALS:
        _GLOBALS[module] = twins = dict(function.__globals__)
        for name, value in function.__globals__.items():
            if value is math:
                twins[name] = _MATH
            elif {"cost", "py_func"} <= getattr(value, "__dict__", {}).keys():  # asking other kernels compiles them
                twins[name] = _twin(value)
    return FunctionType(function.__code__, _GLOBALS[module], function.__name__, function.__defaults__)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return tuple(_plain(part) for part in value) if type(value) is tuple else value


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf if x == 0.0 else math.nan


_MATH = SimpleNamespace(**{**vars(math), "exp": _exp, "log": _log})
