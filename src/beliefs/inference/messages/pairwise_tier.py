"""The fast form of messages: pairwise models of one cardinality without hard zeros."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from beliefs.inference.base import Bound
from beliefs.inference.messages.log_messages import Assessment
from beliefs.inference.messages.pairwise_edges import EdgeCertificate, Edges, EdgeWeights
from beliefs.inference.messages.schedule import variables_breadth_first
from beliefs.inference.messages.sweep_spec import Setting
from beliefs.inference.messages.tiers import REFRESH, Tier
from beliefs.inference.rounding import UNIT, rounding_error, widened
from beliefs.kernels.adjoints.pair_beliefs import pair_beliefs, single_beliefs
from beliefs.kernels.messages.linear import DONE
from beliefs.kernels.messages.log import send_unary
from beliefs.kernels.messages.pairwise.binary import (
    binary_max_sweep,
    binary_power_sweep,
    binary_sum_sweep,
    ratio_beliefs,
)
from beliefs.kernels.messages.pairwise.decode import decode_pairs
from beliefs.kernels.messages.pairwise.setup import (
    hold_messages,
    hold_unary,
    largest_reach,
    load_tables,
    log_rows,
    multiply_up,
)
from beliefs.kernels.messages.pairwise.structures import PairTables
from beliefs.kernels.messages.pairwise.sweep import (
    CONSTANT_WIDTHS,
    max_sweep,
    power_sweep,
    row_beliefs,
    sum_sweep,
)
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

__all__ = ["PairwiseTier"]

_SAFE = 500.0  # nats: a product of messages spans no more than the tables around a variable do together


class PairwiseTier(Tier):
    """Messages as in :mod:`beliefs.kernels.messages.pairwise.setup`: plain numbers for sums, logs for maxima."""

    def __init__(
        self, setting: Setting, edges: Edges, psi: Floats, unary: Floats, shift: tuple[float, float],
        messages: Floats | None,
    ) -> None:  # fmt: skip
        lay = setting.layout
        self.setting, self.edges, self.unary = setting, edges, unary
        self.shift, self.magnitude = shift
        """What tables and unary potentials were lowered by, added up with and without signs."""
        self.log_domain = not setting.summed[edges.u[0]]
        weights = EdgeWeights.of(setting, edges)
        self.pairs = PairTables(edges.states, edges.u, edges.v, weights.at, psi)
        self.keep, powered = 1.0 - setting.damping, weights.powered or setting.damping > 0
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
    def make(cls, setting: Setting, messages: Floats | None) -> PairwiseTier | None:
        """Hold pairwise sums or maxima (not both at once) under a forward-backward order."""
        lay = setting.layout
        if not setting.schedule.straight or (setting.damping > 0 and not setting.in_logs):
            return None
        edges = Edges.under(setting)
        if edges is None or (messages is not None and messages.min(initial=0.0) == -np.inf):
            return None
        summed = bool(setting.summed[edges.u[0]])
        if (setting.summed[edges.u] != summed).any() or (setting.summed[edges.v] != summed).any():
            return None
        unary, lowered, reach = np.empty(lay.n_vars * edges.width), np.empty(lay.n_vars), np.empty(lay.n_vars)
        form = (edges.states, edges.width, not summed)
        if not hold_unary(lay.scopes, *form, setting.theta, unary, lowered, reach):
            return None
        loaded = _tables(setting, edges, summed)
        if loaded is None:
            return None
        psi, span, shift = loaded
        if summed and _reach(setting, edges, span, messages, reach) > _SAFE:
            return None
        lowering = float(lowered.sum() + shift.sum()), float(np.abs(lowered).sum() + np.abs(shift).sum())
        return cls(setting, edges, psi, unary, lowering, messages)

    def run(self, index: int, begin: int, end: int) -> int:
        """Sweep forward or backward."""
        span = (begin, end, 1)
        if self.setting.schedule.passes[index].reverse:
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
        observed = self.setting.layout.observed
        if self.edges.width == 1:
            return float(ratio_beliefs(self.product, observed, self.log_domain, mu_var)), True
        return float(row_beliefs(self.edges.states, self.log_domain, observed, self.product, mu_var)), True

    def log_messages(self) -> Floats:
        """Return logs in the order of edges."""
        lay, edges = self.setting.layout, self.edges
        logs = np.empty(lay.n_edges * edges.states)
        send_unary(lay.scopes, self.setting.model, self.setting.summed, logs)
        log_rows(edges.factors, lay.scope_ptr, edges.states, edges.width, self.log_domain, self.messages, logs)
        return logs

    def assess(self, mu_var: Floats, parent: Floats | None) -> Assessment:
        """Return what sums are worth, by :mod:`beliefs.kernels.messages.pairwise.value`."""
        edges, weights = self.edges, EdgeWeights.of(self.setting, self.edges)
        proof = EdgeCertificate.of(self.setting, edges, parent)
        mass, out = np.empty(self.setting.layout.n_vars), np.empty(4)
        of_variables = variable_value(edges.width, self.product, weights.rest, proof.root, mass)
        width = edges.width if edges.width in CONSTANT_WIDTHS else 0
        kernel = binary_edge_value if edges.width == 1 else edge_value(width)
        kernel(self.pairs, weights.of_edges, proof.parent, self.product, mass, self.messages, out)
        constants = self.setting.theta[self.setting.layout.constants]
        energy, bound = (float(constants.sum()) + self.shift + of_variables[k] + out[k] for k in (ENERGY, BOUND))
        if parent is None:
            return Assessment(float(energy), np.inf, float(out[AGREEMENT]))
        rounding = self._rounding(float(np.abs(constants).sum()) + self.magnitude + of_variables[SIZE] + out[SIZE])
        return Assessment(float(energy), widened(float(bound), rounding, Bound.UPPER), float(out[AGREEMENT]), rounding)

    def _rounding(self, magnitude: float) -> float:
        """Return how wrong the bound may be: its sum, and products kept up by factors between two refreshments."""
        edges, n_vars = self.edges, self.setting.layout.n_vars
        made = 8.0 * n_vars + (12.0 * REFRESH + edges.states + 20.0) * edges.u.size
        blocks = 2.0 * BLOCK + (n_vars + edges.u.size) / BLOCK
        return rounding_error(magnitude, blocks) + UNIT * made

    def decode(self, states: Ints) -> None:
        """Decide open variables one after the other, in the order in which factors reach them."""
        if not self.log_domain:
            super().decode(states)
            return
        lay, edges, weights = self.setting.layout, self.edges, EdgeWeights.of(self.setting, self.edges)
        near = edges.ends_near(self.setting.schedule, lay.n_vars)
        decode_pairs(
            self.pairs, edges.width, weights.of_edges, self.product, self.messages, *near,
            variables_breadth_first(lay), states,
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
        """Return the beliefs of all factors; scaled tables that were let go are made again."""
        if self.log_domain:
            return super().tables(mu_var)
        pairs = self.pairs
        if not pairs.psi.size:
            loaded = _tables(self.setting, self.edges, True)
            assert loaded is not None
            pairs = pairs._replace(psi=loaded[0])
        lay, edges = self.setting.layout, self.edges
        tables = np.empty(int(lay.table_ptr[-1]))
        single_beliefs(lay.scope_ptr, lay.scope_vars, lay.table_ptr, edges.states, mu_var, tables)
        pair_beliefs(pairs, edges.width, edges.factors, lay.table_ptr, self.product, self.messages, tables)
        return tables

    def release(self) -> None:
        """Let go of the scaled tables."""
        self.pairs = self.pairs._replace(psi=np.zeros(0))


def _tables(setting: Setting, edges: Edges, summed: bool) -> tuple[Floats, Floats, Floats] | None:
    """Return the scaled tables in the order of the sweep, their ranges, and what the table of each edge was lowered by.

    None if there is a hard zero.
    """
    weights = EdgeWeights.of(setting, edges)
    cells, rho = weights.cells, weights.of_tables
    size = edges.table_size
    psi = setting.allocate(cells.size * size + 4 * edges.states)  # kernels read a little beyond the last table
    psi[cells.size * size :] = 0.0
    span, shift = np.empty(cells.size), np.empty(cells.size)
    if not load_tables(cells, setting.theta, rho, not summed, psi[: cells.size * size].reshape(-1, size), span, shift):
        return None
    return psi, span, shift[edges.table] if edges.table.size else shift


def _reach(setting: Setting, edges: Edges, span: Floats, messages: Floats | None, reach: Floats) -> float:
    """Return how many nats a product or cavity of messages may span; ``reach`` has the ranges of unary potentials."""
    weights, logs = EdgeWeights.of(setting, edges), np.zeros(0) if messages is None else messages
    first = edges.u if messages is None else setting.layout.scope_ptr[edges.factors]
    return float(
        largest_reach(
            edges.u, edges.v, edges.table, weights.of_edges, span, edges.states, first, logs, reach
        )
    )  # fmt: skip


def _kernel(edges: Edges, maxima: bool, powered: bool) -> Callable[..., None]:
    if edges.states == 2:
        return binary_max_sweep if maxima else binary_power_sweep if powered else binary_sum_sweep
    make = max_sweep if maxima else power_sweep if powered else sum_sweep
    return make(edges.width if edges.width in CONSTANT_WIDTHS else 0)
