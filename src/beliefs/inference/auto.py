"""What ``method="auto"`` means: exact where the predicted cost fits the budget, else an interval that closes."""

from __future__ import annotations

import math
import time

from beliefs.inference.base import Method, Problem, Task
from beliefs.inference.budget import readable_bytes
from beliefs.inference.exact.cluster_tree import MOST_SECONDS
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.portfolio import Portfolio
from beliefs.inference.sampling.gibbs import Gibbs

__all__ = ["choose"]

_PATIENCE = 600.0  # seconds that auto lets an exact method take when no time limit was given


def choose(problem: Problem, started: float | None = None) -> tuple[Method, str]:
    """Return the method to run and the sentence why; ``started`` is the clock at the call of the door.

    Exact inference is chosen if its memory fits the budget and its time, by prediction, the time limit (ten minutes if
    none was given; a day at most). Otherwise a portfolio of bounds takes the time there is, or a fixed effort; samples
    come from a Markov chain.
    """
    exact = JunctionTree()
    order = exact.planned(problem)
    patience = _PATIENCE if problem.time_limit == math.inf else min(problem.time_limit, MOST_SECONDS)
    if order.seconds > patience:
        obstacle = f"would take {order.duration}, over the time budget of {patience:.3g} s ({order.size})"
        remedy = (
            " (or give a longer time_limit, or ask for junction_tree by name)" if order.seconds < MOST_SECONDS else ""
        )
    else:
        needed = exact.n_bytes(problem)
        if needed <= problem.max_bytes:
            return exact, f"exact inference fits: {order.size}"
        limit = readable_bytes(problem.max_bytes)
        obstacle, remedy = (
            f"needs {readable_bytes(needed)}, over the budget of {limit} ({order.size})",
            " (or raise max_bytes)",
        )
    if problem.task is Task.SAMPLE:
        return Gibbs(), f"exact inference {obstacle}: a Markov chain instead{remedy}"
    portfolio = Portfolio.of(problem, time.perf_counter() if started is None else started)
    return portfolio, f"exact inference {obstacle}: bounds instead{remedy}"
