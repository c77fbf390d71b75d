"""What one process measures: sweeps beside iterations of belief propagation, references, memory and cycle bases.

Processor time, the best of several; contenders of one ratio are run in turn, so that a busy machine hurts all alike.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import beliefs as bl
from beliefs.inference.base import Problem
from beliefs.inference.regions.choice import chosen_plan, message_order
from beliefs.inference.regions.state import RegionState
from beliefs.inference.text import parse_method
from benchmarks.jobs import Answer, Report, serve
from benchmarks.regions.reference import FullTables


def grid(side: int, states: int, extra: int = 0) -> bl.FactorGraph:
    """Return a grid with random tables, and random edges besides."""
    rng = np.random.default_rng(states)
    edges = np.asarray(bl.datasets.grid_edges(side, side))
    if extra:
        known = set(map(tuple, edges.tolist()))
        while len(known) < len(edges) + extra:
            u, v = sorted(rng.integers(side * side, size=2).tolist())
            if u != v:
                known.add((u, v))
        edges = np.array(sorted(known))
    tables = 0.3 * rng.normal(size=(len(edges), states, states))
    return bl.FactorGraph.pairwise(0.3 * rng.normal(size=(side * side, states)), edges, tables)


def seconds(run: Callable[[], object]) -> float:
    """Return the processor time of one run."""
    start = time.process_time()
    run()
    return time.process_time() - start


def steps(graph: bl.FactorGraph, text: str, n_steps: int) -> Callable[[], object]:
    """Return a call that makes so many steps of a method that was begun."""
    method = parse_method(text)
    state: Any = method.init(Problem(graph))
    method.step(state)

    def run() -> None:
        for _ in range(n_steps):
            method.step(state)

    return run


def in_turn(contenders: dict[str, tuple[Callable[[], object], int]], rounds: int) -> dict[str, float]:
    """Return the best seconds a step of each, run in turn."""
    found = {name: [] for name in contenders}  # type: dict[str, list[float]]
    for run, _ in contenders.values():
        run()
    for _ in range(rounds):
        for name, (run, n_steps) in contenders.items():
            found[name].append(seconds(run) / n_steps)
    best = {name: min(times) for name, times in found.items()}
    first = next(iter(contenders))
    for name, times in found.items():
        ratios = [a / b for a, b in zip(times, found[first], strict=True)]
        best[f"{name}, ratio"] = statistics.median(ratios)
    return best


def sweep(request: Answer) -> Answer:
    """Measure a depth-first sweep on the faces of a grid, planning, and an iteration of belief propagation."""
    side, states = request["side"], request["states"]
    graph = grid(side, states)
    start = time.process_time()
    regions = bl.RegionGraph.loops(graph, bl.cycles.faces(graph))
    planned = time.process_time()
    plan = chosen_plan(Problem(graph), regions, "gbp")
    order = message_order(regions, "depth_first")
    laid_out = time.process_time()
    state = RegionState(Problem(graph), plan)
    few = max(1, 40_000 // side**2)
    found = in_turn(
        {
            "bp": (steps(graph, "bp", 10 * few), 10 * few),
            "sweep": (lambda: [state.send(order, 0.5) for _ in range(few)], few),
        },
        request["rounds"],
    )
    n_faces = int(regions.is_loop.sum())
    return {
        "bp": found["bp"], "sweep": found["sweep"], "ratio": found["sweep, ratio"], "faces": n_faces,
        "messages": len(order), "regions": planned - start, "plan": laid_out - planned,
    }  # fmt: skip


def loop(request: Answer) -> Answer:
    """Measure one loop: all its beliefs, the memory of its tables, and sweeps where triangles share all its edges."""
    n, states = request["length"], request["states"]
    rng = np.random.default_rng(0)
    edges = [(v, (v + 1) % n) for v in range(n)]
    graph = bl.FactorGraph.pairwise(rng.normal(size=(n, states)), edges, 0.3 * rng.normal(size=(n, states, states)))
    plan = chosen_plan(Problem(graph), "loops", "gbp")
    state = RegionState(Problem(graph), plan)
    state.refresh()

    def again() -> None:
        state.changed[:] = 1
        state.refresh()

    wheel = np.sort([*edges, *((v, n) for v in range(n))], axis=1)
    tables = 0.3 * rng.normal(size=(2 * n, states, states))
    graph = bl.FactorGraph.pairwise(rng.normal(size=(n + 1, states)), wheel, tables)
    regions = bl.RegionGraph.loops(graph, [range(n), *((v, v + 1, n) for v in range(n - 1))])
    messages = RegionState(Problem(graph), chosen_plan(Problem(graph), regions, "gbp"))
    order = message_order(regions, "depth_first")
    double = bl.DoubleLoop(regions=regions).init(Problem(graph))
    double.aim(double.tangent())
    sweeps: dict[str, Callable[[], object]] = {"gbp": lambda: messages.send(order, 0.5), "double_loop": double.sweep}
    for run in sweeps.values():
        run()
    found = {name: min(seconds(run) for _ in range(5)) for name, run in sweeps.items()}
    return {"refresh": min(seconds(again) for _ in range(9)), "cells": plan.n_cells, **found}


def references(request: Answer) -> Answer:
    """Measure the four methods' sweeps beside NumPy with full tables, on a small grid."""
    graph = grid(request["side"], 2)
    faces = bl.RegionGraph.loops(graph, bl.cycles.faces(graph))
    join = bl.RegionGraph.join_graph(graph, 2)
    full, joined, block = FullTables(graph, faces), FullTables(graph, join), FullTables(graph, faces)
    order = message_order(faces, "depth_first").tolist()
    there = np.argsort(join.edges[:, 1], kind="stable").tolist()
    positive = np.maximum(faces.counting, 0.0)
    for r in range(faces.n_outer):
        block.tables[r] = block.tables[r] / positive[r]
    double = parse_method("double_loop(regions=faces)").init(Problem(graph))
    double.aim(double.tangent())
    theirs = {
        "gbp": lambda: full.sweep(order, 0.5),
        "ijgp": lambda: joined.sweep(there + there[::-1], 1.0),
        "double_loop": lambda: block.descend(positive),
        "convex_gbp": lambda: block.descend(positive),
    }
    ours: dict[str, Callable[[], object]] = {
        "gbp": steps(graph, "gbp(regions=faces, schedule=depth_first)", 20),
        "ijgp": steps(graph, "ijgp(ibound=2)", 20),
        "double_loop": lambda: [double.sweep() for _ in range(20)],
        "convex_gbp": steps(graph, "convex_gbp(regions=faces)", 20),
    }
    found: Answer = {}
    for name, run in ours.items():
        run()
        fast = min(seconds(run) for _ in range(5)) / 20
        slow = min(seconds(theirs[name]) for _ in range(2))
        found[name] = {"ours": fast, "numpy": slow, "ratio": slow / fast}
    return found


def join_graph(request: Answer) -> Answer:
    """Measure an iteration of ijgp and a pass of weighted mini-bucket with the same i-bound and order."""
    graph = grid(request["side"], 2)
    text = f"ibound={request['ibound']}, order=min_fill"
    contenders = {"wmb": (steps(graph, f"wmb({text})", 3), 3), "ijgp": (steps(graph, f"ijgp({text})", 3), 3)}
    found = in_turn(contenders, request["rounds"])
    return {"wmb": found["wmb"], "ijgp": found["ijgp"], "ratio": found["ijgp, ratio"]}


def basis(request: Answer) -> Answer:
    """Measure Algorithm 3.1 on a grid with random edges, in iterations of belief propagation on the same model."""
    bl.cycles.partially_tree_robust(grid(10, 2, 5))
    graph = grid(request["side"], 2, request["extra"])
    found = in_turn({"bp": (steps(graph, "bp", 20), 20)}, 3)
    start = time.process_time()
    n_cycles = len(bl.cycles.partially_tree_robust(graph))
    taken = time.process_time() - start
    return {"seconds": taken, "bp": found["bp"], "cycles": n_cycles, "ratio": taken / found["bp"]}


def memory(request: Answer) -> Answer:
    """Measure the most that a call of one sweep allocates beside the prediction, on the faces of a grid."""
    method = "gbp(regions=faces, schedule=depth_first)"
    bl.infer(grid(6, request["states"]), method, max_iters=1)  # loads the compiler and what it has made
    graph = grid(request["side"], request["states"])
    tracemalloc.start()
    bl.infer(graph, method, max_iters=1)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"predicted": chosen_plan(Problem(graph), "faces", "gbp").n_bytes(), "grown": most}


def convex(request: Answer) -> Answer:
    """Measure convex_gbp with all counting numbers one on the model of a file, to its optimum."""
    case = np.load(request["case"])
    graph = bl.FactorGraph.pairwise(case["unary"], case["edges"], case["tables"])
    regions = bl.RegionGraph.bethe(graph)
    method = bl.ConvexGBP(regions=regions, counting=np.ones(regions.n_regions))
    bl.infer(graph, method, tol=1e-10, max_iters=5000)
    taken = [seconds(lambda: bl.infer(graph, method, tol=1e-10, max_iters=5000)) for _ in range(5)]
    return {"log_z": bl.infer(graph, method, tol=1e-10, max_iters=5000).log_z, "seconds": min(taken)}


TASKS = {
    "sweep": sweep, "loop": loop, "references": references, "join_graph": join_graph, "basis": basis,
    "memory": memory, "convex": convex,
}  # fmt: skip


def served(task: Callable[[Answer], Answer]) -> Callable[[Answer, Report], None]:
    """Return a handler: warnings about convergence are no news here."""

    def work(request: Answer, report: Report) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report(**task(request))

    return work


if __name__ == "__main__":
    serve({name: served(task) for name, task in TASKS.items()})
