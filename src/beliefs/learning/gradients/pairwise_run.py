"""The fast form of a run that can be walked back: pairwise models of one cardinality without hard zeros."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from beliefs.inference.messages.buffer_pool import put_back, take
from beliefs.inference.messages.pairwise_tier import PairwiseTier
from beliefs.kernels.adjoints.binary import binary_adjoint_sweep
from beliefs.kernels.adjoints.messages import add_unary
from beliefs.kernels.adjoints.pair_beliefs import (
    adjoint_pair_beliefs,
    adjoint_row_beliefs,
    largest_held_adjoint,
    table_gradients,
)
from beliefs.kernels.adjoints.pairwise import add_waiting, adjoint_sweep
from beliefs.kernels.adjoints.structures import Adjoints, Ranks
from beliefs.kernels.messages.pairwise.setup import multiply_up
from beliefs.kernels.messages.pairwise.sweep import CONSTANT_WIDTHS
from beliefs.learning.gradients.checkpoints import Room, State
from beliefs.learning.gradients.message_run import Backward, MessageRun
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["PairwiseRun"]


WIDE = 12  # states from which on the adjoints of tables are added up only every few passes
DEPTH = 4  # passes: their vectors are then a few times smaller than what is not read and written


class PairwiseRun(MessageRun):
    """Messages as plain numbers: :mod:`beliefs.kernels.adjoints.pairwise`, :mod:`beliefs.kernels.adjoints.binary`."""

    tier: PairwiseTier

    def __init__(self, graph: FactorGraph, tier: PairwiseTier, mu_var: Floats) -> None:
        super().__init__(graph, tier, mu_var)
        self.room, self.shared = Room(tier.messages), False

    def sweep(self, index: int) -> int:
        """Send the messages of one pass; those that a state has are left to it, and the new ones written elsewhere."""
        if not self.shared:
            return super().sweep(index)
        room = Room(take(self.tier.messages.size))
        self.tier.fresh = room.array
        code = super().sweep(index)
        self.tier.take_over()
        self.room, self.shared = room, False
        return code

    def save(self, whole: bool) -> State:
        """Hand over the messages, with a copy of their products."""
        self.shared = True
        return State(self.tier.messages, (self.tier.product.copy(),) if whole else None, self.room)

    def load(self, state: State) -> None:
        """Go back to a whole state."""
        assert state.rest is not None and state.room is not None
        self.tier.messages, self.room, self.shared = state.messages, state.room, True
        self.tier.product[:] = state.rest[0]

    def mu_factor(self, state: State) -> Floats:
        """Return every factor's belief at a state: of one variable, the variable's."""
        assert state.rest is not None
        record = replace(self.tier.record(), messages=state.messages, product=state.rest[0])
        return record.tables_from(self.tier.pairs.psi, self.mu_var)

    def backward(self, state: State, mu_factor: Floats, bar_var: Floats, bar_factor: Floats) -> PairwiseBackward:
        """Go back through the beliefs."""
        assert state.rest is not None
        lay, edges, back = self.spec.layout, self.tier.edges, PairwiseBackward(self, state.rest[0])
        adjoint_row_beliefs(edges.states, edges.width, self.mu_var, bar_var, back.adjoints.variable)
        if bar_factor.size:
            adjoint_pair_beliefs(
                self.tier.pairs, edges.width, self.tier.rho, edges.factors, lay.table_ptr, lay.cell_ptr, mu_factor,
                bar_factor, back.adjoints, back.grad,
            )  # fmt: skip
        return back


class PairwiseBackward(Backward):
    """Adjoints of held messages, in memory of the pool that :meth:`gradient` puts back."""

    def __init__(self, run: PairwiseRun, product: Floats) -> None:
        tier, edges = run.tier, run.tier.edges
        self.run, self.tier = run, tier
        self.adjoints = Adjoints(zeros(tier.product.size), zeros(tier.messages.size))
        self.bar_psi = zeros(tier.pairs.psi.size)
        depth = DEPTH if edges.states >= WIDE and not edges.table.size else 0
        self.ranks = Ranks(0, depth, take(depth * edges.u.size * 4 * edges.width))
        self.product, self.grad = take(tier.product.size), np.zeros(tier.spec.layout.n_cells)
        self.product[:] = product

    def back_pass(self, t: int, old: Floats, new: Floats) -> None:
        """Go back over the edges in the opposite order."""
        tier, edges = self.tier, self.tier.edges
        if self.run.is_refreshed(t + 1):
            self.product[:] = tier.unary
            multiply_up(edges.u, edges.v, tier.rho, edges.width, False, new, self.product)
        stride = 1 if tier.spec.schedule.passes[t % tier.n_passes].reverse else -1
        known = (tier.pairs, tier.rho, stride, old, new, self.product, *self.adjoints, self.bar_psi)
        if edges.width == 1:
            binary_adjoint_sweep(*known)
            return
        adjoint_sweep(edges.width if edges.width in CONSTANT_WIDTHS else 0)(*known, self.ranks)
        if self.ranks.depth:
            self.ranks = self.ranks._replace(slot=(self.ranks.slot + 1) % self.ranks.depth)

    def largest_adjoint(self, messages: Floats) -> float:
        """Return how much of the gradient still waits at the messages."""
        return float(largest_held_adjoint(self.tier.pairs, self.tier.edges.width, self.tier.rho, self.adjoints))

    def gradient(self) -> Floats:
        """Add the tables' and the variables' adjoints."""
        lay, edges, weights = self.tier.spec.layout, self.tier.edges, self.tier.weights
        if self.ranks.slot:
            add_waiting(edges.u.size, edges.states, self.ranks, self.bar_psi)
        table_gradients(weights.cells, edges.states, self.tier.pairs.psi, weights.of_tables, self.bar_psi, self.grad)
        held, variable = self.adjoints.variable, np.empty((lay.n_vars, edges.states))
        if edges.width == 1:
            variable[:, 1] = held
            np.negative(held, out=variable[:, 0])
        else:
            variable[:] = held.reshape(lay.n_vars, edges.width)[:, : edges.states]
        add_unary(lay.scopes, self.tier.spec.theta, variable.reshape(-1), self.grad)
        for memory in (self.product, *self.adjoints, self.bar_psi, self.ranks.vectors):
            put_back(memory)
        return self.grad


def zeros(size: int) -> Floats:
    """Return zeros in memory that may have been used before."""
    array = take(size)
    array[:] = 0.0
    return array
