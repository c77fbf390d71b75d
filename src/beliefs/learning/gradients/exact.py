r"""Gradients of marginal-based losses through exact inference.

The marginals' derivative is a covariance, :math:`d\mu / d\theta = \mathrm{Cov}[f]`, so with :math:`g = \bar\mu \cdot f`

.. math:: \Bigl(\frac{d\mu}{d\theta}\Bigr)^{\!\top} \bar\mu = E[f\, g] - \mu\, E[g].

Forests: one iteration of belief propagation from leaves to roots and back is exact, and so is the way back through it.
Other graphs: the covariances of all tables with g by two more passes over the junction tree
(:mod:`beliefs.kernels.trees.covariance`). Either way the gradient is exact to rounding. Cost: about twice that of the
marginals; memory that of the junction tree's messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from beliefs.inference.base import Method, Problem
from beliefs.inference.budget import default_budget
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.exact.tree_run import TreeRun, slot_marginals
from beliefs.inference.messages.bp import BP
from beliefs.inference.messages.schedule import is_forest
from beliefs.inference.variational.field import entropy
from beliefs.kernels.trees.covariance import tree_covariances
from beliefs.kernels.trees.linear import distribute_linear
from beliefs.kernels.trees.log import distribute_log
from beliefs.kernels.trees.marginals import scatter
from beliefs.learning.gradients.base import Beliefs, Gradient
from beliefs.learning.gradients.directions import direction
from beliefs.learning.gradients.truncated import Truncated
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["Exact", "ExactBeliefs"]


class ExactBeliefs(Beliefs):
    """True marginals, with the true ``log_z``."""

    log_z: float


@dataclass(frozen=True, kw_only=True)
class Exact(Gradient):
    """Exact marginals and the exact gradient: belief propagation on forests, the junction tree elsewhere.

    Raises BudgetError, before any work, where the junction tree does not fit into half of the memory available;
    ZeroProbabilityError where every assignment has weight zero.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.pairwise([[0.0, 0.0]] * 2, [(0, 1)], [[1.0, 0.0], [0.0, 1.0]])
    >>> beliefs = Exact().run(g)
    >>> beliefs.pullback(bar_var=[0.0, 1.0, 0.0, 0.0]).round(3)[:4]
    array([-0.25 ,  0.25 , -0.116,  0.116])
    """

    name: ClassVar[str] = "exact"
    exact: ClassVar[bool] = True
    until_tol: ClassVar[bool] = False

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """Exact inference alone."""
        return ()

    def run(self, graph: FactorGraph, warm: Any = None) -> ExactBeliefs:
        """Compute all marginals; ``warm`` is of no use."""
        layout = graph.layout
        if is_forest(layout):
            return ForestBeliefs(graph)
        return TreeBeliefs(graph)


class ForestBeliefs(ExactBeliefs):
    """Belief propagation on a forest."""

    def __init__(self, graph: FactorGraph) -> None:
        self.graph, self.layout = graph, graph.layout
        self.inner = Truncated(method=BP(schedule="tree"), n_sweeps=1).run(graph)
        self.mu_var = self.inner.mu_var

    @property
    def mu_factor(self) -> Floats:
        """Every factor's own table."""
        return self.inner.mu_factor

    @cached_property
    def log_z(self) -> float:  # type: ignore[override]
        """Expected score plus entropy, which on a forest is that of tables less that of variables they share."""
        return float(self.log_zs(1)[0])

    def log_zs(self, n_parts: int) -> Floats:
        """Return the log Z of each part, where the forest is so many copies of one, side by side."""
        lay, mu = self.layout, self.mu_factor
        of_tables = np.where(mu > 0, self.graph.theta[lay.table_cells()], 0.0) * mu + entropy(mu)
        of_vars = (1 - np.repeat(lay.degree, lay.card)) * entropy(self.mu_var)
        found: Floats = of_tables.reshape(n_parts, -1).sum(1) + of_vars.reshape(n_parts, -1).sum(1)
        return found

    def _pulled(self, bar_var: Floats, bar_factor: Floats | None) -> Floats:
        return self.inner._pulled(bar_var, bar_factor)  # factors of one variable are already in bar_var


class TreeBeliefs(ExactBeliefs):
    """The junction tree."""

    def __init__(self, graph: FactorGraph) -> None:
        self.layout = graph.layout
        run: TreeRun = JunctionTree().init(Problem(graph, max_bytes=default_budget()))
        run.collect(log_domain=False)
        self.plan, self.in_logs, self.log_z = run.plan, run.in_logs, run.log_z
        self.tables, self.slots = run.tables, np.zeros(run.tables.size)
        self.quotients = self.tables.copy()  # of beliefs and messages, at separators
        if run.in_logs:
            distribute_log(run.plan.tree, self.tables, self.slots)
            logs = np.log(self.slots, out=np.full(self.slots.size, -np.inf), where=self.slots > 0)
            np.subtract(logs, self.tables, out=logs, where=self.slots > 0)
            self.quotients = logs
        elif run.plan.tree.block.size:
            distribute_linear(run.plan.tree, self.quotients, run.tops, self.slots)
        self.mu_var, self._mu_factor = slot_marginals(graph, run.plan.target, self.slots)

    @property
    def mu_factor(self) -> Floats:
        """Every factor's own table."""
        return self._mu_factor

    def _pulled(self, bar_var: Floats, bar_factor: Floats | None) -> Floats:
        lay, plan = self.layout, self.plan
        along = direction(lay, bar_var, bar_factor)
        change = np.zeros(along.size)
        if plan.tree.block.size:
            means, covariances = np.zeros((2, self.tables.size))
            means[: plan.target.size] = along[plan.target]
            tree_covariances(plan.tree, self.in_logs, self.tables, self.quotients, self.slots, means, covariances)
            scatter(covariances, plan.target, change)
        return lay.in_cells(change)
