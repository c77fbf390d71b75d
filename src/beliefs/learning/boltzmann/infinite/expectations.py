r"""What Frank-Wolfe asks of the present machine: its law over visible rows, and the bias that matches the data's rates.

``exact`` writes out all :math:`2^n` visible rows. The bias is at its optimum, where
:math:`E_p[v] = \tfrac1N \sum_n v^n`: a convex problem, solved by L-BFGS. No noise; up to 20 visible units.

``sampled`` is in :mod:`beliefs.learning.boltzmann.infinite.sampled`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beliefs.errors import BudgetError
from beliefs.learning.boltzmann.infinite.averages import RowAverages
from beliefs.learning.boltzmann.infinite.measure import Measure
from beliefs.learning.boltzmann.infinite.subproblem import Inner, minimised
from beliefs.learning.boltzmann.rows import BitRows
from beliefs.learning.optimizers.objective import Objective
from beliefs.learning.parallel import Executor
from beliefs.typing import Floats

__all__ = ["ExactExpectations", "Expectations", "check_enumerable"]

_MOST_VISIBLE = 20
_FARTHEST = 30.0  # the largest bias: units that are the same in all rows would go on for ever
_TOL, _ITERS = 1e-9, 1000


def check_enumerable(n_visible: int) -> None:
    """Raise a BudgetError for more visible units than can be written out."""
    if n_visible > _MOST_VISIBLE:
        raise BudgetError(
            f'expectations="exact" writes out 2^{n_visible} visible rows, and 2^{_MOST_VISIBLE} is the limit; use '
            'expectations="sampled"'
        )


class Expectations(ABC):
    """The law of the machine as it grows."""

    tol: float
    """How closely the subproblem is worth solving: the largest entry of the gradient of J."""

    least_share: float
    """The share of the model's rows that must count in a line search."""

    @abstractmethod
    def law(self, measure: Measure) -> RowAverages:
        """Return averages over the law of a measure's machine."""

    @abstractmethod
    def settled(self, before: Measure, after: Measure, data: RowAverages, inner: Inner) -> Measure:
        """Return the measure after a step with its bias fitted to the rates of the data, and with its log Z."""

    def memory(self) -> dict[str, np.ndarray]:
        """Return what a later run needs to go on."""
        return {}

    def resume(self, memory: dict[str, np.ndarray]) -> None:  # noqa: B027 (exact ones keep nothing)
        """Go on from what an earlier run has kept."""


@dataclass(frozen=True, eq=False)
class _BiasLoss:
    """log Z(b) - b * rates over all visible rows, whose other log weights are fixed."""

    states: np.ndarray
    scores: Floats
    rates: Floats

    def value_and_grad(self, bias: Floats, data: object = None) -> tuple[float, Floats]:
        """Return the negative log-likelihood but for a constant, and rates expected less rates seen."""
        log_weights = self.scores + self.states @ bias
        top = log_weights.max()
        p = np.exp(log_weights - top)
        total = p.sum()
        return float(top + np.log(total) - bias @ self.rates), (p / total) @ self.states - self.rates


class ExactExpectations(Expectations):
    """All visible rows with their probabilities."""

    tol = 1e-8
    least_share = 0.0

    def __init__(self, n_visible: int, executor: Executor) -> None:
        check_enumerable(n_visible)
        shifts = np.arange(n_visible)[::-1]
        self.states: np.ndarray = (np.arange(2**n_visible)[:, None] >> shifts & 1).astype(np.uint8)
        self.executor = executor

    def _averages(self, shares: Floats | None = None) -> RowAverages:
        return RowAverages(BitRows(self.states), np.float64, self.executor, shares)

    def law(self, measure: Measure) -> RowAverages:
        """Return averages with the probability of every visible row."""
        log_weights = self._scores(measure) + self.states @ measure.bias
        p = np.exp(log_weights - log_weights.max())
        return self._averages(p / p.sum())

    def _scores(self, measure: Measure) -> Floats:
        return self._averages().softplus_sums(measure.atoms, measure.counts)

    def settled(self, before: Measure, after: Measure, data: RowAverages, inner: Inner) -> Measure:
        """Return the measure with its bias at the optimum (moments match) and its exact log Z."""
        loss = _BiasLoss(self.states.astype(np.float64), self._scores(after), data.mean)
        tight = Inner(inner.watch, _TOL, _ITERS)
        objective: Any = Objective(loss, (), after.bias, bounds=(-_FARTHEST, _FARTHEST))
        bias = minimised(objective, tight).weights
        return replace(after, bias=bias, log_z=loss.value_and_grad(bias)[0] + float(bias @ data.mean))
