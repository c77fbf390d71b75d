"""Time limits: the clock they are read from, and the flag that ends long work.

A question with a time limit has a :class:`Deadline`. A thread of its own waits for its ends and raises a
flag, an array of one number; kernels let go of the interpreter lock, so one that reads the flag between two pieces of
its work sees it at once and returns. Its caller then asks :func:`check_time`, which raises :class:`OutOfTime`; whoever
can do without the rest catches that. Work asks for the flag of the *innermost* question around it (:func:`stop_flag`),
which is never later than those outside: nothing has to be passed on by hand through searches that ask questions of
their own.

There are two ends. Steps of an iterative method are cut off at the limit itself. What comes before and after them, and
methods of a single step, have a grace of a tenth of the limit and half a second, so that there is an answer at all.

The clock stands still while kernels are compiled: the first use of a machine is no reason to answer less well.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

import numpy as np

from beliefs.typing import Ints

__all__ = [
    "NEVER",
    "Allowance",
    "Deadline",
    "OutOfTime",
    "check_time",
    "compiling",
    "limited",
    "now",
    "regardless",
    "stop_flag",
    "time_left",
]

_GRACE = 0.1, 0.5  # share of the limit, and seconds
_SHORTEST, _LONGEST = 0.002, 60.0  # seconds that a watch sleeps: the clock may stand still, and a limit may be a year


class OutOfTime(Exception):
    """The time is over and the work was not finished; never leaves the library."""


class _Compilation:
    """Seconds of this process in which at least one thread was compiling, or waiting for another to compile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth: dict[int, int] = {}  # by thread
        self._since, self._total = 0.0, 0.0

    def enter(self) -> None:
        thread = threading.get_ident()
        with self._lock:
            if not self._depth:
                self._since = time.perf_counter()
            self._depth[thread] = self._depth.get(thread, 0) + 1

    def leave(self) -> None:
        thread = threading.get_ident()
        with self._lock:
            if self._depth.get(thread, 0) > 1:
                self._depth[thread] -= 1
            else:
                self._end(thread)

    def now(self) -> float:
        if not self._depth:  # nearly always, and without waiting
            return time.perf_counter() - self._total
        with self._lock:
            self._end(threading.get_ident())  # who asks is not compiling: an interrupt came before it could say so
            return (self._since if self._depth else time.perf_counter()) - self._total

    def _end(self, thread: int) -> None:
        if len(self._depth) == 1 and thread in self._depth:
            self._total += time.perf_counter() - self._since  # before it is gone: see `now`
        self._depth.pop(thread, None)


_compilation = _Compilation()


def now() -> float:
    """Return the time in seconds: that of :func:`time.perf_counter`, less what went into compiling."""
    return _compilation.now()


def compiling(started: bool) -> None:
    """Stop the clock, or let it go on; calls are counted."""
    if started:
        _compilation.enter()
    else:
        _compilation.leave()


class Deadline:
    """The time limit of one question; :func:`limited` makes it that of the work within.

    Parameters
    ----------
    seconds : float
        From now; inf for none.
    grace : bool
        Whether work outside of steps may take a little longer.

    Attributes
    ----------
    soft, hard : float
        When steps, and when everything must be over, by :func:`now`.
    """

    def __init__(self, seconds: float, *, grace: bool = True) -> None:
        outer = _current.get()
        limit = math.inf if outer is None else outer.end
        self._flags, self._stepping = (NEVER, NEVER), False
        self._closed: threading.Event | None = None  # its own: an interrupt within `set` may leave it locked for good
        self.soft = self.hard = math.inf
        if min(seconds, limit) < math.inf:
            began = now()
            self.soft = min(began + seconds, limit)
            self.hard = min(began + seconds + (_GRACE[0] * seconds + _GRACE[1] if grace else 0.0), limit)
            self._flags = np.array([self.soft <= began], np.int64), np.array([self.hard <= began], np.int64)
            self._closed = threading.Event()

    @property
    def end(self) -> float:
        """When the work at hand must be over."""
        return self.soft if self._stepping else self.hard

    @property
    def flag(self) -> Ints:
        """One number, not 0 as soon as the work at hand must end; made to be read by kernels."""
        return self._flags[0 if self._stepping else 1]

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Within, the limit itself counts, without grace."""
        before, self._stepping = self._stepping, True
        try:
            yield
        finally:
            self._stepping = before

    def close(self) -> None:
        """End the watch."""
        if self._closed is not None:
            self._closed.set()

    def watch(self) -> None:
        """Raise the flags when their time has come, unless it is closed before; for a thread of its own."""
        assert self._closed is not None
        for end, flag in zip((self.soft, self.hard), self._flags, strict=True):
            while (left := end - now()) > 0:
                if self._closed.wait(min(max(left, _SHORTEST), _LONGEST)):
                    return
            flag[0] = 1


def limited(seconds: float, *, grace: bool = True) -> AbstractContextManager[Deadline]:
    """Within, work has so many seconds; see :class:`Deadline`."""
    if seconds == math.inf and _current.get() is None:
        return _UNLIMITED  # nothing to watch and nobody to tell: small questions are asked by the thousand
    return _watched(seconds, grace)


@contextmanager
def _watched(seconds: float, grace: bool) -> Iterator[Deadline]:
    """A generator, so that an interrupt on the way in leaves no limit behind that would end all later questions."""
    deadline = Deadline(seconds, grace=grace)
    token = _current.set(deadline)
    try:
        if deadline.hard < math.inf:
            threading.Thread(target=deadline.watch, name="beliefs time limit", daemon=True).start()
        yield deadline
    finally:
        _current.reset(token)
        deadline.close()


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)
NEVER: Ints = np.zeros(1, np.int64)
"""The flag of work without a time limit."""

_UNLIMITED = nullcontext(Deadline(math.inf))


@contextmanager
def regardless(seconds: float) -> Iterator[Deadline]:
    """Within, work has so many seconds, whatever limits around have left: work without which there is no answer."""
    token = _current.set(None)
    try:
        with limited(seconds, grace=False) as deadline:
            yield deadline
    finally:
        _current.reset(token)


class Allowance:
    """Seconds for several pieces of work, one after the other, that know of limits and not of clocks."""

    def __init__(self, seconds: float) -> None:
        self.end = now() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, 0 at least."""
        return max(0.0, self.end - now())

    def share(self, n: int) -> float:
        """Return what each of ``n`` pieces may take if all take the same."""
        return self.left / n


def stop_flag() -> Ints:
    """Return the flag of the innermost question; without a time limit one that is never raised.

    Contexts are those of threads: ask where the question was asked, and hand the flag on to threads of your own.
    """
    innermost = _current.get()
    return NEVER if innermost is None else innermost.flag


def check_time() -> None:
    """Raise OutOfTime if the work at hand must end."""
    if stop_flag()[0] != 0:
        raise OutOfTime


def time_left() -> float:
    """Return the seconds that the work at hand may still take, inf without a time limit."""
    innermost = _current.get()
    return math.inf if innermost is None else innermost.end - now()
