"""One run over a mini-bucket tree: weights, cost shifts and messages, their bound, and what is read off them."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from beliefs.deadline import check_time
from beliefs.inference.base import Problem, observed_point_masses
from beliefs.inference.buckets.bucket_tree import BucketTree
from beliefs.inference.exact.tree_run import constant_part, constant_rounding, slot_marginals, stoppable
from beliefs.inference.rounding import from_units
from beliefs.kernels.buckets.passes import backward_pass, decode_buckets, forward_pass
from beliefs.kernels.buckets.weighted import bucket_scratch
from beliefs.kernels.rounding import log_pass_roundings, potential_span, split_roundings
from beliefs.kernels.trees.log import distribute_log
from beliefs.typing import Floats, Ints

__all__ = ["BucketRun", "elimination_weights", "lower_weights", "uniform_weights"]


class BucketRun:
    """The mutable state of a mini-bucket method; its passes raise OutOfTime when the time limit is over.

    Attributes
    ----------
    weight : ndarray (n_clusters,)
        Weight of each replica; those of a variable add up to its temperature.
    tables : ndarray
        Slots of factors, cost shifts and messages, in logs.
    back : ndarray
        Backward messages, laid out as ``tables``; zeros before the first backward pass.
    span : float
        Sum of the ranges of all potentials: shifts and weights far beyond it would only cost digits.
    """

    def __init__(self, problem: Problem, plan: BucketTree, tau: Floats, weight: Floats) -> None:
        self.problem, self.plan, self.tau, self.weight = problem, plan, tau, weight
        self.constant = constant_part(problem.graph, tau)
        self.tables = np.zeros(int(plan.tree.slot_ptr[-1]))
        self.tables[: plan.source.size] = problem.graph.theta[plan.source]
        self.back = np.zeros(self.tables.size)
        self._scratch = bucket_scratch(plan.tree, int(plan.buckets.replicas.max(initial=1)))
        self.span = 1.0 + float(potential_span(plan.tree.slot_ptr, plan.factors.size, self.tables))

    @cached_property
    def _spare(self) -> Floats:
        """Room for messages on their way back, and for the beliefs of the answer."""
        return np.empty(self.tables.size)

    @property
    def shifts(self) -> Floats:
        """The cost shifts of all replicas, a view."""
        ends = self.plan.tree.slot_ptr[[self.plan.factors.size, self.plan.first_message]]
        return self.tables[ends[0] : ends[1]]

    # -- passes ---------------------------------------------------------------------------------------------------
    def forward(self) -> float:
        """Send all messages; return the bound."""
        return self._send(0.0, 0.0, math.inf)

    def match(self, step: float, weight_step: float, far: float = math.inf) -> float:
        """Send all messages, moving shifts and weights on the way; return the bound."""
        return self._send(step, weight_step, far)

    def _send(self, step: float, weight_step: float, far: float) -> float:
        if self.constant == -np.inf or self.plan.buckets.n_clusters == 0:
            return self.constant
        held = self.weight, self.tables, self.back, self._scratch
        tree, shift_at = stoppable(self.plan.tree), self.plan.shift_at
        bound = self.constant + float(forward_pass(tree, shift_at, step, far, weight_step, self.span, *held))
        check_time()
        return bound

    def rounding(self, bound: float) -> float:
        """Return the rounding error of the bound that the last pass gave."""
        plan = self.plan
        units = abs(bound) if math.isfinite(bound) else 0.0
        if plan.buckets.n_clusters and math.isfinite(bound):
            heat, _ = _share(plan, self.tau)
            largest = np.empty(plan.tree.slot_ptr.size - 1)
            units += float(log_pass_roundings(plan.tree, self.weight, self.tables, largest))
            units += float(split_roundings(plan.tree, plan.shift_at, self.weight, heat, self.tables))
        return constant_rounding(self.problem.graph, self.tau) + from_units(units)

    def backward(self) -> None:
        """Send beliefs back, for the next matching."""
        plan = self.plan
        if plan.buckets.n_clusters:
            tree, replicas = stoppable(plan.tree), plan.buckets.replicas[plan.buckets.variable]
            messages = self._spare[: self.tables.size - int(plan.tree.slot_ptr[plan.first_message])]
            messages[:] = 0.0
            held = self.weight, self.tables, self.back, messages, self._scratch
            backward_pass(tree, plan.first_message, plan.buckets.parent, replicas, *held)
            check_time()

    # -- answers --------------------------------------------------------------------------------------------------
    def beliefs(self) -> tuple[Floats, Floats]:
        """Return variable and factor marginals, the gradient of the bound; messages must be those of the weights."""
        plan = self.plan
        held = self._spare
        held[:] = 0.0
        if plan.buckets.n_clusters:
            distribute_log(stoppable(plan.tree)._replace(temperature=self.weight), self.tables, held)
            check_time()
        return slot_marginals(self.problem.graph, plan.target, held)

    def uniform(self) -> tuple[Floats, Floats]:
        """Return uniform variable and factor marginals: what a bound of -inf knows."""
        layout = self.problem.graph.layout
        spread = np.repeat(1.0 / layout.card, layout.card)
        seen = np.repeat(layout.observed, layout.card)
        return (
            np.where(seen, observed_point_masses(self.problem.graph), spread),
            np.repeat(1.0 / layout.factor_size, layout.factor_size),
        )

    def decode(self) -> Ints:
        """Return a joint state whose maximised variables are read off the buckets, last eliminated first."""
        states = np.maximum(self.problem.graph.evidence_states, 0)
        decode_buckets(self.plan.tree, self.weight, self.tables, states)
        return states


def _share(plan: BucketTree, tau: Floats) -> tuple[Floats, Ints]:
    """Return the temperature of each cluster's variable, and how many replicas that has."""
    variable = plan.buckets.variable
    return tau[plan.buckets.order][variable], plan.buckets.replicas[variable]


def _first(plan: BucketTree) -> Ints:
    """Tell which clusters are the first of their variable."""
    variable = plan.buckets.variable
    return np.concatenate([[True], variable[1:] != variable[:-1]]) if variable.size else np.zeros(0, bool)


def uniform_weights(plan: BucketTree, tau: Floats) -> Floats:
    """Divide each temperature evenly among the replicas."""
    heat, count = _share(plan, tau)
    return heat / count


def elimination_weights(plan: BucketTree, tau: Floats) -> Floats:
    """Give the temperature to the first replica and 0 to the others: the mini-buckets of Dechter and Rish."""
    heat, _ = _share(plan, tau)
    return np.where(_first(plan), heat, 0.0)


def lower_weights(plan: BucketTree, tau: Floats, size: float) -> Floats:
    """Give all replicas but the first ``-size`` times the temperature, and the first what makes the sum right."""
    heat, count = _share(plan, tau)
    return np.where(_first(plan), heat * (1.0 + size * (count - 1)), -size * heat)
