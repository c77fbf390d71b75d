"""Marginals of a machine's units, as matrices: what methods that know the two layers return."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from beliefs.errors import UnsupportedError
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["AT_A_TIME", "GraphMarginals", "UnitMarginals", "keep_possible"]

AT_A_TIME = 8  # rows of pairs that are worked on, and twice as many beside them


@dataclass(frozen=True, eq=False)
class UnitMarginals:
    """P(v = 1), P(h = 1) and P(v = 1, h = 1); called, the tables of the machine's factor graph.

    Attributes
    ----------
    visible : ndarray (n_visible,)
    hidden : ndarray (n_hidden,)
    pairs : ndarray (n_visible, n_hidden)
    softplus : ndarray (n_hidden,) or None
        Of a fractional machine, which is no product of small tables: the expected log(1 + exp(x)) of each unit.
    """

    visible: Floats
    hidden: Floats
    pairs: Floats
    softplus: Floats | None = None

    @property
    def mu_var(self) -> Floats:
        """The marginals of all units, the visible ones first, two states each."""
        ones = np.concatenate([self.visible, self.hidden])
        return np.stack([1.0 - ones, ones], axis=1).ravel()

    def __call__(self) -> Floats:
        """Return the marginals of the factors in order: those of the units, then of the pairs row by row."""
        if self.softplus is not None:
            raise UnsupportedError("a fractional machine has no factors; read visible, hidden and pairs")
        v, h, both = self.visible[:, None], self.hidden[None, :], self.pairs
        cells = np.stack([1.0 - v - h + both, h - both, v - both, both], axis=-1)
        return np.concatenate([self.mu_var, np.maximum(cells, 0.0).ravel()])


@dataclass(frozen=True, eq=False)
class GraphMarginals(UnitMarginals):
    """The same where the question was about a factor graph: called, the tables of its factors, in its own order."""

    graph: FactorGraph = field(kw_only=True)

    @classmethod
    def of(cls, units: UnitMarginals, graph: FactorGraph) -> GraphMarginals:
        """Return the marginals of a machine as those of the graph that it was made from."""
        return cls(units.visible, units.hidden, units.pairs, graph=graph)

    def __call__(self) -> Floats:
        """Return the marginals of the factors in order, of one, two or no variables each."""
        layout, n_visible = self.graph.layout, self.visible.size
        arity, starts, first = layout.arity, layout.table_ptr[:-1], layout.scope_ptr[:-1]
        tables: Floats = np.ones(int(layout.table_ptr[-1]))
        alone, both = np.flatnonzero(arity == 1), np.flatnonzero(arity == 2)
        states = self.mu_var.reshape(-1, 2)
        tables[starts[alone][:, None] + np.arange(2)] = states[layout.scope_vars[first[alone]]]
        ends = layout.scope_vars[first[both][:, None] + np.arange(2)].reshape(-1, 2)
        pair = self.pairs[ends.min(axis=1), ends.max(axis=1) - n_visible]
        u, v = states[ends[:, 0], 1], states[ends[:, 1], 1]
        cells = np.stack([1.0 - u - v + pair, v - pair, u - pair, pair], axis=-1)
        tables[starts[both][:, None] + np.arange(4)] = np.maximum(cells, 0.0)
        return tables


def keep_possible(visible: Floats, hidden: Floats, pairs: Floats) -> None:
    """Bring pairs to what the marginals of their units allow, in place."""
    for begin in range(0, len(visible), AT_A_TIME):
        rows, ones = pairs[begin : begin + AT_A_TIME], visible[begin : begin + AT_A_TIME, None]
        np.maximum(rows, np.maximum(ones + hidden - 1.0, 0.0), out=rows)
        np.minimum(rows, np.minimum(ones, hidden), out=rows)
