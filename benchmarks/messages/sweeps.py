"""One grid, in a process of its own: reference loops and our methods in turn, so that a busy machine hurts all alike.

Every contender is run once to load or compile its kernels. Then come rounds; in each, every contender of a rule runs
for about ``SLICE`` seconds, one after the other, on a clock that is read at least every ``TICK``: what counts is the
best of these short stretches, because a longer one is rarely left alone. Kept are the best of each contender and the
median over rounds of the ratio between ours and the reference.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import beliefs as bl
from beliefs.errors import BeliefsError
from beliefs.inference.base import Problem, Task
from beliefs.inference.registry import METHODS
from beliefs.inference.text import parse_method
from benchmarks import machine
from benchmarks.jobs import ROOT, Answer, Report, serve
from benchmarks.messages.cases import RHO, RULES, Grid, Rule
from benchmarks.reference_kernel import Reference

SLICE = 0.03  # seconds
TICK = 0.001  # seconds
MOST_STEPS = 60  # of a sampling run, which is done after some eighty
SMALL = {2: 16, 8: 12, 21: 8}  # side of the grid for plain NumPy


@dataclass
class Contender:
    """Something that is run: ``run()`` updates ``units`` messages or vertices, ``again()`` makes it ready anew."""

    name: str
    run: Callable[[], object]
    units: float
    again: Callable[[], None] = lambda: None
    most: int = 10**6
    repeats: int = 1
    stretches: int = 1
    rounds: list[float] = field(default_factory=list)

    def warm(self) -> None:
        """Run it, and see how often it must be repeated."""
        self.run()
        self.again()
        start = time.perf_counter()
        self.run()
        once = max(time.perf_counter() - start, 1e-7)
        self.repeats = min(math.ceil(TICK / once), self.most)
        self.stretches = min(max(1, round(SLICE / once / self.repeats)), self.most // self.repeats)

    def measure(self) -> None:
        """Add one round: nanoseconds a unit."""
        self.again()
        best = math.inf
        for _ in range(self.stretches):
            start = time.perf_counter()
            for _ in range(self.repeats):
                self.run()
            best = min(best, time.perf_counter() - start)
        self.rounds.append(1e9 * best / self.repeats / self.units)


def interleaved(contenders: list[Contender], rounds: int) -> dict[str, dict[str, float]]:
    """Measure all in turn; the first is what the others are compared with."""
    for contender in contenders:
        contender.warm()
    for _ in range(rounds):
        for contender in contenders:
            contender.measure()
    first = contenders[0].rounds
    return {
        c.name: {
            "ns": min(c.rounds),
            "median_ns": statistics.median(c.rounds),
            "median_ratio": statistics.median(a / b for a, b in zip(first, c.rounds, strict=True)),
        }
        for c in contenders
    }


# -- ours -----------------------------------------------------------------------------------------------------------
def ours(rule: Rule, graph: bl.FactorGraph, threads: int) -> list[Contender]:
    """Return our method at work with so many threads; message passing also with its check for convergence."""
    text = rule.two_threads if threads > 1 and rule.two_threads else rule.text
    method, problem = parse_method(text, METHODS), _problem(rule, graph, text, threads)
    name = f"{threads} thread{'s' if threads > 1 else ''}"
    if rule.loop == "gibbs":
        return [_sampler(name, method, problem)]
    state = method.init(problem)
    if rule.loop == "mean_field":
        return [Contender(name, lambda: method.step(state), graph.n_vars)]
    n_messages = 2 * int((np.diff(graph.layout.scope_ptr) == 2).sum())
    sweeps = Contender(name, partial(iterate, state), 2 * n_messages)
    checked = Contender(f"{name}, checked", lambda: method.step(state), 2 * n_messages)
    return [sweeps, checked] if threads == 1 else [sweeps]


def iterate(state: Any) -> None:
    """Run one iteration, forward and backward, and insist that it came to its end."""
    if state.iterate() != 0:
        raise RuntimeError("an iteration ended early")


def _problem(rule: Rule, graph: bl.FactorGraph, text: str, threads: int) -> Problem:
    n_samples = 8 if "chains=8" in text else 1
    return Problem(graph, Task(rule.task), threads=threads, n_samples=n_samples if rule.task == "sample" else 0)


def _sampler(name: str, method: Any, problem: Problem) -> Contender:
    """Return a sampler whose chains begin anew before each round, so that they are never done."""
    held: dict[str, Any] = {}

    def begin() -> None:
        held["state"] = method.init(problem)

    begin()
    method.step(held["state"])
    units = float(held["state"].n_sweeps * held["state"].states.size)
    return Contender(name, lambda: method.step(held["state"]), units, again=begin, most=MOST_STEPS)


def reference(rule: Rule, loops: Reference, name: str = "reference") -> Contender:
    """Return the reference loop of a rule."""
    if rule.loop in RHO:
        rho = RHO[rule.loop]
        return Contender(name, lambda: loops.trw(rho), loops.at.size * 2)
    units = len(loops.unary) if rule.per_vertex else loops.at.size * 2
    return Contender(name, getattr(loops, rule.loop), units)


def grid(request: Answer, report: Report) -> None:
    """Measure the machine, all rules on one grid, the machine again, and plain NumPy."""
    speed = machine.speed() | {"gemm_gflop_per_s": machine.matrix_product()}
    report(speed=speed)
    all_rules(request, report)
    if request["rounds"] > 2:
        speed = machine.better(speed, machine.speed() | {"gemm_gflop_per_s": machine.matrix_product()})
    report(speed=speed, numpy=_plain_numpy(_case(request)))


def _case(request: Answer) -> Grid:
    return Grid(request["side"], request["states"], request["tied"])


def all_rules(request: Answer, report: Report) -> None:
    """Measure all rules on one grid."""
    case = _case(request)
    arrays = case.arrays()
    graph, loops = bl.FactorGraph.pairwise(*arrays), Reference(*arrays)
    free = Reference(*Grid(case.side, case.states).arrays()) if case.tied else None
    rules: dict[str, Any] = {}
    notes: list[str] = []
    for rule in RULES:
        try:
            contenders = [reference(rule, loops), *(c for threads in (1, 2) for c in ours(rule, graph, threads))]
        except BeliefsError as error:
            notes.append(f"{rule.text} was not measured: {error}")
            continue
        if free is not None:
            contenders.insert(1, reference(rule, free, "reference, a table per edge"))
        rules[rule.name] = interleaved(contenders, request["rounds"])
        report(rules=rules, notes=notes)


def flooding(graph: bl.FactorGraph, rho: Any = None) -> Any:
    """Return the plain NumPy loops that the tests compare with."""
    sys.path.insert(0, str(ROOT / "tests"))
    from messages_reference import Flooding

    return Flooding(graph, rho)


def _plain_numpy(case: Grid) -> dict[str, float]:
    """Measure the NumPy loops that the tests compare with, on a small grid: nanoseconds a message."""
    small = Grid(SMALL.get(case.states, 12), case.states, case.tied)
    graph = bl.FactorGraph.pairwise(*small.arrays())
    found = {}
    for name, rho in (("bp", 1.0), ("trw", 0.5)):
        loops = flooding(graph, np.where(np.diff(graph.layout.scope_ptr) == 2, rho, 1.0))
        run = Contender(name, loops.step, small.n_messages)
        found[name] = interleaved([run], 2)[name]["ns"]
    return found


if __name__ == "__main__":
    serve({"grid": grid, "rules": all_rules})
