"""How belief propagation grows: time and memory of larger grids, factors of any arity, and the first call of a process.

Each task runs in a process of its own. Memory is the resident set, watched by a thread that looks every millisecond.
"""

from __future__ import annotations

import threading
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import beliefs as bl
from beliefs.datasets import uai_instances
from beliefs.inference.base import Problem
from benchmarks import machine
from benchmarks.jobs import Answer, Report, serve
from benchmarks.messages.cases import Grid
from benchmarks.messages.sweeps import Contender, flooding, interleaved, iterate

METHODS = ("bp", "trw", "fractional_bp", "mean_field", "gibbs")
PROBLEMS = (
    "uai2014-pr-mar/Segmentation", "uai2014-pr-mar/Promedus", "uai2014-pr-mar/Pedigree", "uai2014-pr-mar/linkage",
    "mmap-bench/promedas", "mmap-bench/pedigree",
)  # fmt: skip


# -- time -------------------------------------------------------------------------------------------------------------
def sizes(request: Answer, report: Report) -> None:
    """Measure the time of a message on grids of two states, and of fifty sweeps."""
    found: dict[str, Any] = {}
    runs = []
    for side in request["sides"]:
        grid = Grid(side, 2)
        state = bl.BP().init(Problem(bl.FactorGraph.pairwise(*grid.arrays()), threads=1))
        runs.append(Contender(str(side), partial(iterate, state), 2 * grid.n_messages))
        found[str(side)] = {"messages": grid.n_messages}
    for name, figures in interleaved(runs, request["rounds"]).items():
        found[name] |= figures
    report(sizes=found)
    for run in runs:
        start = time.perf_counter()
        for _ in range(25):  # forward and backward
            run.run()
        found[run.name]["fifty"] = time.perf_counter() - start
    report(sizes=found)


# -- memory -----------------------------------------------------------------------------------------------------------
class Peak:
    """The largest resident set while the block runs, above that at its beginning, in ``n_bytes``."""

    def __enter__(self) -> Peak:
        self.begin = self.top = _resident()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self) -> None:
        while not self.done.wait(0.001):
            self.top = max(self.top, _resident())

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()
        self.n_bytes = max(self.top, _resident()) - self.begin


def _resident() -> int:
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


def memory(request: Answer, report: Report) -> None:
    """Measure what a question needs above the graph: messages and ten iterations, or the whole of ``infer``."""
    grid = Grid(request["side"], 2)
    graph, small = bl.FactorGraph.pairwise(*grid.arrays()), bl.FactorGraph.pairwise(*Grid(8, 2).arrays())
    warnings.simplefilter("ignore", bl.ConvergenceWarning)
    method = bl.BP()
    bl.infer(small, method, max_iters=2)  # loads the kernels, which are not the question's
    base = 8 * (graph.layout.n_cells + 2 * grid.n_messages)
    with Peak() as peak:
        if request["whole"]:
            result = bl.infer(graph, method, max_iters=10, threads=1)
        else:
            state = method.init(Problem(graph, threads=1))
            for _ in range(10):
                method.step(state)
    mu = result.mu.nbytes if request["whole"] else 0
    report(base=base, mu=mu, peak=peak.n_bytes)


# -- factors of any arity ---------------------------------------------------------------------------------------------
def factors(request: Answer, report: Report) -> None:
    """Measure published problems: ns a message, the least traffic of a sweep, and plain NumPy."""
    bandwidth = machine.speed()["copy_gb_per_s"]
    found: dict[str, Any] = {}
    for problem in largest_problems(request["kinds"], request["each"]):
        graph = problem.conditioned()
        lay = graph.layout
        arity = np.diff(lay.scope_ptr)
        sending = arity[lay.edge_factor] >= 2
        n_messages = int(sending.sum())
        moved = 8 * int(lay.factor_size[arity >= 2].sum())
        moved += 16 * int(lay.card[lay.scope_vars[sending]].sum()) + 16 * int(lay.n_states)
        with np.errstate(all="ignore"):
            plain = Contender("numpy", flooding(graph).step, n_messages)
            tier, times = _begun_and_settled(graph, plain, 2 * n_messages, request["rounds"])
        found[problem.key.split("/", 1)[1]] = {
            "n_vars": graph.n_vars, "n_factors": graph.n_factors, "arity": int(arity.max()),
            "states": int(lay.card.max()), "messages": n_messages, "tier": tier, "first_ns": times["begun"]["ns"],
            "ns": times["settled"]["ns"], "numpy_ns": times["numpy"]["ns"], "limit": moved / bandwidth / n_messages,
        }  # fmt: skip
        report(found=found)


def _begun_and_settled(graph: bl.FactorGraph, plain: Contender, units: int, rounds: int) -> tuple[str, Any]:
    """Measure the first two iterations, and those of a run that has gone on, perhaps in logs by then."""
    method, problem = bl.BP(), Problem(graph, threads=1)
    held = {"state": method.init(problem)}
    settled = method.init(problem)
    for _ in range(50):
        method.step(settled)

    def begin() -> None:
        held["state"] = method.init(problem)

    def go_on() -> None:
        if settled.iterate() != 0:
            method.step(settled)  # moves to logs

    begun = Contender("begun", lambda: iterate(held["state"]), units, again=begin, most=2)
    begun.run()
    times = interleaved([plain, begun, Contender("settled", go_on, units)], rounds)
    return type(settled.tier).__name__.removesuffix("Tier").lower(), times


def largest_problems(n_kinds: int, each: int) -> list[Any]:
    """Return the problems with most factors of each category."""
    known = uai_instances()
    kinds = [[p for p in known if p.key.rsplit("/", 1)[0] == kind] for kind in PROBLEMS[:n_kinds]]
    return [p for kind in kinds for p in sorted(kind, key=lambda p: -p.n_factors)[:each]]


# -- starting ---------------------------------------------------------------------------------------------------------
def first(request: Answer, report: Report) -> None:
    """Time a first and a second call; the import is timed by the one who asks."""
    graph = bl.datasets.make_ising_grid(5, seed=0)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        bl.infer(graph, "bp")
        seconds.append(time.perf_counter() - start)
    report(call=seconds[0], again=seconds[1])


def cold(request: Answer, report: Report) -> None:
    """Time all questions that `beliefs warmup` asks of message passing; the caller names an empty cache folder."""
    from beliefs.cli.warmup import jobs
    from beliefs.kernels._jit import kernels

    warnings.simplefilter("ignore", bl.ConvergenceWarning)
    asked = [(name, job) for name, job in jobs() if any(f"with {method}" in name for method in METHODS)]
    start = time.perf_counter()
    for _, job in asked:
        job()
    seconds = time.perf_counter() - start
    report(seconds=seconds, jobs=len(asked), kernels=sum(bool(kernel.signatures) for kernel in kernels()))


if __name__ == "__main__":
    serve({"sizes": sizes, "memory": memory, "factors": factors, "first": first, "cold": cold})
