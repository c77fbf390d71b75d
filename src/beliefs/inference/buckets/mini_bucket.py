r"""Mini-bucket elimination: one pass, an upper bound on any question, and a lower bound on sums.

In each bucket one mini-bucket keeps the variable's own operator and the others, which repeat the variable, are
maximised (for a lower bound: minimised) over their replica [dechter2003]:

.. math:: \sum_x f(x) \prod_{r > 1} g_r(x) \;\le\; \sum_x f(x) \cdot \prod_{r > 1} \max_x g_r(x)  \qquad (1.28)

This is weighted mini-bucket with the weights :math:`(\tau, 0, \dots, 0)` and no cost shifting; the minimum is a weight
of :math:`-10^{-9}`.

*Reordering.* A maximum may be moved inside a sum, :math:`\max_b \sum_a f \le \sum_a \max_b f`; so for marginal MAP any
order gives an upper bound, and one free of the sums-first rule has a smaller width (``order="unconstrained"``)
[park2003, yuan2009].

Guarantee: bounds; exact once ``ibound`` reaches the width of an order that obeys the rule. Cost: the cells of all
clusters, once. Marginals are the gradient of the upper bound, an estimate without promise. Failure: a lower bound of
``-inf`` where a mini-bucket that is minimised has a zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Value
from beliefs.inference.base import (
    Bound,
    Decoding,
    Guarantee,
    Marginals,
    Method,
    Problem,
    Task,
    claimed,
    zero_probability,
)
from beliefs.inference.buckets.bucket_run import BucketRun, elimination_weights, lower_weights
from beliefs.inference.buckets.bucket_tree import bucket_tree
from beliefs.inference.clusters.partition import check_ibound
from beliefs.inference.orders.chosen import check_order, chosen_order
from beliefs.inference.rounding import certified
from beliefs.inference.search.incumbent import Incumbent
from beliefs.inference.temperatures import chosen_temperatures, power_sum_bound
from beliefs.options import check_option, is_word

__all__ = ["MiniBucket"]

_MINIMUM = 1e-9  # weight whose negative stands for the minimum; it takes 1e-9 log K from the bound


@dataclass(eq=False)
class MiniBucketState:
    """A run and its two bounds."""

    run: BucketRun
    incumbent: Incumbent | None
    exact: bool
    lower: float = -math.inf
    upper: float = math.inf
    rounding: float = 0.0


@dataclass(frozen=True, kw_only=True, repr=False)
class MiniBucket(Method):
    """Mini-bucket elimination.

    Parameters
    ----------
    ibound : int or None
        Variables in a message, at least 1; None takes the largest with about four million cells in all clusters.
    order : str or sequence of variables
        A heuristic as in :class:`JunctionTree`, all unobserved variables in a list, or ``"unconstrained"``: for
        marginal MAP an order that need not put sums first.
    partition : str
        How a bucket is divided: by ``"scope"`` or by ``"content"``.
    tau : array_like (n_vars,) or None
        Temperatures of a power sum, at least 0; None takes those of the question.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.datasets.make_ising_grid(6, seed=0)
    >>> answer = bl.infer(g, "mini_bucket(ibound=3)")
    >>> bool(answer.log_lower <= bl.infer(g).log_z <= answer.log_upper)
    True
    """

    ibound: int | None = None
    order: str | Sequence[Any] = "auto"
    partition: str = "scope"
    tau: Any = None

    name: ClassVar[str] = "mini_bucket"
    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER, Task.MAXIMIZE, Task.MARGINAL_MAP)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.UPPER, "(and lower, for sums)", also=(Bound.LOWER,))
    values_queries: ClassVar[bool] = True
    cost: ClassVar[str] = "exponential in ibound"
    reference: ClassVar[str] = "dechter2003, rollon2010"

    def __post_init__(self) -> None:
        check_ibound(self.ibound)
        check_order(self.order, "unconstrained")
        check_option(is_word(self.partition, ("scope", "content")), "partition", "scope or content", self.partition)

    def init(self, problem: Problem, warm: object = None) -> MiniBucketState:
        """Partition, check the budget and allocate."""
        tau = chosen_temperatures(problem, self.tau)
        free = is_word(self.order, ("unconstrained",))
        asked = replace(problem, task=Task.INFER, query=np.zeros(0, np.int64)) if free else problem
        order = chosen_order(asked, "auto" if free else self.order)
        by_content = tau if self.partition == "content" else None
        n_arrays = 2 if problem.task is Task.INFER else 1  # states are read off the messages
        plan = bucket_tree(problem, order, self.ibound, self.name, by_content, n_arrays)
        run = BucketRun(problem, plan, tau, elimination_weights(plan, tau))
        exact = not plan.buckets.split and not (free and problem.task is Task.MARGINAL_MAP)
        return MiniBucketState(run, None if problem.task is Task.INFER else Incumbent(problem), exact)

    def step(self, state: MiniBucketState) -> float:
        """Eliminate once for the lower bound on a sum, once for the upper."""
        run, problem = state.run, state.run.problem
        if problem.task is Task.INFER and (run.tau > 0).all():
            weight = run.weight
            run.weight = lower_weights(run.plan, run.tau, _MINIMUM)
            state.lower = run.forward()
            state.rounding = run.rounding(state.lower)
            run.weight = weight
        state.upper = run.forward()
        state.rounding = max(state.rounding, run.rounding(state.upper))
        if state.upper == -math.inf:
            raise zero_probability(problem.graph)
        if state.incumbent is not None:
            state.incumbent.offer(run.decode())
        return 0.0

    def value(self, state: MiniBucketState) -> Value:
        """Return the bounds, as far as they say something about the question."""
        if state.incumbent is not None:
            return state.incumbent.value(state.upper, state.rounding)
        means = power_sum_bound(state.run.problem, state.run.tau)
        lower = state.upper if state.exact else state.lower
        value = Value(
            state.upper,
            lower if means in (Bound.EXACT, Bound.LOWER) else -math.inf,
            state.upper if means in (Bound.EXACT, Bound.UPPER) else math.inf,
        )
        return certified(value, state.rounding)

    def finish(self, state: MiniBucketState) -> Marginals | Decoding:
        """Return the bounds with the gradient of the upper one, or the assignment read off the buckets."""
        value = self.value(state)
        if state.incumbent is not None:
            if state.exact:
                return state.incumbent.proved(state.upper)
            return state.incumbent.decoding(value)
        mu_var, mu_factor = state.run.beliefs()
        split = state.run.plan.buckets.split
        return Marginals(value.log_z, claimed(value), mu_var, mu_factor, value.lower, value.upper, estimated=split)
