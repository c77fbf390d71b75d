"""One method driven by hand over one problem: seconds, bound, best bound and latest decoding of every iterate.

The doors of the library keep the best bound and the best decoding. The figures of the paper show something else: the
bound of the *present* iterate, which fixed steps may well make worse, and the value of the *latest* decoding. So the
verbs of a method are called here one by one.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

import beliefs as bl
from beliefs.inference.base import Method, Problem, Task
from beliefs.inference.buckets.mini_bucket import MiniBucket
from beliefs.inference.buckets.wmb import WMB
from beliefs.inference.dual.gdd import GDD

__all__ = ["CONVENTIONS", "Curve", "compare", "drive", "fixed_step", "maximising", "roster"]

ORDER = "weighted_min_fill"  # the paper's; our own methods choose for themselves
CONVENTIONS = [
    "GDD and L-BFGS start from the paper's weights. GDD (ours) spreads a fifth of them over all terms and chooses "
    "between two orders first, by two sweeps that are not counted. A local update takes one step with line "
    "search, not five of L-BFGS.",
    "WMB-s damps shifts and weights by one ratio s; free weights take undamped steps. WMB (ours) is our default: "
    "smoothed maxima, steps that are taken back, an order of its own. Curves named (ours) are at their best so far.",
]


@dataclass
class Curve:
    """What a method knew at each iterate, the start included; the lists have one entry an iterate.

    Attributes
    ----------
    method : str
        The method's text.
    seconds : list of float
        Since the call, without the time to score decodings.
    bound, best : list of float
        The upper bound of the iterate, and the least so far.
    decoding : list of float
        The value Q of the iterate's decoding, ``-inf`` where that is impossible; empty for sums.
    """

    method: str
    seconds: list[float] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    decoding: list[float] = field(default_factory=list)

    def record(self, seconds: float, bound: float, decoding: float | None) -> None:
        """Add an iterate."""
        self.seconds.append(seconds)
        self.bound.append(bound)
        self.best.append(min(bound, self.best[-1] if self.best else math.inf))
        if decoding is not None:
            self.decoding.append(decoding)

    def best_after(self, iterations: int) -> float:
        """Return the least bound of the first iterations, the start included."""
        return self.best[min(iterations, len(self.best) - 1)]

    def plain(self) -> dict[str, Any]:
        """Return the numbers for a JSON file: six digits, infinities as null."""
        return {name: [_short(x) for x in v] if isinstance(v, list) else v for name, v in asdict(self).items()}


def _short(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


# -- problems and methods ---------------------------------------------------------------------------------------------
def maximising(graph: bl.FactorGraph, share: float, seed: int) -> Problem:
    """Return the question whose max nodes are this share of the unobserved variables.

    They are the first of one permutation a seed, so that a larger share keeps those of a smaller one.
    """
    hidden = np.flatnonzero(~graph.layout.observed)
    chosen = np.random.default_rng(seed).permutation(hidden)[: round(share * hidden.size)]
    if chosen.size == 0:
        return Problem(graph)
    if chosen.size == hidden.size:
        return Problem(graph, Task.MAXIMIZE)
    return Problem(graph, Task.MARGINAL_MAP, query=np.sort(chosen))


def fixed_step(step: float, weight_step: float | None = None) -> WMB:
    """Return the paper's WMB-``step``: that share of every match, no step undone, maxima never smoothed.

    One ratio damps shifts and weights alike, unless ``weight_step`` says otherwise.
    """
    weight_step = step if weight_step is None else weight_step
    options = {"step_size": step, "weight_step": weight_step, "backtrack": False, "smoothing": 0.0}
    return WMB(ibound=1, order=ORDER, **options)


def roster(steps: tuple[float, ...]) -> dict[str, Method]:
    """Return the methods by their names in the figures: the paper's, and "(ours)" those with our own options."""
    free = 0.1
    return {
        "GDD": GDD(order=ORDER, spread=0.0),
        "GDD (ours)": GDD(),
        "L-BFGS": GDD(solver="lbfgs", order=ORDER, spread=0.0),
        "WMB (ours)": WMB(ibound=1),
        **{f"WMB-{step:g}": fixed_step(step) for step in steps},
        f"WMB-{free:g}, free weights": fixed_step(free, WMB.weight_step),
        "MBE": MiniBucket(ibound=1, order=ORDER),
        "reordering": MiniBucket(ibound=1, order="unconstrained"),
    }


# -- driving ----------------------------------------------------------------------------------------------------------
class _Clock:
    """Seconds since it was made, without those in which decodings were scored."""

    def __init__(self) -> None:
        self.start, self.scoring = time.perf_counter(), 0.0

    def __call__(self) -> float:
        return time.perf_counter() - self.start - self.scoring

    def leave_out_scores(self, state: Any) -> None:
        """Stop while the state's decodings are scored: no method needs their values to go on."""
        if state.incumbent is None:
            return
        offer = state.incumbent.offer

        def timed(row: Any) -> None:
            begin = time.perf_counter()
            offer(row)
            self.scoring += time.perf_counter() - begin

        state.incumbent.offer = timed


def drive(method: Method, problem: Problem, iterations: int, seconds: float = 60.0) -> Curve:
    """Run a method for so many iterations, or so long; one that does not iterate takes its one step."""
    clock, curve = _Clock(), Curve(repr(method))
    state = method.init(problem)
    clock.leave_out_scores(state)
    if not method.iterative:
        method.step(state)
        curve.record(clock(), state.upper, _decoding(state))
        return curve
    curve.record(clock(), state.bound, _decoding(state))
    for _ in range(iterations):
        method.step(state)
        if isinstance(method, WMB) and method.smoothing == 0 and state.incumbent is not None:
            state.incumbent.offer(state.run.decode())  # without smoothing it reads off its start only
        curve.record(clock(), state.bound, _decoding(state))
        if clock() > seconds:
            break
    return curve


def compare(problem: Problem, methods: dict[str, Method], iterations: int) -> dict[str, Curve]:
    """Drive each method over the problem; once in vain before, so that plans and compiled loops are there."""
    for method in methods.values():
        drive(method, problem, 1)
    return {label: drive(method, problem, iterations) for label, method in methods.items()}


def _decoding(state: Any) -> float | None:
    """Return the value of the latest decoding, None where there is none or its sum is too large to be exact."""
    incumbent = state.incumbent
    if incumbent is None or (incumbent.evaluator is not None and not incumbent.evaluator.is_exact):
        return None
    return float(incumbent.latest)
