"""The four questions: check in, choose the method, run the driver, wrap out.

Everything that is true of every method is said here once: which keywords there are, what they mean, which inputs are
refused, and when a warning is given.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

import numpy as np

from beliefs.driver import Limits, Progress, Run, Status, run
from beliefs.errors import BudgetError, ConvergenceWarning, ModelError, UnsupportedError
from beliefs.inference.auto import choose
from beliefs.inference.base import Bound, Decoding, Marginals, Method, Problem, Samples, Task
from beliefs.inference.budget import default_budget, readable_bytes
from beliefs.inference.portfolio import Portfolio, WarmStages
from beliefs.inference.progress import reporter
from beliefs.inference.prune import prune_barren
from beliefs.inference.registry import METHODS
from beliefs.inference.result import InferenceResult, MapResult, MarginalMapResult, SampleResult, _Result
from beliefs.inference.text import parse_method
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.options import MANY, check_integer
from beliefs.typing import Bools, Floats, Ints, VariableRef

__all__ = ["Options", "checked_query", "infer", "marginal_map", "maximize", "sample"]


class Options(TypedDict, total=False):
    """Keywords of every door; None or absent means the method's own default.

    ``tol``: the residual at which to stop; ``max_iters``; ``time_limit``: seconds from the call; ``max_bytes``: memory
    budget (default: half of what is available); ``seed``; ``init``: an earlier result to start from; ``callback``:
    called after each step, returns True to stop; ``progress``: show a progress line; ``threads``: how many a method
    may use, None means all (it changes no byte of the answer); ``trace_every``: steps between recorded values. Exact
    methods take one step and finish it: ``tol``, ``max_iters`` and ``time_limit`` do not cut it short, but ``auto``
    chooses them only if they are predicted to meet the time limit.
    """

    tol: float | None
    max_iters: int | None
    time_limit: float | None
    max_bytes: int | None
    seed: int | None
    init: Any
    callback: Callable[[Progress], object] | None
    progress: bool
    threads: int | None
    trace_every: int | None


def infer(
    model: Model,
    method: Method | str = "auto",
    *,
    targets: Sequence[VariableRef] | None = None,
    **options: Unpack[Options],
) -> InferenceResult:
    r"""Compute log Z and all marginals.

    .. math:: \log Z = \log \sum_x \exp \sum_f \theta_f(x_f), \qquad \mu = \partial \log Z / \partial \theta

    Parameters
    ----------
    model : FactorGraph, BayesianNetwork, ...
        With evidence by ``model.condition({...})``.
    method : Method or str
        ``"auto"``, a name, or text such as ``"bp(damping=0.2)"``.
    targets : sequence of variables, optional
        Only these marginals are needed; barren variables of a Bayesian network are then left out.
    **options
        See :class:`Options`.

    Raises
    ------
    ZeroProbabilityError, BudgetError, ModelError, UnsupportedError

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
    >>> bl.infer(g.condition({"x0": 1})).marginal("x1").round(3)
    array([0.429, 0.571])
    """
    graph = _checked(model)
    wanted = None if targets is None else np.unique(_listed(graph, targets, "targets"))
    asked, pruned, kept_cells = graph, np.zeros(graph.n_vars, np.bool_), None
    if wanted is not None:
        asked, pruned, kept_cells = prune_barren(graph, wanted)
    done = _ask(Problem(asked, Task.INFER, targets=wanted), method, options, graph, pruned)
    answer = done.answer
    assert isinstance(answer, Marginals)
    tables = answer.tables
    if kept_cells is not None:
        tables = np.zeros(int(graph.layout.factor_size.sum()))
        tables[kept_cells] = answer.mu_factor
    answer.mu_var.setflags(write=False)
    exact = answer.bound is Bound.EXACT and not done.method.iterative
    return InferenceResult(
        **done.common(graph),
        log_z=answer.log_z,
        bound=answer.bound,
        log_lower=answer.lower,
        log_upper=answer.upper,
        mu_var=answer.mu_var,
        tables=tables,
        pruned=pruned,
        joint=JointMarginals(graph, done.method, options.get("max_bytes"), pruned) if exact else None,
    )


def maximize(model: Model, method: Method | str = "auto", **options: Unpack[Options]) -> MapResult:
    r"""Find the assignment of largest score, :math:`\arg\max_x \sum_f \theta_f(x_f)`.

    The assignment is complete, its score real; ``gap == 0.0`` is a proof. Options as in :class:`Options`.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
    >>> bl.maximize(g).states()
    {'x0': '1', 'x1': '1'}
    """
    graph = _checked(model)
    done = _ask(Problem(graph, Task.MAXIMIZE), method, options)
    answer = done.answer
    assert isinstance(answer, Decoding)
    score = graph.log_score(answer.assignment)
    if score == -math.inf:
        warnings.warn(f"{done.method}: no state of positive weight was found", ConvergenceWarning, stacklevel=2)
    exact = answer.bound is Bound.EXACT
    answer.assignment.setflags(write=False)
    return MapResult(
        **done.common(graph),
        assignment=answer.assignment,
        log_score=score,
        log_upper=score if exact else max(score, answer.upper),
    )


def marginal_map(
    model: Model, query: Sequence[VariableRef], method: Method | str = "auto", **options: Unpack[Options]
) -> MarginalMapResult:
    r"""Find the best states of ``query``, summing over all other variables.

    .. math:: \arg\max_{x_B} Q(x_B), \qquad Q(x_B) = \log \sum_{x_A} \exp \theta(x_A, x_B)

    An empty query asks for log Z, a full one for the MAP. Options as in :class:`Options`.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 4], [3, 3]])])
    >>> bl.marginal_map(g, ["x0"]).states(), bl.maximize(g).states()
    ({'x0': '1'}, {'x0': '0', 'x1': '1'})
    """
    graph = _checked(model)
    asked = checked_query(graph, query)
    done = _ask(Problem(graph, Task.MARGINAL_MAP, query=np.sort(asked)), method, options)
    answer = done.answer
    assert isinstance(answer, Decoding)
    if answer.log_value == -math.inf:
        warnings.warn(f"{done.method}: no states of positive weight were found", ConvergenceWarning, stacklevel=2)
    row = graph.evidence_states.copy()
    row[np.sort(asked)] = answer.assignment
    return MarginalMapResult(
        **done.common(graph),
        query=tuple(int(v) for v in asked),
        assignment=row[asked],
        log_value=answer.log_value,
        value_bound=answer.bound,
        log_lower=answer.lower,
        log_upper=answer.upper,
    )


def sample(model: Model, n: int, method: Method | str = "auto", **options: Unpack[Options]) -> SampleResult:
    """Draw ``n`` joint states from the model; exact methods give independent draws. Options as in :class:`Options`.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 0], [0, 1]])])
    >>> bl.sample(g, 3, seed=1).samples.shape
    (3, 2)
    """
    graph = _checked(model)
    check_integer("the number of samples", n, 0)
    done = _ask(Problem(graph, Task.SAMPLE, n_samples=int(n)), method, options)
    assert isinstance(done.answer, Samples)
    return SampleResult(**done.common(graph), samples=done.answer.samples, bound=done.answer.bound)


# -- behind the doors ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Done:
    """A finished run, before it is wrapped."""

    method: Method
    reason: str
    run: Run
    answer: Marginals | Decoding | Samples
    state: Any

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


def _ask(
    problem: Problem,
    method: Method | str,
    options: Options,
    model: FactorGraph | None = None,
    pruned: Bools | None = None,
) -> _Done:
    """Check, choose, run. Where targets made ``problem.graph`` a part of ``model``, ``pruned`` says what it lacks."""
    started = time.perf_counter()
    _check_options(options)
    problem = replace(
        problem,
        max_bytes=_given(options.get("max_bytes"), default_budget),
        seed=_given(options.get("seed"), lambda: 0),
        threads=_given(options.get("threads"), lambda: os.cpu_count() or 1),
        time_limit=_given(options.get("time_limit"), lambda: math.inf),
    )
    chosen, reason = _method(problem, method, started)
    if isinstance(chosen, Portfolio) and options.get("max_iters") is not None:
        chosen = replace(chosen, effort=math.inf)  # as many turns as were asked for
    if 8.0 * problem.n_samples * problem.graph.n_vars > problem.max_bytes:
        needed, limit = (readable_bytes(b) for b in (8.0 * problem.n_samples * problem.graph.n_vars, problem.max_bytes))
        raise BudgetError(f"{problem.n_samples} samples need {needed}; the limit is {limit}. Draw them in parts")
    if problem.task not in chosen.tasks:
        able = ", ".join(cls.name for cls in METHODS if problem.task in cls.tasks)
        raise UnsupportedError(f"{chosen.name} does not answer {problem.task.value}; use one of {able}")
    state = chosen.init(problem, _warm(model or problem.graph, chosen, options.get("init"), pruned))
    with reporter(options.get("progress", False), chosen, problem.task, problem.time_limit, started) as shown:
        callbacks = tuple(c for c in (options.get("callback"), shown) if c is not None)
        limits = _limits(chosen, options, callbacks, started)
        done = run(
            lambda: chosen.step(state),
            lambda: chosen.value(state),
            limits,
            value_is_free=chosen.value_is_free,
            fixed_point=chosen.fixed_point,
            verify=lambda: chosen.verify(state),
            **_watched(chosen, state),
        )
    answer = chosen.finish(state)
    if chosen.fixed_point and done.status not in (Status.CONVERGED, Status.STOPPED):
        warnings.warn(f"{chosen}: {done.status.advice}", ConvergenceWarning, stacklevel=3)
    kept = chosen.kept(state)
    if isinstance(chosen, Portfolio):
        chosen, told = chosen.ran(state)
        reason = f"{reason}\n{told}"
    return _Done(chosen, reason, replace(done, seconds=time.perf_counter() - started), answer, kept)


def _watched(method: Method, state: Any) -> dict[str, Any]:
    """Return what the driver asks a portfolio besides: whether anyone is left to play, and who has just played."""
    if not isinstance(method, Portfolio):
        return {}
    return {"ended": lambda: method.ended(state), "stage": lambda: state.playing}


def _limits(method: Method, options: Options, callbacks: tuple[Any, ...], started: float) -> Limits:
    if not method.iterative:  # one step, always taken: half an exact answer is none
        return Limits(tol=0.0, max_iters=1, callbacks=callbacks, started=started)
    return Limits(
        tol=_given(options.get("tol"), lambda: method.default_tol),
        max_iters=_given(options.get("max_iters"), lambda: method.default_max_iters),
        time_limit=_given(options.get("time_limit"), lambda: math.inf),
        trace_every=options.get("trace_every"),
        callbacks=callbacks,
        started=started,
    )


def _given(value: Any, default: Callable[[], Any]) -> Any:
    return default() if value is None else value


def _check_options(options: Options) -> None:
    for name in options:
        if name not in Options.__annotations__:
            raise TypeError(f"unexpected keyword argument {name!r}; known: {', '.join(Options.__annotations__)}")
    Limits(
        tol=_given(options.get("tol"), lambda: 0.0),
        max_iters=_given(options.get("max_iters"), lambda: 0),
        time_limit=_given(options.get("time_limit"), lambda: 0.0),
        trace_every=options.get("trace_every"),
    )
    callback = options.get("callback")
    if callback is not None and not callable(callback):
        raise ModelError(f"callback must be a function, found {callback!r}")
    check_integer("max_bytes", options.get("max_bytes"), 0, none=True)
    check_integer("seed", options.get("seed"), 0, none=True)
    check_integer("threads", options.get("threads"), 1, MANY, none=True)


def _checked(model: Model) -> FactorGraph:
    graph = as_factor_graph(model)
    if graph.n_vars == 0:
        raise ModelError("the model has no variables")
    if 64.0 * graph.layout.n_states > default_budget():  # marginals and the copies that normalising makes
        raise BudgetError(f"marginals of {graph.layout.n_states:.3g} states in all do not fit in memory")
    return graph


def _listed(graph: FactorGraph, variables: Sequence[VariableRef], what: str) -> Ints:
    """Resolve a list of variables to indices."""
    if isinstance(variables, str) or not isinstance(variables, Iterable):
        raise ModelError(f"{what} must be a list of variables, found {variables!r}")
    return np.array([graph.index(v) for v in variables], np.int64)


def checked_query(graph: FactorGraph, query: Sequence[VariableRef]) -> Ints:
    """Return the indices of a marginal-MAP query; repeated and observed variables are refused."""
    asked = _listed(graph, query, "query")
    if len(set(asked)) < len(asked):
        raise ModelError("the query names a variable twice")
    for v in asked:
        if graph.layout.observed[v]:
            raise ModelError(f"variable {graph.naming.name(int(v))!r} is in the query and in the evidence")
    return asked


def _method(problem: Problem, method: Method | str, started: float) -> tuple[Method, str]:
    if isinstance(method, Method):
        return method, "as asked"
    if not isinstance(method, str):
        raise ModelError(f"method must be a Method or its text, found {type(method).__name__}")
    return choose(problem, started) if method.strip() == "auto" else (parse_method(method, METHODS), "as asked")


def _warm(graph: FactorGraph, method: Method, init: Any, pruned: Bools | None = None) -> Any:
    """Return the state to start from: that of the same method on the same variables, else None."""
    if init is None:
        return None
    if not isinstance(init, _Result):
        raise ModelError(f"init must be an earlier result, found {type(init).__name__}")
    if not init.graph.layout.equals(graph.layout):
        raise ModelError("init is the result of a model with another layout; start without it")
    if not (pruned is None or np.array_equal(getattr(init, "pruned", pruned), pruned)):
        return None
    stages = init.state if isinstance(init.state, WarmStages) else WarmStages(((init.method, init.state),))
    return stages if isinstance(method, Portfolio) else stages.of(method)


@dataclass(frozen=True, eq=False)
class JointMarginals:
    """Answers joint marginals of any set: a factor of ones over it, and the same method again."""

    graph: FactorGraph
    method: Method
    max_bytes: int | None
    pruned: Bools

    def __call__(self, scope: tuple[int, ...]) -> Floats:
        """Return the joint marginal of some unobserved variables, one axis each."""
        graph = self.graph
        shape = tuple(int(k) for k in graph.layout.card[list(scope)])
        if math.prod(shape) * 8 > _given(self.max_bytes, default_budget):
            raise UnsupportedError(f"a joint marginal over {len(scope)} variables does not fit the budget")
        kept = np.flatnonzero(~self.pruned & ~graph.layout.observed) if self.pruned.any() else None
        asked = graph if kept is None else prune_barren(graph, kept)[0]
        extended = asked.with_factors([(scope, np.zeros(shape))])
        answer = infer(extended, self.method, max_bytes=self.max_bytes)
        if answer.bound is not Bound.EXACT:
            names = ", ".join(graph.naming.name(v) for v in scope)
            raise UnsupportedError(f"{self.method} is not exact on a joint of ({names}); use junction_tree")
        return answer.factor_marginal(-1)
