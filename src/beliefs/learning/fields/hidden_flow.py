r"""Minimum probability flow with hidden variables: flow between what rows observe, the rest summed out.

.. math:: L(\theta) = \frac1n \sum_{x} n_x \sum_{x'} e^{(F(x') - F(x)) / 2}, \qquad
          F(x) = \log \sum_z e^{\theta \cdot f(x, z)}

with x' the states that differ from x in one observed variable, rows among them included [sohldickstein2011]. Rows and
neighbours are the nodes of a graph; one sweep gives F of all nodes, and a second one with the weights
:math:`c_x = \tfrac12 (\text{flow into } x - \text{flow out of } x)` the gradient
:math:`\sum_x c_x \mathrm{E}[f \mid x]`. The loss is no longer convex.

Cost: two sweeps over the different rows and all their neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from beliefs.inference.rows.likelihood import row_log_weights
from beliefs.inference.rows.sweep import RowSweep
from beliefs.learning.fields.base import FieldLoss, swept_logs
from beliefs.learning.fields.statistics import FieldRows
from beliefs.learning.fit_loss import Evaluation
from beliefs.learning.networks.counts import count
from beliefs.learning.parallel import executor_of
from beliefs.model.rows.table import RowTable
from beliefs.typing import Floats, Ints

__all__ = ["HiddenFlow"]


@dataclass(frozen=True, eq=False, kw_only=True)
class HiddenFlow(FieldLoss):
    """The flow of probability from the rows to all that differ from them in one observed variable."""

    threads: int = 1
    max_bytes: float | None = None
    name: ClassVar[str] = "minimum_probability_flow"
    hidden: ClassVar[bool] = True
    _kept: list[tuple[FieldRows, RowTable, Ints, Ints, Floats]] = field(default_factory=list, repr=False)

    def part(self, theta: Floats, data: FieldRows) -> Evaluation:
        """Return the mean over rows and its gradient."""
        if not self._kept or self._kept[0][0] is not data:
            self._kept[:] = [(data, *_flows(data.rows))]
        _, nodes, start, end, weights = self._kept[0]
        graph, layout = self.graph(theta), self.structure.layout
        limit = None if self.max_bytes is None else int(self.max_bytes)
        energies = row_log_weights(graph, nodes, threads=self.threads, max_bytes=limit)
        with np.errstate(over="ignore"):
            rates = weights * np.exp(0.5 * (energies[end] - energies[start]))
        size = nodes.n_rows
        net = np.bincount(end, rates, size) - np.bincount(start, rates, size)
        weighted = replace(nodes, weights=np.asarray(0.5 * net, np.float64))
        grad = layout.in_cells(count(self.structure, weighted, executor_of(self.threads)).flat())
        sweep = RowSweep(layout, weighted, max_bytes=self.max_bytes, threads=self.threads)
        grad = grad + swept_logs(sweep, theta)[1]
        return Evaluation(float(rates.sum()) / data.n_rows, grad / data.n_rows, 1)


def _flows(table: RowTable) -> tuple[RowTable, Ints, Ints, Floats]:
    """Return all different rows and neighbours, and the flows among them: from, to, weight of the row."""
    rows, _ = table.merged()
    assert rows.weights is not None
    parts, origin, weights = [rows.codes], [np.zeros(0, np.int64)], [np.zeros(0)]
    for v, card in enumerate(rows.card.tolist()):
        seen = np.flatnonzero(rows.codes[v] != rows.missing)
        for step in range(1, card):
            codes = rows.codes[:, seen].copy()
            codes[v] = (codes[v].astype(np.int64) + step) % card
            parts.append(codes)
            origin.append(seen)
            weights.append(rows.weights[seen])
    everything = RowTable(rows.names, rows.labels, np.concatenate(parts, axis=1))
    nodes, number = everything.merged()
    start = number[: rows.n_rows][np.concatenate(origin)]
    return replace(nodes, weights=None), start, number[rows.n_rows :], np.concatenate(weights)
