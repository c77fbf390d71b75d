"""Messages of pairwise models as an answer keeps them, and the tables that their sweeps and beliefs need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beliefs.inference.messages.buffer_pool import take
from beliefs.inference.messages.pairwise_edges import Edges, EdgeWeights
from beliefs.inference.messages.records import MessageRecord
from beliefs.inference.messages.sweep_spec import SweepSpec
from beliefs.kernels.adjoints.pair_beliefs import pair_beliefs, single_beliefs
from beliefs.kernels.messages.log import send_unary
from beliefs.kernels.messages.pairwise.setup import load_tables, log_rows
from beliefs.kernels.messages.pairwise.structures import PairTables
from beliefs.typing import Floats

__all__ = ["PairRecord", "load_pairs"]


@dataclass(frozen=True, eq=False)
class PairRecord(MessageRecord):
    """Messages in the order of the sweep, as in :mod:`beliefs.kernels.messages.pairwise.setup`, and their products."""

    edges: Edges
    weights: EdgeWeights
    product: Floats
    log_domain: bool

    def log_messages(self) -> Floats:
        """Return logs in the order of edges."""
        lay, edges = self.spec.layout, self.edges
        logs = np.empty(lay.n_edges * edges.states)
        send_unary(lay.scopes, self.spec.model, self.spec.summed, logs)
        log_rows(edges.factors, lay.scope_ptr, edges.states, edges.width, self.log_domain, self.messages, logs)
        return logs

    def tables(self, mu_var: Floats) -> Floats:
        """Return the beliefs of all factors; the scaled tables are made again."""
        return self.tables_from(None, mu_var)

    def tables_from(self, psi: Floats | None, mu_var: Floats) -> Floats:
        """Return the beliefs of all factors from scaled tables ``psi``; None: they are made here."""
        if self.log_domain:
            return super().tables(mu_var)
        lay, edges = self.spec.layout, self.edges
        if psi is None:
            loaded = load_pairs(self.spec, edges, self.weights, True)
            assert loaded is not None
            psi = loaded[0]
        pairs, tables = PairTables(edges.states, edges.u, edges.v, self.weights.at, psi), np.empty(lay.table_ptr[-1])
        single_beliefs(lay.scope_ptr, lay.scope_vars, lay.table_ptr, edges.states, mu_var, tables)
        pair_beliefs(pairs, edges.width, edges.factors, lay.table_ptr, self.product, self.messages, tables)
        return tables


def load_pairs(
    spec: SweepSpec, edges: Edges, weights: EdgeWeights, summed: bool
) -> tuple[Floats, Floats, Floats] | None:
    """Return the scaled tables in the order of the sweep, their ranges, and what the table of each edge was lowered by.

    None if there is a hard zero.
    """
    cells, rho, size = weights.cells, weights.of_tables, edges.table_size
    psi = take(cells.size * size + 4 * edges.states)  # kernels read a little beyond the last table
    psi[cells.size * size :] = 0.0
    span, shift = np.empty(cells.size), np.empty(cells.size)
    if not load_tables(cells, spec.theta, rho, not summed, psi[: cells.size * size].reshape(-1, size), span, shift):
        return None
    return psi, span, shift[edges.table] if edges.table.size else shift
