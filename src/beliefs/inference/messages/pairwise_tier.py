"""The fast form of messages: pairwise models of one cardinality without hard zeros."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from beliefs.inference.messages.schedule import Schedule
from beliefs.inference.messages.tiers import Setting, Tier, message_offsets
from beliefs.kernels.messages import send_unary
from beliefs.kernels.messages_linear import DONE
from beliefs.kernels.pairwise import (
    CONSTANT_WIDTHS,
    LARGEST_STATES,
    max_sweep,
    power_sweep,
    row_beliefs,
    sum_sweep,
)
from beliefs.kernels.pairwise_binary import binary_max_sweep, binary_power_sweep, binary_sum_sweep, ratio_beliefs
from beliefs.kernels.pairwise_setup import hold_messages, hold_unary, largest_reach, load_tables, log_rows, multiply_up
from beliefs.model.layout import Layout
from beliefs.typing import Floats, Ints

__all__ = ["EdgeWeights", "PairwiseTier"]

_SAFE = 500.0  # nats: a product of messages spans no more than the tables around a variable do together


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges in the order of the first pass: their factors, ends, and which distinct table each has."""

    states: int
    factors: Ints
    u: Ints
    v: Ints
    table: Ints
    """Empty: every edge has a table of its own, in this order."""

    cells: Ints
    """Where each distinct table begins; empty if every edge has its own."""

    @classmethod
    def of(cls, layout: Layout, schedule: Schedule) -> Edges | None:
        """List the edges, or None if the model is not pairwise with one cardinality."""
        factors = schedule.passes[0].forward
        if not factors.size or np.diff(layout.scope_ptr).max() > 2 or layout.card.min() != layout.card.max():
            return None
        if not 2 <= layout.card[0] <= LARGEST_STATES:
            return None
        first = layout.scope_ptr[factors]
        table = cells = np.zeros(0, np.int64)
        if layout.tied:
            distinct, back = np.unique(layout.cell_ptr[factors], return_inverse=True)
            if 4 * distinct.size <= factors.size:  # else copies in the order of the sweep are faster to read
                table, cells = np.ascontiguousarray(back.reshape(-1)), distinct
        ends = (layout.scope_vars[first], layout.scope_vars[first + 1])
        return cls(int(layout.card[0]), factors, *ends, table, cells)

    @classmethod
    def under(cls, setting: Setting) -> Edges | None:
        """Return the edges of a schedule, kept there; those that share a table must have one counting number."""
        kept = setting.schedule.kept
        if "edges" not in kept:
            kept["edges"] = cls.of(setting.layout, setting.schedule)
        edges: Edges | None = kept["edges"]
        if edges is None or not edges.table.size:
            return edges
        known: tuple[Floats, bool] | None = kept.get("shared")
        if known is None or known[0] is not setting.rho:
            rho, of_tables = setting.rho[edges.factors], np.empty(edges.cells.size)
            of_tables[edges.table] = rho
            known = kept["shared"] = setting.rho, bool((of_tables[edges.table] == rho).all())
        return edges if known[1] else kept.setdefault("edges apart", edges.apart())

    def apart(self) -> Edges:
        """Return the edges with a table of its own for each: potentials are divided by counting numbers."""
        none = np.zeros(0, np.int64)
        return replace(self, table=none, cells=none)

    @property
    def width(self) -> int:
        """Entries of a held message: one ratio if binary, else the states, padded."""
        return 1 if self.states == 2 else (self.states + 3) // 4 * 4


@dataclass(frozen=True, eq=False)
class EdgeWeights:
    """Counting numbers of the edges in the order of the sweep, and of the distinct tables; where these begin."""

    of_edges: Floats
    of_tables: Floats
    cells: Ints
    at: Ints
    powered: bool

    @classmethod
    def of(cls, setting: Setting, edges: Edges) -> EdgeWeights:
        """Collect them, once for the same counting numbers."""
        kept = setting.schedule.kept
        known: tuple[Floats, EdgeWeights] | None = kept.get("weights")
        if known is None or known[0] is not setting.rho:
            known = kept["weights"] = (setting.rho, cls._collected(setting, edges))
        return known[1]

    @classmethod
    def _collected(cls, setting: Setting, edges: Edges) -> EdgeWeights:
        rho = setting.rho[edges.factors]
        of_tables, cells = rho, setting.layout.cell_ptr[edges.factors]
        if edges.table.size:
            of_tables, cells = np.empty(edges.cells.size), edges.cells
            of_tables[edges.table] = rho
        return cls(rho, of_tables, cells, edges.table * _table_size(edges.states), bool((rho != 1.0).any()))


class PairwiseTier(Tier):
    """Messages as in :mod:`beliefs.kernels.pairwise_setup`: plain numbers for sums, logs for maxima."""

    def __init__(self, setting: Setting, edges: Edges, psi: Floats, unary: Floats, messages: Floats | None) -> None:
        lay = setting.layout
        self.setting, self.edges, self.psi, self.unary = setting, edges, psi, unary
        self.log_domain = not setting.summed[edges.u[0]]
        weights = EdgeWeights.of(setting, edges)
        self.at, powered = weights.at, weights.powered or setting.damping > 0
        self.rho = weights.of_edges if powered or self.log_domain else np.zeros(0)
        self.kernel = _kernel(edges, self.log_domain, powered)
        self.product = np.empty_like(unary)
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
        unary = np.empty(lay.n_vars * edges.width)
        form = (edges.states, edges.width, not summed)
        if not hold_unary(lay.scope_ptr, lay.scope_vars, lay.cell_ptr, *form, setting.theta, unary):
            return None
        psi = _tables(setting, edges, messages, summed)
        return None if psi is None else cls(setting, edges, psi, unary, messages)

    def run(self, index: int, begin: int, end: int) -> int:
        """Sweep forward or backward."""
        last = self.edges.u.size - 1
        span = (last - begin, last - end, -1) if self.setting.schedule.passes[index].reverse else (begin, end, 1)
        self.kernel(
            self.edges.u, self.edges.v, self.at, self.psi, self.rho, 1.0 - self.setting.damping, *span,
            self.edges.states, self.product, self.messages,
        )  # fmt: skip
        return DONE

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
        send_unary(
            lay.scope_ptr, lay.scope_vars, lay.cell_ptr, message_offsets(lay), self.setting.theta, self.setting.summed,
            logs,
        )  # fmt: skip
        log_rows(edges.factors, lay.scope_ptr, edges.states, edges.width, self.log_domain, self.messages, logs)
        return logs


def _table_size(states: int) -> int:
    return 3 if states == 2 else states**2


def _tables(setting: Setting, edges: Edges, messages: Floats | None, summed: bool) -> Floats | None:
    """Return the scaled tables in the order of the sweep; None if a sum cannot be held in plain numbers."""
    lay, weights = setting.layout, EdgeWeights.of(setting, edges)
    cells, rho = weights.cells, weights.of_tables
    size = _table_size(edges.states)
    psi = setting.allocate(cells.size * size + 4 * edges.states)  # kernels read a little beyond the last table
    psi[cells.size * size :] = 0.0
    span = np.empty(cells.size)
    if not load_tables(cells, setting.theta, rho, not summed, psi[: cells.size * size].reshape(-1, size), span):
        return None
    if summed:
        reach = largest_reach(
            edges.factors, edges.table, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, edges.states, setting.theta,
            setting.rho, span, np.zeros(0) if messages is None else messages, np.empty(lay.n_vars),
        )  # fmt: skip
        if reach > _SAFE:
            return None
    return psi


def _kernel(edges: Edges, maxima: bool, powered: bool) -> Callable[..., None]:
    if edges.states == 2:
        return binary_max_sweep if maxima else binary_power_sweep if powered else binary_sum_sweep
    make = max_sweep if maxima else power_sweep if powered else sum_sweep
    return make(edges.width if edges.width in CONSTANT_WIDTHS else 0)
