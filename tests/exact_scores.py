"""The oracle for rounding: distances of a bound from the truth that are right to 1e-13 nats whatever the potentials.

Log scores of joint states are sums of floats, and floats are integers times 2^-1074: Python's integers hold such sums
exactly. Only what is left after the largest score was taken off, ``log sum exp(score - largest) <= log N``, is computed
with floats: each exponential is within 2e-16 of the largest of them and ``fsum`` adds without error, so that for up to
4,096 joint states the distance ``bound - truth`` is wrong by less than 1e-13 nats and two units in its own last place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from beliefs.model import FactorGraph

ERROR = 1e-13  # of a distance, in nats
_ONE = 2**1074
_IMPOSSIBLE = None

Scores = NDArray[np.object_]


def joint_scores(graph: FactorGraph) -> Scores:
    """Log scores times 2^1074 as integers, one axis a variable; None for states of weight zero."""
    card = tuple(int(k) for k in graph.layout.card)
    total = np.zeros(card, object)
    possible = np.ones(card, bool)
    for f in range(graph.n_factors):
        scope = [int(v) for v in graph.layout.scope(f)]
        table = graph.theta[graph.layout.cells(f)].reshape([card[v] for v in scope])
        by_variable = np.argsort(scope)
        shape = [card[v] if v in scope else 1 for v in range(len(card))]
        table = table.transpose(by_variable).reshape(shape)
        whole = np.array([_whole(x) for x in table.ravel()], object).reshape(shape)
        total, possible = total + whole, possible & (table > -np.inf)
    for v, x in graph.evidence.items():
        possible[(slice(None),) * v + (np.arange(card[v]) != x,)] = False
    total[~possible] = _IMPOSSIBLE
    return total


def _whole(x: float) -> int:
    if x == -math.inf:
        return 0
    up, down = float(x).as_integer_ratio()
    return up * (_ONE // down)


def above_sum(bound: float, scores: Scores) -> float:
    """Return ``bound - log(sum(exp(scores)))``."""
    return _above(bound, [s for s in scores.ravel() if s is not _IMPOSSIBLE])


def above_maximum(bound: float, scores: Scores) -> float:
    """Return ``bound - max(scores)``."""
    return _above(bound, [max(s for s in scores.ravel() if s is not _IMPOSSIBLE)])


def above_query(bound: float, scores: Scores, query: Sequence[int]) -> float:
    """Return ``bound - max over the query's states of log(sum(exp(scores)))``."""
    rows = np.moveaxis(scores, query, range(len(query)))
    rows = rows.reshape(math.prod(rows.shape[: len(query)]), -1)
    return min(above_sum(bound, row) for row in rows if any(s is not _IMPOSSIBLE for s in row))


def _above(bound: float, scores: list[int]) -> float:
    top = max(scores)
    rest = math.log(math.fsum(math.exp(float(Fraction(s - top, _ONE))) for s in scores))
    if not math.isfinite(bound):
        return bound
    return float(Fraction(bound) - Fraction(top, _ONE)) - rest
