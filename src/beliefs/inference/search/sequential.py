r"""From beliefs to states: rounding, and sequential conditioning.

*Rounding* takes the best state of each variable; where hard zeros forbid that, a search decides the variables one after
the other, the most certain first, with what they imply (:mod:`beliefs.inference.search.feasible`).

*Sequential conditioning* (decimation [montanari2007]) computes beliefs, fixes a share of the query's variables, those
that are most certain, conditions on them, and computes beliefs again, until all are fixed. The states that are fixed
are those of a rounded joint state, so that they never contradict each other.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.deadline import Allowance, OutOfTime
from beliefs.errors import BeliefsError
from beliefs.inference.base import Method
from beliefs.inference.run import ask
from beliefs.inference.search.feasible import EFFORT, feasible_state
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats, Ints

__all__ = ["log_beliefs", "rounded", "sequential_conditioning"]


def rounded(graph: FactorGraph, scores: Floats, seed: int = 0, effort: int = EFFORT) -> Ints | None:
    """Return a joint state of positive weight near the best state of each variable, ``(n_vars,)``.

    Parameters
    ----------
    scores : ndarray (n_states,)
        Log beliefs, or any other scores of the variables' states, as ``mu_var`` is laid out; ``-inf`` is allowed.
    seed, effort : int
        As in :func:`feasible_state`, for models with hard zeros; None says that the effort was spent.

    Examples
    --------
    >>> g = FactorGraph.from_tables([2, 2], [((0, 1), [[0, 1], [1, 0]])])
    >>> rounded(g, np.log([0.1, 0.9, 0.4, 0.6]))
    array([1, 0])
    """
    return feasible_state(graph, seed, effort, np.maximum(scores, -1e300))


def sequential_conditioning(
    graph: FactorGraph,
    query: Ints,
    rounds: int = 8,
    seed: int = 0,
    method: Method | str = "bp",
    max_iters: int = 50,
    seconds: float = math.inf,
) -> Ints | None:
    """Return a joint state ``(n_vars,)`` whose part of the ``query`` was fixed in rounds, most certain first.

    Cost: one run of the ``method``, of ``max_iters`` iterations, a round. Returns what was reached where a run fails or
    the ``seconds`` are over, None where no state of positive weight was found.
    """
    row, given, left = None, graph, query
    allowance = Allowance(seconds)
    for k in range(rounds):
        share = allowance.share(rounds - k)
        if row is not None and share <= 0:
            break
        scores = log_beliefs(given, method, max_iters, share)
        found = None if scores is None else rounded(given, scores, seed + k)
        if scores is None or found is None:
            break
        row = found
        top = np.maximum.reduceat(scores, graph.layout.state_ptr[:-1])[left]
        fixed = left[np.argsort(-top, kind="stable")[: -(-left.size // (rounds - k))]]
        given = given.condition({int(v): int(row[v]) for v in fixed})
        left = np.setdiff1d(left, fixed)
        if left.size == 0:
            break
    return row


def log_beliefs(graph: FactorGraph, method: Method | str, max_iters: int, seconds: float) -> Floats | None:
    """Return the logs of the marginals by some method, ``(n_states,)``, None where it fails."""
    try:
        found = ask(graph, method, max_iters=max_iters, time_limit=seconds).marginals
    except (BeliefsError, OutOfTime):
        return None
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(found.mu_var)
    return logs
