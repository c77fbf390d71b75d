r"""Local search for marginal MAP and MAP by exact moves of many variables at once.

A move frees a random part of the query whose best joint state, the rest of the query fixed and all other variables
summed out, is cheap to find exactly (:mod:`beliefs.inference.search.neighbourhoods`), and takes that state: large
neighbourhood search [shaw1998] on the landscape of :math:`Q(x_B) = \log \sum_{x_A} \exp \theta(x_A, x_B)` [park2004].

1. *Descent*: moves of a small budget first; where a number of them in a row brings nothing the budget is raised.
2. *Kicks* (iterated local search [lourenco2003]): the states of a few neighbours are drawn anew from the model, given
   all others, at a raised temperature, so hard zeros stay satisfied; moves around the place repair it, and the
   result is kept unless it is worse than what was there before.

Guarantee: the best state so far is kept and its value is real; a move that freed the whole query proves the optimum.
Deterministic for a seed and a number of moves. Cost of a move: a millisecond, and its cells. Failure modes: where the
sum of one assignment does not fit the budget nothing is searched, and values are bounds; a query joined by one large
component of sums is moved a few variables at a time.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.deadline import Allowance, check_time, time_left
from beliefs.inference.base import Bound, Decoding, Problem, Task, zero_probability
from beliefs.inference.search.flips import Flips
from beliefs.inference.search.neighbourhoods import Neighbourhood, Neighbourhoods
from beliefs.inference.search.query_value import SECONDS, QueryEvaluator, QueryValue
from beliefs.inference.search.starts import Starts
from beliefs.typing import Ints

__all__ = ["MOVE_CELLS", "QuerySearch"]

MOVE_CELLS = 3e6  # cells of work for a move

_BUDGETS = (2.0**16, 2.0**18, 2.0**20, 2.0**22)  # cells of a move, by level
_LEAST, _BYTES_PER_CELL = 256.0, 32.0  # cells of a move in any case; memory that a cell of a move may take
_SHARE = 0.1  # of the time limit that one value may take
_PATIENCE = (12, 10, 8, 8)  # moves in a row without a gain before the next level
_REPAIRS = 4  # moves after a kick
_KICKS = 4  # without a gain before another start, at first; so many more each time
_MOST_KICKS = 40
_ELITES = 6  # results of descents that are kept
_SMALLEST = 16  # variables of a region
_HEAT = 0.1  # a kick that costs so much of the average loss is accepted with probability exp(-1)
_WHOLE = 0.25  # share of the moves of a descent that look at the whole query
_MANY_SUMS = 2.0**16  # cells of one value beyond which single changes are ranked before they are tried
_SAME = 1e-10  # relative: differences below are rounding


class QuerySearch:
    """Anytime search for the best states of a query; of all variables where the task is to maximise.

    Parameters
    ----------
    problem : Problem
        Of task MARGINAL_MAP or MAXIMIZE.
    seed : int, optional
        Of all random choices; the problem's own by default.
    seconds : float
        Predicted time up to which the value of one assignment is computed exactly.

    Attributes
    ----------
    value : QueryValue
        Of the best states so far, :attr:`states`.
    latest : float
        The value of the present states, which a kick may have made worse.
    is_optimal : bool
        Whether the best states have been proved to be the optimum.
    n_moves : int

    Examples
    --------
    >>> from beliefs.model.graph import FactorGraph
    >>> g = FactorGraph.from_tables([2, 2, 2], [((0, 1), [[1, 2], [3, 4]]), ((1, 2), [[1, 2], [2, 1]])])
    >>> search = QuerySearch(Problem(g, Task.MARGINAL_MAP, np.array([0, 1])))
    >>> search.improve(n_moves=3)
    True
    >>> search.states, search.is_optimal
    (array([1, 1]), True)
    """

    def __init__(self, problem: Problem, seed: int | None = None, seconds: float = SECONDS) -> None:
        self.problem, graph = problem, problem.graph
        hidden = np.flatnonzero(~graph.layout.observed)
        query = problem.query if problem.task is Task.MARGINAL_MAP else hidden
        self.evaluator = QueryEvaluator(
            graph, query, problem.bytes_for_values, min(seconds, _SHARE * problem.time_limit)
        )
        self.query = self.evaluator.query
        self.random = np.random.default_rng(problem.seed if seed is None else seed)
        left = self.evaluator.bytes_left
        self.near = Neighbourhoods(graph.layout, self.query, self.evaluator.plan.summed.order, self.random, left)
        self.states = np.zeros(self.query.size, np.int64)
        self.value = QueryValue(-math.inf, Bound.ESTIMATE)
        self.latest = -math.inf
        self.is_optimal = False
        sums = self.evaluator.plan.summed.order
        self._flips = Flips(graph, self.query, self.evaluator.plan) if sums.total_cells > _MANY_SUMS else None
        most = max(_LEAST, left / _BYTES_PER_CELL)
        self._budgets = tuple(min(b, most) for b in (_BUDGETS if self._flips is None else _BUDGETS[-1:]))
        self.starts = Starts(problem, self.query, problem.seed if seed is None else seed, left)
        self.n_moves = self._level = self._idle = self._fruitless = 0
        self._elites: list[Ints] = []
        self._loss = 0.0
        self._row = np.maximum(graph.evidence_states, 0)
        self._started = False

    # -- the verbs ----------------------------------------------------------------------------------------------
    def start(self, states: Ints | None = None, seconds: float = math.inf) -> bool:
        """Go on from these states ``(n_query,)``, by default the next start; return whether they are the best yet."""
        if states is None:
            states = self.starts.next(seconds)[self.query]
        self._row[self.query] = states
        self.is_optimal |= self.evaluator.is_exact and self.near.movable.size == 0
        self._level = self._idle = self._fruitless = 0
        return self._keep(self.evaluator.value(self._row[self.query], seconds))

    def improve(self, n_moves: int | None = None, seconds: float = math.inf) -> bool:
        """Search for a number of moves or seconds; return whether a better state was found.

        A move is cut off, by OutOfTime, when the time limit of the question is over; the best states so far are kept.
        """
        allowance = Allowance(min(seconds, time_left()))
        gained = not self._started and self.start(seconds=allowance.left)
        while self.can_improve and n_moves != 0 and allowance.left > 0:
            gained |= self._step(allowance.left)
            n_moves = None if n_moves is None else n_moves - 1
        return gained

    @property
    def can_improve(self) -> bool:
        """Whether there is anything left to search."""
        return self.evaluator.is_exact and not self.is_optimal and self.near.movable.size > 0

    def decoding(self, upper: float = math.inf) -> Decoding:
        """Return the best states as the answer of a method, the optimum bounded by ``upper``."""
        if not self._started:
            self.start()
        row = np.maximum(self.problem.graph.evidence_states, 0)
        row[self.query] = self.states
        value, whole = self.value, self.problem.task is Task.MAXIMIZE
        bound = Bound.EXACT if self.is_optimal or not whole else Bound.ESTIMATE
        bound = bound if value.bound is Bound.EXACT else value.bound
        upper = value.value if self.is_optimal else max(upper, value.lower)
        return Decoding(row if whole else self.states.copy(), value.value, bound, value.lower, upper)

    # -- moves --------------------------------------------------------------------------------------------------
    def _step(self, seconds: float) -> bool:
        self.n_moves += 1
        if self._level < len(self._budgets):
            return self._descend()
        if self._fruitless >= min(_KICKS * self.starts.count, _MOST_KICKS):
            return self.start(seconds=seconds)
        gained = self._kick()
        self._fruitless = 0 if gained else self._fruitless + 1
        return gained

    def _descend(self) -> bool:
        if self._flips is not None and self._level == self._idle == 0 and self._climb():
            return self._keep(QueryValue.exact(self.latest))
        before = self.latest
        gained = self._move(
            self.near.draw(self._root(), self._size(self.near.movable.size), self._budgets[self._level])
        )
        self._idle = 0 if self.latest > before + _room(before) else self._idle + 1
        if self._idle >= (_PATIENCE[self._level] if self._flips is None else _REPAIRS):
            self._level, self._idle = self._level + 1, 0
            if self._level == len(self._budgets):
                gained |= self._combine()
        return gained

    def _climb(self) -> bool:
        """Try the single changes that promise most; return whether the value has grown."""
        assert self._flips is not None
        before = self.latest
        self._row, self.latest = self._flips.climb(self._row, before, _room(before))
        return self.latest > before

    def _combine(self) -> bool:
        """Free the variables in which this local maximum differs from others; go on from the best of all."""
        gained, others = False, self._elites
        self._elites = [*others[-_ELITES + 1 :], self._row[self.query]]
        for other in [*others, self.states]:
            differing = self.query[self._row[self.query] != other]
            if differing.size:
                gained |= self._move(self.near.within(differing, self._budgets[-1]))
        self._row[self.query], self.latest, self._level = self.states, self.value.value, len(self._budgets)
        return gained

    def _move(self, hood: Neighbourhood) -> bool:
        """Take the best state of the free part; return whether it is the best so far."""
        row = self._row.copy()
        possible = hood.tree.maximise(self.problem.graph.theta, row)
        if hood.is_whole and not possible:
            raise zero_probability(self.problem.graph)
        if possible and (row != self._row).any():
            value = self.evaluator.log_value(row[self.query])
            if value >= self.latest - _room(value):  # ties move too: plateaus are crossed
                self._row, self.latest = row, value
        self.is_optimal |= hood.is_whole
        return self._keep(QueryValue.exact(self.latest))

    def _kick(self) -> bool:
        """Change a few states at random, repair around them, and go back if that was for the worse."""
        before, value = self._row.copy(), self.latest
        root, size = self._root(), int(self.random.integers(2, _SMALLEST))
        gained = False
        if self._flips is None:
            self._redraw(self.near.draw(root, size, self._budgets[0]))
            for _ in range(_REPAIRS):
                budget = self._budgets[int(self.random.integers(len(self._budgets)))]
                gained |= self._move(self.near.draw(root, self._size(8 * _SMALLEST), budget))
        else:
            region = self.near.region(root, 1 + size // 3)
            self._row[region] = self.random.integers(self.problem.graph.layout.card[region])
            self.latest = self.evaluator.log_value(self._row[self.query])
            while self._climb():
                check_time()
                gained |= self._keep(QueryValue.exact(self.latest))
        loss = value - self.latest
        if loss > _room(value):
            kept = loss < _HEAT * self._loss * self.random.exponential()
            self._loss += 0.1 * (min(loss, 10.0 * self._loss + 1.0) - self._loss)
            if not kept:
                self._row, self.latest = before, value
        return gained

    def _redraw(self, hood: Neighbourhood) -> None:
        """Set the freed part to a state drawn from the model, given all others, at a raised temperature."""
        tree = hood.tree.summing()
        heat = 10.0 ** self.random.uniform(-3.0, 0.0)
        run = tree.solved(heat * self.problem.graph.theta, self._row)
        if run is not None:
            drawn = run.draw(1, int(self.random.integers(2**31)))[0]
            self._row[tree.free[hood.tree.maximised]] = drawn[hood.tree.maximised]
            self.latest = self.evaluator.log_value(self._row[self.query])

    def _root(self) -> int:
        return int(self.near.movable[self.random.integers(self.near.movable.size)])

    def _size(self, most: int) -> int:
        """Return a number of variables: all, or evenly spread in its logarithm."""
        if self.random.random() < _WHOLE:
            return most
        return int(np.exp(self.random.uniform(np.log(_SMALLEST), np.log(max(_SMALLEST, most) + 1.0))))

    def _keep(self, value: QueryValue) -> bool:
        """Take the value of the present states; return whether they are the best so far, by more than rounding."""
        self.latest, best = value.value, self.value.value
        better = not self._started or self.latest > best + _room(best)
        if better or self.latest > best:  # however little: what is proved to be the best must be it
            self.states, self.value = self._row[self.query].copy(), value
        self._started = True
        return better


def _room(value: float) -> float:
    """Return what rounding may change in a value."""
    return _SAME * max(1.0, abs(value)) if value > -math.inf else 0.0
