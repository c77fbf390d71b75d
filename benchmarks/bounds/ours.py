"""Our side of the bounds, in a process of its own: passes over mini-buckets, sweeps of GDD, bounds against time."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from typing import Any

import numpy as np

import beliefs as bl
from beliefs.inference.base import Problem, Task
from beliefs.inference.buckets.bucket_order import ordered_tree
from beliefs.inference.buckets.bucket_run import BucketRun, uniform_weights
from beliefs.inference.buckets.bucket_tree import BucketTree, predicted_bytes
from beliefs.inference.registry import METHODS
from beliefs.inference.text import parse_method
from beliefs.kernels._jit import kernel
from beliefs.kernels.dual.pairs.terms import exponentials as pair_exponentials
from beliefs.kernels.dual.pairs.terms import pair_workspace, scaled_value
from beliefs.kernels.dual.structure import Pair, PairMemory
from beliefs.kernels.primitives.elementary import fast_exp
from beliefs.kernels.primitives.memory import address
from beliefs.typing import Floats
from benchmarks.clock import best_of
from benchmarks.jobs import Answer, Report, serve


@kernel
def exponentials(values: Floats, out: Floats) -> None:
    """Write ``out = exp(values)``."""
    for i in range(values.size):
        out[i] = fast_exp(values[i])


@kernel
def value_and_gradient(pair: Pair, theta: Floats, shift: Floats, repeat: int, scratch: PairMemory) -> float:
    """Return one cluster's value and write its marginal: once with the exponentials, then without, as in an update."""
    theta, shift, work, value = address(theta), address(shift), pair_workspace(scratch), 0.0
    pair_exponentials(pair, theta, shift, pair.own, 0, 0, work)
    for _ in range(repeat):
        value = scaled_value(pair, 0, 0, shift, work, work.mu, 0)
    return value


CURVES = ("trw", "gdd", "gdd(ibound=5)", "wmb(ibound=1)", "wmb(ibound=5)", "wmb(ibound=10)", "wmb(ibound=15)")


def grid(side: int, states: int, coupling: float = 1.0) -> bl.FactorGraph:
    """A grid of random pairwise tables, one an edge."""
    rng = np.random.default_rng(0)
    edges = bl.datasets.grid_edges(side, side)
    unary = 0.3 * rng.normal(size=(side * side, states))
    return bl.FactorGraph.pairwise(unary, edges, coupling * rng.normal(size=(len(edges), states, states)))


def passes(request: Answer, report: Report) -> None:
    """One iteration of weighted mini-bucket: up with matching, and down; with the order that the peer gets too."""
    graph = grid(request["side"], 2)
    problem = Problem(graph)
    plan = ordered_tree(problem, np.load(request["case"])["order"].tolist(), request["ibound"], problem.tau, "wmb")
    run = BucketRun(problem, plan, problem.tau, uniform_weights(plan, problem.tau))
    run.forward()
    run.backward()
    up, bound = best_of(lambda _: run.match(0.5, 0.1))
    down, _ = best_of(lambda _: run.backward())
    fixed, _ = best_of(lambda _: run.forward())
    report(up=up["best"], down=down["best"], forward=fixed["best"], cells=plan.buckets.n_cells, bound=bound)
    report(exp_ns=_exp_nanoseconds())


def _exp_nanoseconds() -> float:
    """Cost of one exponential in a loop over a cached array, by the polynomial that the kernels use."""
    values = np.linspace(-20.0, 0.0, 2048)
    out = np.empty(values.size)
    seconds, _ = best_of(lambda _: [exponentials(values, out) for _ in range(100)])
    return 1e9 * seconds["best"] / (100 * values.size)


def memory(request: Answer, report: Report) -> None:
    """Predicted bytes of a run beside those that it takes."""
    found: dict[str, Any] = {}
    for side, ibound in ((50, 1), (50, 10), (50, 15), (100, 10)):
        graph = grid(side, 2)
        problem = Problem(graph)
        plan = ordered_tree(problem, "auto", ibound, problem.tau, "wmb")  # planned, so that what follows is the run's
        tracemalloc.start()
        built = BucketTree.build(graph.layout, plan.buckets)
        run = BucketRun(problem, built, problem.tau, uniform_weights(built, problem.tau))
        run.forward()
        run.backward()
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        found[f"{side}x{side}, i-bound {ibound}"] = {
            "predicted": predicted_bytes(plan.buckets, graph.layout), "held": held, "peak": peak
        }  # fmt: skip
        report(found=found)


def sweeps(request: Answer, report: Report) -> None:
    """A sweep of GDD over maxima and over sums, beside the same sweep of tree-reweighted messages, in turn."""
    graph = grid(request["side"], request["states"])
    n_messages = 2 * int((np.diff(graph.layout.scope_ptr) == 2).sum())
    found: dict[str, float] = {}
    for task in (Task.MAXIMIZE, Task.INFER):
        states = {}
        for name in ("trw", "gdd(weights=False)"):
            method = parse_method(name, METHODS)
            states[name] = method, method.init(Problem(graph, task, threads=1))
        for method, state in states.values():
            for _ in range(3):
                method.step(state)
        for _ in range(request["rounds"]):
            for name, (method, state) in states.items():
                start = time.perf_counter()
                method.step(state)
                seconds = time.perf_counter() - start
                key = f"{name}, {task.value}"
                found[key] = min(found.get(key, np.inf), 1e9 * seconds / n_messages)
        report(found=found)
    found["value and gradient"] = _value_and_gradient(request["states"])
    report(found=found)


def _value_and_gradient(k: int, repeat: int = 2000) -> float:
    """Nanoseconds of one cluster's value and marginal of its earlier variable, its exponentials ready."""
    rng = np.random.default_rng(0)
    room = k * k + 4
    theta, shift = rng.normal(size=room), rng.normal(size=2 * k + 4)
    pair, scratch = Pair(0, k, k, 0, k, 0.5, 0.4), PairMemory(np.ones(18 * room), room * np.arange(19))
    seconds, _ = best_of(lambda _: value_and_gradient(pair, theta, shift, repeat, scratch))
    return 1e9 * seconds["best"] / repeat


def curves(request: Answer, report: Report) -> None:
    """Upper bounds on log Z of one hard grid against the seconds they took."""
    warnings.simplefilter("ignore", bl.ConvergenceWarning)
    graph = grid(request["side"], 2, 0.7)
    found: dict[str, Any] = {}
    for name in CURVES:
        bl.infer(graph, name, max_iters=1)  # plans and kernels are there
        answer = bl.infer(graph, name, time_limit=request["limit"], max_iters=10**6, tol=0.0, trace_every=1)
        found[name] = {"seconds": answer.trace.seconds.tolist(), "upper": answer.trace.upper.tolist()}
        report(found=found)
    best = bl.infer(graph, "mean_field(structure=tree, restarts=5)")
    report(lower=best.log_lower)


if __name__ == "__main__":
    serve({"passes": passes, "memory": memory, "sweeps": sweeps, "curves": curves})
