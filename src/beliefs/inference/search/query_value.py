r"""The value of a marginal-MAP assignment, the query's variables fixed and all others summed out.

.. math:: Q(x_B) = \log \sum_{x_A} \exp \theta(x_A, x_B)

Conditioning on the query often breaks the cycles that made the question hard, so the sum is computed exactly by a
junction tree whenever its predicted memory and time fit; otherwise belief propagation gives an estimate (which is exact
too if no cycle is left). An assignment that contradicts a hard zero has the exact value ``-inf``, if that was proved.
"""

from __future__ import annotations

import warnings

import numpy as np

from beliefs.errors import BudgetError, ConvergenceWarning, ZeroProbabilityError
from beliefs.inference.base import Bound, Problem
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.model.graph import FactorGraph
from beliefs.typing import Ints

__all__ = ["query_value"]

SECONDS = 3.0  # predicted time up to which the value is computed exactly


def query_value(
    graph: FactorGraph, query: Ints, states: Ints, max_bytes: int = 2**62, seconds: float = SECONDS
) -> tuple[float, Bound]:
    """Return Q at ``states`` of the variables ``query``, and whether it is EXACT or an ESTIMATE.

    Parameters
    ----------
    query, states : ndarray
        Unobserved variables by index, and one state for each; none at all gives log Z.
    max_bytes, seconds : int, float
        Up to this memory and predicted time the value is exact.

    Examples
    --------
    >>> g = FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
    >>> value, bound = query_value(g, np.array([0]), np.array([1]))
    >>> round(float(np.exp(value)), 9), bound.name
    (7.0, 'EXACT')
    """
    given = graph.condition({int(v): int(x) for v, x in zip(query, states)})
    problem = Problem(given, max_bytes=max_bytes)
    try:
        return _exact(problem) if _fits(problem, seconds) else _estimate(given, max_bytes)
    except ZeroProbabilityError:
        return -np.inf, Bound.EXACT


def _fits(problem: Problem, seconds: float) -> bool:
    tree = JunctionTree()
    try:
        return tree.planned(problem).seconds <= seconds and tree.n_bytes(problem) <= problem.max_bytes
    except BudgetError:
        return False


def _exact(problem: Problem) -> tuple[float, Bound]:
    """Collect to the roots, which is half of the work of marginals."""
    tree = JunctionTree()
    run = tree.init(problem)
    tree.step(run)
    return tree.value(run).log_z, Bound.EXACT


def _estimate(given: FactorGraph, max_bytes: int) -> tuple[float, Bound]:
    from beliefs.inference.doors import infer  # late: the doors import the methods, and some of these evaluate queries

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = infer(given, "bp", max_bytes=max_bytes, max_iters=100)
    return result.log_z, Bound.EXACT if result.bound is Bound.EXACT else Bound.ESTIMATE
