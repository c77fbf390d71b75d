r"""The value of a marginal-MAP assignment, the query's variables fixed and all others summed out.

.. math:: Q(x_B) = \log \sum_{x_A} \exp \theta(x_A, x_B)

Conditioning on the query often breaks the cycles that made the question hard, so the sum is computed exactly by a
junction tree whenever its predicted memory and time fit. The plan is kept on the layout: another assignment of the same
query costs the slices and one pass to the roots, many thousand times a second on small trees. Otherwise the value is
*bounded*: from below by mean field over induced trees, from above by tree-reweighted messages, from both sides by
weighted mini-buckets, and belief propagation gives an estimate inside. An assignment that contradicts a hard zero has
the exact value ``-inf``, if that was proved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beliefs.deadline import Allowance, OutOfTime
from beliefs.errors import BeliefsError, ZeroProbabilityError
from beliefs.inference.base import Bound
from beliefs.inference.clusters.operands import gather_rows
from beliefs.inference.run import ask
from beliefs.inference.search.clamped import ClampedTree
from beliefs.inference.search.local_interval import local_interval
from beliefs.kernels.layout import log_scores
from beliefs.kernels.orders.graph import connected_components, primal_graph
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout, frozen_ints
from beliefs.typing import Ints

__all__ = ["SECONDS", "QueryEvaluator", "QueryPlan", "QueryValue", "conditioned_bytes", "query_value"]

SECONDS = 3.0  # predicted time up to which the value is computed exactly
_ITERATIONS = 100  # of each method that bounds it otherwise
_BOUNDS = ("bp", "mean_field(structure=tree)", "trw", "wmb(ibound=8)", "wmb(ibound=8, side=lower)")


@dataclass(frozen=True)
class QueryValue:
    """A value and what it is worth: ``lower <= Q <= upper`` is certain, ``value`` is EXACT, LOWER or an ESTIMATE."""

    value: float
    bound: Bound
    lower: float = -math.inf
    upper: float = math.inf

    @classmethod
    def exact(cls, value: float) -> QueryValue:
        """Return a value that is known exactly."""
        return cls(value, Bound.EXACT, value, value)


@dataclass(frozen=True, eq=False)
class QueryPlan:
    """Structure of all values of one query: the tree of the summed variables, and the factors of the query alone."""

    summed: ClampedTree
    others: tuple[Ints, Ints, Ints]

    @classmethod
    def of(cls, layout: Layout, query: Ints) -> QueryPlan:
        """Return the plan kept on the layout."""
        return layout.plan(cls.build, query)

    @classmethod
    def build(cls, layout: Layout, query: Ints) -> QueryPlan:
        """Plan an order for the variables outside the query."""
        hidden = ~layout.observed
        hidden[query] = False
        free = np.flatnonzero(hidden)
        summed = ClampedTree.build(layout, free, np.zeros(free.size, np.bool_))
        others = np.setdiff1d(np.arange(layout.n_factors), summed.factors)
        ptr, scope = gather_rows(layout.scope_ptr, layout.scope_vars, others)
        starts = layout.cell_ptr[others]
        return cls(summed, (frozen_ints(ptr, "offsets"), frozen_ints(scope, "scopes"), frozen_ints(starts, "starts")))

    def fits(self, max_bytes: float, seconds: float) -> bool:
        """Whether exact values take no more than this memory and this predicted time each."""
        if self.summed.order.seconds > min(seconds, 3600.0) or 8.0 * self.summed.order.total_cells > 2.0**40:
            return False
        return self.exact_bytes() <= max_bytes

    def n_bytes(self, layout: Layout) -> float:
        """Memory of the plan: of the slices and the factors of the query alone, and who touches whom in the whole."""
        local = self.summed.local
        sliced = 3 * local.n_factors + 2 * local.n_edges + 3 * local.n_vars + 2 * local.n_cells
        arrays = (self.summed.factors, self.summed.free, *self.summed.shifts, *self.others)
        return 8.0 * (3 * layout.n_edges + 2 * layout.n_vars + sliced) + sum(array.nbytes for array in arrays)

    @cached_property
    def largest_component(self) -> int:
        """Variables of the largest part of the sums, which moves cannot divide."""
        local = self.summed.local
        alive = np.ones(local.n_vars, np.bool_)
        ptr, adj = primal_graph(local.scope_ptr.copy(), local.scope_vars.copy(), alive)
        members, bounds = np.empty(local.n_vars, np.int64), np.empty(local.n_vars + 1, np.int64)
        count = connected_components(ptr, adj, alive, members, bounds)
        return int(np.diff(bounds[: count + 1]).max(initial=0))

    def exact_bytes(self) -> float:
        """Memory of an exact value besides: the tree, its slots and the potentials of the slices."""
        return self.summed.tree.n_bytes() + 8.0 * self.summed.local.n_cells

    def log_value(self, graph: FactorGraph, row: Ints) -> float:
        """Return Q exactly at the states ``row (n_vars,)`` of the query's variables."""
        score = np.empty(1)
        log_scores(graph.layout.card, *self.others, graph.theta, row[None, :], score)
        return float(score[0]) + self.summed.log_value(graph.theta, row) if score[0] > -np.inf else -np.inf


class QueryEvaluator:
    """Values of many assignments of one query.

    Parameters
    ----------
    query : ndarray
        Unobserved variables by index, each once; none at all gives log Z.
    max_bytes, seconds : int, float
        Up to this memory and predicted time a value is exact.

    Attributes
    ----------
    is_exact : bool
        Whether every value is exact.
    """

    def __init__(self, graph: FactorGraph, query: Ints, max_bytes: int = 2**62, seconds: float = SECONDS) -> None:
        self.graph, self.query = graph, np.array(query, np.int64)
        self.plan = QueryPlan.of(graph.layout, self.query)
        self.max_bytes = max_bytes - int(self.plan.n_bytes(graph.layout))
        self.is_exact = self.plan.fits(self.max_bytes, seconds)
        self._row = np.maximum(graph.evidence_states, 0)

    @property
    def bytes_left(self) -> float:
        """Bytes that an exact value does not take."""
        return max(0.0, self.max_bytes - (self.plan.exact_bytes() if self.is_exact else 0.0))

    def log_value(self, states: Ints) -> float:
        """Return Q at ``states (n_query,)``; only where :attr:`is_exact`."""
        self._row[self.query] = states
        return self.plan.log_value(self.graph, self._row)

    def value(self, states: Ints, time_limit: float = math.inf) -> QueryValue:
        """Return Q exactly where that fits, else bounds, within about ``time_limit`` seconds.

        Where the time limit of the question is over before, bounds are what the tables say one by one.
        """
        if self.is_exact:
            try:
                return QueryValue.exact(self.log_value(states))
            except OutOfTime:
                time_limit = 0.0
        given = self.graph.condition({int(v): int(x) for v, x in zip(self.query, states)})
        return bounded_value(given, self.max_bytes - int(conditioned_bytes(given.layout)), time_limit)


def conditioned_bytes(layout: Layout) -> float:
    """Memory of a conditioned graph: its structure, its potentials and where they come from."""
    return 8.0 * (3.0 * layout.n_factors + layout.n_edges + 2.0 * layout.n_cells + 2.0 * layout.n_vars)


def query_value(
    graph: FactorGraph,
    query: Ints,
    states: Ints,
    max_bytes: int = 2**62,
    seconds: float = SECONDS,
    time_limit: float = math.inf,
) -> QueryValue:
    """Return Q at ``states`` of the variables ``query``, exactly or with bounds.

    Parameters
    ----------
    query, states : ndarray
        Unobserved variables by index, and one state for each; none at all gives log Z.
    max_bytes, seconds : int, float
        Up to this memory and predicted time the value is exact.
    time_limit : float
        Seconds for the bounds, where it is not.

    Examples
    --------
    >>> g = FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
    >>> found = query_value(g, np.array([0]), np.array([1]))
    >>> round(float(np.exp(found.value)), 9), found.bound.name
    (7.0, 'EXACT')
    """
    return QueryEvaluator(graph, query, max_bytes, seconds).value(np.array(states, np.int64), time_limit)


def bounded_value(given: FactorGraph, max_bytes: int = 2**62, time_limit: float = math.inf) -> QueryValue:
    """Return a certified interval around log Z of a conditioned graph, and an estimate inside it.

    Methods that do not take the model, or not within the budget, are left out; all share the time evenly.
    """
    known, estimate = local_interval(given), math.nan
    lower, upper = known.lower, known.upper
    if upper == -math.inf:
        return QueryValue.exact(-math.inf)
    allowance = Allowance(time_limit)
    for k, method in enumerate(_BOUNDS):
        share = allowance.share(len(_BOUNDS) - k)
        try:
            found = _interval(given, method, max_bytes, share)
        except ZeroProbabilityError:
            return QueryValue.exact(-math.inf)
        except (BeliefsError, OutOfTime):
            continue
        if found.bound is Bound.EXACT:
            return found
        lower, upper = max(lower, found.lower), min(upper, found.upper)
        estimate = found.value if math.isnan(estimate) else estimate
    if math.isnan(estimate):
        return QueryValue(lower, Bound.LOWER, lower, max(lower, upper))
    upper = max(lower, upper)  # they may cross by rounding
    return QueryValue(min(max(estimate, lower), upper), Bound.ESTIMATE, lower, upper)


def _interval(given: FactorGraph, method: str, max_bytes: int, seconds: float) -> QueryValue:
    found = ask(given, method, max_iters=_ITERATIONS, time_limit=seconds, max_bytes=max_bytes).marginals
    return QueryValue(found.log_z, found.bound, found.lower, found.upper)
