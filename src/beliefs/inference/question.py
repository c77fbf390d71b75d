"""One question put to one method: run the driver under the time limit, and collect what all results share."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

from beliefs.deadline import Deadline, check_time
from beliefs.driver import Run, Status
from beliefs.errors import BudgetError, ConvergenceWarning, UnsupportedError
from beliefs.inference.aside import graph_bytes, value_bytes
from beliefs.inference.base import Decoding, Marginals, Method, Problem, Samples, Task
from beliefs.inference.budget import besides
from beliefs.inference.quiet import warn
from beliefs.inference.run import Watch, solve
from beliefs.inference.show.progress import reporter
from beliefs.inference.text import known_methods
from beliefs.model.clamped_rbm import AskedModel
from beliefs.model.graph import FactorGraph

__all__ = ["Done", "Question", "warn_if_short"]

_LOG = logging.getLogger(__name__)
_NOTHING = nullcontext()


class Done(NamedTuple):
    """A finished run, before it is wrapped; ``short`` is the advice where a fixed-point method stopped short."""

    method: Method
    reason: str
    run: Run
    seconds: float
    answer: Marginals | Decoding | Samples
    state: Any
    short: str = ""

    def common(self, model: AskedModel) -> dict[str, Any]:
        """Fields that all results share."""
        return {
            "model": model,
            "method": self.method,
            "reason": self.reason,
            "status": self.run.status,
            "trace": self.run.trace,
            "n_iters": self.run.n_iters,
            "seconds": self.seconds,
            "state": self.state,
        }


class Question(NamedTuple):
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
        options = self.options
        method = method.for_iterations(options.get("max_iters"))
        task = self.problem.task
        if task not in method.tasks:
            able = ", ".join(cls.name for cls in known_methods() if task in cls.tasks)
            raise UnsupportedError(f"{method.name} does not answer {task.value}; use one of {able}")
        check_time()  # a question within another whose time is over costs nothing
        form, problem = _form(method, self.problem)
        _LOG.info("%s by %s: %s", task.value, method, reason)
        callback = options.get("callback")
        asked = options.get("progress", False)
        shown = reporter(method, task, problem.time_limit, self.started) if asked else _NOTHING
        aside, what = _set_aside(form, problem)
        left = problem
        if aside:
            left = replace(problem, max_bytes=max(0, problem.max_bytes - int(aside)), aside=aside - problem.held)
        try:
            found = solve(
                form,
                left,
                tol=options.get("tol"),
                max_iters=options.get("max_iters"),
                warm=self.warm(form),
                deadline=self.deadline,
                started=self.started,
                watch=Watch(() if callback is None else (callback,), shown, options.get("trace_every")),
            )
        except BudgetError as error:
            if not aside:
                raise
            raise besides(error, aside, what) from None
        status = found.run.status
        _LOG.info("%s by %s: %s, steps: %d", task.value, method, status.name, found.run.n_iters)
        stopped_short = form.fixed_point and status not in (Status.CONVERGED, Status.STOPPED)
        source, parts = form.ran(found.state)
        source = method if source is form else source
        return Done(
            source,
            f"{reason}\n{parts}" if parts else reason,
            found.run,
            time.perf_counter() - self.started,
            found.answer,
            found.warm_state,
            f"{method}: {status.advice}" if stopped_short else "",
        )


def _form(method: Method, problem: Problem) -> tuple[Method, Problem]:
    """Return the form of a method for machines, which are loaded where there is one, and the problem that it takes."""
    if isinstance(problem.model, FactorGraph) and not method.needs_machine:
        return method, problem
    from beliefs.inference.boltzmann.native import is_native, native

    form, asked = native(method, problem)
    return form, asked if is_native(form) else replace(asked, held=asked.held + graph_bytes(asked.model))


def _set_aside(method: Method, problem: Problem) -> tuple[float, str]:
    """Return the bytes that are not the method's: for a machine's factor graph and the value of a query; and the words.

    A query of all variables, or none, has the value of a joint state.
    """
    if problem.task is not Task.MARGINAL_MAP and not problem.held:
        return 0.0, ""
    parts = {"the machine's factor graph": problem.held}
    if problem.task is Task.MARGINAL_MAP and method.values_queries and problem.values_states:
        layout = problem.graph.layout
        if problem.query.size < int((~layout.observed).sum()):
            parts["the value of the query"] = value_bytes(problem.graph, problem.query)
    return sum(parts.values()), " and ".join(what for what, size in parts.items() if size)


def warn_if_short(done: Done, stacklevel: int) -> None:
    """Warn the caller of the door where a fixed-point method stopped short."""
    if done.short:
        warn(done.short, ConvergenceWarning, stacklevel + 1)
