"""The best assignment that an anytime method has met, and the latest: bounds from below for MAP and marginal MAP.

A method reads an assignment off every iterate and offers it here. Scores of joint states are real at once. The value of
a query's states is computed exactly where the sum over the other variables is tractable; otherwise it is bounded once,
at the end, for that takes a run of approximate inference.
"""

from __future__ import annotations

import math

from beliefs.driver import Value
from beliefs.inference.base import Bound, Decoding, Problem, Task
from beliefs.inference.rounding import meet, widened
from beliefs.inference.search.feasible import feasible_fallback
from beliefs.inference.search.forest_moves import locally_best
from beliefs.inference.search.query_value import QueryEvaluator, QueryValue
from beliefs.typing import Ints

__all__ = ["Incumbent"]

_EVALUATIONS = 2.0  # seconds: queries whose value takes longer, by prediction, are evaluated at the end only
_SHARE, _LAST = 0.01, 0.05  # of the time limit that one value may take; that of the last, where it is only bounded


class Incumbent:
    """Keeps the best of the joint states that are offered.

    Attributes
    ----------
    latest : float
        The value of the last state offered; -inf where it was not computed.
    best : QueryValue
        Of the best state so far.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.evaluator: QueryEvaluator | None = None
        if problem.task is Task.MARGINAL_MAP:
            seconds = min(_EVALUATIONS, _SHARE * problem.time_limit)
            self.evaluator = QueryEvaluator(problem.graph, problem.query, problem.bytes_for_values, seconds)
        self.latest = -math.inf
        self.best = QueryValue(-math.inf, Bound.ESTIMATE)
        self._row: Ints | None = None
        self._seen: dict[bytes, float] = {}

    def offer(self, row: Ints) -> None:
        """Take a joint state ``(n_vars,)``; of marginal MAP only the query's part counts."""
        if self.evaluator is not None and not self.evaluator.is_exact:
            self._row = row
            return
        self.latest = self._value(row)
        if self._row is None or self.latest > self.best.value:
            self._row, self.best = row, QueryValue.exact(self.latest)

    def _value(self, row: Ints) -> float:
        """Return the exact value; one seen before is remembered."""
        if self.evaluator is None:
            return float(self.problem.graph.log_score(row))
        states = row[self.problem.query]
        key = states.tobytes()
        if key not in self._seen:
            self._seen[key] = self.evaluator.log_value(states)
        return self._seen[key]

    def value(self, upper: float, rounding: float) -> Value:
        """Return what is known: the latest value, the best from below, and an upper bound with its rounding error."""
        return Value(self.latest, self.best.lower, widened(upper, rounding, Bound.UPPER), rounding)

    def proved(self, optimum: float) -> Decoding:
        """Return the last state offered, which is a maximiser, with its value."""
        assert self._row is not None
        states = self._row if self.evaluator is None else self._row[self.problem.query]
        return Decoding(states, optimum, Bound.EXACT, optimum, optimum)

    def decoding(self, value: Value) -> Decoding:
        """Return the best state after local search (joint states) and evaluation (queries), below ``value.upper``.

        Where both ends meet up to rounding they are the same number: a proof.
        """
        problem = self.problem
        assert self._row is not None
        if self.evaluator is None:
            self._offer_nearby(self._row)
            feasible_fallback(problem, self.best.value, self._offer_nearby)
            best = self.best.value
            return Decoding(self._row, best, Bound.ESTIMATE, best, _above(best, value))
        found = self.best
        if found.value == -math.inf:
            found = self._evaluated(self._row)
        self.best = found = feasible_fallback(problem, found.value, self._evaluated) or found
        states = self._row[problem.query]
        return Decoding(states, found.value, found.bound, found.lower, _above(found.lower, value))

    def _offer_nearby(self, row: Ints) -> None:
        """Offer a joint state after local search."""
        self.offer(locally_best(self.problem.graph, row, self.problem.seed)[0])

    def _evaluated(self, row: Ints) -> QueryValue:
        """Take a joint state as the answer; return the value of the query's part, or bounds on it."""
        assert self.evaluator is not None
        self._row = row
        return self.evaluator.value(row[self.problem.query], _LAST * self.problem.time_limit)


def _above(lower: float, value: Value) -> float:
    """Return the upper bound; ``lower`` itself where that is the same number up to rounding, or more."""
    return lower if meet(lower, value.upper, value.rounding) else value.upper
