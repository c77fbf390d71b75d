"""The same updates in plain NumPy: one table over all variables of a region, loops too, in logs.

Parent-to-child messages (``gbp``, ``ijgp``) and dual block descent (``double_loop``, ``convex_gbp``); the formulas are
those of ``beliefs.kernels.regions``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import beliefs as bl

Array = NDArray[np.float64]


def log_sum(table: Array, axes: tuple[int, ...] | None) -> Array:
    """Return the log-sum-exp over some axes, or over all."""
    if axes == ():
        return table
    top = table.max(axis=axes, keepdims=True)
    total: Array = np.log(np.exp(table - top).sum(axis=axes, keepdims=True)) + top
    return total.reshape(()) if axes is None else np.squeeze(total, axes)


class FullTables:
    """Regions with full tables, axes by ascending variable."""

    def __init__(self, graph: bl.FactorGraph, regions: bl.RegionGraph) -> None:
        self.graph, self.regions = graph, regions
        layout = graph.layout
        self.scopes = [tuple(sorted(scope)) for scope in regions.scopes]
        self.tables: list[Array] = [np.zeros([int(layout.card[v]) for v in scope]) for scope in self.scopes]
        for f in range(graph.n_factors):
            scope = layout.scope(f).tolist()
            home = next(r for r in range(regions.n_outer) if self.covers(r, scope))
            table = graph.theta[layout.cells(f)].reshape(layout.shape(f)).transpose(np.argsort(scope))
            self.tables[home] = self.tables[home] + self.wide(table, tuple(sorted(scope)), home)
        self.multipliers: dict[tuple[int, int], Array] = {}

    def covers(self, r: int, scope: list[int]) -> bool:
        """Whether a factor may live in a region; in a loop, on an edge of it."""
        own = self.regions.scopes[r]
        if not self.regions.is_loop[r] or len(scope) == 1:
            return set(scope) <= set(own)
        return any(set(scope) == {own[k - 1], own[k]} for k in range(len(own)))

    def wide(self, table: Array, scope: tuple[int, ...], r: int) -> Array:
        """Return a table with axes for all variables of a region."""
        sizes = iter(table.shape)
        return table.reshape([next(sizes) if v in scope else 1 for v in self.scopes[r]])

    def marginal(self, r: int, scope: tuple[int, ...], table: Array) -> Array:
        """Return the log marginal of a region's table."""
        return log_sum(table, tuple(k for k, v in enumerate(self.scopes[r]) if v not in scope))

    def sweep(self, order: list[int], share: float) -> None:
        """Send messages from parents to children."""
        above = self.regions.ancestors
        for e in order:
            parent, child = self.regions.edges[e].tolist()
            scope = self.scopes[child]
            of_parent = self.tables[parent] - log_sum(self.tables[parent], None)
            own = self.tables[child] - log_sum(self.tables[child], None)
            message = share * (self.marginal(parent, scope, of_parent) - own)
            for r in above[child] - above[parent]:
                self.tables[r] = self.tables[r] + self.wide(message, scope, r)

    def descend(self, counting: Array) -> None:
        """Set the multipliers of every inner region once; tables of outer regions are divided by their numbers."""
        regions = self.regions
        for inner in range(regions.n_outer, regions.n_regions):
            scope, around = self.scopes[inner], [r for r in regions.ancestors[inner] if r < regions.n_outer]
            nus = {}
            for r in around:
                old = self.multipliers.get((r, inner), 0.0)
                nus[r] = counting[r] * self.marginal(r, scope, self.tables[r]) - old
            total: Array = np.sum(list(nus.values()), axis=0)
            belief = total / (counting[inner] + counting[around].sum())
            belief = belief - log_sum(belief, None)
            for r in around:
                new = counting[r] * belief - nus[r]
                old = self.multipliers.get((r, inner), 0.0)
                self.tables[r] = self.tables[r] + self.wide((new - old) / counting[r], scope, r)
                self.multipliers[r, inner] = new
