"""How messages are held and swept: three forms of the same update, each faster and narrower than the next.

================  ====================================================================================================
``PairwiseTier``  factors of at most two variables, one cardinality, no hard zeros: specialised kernels, tables copied
                  in the order of the sweep (:mod:`beliefs.kernels.messages.pairwise.sweep`)
``LinearTier``    sums on any factors, as plain numbers (:mod:`beliefs.kernels.messages.linear`)
``LogTier``       everything: sums, maxima, both, any range of values (:mod:`beliefs.kernels.messages.log`)
================  ====================================================================================================

A method takes the first that can hold its problem. They agree to rounding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from beliefs.inference.messages.log_messages import Assessment, LogMessages
from beliefs.inference.messages.schedule import Pass
from beliefs.inference.messages.sweep_spec import Setting
from beliefs.kernels.messages.beliefs import variable_beliefs
from beliefs.kernels.messages.linear import (
    DONE,
    IMPOSSIBLE,
    OUT_OF_RANGE,
    linear_beliefs,
    products,
    room_for,
    scaled_potentials,
    sweep_linear,
)
from beliefs.kernels.messages.log import log_beliefs, send_unary, sweep_log, widest_scope
from beliefs.model.layout import Layout
from beliefs.typing import Floats, Ints

REFRESH = 32
"""Iterations between which sums and products of messages are kept up by differences."""

__all__ = ["REFRESH", "LinearTier", "LogTier", "Tier", "said_at_first"]


def said_at_first(setting: Setting, messages: Floats | None) -> Floats | None:
    """Return a copy of the messages, or uniform ones, with those of factors of one variable; None if one is zero.

    Messages that say nothing have log-sum-exp zero towards sum variables and are zero towards max variables.
    """
    lay = setting.layout
    if messages is None:
        card = lay.card[lay.scope_vars]
        said = np.repeat(np.where(setting.summed[lay.scope_vars], -np.log(card), 0.0), card)
    else:
        said = messages.copy()
    possible = send_unary(
        lay.scope_ptr, lay.scope_vars, lay.cell_ptr, lay.message_ptr, setting.theta, setting.summed, said
    )
    return said if possible else None


class Tier(ABC):
    """Messages in one form. ``make`` returns None where this form cannot hold the problem."""

    setting: Setting

    @classmethod
    @abstractmethod
    def make(cls, setting: Setting, messages: Floats | None) -> Tier | None:
        """Take over normalised log messages, flat, in the order of edges; None: nothing has been said yet."""

    @abstractmethod
    def run(self, index: int, begin: int, end: int) -> int:
        """Update factors ``begin:end`` of pass ``index``; return DONE, IMPOSSIBLE or OUT_OF_RANGE."""

    @abstractmethod
    def refresh(self) -> int:
        """End a flooding pass, and add up all messages afresh so that rounding does not pile up."""

    @abstractmethod
    def beliefs(self, mu_var: Floats) -> tuple[float, bool]:
        """Write beliefs of variables over those of before; return the largest change, False if one has no state."""

    @abstractmethod
    def log_messages(self) -> Floats:
        """Return all messages as logs, flat, in the order of edges, normalised."""

    def assess(self, mu_var: Floats, parent: Floats | None) -> Assessment:
        """Return what sums are worth at the present messages; ``parent`` certifies counting numbers, if given."""
        return LogMessages.of(self.setting, self.log_messages()).assess(mu_var, parent)

    def tables(self, mu_var: Floats) -> Floats:
        """Return the beliefs of all factors, one after the other, of messages that were found possible."""
        tables = LogMessages.of(self.setting, self.log_messages()).tables()
        assert tables is not None
        return tables

    def decode(self, states: Ints) -> None:
        """Decide the variables that are open in ``states`` (-1), one after the other; see :mod:`.kernels.decode`."""
        LogMessages.of(self.setting, self.log_messages()).decode(states)

    def log_beliefs(self) -> Floats:
        """Return the logs of the variables' beliefs up to a constant each, ``-inf`` where a message is."""
        return LogMessages.of(self.setting, self.log_messages()).beta

    def release(self) -> None:  # noqa: B027
        """Let go of what only further sweeps would need."""

    def passes(self) -> tuple[Pass, ...]:
        """The passes of an iteration."""
        return self.setting.schedule.passes


class LogTier(Tier):
    """Messages as logs."""

    def __init__(self, setting: Setting, messages: Floats) -> None:
        layout = setting.layout
        self.setting, self.messages = setting, messages
        self.fresh = messages.copy() if setting.schedule.name == "flooding" else messages
        self.finite, self.zeros = np.empty(layout.n_states), np.empty(layout.n_states, np.int64)
        self.extent = np.array(widest_scope(layout.card, layout.scope_ptr, layout.scope_vars), np.int64)
        self.psi_ptr, self.psi, least = layout.cell_ptr, np.zeros(0), 1.0
        if setting.summed[~layout.observed].all():
            self.psi_ptr, self.psi, least = _potentials(setting)
        self.log_least = float(np.log(least))
        self._add_up()

    @classmethod
    def make(cls, setting: Setting, messages: Floats | None) -> LogTier | None:
        """Hold any problem; None if a factor of one variable is zero everywhere."""
        said = said_at_first(setting, messages)
        return None if said is None else cls(setting, said)

    def _add_up(self) -> None:
        lay = self.setting.layout
        log_beliefs(
            lay.scope_ptr, lay.scope_vars, lay.state_ptr, lay.message_ptr, self.setting.rho,
            self.messages, self.finite, self.zeros,
        )  # fmt: skip

    def run(self, index: int, begin: int, end: int) -> int:
        """Sweep in logs."""
        now, lay = self.setting, self.setting.layout
        walk = now.schedule.passes[index]
        possible = sweep_log(
            lay.card, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, lay.state_ptr, lay.message_ptr, now.theta,
            now.summed, now.rho, self.extent, walk.factors[begin:end], walk.skip[begin:end], now.damping, now.in_logs,
            now.floor, self.fresh is not self.messages, self.messages, self.fresh, self.finite, self.zeros,
            self.psi_ptr, self.psi, self.log_least,
        )  # fmt: skip
        return DONE if possible else IMPOSSIBLE

    def refresh(self) -> int:
        """Swap the arrays of a flooding pass and add up."""
        self.messages, self.fresh = self.fresh, self.messages
        self._add_up()
        return DONE

    def beliefs(self, mu_var: Floats) -> tuple[float, bool]:
        """Normalise the sums."""
        lay = self.setting.layout
        return variable_beliefs(lay.state_ptr, lay.observed, self.finite, self.zeros, mu_var)

    def log_messages(self) -> Floats:
        """Return the messages themselves."""
        return self.messages

    def release(self) -> None:
        """Let go of the scaled tables."""
        self.psi = np.zeros(0)


class LinearTier(Tier):
    """Messages of sums as plain numbers with mean one."""

    def __init__(self, setting: Setting, messages: Floats) -> None:
        lay = setting.layout
        self.setting = setting
        self.extent = np.array(widest_scope(lay.card, lay.scope_ptr, lay.scope_vars), np.int64)
        self.psi_ptr, self.psi, self.least = _potentials(setting)
        self.scale = np.repeat(lay.card[lay.scope_vars], lay.card[lay.scope_vars]).astype(float)
        self.messages = np.exp(messages) * self.scale
        self.fresh = self.messages.copy() if setting.schedule.name == "flooding" else self.messages
        self.product, self.zeros = np.empty(lay.n_states), np.empty(lay.n_states, np.int64)

    @classmethod
    def make(cls, setting: Setting, messages: Floats | None) -> LinearTier | None:
        """Hold sums whose potentials and messages are within the range of a double."""
        if not setting.summed[~setting.layout.observed].all():
            return None
        said = said_at_first(setting, messages)
        if said is None or said[said > -np.inf].min(initial=0.0) < -500.0:
            return None
        tier = cls(setting, said)
        return tier if tier._multiply() == DONE else None

    def _multiply(self) -> int:
        lay = self.setting.layout
        inside = products(
            lay.scope_ptr, lay.scope_vars, lay.state_ptr, lay.message_ptr, self.setting.rho,
            self.messages, self.product, self.zeros,
        )  # fmt: skip
        return DONE if inside else OUT_OF_RANGE

    def run(self, index: int, begin: int, end: int) -> int:
        """Sweep with plain numbers."""
        now, lay = self.setting, self.setting.layout
        walk = now.schedule.passes[index]
        return int(
            sweep_linear(
                lay.card,
                lay.scope_ptr,
                lay.scope_vars,
                self.psi_ptr,
                lay.state_ptr,
                lay.message_ptr,
                self.psi,
                self.least,
                self.extent,
                now.rho,
                walk.factors[begin:end],
                walk.skip[begin:end],
                now.damping,
                now.in_logs,
                self.fresh is not self.messages,
                self.messages,
                self.fresh,
                self.product,
                self.zeros,
                np.empty(room_for(self.extent)),
            )  # fmt: skip
        )

    def refresh(self) -> int:
        """Swap the arrays of a flooding pass and multiply up."""
        self.messages, self.fresh = self.fresh, self.messages
        return self._multiply()

    def beliefs(self, mu_var: Floats) -> tuple[float, bool]:
        """Normalise the products."""
        lay = self.setting.layout
        return linear_beliefs(lay.state_ptr, lay.observed, self.product, self.zeros, mu_var)

    def log_messages(self) -> Floats:
        """Return logs; a message damped in logs has lost its normalisation, so it is normalised here."""
        with np.errstate(divide="ignore"):
            logs: Floats = np.log(self.messages)
        if not logs.size:
            return logs
        starts = self.setting.layout.message_ptr[:-1]
        logs -= np.repeat(np.log(np.add.reduceat(self.messages, starts)), np.diff(self.setting.layout.message_ptr))
        return logs

    def release(self) -> None:
        """Let go of the scaled tables."""
        self.psi = np.zeros(0)


def _potentials(setting: Setting) -> tuple[Ints, Floats, float]:
    """Return where each factor's scaled potentials begin, these, and the least of them that is not zero."""
    lay = setting.layout
    tables = (lay.table_ptr[:-1], int(lay.table_ptr[-1])) if _untie(lay, setting.rho) else (lay.cell_ptr, lay.n_cells)
    psi = np.empty(tables[1])
    return tables[0], psi, scaled_potentials(lay.factor_size, lay.cell_ptr, tables[0], setting.theta, setting.rho, psi)


def _untie(layout: Layout, rho: Floats) -> bool:
    """Whether factors that share cells have different counting numbers, so that their potentials differ."""
    if not layout.tied:
        return False
    _, first, group = np.unique(layout.cell_ptr, return_index=True, return_inverse=True)
    return bool((rho != rho[first][group]).any())
