r"""What a layer of binary units needs of the matrix product before it: probabilities, draws, and sums of softplus.

For pre-activations :math:`a_{rj} = x_{rj} + b_j` of row r and unit j, a draw is
:math:`u_{rj} < \sigma(\beta_r a_{rj} + o_j)` with the random number of (key, row, unit): no state, so rows may be
cut into any pieces. Matrices are float32 or float64, all arithmetic is in float64.

Loops over the units of a row are written so that they become SIMD without a change of order: one loop writes what is
to be added up, another adds it in four lanes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.kernels.primitives.lanes import lane_product, lane_sum
from beliefs.kernels.primitives.random import stream, uniform
from beliefs.typing import Floats

__all__ = ["anneal_units", "draw_units", "entropy_sums", "probabilities", "residuals", "scores", "softplus_sums"]

_BLOCK = 512  # factors of at most 2 that are multiplied before a logarithm is taken: 2^512 is a number


@kernel
def softplus_sums(x: Any, bias: Floats, counts: Floats, scale: float, out: Floats) -> None:
    """Add the weighted softplus of every row.

    Equivalent to ``out += np.logaddexp(0, scale * (x + bias)) @ counts``.
    Shapes: ``x (rows, units)`` float32 or float64, ``bias``, ``counts (units,)``, ``out (rows,)``.
    Cost: an exponential and a logarithm a cell; where every unit counts once, a logarithm for every 512 of them.
    Numerics: ``max(a, 0) + log(1 + exp(-|a|))``, so nothing overflows; logarithms of products as :func:`anneal_units`.
    """
    n_units = x.shape[1]
    terms, above = np.empty(n_units), np.empty(n_units)
    once = True
    for j in range(n_units):
        once = once and counts[j] == 1.0
    for r in range(x.shape[0]):
        if once:
            for j in range(n_units):
                a = scale * (x[r, j] + bias[j])
                terms[j] = max(a, 0.0)
                above[j] = 1.0 + fast_exp(-abs(a))
            out[r] += log_product(above, n_units)
        else:
            for j in range(n_units):
                a = scale * (x[r, j] + bias[j])
                terms[j] = counts[j] * (max(a, 0.0) + fast_log(1.0 + fast_exp(-abs(a))))
        out[r] += lane_sum(terms, n_units)


@kernel
def log_product(values: Floats, n: int) -> float:
    """Return the log of the product of the first ``n`` entries, each from 1 to 2."""
    total = 0.0
    for begin in range(0, n, _BLOCK):
        total += math.log(lane_product(values, begin, min(begin + _BLOCK, n)))
    return total


@kernel
def scores(visible: Any, bias: Any, x: Any, out: Floats) -> None:
    """Add the negative free energy of every row, from its own biases and the log odds that it gives hidden units.

    Equivalent to ``out += (visible * bias).sum(axis=1) + np.logaddexp(0, x).sum(axis=1)``.
    Shapes: ``visible``, ``bias (rows, units)``, ``x (rows, hidden)`` float32 or float64, ``out (rows,)``.
    Cost: a multiplication a cell of the first two, an exponential a cell of the third.
    Numerics: sums in float64; logarithms of products as :func:`anneal_units`.
    """
    n_units, n_hidden = visible.shape[1], x.shape[1]
    terms, above = np.empty(max(n_units, n_hidden)), np.empty(n_hidden)
    for r in range(visible.shape[0]):
        for i in range(n_units):
            terms[i] = float(visible[r, i]) * float(bias[r, i])
        out[r] += lane_sum(terms, n_units)
        for j in range(n_hidden):
            a = float(x[r, j])
            terms[j] = max(a, 0.0)
            above[j] = 1.0 + fast_exp(-abs(a))
        out[r] += lane_sum(terms, n_hidden) + log_product(above, n_hidden)


@kernel
def residuals(x: Any, bits: Any, out: Floats) -> None:
    """Replace log odds of independent units by probabilities less bits, and add each row's negative log-likelihood.

    Equivalent to ``out += (np.logaddexp(0, x) - bits * x).sum(axis=1)`` and ``x[:] = expit(x) - bits``, where units
    whose bit is below 0 count for nothing.
    Shapes: ``x``, ``bits (rows, units)`` float32 or float64, ``out (rows,)``.
    Cost: an exponential a cell.
    Numerics: logarithms of products as :func:`anneal_units`; nothing overflows.
    """
    n_units = x.shape[1]
    terms, above = np.empty(n_units), np.empty(n_units)
    for r in range(x.shape[0]):
        for j in range(n_units):
            a, bit = float(x[r, j]), float(bits[r, j])
            known = 1.0 if bit >= 0.0 else 0.0
            e = fast_exp(-abs(a))
            terms[j] = known * (max(a, 0.0) - bit * a)
            above[j] = 1.0 + known * e
            x[r, j] = known * ((1.0 if a > 0.0 else e) / (1.0 + e) - bit)
        out[r] += lane_sum(terms, n_units) + log_product(above, n_units)


@kernel
def entropy_sums(p: Any, out: Floats) -> None:
    """Add the entropy of independent units with these probabilities, a number a row.

    Equivalent to ``out -= (xlogy(p, p) + xlogy(1 - p, 1 - p)).sum(axis=1)``.
    Shapes: ``p (rows, units)`` float32 or float64, ``out (rows,)``.
    Cost: two logarithms a cell.
    Numerics: probabilities below 1e-300 count as zero.
    """
    n_units = p.shape[1]
    terms = np.empty(n_units)
    for r in range(p.shape[0]):
        for j in range(n_units):
            one = float(p[r, j])
            other = 1.0 - one
            terms[j] = one * fast_log(max(one, 1e-300)) + other * fast_log(max(other, 1e-300))
        out[r] -= lane_sum(terms, n_units)


@kernel
def probabilities(x: Any, bias: Floats) -> None:
    """Replace pre-activations by probabilities, in place.

    Equivalent to ``x[:] = expit(x + bias)``.
    Shapes: ``x (rows, units)`` float32 or float64, ``bias (units,)``.
    Cost: an exponential a cell.
    Numerics: arguments beyond 708 count as 708.
    """
    n_units = x.shape[1]
    for r in range(x.shape[0]):
        for j in range(n_units):
            x[r, j] = 1.0 / (1.0 + fast_exp(-(x[r, j] + bias[j])))


@kernel
def draw_units(x: Any, scale: Floats, bias: Floats, offset: Floats, key: np.uint64, first: int, out: Any) -> None:
    """Draw a layer given the product with the other one, which its probabilities replace.

    Equivalent to ``x[:] = expit(scale[:, None] * (x + bias) + offset)`` and ``out[:] = u < x`` with the random numbers
    ``u[r, j] = uniform(stream(key, first + r), j)``.
    Shapes: ``x``, ``out (rows, units)`` float32 or float64, ``scale (rows,)``, ``bias``, ``offset (units,)``.
    Cost: an exponential and a random number a cell.
    Numerics: arguments beyond 708 count as 708; the comparison is made in float64.
    """
    n_units = x.shape[1]
    for r in range(x.shape[0]):
        row, s = stream(key, first + r), scale[r]
        for j in range(n_units):
            p = 1.0 / (1.0 + fast_exp(-(s * (x[r, j] + bias[j]) + offset[j])))
            x[r, j] = p
            out[r, j] = uniform(row, j) < p


@kernel
def anneal_units(
    x: Any, bias: Floats, old: float, new: float, key: np.uint64, first: int, out: Any, log_weights: Floats
) -> None:
    """Add what a rise of the inverse temperature does to each row's log weight, and draw the layer at the new one.

    Equivalent to ``log_weights += (logaddexp(0, new * a) - logaddexp(0, old * a)).sum(axis=1)`` for ``a = x + bias``,
    and ``out[:] = u < expit(new * a)`` with ``u[r, j] = uniform(stream(key, first + r), j)``.
    Shapes: ``x``, ``out (rows, units)`` float32 or float64, ``bias (units,)``, ``log_weights (rows,)``.
    Cost: two exponentials and a random number a cell; a logarithm for every 512 of them.
    Numerics: products of ``1 + exp(-|a|)``, each from 1 to 2, and one logarithm of 512 of them.
    """
    n_units = x.shape[1]
    above, below, linear = np.empty(n_units), np.empty(n_units), np.empty(n_units)
    for r in range(x.shape[0]):
        row = stream(key, first + r)
        for j in range(n_units):
            a = x[r, j] + bias[j]
            size = abs(a)
            e = fast_exp(-new * size)
            above[j] = 1.0 + e
            below[j] = 1.0 + fast_exp(-old * size)
            linear[j] = max(a, 0.0)
            out[r, j] = uniform(row, j) * (1.0 + e) < (1.0 if a > 0.0 else e)
        total = (new - old) * lane_sum(linear, n_units)
        for begin in range(0, n_units, _BLOCK):
            end = min(begin + _BLOCK, n_units)
            total += math.log(lane_product(above, begin, end)) - math.log(lane_product(below, begin, end))
        log_weights[r] += total
