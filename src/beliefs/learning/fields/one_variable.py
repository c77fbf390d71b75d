r"""Losses without log Z: each variable of a row is compared with its other states, all other variables given.

With :math:`a_i(k)` the sum of the log potentials of state k given the rest of the row,

.. math::
    \text{pseudo\_likelihood:}\quad & -\sum_i \log p(x_i \mid x_{-i})
        = \sum_i \log \sum_k e^{a_i(k)} - a_i(x_i) \\
    \text{minimum\_probability\_flow:}\quad & \sum_i \sum_{k \ne x_i} e^{(a_i(k) - a_i(x_i)) / 2}

[besag1975], [sohldickstein2011]. Probability flows from a row x to a neighbour x', which differs from it in one
variable, at the rate :math:`\sqrt{p(x') / p(x)}`; these rates keep p(x) in balance. Under rows of a law q the loss is

.. math:: \sum_x q(x) \sum_{x'} \sqrt{p(x') / p(x)}
    = \sum_{\{x, x'\}} \sqrt{p p'}\,\Bigl(\frac{q}{p} + \frac{q'}{p'}\Bigr)

over unordered pairs; its derivative in theta at p = q is :math:`\tfrac12 \sum_x \sum_{x'} \sqrt{p p'} (f(x') - f(x))`,
and every pair occurs in it twice, with opposite signs: zero. All one-variable neighbours count, also those that are
rows themselves: without them the sum is empty once the rows cover the states, and the derivative would not vanish.
Sums of exponentials of linear functions are convex.

Guarantee: convex; consistent: the true field is the minimum in the limit of many rows. Hidden variables: not defined
for the pseudo-likelihood; for the flow see :mod:`beliefs.learning.fields.hidden_flow`.
Cost: the different blankets of each variable, or two products of matrices; no inference. Failure: the minimum is at
infinity where a cell never occurs; rates overflow far from there (the loss is then infinite).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from beliefs.kernels.rows.conditionals import cross_entropies
from beliefs.learning.fields.base import FieldLoss
from beliefs.learning.fields.blankets import Terms
from beliefs.learning.fields.statistics import FieldRows
from beliefs.learning.fit_loss import Evaluation
from beliefs.learning.optimizers.objective import Coordinates
from beliefs.learning.parallel import executor_of
from beliefs.typing import Floats

__all__ = ["FieldPseudoLikelihood", "FieldProbabilityFlow"]


@dataclass(frozen=True, eq=False, kw_only=True)
class OneVariable(FieldLoss, Terms):
    """A sum over rows and variables."""

    threads: int = 1

    def part(self, theta: Floats, data: FieldRows) -> Evaluation:
        """Return the mean over rows and its gradient."""
        grad = np.zeros(theta.size)
        value = data.conditionals(self.structure.layout).add(self, theta, grad, executor_of(self.threads))
        return Evaluation(value / data.n_rows, grad / data.n_rows, 1)

    def coordinates(self, data: FieldRows) -> Coordinates | None:
        """Return coordinates in which the loss is rounder than in the tables, if there are some."""
        return data.conditionals(self.structure.layout).coordinates()


@dataclass(frozen=True, eq=False, kw_only=True)
class FieldPseudoLikelihood(OneVariable):
    """The negative log-probability of every variable given all others."""

    name: ClassVar[str] = "pseudo_likelihood"

    def terms(self, logits: Floats, counts: Floats) -> tuple[float, Floats]:
        """Return cross-entropies."""
        top = logits.max(axis=1, keepdims=True)
        p = np.exp(logits - top)
        sums = p.sum(axis=1, keepdims=True)
        weights = counts.sum(axis=1, keepdims=True)
        value = float((weights * (np.log(sums) + top)).sum() - (counts * logits).sum())
        return value, p * (weights / sums) - counts

    def binary(self, odds: Floats, bias: Floats, bits: Floats, weights: Floats) -> float:
        """Return cross-entropies."""
        values = np.zeros(bias.size)
        cross_entropies(odds, bias, bits, weights, np.empty((2, odds.shape[1])), values)
        return float(values.sum())


@dataclass(frozen=True, eq=False, kw_only=True)
class FieldProbabilityFlow(OneVariable):
    """The flow of probability from the rows to all that differ from them in one variable."""

    name: ClassVar[str] = "minimum_probability_flow"

    def terms(self, logits: Floats, counts: Floats) -> tuple[float, Floats]:
        """Return rates, those to a row itself taken off again."""
        half = 0.5 * (logits - logits.max(axis=1, keepdims=True))
        up = np.exp(half)
        with np.errstate(over="ignore", invalid="ignore"):
            down = counts * np.exp(-half)
            z, e = up.sum(axis=1, keepdims=True), down.sum(axis=1, keepdims=True)
            return float((z * e).sum() - counts.sum()), 0.5 * (e * up - z * down)

    def binary(self, odds: Floats, bias: Floats, bits: Floats, weights: Floats) -> float:
        """Return rates."""
        side = 0.5 - bits
        with np.errstate(over="ignore"):
            rate = np.exp(side * (odds + bias[:, None]))
        if weights.size:
            rate *= weights
        np.multiply(side, rate, out=odds)
        return float(rate.sum())
