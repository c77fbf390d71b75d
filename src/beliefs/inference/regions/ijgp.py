r"""Iterative join-graph propagation: junction-tree messages on clusters that are kept small [mateescu2010].

Mini-buckets of an elimination order are the clusters, c = 1; where a message would go, and between the mini-buckets of
one variable, clusters share a separator. Beliefs of clusters and separators are updated as in a junction tree,

.. math:: b_S' = \sum_{C \setminus S} b_C, \qquad b_{C'} \leftarrow b_{C'}\, b_S' / b_S \quad \text{for all } C' \ni S,

along the order and back. A separator of n clusters counts 1 - n, which is n - 1 edges of a join graph with one
separator each. Fixed points are those of the Kikuchi free energy of these regions, and the value is
:math:`\sum_C \log Z_C - \sum_S (n_S - 1) \log Z_S`.

``ibound`` is the number of variables in a message, as elsewhere; the literature counts one more. At 1, fixed points on
pairwise models are those of belief propagation; from the width of the order on nothing is split and one iteration is
exact. Between them nothing is promised, neither convergence nor accuracy. Maxima are the same with maxima; a state is
then read off cluster by cluster against the order, and improved by local search.

Cost: cells of all clusters times their separators, twice an iteration. A start takes as much as some twenty iterations,
most of them where hard zeros spread from cluster to cluster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.deadline import check_time
from beliefs.driver import Value
from beliefs.inference.base import Bound, Decoding, Guarantee, Marginals, Method, Problem, Task, check_possible, claimed
from beliefs.inference.budget import over_budget
from beliefs.inference.clusters.junction_graph import JunctionGraph
from beliefs.inference.clusters.partition import MiniBuckets, check_ibound, growing_ibounds, partition
from beliefs.inference.clusters.region_graph import RegionGraph
from beliefs.inference.orders.chosen import check_order, chosen_order
from beliefs.inference.orders.orders import Order
from beliefs.inference.regions.plan import RegionPlan, region_plan
from beliefs.inference.regions.state import RegionState, RegionWarmStart, impossible_beliefs
from beliefs.inference.search.incumbent import Incumbent
from beliefs.model.layout import Layout
from beliefs.options import check_option, is_number
from beliefs.typing import Ints

__all__ = ["IJGP", "JoinGraphState", "join_ibound"]

_WORK = 4e6  # cells of work an iteration, where no i-bound is given: some hundredths of a second
_A_CELL = {Task.INFER: 55.0, Task.MAXIMIZE: 46.0}  # bytes of tables and beliefs, and of what is made of them, measured
_LINK, _REPLICA, _CLUSTER = 1.0, 0.6, 60.0  # such cells for a cluster's cell: a separator, a further replica; a cluster


class JoinGraphState(RegionState):
    """Beliefs of a join graph, the order of its messages, and the best state met."""

    def __init__(self, problem: Problem, buckets: MiniBuckets, plan: RegionPlan, warm: RegionWarmStart | None) -> None:
        alike = warm is not None and warm.scopes == plan.regions.scopes
        maximise = problem.task is Task.MAXIMIZE
        super().__init__(problem, plan, warm.moved if warm is not None and alike else None, maximise)
        self.buckets = buckets
        self.exact = not buckets.split
        if self.exact:
            self.most = math.inf  # one sweep on a tree is the answer: nothing overgrows, and nothing may be forgotten
        by_child = np.argsort(plan.edges.child, kind="stable")
        self.order = np.concatenate([by_child, by_child[::-1]])
        self.incumbent = Incumbent(problem) if maximise else None


@dataclass(frozen=True, kw_only=True, repr=False)
class IJGP(Method):
    """Iterative join-graph propagation.

    Parameters
    ----------
    ibound : int or None
        Variables in a message, at least 1; None takes the largest whose iterations are short, and that fits.
    order : str or sequence of variables
        A heuristic as in :class:`JunctionTree`, or all unobserved variables in a list.
    damping : float in [0, 1)
        Share of the old message in the new one; nothing is damped where one iteration is exact.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.datasets.make_ising_grid(6, seed=0)
    >>> bl.infer(g, "ijgp(ibound=6)").bound.name, bl.infer(g, "ijgp(ibound=2)").bound.name
    ('EXACT', 'ESTIMATE')
    """

    ibound: int | None = None
    order: str | Sequence[Any] = "auto"
    damping: float = 0.0

    name: ClassVar[str] = "ijgp"
    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER, Task.MAXIMIZE)
    guarantee: ClassVar[Guarantee] = Guarantee(
        Bound.ESTIMATE, "exact once ibound reaches the width", also=(Bound.EXACT,)
    )
    cost: ClassVar[str] = "exponential in ibound, a sweep"
    reference: ClassVar[str] = "mateescu2010"
    iterative: ClassVar[bool] = True
    value_is_free: ClassVar[bool] = False
    fixed_point: ClassVar[bool] = True
    warm_startable: ClassVar[bool] = True
    price: ClassVar[float] = 40.0

    def __post_init__(self) -> None:
        check_ibound(self.ibound)
        check_order(self.order)
        check_option(is_number(self.damping) and 0 <= self.damping < 1, "damping", "in [0, 1)", self.damping)

    def init(self, problem: Problem, warm: RegionWarmStart | None = None) -> JoinGraphState:
        """Partition, check the budget and allocate."""
        check_possible(problem.graph)
        layout = problem.graph.layout
        order = chosen_order(problem, self.order)
        ibound = (join_ibound(problem, order, _WORK) or 1) if self.ibound is None else self.ibound
        check_time()
        buckets = layout.plan(partition, order, ibound)
        if buckets.n_cells > 2.0**40:
            advice = "Lower ibound, raise max_bytes or observe more variables"
            raise over_budget(f"ijgp with ibound={ibound} needs", 48 * buckets.n_cells, problem.max_bytes, advice)
        check_time()
        regions, a_cell = join_regions(layout, buckets), _A_CELL[problem.task]
        check_time()
        plan = region_plan(problem, regions, f"ijgp with ibound={ibound}", a_cell=a_cell)
        return JoinGraphState(problem, buckets, plan, warm)

    def step_cells(self, problem: Problem) -> float:
        """Count what messages read, where the i-bound is given."""
        if self.ibound is None:
            return super().step_cells(problem)
        return problem.graph.layout.plan(_size, chosen_order(problem, self.order), self.ibound)[0]

    def step(self, state: JoinGraphState) -> float:
        """Send all messages along the order and back; the residual is how far clusters and separators are apart."""
        apart = state.send(state.order, 1.0 if state.exact else 1.0 - self.damping)
        if state.incumbent is not None and (state.exact or state.n_steps & (state.n_steps - 1) == 0):
            state.incumbent.offer(decoded(state))
        return 0.0 if state.exact else apart

    def verify(self, state: JoinGraphState) -> float:
        """Refuse beliefs that no model can have, and go on where saturated ones may yet turn over."""
        if state.exact or state.maximise:
            return 0.0
        if impossible_beliefs(state.problem.graph, state.mu_var()).any():
            return math.inf
        return float(state.turning())

    def value(self, state: JoinGraphState) -> Value:
        """Return the Kikuchi value, or the score of the best state."""
        if state.incumbent is not None:
            if state.incumbent.best.value == -math.inf:
                state.incumbent.offer(decoded(state))
            best = state.incumbent.best.value
            return Value(best, best, best if state.exact and state.n_steps else math.inf)
        log_z = state.kikuchi()
        exact = state.exact and state.n_steps > 0
        return Value(log_z, log_z if exact else -math.inf, log_z if exact else math.inf)

    def finish(self, state: JoinGraphState) -> Marginals | Decoding:
        """Return beliefs, or the best state met."""
        value = self.value(state)
        if state.incumbent is not None:
            if state.exact and state.n_steps:
                state.incumbent.offer(decoded(state))
                return state.incumbent.proved(state.incumbent.latest)
            return state.incumbent.decoding(value)
        mu_var, (tables, joint) = state.mu_var(), state.tables_and_joints()
        return Marginals(value.log_z, claimed(value), mu_var, tables, value.lower, value.upper, joint=joint)

    def warm_state(self, state: JoinGraphState) -> RegionWarmStart:
        """Return what messages have changed."""
        return state.warm_start()

    def calmer(self) -> IJGP | None:
        """Keep half of the old message, where none is kept yet: damping moves no fixed point."""
        return IJGP(ibound=self.ibound, order=self.order, damping=0.5) if self.damping == 0 else None


def join_ibound(problem: Problem, order: Order, work: float) -> int | None:
    """Return the largest i-bound up to the width whose iterations take at most ``work`` cells; None if there is none.

    Only those count whose tables fit the memory.
    """
    check_time()
    best = None
    for ibound, needed, n_cells in growing_ibounds(problem.graph.layout, order, _size):
        check_time()
        if n_cells > work or _A_CELL[problem.task] * n_cells > problem.max_bytes:
            break
        if needed <= work:
            best = ibound
    return best


def _size(layout: Layout, order: Order, ibound: int) -> tuple[float, float, bool]:
    """Return the work of an iteration, the cells of all clusters, and whether any variable has replicas."""
    buckets = layout.plan(partition, order, ibound)
    sends, replicas = buckets.parent >= 0, buckets.replicas[buckets.variable]
    links = 1 + sends + np.bincount(buckets.parent[sends], minlength=buckets.n_clusters)
    with np.errstate(over="ignore"):
        cells = np.exp2(buckets.log2_cells)
    each = cells * (_LINK * links + _REPLICA * (replicas - 1)) + _CLUSTER
    return float(each.sum()), float(cells.sum()), buckets.split


def join_regions(layout: Layout, buckets: MiniBuckets) -> RegionGraph:
    """Return clusters, and separators that count one minus the number of their clusters."""
    return RegionGraph.of_separators(layout, JunctionGraph.of_buckets(layout, buckets))


def decoded(state: JoinGraphState) -> Ints:
    """Read a joint state off the clusters, last eliminated variable first, each given those before it."""
    state.refresh()
    graph, buckets, tables = state.problem.graph, state.buckets, state.plan.tables
    row = graph.evidence_states.copy()
    row[row < 0] = 0
    layout = graph.layout
    scores: dict[int, Any] = {}
    for c in range(buckets.n_clusters - 1, -1, -1):
        axes = buckets.order[buckets.axes[buckets.axes_ptr[c] : buckets.axes_ptr[c + 1]]]
        first = int(axes[0])
        if layout.card[first] == 1:
            continue
        kept = [int(v) for v in axes if layout.card[v] > 1]
        q = tables.table_ptr[c]  # clusters are the first regions, in their order
        table: Any = state.beliefs[tables.cell_ptr[q] : tables.cell_ptr[q + 1]].reshape([layout.card[v] for v in kept])
        given = table[(slice(None), *(int(row[v]) for v in kept[1:]))]
        scores[first] = scores.get(first, 0.0) + given
        row[first] = int(np.argmax(scores[first]))
    return row
