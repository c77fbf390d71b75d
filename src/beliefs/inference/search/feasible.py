r"""A state of positive weight, by search: where to start when some cells are hard zeros.

Depth-first search over the variables of factors with zeros. After every decision, values that some factor no longer
allows are removed until all agree (generalised arc consistency with kept supports [lecoutre2007]); the next variable
is the one with the fewest values left per failure seen at its factors [boussemart2004]; many failures are a new start.

Guarantee: a returned state has positive weight; an error proves that there is none; None says nothing but that the
effort was spent, or that the time is over. Finding one is NP-hard in general; without cycles of hard factors it takes
no backtracking. Cost: one propagation reads each value of each hard factor, and more only where values are removed.
Without hard zeros the state is drawn uniformly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from beliefs.deadline import stop_flag
from beliefs.inference.base import Problem, check_possible, zero_probability
from beliefs.kernels.search.feasible import FOUND, PROVED, HardTables, find_feasible
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.typing import Bools, Floats, Ints

__all__ = ["EFFORT", "best_of_each", "feasible_fallback", "feasible_state"]

T = TypeVar("T")

EFFORT = 300_000_000  # cells read; about a second


def feasible_state(
    graph: FactorGraph, seed: int = 0, effort: int = EFFORT, scores: Floats | None = None
) -> Ints | None:
    """Return a random state of positive weight, ``(n_vars,)``; None if none was found.

    Parameters
    ----------
    seed : int
        Of the random choices; the state is the same for the same seed, and its law is not that of the model.
    effort : int
        Cells of tables that may be read before the search gives up; at least one pass is made.
    scores : ndarray (n_states,), optional
        Log beliefs: the state is then close to the best one of each variable, the most certain decided first.

    Raises
    ------
    ZeroProbabilityError
        If the search has shown that no state has positive weight.

    Examples
    --------
    >>> g = FactorGraph.from_tables([2, 2], [((0, 1), [[0, 1], [0, 0]])])
    >>> feasible_state(g)
    array([0, 1])
    """
    layout = graph.layout
    states = graph.evidence_states.copy()
    check_possible(graph)
    hard = hard_factors(graph)
    generator = np.random.default_rng(seed)
    if not hard.any():
        drawn = generator.integers(layout.card) if scores is None else best_of_each(layout, scores)
        return np.where(states < 0, drawn, states)
    found = find_feasible(
        layout.scopes, layout.adjacency, HardTables(graph.theta, hard, layout.edge_stride, layout.message_ptr),
        np.array([effort], np.int64), stop_flag(), generator.integers(1, 2**63, size=1, dtype=np.uint64),
        np.zeros(0) if scores is None else np.array(scores, np.float64), states,
    )  # fmt: skip
    if found == PROVED:
        raise zero_probability(graph)
    return states if found == FOUND else None


def feasible_fallback(problem: Problem, value: float, evaluate: Callable[[Ints], T]) -> T | None:
    """Return what ``evaluate`` makes of a state of positive weight, where the ``value`` at hand is -inf.

    None where the value is larger already, and where no such state was found.
    """
    start = feasible_state(problem.graph, problem.seed) if value == -np.inf else None
    return None if start is None else evaluate(start)


def best_of_each(layout: Layout, scores: Floats) -> Ints:
    """Return the state of largest score of each variable, ``(n_vars,)``; the smallest index among equals."""
    owner = np.repeat(np.arange(layout.n_vars), layout.card)
    top = np.maximum.reduceat(scores, layout.state_ptr[:-1])
    first = np.flatnonzero(scores == top[owner])
    places = first[np.unique(owner[first], return_index=True)[1]]
    states: Ints = places - layout.state_ptr[:-1]
    return states


def hard_factors(graph: FactorGraph) -> Bools:
    """Return which factors have a cell of ``-inf``, ``(n_factors,)``."""
    layout = graph.layout
    zeros = np.flatnonzero(graph.theta == -np.inf)
    end = layout.cell_ptr + layout.factor_size
    hard: Bools = np.searchsorted(zeros, end) > np.searchsorted(zeros, layout.cell_ptr)
    return hard
