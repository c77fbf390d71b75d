"""The four questions: check in, choose the method, run the driver, wrap out.

Everything that is true of every method is said here once: which keywords there are, what they mean, which inputs are
refused, and when a warning is given.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack, overload

import numpy as np

from beliefs.deadline import OutOfTime, limited, now, regardless
from beliefs.errors import BudgetError, ConvergenceWarning, ModelError, UnsupportedError
from beliefs.inference.aside import graph_bytes
from beliefs.inference.base import Bound, Decoding, Marginals, Method, Problem, Samples, Task, WarmStages
from beliefs.inference.batch_result import BatchDecoding, BatchMarginals
from beliefs.inference.budget import besides, default_budget, over_budget
from beliefs.inference.door_options import Options, check_options
from beliefs.inference.portfolio.auto import EXACT_SHARE, INSTEAD, at_once, choose, instead_of_exact
from beliefs.inference.prune import prune_barren
from beliefs.inference.question import Done, Question, warn_if_short
from beliefs.inference.quiet import warn
from beliefs.inference.result import InferenceResult, Result
from beliefs.inference.run import default_threads
from beliefs.inference.states_result import MapResult, MarginalMapResult, SampleResult
from beliefs.inference.text import named_method
from beliefs.inference.units import GraphMarginals, UnitMarginals
from beliefs.model.clamped_rbm import AskedModel, ClampedRBM
from beliefs.model.fractional_rbm import FractionalRBM
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM
from beliefs.model.rbm_batch import RBMBatch
from beliefs.options import check_integer
from beliefs.typing import Bools, Floats, Ints, VariableRef

__all__ = ["checked_query", "infer", "marginal_map", "maximize", "sample"]

_LEAST_EXACT = 0.25  # seconds that exact inference may take under auto, however little time there is
_LAST = 0.25  # seconds that an answer may take that auto gives when the time is over


@overload
def infer(model: RBMBatch, method: Method | str = "auto", **options: Unpack[Options]) -> BatchMarginals: ...
@overload
def infer(
    model: Model,
    method: Method | str = "auto",
    *,
    targets: Sequence[VariableRef] | None = None,
    **options: Unpack[Options],
) -> InferenceResult: ...
def infer(
    model: Model | RBMBatch,
    method: Method | str = "auto",
    *,
    targets: Sequence[VariableRef] | None = None,
    **options: Unpack[Options],
) -> InferenceResult | BatchMarginals:
    r"""Compute log Z and all marginals.

    .. math:: \log Z = \log \sum_x \exp \sum_f \theta_f(x_f), \qquad \mu = \partial \log Z / \partial \theta

    Parameters
    ----------
    model : FactorGraph, BayesianNetwork, RBM, ...
        With evidence by ``model.condition({...})`` or ``evidence={...}``; both add up. Of an
        :class:`beliefs.RBMBatch` all machines are asked about, and the answer is a
        :class:`beliefs.inference.BatchMarginals`.
    method : Method or str
        ``"auto"``, a name, or text such as ``"bp(damping=0.2)"``.
    targets : sequence of variables, optional
        Only these marginals are needed; barren variables of a Bayesian network are then left out, whose columns count
        as one where they add up to one within 1e-12.
    **options
        See :class:`Options`.

    Raises
    ------
    ZeroProbabilityError, BudgetError, ModelError, UnsupportedError

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
    >>> bl.infer(g, evidence={"x0": 1}).marginal("x1").round(3)
    array([0.429, 0.571])
    """
    if isinstance(model, RBMBatch):
        if targets is not None:
            raise UnsupportedError("targets are for single models; the marginals of a batch are matrices")
        check_options(options, batch=True)
        from beliefs.inference.boltzmann.batches import infer_batch

        return infer_batch(model, method, options, lambda machine: infer(machine, method, **options))
    known = asked = _checked(model, options)
    pruned, kept_cells, wanted = np.zeros(known.n_vars, np.bool_), None, None
    if targets is not None:
        graph = as_factor_graph(known)
        wanted = np.array(sorted(set(graph.naming.indices(targets, "targets"))), np.int64)
        if known is graph:
            asked, pruned, kept_cells = prune_barren(graph, wanted)
    done = _ask(_posed(asked, Task.INFER, options, targets=wanted), method, options, known, pruned)
    answer = done.answer
    assert isinstance(answer, Marginals)
    if isinstance(asked, FactorGraph) and isinstance(answer.tables, UnitMarginals):  # by a machine made from it
        answer = replace(answer, tables=GraphMarginals.of(answer.tables, asked))
    tables = answer.tables if kept_cells is None else partial(_spread, as_factor_graph(known), kept_cells, answer)
    np.minimum(answer.mu_var, 1.0, out=answer.mu_var)  # which rounding may be above, and other libraries refuse
    answer.mu_var.setflags(write=False)
    exact = answer.bound is Bound.EXACT and not answer.estimated
    whole = exact and not done.method.iterative
    kind: type[InferenceResult] = answer.kind or InferenceResult
    return kind(
        **done.common(known),
        log_z=answer.log_z,
        bound=answer.bound,
        log_lower=answer.lower,
        log_upper=answer.upper,
        mu_var=answer.mu_var,
        tables=tables,
        pruned=pruned,
        exact_marginals=exact,
        _joint=JointMarginals(known, done.method, options.get("max_bytes"), pruned) if whole else answer.joint,
        **answer.extras,
    )


def _spread(graph: FactorGraph, cells: Ints, answer: Marginals) -> Floats:
    """Return the tables of all factors, those of factors that were left out zero."""
    tables = np.zeros(int(graph.layout.table_ptr[-1]))
    tables[cells] = answer.mu_factor
    return tables


@overload
def maximize(model: RBMBatch, method: Method | str = "auto", **options: Unpack[Options]) -> BatchDecoding: ...
@overload
def maximize(model: Model, method: Method | str = "auto", **options: Unpack[Options]) -> MapResult: ...
def maximize(
    model: Model | RBMBatch, method: Method | str = "auto", **options: Unpack[Options]
) -> MapResult | BatchDecoding:
    r"""Find the assignment of largest score, :math:`\arg\max_x \sum_f \theta_f(x_f)`.

    The assignment is complete, its score real; ``gap == 0.0`` is a proof. Options as in :class:`Options`.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
    >>> bl.maximize(g).states()
    {'x0': '1', 'x1': '1'}
    """
    if isinstance(model, RBMBatch):
        return _decoded_batch(model, Task.MAXIMIZE, method, options, lambda one: maximize(one, method, **options))
    known = _checked(model, options)
    held, graph = graph_bytes(known), as_factor_graph(known)
    about = known if _is_native(known, method) else graph
    done = _ask(_posed(about, Task.MAXIMIZE, options, held=held), method, options)
    answer = done.answer
    assert isinstance(answer, Decoding)
    score = graph.log_score(answer.assignment)
    if score == -math.inf:
        warn(f"{done.method}: no state of positive weight was found", ConvergenceWarning, stacklevel=2)
    exact = answer.bound is Bound.EXACT
    answer.assignment.setflags(write=False)
    return MapResult(
        **done.common(graph),
        assignment=answer.assignment,
        log_score=score,
        log_upper=score if exact else max(score, answer.upper),
    )


@overload
def marginal_map(
    model: RBMBatch, query: Sequence[VariableRef], method: Method | str = "auto", **options: Unpack[Options]
) -> BatchDecoding: ...
@overload
def marginal_map(
    model: Model, query: Sequence[VariableRef], method: Method | str = "auto", **options: Unpack[Options]
) -> MarginalMapResult: ...
def marginal_map(
    model: Model | RBMBatch, query: Sequence[VariableRef], method: Method | str = "auto", **options: Unpack[Options]
) -> MarginalMapResult | BatchDecoding:
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
    if isinstance(model, RBMBatch):
        from beliefs.inference.boltzmann.batches import check_query

        check_query(model, query)
        ask = partial(marginal_map, query=query, method=method, **options)
        return _decoded_batch(model, Task.MARGINAL_MAP, method, options, ask)
    known = _checked(model, options)
    held, graph = graph_bytes(known), as_factor_graph(known)
    asked = checked_query(graph, query)
    about = known if _is_native(known, method) else graph
    done = _ask(_posed(about, Task.MARGINAL_MAP, options, query=np.sort(asked), held=held), method, options)
    answer = done.answer
    assert isinstance(answer, Decoding)
    if answer.log_value == -math.inf:
        warn(f"{done.method}: no states of positive weight were found", ConvergenceWarning, stacklevel=2)
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
    known = _checked(model, options)
    check_integer("the number of samples", n, 0)
    problem = _posed(known, Task.SAMPLE, options, n_samples=int(n))
    held = 8 * problem.n_samples * problem.model.n_vars
    if held > problem.max_bytes:
        raise over_budget(f"{problem.n_samples} samples need", held, problem.max_bytes, "Draw them in parts")
    try:
        done = _ask(replace(problem, max_bytes=problem.max_bytes - held), method, options)
    except BudgetError as error:
        raise besides(error, held, "the samples") from None
    assert isinstance(done.answer, Samples)
    return SampleResult(**done.common(known), samples=done.answer.samples, bound=done.answer.bound)


def _decoded_batch(
    batch: RBMBatch, task: Task, method: Method | str, options: Options, one: Callable[[RBM], Any]
) -> BatchDecoding:
    check_options(options, batch=True)
    from beliefs.inference.boltzmann.batches import decode_batch

    return decode_batch(batch, task, method, options, one)


# -- behind the doors ---------------------------------------------------------------------------------------------
def _posed(model: AskedModel, task: Task, options: Options, **more: Any) -> Problem:
    """Check the options and return the problem within them."""
    check_options(options, also=("targets",) if task is Task.INFER else ())
    return Problem(
        model,
        task,
        max_bytes=_given(options.get("max_bytes"), default_budget),
        seed=_given(options.get("seed"), int),
        threads=_given(options.get("threads"), default_threads),
        time_limit=_given(options.get("time_limit"), _forever),
        **more,
    )


def _ask(
    problem: Problem,
    method: Method | str,
    options: Options,
    model: AskedModel | None = None,
    pruned: Bools | None = None,
) -> Done:
    """Choose and run. Where targets made ``problem.model`` a part of ``model``, ``pruned`` says what it lacks."""
    started = time.perf_counter()

    def warm(chosen: Method) -> Any:
        return _warm(problem.model if model is None else model, chosen, options.get("init"), pruned)

    with limited(problem.time_limit) as deadline:
        question = Question(problem, options, warm, started, deadline)
        try:
            done = _automatic(question) if _is_auto(method) else question.put(named_method(method), "as asked")
        except OutOfTime:
            over = f"when the time limit of {problem.time_limit:g} s was over"
            advice = "raise time_limit, or use auto, which has bounds at any time"
            raise BudgetError(f"{method} had no answer {over}; {advice}") from None
    warn_if_short(done, stacklevel=3)
    return done


def _is_auto(method: Method | str) -> bool:
    return isinstance(method, str) and method.strip() == "auto"


def _is_native(model: AskedModel, method: Method | str) -> bool:
    """Whether states are asked of a machine itself, where methods may have a form for it."""
    return isinstance(model, RBM | ClampedRBM) and not _is_auto(method)


def _automatic(question: Question) -> Done:
    """Answer in time, or with what is known at once where that was not even enough for a start."""
    try:
        return _chosen(question)
    except OutOfTime:
        rest = replace(question.problem, time_limit=0.0)
        with regardless(_LAST) as deadline:
            late = question._replace(problem=rest, deadline=deadline)
            return late.put(at_once(rest), f"there was no time for more: {INSTEAD[rest.task]}")


def _chosen(question: Question) -> Done:
    """Put the question to the method of choice; to bounds where exact inference takes longer than it should."""
    chosen, reason = choose(question.problem)
    limit = question.problem.time_limit
    if chosen.iterative or limit == math.inf:
        return question.put(chosen, reason)
    share = max(EXACT_SHARE * limit, _LEAST_EXACT)
    try:
        with limited(share, grace=False):
            return question.put(chosen, reason)
    except OutOfTime:
        rest = replace(question.problem, time_limit=max(0.0, question.deadline.soft - now()))
        chosen = instead_of_exact(rest)
        reason = f"exact inference was not done after {share:.3g} s of {limit:.3g}: {INSTEAD[rest.task]}"
        return question._replace(problem=rest).put(chosen, reason)


def _given(value: Any, default: Callable[[], Any]) -> Any:
    return default() if value is None else value


def _forever() -> float:
    return math.inf


def _checked(model: Model, options: Options) -> AskedModel:
    """Return the model as methods take it: machines as they are, all else as a factor graph, with evidence."""
    known = model if isinstance(model, BoltzmannMachine | ClampedRBM) else as_factor_graph(model)
    evidence = options.get("evidence")
    if evidence is not None:
        known = known.condition(evidence)
    if known.n_vars == 0:
        raise ModelError("the model has no variables")
    n_states = known.layout.n_states if isinstance(known, FactorGraph) else 2 * known.n_vars
    if 64.0 * n_states > default_budget():  # marginals and the copies that normalising makes
        raise BudgetError(f"marginals of {n_states:.3g} states in all do not fit in memory")
    return known


def checked_query(graph: FactorGraph, query: Sequence[VariableRef]) -> Ints:
    """Return the indices of a marginal-MAP query; repeated and observed variables are refused."""
    asked = np.array(graph.naming.indices(query, "query"), np.int64)
    if len(set(asked)) < len(asked):
        raise ModelError("the query names a variable twice")
    for v in asked:
        if graph.layout.observed[v]:
            raise ModelError(f"variable {graph.naming.name(int(v))!r} is in the query and in the evidence")
    return asked


def _warm(model: AskedModel, method: Method, init: Any, pruned: Bools | None = None) -> Any:
    """Return the state to start from: that of the same method on the same variables, else None."""
    if init is None:
        return None
    if not isinstance(init, Result):
        raise ModelError(f"init must be an earlier result, found {type(init).__name__}")
    if not _same_structure(init.model, model):
        raise ModelError("init is the result of a model with another layout; start without it")
    then, now = getattr(init, "pruned", False), False if pruned is None else pruned
    if not np.array_equal(np.flatnonzero(then), np.flatnonzero(now)):
        return None
    stages = init.state if isinstance(init.state, WarmStages) else WarmStages(((init.method, init.state),))
    return method.warm_from(stages)


def _same_structure(one: AskedModel, other: AskedModel) -> bool:
    if isinstance(one, ClampedRBM) and isinstance(other, ClampedRBM):
        alike = np.array_equal(one.evidence_states >= 0, other.evidence_states >= 0)
        return alike and _same_structure(one.machine, other.machine)
    if isinstance(one, BoltzmannMachine) and isinstance(other, BoltzmannMachine):
        return type(one) is type(other) and one.weights.shape == other.weights.shape
    if isinstance(one, FactorGraph) or isinstance(other, FactorGraph):  # best states are answers about the graph
        return (
            _has_graph(one) and _has_graph(other) and as_factor_graph(one).layout.equals(as_factor_graph(other).layout)
        )
    return False


def _has_graph(model: AskedModel) -> bool:
    """Whether a model is a product of tables."""
    return not isinstance(model, FractionalRBM) or model.is_whole


@dataclass(frozen=True, eq=False)
class JointMarginals:
    """Answers joint marginals of any set: a factor of ones over it, and the same method again."""

    model: AskedModel
    method: Method
    max_bytes: int | None
    pruned: Bools

    def __call__(self, scope: tuple[int, ...]) -> Floats:
        """Return the joint marginal of some unobserved variables, one axis each."""
        graph = as_factor_graph(self.model)
        shape = tuple(int(k) for k in graph.layout.card[list(scope)])
        if math.prod(shape) * 8 > _given(self.max_bytes, default_budget):
            raise UnsupportedError(f"a joint marginal over {len(scope)} variables does not fit the budget")
        kept = np.flatnonzero(~self.pruned & ~graph.layout.observed) if self.pruned.any() else None
        asked = graph if kept is None else prune_barren(graph, kept)[0]
        extended = asked.with_factors([(scope, np.zeros(shape))])
        method = self.method if graph is self.model else "junction_tree"  # of a machine a layer is enumerated, not all
        answer = infer(extended, method, max_bytes=self.max_bytes)
        if not answer.exact_marginals:
            names = ", ".join(graph.naming.name(v) for v in scope)
            raise UnsupportedError(f"{self.method} is not exact on a joint of ({names}); use junction_tree")
        return answer.factor_marginal(-1)
