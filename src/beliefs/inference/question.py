"""One question put to one method: run the driver under the time limit, and collect what all results share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from beliefs.deadline import Deadline, check_time
from beliefs.driver import Limits, Run, Status, run
from beliefs.errors import ConvergenceWarning, UnsupportedError
from beliefs.inference.base import Decoding, Marginals, Method, Problem, Samples
from beliefs.inference.portfolio.portfolio import Portfolio
from beliefs.inference.quiet import warn
from beliefs.inference.registry import METHODS
from beliefs.inference.show.progress import reporter
from beliefs.model.graph import FactorGraph

__all__ = ["Done", "Question", "warn_if_short"]


@dataclass(frozen=True)
class Done:
    """A finished run, before it is wrapped; ``short`` is the advice where a fixed-point method stopped short."""

    method: Method
    reason: str
    run: Run
    answer: Marginals | Decoding | Samples
    state: Any
    short: str = ""

    def common(self, graph: FactorGraph) -> dict[str, Any]:
        """Fields that all results share."""
        return {
            "graph": graph,
            "method": self.method,
            "reason": self.reason,
            "status": self.run.status,
            "trace": self.run.trace,
            "n_iters": self.run.n_iters,
            "seconds": self.run.seconds,
            "state": self.state,
        }


@dataclass(frozen=True, eq=False)
class Question:
    """A checked problem and the options of its door.

    Attributes
    ----------
    warm : callable
        The state of an earlier result that a method may go on from.
    started : float
        The clock at the call of the door.
    deadline : Deadline
        Of the whole question.
    """

    problem: Problem
    options: Any
    warm: Callable[[Method], Any]
    started: float
    deadline: Deadline

    def put(self, method: Method, reason: str) -> Done:
        """Run a method; OutOfTime where it has no answer yet when the time is over."""
        problem, options = self.problem, self.options
        if isinstance(method, Portfolio) and options.get("max_iters") is not None:
            method = replace(method, effort=math.inf)  # as many turns as were asked for
        if problem.task not in method.tasks:
            able = ", ".join(cls.name for cls in METHODS if problem.task in cls.tasks)
            raise UnsupportedError(f"{method.name} does not answer {problem.task.value}; use one of {able}")
        check_time()  # a question within another whose time is over costs nothing
        state = method.init(problem, self.warm(method))
        with reporter(options.get("progress", False), method, problem.task, problem.time_limit, self.started) as shown:
            done = run(
                self._step(method, state),
                lambda: method.value(state),
                self._limits(method, tuple(c for c in (options.get("callback"), shown) if c is not None)),
                value_is_free=method.value_is_free,
                fixed_point=method.fixed_point,
                verify=lambda: method.verify(state),
                **self._watched(method, state),
            )
        answer = method.finish(state)
        stopped_short = method.fixed_point and done.status not in (Status.CONVERGED, Status.STOPPED)
        short, kept = f"{method}: {done.status.advice}" if stopped_short else "", method.kept(state)
        if isinstance(method, Portfolio):
            method, told = method.ran(state)
            reason = f"{reason}\n{told}"
        done = replace(done, seconds=time.perf_counter() - self.started)
        return Done(method, reason, done, answer, kept, short)

    def _step(self, method: Method, state: Any) -> Callable[[], float]:
        """Return the step as the driver calls it; that of an iterative method may be cut off at the limit."""
        if not method.iterative:
            return lambda: method.step(state)

        def step() -> float:
            with self.deadline.stepping():
                return method.step(state)

        return step

    def _watched(self, method: Method, state: Any) -> dict[str, Any]:
        """Return what the driver asks a portfolio besides: whether anyone is left to play, and who has just played."""
        if not isinstance(method, Portfolio):
            return {}

        def ended() -> Status | None:
            with self.deadline.stepping():
                return method.ended(state)

        return {"ended": ended, "stage": lambda: state.playing}

    def _limits(self, method: Method, callbacks: tuple[Any, ...]) -> Limits:
        if not method.iterative:  # one step: half an exact answer is none
            return Limits(tol=0.0, max_iters=1, callbacks=callbacks, started=self.started)
        tol, max_iters = self.options.get("tol"), self.options.get("max_iters")
        return Limits(
            tol=method.default_tol if tol is None else tol,
            max_iters=method.default_max_iters if max_iters is None else max_iters,
            time_limit=self.problem.time_limit,
            trace_every=self.options.get("trace_every"),
            callbacks=callbacks,
            started=self.started,
            end=self.deadline.soft,
        )


def warn_if_short(done: Done, stacklevel: int) -> None:
    """Warn the caller of the door where a fixed-point method stopped short."""
    if done.short:
        warn(done.short, ConvergenceWarning, stacklevel + 1)
