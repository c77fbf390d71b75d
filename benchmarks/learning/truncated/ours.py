"""Our side of truncated TRW: a pass forward, a pass backward, all of it, and two instances on two threads."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import beliefs as bl
from beliefs.inference.base import observed_point_masses
from beliefs.inference.messages.schedule import make_schedule
from beliefs.learning.gradients.forms import message_run
from beliefs.learning.gradients.message_run import sweep_spec
from beliefs.learning.gradients.truncated import Truncated
from benchmarks.clock import least
from benchmarks.jobs import Answer, Report, serve
from benchmarks.messages.cases import Grid

NONE = np.zeros(0)
clock = time.process_time  # of this process alone, whatever else the machine does


def graph_of(grid: Grid) -> bl.FactorGraph:
    """Return the model of a grid."""
    return bl.FactorGraph.pairwise(*grid.arrays())


def bar_of(graph: bl.FactorGraph) -> Any:
    """Return the gradient of the loss in the marginals."""
    return np.random.default_rng(0).normal(size=graph.layout.n_states)


def save_case(grid: Grid, path: str) -> None:
    """Write the arrays for torch, edges by colour class in the order of our colour schedule."""
    unary, edges, tables = grid.arrays()
    graph = graph_of(grid)
    walk = make_schedule(graph.layout, "color").passes[0]
    case: dict[str, Any] = {"unary": unary, "rho": 0.5, "bar": bar_of(graph).reshape(unary.shape)}
    for c, bounds in enumerate(walk.groups):
        chosen = walk.forward[bounds[0] : bounds[-1]] - len(unary)
        case |= {f"edges{c}": chosen, f"ends{c}": edges[chosen].T, f"tables{c}": tables[chosen]}
    np.savez(path, **case)


def compared(request: Answer, report: Report) -> None:
    """Report how far torch's gradient is from ours, at the colour schedule."""
    grid = Grid(**request["grid"])
    graph, states = graph_of(grid), grid.states
    method = bl.TRW(rho="grid", schedule="color")
    grad = Truncated(method=method, n_sweeps=request["passes"] // 2).run(graph).pullback(bar_of(graph))
    unary, tables = np.split(grad, [graph.n_vars * states])
    with np.load(request["case"]) as case, np.load(request["gradient"]) as theirs:
        apart = np.abs(theirs["unary"].ravel() - unary).max()
        for name in (name for name in case.files if name.startswith("edges")):
            ours = tables.reshape(-1, states, states)[case[name]]
            apart = max(apart, np.abs(theirs[name.replace("edges", "tables")] - ours).max())
    report(apart=float(apart))


def sweeps(request: Answer, report: Report) -> None:
    """Measure passes alone, then ``run`` and ``pullback`` as a loss calls them, then two at once."""
    graph = graph_of(Grid(**request["grid"]))
    bar, n, rounds = bar_of(graph), request["passes"], request["rounds"]
    spec = sweep_spec(bl.TRW(rho="grid"), graph)
    forward, recorded, backward = [], [], []
    for _ in range(rounds):
        run = message_run(graph, spec, observed_point_masses(graph))
        states, swept, began = [run.save(False)], 0.0, clock()
        for t in range(n):
            start = clock()
            run.run_pass(t)
            swept += clock() - start
            states.append(run.save(t == n - 1))
        forward.append(swept / n)
        recorded.append((clock() - began) / n)
        back = run.backward(states[-1], NONE, bar, NONE)
        start = clock()
        for t in range(n - 1, -1, -1):
            back.back_pass(t, states[t].messages, states[t + 1].messages)
        backward.append((clock() - start) / n)
        back.gradient()
    report(passes=n, forward=min(forward), recorded=min(recorded), backward=min(backward))
    report(median={"forward": float(np.median(forward)), "backward": float(np.median(backward))})
    del run, back, states
    way = Truncated(method=bl.TRW(rho="grid"), n_sweeps=n // 2)

    def instance(_: int = 0) -> object:
        return way.run(graph).pullback(bar)

    report(whole=least(instance, rounds, clock) / n, n_bytes=way.n_bytes(graph.layout))
    if request["threads"]:
        with ThreadPoolExecutor(2) as pool:
            ratios = []
            for _ in range(rounds):
                alone = least(lambda: [instance(), instance()], 1)
                ratios.append(alone / least(lambda: list(pool.map(instance, range(2))), 1))
        report(two_threads=float(np.median(ratios)), two_threads_best=max(ratios))


if __name__ == "__main__":
    serve({"sweeps": sweeps, "compared": compared})
