"""Our side of a case, in a process of its own: build, plan, all marginals, new evidence, and where the time goes."""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np

import beliefs as bl
from beliefs.inference.base import Problem
from beliefs.kernels._jit import Twofold
from benchmarks.clock import best_of
from benchmarks.exact.cases import Case
from benchmarks.jobs import Answer, Report, serve

METHOD = bl.JunctionTree()

# What the parts are called in the report, and the functions whose time they are.
TREE, RUN = "beliefs.inference.exact.junction_tree", "beliefs.inference.exact.tree_run"
PARTS = {
    "plan": ("beliefs.inference.orders.planned.plan_order",),
    "symbolic": (f"{TREE}.ClusterTree.build",),
    "factor copy": (f"{RUN}.factor_spans",),
    "collect": (f"{RUN}.collect_linear", f"{RUN}.collect_log"),
    "distribute": (f"{RUN}.distribute_linear", f"{RUN}.distribute_log"),
    "read off": (f"{RUN}.variable_marginals",),
}


@contextmanager
def split() -> Iterator[dict[str, float]]:
    """Collect the seconds spent in each part while the block runs; what remains is interpreter and allocation."""
    seconds = dict.fromkeys(PARTS, 0.0)

    def timed(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                seconds[part] += time.perf_counter() - start

        return wrapper

    with ExitStack() as stack:
        for part, targets in PARTS.items():
            for target in targets:
                owner, name = target.rsplit(".", 1)
                place = pkgutil.resolve_name(owner)
                stack.enter_context(mock.patch.object(place, name, timed(part, getattr(place, name))))
        yield seconds


def measured_split(run: Callable[[Any], Any], prepare: Callable[[int], Any]) -> dict[str, float]:
    """Return the parts of the quickest of the runs, the rest included, in seconds."""
    runs: list[dict[str, float]] = []

    def one(argument: Any) -> None:
        with split() as seconds:
            start = time.perf_counter()
            run(argument)
            total = time.perf_counter() - start
        runs.append({**seconds, "rest": total - sum(seconds.values()), "total": total})

    best_of(one, prepare)
    return min(runs, key=lambda parts: parts["total"])


def graph_of(case: Case) -> bl.FactorGraph:
    """Build the graph anew, so that no plan is kept on its layout."""
    layout = bl.Layout.build(case.card, case.scope_ptr, case.scope_vars)
    return bl.FactorGraph.build(layout, case.log_values())


def infer(graph: bl.FactorGraph) -> bl.InferenceResult:
    """Ask for everything, with one thread."""
    return bl.infer(graph, METHOD, threads=1)


def sizes(graph: bl.FactorGraph) -> Answer:
    """Return what the plan of a graph, kept by now, weighs."""
    problem = Problem(graph)
    tree = METHOD.init(problem).plan
    return {
        "cells": tree.n_cells,
        "elimination_cells": tree.order.total_cells,
        "width": tree.order.width,
        "bytes": int(METHOD.n_bytes(problem)),
        "order": tree.order.method,
    }


def warm_up() -> float:
    """Load or compile all kernels on a small model; return the seconds it took."""
    start = time.perf_counter()
    bn = bl.datasets.load_bn("insurance")  # small, and yet of every kind of operand
    infer(bn.graph)
    infer(bn.condition({0: 0}))
    infer(bl.datasets.make_ising_grid(8))
    return time.perf_counter() - start


def exact(request: Answer, report: Report) -> None:
    """Measure one case."""
    case, out = Case.load(request["case"]), {}
    report(warm_up=warm_up(), n_vars=int(case.card.size), table_cells=int(case.values.size))
    report(build=best_of(lambda _: graph_of(case))[0])
    timing, result = best_of(infer, lambda _: graph_of(case))
    out["prior"] = result.mu_var
    report(
        marginals=timing, log_z=result.log_z, bound=result.bound.name, method=repr(result.method), **sizes(result.graph)
    )
    report(plan=best_of(lambda g: METHOD.planned(Problem(g)), lambda _: graph_of(case))[0])
    report(split=measured_split(infer, lambda _: graph_of(case)))
    out["evidence"] = _new_evidence(case, report)
    np.savez(request["out"], **out)


def _new_evidence(case: Case, report: Report) -> Any:
    """Measure other states of the same observed variables, the plan kept; return the marginals given row 1."""
    graph, n_rows = graph_of(case), len(case.evidence_rows)
    rows = [dict(zip(case.evidence_vars.tolist(), row.tolist(), strict=True)) for row in case.evidence_rows]
    first = infer(graph.condition(rows[0]))  # plans
    timing, _ = best_of(lambda row: infer(graph.condition(row)), lambda k: rows[(k + 1) % n_rows])
    condition, _ = best_of(graph.condition, lambda k: rows[(k + 1) % n_rows])
    parts = measured_split(lambda row: infer(graph.condition(row)), lambda k: rows[(k + 1) % n_rows])
    report(evidence={**timing, **sizes(first.graph), "condition": condition["best"], "split": parts})
    compared = infer(graph.condition(rows[1 % n_rows]))
    return compared.mu_var


def read(request: Answer, report: Report) -> None:
    """Measure reading one file, kernels loaded by reading it once before."""
    bl.read(request["path"])
    report(read=best_of(lambda _: bl.read(request["path"]))[0])


if __name__ == "__main__":
    Twofold.always_compiled = True  # the first calls of a process are another subject
    serve({"exact": exact, "read": read, "warm up": lambda request, report: report(warm_up=warm_up())})
