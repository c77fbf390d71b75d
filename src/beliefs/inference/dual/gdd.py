r"""Generalised dual decomposition: a bound on sums, maxima and any mixture that never increases.

A power sum with temperatures :math:`\tau` is split over the clusters :math:`c` and separators :math:`s` of a junction
graph. With cost shifts :math:`\delta_s^c(x_s)` and weights that add up to the temperatures, Eqs. (3.2)-(3.3)
[ping2015], [ping2016]:

.. math::
    L(\delta, w) = \sum_s V_{w^s}\Bigl(\theta_s + \sum_{c \supseteq s} \delta_s^c\Bigr)
        + \sum_c V_{w^c}\Bigl(\theta_c - \sum_{s \subseteq c} \delta_s^c\Bigr) \;\ge\; \Phi_\tau(\theta), \qquad
    \sum_{s \ni i} w_i^s + \sum_{c \ni i} w_i^c = \tau_i, \; w \ge 0

where :math:`V_w` is the power sum along the order of elimination, weight 0 the maximum. :math:`L` is jointly convex and
a bound at every feasible :math:`(\delta, w)`. One iteration updates every separator once, forward or backward along the
order: in closed form where only maxima are left (and where a separator comes last in all its clusters), otherwise by a
step towards equal marginals and one towards equal conditional entropies; see :mod:`beliefs.kernels.dual.blocks`. Every
block update is accepted only if the bound does not increase. Separators without a common cluster are updated side by
side.

By default clusters are the factors and separators the variables; ``ibound`` makes them mini-buckets and their messages'
scopes (Section 3.5 [ping2016]), tighter and exponentially dearer.

Guarantee: an upper bound at every iterate, monotone. Exact, up to the floor of the weights, where nothing is split: on
forests with orders of width 1, and once ``ibound`` reaches the width. For pairwise sums the optimum in :math:`\delta`
is the tree-reweighted bound whose counting numbers are the weights of the earlier endpoints. Cost: a few ``exp`` a cell
of all clusters, an iteration. Failure: weights near 0 make :math:`L` nearly non-smooth, and block updates may then stop
above the optimum (``floor``, ``spread``, or ``solver="lbfgs"`` help).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from beliefs.deadline import OutOfTime
from beliefs.driver import Value
from beliefs.inference.base import (
    Bound,
    Decoding,
    Guarantee,
    Marginals,
    Method,
    Problem,
    Task,
    observed_point_masses,
)
from beliefs.inference.buckets.bucket_order import few_later_neighbours, ordered_tree
from beliefs.inference.budget import over_budget
from beliefs.inference.clusters.junction_graph import JunctionGraph
from beliefs.inference.clusters.partition import MiniBuckets, check_ibound, partition
from beliefs.inference.dual.joint import JointDescent
from beliefs.inference.dual.pair_tables import PairTables, scratch_bytes
from beliefs.inference.dual.state import DualWarmStart, SplitTables, answer_bytes, bucket_bytes, split_bytes
from beliefs.inference.orders.chosen import check_order, chosen_order
from beliefs.inference.orders.planned import planned_order
from beliefs.inference.orders.search import BITS_LIMIT
from beliefs.inference.rounding import widened
from beliefs.inference.search.forest_moves import moving_bytes
from beliefs.inference.search.incumbent import Incumbent
from beliefs.inference.temperatures import chosen_temperatures, power_sum_bound
from beliefs.kernels.dual.order import fewest_factors_order
from beliefs.model.layout import Layout
from beliefs.options import check_integer, check_option, is_number, is_word
from beliefs.typing import Floats, Ints

__all__ = ["GDD"]

_MOST_CELLS = 2.0**40
_MOST_STEPS = 10_000  # of one update, which nothing interrupts
_TRY_CELLS = 2e6  # of the model: larger ones are not swept twice to choose an order
_DECODE_CELLS = 100_000  # larger models are decoded after 1, 2, 4, 8, ... sweeps, beside plain rounding
_TRIFLE = 1_000_000  # bytes that are always there
_WINDOW = 4  # sweeps over which the bound must have settled
_REFRESH = 32  # iterations after which the bound is computed anew, not by differences


@dataclass(eq=False)
class GddState:
    """The iterate, its bound as computed, the certified one with its rounding error, and the best assignment met."""

    problem: Problem
    split: SplitTables
    incumbent: Incumbent | None
    bound: float
    upper: float = math.inf
    rounding: float = 0.0
    joint: JointDescent | None = None
    n_steps: int = 0
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))


@dataclass(frozen=True, kw_only=True, repr=False)
class GDD(Method):
    """Generalised dual decomposition.

    Parameters
    ----------
    ibound : int or None
        Variables in a message, at least 1; None takes the factors themselves as clusters.
    order : str or sequence of variables
        A heuristic as in :class:`JunctionTree`, or all unobserved variables, first eliminated first. ``"auto"`` tries
        some, of little fill, few later neighbours or few later factors: the bound depends on the order.
    solver : str
        ``"blocks"``, separator after separator, or ``"lbfgs"``, one quasi-Newton step on everything an iteration: a
        slow start, but it goes on where block updates stop. Both decrease the bound at every iteration.
    weights : bool
        Whether weights move; they start as those of weighted mini-bucket with uniform weights.
    floor : float
        Least weight of a summed variable in any term, in [0, 0.1].
    spread : float or None
        Share of each temperature that is first spread evenly over all terms, in [0, 1]: a smoother bound. None: 0.2,
        or 0 with an i-bound and where no variable is split.
    local_steps : int
        Steps on the shifts of a summed separator in an update.
    tau : array_like (n_vars,) or None
        Temperatures of a power sum, at least 0; None takes those of the question.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.datasets.make_ising_grid(6, seed=0)
    >>> answer = bl.infer(g, "gdd")
    >>> answer.bound.name, bool(answer.log_z >= bl.infer(g).log_z), bool((np.diff(answer.trace.upper) <= 0).all())
    ('UPPER', True, True)
    """

    ibound: int | None = None
    order: str | Sequence[Any] = "auto"
    solver: str = "blocks"
    weights: bool = True
    floor: float = 0.002
    spread: float | None = None
    local_steps: int = 1
    tau: Any = None

    name: ClassVar[str] = "gdd"
    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER, Task.MAXIMIZE, Task.MARGINAL_MAP)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.UPPER)
    price: ClassVar[float] = 40.0
    warm_startable: ClassVar[bool] = True
    any_temperatures: ClassVar[bool] = True
    values_queries: ClassVar[bool] = True
    variants: ClassVar[Mapping[Task, tuple[str, ...]]] = {
        Task.INFER: (
            "",
            "solver=lbfgs",
        ),
        Task.MAXIMIZE: ("",),
    }
    cost: ClassVar[str] = "cells a sweep (exponential in ibound)"
    reference: ClassVar[str] = "ping2015, ping2016"
    iterative: ClassVar[bool] = True
    residual_of: ClassVar[str] = "bound"
    default_tol: ClassVar[float] = 1e-6
    default_max_iters: ClassVar[int] = 100

    def __post_init__(self) -> None:
        check_ibound(self.ibound)
        check_order(self.order)
        check_option(is_word(self.solver, ("blocks", "lbfgs")), "solver", "blocks or lbfgs", self.solver)
        check_option(isinstance(self.weights, bool), "weights", "True or False", self.weights)
        check_option(is_number(self.floor) and 0 <= self.floor <= 0.1, "floor", "in [0, 0.1]", self.floor)
        ok = self.spread is None or (is_number(self.spread) and 0 <= self.spread <= 1)
        check_option(ok, "spread", "None or in [0, 1]", self.spread)
        check_integer("local_steps", self.local_steps, 1, _MOST_STEPS)

    # -- the verbs --------------------------------------------------------------------------------------------------
    def init(self, problem: Problem, warm: DualWarmStart | None = None) -> GddState:
        """Plan the junction graph, check the budget, split the model."""
        split, resumed = self._split(problem, warm)
        incumbent = None if problem.task is Task.INFER else Incumbent(problem)
        state = GddState(problem, split, incumbent, split.value())
        if self.solver == "lbfgs":
            state.joint = JointDescent(split, float(self.floor), self.weights)
        state.recent.extend(warm.recent if resumed and warm is not None else [1.0] * _WINDOW)
        self._certify(state, split.drift.fresh())
        self._offer(state)
        return state

    def step(self, state: GddState) -> float:
        """Update every separator; return the relative decrease of the bound in the last four sweeps, two each way."""
        before, split = state.bound, state.split
        state.n_steps += 1
        if state.joint is not None:
            state.bound = min(before, state.joint.step())
            self._certify(state, split.drift.rebuilt())
        else:
            decrease = split.sweep(self.local_steps, self.weights, state.problem.threads)
            if state.n_steps % _REFRESH == 0 or split.drift.due:
                state.bound = split.value()
                self._certify(state, split.drift.fresh())
            else:
                state.bound = min(before, before - decrease)
                self._certify(state, split.drift.running())
        self._offer(state)
        state.recent.append((before - state.bound) / max(1.0, abs(state.bound)))
        return sum(state.recent)

    def value(self, state: GddState) -> Value:
        """Return the bound (of maxima, the value of the latest assignment) and the certified interval."""
        means = power_sum_bound(state.problem, state.split.tau) if self.tau is not None else Bound.EXACT
        upper = state.upper if means in (Bound.EXACT, Bound.UPPER) else math.inf
        if state.incumbent is None:
            return Value(state.upper, -math.inf, upper, state.rounding)
        return Value(state.incumbent.latest, state.incumbent.best.lower, upper, state.rounding)

    def finish(self, state: GddState) -> Marginals | Decoding:
        """Return the bound with its beliefs, or the best assignment."""
        value = self.value(state)
        if state.incumbent is not None:
            state.incumbent.offer(state.split.decoded())
            return state.incumbent.decoding(value)
        mu_var, mu_factor = state.split.marginals()
        mu_var += observed_point_masses(state.problem.graph)
        bound = Bound.UPPER if value.upper < math.inf else Bound.ESTIMATE
        return Marginals(state.upper, bound, mu_var, mu_factor, -math.inf, value.upper)

    def warm_state(self, state: GddState) -> DualWarmStart:
        """Return the shifts of all tables and the weights."""
        return state.split.warm_start(tuple(state.recent))

    def _certify(self, state: GddState, error: float) -> None:
        """Keep the least of the bounds so far, each moved by its rounding error."""
        upper = widened(state.bound, error, Bound.UPPER)
        if upper < state.upper:
            state.upper, state.rounding = upper, error

    # -- parts ------------------------------------------------------------------------------------------------------
    def _split(self, problem: Problem, warm: DualWarmStart | None) -> tuple[SplitTables, bool]:
        """Return the tables to go on from, and whether they are those of an earlier result.

        Where the order is left to us and changes the bound, several are tried; two sweeps tell which is best.
        """
        tau, spread = chosen_temperatures(problem, self.tau), self.spread
        if spread is None and self.ibound is not None:
            spread = 0.0
        plans = self._plans(problem, tau)
        if warm is not None:
            plans.sort(key=lambda plan: not (plan() is warm.graph or plan().equals(warm.graph)))
        best, least = None, math.inf
        for number, plan in enumerate(plans):
            graph = plan()
            kind = PairTables if self.solver == "blocks" and PairTables.fits(graph) else SplitTables
            if number == 0:
                self._check_budget(problem, graph)
            split = kind(problem.graph, graph, tau, float(self.floor), spread)
            if warm is not None and split.resume(warm):
                return split, True
            if len(plans) == 1 or (number == 0 and not self._fits(problem, graph, len(plans))):
                return split, False
            try:
                for _ in range(2):
                    split.sweep(self.local_steps, self.weights, problem.threads)
                value = split.value()
            except OutOfTime:  # any of them will do
                return best or split, False
            if value < least or best is None:
                best, least = split, value
        assert best is not None
        return best, False

    def _plans(self, problem: Problem, tau: Floats) -> list[Callable[[], JunctionGraph]]:
        """Return the junction graphs to try, made when called and kept on the layout."""
        layout = problem.graph.layout
        if self.ibound is not None:
            buckets = self._buckets(problem, tau, self.ibound)
            return [partial(layout.plan, JunctionGraph.of_buckets, buckets)]
        free = isinstance(self.order, str) and self.order == "auto"
        listed = _orders(problem, tau) if free else [chosen_order(problem, self.order).order]
        return [partial(layout.plan, JunctionGraph.of_factors, order) for order in listed]

    def _buckets(self, problem: Problem, tau: Floats, ibound: int) -> MiniBuckets:
        """Return the mini-buckets of the given order, or of the better of two; their tables must fit."""
        layout, order = problem.graph.layout, chosen_order(problem, self.order)
        first = layout.plan(partition, order, ibound)
        needed = bucket_bytes(first)
        if needed > max(problem.max_bytes, _TRIFLE) or first.n_cells > _MOST_CELLS:
            demand = f"{self.name} with ibound={ibound} needs"
            raise over_budget(demand, needed, problem.max_bytes, "Lower ibound or raise max_bytes", " for tables")
        return ordered_tree(problem, self.order, ibound, tau, self.name, n_arrays=1).buckets

    def _check_budget(self, problem: Problem, graph: JunctionGraph) -> None:
        needed = self._n_bytes(problem, graph)
        problem.claim(needed)
        if needed > max(problem.max_bytes, _TRIFLE):
            advice = "Raise max_bytes" + ("" if self.ibound is None else ", or lower ibound")
            raise over_budget(f"{self.name} needs", needed, problem.max_bytes, advice, " for tables")

    def _fits(self, problem: Problem, graph: JunctionGraph, n_orders: int) -> bool:
        """Whether several orders may be tried: all graphs are kept, and two sets of tables live side by side."""
        return self._n_bytes(problem, graph, n_orders) <= max(problem.max_bytes, _TRIFLE)

    def _n_bytes(self, problem: Problem, graph: JunctionGraph, n_orders: int = 1) -> float:
        pairs = self.solver == "blocks" and PairTables.fits(graph)
        held = split_bytes(graph, pairs=pairs, joint=self.solver == "lbfgs")
        held += scratch_bytes(graph) if pairs else 0.0
        answer = answer_bytes(graph, problem.graph.layout, marginals=problem.task is Task.INFER)
        layout = problem.graph.layout  # which keeps what is asked of it: who touches whom
        touching = moving_bytes(layout) if problem.task is Task.MAXIMIZE else 24.0 * layout.n_edges
        return n_orders * graph.n_bytes + min(n_orders, 2) * held + answer + touching

    def _offer(self, state: GddState) -> None:
        """Offer the variables' own maximisers and, now and then on large models, states chosen one given the others."""
        if state.incumbent is not None:
            state.incumbent.offer(state.split.rounded())
            small = int(state.split.graph.n_cells) <= _DECODE_CELLS
            if small or state.n_steps & (state.n_steps - 1) == 0:
                state.incumbent.offer(state.split.decoded())


def _orders(problem: Problem, tau: Floats) -> list[Ints]:
    """Return orders to try: few later neighbours and, if the order matters, few later factors, and little fill.

    Fill is left alone in models so large that the search for it may take more memory than all the rest.
    """
    layout, found = problem.graph.layout, [few_later_neighbours(problem).order]
    if (tau == 0).all() or float(layout.table_ptr[-1]) > _TRY_CELLS:
        return found
    others = [layout.plan(_few_later_factors, problem.query)]
    if layout.n_vars <= BITS_LIMIT:
        others.append(planned_order(problem, "min_degree").order)
    for order in others:
        if not any(np.array_equal(order, other) for other in found):
            found.append(order)
    return found


def _few_later_factors(layout: Layout, query: Ints) -> Ints:
    stage = np.zeros(layout.n_vars, np.int64)
    stage[query] = 1
    stage[layout.observed | (layout.degree == 0)] = -1
    order = np.empty(layout.n_vars, np.int64)
    n = fewest_factors_order(layout.scopes, layout.adjacency, stage, order)
    return order[:n].copy()
