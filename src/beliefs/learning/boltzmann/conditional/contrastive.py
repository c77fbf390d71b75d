r"""Contrastive learning of conditional machines: short chains in the place of inference.

*Contrastive divergence* [hinton2002]: a chain for every row, given its inputs, which starts at the row
(``start=data``), at random bits, or at a draw of the logistic part :math:`\sigma(b^v + W^{vx} x)`, and does ``sweeps``
sweeps.

*CD-PercLoss* [mnih2011] minimises the perceptron loss :math:`F(v_n, x_n) - \min_v F(v, x_n)`. A chain looks for
states of low free energy: it starts from what the logistic part predicts, draws the hidden units, and sets the visible
ones to their best states given those (drawn ones were found to be too poor to learn from: with small weights every row
beats them). The best state visited stands for the minimum, and a row that is better still makes no update.

Chains are new for every row: a persistent one would belong to inputs that are met once a pass, when weights have long
moved on ([ping2016] section 6.2). The value of contrastive divergence is a monitor, the difference of mean free
energies of rows and chains. Random numbers are functions of seed, update, sweep, row and unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from beliefs.learning.boltzmann.conditional.loss import Averages, ConditionalLoss, Given
from beliefs.learning.boltzmann.sampled import SampledRowLoss
from beliefs.options import check_option, is_word

__all__ = ["ConditionalContrastive", "ContrastivePerceptron"]

_STARTS = ("data", "random", "logistic")


@dataclass(frozen=True, kw_only=True)
class ChainLoss(ConditionalLoss, SampledRowLoss):
    """What losses with chains share; ``sweeps`` and ``seed`` as for other machines."""

    def draw(self, given: Given, log_odds: np.ndarray, step: int) -> np.ndarray:
        """Return bits with these log odds, which probabilities replace."""
        out = np.empty_like(log_odds)
        given.layers.draw(log_odds, np.zeros(log_odds.shape[1]), self.key(step), out)
        return out

    def started(self, given: Given, start: str) -> np.ndarray:
        """Return visible rows to start chains from."""
        if start == "data":
            return given.bits
        log_odds = given.visible_bias.copy() if start == "logistic" else np.zeros_like(given.visible_bias)
        return self.draw(given, log_odds, 0)

    def visible_log_odds(self, given: Given, x: np.ndarray, k: int) -> np.ndarray:
        """Draw hidden units of sweep k from their log odds, and return the log odds of visible ones given them."""
        y = np.empty_like(given.visible_bias)
        given.layers.to_visible(self.draw(given, x, 2 * k + 1), y)
        y += given.visible_bias
        return y


@dataclass(frozen=True, kw_only=True)
class ConditionalContrastive(ChainLoss):
    """CD-k given inputs.

    Parameters
    ----------
    start : {"data", "random", "logistic"}
        Where chains start.
    """

    start: str = "data"

    name: ClassVar[str] = "contrastive_divergence"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(is_word(self.start, _STARTS), "start", "'data', 'random' or 'logistic'", self.start)

    def averages(self, given: Given) -> Averages:
        """Return the averages of the chains, and of the rows."""
        x = given.activation(given.bits)
        scores = given.scores(given.bits, x)
        visible = self.started(given, self.start)
        walk = x.copy() if self.start == "data" else given.activation(visible)
        for k in range(self.sweeps):
            visible = self.draw(given, self.visible_log_odds(given, walk, k), 2 * k + 2)
            walk = given.activation(visible)
        values = given.scores(visible, walk) - scores
        self._chains.n_updates += 1
        return contrasted(given, values, visible, walk, x)


@dataclass(frozen=True, kw_only=True)
class ContrastivePerceptron(ChainLoss):
    """CD-PercLoss: the best state that a chain from the logistic part has visited, where it beats the row."""

    sweeps: int = 10

    name: ClassVar[str] = "contrastive_perceptron"

    def averages(self, given: Given) -> Averages:
        """Return the averages of the best states visited, and of the rows; rows that win have no difference."""
        x = given.activation(given.bits)
        scores = given.scores(given.bits, x)
        visible = (given.visible_bias > 0.0).astype(given.bits.dtype)
        walk = given.activation(visible)
        best, best_walk, best_scores = visible, walk.copy(), given.scores(visible, walk)
        for k in range(self.sweeps):
            visible = (self.visible_log_odds(given, walk, k) > 0.0).astype(given.bits.dtype)
            walk = given.activation(visible)
            found = given.scores(visible, walk)
            better = found > best_scores
            best = np.where(better[:, None], visible, best)
            best_walk = np.where(better[:, None], walk, best_walk)
            best_scores = np.maximum(found, best_scores)
        lost = best_scores <= scores
        best, best_walk = np.where(lost[:, None], given.bits, best), np.where(lost[:, None], x, best_walk)
        self._chains.n_updates += 1
        return contrasted(given, np.maximum(best_scores - scores, 0.0), best, best_walk, x)


def contrasted(given: Given, values: np.ndarray, visible: np.ndarray, walk: np.ndarray, x: np.ndarray) -> Averages:
    """Return averages of visible rows less those of the bits, from the log odds of hidden units given either."""
    none, n_rows = np.zeros(x.shape[1]), len(x)
    both = np.concatenate([walk, x])
    given.layers.probabilities(both, none)
    difference = both[:n_rows] - both[n_rows:]
    np.negative(both[n_rows:], out=both[n_rows:])
    pairs = given.layers.buffers.array("pairs", given.weights.shape, given.weights.dtype)
    given.layers.pairs(np.concatenate([visible, given.bits]), both, pairs)
    return Averages(values, visible - given.bits, difference, pairs)
