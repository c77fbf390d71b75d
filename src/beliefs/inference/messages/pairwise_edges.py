"""The edges of a pairwise model in the order of a sweep, with their counting numbers and what certifies these.

All of it is kept on the schedule, so that it is collected once for a plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from beliefs.inference.messages.schedule import Schedule
from beliefs.inference.messages.sweep_spec import SweepSpec
from beliefs.kernels.messages.pairwise.sweep import LARGEST_STATES
from beliefs.model.layout import Layout, offsets
from beliefs.typing import Floats, Ints

__all__ = ["EdgeCertificate", "EdgeWeights", "Edges", "PairwisePlan", "has_pairwise_form"]


def has_pairwise_form(layout: Layout) -> bool:
    """Whether factors have at most two variables, and all variables one number of states that the kernels know."""
    card = layout.card
    return bool(layout.is_pairwise and card.size and card.min() == card.max() and 2 <= card[0] <= LARGEST_STATES)


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
        if not factors.size or not has_pairwise_form(layout):
            return None
        first = layout.scope_ptr[factors]
        table = cells = np.zeros(0, np.int64)
        if layout.tied:
            distinct, back = np.unique(layout.cell_ptr[factors], return_inverse=True)
            if 4 * distinct.size <= factors.size:  # else copies in the order of the sweep are faster to read
                table, cells = np.ascontiguousarray(back.reshape(-1)), distinct
        ends = (layout.scope_vars[first], layout.scope_vars[first + 1])
        return cls(int(layout.card[0]), factors, *ends, table, cells)

    def apart(self) -> Edges:
        """Return the edges with a table of its own for each: potentials are divided by counting numbers."""
        none = np.zeros(0, np.int64)
        return replace(self, table=none, cells=none)

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
    def of(cls, spec: SweepSpec, edges: Edges) -> EdgeWeights:
        """Collect them."""
        rho = spec.rho[edges.factors]
        of_tables, cells = rho, spec.layout.cell_ptr[edges.factors]
        if edges.table.size:
            of_tables, cells = np.empty(edges.cells.size), edges.cells
            of_tables[edges.table] = rho
        lay = spec.layout
        around = np.bincount(edges.u, rho, lay.n_vars) + np.bincount(edges.v, rho, lay.n_vars)
        rest = np.where(lay.observed, 0.0, 1.0 - around)
        return cls(rho, of_tables, cells, edges.table * edges.table_size, bool((rho != 1.0).any()), rest)


@dataclass(frozen=True, eq=False)
class EdgeCertificate:
    """How often each edge of the sweep hangs from its ends, ``(2 n_edges,)``, and how often a variable is a root."""

    parent: Floats
    root: Floats

    @classmethod
    def of(cls, spec: SweepSpec, edges: Edges, parent: Floats) -> EdgeCertificate:
        """Bring a certificate into the order of the sweep."""
        lay, rho = spec.layout, spec.rho[edges.factors]
        ends = parent[lay.scope_ptr[edges.factors][:, None] + np.arange(2)]
        child = rho[:, None] - ends
        around = np.bincount(edges.u, child[:, 0], lay.n_vars) + np.bincount(edges.v, child[:, 1], lay.n_vars)
        return cls(ends.reshape(-1), np.where(lay.observed, 0.0, np.maximum(1.0 - around, 0.0)))


@dataclass(eq=False)
class PairwisePlan:
    """What the pairwise form derives from an order, made once; of counting numbers, for those used last."""

    n_vars: int
    edges: Edges | None
    """None: the model is not pairwise with one cardinality."""

    _tied: tuple[Floats, bool] | None = None
    _weights: tuple[Floats, EdgeWeights] | None = None
    _certificate: tuple[Floats, EdgeCertificate] | None = None

    @classmethod
    def of(cls, spec: SweepSpec) -> PairwisePlan:
        """Return the plan of a schedule, kept there."""
        derived = spec.schedule.derived
        if derived.pairwise is None:
            derived.pairwise = cls(spec.layout.n_vars, Edges.of(spec.layout, spec.schedule))
        return derived.pairwise

    def edges_of(self, spec: SweepSpec) -> Edges | None:
        """Return the edges; those that share a table must have one counting number, else each has its own."""
        if self.edges is None or not self.edges.table.size:
            return self.edges
        known = self._tied
        if known is None or known[0] is not spec.rho:
            rho, of_tables = spec.rho[self.edges.factors], np.empty(self.edges.cells.size)
            of_tables[self.edges.table] = rho
            known = self._tied = spec.rho, bool((of_tables[self.edges.table] == rho).all())
        return self.edges if known[1] else self._apart

    @cached_property
    def _apart(self) -> Edges:
        assert self.edges is not None
        return self.edges.apart()

    @cached_property
    def ends_near(self) -> tuple[Ints, Ints]:
        """For each variable its ends of edges, ``2 e`` or ``2 e + 1``, as offsets and list."""
        assert self.edges is not None
        ends = np.stack([self.edges.u, self.edges.v], axis=1).reshape(-1)
        return offsets(np.bincount(ends, minlength=self.n_vars)), ends.argsort(kind="stable")

    def weights(self, spec: SweepSpec, edges: Edges) -> EdgeWeights:
        """Return the counting numbers in the order of the sweep."""
        known = self._weights
        if known is None or known[0] is not spec.rho:
            known = self._weights = spec.rho, EdgeWeights.of(spec, edges)
        return known[1]

    def certificate(self, spec: SweepSpec, edges: Edges, parent: Floats | None) -> EdgeCertificate:
        """Return a certificate in the order of the sweep; empty arrays where there is none."""
        if parent is None:
            return EdgeCertificate(np.zeros(0), np.zeros(0))
        known = self._certificate
        if known is None or known[0] is not parent:
            known = self._certificate = parent, EdgeCertificate.of(spec, edges, parent)
        return known[1]
