r"""Max-margin learning of conditional machines: marginal and latent structured SVMs with Hamming loss.

.. math:: U_n = \max_v \big[ \Delta(v, v_n) - F(v, x_n) \big] + F(v_n, x_n)

with hidden units summed out (``eps_h=1``, MSSVM) or at their best (``eps_h=0``, LSSVM): the corners
:math:`\epsilon_y = 0` of :class:`beliefs.learning.losses.MaxMargin` ([ping2016] Eq. (6.3) without regulariser). The
loss is a sum over units, :math:`\Delta = \sum_i v_{ni} + \sum_i v_i (1 - 2 v_{ni})`, so the maximum is that of a
machine with biases :math:`b + 1 - 2 v_n`: mixed-product or max-product, cut off after some sweeps, decodes it. A state
that scores less than the row itself is no maximum, and the row, whose loss is 0, stands for it; values are lower bounds
of the true ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from beliefs.inference.base import Bound
from beliefs.inference.boltzmann.matrix_bp import LayerMessages
from beliefs.kernels.boltzmann.layers import probabilities
from beliefs.learning.boltzmann.conditional.loss import Averages, Given
from beliefs.learning.boltzmann.conditional.surrogate import SweptLoss
from beliefs.options import check_option
from beliefs.typing import Floats

__all__ = ["ConditionalMargin"]


@dataclass(frozen=True, kw_only=True)
class ConditionalMargin(SweptLoss):
    """Structured SVM with hidden units.

    Parameters
    ----------
    eps_y : 0
        Temperature of the visible units.
    eps_h : {0, 1}
        Temperature of the hidden ones: at their best, or summed out.
    """

    eps_y: float = 0.0
    eps_h: float = 1.0

    name: ClassVar[str] = "max_margin"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(self.eps_y == 0, "eps_y", "0 (of conditional machines the corners (0, 0) and (0, 1))", self.eps_y)
        check_option(self.eps_h in (0, 1), "eps_h", "0 or 1 for conditional machines", self.eps_h)

    @property
    def predicts_by(self) -> str:  # type: ignore[override]
        """The decoding of the fit, without the loss."""
        return "mixed_product" if self.eps_h else "max_product"

    def averages(self, given: Given) -> Averages:
        """Return averages of the loss-augmented states, and of the rows."""
        sweeps = self.sweeps(given)
        messages = LayerMessages(given.weights, 0.0, sweeps.threads)
        ask = messages.mixed if self.eps_h else messages.maxima
        found = ask(given.visible_bias + (1.0 - 2.0 * given.bits), given.hidden_bias, sweeps.n, sweeps.tol)
        visible = (found.visible_log_odds > 0.0).astype(given.bits.dtype)
        x, own = given.activation(visible), given.activation(given.bits)
        values = self._scores(given, visible, x) + np.abs(visible - given.bits).sum(axis=1, dtype=np.float64)
        values -= self._scores(given, given.bits, own)
        lost = values <= 0.0
        visible[lost], x[lost] = given.bits[lost], own[lost]
        self._hidden(x)
        self._hidden(own)
        pairs = np.empty_like(given.weights)
        given.layers.pairs(np.concatenate([visible, -given.bits]), np.concatenate([x, own]), pairs)
        return Averages(
            np.maximum(values, 0.0), visible - given.bits, x - own, pairs, Bound.LOWER, int((~found.converged).sum())
        )

    def _scores(self, given: Given, visible: np.ndarray, x: np.ndarray) -> Floats:
        if self.eps_h:
            return given.scores(visible, x)
        own: Floats = np.einsum("ri,ri->r", visible, given.visible_bias, dtype=np.float64)
        own += np.maximum(x, 0.0).sum(axis=1, dtype=np.float64)
        return own

    def _hidden(self, x: np.ndarray) -> None:
        """Replace log odds of hidden units by their probabilities, or by their best states."""
        if self.eps_h:
            probabilities(x, np.zeros(x.shape[1]))
        else:
            np.greater(x, 0.0, out=x, casting="unsafe")
