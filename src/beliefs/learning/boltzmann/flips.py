r"""Losses without log Z: every visible unit is compared with the others, the hidden layer summed out.

With :math:`\ell_i` the log-odds of unit i given all others (:mod:`beliefs.kernels.boltzmann.flips`) and
:math:`q_i = \sigma(\ell_i)`, the loss of a row is

==============================  ================================================  =====================================
``pseudo_likelihood``           :math:`-\sum_i \log p(v_i \mid v_{-i})`            [besag1975]
``ratio_matching``              :math:`\sum_i (v_i - q_i)^2`                       [hyvarinen2007], [marlin2010]
``minimum_probability_flow``    :math:`\sum_i e^{(1 - 2 v_i)\,\ell_i / 2}`         [sohldickstein2011], all neighbours
==============================  ================================================  =====================================

All three have their minimum at the machine that made the rows, if there is one and there are many rows. Values and
gradients are exact. Cost: four exponentials a row, visible and hidden unit, many times that of a matrix product: for
machines up to a few hundred units. Rows of probabilities take the place of bits.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from beliefs.kernels.boltzmann.flips import flip_log_odds, flip_pullback
from beliefs.learning.boltzmann.layers import Layers
from beliefs.learning.boltzmann.loss import RowLoss, RowTotal
from beliefs.learning.boltzmann.rows import BitRows
from beliefs.learning.parallel import executor_of
from beliefs.typing import Floats

__all__ = ["MinimumProbabilityFlow", "PseudoLikelihood", "RatioMatching"]

_PIECES = 4  # of the visible units, worked on side by side
_ROWS = 256  # that are looked at together
_SHARED = 2**15  # rows times weights from which threads share them: some 150 us


@dataclass(frozen=True, kw_only=True)
class FlipLoss(RowLoss):
    """A function of the log-odds of every visible unit given all others."""

    @abstractmethod
    def terms(self, visible: Floats, odds: Floats) -> tuple[Floats, Floats]:
        """Return the terms of the loss, one a row and unit, and their derivatives in the log-odds."""

    def add_rows(self, total: RowTotal, layers: Layers, rows: BitRows) -> None:
        """Write the mean over all rows and its gradient."""
        shape, share = self.shape, 1.0 / len(rows)
        weights = layers.weights.astype(np.float64)
        grad = np.zeros(shape.n_weights)
        parts = shape.parts(grad)
        for _, visible in rows.pieces(np.float64, _ROWS):
            x = visible @ weights + layers.hidden_bias
            odds, bars, hidden = self._around(layers, weights, visible, x, parts.weights)
            total.value += share * float(odds.sum())
            parts.weights[:] += visible.T @ hidden
            parts.visible_bias[:] += bars.sum(axis=0)
            parts.hidden_bias[:] += hidden.sum(axis=0)
        grad *= share
        total.grad[:] = grad

    def _around(
        self, layers: Layers, weights: Floats, visible: Floats, x: Floats, out: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Return terms and derivatives of all units, and what the rows' hidden units receive from them."""
        n, m = weights.shape
        cuts = np.linspace(0, n, min(_PIECES, n) + 1).astype(int).tolist()
        terms, bars = np.empty_like(visible), np.empty_like(visible)
        hidden = np.zeros((len(cuts) - 1, len(visible), m))

        def run(begin: int, end: int) -> None:
            for k in range(begin, end):
                cut = slice(cuts[k], cuts[k + 1])
                v = np.ascontiguousarray(visible[:, cut])
                odds = np.empty_like(v)
                flip_log_odds(x, v, weights[cut], layers.visible_bias[cut], np.zeros(0), odds)
                with np.errstate(over="ignore", invalid="ignore"):
                    values, slopes = self.terms(v, odds)
                terms[:, cut], bars[:, cut] = values, slopes
                flip_pullback(x, v, weights[cut], np.ascontiguousarray(slopes), hidden[k], out[cut])

        executor = layers.executor if len(visible) * weights.size >= _SHARED else executor_of(1)
        executor.chunks(run, len(cuts) - 1)
        return terms, bars, hidden.sum(axis=0)


@dataclass(frozen=True, kw_only=True)
class PseudoLikelihood(FlipLoss):
    """The negative log-probability of every visible unit given all others."""

    name: ClassVar[str] = "pseudo_likelihood"

    def terms(self, visible: Floats, odds: Floats) -> tuple[Floats, Floats]:
        """Return cross-entropies."""
        return np.logaddexp(0.0, odds) - visible * odds, _sigmoid(odds) - visible


@dataclass(frozen=True, kw_only=True)
class RatioMatching(FlipLoss):
    """The squared distance of every visible unit from its probability given all others."""

    name: ClassVar[str] = "ratio_matching"

    def terms(self, visible: Floats, odds: Floats) -> tuple[Floats, Floats]:
        """Return squares."""
        q = _sigmoid(odds)
        return (visible - q) ** 2, 2.0 * (q - visible) * q * (1.0 - q)


@dataclass(frozen=True, kw_only=True)
class MinimumProbabilityFlow(FlipLoss):
    """The flow of probability from the rows to all that differ from them in one unit."""

    name: ClassVar[str] = "minimum_probability_flow"

    def terms(self, visible: Floats, odds: Floats) -> tuple[Floats, Floats]:
        """Return rates."""
        side = 0.5 - visible
        rate = np.exp(side * odds)
        return rate, side * rate


def _sigmoid(odds: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -odds))
