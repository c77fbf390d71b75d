"""The edges of a pairwise model in the order of a sweep, with their counting numbers and what certifies these.

All of it is kept on the schedule, so that it is collected once for a plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from beliefs.inference.messages.schedule import Schedule
from beliefs.inference.messages.sweep_spec import Setting
from beliefs.kernels.messages.pairwise.sweep import LARGEST_STATES
from beliefs.model.layout import Layout
from beliefs.typing import Floats, Ints

__all__ = ["EdgeCertificate", "EdgeWeights", "Edges"]


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

    def ends_near(self, schedule: Schedule, n_vars: int) -> tuple[Ints, Ints]:
        """Return for each variable its ends of edges, ``2 e`` or ``2 e + 1``, as offsets and list, kept once made."""
        kept = schedule.kept
        if "ends" not in kept:
            ends = np.stack([self.u, self.v], axis=1).reshape(-1)
            kept["ends"] = (
                np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n_vars))]),
                ends.argsort(kind="stable"),
            )
        near: tuple[Ints, Ints] = kept["ends"]
        return near

    @property
    def width(self) -> int:
        """Entries of a held message: one ratio if binary, else the states, padded."""
        return 1 if self.states == 2 else (self.states + 3) // 4 * 4

    @property
    def table_size(self) -> int:
        """Entries of a held table: binary ones are divided by their first entry, which is left out."""
        return 3 if self.states == 2 else self.states**2


@dataclass(frozen=True, eq=False)
class EdgeWeights:
    """Counting numbers of the edges in the order of the sweep, and of the distinct tables; where these begin."""

    of_edges: Floats
    of_tables: Floats
    cells: Ints
    at: Ints
    powered: bool
    rest: Floats
    """One minus the counting numbers around each variable; zero for observed ones."""

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
        lay = setting.layout
        around = np.bincount(edges.u, rho, lay.n_vars) + np.bincount(edges.v, rho, lay.n_vars)
        rest = np.where(lay.observed, 0.0, 1.0 - around)
        return cls(rho, of_tables, cells, edges.table * edges.table_size, bool((rho != 1.0).any()), rest)


@dataclass(frozen=True, eq=False)
class EdgeCertificate:
    """How often each edge of the sweep hangs from its ends, ``(2 n_edges,)``, and how often a variable is a root."""

    parent: Floats
    root: Floats

    @classmethod
    def of(cls, setting: Setting, edges: Edges, parent: Floats | None) -> EdgeCertificate:
        """Bring a certificate into the order of the sweep, once; empty arrays where there is none."""
        if parent is None:
            return cls(np.zeros(0), np.zeros(0))
        kept = setting.schedule.kept
        known: tuple[Floats, EdgeCertificate] | None = kept.get("certificate")
        if known is None or known[0] is not parent:
            known = kept["certificate"] = (parent, cls._ordered(setting, edges, parent))
        return known[1]

    @classmethod
    def _ordered(cls, setting: Setting, edges: Edges, parent: Floats) -> EdgeCertificate:
        lay, rho = setting.layout, setting.rho[edges.factors]
        ends = parent[lay.scope_ptr[edges.factors][:, None] + np.arange(2)]
        child = rho[:, None] - ends
        around = np.bincount(edges.u, child[:, 0], lay.n_vars) + np.bincount(edges.v, child[:, 1], lay.n_vars)
        return cls(ends.reshape(-1), np.where(lay.observed, 0.0, np.maximum(1.0 - around, 0.0)))
