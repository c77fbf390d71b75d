r"""Junction tree: exact log Z, all marginals, MAP, marginal MAP and independent samples.

Clusters are the maximal cliques of a triangulation chosen by :mod:`beliefs.inference.orders.orders`. One pass to the
roots and one back, Eq. (1.27) [gelfand2014]:

    m_{C -> pa(C)}(s) = sum_r phi_C(r, s),            phi_C = product of C's factors and its children's messages
    b_C(r, s) = phi_C(r, s) b_S(s) / m_C(s),          p(x) = prod_C b_C / prod_S b_S            (3.3)

``maximize`` replaces the sum by a maximum and reads the maximiser off from the roots; ``marginal_map`` eliminates all
sum variables before all max variables (a constrained order, usually wider); ``sample`` draws each cluster's eliminated
variables given its separator.

Guarantee: exact to rounding, for any tables: linear arithmetic where no product can underflow, else the log domain.
Cost: time in proportion to the cells of all clusters, exponential in the width of the order; memory for factors and
messages only, since clusters' tables are made block by block in cache. Both are predicted before anything is allocated.
Failure: BudgetError, ZeroProbabilityError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from beliefs.driver import Value
from beliefs.errors import BudgetError
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
    Unions,
)  # fmt: skip
from beliefs.inference.clusters.cluster_tree import (
    MOST_SECONDS,
    ClusterTree,
    check_memory,
    check_work,
    least_seconds,
)
from beliefs.inference.exact.tree_run import TreeRun
from beliefs.inference.orders.orders import MOST_RESTARTS, ORDERS, CostReport, Order
from beliefs.inference.orders.planned import planned_order
from beliefs.options import check_integer, check_number, check_option

__all__ = ["JunctionTree"]


@dataclass(frozen=True, kw_only=True, repr=False)
class JunctionTree(Method):
    """Exact inference by clique-tree propagation.

    Parameters
    ----------
    order : str
        Elimination heuristic: ``"auto"`` (several, with restarts in proportion to the work they can save),
        ``"min_fill"``, ``"min_degree"``, ``"min_weight"``, ``"weighted_min_fill"`` or ``"log_min_fill"``.
    restarts : int or None
        Randomised restarts of the heuristic; None lets the planner decide.
    plan_seconds : float or None
        Search for a better order this long, or until it no longer helps; worth it for a plan that is used often. The
        order then depends on the machine's speed. None plans in proportion to the work, reproducibly.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
    >>> round(bl.infer(g, bl.JunctionTree()).log_z, 6)
    2.302585
    """

    order: Literal["auto", "min_fill", "min_degree", "min_weight", "weighted_min_fill", "log_min_fill"] = "auto"
    restarts: int | None = None
    plan_seconds: float | None = None

    name: ClassVar[str] = "junction_tree"
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.EXACT)
    derivative: ClassVar[Derivative] = Derivative.EXACT
    cost: ClassVar[str] = "exponential in the width"
    reference: ClassVar[str] = "lauritzen1988, jensen1990"

    @property
    def on_unions(self) -> Unions:
        """A forest of trees is walked tree by tree."""
        return Unions.SUM

    def __post_init__(self) -> None:
        check_option(self.order in ORDERS, "order", f"one of {', '.join(ORDERS)}", self.order)
        check_integer("restarts", self.restarts, 0, MOST_RESTARTS, none=True)
        check_number("plan_seconds", self.plan_seconds, none=True)

    def planned(self, problem: Problem) -> Order:
        """Return the elimination order for a problem, kept on the layout; its cost is known before any work."""
        return planned_order(problem, self.order, self.restarts, self.plan_seconds)

    def n_bytes(self, problem: Problem, order: Order | None = None) -> int:
        """Return the memory that a run needs; raises BudgetError for work beyond all measure.

        ``order`` is what :meth:`planned` has returned, for those who have it.
        """
        return self._tree(problem, self.planned(problem) if order is None else order).n_bytes(problem.task)

    def seconds(self, problem: Problem, order: Order | None = None, most: float = MOST_SECONDS) -> float:
        """Predict the time of a run.

        Where that is certainly more than ``most`` there is no tree laid out for it, and all cliques of the order count.
        """
        order = self.planned(problem) if order is None else order
        if least_seconds(order) > most or order.seconds > MOST_SECONDS:
            return order.seconds
        return self._tree(problem, order).seconds(problem.task)

    def report(self, problem: Problem) -> CostReport:
        """Return the cost to print, before paying it; without the memory where the work is beyond all measure."""
        order = self.planned(problem)
        try:
            return order.report(self.n_bytes(problem, order), self.seconds(problem, order))
        except BudgetError:
            return order.report()

    def init(self, problem: Problem, warm: object = None) -> TreeRun:
        """Plan, or take the kept plan, and check the budget."""
        order = self.planned(problem)
        tree = self._tree(problem, order)
        check_memory(order, tree.n_bytes(problem.task), problem, self.name)
        return TreeRun(problem, tree, problem.tau)

    def _tree(self, problem: Problem, order: Order) -> ClusterTree:
        """Return the tree of an order, kept on the layout; BudgetError before it is laid out for work of days."""
        if order not in problem.plans:
            check_work(order, self.name, problem.task)
            problem.plans[order] = problem.graph.layout.plan(ClusterTree.build, order, problem.tau, True)
        tree: ClusterTree = problem.plans[order]
        return tree

    def step(self, state: TreeRun) -> float:
        """Collect to the roots."""
        state.collect(log_domain=state.problem.task in (Task.MAXIMIZE, Task.MARGINAL_MAP))
        return 0.0

    def value(self, state: TreeRun) -> Value:
        """Return the exact value."""
        return Value(state.log_z, state.log_z, state.log_z)

    def finish(self, state: TreeRun) -> Marginals | Decoding | Samples:
        """Distribute, decode or draw."""
        task, log_z = state.problem.task, state.log_z
        if task is Task.INFER:
            mu_var, mu_factor = state.distribute()
            return Marginals(log_z, Bound.EXACT, mu_var, mu_factor, log_z, log_z)
        if task is Task.SAMPLE:
            return Samples(state.draw(state.problem.n_samples, state.problem.seed), Bound.EXACT)
        return state.decoding()
