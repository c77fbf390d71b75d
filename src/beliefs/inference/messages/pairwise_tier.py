"""The fast form of messages: pairwise models of one cardinality without hard zeros."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from beliefs.inference.base import Bound
from beliefs.inference.messages.buffer_pool import lend, take
from beliefs.inference.messages.log_messages import Assessment
from beliefs.inference.messages.pairwise_edges import Edges, EdgeWeights, PairwisePlan
from beliefs.inference.messages.pairwise_record import PairRecord, load_pairs
from beliefs.inference.messages.schedule import variables_breadth_first
from beliefs.inference.messages.sweep_spec import SweepSpec
from beliefs.inference.messages.tiers import REFRESH, Tier
from beliefs.inference.rounding import UNIT, rounding_error, widened
from beliefs.kernels.messages.linear import DONE
from beliefs.kernels.messages.log import TIE
from beliefs.kernels.messages.pairwise.binary import (
    binary_linear_sweep,
    binary_max_sweep,
    log_ratio_beliefs,
    ratio_beliefs,
)
from beliefs.kernels.messages.pairwise.decode import decode_pairs
from beliefs.kernels.messages.pairwise.setup import (
    hold_messages,
    hold_unary,
    largest_reach,
    multiply_up,
)
from beliefs.kernels.messages.pairwise.structures import PairTables
from beliefs.kernels.messages.pairwise.sweep import CONSTANT_WIDTHS, linear_sweep, max_sweep, row_beliefs
from beliefs.kernels.messages.pairwise.value import (
    AGREEMENT,
    BLOCK,
    BOUND,
    ENERGY,
    SIZE,
    binary_edge_value,
    edge_value,
    variable_value,
)
from beliefs.typing import Floats, Ints

__all__ = ["SAFE", "PairwiseTier"]

SAFE = 500.0  # nats: a product of messages spans no more than the tables around a variable do together


class PairwiseTier(Tier):
    """Messages as in :mod:`beliefs.kernels.messages.pairwise.setup`: plain numbers for sums, logs for maxima."""

    def __init__(
        self, spec: SweepSpec, plan: PairwisePlan, edges: Edges, psi: Floats, unary: Floats,
        shift: tuple[float, float], messages: Floats | None,
    ) -> None:  # fmt: skip
        lay = spec.layout
        self.spec, self.plan, self.edges, self.unary = spec, plan, edges, unary
        self.shift, self.magnitude = shift
        """What tables and unary potentials were lowered by, added up with and without signs."""
        self.log_domain = not spec.summed[edges.u[0]]
        self.weights = weights = plan.weights(spec, edges)
        self.pairs = PairTables(edges.states, edges.u, edges.v, weights.at, psi)
        for array in (psi, unary):
            lend(self, array)  # nobody else has them
        self.keep, powered = 1.0 - spec.damping, weights.powered or spec.damping > 0
        self.rho = weights.of_edges if powered or self.log_domain else np.zeros(0)
        self.kernel = _kernel(edges, self.log_domain, powered)
        self.product = np.empty_like(unary)
        self.fresh: Floats | None = None  # where a pass writes to; None: over the old messages
        self.messages = np.full(2 * edges.u.size * edges.width, 0.0 if self.log_domain else 1.0)
        if messages is None:
            self.product[:] = unary
            return
        form = (edges.states, edges.width, self.log_domain)
        hold_messages(edges.factors, lay.scope_ptr, *form, messages, self.messages)
        self.refresh()

    @classmethod
    def make(cls, spec: SweepSpec, messages: Floats | None) -> PairwiseTier | None:
        """Hold pairwise sums or maxima (not both at once) under a forward-backward order."""
        lay = spec.layout
        if not spec.schedule.straight or (spec.damping > 0 and not spec.in_logs):
            return None
        plan = PairwisePlan.of(spec)
        edges = plan.edges_of(spec)
        if edges is None or (messages is not None and messages.min(initial=0.0) == -np.inf):
            return None
        summed = bool(spec.summed[edges.u[0]])
        if (spec.summed[edges.u] != summed).any() or (spec.summed[edges.v] != summed).any():
            return None
        unary, lowered, reach = take(lay.n_vars * edges.width), np.empty(lay.n_vars), np.empty(lay.n_vars)
        form = (edges.states, edges.width, not summed)
        if not hold_unary(lay.scopes, *form, spec.theta, unary, lowered, reach):
            return None
        weights = plan.weights(spec, edges)
        loaded = load_pairs(spec, edges, weights, summed)
        if loaded is None:
            return None
        psi, span, shift = loaded
        if summed and _reach(spec, edges, weights, span, messages, reach) > SAFE:
            return None
        lowering = float(lowered.sum() + shift.sum()), float(np.abs(lowered).sum() + np.abs(shift).sum())
        return cls(spec, plan, edges, psi, unary, lowering, messages)

    def run(self, index: int, begin: int, end: int) -> int:
        """Sweep forward or backward."""
        span = (begin, end, 1)
        if self.spec.schedule.passes[index].reverse:
            last = self.edges.u.size - 1
            span = (last - begin, last - end, -1)
        fresh = self.messages if self.fresh is None else self.fresh
        self.kernel(self.pairs, self.rho, self.keep, *span, self.product, self.messages, fresh)
        return DONE

    def take_over(self) -> None:
        """End a pass that was written to ``fresh``: its messages are the present ones."""
        assert self.fresh is not None
        self.messages, self.fresh = self.fresh, None

    def refresh(self) -> int:
        """Multiply up."""
        self.product[:] = self.unary
        edges = self.edges
        multiply_up(edges.u, edges.v, self.rho, edges.width, self.log_domain, self.messages, self.product)
        return DONE

    def beliefs(self, mu_var: Floats) -> tuple[float, bool]:
        """Normalise the products."""
        observed = self.spec.layout.observed
        if self.edges.width == 1:
            kernel = log_ratio_beliefs if self.log_domain else ratio_beliefs
            return float(kernel(self.product, observed, mu_var)), True
        return float(row_beliefs(self.edges.states, self.log_domain, observed, self.product, mu_var)), True

    def record(self) -> PairRecord:
        """Return messages and products as they are held."""
        return PairRecord(self.spec, self.messages, self.edges, self.weights, self.product, self.log_domain)

    def assess(self, mu_var: Floats, parent: Floats | None) -> Assessment:
        """Return what sums are worth, by :mod:`beliefs.kernels.messages.pairwise.value`."""
        edges, weights = self.edges, self.weights
        proof = self.plan.certificate(self.spec, edges, parent)
        share, out = np.empty(self.spec.layout.n_vars), np.empty(4)
        of_variables = variable_value(edges.width, self.product, weights.rest, proof.root, share)
        width = edges.width if edges.width in CONSTANT_WIDTHS else 0
        kernel = binary_edge_value if edges.width == 1 else edge_value(width)
        kernel(self.pairs, weights.of_edges, proof.parent, self.product, share, self.messages, out)
        constants = self.spec.theta[self.spec.layout.constants]
        energy, bound = (float(constants.sum()) + self.shift + of_variables[k] + out[k] for k in (ENERGY, BOUND))
        if parent is None:
            return Assessment(float(energy), np.inf, float(out[AGREEMENT]))
        rounding = self._rounding(float(np.abs(constants).sum()) + self.magnitude + of_variables[SIZE] + out[SIZE])
        return Assessment(float(energy), widened(float(bound), rounding, Bound.UPPER), float(out[AGREEMENT]), rounding)

    def _rounding(self, magnitude: float) -> float:
        """Return how wrong the bound may be: its sum, and products kept up by factors between two refreshments."""
        edges, n_vars = self.edges, self.spec.layout.n_vars
        made = 8.0 * n_vars + (12.0 * REFRESH + edges.states + 20.0) * edges.u.size
        blocks = 2.0 * BLOCK + (n_vars + edges.u.size) / BLOCK
        return rounding_error(magnitude, blocks) + UNIT * made

    def decode(self, states: Ints, tie: float = TIE) -> None:
        """Decide open variables one after the other, in the order in which factors reach them."""
        if not self.log_domain:
            super().decode(states, tie)
            return
        decode_pairs(
            self.pairs, self.edges.width, self.weights.of_edges, self.product, self.messages, *self.plan.ends_near,
            variables_breadth_first(self.spec.layout), tie, states,
        )  # fmt: skip

    def log_beliefs(self) -> Floats:
        """Return logs of the products."""
        if not self.log_domain:
            return super().log_beliefs()
        rows = self.product.reshape(-1, self.edges.width)
        if self.edges.width == 1:
            rows = np.concatenate([np.zeros_like(rows), rows], axis=1)
        return np.ascontiguousarray(rows[:, : self.edges.states]).reshape(-1)

    def tables(self, mu_var: Floats) -> Floats:
        """Return the beliefs of all factors, with the scaled tables of the sweeps."""
        return self.record().tables_from(None if self.log_domain else self.pairs.psi, mu_var)


def _reach(
    spec: SweepSpec, edges: Edges, weights: EdgeWeights, span: Floats, messages: Floats | None, reach: Floats
) -> float:
    """Return how many nats a product or cavity of messages may span; ``reach`` has the ranges of unary potentials."""
    logs = np.zeros(0) if messages is None else messages
    first = edges.u if messages is None else spec.layout.scope_ptr[edges.factors]
    return float(
        largest_reach(
            edges.u, edges.v, edges.table, weights.of_edges, span, edges.states, first, logs, reach
        )
    )  # fmt: skip


def _kernel(edges: Edges, maxima: bool, powered: bool) -> Callable[..., None]:
    if edges.states == 2:
        return binary_max_sweep if maxima else binary_linear_sweep(powered)
    constant = edges.width if edges.width in CONSTANT_WIDTHS else 0
    return max_sweep(constant) if maxima else linear_sweep(constant, powered)
