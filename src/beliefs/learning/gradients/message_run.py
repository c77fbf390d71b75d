"""Message passing that can be walked back: the methods' own sweeps, forward, and their reverse kernels.

Beliefs are those of ``infer`` with the same method, pass by pass; only what an answer of ``infer`` has beside them
(bounds, energies, tests of convergence) is left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from beliefs.errors import UnsupportedError
from beliefs.inference.base import Derivative, Method, Problem, check_possible, zero_probability
from beliefs.inference.messages.log_messages import LogMessages
from beliefs.inference.messages.propagation import MessagePassing
from beliefs.inference.messages.rho import Reweighting
from beliefs.inference.messages.schedule import make_schedule
from beliefs.inference.messages.sweep_spec import SweepSpec
from beliefs.inference.messages.tiers import REFRESH, LogTier, Tier
from beliefs.inference.text import known_methods
from beliefs.inference.variational.mean_field import MeanField
from beliefs.kernels.adjoints.messages import add_unary, adjoint_beliefs, adjoint_sweep_log, largest_adjoint
from beliefs.kernels.adjoints.structures import Adjoints
from beliefs.kernels.messages.log import log_beliefs
from beliefs.kernels.messages.structures import LogSums
from beliefs.learning.gradients.base import Beliefs, Gradient
from beliefs.learning.gradients.checkpoints import Replayed, State
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = [
    "Backward",
    "LogRun",
    "MessageRun",
    "RunBeliefs",
    "ThroughSweeps",
    "goes_back_by_marginals",
    "goes_back_by_messages",
    "reweighting_of",
    "sweep_spec",
]

_NONE = np.zeros(0)


@dataclass(frozen=True, kw_only=True)
class ThroughSweeps(Gradient):
    """Base of the gradients that go back through the sweeps of a method, update by update."""

    method: Method

    def __post_init__(self) -> None:
        method = self.method
        if not method.derivative.reversible:
            *names, last = (cls.name for cls in known_methods() if cls.derivative.reversible)
            raise UnsupportedError(f"there is no way back through {method!r}; use {', '.join(names)} or {last}")
        if reason := method.irreversible():
            raise UnsupportedError(reason)

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """The method of the sweeps."""
        return (self.method,)


def goes_back_by_messages(method: Method) -> TypeGuard[MessagePassing]:
    """Whether the way back through a method's updates goes along its messages."""
    return method.derivative is Derivative.MESSAGES


def goes_back_by_marginals(method: Method) -> TypeGuard[MeanField]:
    """Whether the way back goes along updates of marginals."""
    return method.derivative is Derivative.MARGINALS


def sweep_spec(method: MessagePassing, graph: FactorGraph) -> SweepSpec:
    """Return what a sweep needs; counting numbers are worked out once a layout."""
    lay = graph.layout
    check_possible(graph)
    schedule = make_schedule(lay, method.schedule, method.order)
    summed, rho = np.ones(lay.n_vars, np.bool_), reweighting_of(method, graph).rho
    return SweepSpec(lay, graph.theta, summed, rho, schedule, 0.0, True)


def reweighting_of(method: MessagePassing, graph: FactorGraph) -> Reweighting:
    """Return the counting numbers of a method, kept on the layout."""
    rho = getattr(method, "rho", None)
    key = rho if rho is None or isinstance(rho, (str, int, float)) else np.asarray(rho, np.float64).tobytes()
    return graph.layout.keep((reweighting_of, method.name, key), lambda: method.counting_numbers(Problem(graph), None))


class Backward(ABC):
    """The way back from the beliefs of a run: adjoints of its messages and tables."""

    @abstractmethod
    def back_pass(self, t: int, old: Floats, new: Floats) -> None:
        """Go back through pass ``t``, given the messages before and after it; neither is written to."""

    @abstractmethod
    def largest_adjoint(self, messages: Floats) -> float:
        """Return how much of the gradient still waits at the messages."""

    @abstractmethod
    def gradient(self) -> Floats:
        """Return the gradient in the log potentials, ``(n_cells,)``; the way back is over."""


class MessageRun(Replayed):
    """One run of message passing on one graph: passes forward, and adjoints backward."""

    tier: Tier

    def __init__(self, graph: FactorGraph, tier: Tier, mu_var: Floats) -> None:
        self.graph, self.spec, self.tier, self.mu_var = graph, tier.spec, tier, mu_var

    @property
    def passes_an_iteration(self) -> int:
        """How many passes there are in an iteration of ``infer``."""
        return self.tier.n_passes

    def run_pass(self, t: int) -> None:
        """Run pass ``t``, counted from the start of the run."""
        n = self.passes_an_iteration
        if self.sweep(t % n) > 0:
            raise zero_probability(self.graph)
        if (t + 1) % n == 0:
            self.tier.end_iteration((t + 1) // n)

    def sweep(self, index: int) -> int:
        """Send the messages of one pass of an iteration; return what the tier says."""
        return self.tier.run_pass(index)

    def beliefs(self) -> float:
        """Write beliefs of variables to ``mu_var``; return their largest change."""
        change, possible = self.tier.beliefs(self.mu_var)
        if not possible:
            raise zero_probability(self.graph)
        return change

    def is_refreshed(self, t: int) -> bool:
        """Whether sums were made afresh before pass ``t``."""
        return t % (self.passes_an_iteration * REFRESH) == 0

    @abstractmethod
    def mu_factor(self, state: State) -> Floats:
        """Return every factor's belief at a state."""

    @abstractmethod
    def backward(self, state: State, mu_factor: Floats, bar_var: Floats, bar_factor: Floats) -> Backward:
        """Go back from the beliefs at the last state; ``bar_factor`` and ``mu_factor`` may be empty."""


class RunBeliefs(Beliefs):
    """Beliefs at the last state of a run."""

    def __init__(self, run: MessageRun, last: State) -> None:
        self.run, self.last = run, last
        self.layout, self.mu_var, self.rho = run.spec.layout, run.mu_var, run.spec.rho
        self._mu_factor: Floats | None = None

    @property
    def mu_factor(self) -> Floats:
        """Every factor's own table, made when first asked for."""
        if self._mu_factor is None:
            self._mu_factor = self.run.mu_factor(self.last)
        return self._mu_factor

    def backward(self, bar_var: Floats, bar_factor: Floats | None) -> Backward:
        """Go back through the beliefs to the messages of the last state."""
        if bar_factor is None:
            return self.run.backward(self.last, _NONE, bar_var, _NONE)
        return self.run.backward(self.last, self.mu_factor, bar_var, bar_factor)


class LogRun(MessageRun):
    """Messages as logs: any factors, any range of values."""

    tier: LogTier

    def save(self, whole: bool) -> State:
        """Copy the messages, and their sums."""
        sums = self.tier.sums
        rest = (sums.finite.copy(), sums.zeros.astype(np.float64)) if whole else None
        return State.copied(sums.messages, rest)

    def load(self, state: State) -> None:
        """Go back to a whole state."""
        assert state.rest is not None
        sums = self.tier.sums
        sums.messages[:], sums.finite[:], sums.zeros[:] = state.messages, *state.rest

    def mu_factor(self, state: State) -> Floats:
        """Return every factor's belief at a state."""
        tables = LogMessages.of(self.spec, state.messages).tables()
        if tables is None:
            raise zero_probability(self.graph)
        return tables

    def backward(self, state: State, mu_factor: Floats, bar_var: Floats, bar_factor: Floats) -> LogBackward:
        """Go back through the beliefs, see :func:`beliefs.kernels.adjoints.messages.adjoint_beliefs`."""
        lay, back = self.spec.layout, LogBackward(self.tier, state.messages.size)
        adjoint_beliefs(
            lay.scopes, lay.table_ptr, self.spec.model, self.mu_var, mu_factor, bar_var, bar_factor, back.adjoints,
            back.grad,
        )  # fmt: skip
        return back


class LogBackward(Backward):
    """Adjoints of log messages."""

    def __init__(self, tier: LogTier, n_entries: int) -> None:
        lay = tier.spec.layout
        self.tier, self.spec = tier, tier.spec
        self.adjoints, self.grad = Adjoints(np.zeros(lay.n_states), np.zeros(n_entries)), np.zeros(lay.n_cells)
        self.sums = LogSums(np.empty(n_entries), np.empty(lay.n_states), np.empty(lay.n_states, np.int64))

    def back_pass(self, t: int, old: Floats, new: Floats) -> None:
        """Add up the messages afresh, so that rounding does not pile up, and go back."""
        now, scopes = self.spec, self.spec.layout.scopes
        self.sums.messages[:] = new
        log_beliefs(scopes, now.layout.message_ptr, now.rho, *self.sums)
        order = now.schedule.passes[t % self.tier.n_passes].factors
        adjoint_sweep_log(
            scopes, now.model, self.tier.scaled, now.floor, self.tier.extent, order, old, self.sums, self.adjoints,
            self.grad,
        )  # fmt: skip

    def largest_adjoint(self, messages: Floats) -> float:
        """Return how much of the gradient still waits at the messages."""
        return float(largest_adjoint(self.spec.layout.scopes, self.spec.model, messages, self.adjoints))

    def gradient(self) -> Floats:
        """Add the variables' adjoints to their factors."""
        add_unary(self.spec.layout.scopes, self.spec.theta, self.adjoints.variable, self.grad)
        return self.grad
