r"""Composite likelihood of rows: sets of variables predicted together from all others.

.. math:: L(\theta) = \frac1n \sum_{\text{rows}} \sum_S \Bigl[ \log \sum_{y_S} e^{\theta \cdot f(y_S, x_{-S})}
          - \theta \cdot f(x) \Bigr]

over the factors that touch S [lindsay1988]. The sum over a set depends on its blanket alone: rows with the same blanket
are one entry of the sweep that also serves missing cells (:mod:`beliefs.inference.rows.sweep`), with the set's cells
taken out. One set with all variables is the likelihood, single variables are the pseudo-likelihood.

Guarantee: convex; consistent if every variable is in a set. A variable in several sets counts as often.
Cost: exact inference within a set for every different blanket. Failure: BudgetError where a set is too wide.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from beliefs.inference.rows.sweep import RowSweep
from beliefs.learning.fields.base import FieldLoss, swept_logs
from beliefs.learning.fields.statistics import FieldRows
from beliefs.learning.fit_loss import Evaluation
from beliefs.learning.losses.components import checked, choose
from beliefs.learning.networks.counts import count
from beliefs.learning.parallel import executor_of
from beliefs.model.layout import Layout
from beliefs.model.rows.table import RowTable
from beliefs.typing import Floats, Ints

__all__ = ["FieldCompositeLikelihood"]


@dataclass(frozen=True, eq=False, kw_only=True)
class FieldCompositeLikelihood(FieldLoss):
    """The sum over sets of the negative log-probability of their states given all others.

    Attributes
    ----------
    components : str or list of lists
        A choice of :mod:`beliefs.learning.losses.components`, or the sets, as indices of variables.
    """

    components: Any = "acyclic"
    threads: int = 1
    max_bytes: float | None = None
    name: ClassVar[str] = "composite_likelihood"
    _kept: list[tuple[FieldRows, RowSweep, Floats]] = field(default_factory=list, repr=False)

    def sets(self) -> list[Ints]:
        """Return the sets of variables."""
        layout, chosen = self.structure.layout, self.components
        if isinstance(chosen, str):
            return choose(layout, chosen, 2, 1, "the field")
        return checked(chosen, layout, "the field")

    def part(self, theta: Floats, data: FieldRows) -> Evaluation:
        """Return the mean over rows and its gradient."""
        if not self._kept or self._kept[0][0] is not data:
            self._kept[:] = [(data, *self._laid_out(data))]
        _, sweep, scores = self._kept[0]
        total, cells = swept_logs(sweep, theta)
        return Evaluation((total - float(scores @ theta)) / data.n_rows, (cells - scores) / data.n_rows, 1)

    def _laid_out(self, data: FieldRows) -> tuple[RowSweep, Floats]:
        """Return the rows with each set taken out, and how often cells count that rows fall into."""
        layout, table, sets = self.structure.layout, data.rows, self.sets()
        holes, times = [], np.zeros(layout.n_factors)
        for members in sets:
            touching = _touching(layout, members)
            times[touching] += 1.0
            holes.append(_without(layout, table, members, touching))
        codes = np.concatenate([hole.codes for hole in holes], axis=1)
        weights = np.concatenate([np.zeros(0), *(w for w in (hole.weights for hole in holes) if w is not None)])
        sweep = RowSweep(
            layout, RowTable(table.names, table.labels, codes, weights), max_bytes=self.max_bytes, threads=self.threads
        )
        counts = count(self.structure, table, executor_of(self.threads)).flat()
        return sweep, layout.in_cells(counts * np.repeat(times, layout.factor_size))


def _touching(layout: Layout, members: Ints) -> Ints:
    inside = np.zeros(layout.n_vars, np.bool_)
    inside[members] = True
    return np.unique(layout.edge_factor[inside[layout.scope_vars]])


def _without(layout: Layout, table: RowTable, members: Ints, touching: Ints) -> RowTable:
    """Return the different blankets of a set with its own cells missing; all other cells are of no importance."""
    scopes = [layout.scope(int(f)) for f in touching]
    blanket = np.setdiff1d(np.concatenate([*scopes, np.zeros(0, np.int64)]), members)
    distinct, _ = table.columns(blanket).merged()
    codes = np.zeros((layout.n_vars, distinct.n_rows), table.codes.dtype)
    codes[blanket], codes[members] = distinct.codes, table.missing
    return RowTable(table.names, table.labels, codes, distinct.weights)
