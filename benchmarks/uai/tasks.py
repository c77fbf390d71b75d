"""The questions of the competitions: what a problem's reference is, how it is asked, and what the answer is worth.

An answer is checked on the way: a certified interval must contain the reference (``wrong_side`` lists the ends that do
not), and the value of a marginal-MAP assignment is computed again by exact inference on the conditioned model, where
that fits, independently of the search that found it.
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np

import beliefs as bl
from beliefs.datasets import UaiInstance
from beliefs.errors import BeliefsError
from benchmarks.uai.scores import independent_log_z, log_error, mean_hellinger, outside, up_to_digits

Result = dict[str, Any]

DOORS = {"PR": "infer", "MAR": "infer", "MMAP": "marginal_map"}
MEMORY = 8 * 10**9  # bytes, as in the competition of 2022
VALUED = 60.0  # seconds that the value of an assignment may take, outside the time limit
EQUAL = 1e-6  # two values of marginal MAP are the same up to this
PRINTED = 0.05 * math.log(10.0)  # half a unit of the published values of 2022, which have one decimal


def door_tasks(problem: UaiInstance, door: str) -> list[str]:
    """Return the tasks of a door that a problem poses; marginal MAP needs a query, not a reference."""
    if door == "marginal_map":
        return ["MMAP"] if problem.n_query else []
    return [task for task in ("PR", "MAR") if task in problem.tasks]


# -- references -------------------------------------------------------------------------------------------------------
def described(problem: UaiInstance, graph: bl.FactorGraph, door: str) -> Result:
    """Return sizes, references and errors of the trivial solver."""
    about: Result = {"n_vars": problem.n_vars, "n_factors": problem.n_factors, "width": problem.width}
    about["tasks"] = door_tasks(problem, door)
    if door == "marginal_map":
        return about | _marginal_map_reference(problem, graph)
    trivial: Result = {}
    if "PR" in about["tasks"]:
        assert problem.log_z is not None
        about |= {"log_z": str(problem.log_z), "digits": problem.log_z_error, "exact": problem.log_z_exact}
        trivial["PR"] = finite(log_error(_independent(graph), problem.log_z))
    if "MAR" in about["tasks"]:
        uniform = [np.full(k, 1.0 / k) for k in graph.layout.card.tolist()]
        trivial["MAR"] = _marginal_error(problem, graph, uniform)
    return about | {"trivial": trivial}


def _marginal_map_reference(problem: UaiInstance, graph: bl.FactorGraph) -> Result:
    """Return the exact optimum and other values that somebody has reached, as far as they are known.

    A complete assignment bounds the value of its query's part from below: sums are no less than their terms.
    """
    exact, shipped = problem.mmap_log_value, problem.merlin_assignment()
    merlin = None if shipped is None else exact_value(graph, dict(shipped))
    published = problem.mmap_published
    complete = problem.map_log_score
    known = [value for value in (merlin, published, complete) if value is not None and value > -math.inf]
    best = exact if exact is not None else max(known, default=None)
    estimate = _independent(graph, problem.query() or ())
    return {
        "n_query": problem.n_query,
        "exact": None if exact is None else str(exact),  # may be -inf
        "merlin": None if merlin is None else str(merlin),
        "published": published,
        "complete": complete,
        "best": None if best is None else str(best),
        "digits": PRINTED if exact is None and best == published is not None else EQUAL,
        "trivial": {"MMAP": None if best is None else finite(log_error(estimate, best))},
    }


def _independent(graph: bl.FactorGraph, query: Any = ()) -> float:
    layout = graph.layout
    tables = [graph.factors[f].log_table for f in range(layout.n_factors)]
    return independent_log_z(layout.card.tolist(), layout.observed.tolist(), tables, query)


def _marginal_error(problem: UaiInstance, graph: bl.FactorGraph, found: Any) -> float:
    reference = problem.marginals()
    assert reference is not None
    return mean_hellinger(found, reference, graph.layout.observed.tolist())


def exact_value(graph: bl.FactorGraph, assignment: dict[int, int]) -> float | None:
    """Return the value of an assignment with all else summed out; None where that takes too long."""
    seen = graph.layout.observed
    given = graph.condition({v: x for v, x in assignment.items() if not seen[v]})
    try:  # no iteration: what is not exact is not worth its time here
        found = bl.infer(given, time_limit=VALUED, max_bytes=MEMORY, threads=1, max_iters=0)
    except bl.ZeroProbabilityError:
        return -math.inf
    return found.log_z if found.bound is bl.Bound.EXACT else None


# -- answers ----------------------------------------------------------------------------------------------------------
def asked(problem: UaiInstance, graph: bl.FactorGraph, about: Result, door: str, method: str, limit: float) -> Result:
    """Ask once, compare and check; a failure is a line, and so is a crash.

    A proof that Z is 0 is an answer, right where the reference says so.
    """
    start, worked = time.perf_counter(), time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.ConvergenceWarning)
            answer = _answer(problem, graph, door, method, limit)
    except bl.ZeroProbabilityError:
        took = _took(start, worked)
        return took | {"status": "PROVED", "bound": "EXACT", "iterations": 0} | _nothing(about, door)
    except Exception as error:
        kind = "failed" if isinstance(error, BeliefsError | MemoryError) else "crashed"
        return _took(start, worked) | {"failed": f"{kind}: {type(error).__name__}: {error}"[:300]}
    entry = _took(start, worked) | {"status": answer.status.name, "iterations": answer.n_iters}
    entry |= {"method": repr(answer.method), "reason": answer.reason}
    compare = _compared_value if door == "marginal_map" else _compared
    return entry | compare(problem, graph, about, answer)


def _took(start: float, worked: float) -> Result:
    """Return the wall clock, which the limit is about, and the processor's, which is less on a busy machine."""
    return {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - worked}


def _answer(problem: UaiInstance, graph: bl.FactorGraph, door: str, method: str, limit: float) -> Any:
    options: Any = {"time_limit": limit, "max_bytes": MEMORY, "threads": 1}
    if door == "infer":
        return bl.infer(graph, method, **options)
    query = [v for v in problem.query() or () if not graph.layout.observed[v]]
    return bl.marginal_map(graph, query, method, **options)


def _nothing(about: Result, door: str) -> Result:
    """Return what a proof of Z = 0 is worth."""
    reference = about.get("best" if door == "marginal_map" else "log_z")
    task = "MMAP" if door == "marginal_map" else "PR"
    errors = {} if reference is None else {task: finite(log_error(-math.inf, float(reference)))}
    wrong = ["Z = 0"] if reference is not None and float(reference) > -math.inf else []
    return {"value": None, "lower": None, "upper": None, "errors": errors, "wrong_side": wrong}


def _compared(problem: UaiInstance, graph: bl.FactorGraph, about: Result, answer: bl.InferenceResult) -> Result:
    """Return the errors of ln Z and of the marginals."""
    errors, wrong = {}, []
    if "PR" in about["tasks"]:
        reference = float(about["log_z"])
        errors["PR"] = finite(up_to_digits(log_error(answer.log_z, reference), about["digits"]))
        if outside(answer.log_lower, answer.log_upper, reference, about["digits"] + EQUAL):
            wrong.append("reference")
    if "MAR" in about["tasks"]:
        found = np.split(answer.mu_var, graph.layout.state_ptr[1:-1])
        errors["MAR"] = finite(_marginal_error(problem, graph, found))
    return _interval(answer.log_z, answer.log_lower, answer.log_upper, answer.bound) | {
        "errors": errors,
        "wrong_side": wrong,
    }


def _compared_value(problem: UaiInstance, graph: bl.FactorGraph, about: Result, answer: bl.MarginalMapResult) -> Result:
    """Return the error of the value, which is computed again; an interval must contain all that is known.

    Where it cannot be computed the certified lower end counts.
    """
    again = exact_value(graph, dict(zip(answer.query, answer.assignment.tolist(), strict=True)))
    value = answer.log_lower if again is None else again
    best = about["best"]
    if best is None and answer.value_bound is bl.Bound.EXACT and answer.gap == 0.0:
        best = str(value)  # a proof is the best that can be known
    errors = {} if best is None else {"MMAP": finite(up_to_digits(log_error(value, float(best)), about["digits"]))}
    wrong = []
    if again is not None and outside(answer.log_lower, answer.log_upper, again, EQUAL):
        wrong.append("own value")
    if about["exact"] is not None and outside(answer.log_lower, answer.log_upper, float(about["exact"]), EQUAL):
        wrong.append("exact")
    for name, slack in (("merlin", EQUAL), ("complete", EQUAL), ("published", PRINTED)):
        if about[name] is not None and answer.log_upper < float(about[name]) - slack - EQUAL:
            wrong.append(name)
    entry = _interval(value, answer.log_lower, answer.log_upper, answer.value_bound)
    return entry | {"errors": errors, "wrong_side": wrong, "checked": again is not None}


def _interval(value: float, lower: float, upper: float, bound: bl.Bound) -> Result:
    return {"value": finite(value), "lower": finite(lower), "upper": finite(upper), "bound": bound.name}


def finite(value: float) -> float | None:
    """Return None, which JSON can write, for an infinity."""
    return value if math.isfinite(value) else None
