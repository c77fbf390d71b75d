"""Message passing that can be walked back: the methods' own sweeps, forward, and their reverse kernels.

Beliefs are those of ``infer`` with the same method, pass by pass; only what an answer of ``infer`` has beside them
(bounds, energies, tests of convergence) is left out.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from beliefs.errors import UnsupportedError
from beliefs.inference.base import Method, Problem, zero_probability
from beliefs.inference.messages.log_messages import LogMessages
from beliefs.inference.messages.propagation import MessagePassing
from beliefs.inference.messages.rho import Reweighting
from beliefs.inference.messages.schedule import make_schedule
from beliefs.inference.messages.setting import Setting
from beliefs.inference.messages.tiers import LogTier, Tier
from beliefs.inference.text import known_methods
from beliefs.kernels.adjoints.messages import add_unary, back_beliefs, back_sweep_log, largest_adjoint
from beliefs.kernels.messages.log import log_beliefs
from beliefs.learning.gradients.checkpoints import Replayed, State
from beliefs.learning.gradients.shelf import take
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["LogRun", "MessageRun", "check_method", "reweighting_of", "setting_of"]

REFRESH = 32  # iterations between which sums of messages are kept up by differences, as in ``infer``


def check_method(method: Method) -> None:
    """Raise if there is no way back through this method's updates."""
    if not method.derivative.reversible:
        *names, last = (cls.name for cls in known_methods() if cls.derivative.reversible)
        raise UnsupportedError(f"there is no way back through {method!r}; use {', '.join(names)} or {last}")
    if reason := method.irreversible():
        raise UnsupportedError(reason)


def setting_of(method: MessagePassing, graph: FactorGraph) -> Setting:
    """Return what a sweep needs; counting numbers are worked out once a layout."""
    lay = graph.layout
    if (graph.theta[lay.cell_ptr[lay.factor_size == 1]] == -np.inf).any():
        raise zero_probability(graph)
    schedule = make_schedule(lay, method.schedule, method.order)
    summed, rho = np.ones(lay.n_vars, np.bool_), reweighting_of(method, graph).rho
    return Setting(lay, graph.theta, summed, rho, schedule, 0.0, True, take)


def reweighting_of(method: MessagePassing, graph: FactorGraph) -> Reweighting:
    """Return the counting numbers of a method, kept on the layout."""
    rho = getattr(method, "rho", None)
    key = rho if rho is None or isinstance(rho, (str, int, float)) else np.asarray(rho, np.float64).tobytes()
    return graph.layout.plan(
        ("counting numbers", method.name, key), lambda: method.counting_numbers(Problem(graph), None)
    )


class MessageRun(Replayed):
    """One run of message passing on one graph: passes forward, and adjoints backward."""

    tier: Tier

    def __init__(self, graph: FactorGraph, setting: Setting, tier: Tier, mu_var: Floats) -> None:
        self.graph, self.setting, self.tier, self.mu_var = graph, setting, tier, mu_var

    @property
    def passes_an_iteration(self) -> int:
        """How many passes there are in an iteration of ``infer``."""
        return len(self.setting.schedule.passes)

    def run_pass(self, t: int) -> None:
        """Run pass ``t``, counted from the start of the run."""
        n = self.passes_an_iteration
        if self.sweep(t % n) > 0:
            raise zero_probability(self.graph)
        if (t + 1) % (n * REFRESH) == 0:
            self.tier.refresh()

    def sweep(self, index: int) -> int:
        """Send the messages of one pass of an iteration; return what the tier says."""
        return self.tier.run(index, 0, self.setting.schedule.passes[index].size)

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
    def begin_backward(self, state: State, mu_factor: Floats, bar_var: Floats, bar_factor: Floats) -> None:
        """Set the adjoints of the beliefs at the last state; ``bar_factor`` and ``mu_factor`` may be empty."""

    @abstractmethod
    def back_pass(self, t: int, old: Floats, new: Floats) -> None:
        """Go back through pass ``t``, given the messages before and after it; neither is written to."""

    @abstractmethod
    def largest_adjoint(self, messages: Floats) -> float:
        """Return how much of the gradient still waits at the messages."""

    @abstractmethod
    def gradient(self) -> Floats:
        """Return the gradient in the log potentials, ``(n_cells,)``; the way back is over."""


class LogRun(MessageRun):
    """Messages as logs: any factors, any range of values."""

    tier: LogTier

    def save(self, whole: bool) -> State:
        """Copy the messages, and their sums."""
        rest = (self.tier.finite.copy(), self.tier.zeros.astype(np.float64)) if whole else None
        return State.copied(self.tier.messages, rest)

    def load(self, state: State) -> None:
        """Go back to a whole state."""
        assert state.rest is not None
        self.tier.messages[:], self.tier.finite[:], self.tier.zeros[:] = state.messages, *state.rest

    def mu_factor(self, state: State) -> Floats:
        """Return every factor's belief at a state."""
        tables = LogMessages.of(self.setting, state.messages).tables()
        if tables is None:
            raise zero_probability(self.graph)
        return tables

    def begin_backward(self, state: State, mu_factor: Floats, bar_var: Floats, bar_factor: Floats) -> None:
        """Go back through the beliefs, see :func:`beliefs.kernels.adjoints.messages.back_beliefs`."""
        lay, n_messages = self.setting.layout, state.messages.size
        self.total, self.kept, self.grad = np.zeros(lay.n_states), np.zeros(n_messages), np.zeros(lay.n_cells)
        self.finite, self.zeros = np.empty(lay.n_states), np.empty(lay.n_states, np.int64)
        self.now = np.empty(n_messages)
        back_beliefs(
            lay.card, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, lay.table_ptr, lay.state_ptr, lay.message_ptr,
            self.setting.rho, self.mu_var, mu_factor, bar_var, bar_factor, self.total, self.kept, self.grad,
        )  # fmt: skip

    def back_pass(self, t: int, old: Floats, new: Floats) -> None:
        """Add up the messages afresh, so that rounding does not pile up, and go back."""
        lay, now = self.setting.layout, self.setting
        self.now[:] = new
        offsets = lay.message_ptr
        log_beliefs(
            lay.scope_ptr, lay.scope_vars, lay.state_ptr, offsets, now.rho, self.now, self.finite, self.zeros
        )  # fmt: skip
        back_sweep_log(
            lay.card, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, lay.state_ptr, offsets, now.theta, now.rho,
            self.tier.extent, now.schedule.passes[t % self.passes_an_iteration].factors, now.floor, old, self.now,
            self.finite, self.zeros, self.total, self.kept, self.grad, self.tier.psi_ptr, self.tier.psi,
            self.tier.log_least,
        )  # fmt: skip

    def largest_adjoint(self, messages: Floats) -> float:
        """Return how much of the gradient still waits at the messages."""
        lay = self.setting.layout
        return float(
            largest_adjoint(
                lay.scope_ptr,
                lay.scope_vars,
                lay.state_ptr,
                lay.message_ptr,
                self.setting.rho,
                messages,
                self.total,
                self.kept,
            )  # fmt: skip
        )

    def gradient(self) -> Floats:
        """Add the variables' adjoints to their factors."""
        lay = self.setting.layout
        add_unary(lay.scope_ptr, lay.scope_vars, lay.cell_ptr, lay.state_ptr, self.setting.theta, self.total, self.grad)
        return self.grad
