"""The fast form of messages: pairwise models of one cardinality without hard zeros."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from beliefs.inference.messages.schedule import Schedule
from beliefs.inference.messages.tiers import Setting, Tier
from beliefs.kernels.messages_linear import DONE
from beliefs.kernels.pairwise import (
    CONSTANT_WIDTHS,
    LARGEST_STATES,
    LOW,
    max_sweep,
    power_sweep,
    row_beliefs,
    sum_sweep,
)
from beliefs.kernels.pairwise_binary import binary_max_sweep, binary_power_sweep, binary_sum_sweep, ratio_beliefs
from beliefs.kernels.pairwise_setup import load_tables, multiply_up
from beliefs.model.layout import Layout
from beliefs.typing import Floats, Ints

__all__ = ["PairwiseTier"]

_SAFE = 500.0  # nats: a product of messages spans no more than the tables around a variable do together


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges in the order of the first pass: ends, rows of messages, and which distinct table each has."""

    states: int
    u: Ints
    v: Ints
    factors: Ints
    cells: Ints
    table: Ints

    @classmethod
    def of(cls, layout: Layout, schedule: Schedule) -> Edges | None:
        """List the edges, or None if the model is not pairwise with one cardinality."""
        arity = np.diff(layout.scope_ptr)
        factors = schedule.passes[0].factors
        if not factors.size or arity.max() > 2 or layout.card.min() != layout.card.max():
            return None
        if not 2 <= layout.card[0] <= LARGEST_STATES:
            return None
        first = layout.scope_ptr[factors]
        cells, table = layout.cell_ptr[factors], np.arange(factors.size)
        if layout.tied:
            distinct, back = np.unique(cells, return_inverse=True)
            if 4 * distinct.size <= cells.size:  # else copies in the order of the sweep are faster to read
                cells, table = distinct, back.reshape(-1)
        return cls(
            int(layout.card[0]), layout.scope_vars[first], layout.scope_vars[first + 1], factors,
            np.ascontiguousarray(cells), np.ascontiguousarray(table),
        )  # fmt: skip


class PairwiseTier(Tier):
    """Messages as ``(edges, 2, K)``: plain numbers with mean one for sums, logs for maxima; binary ones as ratios."""

    def __init__(self, setting: Setting, edges: Edges, psi: Floats, table_size: int, messages: Floats) -> None:
        lay = setting.layout
        self.setting, self.edges, self.psi = setting, edges, psi
        self.log_domain = not setting.summed[edges.u[0]]
        self.at = edges.table * table_size
        self.rho = np.ascontiguousarray(setting.rho[edges.factors])
        self.kernel = _kernel(edges.states, self.log_domain, bool((self.rho != 1.0).any() or setting.damping > 0))
        self.n_edges, self.width = edges.u.size, 1 if edges.states == 2 else (edges.states + 3) // 4 * 4
        rows = messages.reshape(lay.n_edges, edges.states)
        alone = np.flatnonzero(np.diff(lay.scope_ptr) == 1)
        unary = np.zeros((lay.n_vars, edges.states))
        np.add.at(unary, lay.scope_vars[lay.scope_ptr[alone]], rows[lay.scope_ptr[alone]])
        self.sent = rows[lay.scope_ptr[alone]]
        self.unary = self._compact(unary, 0.0, LOW if self.log_domain else 0.0)
        first = lay.scope_ptr[edges.factors]
        self.messages = np.empty((self.n_edges, 2, self.width))
        for side in range(2):
            padding = 0.0 if self.log_domain else 1.0
            self.messages[:, side] = self._compact(rows[first + side], np.log(edges.states), padding)
        self.product = np.empty((lay.n_vars, self.width))
        self.refresh()

    def _compact(self, logs: Floats, shift: float, padding: float) -> Floats:
        """Return rows of logs as this tier holds them: ratios if binary, else padded; exponentials for sums."""
        if self.width == 1:
            logs = logs[:, 1:] - logs[:, :1]
        elif not self.log_domain:
            logs = logs - logs.max(axis=1, keepdims=True) if shift == 0.0 else logs + shift
        held = np.full((logs.shape[0], self.width), padding)
        held[:, : logs.shape[1]] = logs if self.log_domain else np.exp(logs)
        return held

    @classmethod
    def make(cls, setting: Setting, messages: Floats) -> PairwiseTier | None:
        """Hold pairwise sums or maxima (not both at once) under a forward-backward order."""
        lay = setting.layout
        if not setting.schedule.straight or (setting.damping > 0 and not setting.in_logs):
            return None
        kept = setting.schedule.kept
        if "edges" not in kept:
            kept["edges"] = Edges.of(lay, setting.schedule)
        edges: Edges | None = kept["edges"]
        if edges is None or setting.summed[edges.u].any() != setting.summed[np.append(edges.u, edges.v)].all():
            return None
        rho = np.empty(edges.cells.size)
        rho[edges.table] = setting.rho[edges.factors]
        if (rho[edges.table] != setting.rho[edges.factors]).any() or (messages == -np.inf).any():
            return None
        summed = bool(setting.summed[edges.u[0]])
        size = 3 if edges.states == 2 else edges.states**2
        flat = np.zeros(edges.cells.size * size + 4 * edges.states)  # kernels read a little beyond the last table
        psi = flat[: edges.cells.size * size].reshape(-1, size)
        span = np.empty(edges.cells.size)
        if not load_tables(edges.cells, setting.theta, rho, not summed, psi, span):
            return None
        if summed and not _within_range(setting, edges, span, messages):
            return None
        return cls(setting, edges, flat, size, messages)

    def run(self, index: int, begin: int, end: int) -> int:
        """Sweep forward or backward."""
        backward = index % 2 == 1
        last = self.n_edges - 1
        span = (last - begin, last - end, -1) if backward else (begin, end, 1)
        keep = 1.0 - self.setting.damping
        messages: Floats = self.messages.reshape(-1, 2) if self.width == 1 else self.messages.reshape(-1)
        self.kernel(
            self.edges.u, self.edges.v, self.at, self.psi, self.rho, keep, *span, self.edges.states,
            self.product.reshape(-1), messages,
        )  # fmt: skip
        return DONE

    def refresh(self) -> int:
        """Multiply up."""
        self.product[:] = self.unary
        multiply_up(self.edges.u, self.edges.v, self.rho, self.log_domain, self.messages, self.product)
        return DONE

    def beliefs(self, mu_var: Floats) -> tuple[float, bool]:
        """Normalise the products."""
        observed, flat = self.setting.layout.observed, self.product.reshape(-1)
        if self.width == 1:
            return float(ratio_beliefs(flat, observed, self.log_domain, mu_var)), True
        return float(row_beliefs(self.edges.states, self.log_domain, observed, flat, mu_var)), True

    def log_messages(self) -> Floats:
        """Return logs in the order of edges."""
        lay, edges = self.setting.layout, self.edges
        logs = np.empty((lay.n_edges, edges.states))
        alone = np.flatnonzero(np.diff(lay.scope_ptr) == 1)
        logs[lay.scope_ptr[alone]] = self.sent
        first = lay.scope_ptr[edges.factors]
        for side in range(2):
            values = self.messages[:, side] if self.log_domain else np.log(self.messages[:, side])
            rows = np.concatenate([np.zeros_like(values), values], axis=1) if self.width == 1 else values
            rows = rows[:, : edges.states]
            top = rows.max(axis=1, keepdims=True)
            if not self.log_domain:
                top = top + np.log(np.exp(rows - top).sum(axis=1, keepdims=True))
            logs[first + side] = rows - top
        return logs.reshape(-1)


def _kernel(states: int, maxima: bool, powered: bool) -> Callable[..., None]:
    if states == 2:
        return binary_max_sweep if maxima else binary_power_sweep if powered else binary_sum_sweep
    width = (states + 3) // 4 * 4
    make = max_sweep if maxima else power_sweep if powered else sum_sweep
    return make(width if width in CONSTANT_WIDTHS else 0)


def _within_range(setting: Setting, edges: Edges, span: Floats, messages: Floats) -> bool:
    """Whether all products of messages stay within a double: each spans at most the range of its own table."""
    lay = setting.layout
    rows = messages.reshape(lay.n_edges, edges.states)
    width = np.ptp(rows, axis=1)
    reach, own = np.zeros(lay.n_vars), 0.0
    for side, ends in enumerate((edges.u, edges.v)):
        each = np.maximum(span[edges.table], width[lay.scope_ptr[edges.factors] + side])
        reach += np.bincount(ends, weights=each, minlength=lay.n_vars)
        own = max(own, float((each / setting.rho[edges.factors]).max()))
    alone = lay.scope_ptr[:-1][np.diff(lay.scope_ptr) == 1]
    reach += np.bincount(lay.scope_vars[alone], weights=width[alone], minlength=lay.n_vars)
    return bool(reach.max() + 2.0 * own < _SAFE)
