r"""Local search as a method: real assignments from below, no bound from above.

Starts from rounded beliefs, max-product and sequential conditioning (:mod:`beliefs.inference.search.starts`), then
exact moves of many variables at once, kicks and restarts (:mod:`beliefs.inference.search.query_search`). A step is a
number of moves; the best state so far is the answer. With the whole query free in one move the answer is proved and the
method stops; otherwise it goes on until a limit of the door is met.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Value
from beliefs.inference.base import (
    Bound,
    Decoding,
    Derivative,
    Guarantee,
    Method,
    Problem,
    Task,
    check_possible,
)
from beliefs.inference.budget import over_budget
from beliefs.inference.search.forest_moves import moving_bytes
from beliefs.inference.search.query_search import MOVE_CELLS, QuerySearch
from beliefs.inference.search.query_value import QueryPlan
from beliefs.inference.search.starts import message_bytes
from beliefs.options import check_integer

__all__ = ["LocalSearch"]

_MOST_MOVES = 10**6  # of one step, between two looks at the clock
_TRIFLE = 1_000_000  # bytes that are always there
_MOST, _AMPLE = 64.0, 16.0  # bytes of a number that messages read or write, at most; times that are ample


@dataclass(frozen=True, kw_only=True, repr=False)
class LocalSearch(Method):
    """Large neighbourhood search for MAP and marginal MAP.

    Parameters
    ----------
    moves : int
        Moves in a step.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
    >>> bl.maximize(g, LocalSearch()).states()
    {'x0': '1', 'x1': '1'}
    """

    moves: int = 5

    name: ClassVar[str] = "local_search"
    tasks: ClassVar[tuple[Task, ...]] = (Task.MAXIMIZE, Task.MARGINAL_MAP)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.LOWER)
    derivative: ClassVar[Derivative] = Derivative.NONE
    deterministic: ClassVar[bool] = False
    values_queries: ClassVar[bool] = True
    ends_by_itself: ClassVar[bool] = False
    warm_startable: ClassVar[bool] = True
    cost: ClassVar[str] = "about a million cells a move"
    reference: ClassVar[str] = "shaw1998, park2004"
    iterative: ClassVar[bool] = True
    default_max_iters: ClassVar[int] = 200

    def __post_init__(self) -> None:
        check_integer("moves", self.moves, 1, _MOST_MOVES)

    def init(self, problem: Problem, warm: Any = None) -> QuerySearch:
        """Plan the values; go on from the states of an earlier result where there is one."""
        check_possible(problem.graph)
        needed = _needed_bytes(problem)
        problem.claim(needed)
        needed += _value_bytes(problem)
        if needed > max(problem.max_bytes, _TRIFLE):
            advice = "Raise max_bytes or observe more variables"
            raise over_budget(f"{self.name} needs", needed, problem.max_bytes, advice, " for its starts and sums")
        search = QuerySearch(problem)
        if warm is not None and np.array_equal(warm[0], search.query):
            search.start(warm[1])
        return search

    def step(self, state: QuerySearch) -> float:
        """Make some moves; the residual is 0 where there is nothing left to search, and else 1."""
        state.improve(n_moves=self.moves)
        return 1.0 if state.can_improve else 0.0

    def step_cells(self, problem: Problem) -> float:
        """Count the moves, whose cells are not known before."""
        return MOVE_CELLS * self.moves

    def value(self, state: QuerySearch) -> Value:
        """Return the value of the best states so far."""
        found = state.decoding()
        return Value(found.log_value, found.lower, found.upper)

    def finish(self, state: QuerySearch) -> Decoding:
        """Return the best states."""
        return state.decoding()

    def warm_state(self, state: QuerySearch) -> Any:
        """Return the query and its best states."""
        return state.query, state.states


def _needed_bytes(problem: Problem) -> float:
    """Predict the memory of what every search has: messages of a start, and who touches whom.

    Moves take what the budget leaves, and are made smaller where that is little.
    """
    layout = problem.graph.layout
    rough = _MOST * float(layout.table_ptr[-1] + layout.message_ptr[-1] + layout.n_states + layout.n_edges)
    messages = rough if _AMPLE * rough < problem.max_bytes else message_bytes(problem.graph)  # which takes a while
    return moving_bytes(layout) + messages


def _value_bytes(problem: Problem) -> float:
    """Predict the memory of a value, which the door sets aside for a query, and of the graph of the least region."""
    layout = problem.graph.layout
    if problem.task is Task.MARGINAL_MAP:
        return QueryPlan.of(layout, problem.query).largest_component ** 2 / 8.0
    plan = QueryPlan.of(layout, np.flatnonzero(~layout.observed))
    return plan.n_bytes(layout) + plan.exact_bytes()
