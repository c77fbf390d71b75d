"""What ``method="auto"`` means: exact where the predicted cost fits the budget, else an interval that closes."""

from __future__ import annotations

import math

from beliefs.deadline import now
from beliefs.inference.base import Method, Problem, Task
from beliefs.inference.budget import readable_bytes
from beliefs.inference.clusters.cluster_tree import MOST_SECONDS
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.orders.orders import duration
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout

__all__ = ["EXACT_SHARE", "INSTEAD", "at_once", "choose", "exact_method", "instead_of_exact"]

EXACT_SHARE = 0.7  # of a time limit that exact inference may take; the rest is for bounds if that was not enough
INSTEAD = {task: "a Markov chain instead" if task is Task.SAMPLE else "bounds instead" for task in Task}
_EXACT = JunctionTree()
_PATIENCE = 600.0  # seconds that auto lets an exact method take when no time limit was given


def choose(problem: Problem) -> tuple[Method, str]:
    """Return the method to run and the sentence why.

    Exact inference is chosen if its memory fits the budget and its time, by prediction, most of the time limit (ten
    minutes if none was given; a day at most). Otherwise a portfolio of bounds takes the time there is, or a fixed
    effort; samples come from a Markov chain.
    """
    if not isinstance(problem.model, FactorGraph):
        from beliefs.inference.boltzmann.auto import choose_for_machine

        return choose_for_machine(problem)
    began, exact = now(), _EXACT
    order = exact.planned(problem)
    patience = _PATIENCE if problem.time_limit == math.inf else min(EXACT_SHARE * problem.time_limit, MOST_SECONDS)
    seconds = exact.seconds(problem, order, max(patience, _PATIENCE))
    if seconds > patience:
        allowed = min(problem.time_limit, MOST_SECONDS) if problem.time_limit < math.inf else _PATIENCE
        part = "over" if seconds > allowed else "most of"
        obstacle = f"would take {duration(seconds)}, {part} the time budget of {allowed:.3g} s ({order.size})"
        remedy = " (or ask for junction_tree by name)" if problem.time_limit == math.inf else " (or raise time_limit)"
        remedy = remedy if seconds < MOST_SECONDS else ""
    else:
        needed = exact.n_bytes(problem, order)
        if needed <= problem.max_bytes:
            return exact, f"exact inference fits: {order.size}"
        limit = readable_bytes(problem.max_bytes)
        obstacle, remedy = (
            f"needs {readable_bytes(needed)}, over the budget of {limit} ({order.size})",
            " (or raise max_bytes)",
        )
    return instead_of_exact(problem, began), f"exact inference {obstacle}: {INSTEAD[problem.task]}{remedy}"


def exact_method(layout: Layout) -> Method:
    """Return the exact method for a structure: one sweep of messages on forests, else a junction tree."""
    from beliefs.inference.messages.bp import BP
    from beliefs.inference.messages.schedule import is_forest

    return BP() if is_forest(layout) else JunctionTree()


def instead_of_exact(problem: Problem, began: float | None = None) -> Method:
    """Return what answers where exact inference does not; its time limit counts from ``began``, or from now.

    Its methods are loaded here: where exact inference fits, nobody waits for them.
    """
    if not isinstance(problem.model, FactorGraph):
        from beliefs.inference.boltzmann.auto import at_any_time

        return at_any_time(problem)
    from beliefs.inference.portfolio.portfolio import Portfolio
    from beliefs.inference.sampling.gibbs import Gibbs

    if problem.task is Task.SAMPLE:
        return Gibbs()
    return Portfolio.of(problem, now() if began is None else began)


def at_once(problem: Problem) -> Method:
    """Return what answers where there was no time even for a start: the first iterate of one method."""
    if problem.task is Task.SAMPLE or not isinstance(problem.model, FactorGraph):
        return instead_of_exact(problem)
    from beliefs.inference.portfolio.portfolio import Portfolio

    return Portfolio.at_once(problem)
