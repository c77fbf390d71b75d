r"""Bucket elimination with a temperature for every variable: the power-sum oracle.

Along an order :math:`x_1, x_2, \dots, x_n` (first eliminated first), Eq. (2.18) [ping2016]:

.. math::
    \Phi_\tau = \log \sum_{x_n}^{\tau_n} \cdots \sum_{x_1}^{\tau_1} \exp \theta(x), \qquad
    \sum_x^{\tau} f(x) = \Big(\sum_x f(x)^{1/\tau}\Big)^{\tau}, \quad \max_x f(x) \text{ at } \tau = 0

One bucket a variable: multiply all functions that mention it, power-sum it out, hand the result on
[dechter1999]. Beliefs come from the chain rule of the variational form (Prop. 2.3.2 [ping2016]),

.. math:: b(x_i | x_{i+1:n}) = \exp\big((u_i - m_i)/\tau_i\big), \text{ at } \tau_i = 0 \text{ the first maximiser,}

and are the gradient of :math:`\Phi_\tau` in :math:`\theta`. The value depends on the order unless all temperatures are
equal; marginal MAP puts the sum variables (1) before the max variables (0). A heuristic order keeps to ``stages``, and
without them takes the warmest variables first: it never changes the question.

Guarantee: exact to rounding, in the log domain. As a statement about log Z, :math:`\Phi_\tau` is exact when all
temperatures are 1, a lower bound when none exceeds 1, an upper bound when none is below 1, and else an estimate; the
result says so. Cost: exponential in the width of the order, checked against the budget first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Value
from beliefs.inference.base import Bound, Decoding, Derivative, Guarantee, Marginals, Method, Problem, Samples, Task
from beliefs.inference.clusters.cluster_tree import ClusterTree, check_memory, check_work
from beliefs.inference.exact.tree_run import TreeRun
from beliefs.inference.orders.chosen import check_order, chosen_order
from beliefs.inference.rounding import certified
from beliefs.inference.temperatures import chosen_stages, chosen_temperatures, power_sum_bound
from beliefs.typing import Floats

__all__ = ["Elimination"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Elimination(Method):
    """Bucket elimination along an order, with any temperatures.

    Parameters
    ----------
    order : str or sequence of variables
        A heuristic as in :class:`JunctionTree`, or all unobserved variables, first eliminated first.
    tau : array_like (n_vars,) or None
        Temperatures at least 0; None takes those of the question (1 to sum, 0 to maximise).
    stages : array_like of int (n_vars,) or None
        For heuristic orders: variables of lower stages are eliminated first, so they stand innermost. Temperatures
        within a stage must be equal. None: the warmest first.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([3], [((0,), [1, 2, 3])])
    >>> [round(float(np.exp(bl.infer(g, Elimination(tau=(t,))).log_z)), 4) for t in (1, 0.5, 0)]
    [6.0, 3.7417, 3.0]
    """

    order: str | Sequence[Any] = "auto"
    tau: Any = None
    stages: Any = None

    name: ClassVar[str] = "elimination"
    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER, Task.MAXIMIZE, Task.MARGINAL_MAP)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.EXACT, "(bounds for temperatures other than 1)")
    derivative: ClassVar[Derivative] = Derivative.EXACT
    cost: ClassVar[str] = "exponential in the width"
    reference: ClassVar[str] = "dechter1999, ping2016"

    def __post_init__(self) -> None:
        check_order(self.order)

    def init(self, problem: Problem, warm: object = None) -> TreeRun:
        """Fix order and temperatures, check the budget, lay out the buckets."""
        tau = chosen_temperatures(problem, self.tau)
        plain = self.tau is None and self.stages is None  # the question's own temperatures and stages
        stages = None if plain else chosen_stages(problem, tau, self.stages)
        order = chosen_order(problem, self.order, stages)
        check_work(order, self.name, problem.task)
        tree = problem.graph.layout.plan(ClusterTree.build, order, tau, False)
        check_memory(order, tree.n_bytes(problem.task), problem, self.name)
        return TreeRun(problem, tree, tau, _bound(problem, tau))

    def step(self, state: TreeRun) -> float:
        """Eliminate every variable."""
        state.collect(log_domain=True)
        return 0.0

    def value(self, state: TreeRun) -> Value:
        """Return the power sum and what it says about log Z."""
        bound = state.bound
        low = state.log_z if bound in (Bound.EXACT, Bound.LOWER) else -np.inf
        high = state.log_z if bound in (Bound.EXACT, Bound.UPPER) else np.inf
        if bound is Bound.EXACT:
            return Value(state.log_z, low, high)
        return certified(Value(state.log_z, low, high), state.rounding())

    def finish(self, state: TreeRun) -> Marginals | Decoding | Samples:
        """Send beliefs back, or read off the maximiser."""
        value = self.value(state)
        if state.problem.task is Task.INFER:
            mu_var, mu_factor = state.distribute()
            return Marginals(value.log_z, state.bound, mu_var, mu_factor, value.lower, value.upper)
        return state.decoding()


def _bound(problem: Problem, tau: Floats) -> Bound:
    """Return what the value says about the question."""
    return power_sum_bound(problem, tau) if problem.task is Task.INFER else Bound.EXACT
