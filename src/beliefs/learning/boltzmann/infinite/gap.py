"""The free-energy gap of a machine that grows: a column that was looked at is not looked at again.

Sums over units are kept for every row, so that a new unit costs one product of the rows with a vector. They are added
in the order of the units, whether one by one as the machine grows or all at once, so a resumed fit sees the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beliefs.learning.boltzmann.gap import FreeEnergyGap
from beliefs.learning.boltzmann.infinite.averages import RowAverages
from beliefs.learning.boltzmann.infinite.objective import GrowingLikelihood
from beliefs.learning.parallel import Executor
from beliefs.typing import Floats

__all__ = ["GrowingGap"]


class GrowingGap:
    """What early stopping asks after each step: the gap of the measure in a vector."""

    def __init__(self, gap: FreeEnergyGap, loss: GrowingLikelihood, dtype: str, executor: Executor) -> None:
        self.gap, self.loss = gap, loss
        self.rows = [RowAverages(rows, dtype, executor) for rows in gap.rows]
        self._forget()

    def _forget(self) -> None:
        self.atoms, self.counts = np.zeros((self.loss.n_visible + 1, 0)), np.zeros(0)
        self.sums: list[Floats] = [np.zeros(rows.n_rows) for rows in self.rows]

    def __call__(self, weights: Floats) -> float:
        """Return the gap."""
        m, k = self.loss.measure(weights), self.counts.size
        if not (np.array_equal(m.atoms[:, :k], self.atoms) and np.array_equal(m.counts[:k], self.counts)):
            self._forget()
        for j in range(self.counts.size, m.n_units):
            for rows, sums in zip(self.rows, self.sums, strict=True):
                sums += rows.softplus_sums(m.atoms[:, [j]], m.counts[[j]])
        self.atoms, self.counts = m.atoms, m.counts
        seen, unseen = (-sums - rows.products(m.bias) for rows, sums in zip(self.rows, self.sums, strict=True))
        return self.gap.between(seen, unseen)

    def better(self, found: float, past: Sequence[float]) -> bool:
        """Whether the measure that was looked at last is to be kept."""
        return self.gap.better(found, past)
