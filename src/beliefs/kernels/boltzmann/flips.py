r"""Every visible unit given all others, with the hidden layer summed out: log-odds, and the way back to the weights.

For a row v with pre-activations :math:`x_j = \sum_k v_k w_{kj} + a_j`, unit i at 0 leaves
:math:`x^0_{ij} = x_j - v_i w_{ij}`, at 1 :math:`x^1_{ij} = x^0_{ij} + w_{ij}`, and

.. math:: \ell_i = \log \frac{p(v_i = 1 \mid v_{-i})}{p(v_i = 0 \mid v_{-i})}
          = b_i + \sum_j c_j \big( \log(1 + e^{x^1_{ij}}) - \log(1 + e^{x^0_{ij}}) \big).

Pseudo-likelihood, ratio matching and minimum probability flow are functions of these numbers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.kernels.primitives.lanes import lane_product, lane_sum
from beliefs.typing import Floats

__all__ = ["Units", "flip_log_odds", "flip_pullback", "unit_scores"]

_BLOCK = 512  # factors from 1/2 to 2 that are multiplied before a logarithm is taken


class Units(NamedTuple):
    """Which unit of which row is looked at: unit ``first + stride * r`` of row ``every * r``, r = 0, 1, ..."""

    first: int
    stride: int
    every: int


@kernel
def flip_log_odds(x: Floats, visible: Floats, weights: Any, bias: Floats, counts: Floats, out: Floats) -> None:
    """Write the log-odds of every visible unit given the others.

    Equivalent to ``x0 = x[r] - visible[r, i] * weights[i]``, ``out[r, i] = bias[i] + (logaddexp(0, x0 + weights[i]) -
    logaddexp(0, x0)) @ counts``; no ``counts`` at all are ones.
    Shapes: ``x (rows, hidden)`` with the hidden bias, ``visible``, ``out (rows, units)``, ``weights (units, hidden)``
    float32 or float64, ``bias (units,)``, ``counts (hidden,)`` or ``(0,)``.
    Cost: two exponentials a row, unit and hidden unit; a logarithm for every 512 of them, or for each with counts.
    Numerics: differences of positive parts, and products of ratios from 1/2 to 2.
    """
    n_rows, n_units = visible.shape
    m = x.shape[1]
    linear, ratio = np.empty(m), np.empty(m)
    for i in range(n_units):
        for r in range(n_rows):
            v = visible[r, i]
            for j in range(m):
                low = x[r, j] - v * weights[i, j]
                high = low + weights[i, j]
                linear[j] = max(high, 0.0) - max(low, 0.0)
                ratio[j] = (1.0 + fast_exp(-abs(high))) / (1.0 + fast_exp(-abs(low)))
            if counts.size:
                for j in range(m):
                    linear[j] = counts[j] * (linear[j] + fast_log(ratio[j]))
                out[r, i] = bias[i] + lane_sum(linear, m)
                continue
            total = bias[i] + lane_sum(linear, m)
            for begin in range(0, m, _BLOCK):
                total += math.log(lane_product(ratio, begin, min(begin + _BLOCK, m)))
            out[r, i] = total


@kernel
def unit_scores(x: Any, visible: Any, weights: Any, units: Units, hidden_bias: Floats, bias: Floats) -> float:
    """Return the mean over rows of the negative log-probability of one visible unit given the others.

    Equivalent to ``i = (units.first + units.stride * r) % n``, ``v = visible[units.every * r]``, ``x0 = x[r] +
    hidden_bias - v[i] * weights[i]``, ``a = bias[i] + (logaddexp(0, x0 + weights[i]) - logaddexp(0, x0)).sum()`` and
    the mean of ``logaddexp(0, a) - v[i] * a`` over the rows r of x.
    Shapes: ``x (rows, hidden)`` without bias, ``visible (at least every * (rows - 1) + 1, n)``, ``weights (n, hidden)``
    float32 or float64 all, ``hidden_bias (hidden,)``, ``bias (n,)``.
    Cost: two exponentials a row and hidden unit.
    Numerics: as of :func:`flip_log_odds`.
    """
    n, m, total = visible.shape[1], x.shape[1], 0.0
    linear, ratio = np.empty(m), np.empty(m)
    for r in range(x.shape[0]):
        i = (units.first + units.stride * r) % n
        row, v = weights[i], float(visible[units.every * r, i])
        for j in range(m):
            low = x[r, j] + hidden_bias[j] - v * row[j]
            high = low + row[j]
            linear[j] = max(high, 0.0) - max(low, 0.0)
            ratio[j] = (1.0 + fast_exp(-abs(high))) / (1.0 + fast_exp(-abs(low)))
        a = bias[i] + lane_sum(linear, m)
        for begin in range(0, m, _BLOCK):
            a += math.log(lane_product(ratio, begin, min(begin + _BLOCK, m)))
        total += max(a, 0.0) + math.log(1.0 + math.exp(-abs(a))) - v * a
    return float(total / x.shape[0])


@kernel
def flip_pullback(x: Floats, visible: Floats, weights: Any, bars: Floats, hidden: Floats, out: Floats) -> None:
    """Add the gradient in the weights, as far as it goes through a unit's own weights, and collect the rest by row.

    Equivalent to, with ``x0`` as above, ``p0, p1 = expit(x0), expit(x0 + weights[i])`` and ``e = bars[r, i]``:
    ``hidden[r] += e * (p1 - p0)`` and ``out[i] += e * (p1 - visible[r, i] * (p1 - p0))``. The whole gradient in the
    weights is ``out + visible.T @ hidden``, that in the hidden bias the sum of ``hidden``.
    Shapes: as of :func:`flip_log_odds`; ``bars (rows, units)``, ``hidden (rows, m)``, ``out (units, m)``.
    Cost: two exponentials a row, unit and hidden unit.
    Numerics: probabilities alone; arguments beyond 708 count as 708.
    """
    n_rows, n_units = visible.shape
    m = x.shape[1]
    for i in range(n_units):
        for r in range(n_rows):
            v, e = visible[r, i], bars[r, i]
            for j in range(m):
                low = x[r, j] - v * weights[i, j]
                p0 = 1.0 / (1.0 + fast_exp(-low))
                p1 = 1.0 / (1.0 + fast_exp(-(low + weights[i, j])))
                hidden[r, j] += e * (p1 - p0)
                out[i, j] += e * (p1 - v * (p1 - p0))
