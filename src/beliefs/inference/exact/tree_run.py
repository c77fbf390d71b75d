"""One run over a planned cluster tree: values in, passes, values out. Shared by all tree-based exact methods."""

from __future__ import annotations

import numpy as np

from beliefs.deadline import NEVER, check_time, stop_flag
from beliefs.inference.base import Bound, Decoding, Problem, Task, zero_probability
from beliefs.inference.clusters.cluster_tree import ClusterTree
from beliefs.inference.rounding import from_units, pairwise, rounding_error
from beliefs.kernels.rounding import log_pass_roundings
from beliefs.kernels.trees.blocks import Tree
from beliefs.kernels.trees.decode import decode_maximum, draw_samples
from beliefs.kernels.trees.linear import DONE, OUT_OF_RANGE, ZERO, collect_linear, distribute_linear
from beliefs.kernels.trees.log import collect_log, distribute_log
from beliefs.kernels.trees.marginals import factor_spans, scatter, variable_marginals
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats, Ints

__all__ = ["TreeRun", "constant_part", "constant_rounding", "slot_marginals", "stoppable"]

# exp(-600) is 1e-261: products stay above it, and sums of up to 1e40 of them below the largest float
_LINEAR_RANGE = 600.0

_UNIFORM = 2**18  # random numbers that are drawn at a time


class TreeRun:
    """The mutable state of an exact method: tables, messages and the value once collected.

    Its passes raise OutOfTime when the time limit of the question is over.
    """

    def __init__(self, problem: Problem, plan: ClusterTree, tau: Floats, bound: Bound = Bound.EXACT) -> None:
        self.problem, self.plan, self.tau, self.bound = problem, plan, tau, bound
        self.log_z = 0.0
        self.in_logs = False
        self.tables = self.tops = np.zeros(0)
        self._rounding: float | None = None

    def collect(self, *, log_domain: bool) -> None:
        """Send all messages to the roots, in the log domain if asked or if linear numbers might underflow."""
        graph, plan = self.problem.graph, self.plan
        self.log_z, self._rounding = constant_part(graph, self.tau), None
        self.tables = np.empty(int(plan.tree.slot_ptr[-1]))
        if self.log_z == -np.inf:
            raise zero_probability(graph)
        if plan.tree.block.size == 0:  # constants, observed and isolated variables only: nothing to send
            return
        code = OUT_OF_RANGE if log_domain else self._collect_linear()
        if code == OUT_OF_RANGE:
            code = self._collect_log()
        if code == ZERO:
            raise zero_probability(graph)
        assert code == DONE

    def _collect_linear(self) -> int:
        plan, theta = self.plan, self.problem.graph.theta
        n_factors = plan.factors.size
        ranges = np.zeros(plan.tree.slot_ptr.size - 1)
        tops = np.empty(n_factors)
        if not factor_spans(theta, plan.source, plan.tree.slot_ptr, self.tables, tops, ranges):
            return ZERO
        factors = self.tables[: plan.source.size]
        np.exp(factors, out=factors)
        self.tops = np.empty(plan.tree.block.size)
        code = int(collect_linear(stoppable(plan.tree), self.tables, ranges, _LINEAR_RANGE, self.tops))
        check_time()
        if code == DONE:
            self.log_z += float(np.add.reduce(tops) + np.add.reduce(np.log(self.tops)))
        return code

    def _collect_log(self) -> int:
        self.in_logs = True
        self.tables[: self.plan.source.size] = self.problem.graph.theta[self.plan.source]
        code = int(collect_log(stoppable(self.plan.tree), self.tables))
        check_time()
        if code == DONE:
            self.log_z += float(self.tables[self.plan.tree.slot_ptr[self.plan.roots]].sum())
        return code

    def rounding(self) -> float:
        """Return the rounding error of the value of a tree that was collected in the log domain."""
        if self._rounding is None:
            tree, largest = self.plan.tree, np.empty(self.plan.tree.slot_ptr.size - 1)
            units = abs(self.log_z) + float(log_pass_roundings(tree, tree.temperature, self.tables, largest))
            self._rounding = constant_rounding(self.problem.graph, self.tau) + from_units(units)
        return self._rounding

    def distribute(self) -> tuple[Floats, Floats]:
        """Return variable marginals ``(n_states,)`` and factor marginals, one table after the other."""
        graph, plan = self.problem.graph, self.plan
        beliefs = np.zeros(self.tables.size)
        if self.in_logs:
            distribute_log(stoppable(plan.tree), self.tables, beliefs)
        elif plan.tree.block.size:
            distribute_linear(stoppable(plan.tree), self.tables, self.tops, beliefs)
        check_time()
        return slot_marginals(graph, plan.target, beliefs)

    def decoding(self) -> Decoding:
        """Return the maximiser of a collected log-domain tree: all variables, or the query of marginal MAP."""
        row = np.maximum(self.problem.graph.evidence_states, 0)
        decode_maximum(stoppable(self.plan.tree), self.tables, row)
        check_time()
        assignment = row if self.problem.task is Task.MAXIMIZE else row[self.problem.query]
        return Decoding(assignment, self.log_z, Bound.EXACT, self.log_z, self.log_z)

    def draw(self, n: int, seed: int) -> Ints:
        """Return ``n`` independent draws of all variables, ``(n, n_vars)``."""
        graph = self.problem.graph
        layout = graph.layout
        rng = np.random.default_rng(seed)
        samples = np.tile(np.maximum(graph.evidence_states, 0), (n, 1))
        isolated = layout.isolated
        samples[:, isolated] = rng.integers(0, layout.card[isolated], (n, isolated.size))
        chunk = max(1, _UNIFORM // max(1, self.plan.tree.block.size))
        for start in range(0, n, chunk):
            part = samples[start : start + chunk]
            uniform = rng.random((len(part), self.plan.tree.block.size))
            draw_samples(stoppable(self.plan.tree), self.tables, self.in_logs, uniform, part)
            check_time()
        return samples


def stoppable(tree: Tree) -> Tree:
    """Return the tree with the flag of the question at hand; ask :func:`check_time` after the pass."""
    flag = stop_flag()
    return tree if flag is NEVER else tree._replace(stop=flag)  # its own flag is never raised either


def constant_part(graph: FactorGraph, tau: Floats) -> float:
    """Return what needs no table: constants, and variables in no factor at their temperatures ``tau (n_vars,)``."""
    layout = graph.layout
    isolated, total = layout.isolated, 0.0
    if layout.constants.size:
        total = float(np.add.reduce(graph.theta[layout.constants]))
    if isolated.size:
        total += float((tau[isolated] * np.log(layout.card[isolated])).sum())
    return total


def constant_rounding(graph: FactorGraph, tau: Floats) -> float:
    """Return the rounding error of :func:`constant_part`."""
    layout = graph.layout
    constants, isolated = graph.theta[layout.constants], layout.isolated
    logs = tau[isolated] * np.log(layout.card[isolated])
    magnitude = float(np.abs(constants[constants > -np.inf]).sum() + logs.sum())
    return rounding_error(magnitude, pairwise(constants.size + logs.size))


def slot_marginals(graph: FactorGraph, target: Ints, beliefs: Floats) -> tuple[Floats, Floats]:
    """Return variable and factor marginals from the beliefs of the factors' slots; constants have mu 1."""
    layout = graph.layout
    mu_factor = np.empty(int(layout.table_ptr[-1]))
    scatter(beliefs, target, mu_factor)
    mu_var = np.empty(layout.n_states)
    variable_marginals(
        layout.scopes, layout.adjacency, layout.table_ptr, layout.observed, graph.evidence_states, mu_factor, mu_var
    )
    return mu_var, mu_factor
