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
from functools import partial

import numpy as np

from beliefs.inference.messages.log_messages import Assessment, LogMessages
from beliefs.inference.messages.records import LinearRecord, MessageRecord
from beliefs.inference.messages.sweep_spec import SweepSpec
from beliefs.inference.parallel import parallel_chunks
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
from beliefs.kernels.messages.log import TIE, log_beliefs, scratch, send_unary, sweep_log, widest_scope
from beliefs.kernels.messages.structures import LinearMessages, LogSums, ScaledTables, Update
from beliefs.model.layout import Layout
from beliefs.typing import Floats, Ints

REFRESH = 32
"""Iterations between which sums and products of messages are kept up by differences."""

__all__ = ["REFRESH", "LinearTier", "LogTier", "Tier", "initial_messages"]


def initial_messages(spec: SweepSpec, messages: Floats | None) -> Floats | None:
    """Return a copy of the messages, or uniform ones, with those of factors of one variable; None if one is zero.

    Messages that say nothing have log-sum-exp zero towards sum variables and are zero towards max variables.
    """
    lay = spec.layout
    if messages is None:
        card = lay.card[lay.scope_vars]
        sent = np.repeat(np.where(spec.summed[lay.scope_vars], -np.log(card), 0.0), card)
    else:
        sent = messages.copy()
    return sent if send_unary(lay.scopes, spec.model, spec.summed, sent) else None


class Tier(ABC):
    """Messages in one form. ``make`` returns None where this form cannot hold the problem."""

    spec: SweepSpec

    @classmethod
    @abstractmethod
    def make(cls, spec: SweepSpec, messages: Floats | None) -> Tier | None:
        """Take over normalised log messages, flat, in the order of edges; None: nothing has been sent yet."""

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
    def record(self) -> MessageRecord:
        """Return the present messages as an answer keeps them."""

    def log_messages(self) -> Floats:
        """Return all messages as logs, flat, in the order of edges, normalised."""
        return self.record().log_messages()

    def assess(self, mu_var: Floats, parent: Floats | None) -> Assessment:
        """Return what sums are worth at the present messages; ``parent`` certifies counting numbers, if given."""
        return LogMessages.of(self.spec, self.log_messages()).assess(mu_var, parent)

    def tables(self, mu_var: Floats) -> Floats:
        """Return the beliefs of all factors, one after the other, of messages that were found possible."""
        return self.record().tables(mu_var)

    def decode(self, states: Ints, tie: float = TIE) -> None:
        """Decide the variables that are open in ``states`` (-1), one after the other; the first within ``tie`` of best.

        See :mod:`beliefs.kernels.messages.decode`.
        """
        LogMessages.of(self.spec, self.log_messages()).decode(states, tie)

    def log_beliefs(self) -> Floats:
        """Return the logs of the variables' beliefs up to a constant each, ``-inf`` where a message is."""
        return LogMessages.of(self.spec, self.log_messages()).beta

    # -- iterations ---------------------------------------------------------------------------------------------
    @property
    def n_passes(self) -> int:
        """How many passes there are in an iteration."""
        return len(self.spec.schedule.passes)

    def run_pass(self, index: int, threads: int = 1) -> int:
        """Run one pass of an iteration; return the worst of what its chunks say."""
        walk = self.spec.schedule.passes[index]
        if threads == 1:
            return self.run(index, 0, walk.size)
        for bounds in walk.groups:
            code = parallel_chunks(partial(self.run, index), bounds, threads)
            if code > 0:
                return code
        return DONE

    def end_iteration(self, n_iterations: int) -> int:
        """Add up messages afresh where it is due after so many iterations; return what :meth:`refresh` says."""
        due = self.spec.schedule.name == "flooding" or n_iterations % REFRESH == 0
        return self.refresh() if due else DONE


class LogTier(Tier):
    """Messages as logs."""

    def __init__(self, spec: SweepSpec, messages: Floats) -> None:
        layout, flooding = spec.layout, spec.schedule.name == "flooding"
        self.spec = spec
        self.sums = LogSums(messages, np.empty(layout.n_states), np.empty(layout.n_states, np.int64))
        self.fresh = messages.copy() if flooding else messages
        self.update = Update(spec.damping, spec.in_logs, spec.floor, flooding)
        self.extent = np.array(widest_scope(layout.card, layout.scope_ptr, layout.scope_vars), np.int64)
        plain = bool(spec.summed[~layout.observed].all())
        self.scaled = _potentials(spec) if plain else ScaledTables(layout.cell_ptr, np.zeros(0), 1.0, 0.0)
        self.known = (layout.scopes, spec.model, spec.summed, self.scaled, self.update)
        """What all sweeps read."""
        self._add_up()

    @classmethod
    def make(cls, spec: SweepSpec, messages: Floats | None) -> LogTier | None:
        """Hold any problem; None if a factor of one variable is zero everywhere."""
        sent = initial_messages(spec, messages)
        return None if sent is None else cls(spec, sent)

    def _add_up(self) -> None:
        log_beliefs(self.spec.layout.scopes, self.spec.layout.message_ptr, self.spec.rho, *self.sums)

    def run(self, index: int, begin: int, end: int) -> int:
        """Sweep in logs."""
        walk = self.spec.schedule.passes[index]
        possible = sweep_log(*self.known, scratch(self.extent), *walk.piece(begin, end), self.sums, self.fresh)
        return DONE if possible else IMPOSSIBLE

    def refresh(self) -> int:
        """Swap the arrays of a flooding pass and add up."""
        sums = self.sums
        self.sums, self.fresh = LogSums(self.fresh, sums.finite, sums.zeros), sums.messages
        self._add_up()
        return DONE

    def beliefs(self, mu_var: Floats) -> tuple[float, bool]:
        """Normalise the sums."""
        lay = self.spec.layout
        return variable_beliefs(lay.state_ptr, lay.observed, self.sums.finite, self.sums.zeros, mu_var)

    def record(self) -> MessageRecord:
        """Return the messages themselves."""
        return MessageRecord(self.spec, self.sums.messages)


class LinearTier(Tier):
    """Messages of sums as plain numbers with mean one."""

    def __init__(self, spec: SweepSpec, messages: Floats) -> None:
        lay, flooding = spec.layout, spec.schedule.name == "flooding"
        self.spec = spec
        self.extent = np.array(widest_scope(lay.card, lay.scope_ptr, lay.scope_vars), np.int64)
        self.room = room_for(self.extent)
        self.scaled = _potentials(spec)
        self.update = Update(spec.damping, spec.in_logs, -np.inf, flooding)
        self.known = (lay.scopes, lay.message_ptr, spec.rho, self.scaled, self.update, self.extent)
        """What all sweeps read."""
        card = lay.card[lay.scope_vars]
        sent = np.exp(messages) * np.repeat(card, card).astype(float)
        fresh = sent.copy() if flooding else sent
        self.held = LinearMessages(sent, fresh, np.empty(lay.n_states), np.empty(lay.n_states, np.int64))

    @classmethod
    def make(cls, spec: SweepSpec, messages: Floats | None) -> LinearTier | None:
        """Hold sums whose potentials and messages are within the range of a double."""
        if not spec.summed[~spec.layout.observed].all():
            return None
        sent = initial_messages(spec, messages)
        if sent is None or sent[sent > -np.inf].min(initial=0.0) < -500.0:
            return None
        tier = cls(spec, sent)
        return tier if tier._multiply() == DONE else None

    def _multiply(self) -> int:
        lay, held = self.spec.layout, self.held
        inside = products(lay.scopes, lay.message_ptr, self.spec.rho, held.messages, held.product, held.zeros)
        return DONE if inside else OUT_OF_RANGE

    def run(self, index: int, begin: int, end: int) -> int:
        """Sweep with plain numbers."""
        walk = self.spec.schedule.passes[index]
        code = sweep_linear(*self.known, *walk.piece(begin, end), self.held, np.empty(self.room))
        return int(code)

    def refresh(self) -> int:
        """Swap the arrays of a flooding pass and multiply up."""
        held = self.held
        self.held = LinearMessages(held.fresh, held.messages, held.product, held.zeros)
        return self._multiply()

    def beliefs(self, mu_var: Floats) -> tuple[float, bool]:
        """Normalise the products."""
        lay = self.spec.layout
        return linear_beliefs(lay.state_ptr, lay.observed, self.held.product, self.held.zeros, mu_var)

    def record(self) -> LinearRecord:
        """Return the plain numbers."""
        return LinearRecord(self.spec, self.held.messages)


def _potentials(spec: SweepSpec) -> ScaledTables:
    """Return the potentials of sums as plain numbers; factors that share cells share them here too, if they can."""
    lay = spec.layout
    ptr, size = (lay.table_ptr[:-1], int(lay.table_ptr[-1])) if _untie(lay, spec.rho) else (lay.cell_ptr, lay.n_cells)
    psi = np.empty(size)
    least = float(scaled_potentials(lay.factor_size, lay.cell_ptr, ptr, spec.theta, spec.rho, psi))
    return ScaledTables(ptr, psi, least, float(np.log(least)))


def _untie(layout: Layout, rho: Floats) -> bool:
    """Whether factors that share cells have different counting numbers, so that their potentials differ."""
    if not layout.tied:
        return False
    _, first, group = np.unique(layout.cell_ptr, return_index=True, return_inverse=True)
    return bool((rho != rho[first][group]).any())
