"""The only loop of the library: tolerance, iteration and time budgets, trace, callback and status.

A method says how one step goes and what the present value is; the driver decides how long to go on and what the
stop means. Fitting loops use the same driver. Methods of a single step, which nothing may cut short, are taken
:func:`once`.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from beliefs.deadline import OutOfTime
from beliefs.deadline import now as clock
from beliefs.display.frames import frame
from beliefs.options import check_integer, check_number, check_option, is_number
from beliefs.typing import Floats, Ints

__all__ = ["Limits", "Progress", "Run", "Status", "Trace", "Value", "once", "run", "says_stop"]

_WINDOW = 10  # steps
_STUCK = 0.9  # a residual that does not fall by a tenth between two such windows is called an oscillation
_PATIENCE = 8  # steps between two verifications at most; they begin one step apart


class Status(StrEnum):
    """Why a method stopped, a word; ``advice`` says what to try.

    >>> Status.CONVERGED == "CONVERGED"
    True
    """

    CONVERGED = "CONVERGED"
    MAX_ITERS = "MAX_ITERS"
    TIME_LIMIT = "TIME_LIMIT"
    DIVERGED = "DIVERGED"
    OSCILLATING = "OSCILLATING"
    STOPPED = "STOPPED"

    @property
    def advice(self) -> str:
        """What the status means and what to try."""
        return _ADVICE[self]


_ADVICE = {
    Status.CONVERGED: "the residual fell below tol",
    Status.MAX_ITERS: "max_iters was reached; raise max_iters, or loosen tol if the residual is small enough for you",
    Status.TIME_LIMIT: "time_limit was reached; raise time_limit, or take the result as it is",
    Status.DIVERGED: "the residual is no longer finite; add damping or choose a convergent method",
    Status.OSCILLATING: "the residual does not shrink any more; add damping (for example damping=0.5), or more of it",
    Status.STOPPED: "stopped by the caller; the result is that of the last finished step",
}


@dataclass(frozen=True, slots=True)
class Value:
    """What a method knows at its present iterate: a point value and a certified interval.

    ``rounding`` is how far the ends of the interval were moved for the errors of their own arithmetic.
    """

    log_z: float
    lower: float = -math.inf
    upper: float = math.inf
    rounding: float = 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """What a callback sees after each step; ``value`` is None where it was not computed.

    ``stage`` names the method that took the step where several take turns.
    """

    iteration: int
    seconds: float
    residual: float
    value: Value | None
    stage: str = ""


Callback = Callable[[Progress], object]


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to go on and how closely to watch; ``started`` is the clock at the call of the door.

    ``end`` is when the time is over on the clock of :func:`beliefs.deadline.now`, by default ``started`` and the limit.
    """

    tol: float = 1e-8
    max_iters: int = 1000
    time_limit: float = math.inf
    trace_every: int | None = None
    callbacks: tuple[Callback, ...] = ()
    started: float = field(default_factory=time.perf_counter)
    end: float = math.nan

    def __post_init__(self) -> None:
        check_integer("max_iters", self.max_iters, 0)
        check_integer("trace_every", self.trace_every, 1, none=True)
        check_number("tol", self.tol)
        endless = isinstance(self.time_limit, float | np.floating) and self.time_limit == math.inf
        seconds = endless or is_number(self.time_limit) and self.time_limit >= 0
        check_option(seconds, "time_limit", "a number of at least 0", self.time_limit)
        if math.isnan(self.end):
            unlimited = self.time_limit == math.inf
            end = math.inf if unlimited else clock() + self.started + self.time_limit - time.perf_counter()
            object.__setattr__(self, "end", end)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trace:
    """What was recorded: one row where the value was computed. Never nan; unknown bounds are -inf and +inf.

    Attributes
    ----------
    table : ndarray (n_rows, 6)
        A column each for the properties, in the order of :attr:`columns`.
    """

    table: Floats
    columns: ClassVar[tuple[str, ...]] = ("iteration", "seconds", "residual", "log_z", "lower", "upper")

    @classmethod
    def of(cls, rows: list[tuple[int, float, float, Value]]) -> Trace:
        """Collect rows ``(iteration, seconds, residual, value)``."""
        listed = [(n, seconds, residual, v.log_z, v.lower, v.upper) for n, seconds, residual, v in rows]
        return cls(np.array(listed, float).reshape(-1, 6))

    @property
    def iteration(self) -> Ints:
        """The number of the step, from 1."""
        return self.table[:, 0].astype(np.int64)

    @property
    def seconds(self) -> Floats:
        """Since the call."""
        return self.table[:, 1]

    @property
    def residual(self) -> Floats:
        """What was compared with ``tol``."""
        return self.table[:, 2]

    @property
    def log_z(self) -> Floats:
        """The point value."""
        return self.table[:, 3]

    @property
    def lower(self) -> Floats:
        """The certified lower bound."""
        return self.table[:, 4]

    @property
    def upper(self) -> Floats:
        """The certified upper bound."""
        return self.table[:, 5]

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        return f"Trace({len(self)} rows of {', '.join(self.columns)})"

    def to_frame(self) -> Any:
        """Return the rows as a pandas frame."""
        return frame({name: getattr(self, name) for name in self.columns})


@dataclass(frozen=True, slots=True)
class Run:
    """How a loop ended."""

    status: Status
    trace: Trace
    n_iters: int
    seconds: float


def once(
    step: Callable[[], float], value: Callable[[], Value], started: float, callbacks: tuple[Callback, ...] = ()
) -> Run:
    """Take the one step of a method that has no other: no limit cuts it short, since half an exact answer is none."""
    residual, now, seconds = step(), value(), time.perf_counter() - started
    for callback in callbacks:
        callback(Progress(1, seconds, residual, now))
    return Run(Status.CONVERGED, Trace.of([(1, seconds, residual, now)]), 1, seconds)


def run(
    step: Callable[[], float],
    value: Callable[[], Value],
    limits: Limits,
    *,
    value_is_free: bool = False,
    fixed_point: bool | Callable[[], bool] = True,
    verify: Callable[[], float] | None = None,
    ended: Callable[[], Status | None] | None = None,
    stage: Callable[[], str] | None = None,
) -> Run:
    """Call ``step`` until a limit is met.

    Parameters
    ----------
    step : callable
        Does one iteration and returns its residual, the quantity compared with ``tol``.
    value : callable
        Computes the present value; called every ``trace_every`` steps (default: every step where it is free) and
        after the last.
    fixed_point : bool or callable
        Whether the residual should go to zero step by step, so that one that does not is called an oscillation; or a
        function that says so of the last steps.
    verify : callable, optional
        Asked when the residual has fallen to ``tol``: how far the iterate really is from its goal, where the residual
        alone does not tell. If that is more than ``tol`` the loop goes on, and asks again after 1, 2, 4, 8, 8, ...
        steps.
    ended : callable, optional
        Asked before each step: the status to end with if there is nothing left to do, else None.
    stage : callable, optional
        The name of the method that took the last step, for callbacks.
    """
    rows: list[tuple[int, float, float, Value]] = []
    every = limits.trace_every or (1 if value_is_free else 0)
    recent: deque[float] = deque(maxlen=2 * _WINDOW)
    residual, n_iters = math.inf, 0
    checks = _Verification(verify, limits.tol)
    status = Status.MAX_ITERS
    while n_iters < limits.max_iters:
        if clock() > limits.end:
            status = Status.TIME_LIMIT
            break
        early = ended() if ended is not None else None
        if early is not None:
            status = early
            break
        try:
            residual = step()
        except OutOfTime:
            if limits.end == math.inf:  # the limit is another's
                raise
            status = Status.TIME_LIMIT
            break
        n_iters += 1
        residual = checks.of(math.inf if math.isnan(residual) else residual, n_iters)  # the trace never holds nan
        recent.append(residual)
        seconds = time.perf_counter() - limits.started
        now = value() if every and n_iters % every == 0 else None
        if now is not None:
            rows.append((n_iters, seconds, residual, now))
        stopped: list[bool] = []
        if limits.callbacks:  # a step may take microseconds
            progress = Progress(n_iters, seconds, residual, now, stage() if stage is not None else "")
            stopped = [says_stop(callback(progress)) for callback in limits.callbacks]
        if not math.isfinite(residual):
            status = Status.DIVERGED
        elif residual <= limits.tol and not checks.pending:
            status = Status.CONVERGED
        elif any(stopped):
            status = Status.STOPPED
        else:
            continue
        break
    if checks.pending and status is Status.MAX_ITERS:
        residual = checks.now(residual)
        status = Status.CONVERGED if residual <= limits.tol else status
    if status is Status.MAX_ITERS and _oscillates(recent) and (fixed_point() if callable(fixed_point) else fixed_point):
        status = Status.OSCILLATING
    seconds = time.perf_counter() - limits.started
    if not rows or rows[-1][0] != n_iters:
        rows.append((n_iters, seconds, residual, value()))
    return Run(status, Trace.of(rows), n_iters, seconds)


class _Verification:
    """When to look more closely at an iterate whose residual is small, and what was found."""

    def __init__(self, verify: Callable[[], float] | None, tol: float) -> None:
        self.verify, self.tol = verify, tol
        self.due, self.wait = 0, 1
        self.pending = False
        """Whether the last residual is small but has not been verified."""

    def of(self, residual: float, n_iters: int) -> float:
        """Return the residual of this step, verified if it is small and the time has come."""
        self.pending = self.verify is not None and residual <= self.tol
        if not self.pending or n_iters < self.due:
            return residual
        verified = self.now(residual)
        if verified > self.tol:
            self.due, self.wait = n_iters + self.wait, min(2 * self.wait, _PATIENCE)
        return verified

    def now(self, residual: float) -> float:
        """Return the larger of the residual and what verification finds."""
        assert self.verify is not None
        self.pending = False
        return max(residual, self.verify())


def says_stop(answer: object) -> bool:
    """True, or NumPy's True as a comparison gives it; anything else, None above all, goes on."""
    return answer is True or isinstance(answer, np.bool_) and bool(answer)


def _oscillates(recent: deque[float]) -> bool:
    if len(recent) < 2 * _WINDOW:
        return False
    residuals = list(recent)
    return min(residuals[_WINDOW:]) > _STUCK * min(residuals[:_WINDOW])
