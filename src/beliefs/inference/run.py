"""One question without a person: a method, a problem and limits in; an answer, a status and a warm state out.

Doors speak to a person: they choose, warn, show progress and wrap. Searches, portfolios and fits ask questions of their
own, many thousand times, and want flags. All of them come here: no warnings and no text, the same verbs and the same
driver.

- :func:`solve` runs the verbs of a method under the driver, within a deadline that may be of a question around it.
- :func:`ask` is a question with a time limit of its own; OutOfTime where it has no answer when that is over.
- :func:`answer` and :func:`settled` ask for log Z and marginals, as learning does.
"""

from __future__ import annotations

import math
import os
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from beliefs.deadline import Deadline, check_time, limited
from beliefs.driver import Callback, Limits, Run, Status, once, run
from beliefs.errors import UnsupportedError
from beliefs.inference.base import Bound, Decoding, Marginals, Method, Problem, Samples, Task
from beliefs.inference.budget import default_budget
from beliefs.inference.text import named_method
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.typing import Floats, Ints

__all__ = [
    "Answer",
    "Outcome",
    "Watch",
    "answer",
    "ask",
    "best_states",
    "decoding",
    "default_threads",
    "settled",
    "solve",
    "tol_for_marginals",
]

_LEAST_CHANGE = 1e-12  # of a bound that can be told from rounding, relative
_PATIENCE = 100  # iterations after which a method that has not settled gives way to a calmer one
_NOBODY = nullcontext()


@cache
def default_threads() -> int:
    """Return how many threads a question may use unless the caller says otherwise; the system is asked once."""
    return os.cpu_count() or 1


class Watch(NamedTuple):
    """How closely a run is watched.

    Attributes
    ----------
    callbacks : tuple of callables
        Called after each step.
    shown : context manager
        Open while steps are taken; yields one more callback, or None.
    trace_every : int, optional
        Steps between recorded values.
    """

    callbacks: tuple[Callback, ...] = ()
    shown: AbstractContextManager[Callback | None] = _NOBODY
    trace_every: int | None = None


class Outcome(NamedTuple):
    """How a run ended, its raw answer, the state that it ended in, and what a warm start needs."""

    run: Run
    answer: Marginals | Decoding | Samples
    state: Any
    warm_state: Any

    @property
    def marginals(self) -> Marginals:
        """The answer to ``infer``."""
        assert isinstance(self.answer, Marginals)
        return self.answer

    @property
    def decoding(self) -> Decoding:
        """The answer to ``maximize`` or ``marginal_map``."""
        assert isinstance(self.answer, Decoding)
        return self.answer


def solve(
    method: Method,
    problem: Problem,
    *,
    tol: float | None = None,
    max_iters: int | None = None,
    warm: Any = None,
    deadline: Deadline | None = None,
    started: float | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Run a method on a problem.

    Parameters
    ----------
    tol, max_iters : optional
        None: the method's own. A method of one step takes one, whatever they are.
    warm : optional
        The ``warm_state`` of an earlier outcome.
    deadline : Deadline, optional
        Of the question; steps of an iterative method are cut off at its end.
    started : float, optional
        The clock at the call of the door.
    watch : Watch, optional
        None: the value is computed once, at the end, and a residual that does not shrink is not called an oscillation.
    """
    state = method.init(problem, warm)
    clock = time.perf_counter() if started is None else started
    with _NOBODY if watch is None else watch.shown as callback:
        callbacks = () if watch is None else (*watch.callbacks, *(() if callback is None else (callback,)))
        if method.iterative:
            done = run(
                _step(method, state, deadline),
                partial(method.value, state),
                Limits(
                    tol=method.default_tol if tol is None else tol,
                    max_iters=method.default_max_iters if max_iters is None else max_iters,
                    time_limit=problem.time_limit,
                    trace_every=None if watch is None else watch.trace_every,
                    callbacks=callbacks,
                    started=clock,
                    end=math.nan if deadline is None else deadline.soft,
                ),
                value_is_free=watch is not None and method.value_is_free,
                fixed_point=watch is not None and partial(method.may_oscillate, state),
                verify=partial(method.verify, state),
                **_turns(method, state, deadline),
            )
        else:
            done = once(partial(method.step, state), partial(method.value, state), clock, callbacks)
    return Outcome(done, method.finish(state), state, method.warm_state(state))


def _step(method: Method, state: Any, deadline: Deadline | None) -> Any:
    """Return the step as the driver calls it, which may be cut off at the limit."""
    if deadline is None or deadline.soft == math.inf:
        return partial(method.step, state)

    def step() -> float:
        with deadline.stepping():
            return method.step(state)

    return step


def _turns(method: Method, state: Any, deadline: Deadline | None) -> dict[str, Any]:
    """Return what the driver asks a method of several: whether one of them is left to run, and which has just run."""
    if not method.takes_turns:
        return {}

    def ended() -> Status | None:
        with nullcontext() if deadline is None else deadline.stepping():
            return method.ended(state)

    return {"ended": ended, "stage": lambda: method.at_work(state)}


def ask(
    graph: FactorGraph,
    method: Method | str,
    task: Task = Task.INFER,
    *,
    max_iters: int | None = None,
    time_limit: float = math.inf,
    max_bytes: int | None = None,
) -> Outcome:
    """Ask a question within another one, in so many seconds; a method may be written as text.

    Where it has no answer by then, or the question around it is over, that is OutOfTime.
    """
    budget = default_budget() if max_bytes is None else max_bytes
    problem = Problem(graph, task, max_bytes=budget, threads=default_threads(), time_limit=time_limit)
    with limited(time_limit) as deadline:
        check_time()  # a question within another whose time is over costs nothing
        return solve(named_method(method), problem, max_iters=max_iters, deadline=deadline)


# -- log Z and marginals, as learning asks for them -----------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Answer:
    """Log Z, what it is worth, marginals, whether they have settled, what a warm start needs, a certified interval.

    ``rho``: counting numbers of the factors' entropies, of methods that have some.
    """

    layout: Layout
    log_z: float
    bound: Bound
    mu_var: Floats
    mu_factor: Floats
    converged: bool
    warm_state: Any
    lower: float = -math.inf
    upper: float = math.inf
    rho: Floats | None = None

    @cached_property
    def mu(self) -> Floats:
        """Expected statistics ``(n_cells,)``, the gradient of log Z at a fixed point; tied cells hold sums."""
        return self.layout.in_cells(self.mu_factor)


def answer(
    graph: FactorGraph,
    method: Method,
    *,
    tol: float | None = None,
    max_iters: int | None = None,
    warm: Any = None,
    seed: int = 0,
) -> Answer:
    """Ask for log Z and all marginals; ``warm`` is the ``warm_state`` of an earlier answer on the same layout."""
    if Task.INFER not in method.tasks:
        raise UnsupportedError(
            f"{method.name} does not answer infer, so it has no log Z and no marginals to learn with"
        )
    problem = Problem(graph, max_bytes=default_budget(), seed=seed)
    done = solve(method, problem, tol=tol, max_iters=max_iters, warm=warm)
    found = done.marginals
    converged = not method.iterative or done.run.status is Status.CONVERGED or found.bound is Bound.EXACT
    return Answer(
        graph.layout, found.log_z, found.bound, found.mu_var, found.mu_factor, converged, done.warm_state,
        found.lower, found.upper, found.rho,
    )  # fmt: skip


def tol_for_marginals(method: Method, tol: float | None = None) -> float:
    """Return the tolerance that makes marginals as good as ``tol`` says (None: the method's own).

    A bound is flat at its optimum: marginals are off by about a tenth of the root of its relative change, and not by
    less than that of rounding.
    """
    wanted = method.default_tol if tol is None else tol
    return min(wanted, max((10.0 * wanted) ** 2, _LEAST_CHANGE)) if method.residual_of == "bound" else wanted


def settled(
    graph: FactorGraph, method: Method, *, tol: float | None = None, max_iters: int | None = None, warm: Any = None
) -> Answer:
    """Ask until the answer settles: what has not after a hundred iterations goes on from there with a calmer method.

    That has the same fixed points, so the value and its gradient are those that were asked for.
    """
    calmer = method.calmer()
    limit = method.default_max_iters if max_iters is None else max_iters
    found = answer(graph, method, tol=tol, max_iters=limit if calmer is None else min(limit, _PATIENCE), warm=warm)
    if found.converged or calmer is None or limit <= _PATIENCE:
        return found
    return answer(graph, calmer, tol=tol, max_iters=limit - _PATIENCE, warm=found.warm_state)


def best_states(
    graph: FactorGraph,
    method: Method,
    *,
    tol: float | None = None,
    max_iters: int | None = None,
    seed: int = 0,
) -> tuple[Ints, bool]:
    """Ask for the assignment of largest score; return it and whether the method met its tolerance."""
    found, met = decoding(graph, method, tol=tol, max_iters=max_iters, seed=seed)
    return found.assignment, met


def decoding(
    graph: FactorGraph,
    method: Method,
    query: Ints | None = None,
    *,
    tol: float | None = None,
    max_iters: int | None = None,
    seed: int = 0,
) -> tuple[Decoding, bool]:
    """Ask for the best states of the query, of all variables for None, and say whether the method met its tolerance.

    States of a query may come without their value.
    """
    task, asked = (Task.MAXIMIZE, np.zeros(0, np.int64)) if query is None else (Task.MARGINAL_MAP, query)
    problem = Problem(graph, task, asked, max_bytes=default_budget(), seed=seed, values_states=False)
    done = solve(method, problem, tol=tol, max_iters=max_iters)
    found = done.decoding
    return found, not method.fixed_point or found.log_value == found.upper or done.run.status is Status.CONVERGED
