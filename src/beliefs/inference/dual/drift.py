r"""The rounding of tables that are moved in place: how far the bound of a split model may be from one of the model.

.. math:: L = \text{const} + \sum_s V_s(n_s) + \sum_c V_c(r_c), \qquad \sum_s n_s + \sum_c r_c = \theta + \epsilon

Every update rounds, so the tables add up to the model only up to some :math:`\epsilon`, which no later update removes.
Three errors count: that of computing :math:`L` from the tables, :math:`\max |\epsilon|`, which grows with every sweep,
and what the weights of a variable add up to beside its temperature, times :math:`\log K`. The first two follow from the
magnitudes of the tables (:func:`beliefs.kernels.rounding.junction_roundings`), which are measured now and then; between
two such moments they count twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from beliefs.inference.rounding import UNIT, from_units, magnitude, pairwise
from beliefs.kernels.rounding import junction_roundings

if TYPE_CHECKING:
    from beliefs.inference.dual.state import SplitTables

__all__ = ["Drift"]

_BETWEEN = 2.0  # as much as tables are believed to grow before they are measured again


class Drift:
    """Rounding errors of one run, in units of 2^-53; ``moved`` is what all tables together may have moved by."""

    def __init__(self, split: SplitTables) -> None:
        self._split = split
        graph, layout = split.graph, split.model.layout
        crowd = max(  # factors of one cluster, of one variable, and constants are added up
            np.bincount(graph.home[graph.home >= 0]).max(initial=1),
            layout.degree.max(initial=1),
            np.count_nonzero(layout.scope_ptr[1:] == layout.scope_ptr[:-1]),
        )
        self.moved = float(crowd) * magnitude(split.model)
        self._n_sweeps = self._since = 0
        self._sweep = self._here = self._unbalanced = -1.0

    @property
    def due(self) -> bool:
        """Whether it is time to measure: after 1, 2, 4, 8, ... sweeps, so that growth at the start is not missed."""
        return self._n_sweeps & (self._n_sweeps - 1) == 0

    def sweep(self) -> None:
        """Count a sweep of block updates that is about to begin."""
        if self._sweep < 0.0:
            self._measure()
        self._n_sweeps += 1
        self._since += 1

    def fresh(self) -> float:
        """Return the error of a bound that was just computed from the tables."""
        self._measure()
        return self._error(0)

    def running(self) -> float:
        """Return the error of a bound that follows the last one computed by differences, one of each update."""
        return self._error(self._since)

    def rebuilt(self) -> float:
        """Return the error of a bound on tables that were just made from the model and one shift a link."""
        kept = self.moved
        self._measure()
        self.moved = kept
        return from_units(kept + self._sweep + self._here + self._unbalanced)

    def _error(self, n_sweeps: int) -> float:
        between = 2.0 * _BETWEEN * n_sweeps * (self._sweep + self._here)
        return from_units(self.moved + between + self._here + self._unbalanced)

    def _measure(self) -> None:
        split, g, before = self._split, self._split.graph, self._sweep
        split.absorb()
        state = split.state
        here, self._sweep = junction_roundings(
            g.clusters, state.weight, split.tables, g.separators, state.sep_weight, state.sep_tables, g.links,
            np.empty(g.n_clusters),
        )  # fmt: skip
        self._here = float(here) * (1.0 + pairwise(g.n_clusters + g.n_separators) / 3.0) + abs(split.constant)
        self.moved += self._since * max(before, self._sweep)
        self._since = 0
        self._unbalanced = self._imbalance()

    def _imbalance(self) -> float:
        """Return what temperatures that the weights miss may cost."""
        split, g, state = self._split, self._split.graph, self._split.state
        n, axis_var, sep_var = split.tau.size, g.clusters.var, g.separators.var
        sums = np.bincount(axis_var, state.weight, n) + np.bincount(sep_var, state.sep_weight, n)
        terms = np.bincount(axis_var, minlength=n) + np.bincount(sep_var, minlength=n)
        missed = np.abs(sums - split.tau) / UNIT + terms * sums
        hidden = g.node >= 0
        return float(missed[hidden] @ np.log(split.model.layout.card[hidden]))
