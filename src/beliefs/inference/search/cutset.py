r"""A lower bound on log Z from the heaviest assignments of a cutset.

Fixing a *w-cutset* B leaves a model whose clusters are small, so that for any states of B the sum over all others is
exact and cheap [bidyuk2007]. The terms of the sum over B are not negative, hence any distinct ones bound it:

.. math:: \log Z \;\ge\; \log \sum_{k} \exp Q(x_B^k), \qquad Q(x_B) = \log \sum_{x_A} \exp \theta(x_A, x_B).

Local search for the largest term (:mod:`beliefs.inference.search.query_search`) meets many large ones on its way; all
of them count. Hard zeros do not hurt: they make the terms few, where mean field cannot leave the state it begins with.

Guarantee: certified and monotone; exact once all terms of positive weight were met. Cost: that of the search; about the
cells of all clusters a term. Failure: where many terms share the weight, it misses about the logarithm of their number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from beliefs.deadline import check_time
from beliefs.driver import Value
from beliefs.errors import UnsupportedError
from beliefs.inference.base import (
    Bound,
    Decoding,
    Derivative,
    Guarantee,
    Marginals,
    Method,
    Problem,
    Samples,
    Task,
    check_possible,
)
from beliefs.inference.clusters.partition import partition
from beliefs.inference.orders.chosen import chosen_order
from beliefs.inference.orders.orders import Order
from beliefs.inference.rounding import certified, magnitude, rounding_error
from beliefs.inference.search.query_search import MOVE_CELLS, QuerySearch
from beliefs.inference.search.query_value import QueryEvaluator
from beliefs.model.layout import Layout
from beliefs.typing import Ints

__all__ = ["CutsetSearch", "cutset"]

_MOST_TERMS = 200_000  # that are remembered


def cutset(layout: Layout, order: Order, log2_cells: float) -> Ints:
    """Return variables without which no cluster of the order has more than ``2**log2_cells`` cells, ascending.

    The one that is in most of the clusters that are still too large goes first, ties to the smallest index.
    """
    buckets = partition(layout, order, max(1, order.width))
    owner = np.repeat(np.arange(buckets.n_clusters), np.diff(buckets.axes_ptr))
    bits, sizes = np.log2(buckets.card)[buckets.axes], buckets.log2_cells.copy()
    chosen: list[int] = []
    while (sizes > log2_cells).any():
        check_time()
        counts = np.bincount(buckets.axes, weights=bits * (sizes > log2_cells)[owner], minlength=buckets.order.size)
        v = int(np.argmax(counts))
        here = buckets.axes == v
        np.subtract.at(sizes, owner[here], bits[here])
        bits[here] = 0.0
        chosen.append(int(buckets.order[v]))
    return np.sort(np.array(chosen, np.int64))


class _Remembering(QueryEvaluator):
    """Keeps the value of every assignment that was evaluated."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.graph, problem.query, problem.max_bytes)
        self.terms: dict[bytes, float] = {}

    @cached_property
    def rounding(self) -> float:
        """The rounding error of a term: no message is larger than all potentials together, and each is added up."""
        planned = self.plan.summed
        entropies = float(np.log(planned.local.card).sum())
        return rounding_error(magnitude(self.graph) + entropies + 1.0, planned.tree.n_roundings + self.graph.n_factors)

    def log_value(self, states: Ints) -> float:
        """Return Q at ``states``, and remember it."""
        value = super().log_value(states)
        if len(self.terms) < _MOST_TERMS and value > -math.inf:
            self.terms[np.ascontiguousarray(states, np.int64).tobytes()] = value
        return value


@dataclass(frozen=True, kw_only=True, repr=False)
class CutsetSearch(Method):
    """Lower bound on log Z by local search over a cutset; a stage of ``auto``, without marginals of its own.

    Parameters
    ----------
    log2_cells : float
        Size of the largest cluster that the cutset leaves, as a power of two.
    moves : int
        Moves of the search in a step.
    """

    log2_cells: float = 14.0
    moves: int = 5

    name: ClassVar[str] = "cutset_search"
    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER,)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.LOWER)
    derivative: ClassVar[Derivative] = Derivative.NONE
    deterministic: ClassVar[bool] = False
    ends_by_itself: ClassVar[bool] = False
    has_marginals: ClassVar[bool] = False
    warm_startable: ClassVar[bool] = True
    cost: ClassVar[str] = "cells of small clusters a move"
    reference: ClassVar[str] = "bidyuk2007"
    iterative: ClassVar[bool] = True

    def init(self, problem: Problem, warm: Any = None) -> QuerySearch:
        """Choose the cutset and plan its values; go on from the states of an earlier search where there is one."""
        graph = problem.graph
        check_possible(graph)
        layout = graph.layout
        query = cutset(layout, chosen_order(problem, "auto"), self.log2_cells)
        if not query.size:
            raise UnsupportedError("there is nothing to cut: exact inference is cheap")
        search = QuerySearch(replace(problem, task=Task.MARGINAL_MAP, query=query))
        search.evaluator = _Remembering(search.problem)
        if not search.evaluator.is_exact:
            raise UnsupportedError("sums outside the cutset do not fit the budget")
        if warm is not None and len(warm) == query.size:
            search.start(warm)
        return search

    def step(self, state: QuerySearch) -> float:
        """Make some moves; the residual is 0 where there is nothing left to search, and else 1."""
        state.improve(n_moves=self.moves, seconds=state.problem.time_limit)
        return 1.0 if state.can_improve else 0.0

    def step_cells(self, problem: Problem) -> float:
        """Count the moves, whose cells are not known before."""
        return MOVE_CELLS * self.moves

    def value(self, state: QuerySearch) -> Value:
        """Return the logarithm of the sum of all terms met."""
        assert isinstance(state.evaluator, _Remembering)
        terms = np.array(list(state.evaluator.terms.values()))
        lower = float(terms.max() + np.log(np.exp(terms - terms.max()).sum())) if terms.size else -math.inf
        return certified(Value(lower, lower), state.evaluator.rounding + rounding_error(1.0, 2 * terms.size + 8))

    def finish(self, state: QuerySearch) -> Marginals | Decoding | Samples:
        """Refuse: the terms met say little about marginals."""
        raise UnsupportedError(f"{self.name} has no marginals")

    def warm_state(self, state: QuerySearch) -> Any:
        """Return the best states."""
        return state.states
