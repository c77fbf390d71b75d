"""From beliefs to real assignments: decode, clean up by local search, and evaluate.

Max-beliefs of a graph with loops may contradict each other, so their maximisers are no solution. Here variables are
decided one after the other, each given those before it; local search then improves the whole, and what is returned is
an assignment with its own score. Where hard zeros leave that at -inf, a search for any possible state helps out.
"""

from __future__ import annotations

import numpy as np

from beliefs.inference.base import Bound, Decoding, Problem, Task
from beliefs.inference.messages.log_messages import LogMessages
from beliefs.inference.messages.tiers import Tier
from beliefs.inference.rounding import UNIT
from beliefs.inference.search.feasible import feasible_fallback
from beliefs.inference.search.forest_moves import MOST_MOVES, affordable_moves, forest_moves, locally_best
from beliefs.inference.search.icm import icm
from beliefs.inference.search.query_value import SECONDS, QueryValue, query_value
from beliefs.kernels.messages.decode import best_states
from beliefs.kernels.messages.log import TIE
from beliefs.model.layout import Layout
from beliefs.typing import Ints

__all__ = ["Moves", "decoded", "query_decoding"]

_EQUAL = 32.0 * UNIT  # of all potentials together: scores of exact messages that rounding alone may tell apart
_SHARE = 0.05  # of the time limit that one value may take
_ITERATIONS_A_MOVE = 160  # on large models, where a move takes as long as 40
_FIRST_STEPS = 8  # iterations before the first move there: decodings become better too fast for it to be worth while


class Moves:
    """Forest moves that go with messages: many after each decoding on small models, else one for some iterations.

    Decodings of a large model differ little, and a move is worth more than the difference: so moves go on from the best
    state so far.
    """

    def __init__(self, layout: Layout) -> None:
        self.affordable = affordable_moves(layout)
        self.n_made = self.due = 0
        self.best: Ints | None = None
        self.score = -np.inf

    def allow(self, n_steps: int, settled: bool) -> None:
        """Say how many iterations have been made, and whether they have settled."""
        begun = settled or n_steps >= _FIRST_STEPS
        earned = self.affordable + n_steps // _ITERATIONS_A_MOVE if begun else 0
        self.due = min(earned - self.n_made, max(self.affordable, 1))

    def made(self, problem: Problem, row: Ints) -> tuple[Ints, float]:
        """Return a joint state after coordinate ascent and the moves that are due, or the best one after them."""
        graph, n_moves = problem.graph, self.due
        if self.affordable == MOST_MOVES:
            return locally_best(graph, row, problem.seed, MOST_MOVES)
        row, score = icm(graph, row)
        if n_moves > 0:
            start = self.best if self.best is not None and self.score >= score else row
            row, score = forest_moves(graph, start, problem.seed + self.n_made, n_moves)
            self.n_made += n_moves
        if self.best is None or score > self.score:
            self.best, self.score = row, score
        return row, score


def decoded(problem: Problem, tier: Tier, exact: bool, upper: float, moves: Moves) -> Decoding:
    """Return a joint state with its score; ``exact`` says that the messages are those of exact max-product."""
    graph = problem.graph
    row = graph.evidence_states.copy()
    tier.decode(row, _rounding_tie(tier) if exact else TIE)
    score = float(graph.log_score(row)) if exact else -np.inf
    if not exact:
        row, score = moves.made(problem, row)
        better = feasible_fallback(problem, score, lambda start: locally_best(graph, start, problem.seed))
        row, score = better or (row, score)
    of_query = problem.task is Task.MARGINAL_MAP
    answer = row[problem.query] if of_query else row
    if exact:
        return Decoding(answer, score, Bound.EXACT, score, score)
    return Decoding(answer, score, Bound.EXACT if of_query else Bound.ESTIMATE, score, max(score, upper))


def _rounding_tie(tier: Tier) -> float:
    """Return how far apart rounding may have moved two equal scores: what is proved optimal must not give more away."""
    return min(TIE, _EQUAL * (1.0 + tier.spec.magnitude))


def query_decoding(problem: Problem, logs: LogMessages, upper: float) -> Decoding:
    """Return the states of largest belief of the query's variables, with the value of summing out the others.

    The value may take far longer than the messages. Where it is not asked for it is ``-inf``, a lower bound; hard zeros
    may exclude the states, so with them it is always computed.
    """
    states = np.empty(problem.query.size, np.int64)
    best_states(problem.graph.layout.state_ptr, logs.sums.finite, logs.sums.zeros, problem.query, states)
    if not (problem.values_states or (problem.graph.theta == -np.inf).any()):
        return Decoding(states, -np.inf, Bound.LOWER, -np.inf, upper)
    share = _SHARE * problem.time_limit
    budget = (problem.bytes_for_values, min(SECONDS, share), share)

    def evaluated(states: Ints) -> tuple[Ints, QueryValue]:
        return states, query_value(problem.graph, problem.query, states, *budget)

    states, found = evaluated(states)
    better = feasible_fallback(problem, found.value, lambda row: evaluated(row[problem.query]))
    states, found = better or (states, found)
    return Decoding(states, found.value, found.bound, found.lower, max(upper, found.lower))
