r"""Belief propagation (sum-product), on trees exact, on graphs with loops an estimate.

Messages and beliefs, Eqs. (1.20)-(1.23) [gelfand2014], [kschischang2001]:

.. math::
    m_{v \to f}(x_v) &= \prod_{g \ni v,\, g \ne f} m_{g \to v}(x_v), \qquad
    m_{f \to v}(x_v) = \sum_{x_{f \setminus v}} e^{\theta_f(x_f)} \prod_{u \in f,\, u \ne v} m_{u \to f}(x_u) \\
    b_v &\propto \prod_{f \ni v} m_{f \to v}, \qquad b_f \propto e^{\theta_f} \prod_{v \in f} m_{v \to f}

and the Bethe value :math:`\log Z \approx \sum_f \langle b_f, \theta_f\rangle + H(b_f) + \sum_v (1 - d_v) H(b_v)`, whose
stationary points are the fixed points of the messages [yedidia2005].

=========================  ===========================================================
:math:`m_{f \to v}`        ``messages``, log, normalised, one run per edge
:math:`\prod m_{f \to v}`  ``finite`` (sum of finite logs) and ``zeros`` (count of -inf)
=========================  ===========================================================

One step sweeps all factors from the leaves to the roots of a breadth-first tree and back, so a forest is exact after
the first sweep and CONVERGED after the second. With loops there is no guarantee of convergence or accuracy: the value
is an ESTIMATE, the status says whether it settled, and damping often helps. Cost of a sweep: cells times arity squared.
A message that is zero everywhere proves Z = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from beliefs.driver import Value
from beliefs.inference.base import (
    Bound,
    Marginals,
    Method,
    Problem,
    Task,
    check_option,
    is_number,
    observed_point_masses,
    zero_probability,
)
from beliefs.kernels.messages import bethe_beliefs, factor_traversal, log_beliefs, sweep_factors
from beliefs.model.layout import Layout
from beliefs.typing import Bools, Floats, Ints

__all__ = ["BP"]

_LEAST = -7.0  # nats: where a hard zero is gone, no message of a warm start says less than exp(-7), about 1e-3


@dataclass(frozen=True, eq=False)
class Start:
    """What a warm start needs: the messages, and which potentials were zero when they were sent."""

    messages: Floats
    zero: Bools

    def messages_for(self, theta: Floats) -> Floats:
        """Return messages to go on from. Proofs of impossibility stay as long as all zeros they rest on are there."""
        if (self.zero & (theta > -np.inf)).any():
            return np.maximum(self.messages, _LEAST)
        return self.messages.copy()


@dataclass(frozen=True)
class Schedule:
    """The order of factors (breadth first), message offsets, and whether the graph is a forest."""

    order: Ints
    msg_ptr: Ints
    forest: bool

    @classmethod
    def of(cls, layout: Layout) -> Schedule:
        """Plan the sweeps of a layout."""
        order = np.empty(layout.n_factors, np.int64)
        forest = factor_traversal(
            layout.scope_ptr, layout.scope_vars, layout.var_ptr, layout.var_edges, layout.edge_factor, order
        )
        msg_ptr = np.concatenate([[0], np.cumsum(layout.card[layout.scope_vars])])
        return cls(order, msg_ptr, bool(forest))


class BPState:
    """Messages and what follows from them."""

    def __init__(self, problem: Problem, schedule: Schedule, messages: Floats) -> None:
        layout = problem.graph.layout
        self.problem, self.schedule, self.messages = problem, schedule, messages
        self.finite, self.zeros = np.zeros(layout.n_states), np.zeros(layout.n_states, np.int64)
        self.mu_factor = np.empty(int(layout.table_ptr[-1]))
        self.n_sweeps = 0
        self.refresh()
        self.mu_var = self.marginals()

    def refresh(self) -> None:
        """Add up all messages afresh, so that rounding does not pile up."""
        layout = self.problem.graph.layout
        log_beliefs(
            layout.card,
            layout.state_ptr,
            layout.scope_vars,
            self.schedule.msg_ptr,
            self.messages,
            self.finite,
            self.zeros,
        )

    def marginals(self) -> Floats:
        """Return normalised variable beliefs, ``(n_states,)``."""
        graph = self.problem.graph
        layout = graph.layout
        logs = np.where(self.zeros == 0, self.finite, -np.inf)
        top = np.maximum.reduceat(logs, layout.state_ptr[:-1])
        if (top == -np.inf).any():
            raise zero_probability(graph)
        weights = np.exp(logs - np.repeat(top, layout.card))
        weights /= np.repeat(np.add.reduceat(weights, layout.state_ptr[:-1]), layout.card)
        return np.where(np.repeat(layout.observed, layout.card), observed_point_masses(graph), weights)


@dataclass(frozen=True, kw_only=True, repr=False)
class BP(Method):
    """Loopy belief propagation.

    Parameters
    ----------
    damping : float in [0, 1)
        Share of the old message in the new one, in logs.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
    >>> r = bl.infer(g, "bp")
    >>> r.bound.name, round(float(np.exp(r.log_z)), 9)
    ('EXACT', 10.0)
    """

    damping: float = 0.0

    name: ClassVar[str] = "bp"
    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER,)
    guarantee: ClassVar[str] = "exact on forests, else estimate"
    cost: ClassVar[str] = "cells x arity^2 a sweep"
    reference: ClassVar[str] = "pearl1988, kschischang2001, yedidia2005"
    iterative: ClassVar[bool] = True
    value_is_free: ClassVar[bool] = False
    fixed_point: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_option(is_number(self.damping) and 0 <= self.damping < 1, "damping", "in [0, 1)", self.damping)

    def init(self, problem: Problem, warm: Start | None = None) -> BPState:
        """Start from uniform messages, or from those of an earlier result."""
        graph = problem.graph
        layout = graph.layout
        constants = graph.theta[layout.cell_ptr[layout.factor_size == 1]]
        if (constants == -np.inf).any():
            raise zero_probability(graph)
        schedule = layout.plan("bp", lambda: Schedule.of(layout))
        if warm is None:
            messages = np.repeat(-np.log(layout.card[layout.scope_vars]), layout.card[layout.scope_vars])
        else:
            messages = warm.messages_for(graph.theta)
        return BPState(problem, schedule, messages)

    def step(self, state: BPState) -> float:
        """Sweep leaves to roots and back; the residual is the largest change of a variable marginal."""
        graph, schedule = state.problem.graph, state.schedule
        lay = graph.layout
        state.refresh()
        for order in (schedule.order[::-1].copy(), schedule.order):
            alive = sweep_factors(
                lay.card, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, lay.state_ptr, schedule.msg_ptr, graph.theta,
                order, self.damping, state.messages, state.finite, state.zeros,
            )  # fmt: skip
            if not alive:
                raise zero_probability(graph)
        before, state.mu_var = state.mu_var, state.marginals()
        state.n_sweeps += 1
        return float(np.abs(state.mu_var - before).max(initial=0.0))

    def value(self, state: BPState) -> Value:
        """Return the Bethe value; certified only where it is exact."""
        graph = state.problem.graph
        lay = graph.layout
        log_z = bethe_beliefs(
            lay.card, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, lay.table_ptr, lay.state_ptr, lay.var_ptr,
            state.schedule.msg_ptr, graph.theta, state.messages, state.finite, state.zeros, state.mu_var,
            state.mu_factor,
        )  # fmt: skip
        if log_z == -np.inf:
            raise zero_probability(graph)
        return Value(log_z, log_z, log_z) if self._exact(state) else Value(log_z)

    def finish(self, state: BPState) -> Marginals:
        """Return beliefs and the Bethe value."""
        value = self.value(state)
        bound = Bound.EXACT if self._exact(state) else Bound.ESTIMATE
        return Marginals(value.log_z, bound, state.mu_var, state.mu_factor, value.lower, value.upper)

    def kept(self, state: BPState) -> Start:
        """Return the messages, and the zeros they rest on."""
        return Start(state.messages, state.problem.graph.theta == -np.inf)

    def _exact(self, state: BPState) -> bool:
        return state.schedule.forest and self.damping == 0 and state.n_sweeps > 0
