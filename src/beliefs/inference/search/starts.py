"""Where to start a search: a stream of joint states, the most promising first, that never ends.

1. The rounded beliefs of belief propagation, plain and damped.
2. A MAP state of the whole model by max-product: its part of the query is often close to the best.
3. Sequential conditioning.
4. A better MAP state, by a search of its own.
5. Rounded beliefs again, with Gumbel noise on their logs, so that every state differs; in models with hard zeros some
   are plain possible states.

What fails (messages that find no state, effort spent) is passed over.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from beliefs.deadline import Allowance, OutOfTime
from beliefs.errors import BeliefsError, BudgetError
from beliefs.inference.base import Problem, Task
from beliefs.inference.run import ask
from beliefs.inference.search.feasible import EFFORT, feasible_state
from beliefs.inference.search.icm import icm
from beliefs.inference.search.query_value import conditioned_bytes
from beliefs.inference.search.sequential import log_beliefs, rounded, sequential_conditioning
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.typing import Floats, Ints

__all__ = ["Starts"]

_WORK = 1e9  # cells that the messages of one start may read
_ITERATIONS = 100
_MOVES = 80
_ROUNDS = 4
_DAMPED = "bp(damping=0.5)"
_SHARE = 0.1  # of the time left that one start may take


class Starts:
    """Starts of one problem; the same stream for the same seed, as long as no time is measured.

    Parameters
    ----------
    query : ndarray
        The variables whose states are sought.
    spare : float
        Bytes beside those of messages on the model itself.
    """

    def __init__(self, problem: Problem, query: Ints, seed: int, spare: float = math.inf) -> None:
        self.problem, self.query, self.seed, self.spare = problem, query, seed, spare
        self.count = 0
        self.random = np.random.default_rng([seed, 1])
        self._scores: dict[str, Floats | None] = {}
        cells = max(1, int(problem.graph.layout.table_ptr[-1]))
        self._iterations = int(np.clip(_WORK / cells, 5, _ITERATIONS))

    def next(self, seconds: float = math.inf) -> Ints:
        """Return the next joint state ``(n_vars,)``, within about a tenth of the ``seconds`` that are left."""
        allowance = Allowance(_SHARE * seconds)
        while True:
            k, self.count = self.count, self.count + 1
            row = self._start(k, allowance)
            if row is not None:
                return row
            if k > 8:  # nothing has found a possible state; then any will do
                return self._improved(self.random.integers(self.problem.graph.layout.card))

    def _start(self, k: int, allowance: Allowance) -> Ints | None:
        graph = self.problem.graph
        if k == 1:
            return self._max_product(allowance)
        if k == 3:
            return self._conditioned(allowance)
        if k == 4 and self.problem.task is Task.MARGINAL_MAP:
            return self._searched(allowance)
        scores = self._beliefs("bp" if k % 4 == 0 else _DAMPED, allowance)
        if k > 4 and scores is not None:
            scores = scores + self.random.gumbel(size=scores.size)
        if scores is None or k % 8 == 7:
            found = feasible_state(graph, self.seed + k, EFFORT // 10)
            return None if found is None else self._improved(found)
        found = rounded(graph, scores, self.seed + k, EFFORT // 10)
        return None if found is None else self._improved(found)

    def _beliefs(self, method: str, allowance: Allowance) -> Floats | None:
        if method not in self._scores:
            self._scores[method] = log_beliefs(self.problem.graph, method, self._iterations, allowance.left)
        return self._scores[method]

    def _improved(self, row: Ints) -> Ints:
        """Coordinate ascent on the joint score, where that is what is asked for."""
        return icm(self.problem.graph, row)[0] if self.problem.task is Task.MAXIMIZE else row

    def _conditioned(self, allowance: Allowance) -> Ints | None:
        graph = self.problem.graph
        if _ROUNDS * conditioned_bytes(graph.layout) > self.spare:  # structures of all rounds are kept
            return None
        return sequential_conditioning(graph, self.query, _ROUNDS, self.seed, _DAMPED, self._iterations, allowance.left)

    def _searched(self, allowance: Allowance) -> Ints | None:
        """Return a MAP state of the whole model after some moves of its own search."""
        from beliefs.inference.search.query_search import QuerySearch  # late: it starts from here

        if whole_search_bytes(self.problem.graph.layout) > self.spare:
            return None
        left = int(min(self.spare, self.problem.max_bytes))
        joint = replace(self.problem, task=Task.MAXIMIZE, query=self.query[:0], max_bytes=left)
        search = QuerySearch(joint, self.seed)
        row = self._max_product(allowance)
        if row is not None:
            search.start(row[search.query])
        search.improve(n_moves=_MOVES, seconds=allowance.left)
        return search.decoding().assignment

    def _max_product(self, allowance: Allowance) -> Ints | None:
        graph = self.problem.graph
        try:
            found = ask(graph, _DAMPED, Task.MAXIMIZE, max_iters=self._iterations, time_limit=allowance.left).decoding
        except (BeliefsError, OutOfTime):
            return None
        return None if graph.log_score(found.assignment) == -math.inf else np.array(found.assignment)


def message_bytes(graph: FactorGraph) -> float:
    """Return the memory of the messages of a start, as they refuse to begin without it; 0 for a trifle."""
    try:
        ask(graph, _DAMPED, max_iters=0, max_bytes=0)
    except BudgetError as error:
        return 0.0 if error.parts is None else error.parts[1]
    except (BeliefsError, OutOfTime):
        pass
    return 0.0


def whole_search_bytes(layout: Layout) -> float:
    """Predict the memory of a search for the best joint state: the plan of its scores, and who touches whom, twice."""
    return 8.0 * (8.0 * layout.n_edges + 3.0 * layout.n_factors + 10.0 * layout.n_vars)
