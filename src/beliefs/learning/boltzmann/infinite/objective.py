r"""What the growth of a hidden layer maximises, as a loss.

.. math:: L(q, b, \alpha) = \tfrac1N \sum_n \log p(v^n) - \tfrac{\lambda}{2} E_q \lVert w \rVert^2

([ping2016] eq. 5.5), concave in :math:`(\alpha q, b)`. With ``alpha="units"`` the penalty is
:math:`\tfrac\lambda2 \sum_j \lVert w_j \rVert^2`, for which the print's subproblem (5.8) is the gradient. The loss is
:math:`-L`, of a vector that holds a measure (:meth:`.measure.Measure.flat`); steps of Frank-Wolfe know their change of
it from averages, so it is asked for by those who want to look: exact where log Z is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.inference.likelihood import log_likelihood
from beliefs.learning.boltzmann.infinite.measure import Measure, flat_size
from beliefs.learning.fit_loss import FitLoss
from beliefs.typing import Floats

__all__ = ["GrowingLikelihood"]


@dataclass(frozen=True, kw_only=True)
class GrowingLikelihood(FitLoss):
    """The penalised negative log-likelihood of a machine of at most ``max_units`` hidden units.

    Parameters
    ----------
    n_visible, max_units : int
    l2 : float
        lambda.
    alpha : float or str
        ``"units"``, ``"learned"`` or the mass of the measure.
    threads : int, optional
        Pieces of rows worked on side by side; None means all cores. It changes no byte of the answer.
    """

    n_visible: int
    max_units: int
    l2: float = 0.1
    alpha: float | str = "units"
    threads: int | None = 1

    name: ClassVar[str] = "growing_likelihood"

    @property
    def n_weights(self) -> int:
        """Length of the vector."""
        return flat_size(self.n_visible, self.max_units)

    @property
    def plain(self) -> bool:
        """Whether every unit counts once."""
        return self.alpha == "units"

    def measure(self, weights: Floats) -> Measure:
        """Read the vector."""
        return Measure.of_flat(weights, self.n_visible, self.max_units)

    def rho(self, measure: Measure) -> float:
        """Return what a unit of count one pays for half of its squared length."""
        return self.l2 if self.plain else self.l2 / measure.alpha

    def penalty(self, measure: Measure) -> float:
        """Return what the ridge adds to the loss."""
        return 0.5 * self.rho(measure) * float(measure.counts @ measure.squares)

    def value_and_grad(self, weights: Floats, data: Any) -> tuple[float, Floats]:
        """Return the loss and its gradient in bias, counts and columns; ``data`` are :class:`.BitRows`."""
        m, n = self.measure(weights), self.n_visible
        rows = data.into(np.empty((len(data), n)))
        machine = m.machine(np.float64, False)
        found = log_likelihood(machine, rows, gradient=True)
        gradient, rho = found.gradient, self.rho(m)
        assert gradient is not None and gradient.counts is not None
        out = np.zeros(self.n_weights)
        out[:n] = -gradient.visible_bias
        out[n + 3 : n + 3 + m.n_units] = 0.5 * rho * m.squares - gradient.counts
        columns = rho * m.counts * m.atoms - np.concatenate([gradient.weights, gradient.hidden_bias[None]])
        begin = n + 3 + self.max_units
        out[begin : begin + columns.size] = columns.T.ravel()
        return self.penalty(m) - found.mean, out
