"""Many questions of one model: rows of evidence in, arrays out.

Every row means ``infer(model, evidence=row)``. Where the method is exact, rows are asked together
(:mod:`beliefs.inference.rows.exact`, :mod:`beliefs.inference.rows.best`); all else is asked row by row, in threads,
each row the question that the single door would have put. A row of probability zero is marked, and named in one
warning; the others stand.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypedDict, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from beliefs.deadline import Allowance, OutOfTime, check_time, limited
from beliefs.errors import (
    BudgetError,
    ConvergenceWarning,
    DataWarning,
    ModelError,
    UnsupportedError,
    ZeroProbabilityError,
)
from beliefs.inference.base import Bound, Method, Problem, Task
from beliefs.inference.budget import default_budget
from beliefs.inference.door_options import check_options
from beliefs.inference.doors import infer, maximize
from beliefs.inference.engine import engine_around
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.many_result import ManyDecodings, ManyMarginals
from beliefs.inference.parallel import in_chunks, parallel_chunks
from beliefs.inference.portfolio.auto import choose
from beliefs.inference.quiet import quietly, warn
from beliefs.inference.rows.best import best_rows
from beliefs.inference.rows.evidence import RowEvidence, read_evidence_rows
from beliefs.inference.rows.exact import exact_rows, row_graph, with_likelihoods
from beliefs.inference.run import default_threads
from beliefs.inference.text import named_method
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.model.rbm_batch import RBMBatch
from beliefs.typing import Ints, VariableRef

__all__ = ["infer_many", "maximize_many"]

T = TypeVar("T")

_NAMED = 5  # rows that a warning names
_LOTS = 64  # of rows that are asked one by one
_SHARE, _SHARE_OF_EXACT = 16, 1024  # rows that a worker is sent at a time, asked one by one and together


class ManyOptions(TypedDict, total=False):
    """Keywords of both doors, as in :class:`~beliefs.inference.door_options.Options`; ``time_limit`` is of all rows."""

    tol: float | None
    max_iters: int | None
    time_limit: float | None
    max_bytes: int | None
    seed: int | None
    threads: int | None


def infer_many(
    model: Model,
    evidence: Any,
    method: Method | str = "auto",
    *,
    targets: Sequence[VariableRef] | None = None,
    likelihoods: Mapping[Any, ArrayLike] | None = None,
    **options: Unpack[ManyOptions],
) -> ManyMarginals:
    """Compute log Z and marginals for many rows of evidence; a row means ``infer(model, evidence=row)``.

    Parameters
    ----------
    model : FactorGraph, BayesianNetwork, ...
        Its own evidence holds in every row.
    evidence : list of dicts, DataFrame, mapping of columns, or array of int (n_rows, n_vars)
        Dicts and columns name variables, all others are unobserved; NaN, None and -1 are unknown.
    method : Method or str
        As for :func:`beliefs.infer`. Rows are asked together where it is exact.
    targets : sequence of variables, optional
        Only these marginals are wanted: less work, and less memory for the answer.
    likelihoods : mapping of variables to arrays (n_rows, K), optional
        Soft evidence of each row.
    **options
        ``tol``, ``max_iters``, ``time_limit`` (of all rows), ``max_bytes``, ``seed``, ``threads``.

    Raises
    ------
    ModelError
        For a row that cannot be read: it names row and column. A row of probability zero is no error.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
    >>> bl.infer_many(g, [{"x0": 1}, {"x0": 0}, {}]).marginal("x1").round(3)
    array([[0.429, 0.571],
           [0.333, 0.667],
           [0.4  , 0.6  ]])
    """
    started, graph = time.perf_counter(), _checked(model, options)
    named = range(graph.n_vars) if targets is None else sorted(set(graph.naming.indices(targets, "targets")))
    wanted = np.array(named, np.int64)
    rows = read_evidence_rows(graph, evidence, likelihoods)
    threads, max_bytes = _resources(options)
    chosen, reason = _method(graph, method, Task.INFER, rows.n_rows, max_bytes, options)
    asked = {"targets": None if targets is None else wanted.tolist(), **options}
    shares = _by_engine(partial(_share, infer_many, graph, chosen, asked), rows, chosen)
    if shares is not None:
        log_z, lower, upper = (_joined(shares, name) for name in ("log_z", "log_lower", "log_upper"))
        marginals, converged = _joined(shares, "marginals"), _joined(shares, "converged")
        bounds = {share.bound for share in shares if share.possible.any()}
    elif chosen == JunctionTree():
        with _in_time(options):
            found = exact_rows(graph, rows, wanted, threads=threads, max_bytes=max_bytes)
        log_z, marginals = found.log_z, found.marginals
        lower = upper = log_z
        bounds, converged = set[Bound](), np.ones(rows.n_rows, np.bool_)
    else:
        columns = [slice(*graph.layout.state_ptr[v : v + 2]) for v in wanted]
        log_z, lower, upper = (np.full(rows.n_rows, -np.inf) for _ in range(3))
        marginals = np.zeros((rows.n_rows, int(graph.layout.card[wanted].sum())))
        converged, kinds = np.ones(rows.n_rows, np.bool_), np.full(rows.n_rows, Bound.EXACT, object)

        def ask(one: FactorGraph, row: int, left: ManyOptions) -> None:
            answer = infer(one, chosen, targets=targets, **left)
            log_z[row], lower[row], upper[row] = answer.log_z, answer.log_lower, answer.log_upper
            marginals[row] = np.concatenate([*(answer.mu_var[part] for part in columns), np.zeros(0)])
            converged[row], kinds[row] = answer.converged or not answer.method.fixed_point, answer.bound

        _row_by_row(graph, rows, chosen, ask, threads, options)
        bounds = set(kinds[upper > -np.inf])
    log_z, lower, upper = rows.rescaled(log_z, lower, upper)
    bounds.discard(Bound.EXACT)  # what is exact bounds from both sides
    bound = Bound.EXACT if not bounds else bounds.pop() if len(bounds) == 1 else Bound.ESTIMATE
    _warn_of_zero(rows, np.flatnonzero(upper == -np.inf))
    _warn_of_short(chosen, converged)
    for array in (log_z, lower, upper, marginals, converged):
        array.setflags(write=False)
    return ManyMarginals(
        model=graph, method=chosen, reason=reason, log_z=log_z, log_lower=lower, log_upper=upper, targets=wanted,
        bound=bound, marginals=marginals, converged=converged,
        seconds=time.perf_counter() - started, index=rows.index,
    )  # fmt: skip


def maximize_many(
    model: Model,
    evidence: Any,
    method: Method | str = "auto",
    *,
    likelihoods: Mapping[Any, ArrayLike] | None = None,
    **options: Unpack[ManyOptions],
) -> ManyDecodings:
    """Find the assignment of largest score for many rows; a row means ``maximize(model, evidence=row)``.

    Arguments as in :func:`beliefs.infer_many`.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [4, 3]])])
    >>> bl.maximize_many(g, [{"x0": 0}, {"x1": 1}]).assignment.tolist()
    [[0, 1], [1, 1]]
    """
    started, graph = time.perf_counter(), _checked(model, options)
    rows = read_evidence_rows(graph, evidence, likelihoods)
    threads, max_bytes = _resources(options)
    chosen, reason = _method(graph, method, Task.MAXIMIZE, rows.n_rows, max_bytes, options)
    converged = np.ones(rows.n_rows, np.bool_)
    shares = _by_engine(partial(_share, maximize_many, graph, chosen, options), rows, chosen)
    if shares is not None:
        score, upper = _joined(shares, "log_score"), _joined(shares, "log_upper")
        assignment, converged = _joined(shares, "assignment"), _joined(shares, "converged")
    elif chosen == JunctionTree():
        with _in_time(options):
            assignment, score = best_rows(graph, rows, threads=threads, max_bytes=max_bytes)
        upper = score
    else:
        assignment = np.full((rows.n_rows, graph.n_vars), -1, np.int64)
        score, upper = np.full(rows.n_rows, -np.inf), np.full(rows.n_rows, -np.inf)

        def ask(one: FactorGraph, row: int, left: ManyOptions) -> None:
            answer = maximize(one, chosen, **left)
            assignment[row] = answer.assignment
            score[row], upper[row] = answer.log_score, answer.log_upper
            converged[row] = answer.converged or not answer.method.fixed_point

        _row_by_row(graph, rows, chosen, ask, threads, options)
    score, upper = rows.rescaled_scores(score, upper)
    _warn_of_zero(rows, np.flatnonzero(upper == -np.inf))
    _warn_of_short(chosen, converged)
    for array in (assignment, score, upper, converged):
        array.setflags(write=False)
    return ManyDecodings(
        model=graph, method=chosen, reason=reason, assignment=assignment, log_score=score, log_upper=upper,
        converged=converged, seconds=time.perf_counter() - started, index=rows.index,
    )  # fmt: skip


# -- behind the doors -------------------------------------------------------------------------------------------------
def _checked(model: Model, options: ManyOptions) -> FactorGraph:
    if isinstance(model, RBMBatch):
        raise UnsupportedError("a batch of machines is many questions already; ask infer or maximize")
    for name in options:
        if name not in ManyOptions.__annotations__:
            known = ", ".join(ManyOptions.__annotations__)
            raise TypeError(f"unexpected keyword argument {name!r}; rows take {known}")
    check_options(options)  # type: ignore[arg-type]
    graph = as_factor_graph(model)
    if graph.n_vars == 0:
        raise ModelError("the model has no variables")
    return graph


def _resources(options: ManyOptions) -> tuple[int, int]:
    threads, max_bytes = options.get("threads"), options.get("max_bytes")
    return threads or default_threads(), default_budget() if max_bytes is None else max_bytes


def _limit(options: ManyOptions) -> float:
    limit = options.get("time_limit")
    return math.inf if limit is None else limit


@contextmanager
def _in_time(options: ManyOptions) -> Iterator[None]:
    """Within, all rows share the time limit; a BudgetError where it is over."""
    with limited(_limit(options)):
        try:
            yield
        except OutOfTime:
            raise BudgetError(f"the rows were not done after {_limit(options):g} s; raise time_limit") from None


def _method(
    graph: FactorGraph, method: Method | str, task: Task, n_rows: int, max_bytes: int, options: ManyOptions
) -> tuple[Method | str, str]:
    """Return what is asked of every row: ``auto`` is exact inference if that fits all rows without any evidence."""
    if not (isinstance(method, str) and method.strip() == "auto"):
        return named_method(method), "as asked"
    chosen, reason = choose(Problem(graph, task, max_bytes=max_bytes, time_limit=_limit(options) / max(n_rows, 1)))
    return (chosen, reason) if isinstance(chosen, JunctionTree) else ("auto", reason)


def _by_engine(ask: Callable[[RowEvidence], T], rows: RowEvidence, method: Method | str) -> list[T] | None:
    """Return the answers of the engine around, one a share of the rows; None without it, or for a single share."""
    engine, size = engine_around(), _SHARE_OF_EXACT if method == JunctionTree() else _SHARE
    if engine is None or rows.n_rows <= size:
        return None
    return engine.map(ask, [rows.take(slice(begin, begin + size)) for begin in range(0, rows.n_rows, size)])


def _share(
    door: Callable[..., T], graph: FactorGraph, method: Method | str, options: Mapping[str, Any], rows: RowEvidence
) -> T:
    """Ask a door about a share of the rows, in a process elsewhere."""
    with quietly():
        return door(graph, rows.table, method, likelihoods=rows.likelihoods, **{**options, "threads": 1})


def _joined(shares: Sequence[Any], name: str) -> Any:
    return np.concatenate([getattr(share, name) for share in shares])


def _row_by_row(
    graph: FactorGraph, rows: RowEvidence, method: Method | str, ask: Callable[[FactorGraph, int, Any], None],
    threads: int, options: ManyOptions,
) -> None:  # fmt: skip
    """Put the question of every row; those of probability zero are left as they are.

    What has an answer at any time is asked in an even share of what is left of the time, anything else in all of it.
    ``auto`` answers every row, however late; of other methods the rows must have begun when the time is over.
    """
    base = with_likelihoods(graph, rows)
    each = dict(options) | {"threads": 1}
    allowance, automatic = Allowance(_limit(options)), isinstance(method, str)
    shared = isinstance(method, str) or method.iterative

    def task(begin: int, end: int) -> int:
        for row in range(begin, end):
            if not automatic:
                check_time()
            left = allowance.share(end - row if shared else 1)
            try:
                with suppress(ZeroProbabilityError):
                    ask(row_graph(base, rows, row), row, each | {"time_limit": left})
            except BudgetError:
                check_time()  # that of all rows may be over, of which the row knows nothing
                raise
        return 0

    with _in_time(options), quietly():
        parallel_chunks(task, in_chunks(rows.n_rows, _LOTS), threads)


def _warn_of_zero(rows: RowEvidence, which: Ints) -> None:
    if which.size:
        named = ", ".join(map(str, which[:_NAMED])) + (", ..." if which.size > _NAMED else "")
        what = f"row {named} has" if which.size == 1 else f"{which.size} rows have"
        more = "" if which.size == 1 else f" (rows {named})"
        warn(f"{what} probability zero under the model{more}; marked by -inf", DataWarning, stacklevel=3)


def _warn_of_short(method: Method | str, converged: Any) -> None:
    short = np.flatnonzero(~converged)
    if short.size:
        named = ", ".join(map(str, short[:_NAMED])) + (", ..." if short.size > _NAMED else "")
        warn(f"{method}: {short.size} rows stopped short of tol (rows {named})", ConvergenceWarning, stacklevel=3)
