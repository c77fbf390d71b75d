"""The one compiler decorator, so that its flags are chosen once, and the rule by which a kernel is compiled at all.

``cache=True`` keeps compiled code on disk beside the sources; ``nogil=True`` lets a pool of threads run kernels side by
side; ``error_model="numpy"`` removes division checks (0/0 is nan, which kernels never let out). No ``fastmath``:
flags that assume away infinities turn the log-sum-exp of an all-zero slice into nan. Linear-domain kernels, whose
values are finite and non-negative by construction, use ``linear_kernel``: sums may be reassociated (SIMD), no more.

The compiler is imported, and a kernel given to it, at the kernel's first call: most programs call few of them.
Numba's cache asks whether a kernel's own file has another time. A kernel also contains the code of the kernels it
calls, so here the files that those come from count too, and this one, ``_compiler`` and ``_front_end``, which choose
flags and passes. And contents count instead of times, so that a copy of the tree or another checkout of the same
sources compiles nothing anew.

A ``twofold_kernel`` has one result, to the last bit, compiled and interpreted: integers, or floats in an order of
operations that no flag allows to change. On small arguments it is interpreted at first, since loading compiled code
costs a process more, and compiling it much more: see :class:`Twofold`.

Numba counts the references to every array that a kernel touches, at every touch. Callers of kernels hold on to what
they pass, so only kernels that make arrays of their own need that, and what returns arrays or structures to them; all
others do without, as a third of what would be compiled is counting.

Time limits do not count compiling, nor loading what was compiled: Numba tells a listener when either begins and ends.
"""

from __future__ import annotations

import dis
import hashlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from functools import cache, cached_property, update_wrapper
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from beliefs.deadline import compiling
from beliefs.interrupts import interrupts_wait
from beliefs.kernels._interpreted import interpreted, n_entries
from beliefs.kernels._on_disk import keep_on_disk

__all__ = [
    "Kernel",
    "Operation",
    "Twofold",
    "inlined_kernel",
    "kernel",
    "kernels",
    "linear_kernel",
    "operation",
    "twofold_kernel",
]

F = TypeVar("F", bound=Callable[..., Any])

_KERNELS: list[Kernel] = []
_ANNOUNCED: list[Kernel] = []  # what has been compiled in this process
_LOCK = threading.RLock()
_OFF = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("0", "")
_LOG = logging.getLogger("beliefs")
_IMPORT, _LOAD = 0.5, 0.05  # seconds: to import the compiler and load a few kernels, to load them
_PER_BYTE = 0.6e-3  # seconds that a byte of Python's code takes to compile: the same, within a third, for all kernels
_DOUBT = 3.0  # how far to mistrust the seconds that interpreting is expected to take
_LONG = 2.0  # seconds that are worth a word
_MAKERS = frozenset({"arange", "empty", "full", "ones", "zeros"})  # as in ``np.empty``; structures may have such fields
_METHODS = frozenset({"argsort", "copy", "sort"})
_NUMBERS = frozenset({"None", "bool", "float", "int", "np", "tuple", "uint64"})
_LINEAR = frozenset({"contract", "reassoc", "nsz", "arcp"})


class Kernel:
    """A function that Numba compiles when it is first called, from Python or from a kernel that is being compiled."""

    def __init__(self, function: Callable[..., Any], **flags: Any) -> None:
        update_wrapper(self, function)
        self.py_func, self.flags = function, flags
        self._dispatcher: Any = None
        self._parts: dict[bool, Any] = {}
        self._run: Callable[..., Any] = self._first
        _KERNELS.append(self)

    def __call__(self, *arguments: Any) -> Any:
        return self._run(*arguments)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__

    @property
    def dispatcher(self) -> Any:
        """The kernel as Python calls it."""
        if self._dispatcher is None:
            with _LOCK:
                if self._dispatcher is None:
                    self._dispatcher = _dispatcher(self)
        return self._dispatcher

    @property
    def _numba_type_(self) -> Any:
        """What the compiler asks of a global of a kernel: the kernel as other kernels call it."""
        from beliefs.kernels._compiler import counts_references

        counts = self.counts or (counts_references() and not self.returned <= _NUMBERS)
        if counts not in self._parts:
            with _LOCK:
                if counts not in self._parts:
                    self._parts[counts] = _given_to_numba(self, counts, part=True)
        return self._parts[counts]._numba_type_

    @property
    def signatures(self) -> list[Any]:
        """The types of arguments for which it has been compiled or loaded, by itself or as a part of another."""
        found = [known.signatures for known in (self._dispatcher, *self._parts.values()) if known is not None]
        return list(dict.fromkeys(signature for signatures in found for signature in signatures))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    @cached_property
    def called(self) -> list[Kernel]:
        """The kernels that its code names, without itself."""
        named = map(self.py_func.__globals__.get, self.py_func.__code__.co_names)
        return [value for value in named if isinstance(value, Kernel) and value is not self]

    @cached_property
    def counts(self) -> bool:
        """Whether it counts references: it, or a kernel that it calls, makes arrays or returns a bare one."""
        kinds = [self.py_func.__globals__.get(word) for word in self.returned - _NUMBERS]
        bare = not all(kind is Any or isinstance(kind, type) and issubclass(kind, tuple) for kind in kinds)
        bare = bare and "tuple" not in self.returned
        return bare or _makes_arrays(self.py_func) or any(called.counts for called in self.called)

    @cached_property
    def returned(self) -> set[str]:
        """The words that say what it returns."""
        return set(re.findall(r"\w+", str(self.py_func.__annotations__.get("return", "unsaid"))))

    def kept(self) -> bool:
        """Look whether compiled code of these sources is on disk, for whatever types of arguments."""
        return bool(self.dispatcher._cache._cache_file._load_index())

    @cached_property
    def is_on_disk(self) -> bool:
        """Whether code was kept when this process first asked."""
        return self.kept()

    @cached_property
    def compile_seconds(self) -> float:
        """About how long it takes to compile it and what it calls."""
        return _PER_BYTE * sum(len(part.py_func.__code__.co_code) for part in _reached(self, set()))

    def _first(self, *arguments: Any) -> Any:
        if not self.is_on_disk:
            _announce(self)
        self._run = self.dispatcher
        return self._run(*arguments)


class Twofold(Kernel):
    """A kernel with the same result compiled and interpreted, which chooses what its caller waits for least.

    A process begins with interpreting, until that has taken as long as importing the compiler and loading a few
    kernels would. From then on code that is on disk is loaded, which takes milliseconds. Where there is none,
    interpreting goes on until it has cost as much as compiling would: whatever follows, nobody waits more than twice as
    long as necessary.

    Attributes
    ----------
    cost : float
        Microseconds of interpreting for each entry of the arguments, about.
    """

    always_compiled = False  # set on the class by whoever wants compiled code to be there, whatever it takes
    _spent = 0.0  # seconds of interpreting in this process

    def __init__(self, function: Callable[..., Any], cost: float = 1.0, **flags: Any) -> None:
        super().__init__(function, **flags)
        self.cost, self.seconds = cost, 0.0

    def _first(self, *arguments: Any) -> Any:
        expected = 1e-6 * self.cost * n_entries(arguments)
        at_once = Twofold._spent + expected < (_LOAD if "numba" in sys.modules else _IMPORT)
        if Twofold.always_compiled or not (at_once or self._pays(expected)):
            return super()._first(*arguments)
        started = time.thread_time()
        result = self._interpreted(*arguments)
        taken = time.thread_time() - started
        self.seconds += taken
        Twofold._spent += taken
        return result

    def _pays(self, expected: float) -> bool:
        """Return whether interpreting this once more, which takes the expected seconds, is better than compiling."""
        return self.seconds + _DOUBT * expected < self.compile_seconds and not self.is_on_disk

    @cached_property
    def _interpreted(self) -> Callable[..., Any]:
        return interpreted(self)


class Operation:
    """Something that Numba's language lacks: Python's stand-in, and the name of an intrinsic in ``<module>_code``."""

    def __init__(self, stand_in: Callable[..., Any]) -> None:
        update_wrapper(self, stand_in)
        self.stand_in = stand_in
        self.code = f"{stand_in.__module__}_code"

    def __call__(self, *arguments: Any) -> Any:
        return self.stand_in(*arguments)

    @property
    def _numba_type_(self) -> Any:
        from numba.core.registry import cpu_target

        intrinsic = getattr(import_module(self.code), self.stand_in.__name__)
        cpu_target.typing_context.refresh()  # new intrinsics are not known to it yet
        return cpu_target.typing_context.resolve_value_type(intrinsic)


@cache
def _numba() -> Any:
    """Import Numba; while that lasts, and while it works or is waited for, the clock of time limits stands still."""
    compiling(True)
    try:
        with interrupts_wait():
            import numba
            from numba.core import event

            from beliefs.kernels import _compiler  # noqa: F401  # which imports more of it
    finally:
        compiling(False)

    class Clock(event.Listener):
        def on_start(self, event: Any) -> None:
            compiling(True)

        def on_end(self, event: Any) -> None:
            compiling(False)

    event.register("numba:compiler_lock", Clock())  # type: ignore[no-untyped-call]
    return numba


def _dispatcher(kernel: Kernel) -> Any:
    compiled = _given_to_numba(kernel, kernel.counts, part=False)
    keep_on_disk(compiled, _source_stamp(kernel))
    return compiled


def _given_to_numba(kernel: Kernel, counts: bool, *, part: bool) -> Any:
    njit = _numba().njit
    from beliefs.kernels._compiler import Part, Whole

    pipeline = {"pipeline_class": Part} if part else {"pipeline_class": Whole, "cache": True}
    return njit(nogil=True, error_model="numpy", _nrt=counts, **pipeline, **kernel.flags)(kernel.py_func)


def _makes_arrays(function: Callable[..., Any]) -> bool:
    """Whether the code of a function names a way to make an array: a function of NumPy, or a method of that name."""
    names = _METHODS.union(_MAKERS).intersection(function.__code__.co_names)
    if names and not names & _METHODS:
        steps = [step.argval for step in dis.get_instructions(function)]
        return any(before == "np" and step in names for before, step in pairwise(steps))
    return bool(names)


def _reached(kernel: Kernel, known: set[Kernel]) -> set[Kernel]:
    """Return the kernel and all that it calls, as far as they have not been compiled; ``known`` are left out."""
    if kernel not in known and not kernel.signatures:
        known.add(kernel)
        for called in kernel.called:
            _reached(called, known)
    return known


@cache
def _source_stamp(kernel: Kernel) -> str:
    """Return a digest of the kernel's file, of those whose kernels and structures its module imports, and of ours."""
    home = kernel.py_func.__code__.co_filename
    called = set()
    for value in kernel.py_func.__globals__.values():
        if isinstance(value, Kernel) and value.py_func.__code__.co_filename != home:
            called.add(_source_stamp(value))
        elif isinstance(value, Operation):
            called.add(_contents_of(value.code))
        elif isinstance(value, type) and issubclass(value, tuple) and value.__module__.startswith("beliefs."):
            called.add(_contents_of(value.__module__))  # the order of a structure's fields is part of the code
    ours = [
        _contents_of(f"{__package__}.{name}") for name in ("_jit", "_compiler", "_front_end")
    ]  # flags and the order of passes
    return hashlib.sha256(repr((_contents(home), ours, sorted(called))).encode()).hexdigest()


def _contents_of(module: str) -> str:
    spec = find_spec(module)
    return _contents(str(spec and spec.origin))


@cache
def _contents(path: str) -> str:
    """Return a digest of a file's contents: its time says nothing, as copies and checkouts change it."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def kernel(function: F) -> F:
    """Compile a kernel: lazy signature, cached, without the interpreter lock."""
    return _made(Kernel, function, fastmath=False)  # said, because what is not said is taken over from the first caller


def linear_kernel(function: F) -> F:
    """Compile a kernel on finite values: sums may be reassociated and multiply-adds contracted."""
    return _made(Kernel, function, fastmath=set(_LINEAR))


def inlined_kernel(function: F) -> F:
    """Compile a part of a linear kernel that is always made part of its caller: a call with many arrays is slow."""
    return _made(Kernel, function, fastmath=set(_LINEAR), forceinline=True)


@overload
def twofold_kernel(function: F) -> F: ...
@overload
def twofold_kernel(*, cost: float) -> Callable[[F], F]: ...
def twofold_kernel(function: Any = None, *, cost: float = 1.0) -> Any:
    """Compile a kernel that gives the same result interpreted, and is interpreted where that is quicker.

    ``cost``: microseconds of interpreting for each entry of the arguments.
    """
    if function is None:
        return lambda function: _made(Twofold, function, cost=cost, fastmath=False)
    return _made(Twofold, function, cost=cost, fastmath=False)


def operation(function: F) -> F:
    """Give kernels an operation of the machine; the function stands for it without the compiler."""
    return function if _OFF else Operation(function)  # type: ignore[return-value]


def _made(kind: type[Kernel], function: F, **flags: Any) -> F:
    """Return the kernel; with the compiler off, the function itself with the silent arithmetic of compiled code."""
    return np.errstate(all="ignore")(function) if _OFF else kind(function, **flags)  # type: ignore[return-value]


def _announce(kernel: Kernel) -> None:
    """Tell the log what is compiled; the first long wait of a process such that it is seen by default."""
    seconds = kernel.compile_seconds
    long = seconds >= _LONG and not _ANNOUNCED
    _ANNOUNCED.append(kernel)
    _LOG.log(
        logging.WARNING if long else logging.INFO,
        "compiling %s for its first use, about %.0f s, and what comes after it; kept on disk (`beliefs warmup`: all)",
        kernel.__name__,
        max(1.0, seconds),
    )


def kernels() -> list[Any]:
    """Return all kernels that have been imported so far."""
    return list(_KERNELS)
