"""What ``method="auto"`` means: exact where the predicted cost fits the budget, else the best approximation."""

from __future__ import annotations

import math

from beliefs.inference.base import Method, Problem, Task
from beliefs.inference.budget import readable_bytes
from beliefs.inference.exact.cluster_tree import MOST_SECONDS
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.messages.bp import BP
from beliefs.inference.messages.trw import TRW
from beliefs.inference.sampling.gibbs import Gibbs

__all__ = ["choose"]

_INSTEAD: dict[Task, tuple[Method, str]] = {
    Task.INFER: (BP(), "an estimate"),
    Task.MAXIMIZE: (TRW(), "a good state with an upper bound"),
    Task.MARGINAL_MAP: (TRW(), "a good state with an upper bound"),
    Task.SAMPLE: (Gibbs(), "a Markov chain"),
}
_PATIENCE = 600.0  # seconds that auto lets an exact method take when no time limit was given


def choose(problem: Problem) -> tuple[Method, str]:
    """Return the method to run and the sentence why.

    Exact inference is chosen if its memory fits the budget and its time, by prediction, the time limit (ten minutes if
    none was given; a day at most).
    """
    exact = JunctionTree()
    order = exact.planned(problem)
    patience = _PATIENCE if problem.time_limit == math.inf else min(problem.time_limit, MOST_SECONDS)
    if order.seconds > patience:
        obstacle = f"would take {order.duration}, over the time budget of {patience:.3g} s ({order.size})"
        remedy = "give a longer time_limit, or ask for junction_tree by name"
    else:
        needed = exact.n_bytes(problem)
        if needed <= problem.max_bytes:
            return exact, f"exact inference fits: {order.size}"
        limit = readable_bytes(problem.max_bytes)
        obstacle, remedy = (
            f"needs {readable_bytes(needed)}, over the budget of {limit} ({order.size})",
            "raise max_bytes",
        )
    method, instead = _INSTEAD[problem.task]
    return method, f"exact inference {obstacle}: {instead} instead (or {remedy})"
