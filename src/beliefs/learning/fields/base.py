"""What a loss on fields and rows is: a number a row on average, its gradient in the log potentials, and a ridge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.rows.sweep import RowSweep
from beliefs.learning.fields.statistics import FieldRows
from beliefs.learning.fit_loss import Evaluation, FitLoss
from beliefs.learning.networks.structure import Structure
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["FieldLoss", "clamped", "swept_logs"]


@dataclass(frozen=True, eq=False, kw_only=True)
class FieldLoss(FitLoss, ABC):
    """Base of the losses on fields.

    Attributes
    ----------
    structure : Structure
        Scopes and names of the field.
    l2 : float
        The ridge, relative to the mean over rows.
    """

    structure: Structure
    l2: float = 0.0
    name: ClassVar[str]
    hidden: ClassVar[bool] = False
    """Whether cells may be missing."""

    @property
    def n_weights(self) -> int:
        """Cells of all tables."""
        return self.structure.layout.n_cells

    def graph(self, theta: Floats) -> FactorGraph:
        """Return the field with these log potentials."""
        return FactorGraph.build(self.structure.layout, theta.copy(), self.structure.naming)

    def check(self, data: FieldRows) -> None:
        """Refuse rows that the loss is not defined for."""
        if data.sweep is not None and not self.hidden:
            raise ModelError(
                f"{self.name} needs complete rows, found missing cells or hidden variables; use likelihood, em, "
                "stochastic_likelihood or minimum_probability_flow"
            )

    @abstractmethod
    def part(self, theta: Floats, data: FieldRows) -> Evaluation:
        """Return the loss and its gradient without the ridge."""

    def evaluate(self, theta: Floats, data: FieldRows) -> Evaluation:
        """Return the loss and its gradient."""
        found = self.part(theta, data)
        if not self.l2:  # potentials of fitted fields may be -inf where there is no ridge
            return found
        value = found.value + self.l2 * float(theta @ theta)
        return replace(found, value=value, grad=found.grad + 2.0 * self.l2 * theta)


def clamped(theta: Floats, data: FieldRows) -> tuple[float, Floats]:
    """Return the mean log weight of a row, missing cells summed out, and its gradient: expected frequencies."""
    seen = data.frequencies > 0
    score = float(data.frequencies[seen] @ theta[seen])
    if data.sweep is None:
        return score, data.frequencies
    total, cells = swept_logs(data.sweep, theta)
    return score + total / data.total, data.frequencies + cells / data.total


def swept_logs(sweep: RowSweep, theta: Floats) -> tuple[float, Floats]:
    """Return the weighted sum of all log-sums of a sweep and its gradient; tables are scaled, so none overflows."""
    layout = sweep.layout
    shift = np.zeros(layout.n_cells)
    for start, size in set(zip(layout.cell_ptr.tolist(), layout.factor_size.tolist(), strict=True)):
        shift[start : start + size] = theta[start : start + size].max()
    swept = sweep.run(np.exp(theta - shift))
    return sweep.total_log_z(swept) + float(swept.cells @ shift), swept.cells
