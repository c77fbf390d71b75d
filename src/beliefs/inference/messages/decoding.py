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
from beliefs.inference.search.feasible import feasible_fallback
from beliefs.inference.search.forest_moves import locally_best
from beliefs.inference.search.query_value import SECONDS, QueryValue, query_value
from beliefs.kernels.messages.decode import best_states
from beliefs.typing import Ints

__all__ = ["decoded", "query_decoding"]

_SHARE = 0.05  # of the time limit that one value may take


def decoded(problem: Problem, tier: Tier, exact: bool, upper: float, n_moves: int | None) -> Decoding:
    """Return a joint state with its score; ``exact`` says that the messages are those of exact max-product.

    ``n_moves`` forest moves improve the state; None stands for what a small model can afford.
    """
    graph = problem.graph
    row = graph.evidence_states.copy()
    tier.decode(row)
    score = float(graph.log_score(row)) if exact else -np.inf
    if not exact:
        row, score = locally_best(graph, row, problem.seed, n_moves)
        better = feasible_fallback(problem, score, lambda start: locally_best(graph, start, problem.seed))
        row, score = better or (row, score)
    of_query = problem.task is Task.MARGINAL_MAP
    answer = row[problem.query] if of_query else row
    if exact:
        return Decoding(answer, score, Bound.EXACT, score, score)
    return Decoding(answer, score, Bound.EXACT if of_query else Bound.ESTIMATE, score, max(score, upper))


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
    budget = (problem.max_bytes, min(SECONDS, share), share)

    def evaluated(states: Ints) -> tuple[Ints, QueryValue]:
        return states, query_value(problem.graph, problem.query, states, *budget)

    states, found = evaluated(states)
    better = feasible_fallback(problem, found.value, lambda row: evaluated(row[problem.query]))
    states, found = better or (states, found)
    return Decoding(states, found.value, found.bound, found.lower, max(upper, found.lower))
