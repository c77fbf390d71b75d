r"""Losses on beliefs and their gradients, piece by piece.

A piece is a run of beliefs :math:`\mu_p` that sums to one (a variable's states or a factor's cells), the entry
:math:`\hat x_p` that the labels pick in it, and a weight. All kernels add ``weight * dQ/dmu`` to ``bar`` and return the
weighted sum of the pieces' losses. Cost: one pass over the pieces' cells.
"""

from __future__ import annotations

import math

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Floats, Ints

__all__ = ["logistic_loss", "quadratic_loss", "smoothed_classification_loss"]

_LEAST = 1e-300  # beliefs below count as this much, so that a loss stays finite


@twofold_kernel
def logistic_loss(
    begin: Ints, size: Ints, target: Ints, weight: Floats, alpha: float, mu: Floats, bar: Floats
) -> float:
    r"""Return :math:`-\sum_p w_p \log \mu_p(\hat x_p)`; gradient ``-w / mu`` at the target."""
    total = 0.0
    for p in range(begin.size):
        at = begin[p] + target[p]
        belief = max(mu[at], _LEAST)
        total -= weight[p] * math.log(belief)
        bar[at] -= weight[p] / belief
    return total


@twofold_kernel
def quadratic_loss(
    begin: Ints, size: Ints, target: Ints, weight: Floats, alpha: float, mu: Floats, bar: Floats
) -> float:
    r"""Return :math:`\sum_p w_p [-2 \mu_p(\hat x_p) + \sum_k \mu_p(k)^2]`; gradient ``2 w (mu - [k = target])``."""
    total = 0.0
    for p in range(begin.size):
        at = begin[p] + target[p]
        squares = 0.0
        for k in range(begin[p], begin[p] + size[p]):
            squares += mu[k] * mu[k]
            bar[k] += 2.0 * weight[p] * mu[k]
        total += weight[p] * (squares - 2.0 * mu[at])
        bar[at] -= 2.0 * weight[p]
    return total


@twofold_kernel
def smoothed_classification_loss(
    begin: Ints, size: Ints, target: Ints, weight: Floats, alpha: float, mu: Floats, bar: Floats
) -> float:
    r"""Return :math:`\sum_p w_p S(t_p)`, :math:`t_p = \max_{k \ne \hat x_p} \mu_p(k) - \mu_p(\hat x_p)`.

    :math:`S(t) = 1 / (1 + e^{-\alpha t})`. The gradient is ``+g`` at the best other entry, the first of equals, and
    ``-g`` at the target, ``g = w alpha S (1 - S)``. A piece of one entry has no other: its t is minus one.
    """
    total = 0.0
    for p in range(begin.size):
        at, best = begin[p] + target[p], -1
        for k in range(begin[p], begin[p] + size[p]):
            if k != at and (best < 0 or mu[k] > mu[best]):
                best = k
        t = (mu[best] if best >= 0 else 0.0) - mu[at]
        # the exponential of a number that is not positive cannot overflow
        decay = math.exp(-alpha * abs(t))
        smooth = 1.0 / (1.0 + decay) if t >= 0.0 else decay / (1.0 + decay)
        slope = weight[p] * alpha * smooth * (1.0 - smooth)
        total += weight[p] * smooth
        bar[at] -= slope
        if best >= 0:
            bar[best] += slope
    return total
