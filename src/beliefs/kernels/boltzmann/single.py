r"""Layers of binary units in single precision: twice as many units to a vector as in double.

Learning draws every unit of every mini-batch, so these two loops stand beside matrix products. Arithmetic is in float32
throughout: probabilities are within a few units of :math:`2^{-24}`, and so is the law of the draws, whose
random numbers are multiples of :math:`2^{-24}`. What is reported is computed elsewhere, in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.boltzmann.layers import log_product
from beliefs.kernels.primitives.lanes import lane_sum
from beliefs.kernels.primitives.random import stream
from beliefs.typing import Floats

__all__ = ["draw_single", "single_means", "single_residuals", "single_shares"]

_LOG2_E, _ROUND = np.float32(1.4426950408889634), np.float32(12582912.0)  # 1.5 * 2^23: adding it rounds to an integer
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # n * high is exact
_MOST, _NONE, _ONE, _HALF = np.float32(87.0), np.float32(0.0), np.float32(1.0), np.float32(0.5)
_C3, _C4, _C5 = np.float32(1.0 / 6.0), np.float32(1.0 / 24.0), np.float32(1.0 / 120.0)
_C6, _C7 = np.float32(1.0 / 720.0), np.float32(1.0 / 5040.0)
_UNIT = np.float32(2.0**-24)
_40 = np.uint64(40)


@kernel
def exp_single(x: Any) -> Any:
    """Return ``exp(x)`` of a float32 in single precision; arguments beyond 87 count as 87, below -87 as -87."""
    x = min(max(x, -_MOST), _MOST)
    shifted = x * _LOG2_E + _ROUND
    n = shifted - _ROUND
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    r2 = r * r
    low = (_ONE + r) + r2 * (_HALF + r * _C3)
    high = (_C4 + r * _C5) + r2 * (_C6 + r * _C7)
    value = low + (r2 * r2) * high
    power = (np.float32(shifted).view(np.int32) << 23) + np.float32(value).view(np.int32)
    return np.int32(power).view(np.float32)


@kernel
def single_shares(x: Any, bias: Any, begin: int, end: int, share: Any) -> None:
    """Replace pre-activations of the units from ``begin`` to ``end`` by a multiple of their probabilities, in place.

    Equivalent to ``x[:, begin:end] = share * expit(x + bias)[:, begin:end]``.
    Shapes: ``x (rows, units)``, ``bias (units,)``, ``share``, float32 all.
    Cost: an exponential a cell.
    Numerics: arguments beyond 87 count as 87.
    """
    some = bias[begin:end]
    for r in range(x.shape[0]):
        cells = x[r, begin:end]
        for j in range(some.size):
            cells[j] = share * (_ONE / (_ONE + exp_single(-(cells[j] + some[j]))))


@kernel
def single_means(x: Any, bias: Any, old: Any, change: Any) -> None:
    """Replace pre-activations by probabilities, in place, and say how far those of a row moved at most.

    Equivalent to ``x[:] = expit(x + bias)`` and ``change[:] = np.maximum(change, abs(x - old).max(axis=1))``.
    Shapes: ``x``, ``bias``, ``old (rows, units)``, ``change (rows,)``, float32 all.
    Cost: an exponential a cell.
    Numerics: arguments beyond 87 count as 87. Numbers that are not negative have the order of their bits, and the
    largest of integers is found in vectors.
    """
    n_units = x.shape[1]
    moved = np.empty(n_units, np.int32)
    for r in range(x.shape[0]):
        for j in range(n_units):
            p = _ONE / (_ONE + exp_single(-(x[r, j] + bias[r, j])))
            moved[j] = np.float32(abs(p - old[r, j])).view(np.int32)
            x[r, j] = p
        largest = np.float32(change[r]).view(np.int32)
        for j in range(n_units):
            largest = max(largest, moved[j])
        change[r] = np.int32(largest).view(np.float32)


@kernel
def single_residuals(x: Any, bits: Any, out: Floats) -> None:
    """Replace log odds of independent units by probabilities less bits, and add each row's negative log-likelihood.

    Equivalent to ``out += (np.logaddexp(0, x) - bits * x).sum(axis=1)`` and ``x[:] = expit(x) - bits``, where units
    whose bit is below 0 count for nothing.
    Shapes: ``x``, ``bits (rows, units)`` float32, ``out (rows,)`` float64.
    Cost: an exponential a cell.
    Numerics: arguments beyond 87 count as 87 in exponentials; sums and products of a row are in float64.
    """
    n_units = x.shape[1]
    terms, above = np.empty(n_units, np.float32), np.empty(n_units, np.float32)
    for r in range(x.shape[0]):
        for j in range(n_units):
            a, bit = x[r, j], bits[r, j]
            known = _ONE if bit >= _NONE else _NONE
            e = exp_single(-abs(a))
            terms[j] = known * (max(a, _NONE) - bit * a)
            above[j] = _ONE + known * e
            x[r, j] = known * ((_ONE if a > _NONE else e) / (_ONE + e) - bit)
        out[r] += lane_sum(terms, n_units) + log_product(above, n_units)


@kernel
def draw_single(x: Any, bias: Any, key: np.uint64, first: int, begin: int, end: int, share: Any, out: Any) -> None:
    """Draw the units from ``begin`` to ``end`` given the product with the other layer.

    The products are replaced by a multiple of their probabilities. Equivalent to ``p = expit(x + bias)``,
    ``out[:] = u < p`` and ``x[:] = share * p``, in the columns ``begin:end``, with the random numbers
    ``u[r, j] = (stream(stream(key, first + r), j) >> 40) * 2.0**-24``.
    Shapes: ``x``, ``out (rows, units)``, ``bias (units,)``, ``share``, float32 all.
    Cost: an exponential and a random number a cell.
    Numerics: arguments beyond 87 count as 87.
    """
    some = bias[begin:end]
    for r in range(x.shape[0]):
        row = stream(key, first + r)
        cells, drawn = x[r, begin:end], out[r, begin:end]
        for j in range(some.size):
            p = _ONE / (_ONE + exp_single(-(cells[j] + some[j])))
            cells[j] = share * p
            u = np.float32(np.int32(stream(row, begin + j) >> _40)) * _UNIT
            drawn[j] = u < p
