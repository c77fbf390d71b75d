r"""How far to go along a line of measures: a concave problem in one number.

Along a line the log weights change by :math:`s\, d(v)` and the penalty by :math:`s\, P`, so the objective changes by

.. math:: \phi(s) = s\, (E_{data}[d] - P) - \log E_{p}[e^{s\, d}], \qquad \phi'(s) = E_{data}[d] - P - E_{p_s}[d]

with :math:`p_s \propto p\, e^{s d}`: concave, and known for every s from averages under p alone. Where p is a set of
samples these are importance weights; ``least_share`` then ends the line where fewer than that share of them count.
"""

from __future__ import annotations

import numpy as np

from beliefs.learning.boltzmann.infinite.averages import RowAverages
from beliefs.typing import Floats

__all__ = ["along", "best_step"]

_HALVINGS = 60


def along(model: RowAverages, d: Floats, slope: float, s: float) -> float:
    """Return phi(s); ``slope`` is E_data[d] - P."""
    return s * slope - model.log_average_exp(s * d)


def best_step(
    model: RowAverages, d: Floats, slope: float, interval: tuple[float, float], least_share: float = 0.0
) -> float:
    """Return the s of an interval that contains 0 at which phi is largest."""
    low, high = (_trusted(model, d, end, least_share) for end in interval)
    if _derivative(model, d, slope, high) >= 0.0:
        return high
    if _derivative(model, d, slope, low) <= 0.0:
        return low
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _derivative(model, d, slope, middle) > 0.0 else (low, middle)
    return low


def _derivative(model: RowAverages, d: Floats, slope: float, s: float) -> float:
    tilted = np.exp(s * d - (s * d).max())
    return slope - model.average(tilted * d) / model.average(tilted)


def _trusted(model: RowAverages, d: Floats, end: float, least_share: float) -> float:
    """Return the end of the line, nearer to 0 where the weights of samples would be too uneven."""
    while least_share > 0.0 and end != 0.0:
        tilted = np.exp(end * d - (end * d).max())
        if tilted.sum() ** 2 >= least_share * tilted.size * (tilted**2).sum():
            break
        end = 0.5 * end if abs(end) > 1e-9 else 0.0
    return end
