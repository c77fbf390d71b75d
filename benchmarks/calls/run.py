"""The whole call, as somebody waits for it: set-up, sweeps, checks and answer, beside the sweeps or kernels alone.

    python -m benchmarks.calls [--quick] [--only PARTS] [--json FILE] [--markdown FILE] [--from FILE]

Parts: grids (``infer`` on pairwise grids), maxima (``maximize`` on them), factors (published problems of any arity),
others (junction trees, bounds). Every figure is processor time of one thread, the best of several calls to the
default tolerance. *Plan kept*: the same graph again. *Plan new*: a graph built anew, so that orders, schedules and
counting numbers are made in the call. *Sweeps*: as many iterations as the call took, nothing else. *Kernels*: what a
profiler books on compiled functions during the call.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import beliefs as bl
from beliefs.inference.base import Problem, Task
from beliefs.inference.messages.tiers import LogTier
from beliefs.inference.registry import METHODS
from beliefs.inference.text import parse_method
from beliefs.kernels._jit import Twofold
from beliefs.kernels.messages.linear import OUT_OF_RANGE
from beliefs.typing import Floats, Ints
from benchmarks.call_clock import timed
from benchmarks.calls import tables
from benchmarks.clock import best_of
from benchmarks.frame import Result, Run, Suite, say
from benchmarks.messages.cases import Grid
from benchmarks.messages.scaling import largest_problems
from benchmarks.reference_kernel import Reference

GRIDS, QUICK = ((300, 2), (300, 8), (100, 21)), ((60, 2), (40, 8), (30, 21))
MESSAGES = ("bp", "trw", "fractional_bp", "mean_field")
NETWORKS = ("asia", "alarm", "hailfinder", "win95pts", "andes")
REPEATS = 10  # calls beside their kernels


# -- timing -----------------------------------------------------------------------------------------------------------
def spent(run: Callable[[Any], Any], prepare: Callable[[int], Any] = lambda repeat: None) -> tuple[float, Any]:
    """Return the least processor time of several runs, and the last answer; ``prepare`` is not timed."""
    timing, answer = best_of(run, prepare, now=time.process_time)
    return timing["best"], answer


def sweeps_alone(graph: bl.FactorGraph, text: str, task: Task, n_iters: int) -> float:
    """Return the processor time of as many iterations and nothing else, in the form that the call ends in."""
    method: Any = parse_method(text, METHODS)
    trial = method.init(Problem(graph, task, threads=1))
    in_logs = hasattr(trial, "iterate") and any(trial.iterate() == OUT_OF_RANGE for _ in range(n_iters))

    def begin(repeat: int) -> Any:
        state = method.init(Problem(graph, task, threads=1))
        if in_logs:
            state.select_tier((LogTier,), state.spec, None)
        return state

    def sweep(state: Any) -> None:
        for _ in range(n_iters):
            if hasattr(state, "iterate"):
                state.iterate()
            else:
                method.step(state)

    return spent(sweep, begin)[0]


def weak(side: int, states: int) -> tuple[Floats, Ints, Floats]:
    """Return the arrays of a random pairwise grid, fields and couplings 0.3 N(0, 1)."""
    unary, edges, pairs = Grid(side, states).arrays()
    return 0.3 * unary, edges, 0.3 * pairs


def grid(side: int, states: int) -> bl.FactorGraph:
    """Return the model of these arrays."""
    return bl.FactorGraph.pairwise(*weak(side, states))


def anew(graph: bl.FactorGraph) -> bl.FactorGraph:
    """Return the same graph without its plans."""
    lay = graph.layout
    fresh = type(lay).build(lay.card, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, lay.observed)
    return replace(graph, layout=fresh)


# -- parts ------------------------------------------------------------------------------------------------------------
def whole_call(graph: bl.FactorGraph, text: str, task: Task = Task.INFER) -> Result:
    """Measure one question: plan kept, plan new, with factor marginals, and its sweeps."""
    door = bl.infer if task is Task.INFER else bl.maximize
    kept, answer = spent(lambda _: door(graph, text, threads=1))
    new, _ = spent(lambda fresh: door(fresh, text, threads=1), lambda repeat: anew(graph))
    entry = {
        "kept": kept, "new": new, "iterations": answer.n_iters, "status": answer.status.name,
        "sweeps": sweeps_alone(graph, text, task, answer.n_iters),
    }  # fmt: skip
    if task is Task.INFER:
        entry["mu"] = spent(lambda _: door(graph, text, threads=1).mu)[0]
    else:
        entry["score"] = float(answer.log_score)
    return entry


def grids(quick: bool, found: Result) -> None:
    """Measure message passing on grids, and the reference loop that carries libDAI's figures over."""
    for side, states in QUICK if quick else GRIDS:
        graph = grid(side, states)
        loops = Reference(*weak(side, states))
        loops.bp()
        plain, _ = spent(Reference.bp, lambda repeat, loops=loops: loops)
        for text in MESSAGES:
            entry = whole_call(graph, text) | {"side": side, "states": states, "plain": plain}
            found[f"{side}x{side}, K={states}, {text}"] = entry
            say(f"{side}x{side}, K={states}, {text}: {entry['kept'] / entry['sweeps']:.2f} sweeps")


def maxima(quick: bool, found: Result) -> None:
    """Measure the best state by max-product messages, with its decodings."""
    for side, states in QUICK if quick else GRIDS:
        entry = whole_call(grid(side, states), "bp", Task.MAXIMIZE)
        found[f"{side}x{side}, K={states}"] = entry
        say(f"maximize {side}x{side}, K={states}: {entry['kept'] / entry['sweeps']:.2f} sweeps")


def factors(quick: bool, found: Result) -> None:
    """Measure published problems of any arity."""
    for problem in largest_problems(2 if quick else 6, 1):
        graph = problem.conditioned()
        for text in ("bp", "trw"):
            found[f"{problem.key.split('/', 1)[1]}, {text}"] = whole_call(graph, text)


def others(quick: bool, found: Result) -> None:
    """Measure calls of other methods beside what they spend in kernels."""
    questions: dict[str, tuple[bl.FactorGraph, str, dict[str, int]]] = {}
    for name in NETWORKS[:2] if quick else NETWORKS:
        network = bl.datasets.load_bn(name).to_factor_graph()
        questions[f"{name}, junction_tree"] = network, "junction_tree", {}
    small, large = (12, 20) if quick else (30, 100)
    questions[f"{small}x{small}, wmb(ibound=8), 20 iterations"] = grid(small, 2), "wmb(ibound=8)", {"max_iters": 20}
    questions[f"{large}x{large}, gdd, 20 iterations"] = grid(large, 2), "gdd", {"max_iters": 20}
    questions[f"{small}x{small}, K=8, gdd, 20 iterations"] = grid(small, 8), "gdd", {"max_iters": 20}
    for name, (graph, text, options) in questions.items():
        timing = timed(partial(bl.infer, graph, text, threads=1, **options), REPEATS)
        found[name] = {"kept": timing.call, "kernels": timing.kernels}


# -- the run ----------------------------------------------------------------------------------------------------------
def measure(run: Run) -> None:
    """Measure the parts."""
    warnings.simplefilter("ignore", bl.ConvergenceWarning)
    Twofold.always_compiled = True  # the first calls of a process are another subject
    for name, part in PARTS.items():
        run.result[name] = {}
        if name in run.options.parts:
            part(run.options.quick, run.result[name])


PARTS = {"grids": grids, "maxima": maxima, "factors": factors, "others": others}
SUITE = Suite(
    "calls",
    __doc__,
    measure,
    lambda result, options: tables.page(result),
    parts=tuple(PARTS),
    quick="small models: a minute",
)
