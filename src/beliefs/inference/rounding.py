r"""How far a certified number may be from what its formula says, and the widening by it.

A bound is proved for real numbers and computed with floats. With the unit roundoff :math:`u = 2^{-53}` every operation
is exact up to a factor :math:`1 + \delta, |\delta| \le u`, so that a sum of :math:`n` terms, added in any order, and
with :math:`k` further operations on each, satisfies [higham2002]

.. math::
    |\hat s - s| \;\le\; \gamma_{n+k} \sum_i |t_i|, \qquad \gamma_m = \frac{m u}{1 - m u},

where :math:`t_i` are the terms: what cancels in the sum does not cancel in the error. Power sums
:math:`w \log \sum \exp(t / w)` and maxima pass an error of their terms on with a factor of at most 1, for their
derivatives are probabilities, and add :math:`u (3 K + 10) |w|` of their own for :math:`K` terms. The errors of all
parts of a bound therefore add up.

Methods compute such an error beside their bound and move the bound by it, here, once: a lower bound down, an upper
bound up. What is claimed to be EXACT is so up to rounding and stays as it is. Two ends of an interval that are apart by
no more than they were moved are one number as far as arithmetic can tell, and *meet*: a gap of 0.0 is a proof up to
rounding.
"""

from __future__ import annotations

import math

from beliefs.driver import Value
from beliefs.inference.base import Bound
from beliefs.kernels.rounding import potential_magnitude
from beliefs.model.graph import FactorGraph

__all__ = ["UNIT", "certified", "from_units", "magnitude", "meet", "pairwise", "rounding_error", "widened"]

UNIT = 2.0**-53
_SPARE = 8  # roundings of the error's own computation and of the widening itself
_OF_END = 2.0  # ends that were moved apart by the same error each


def rounding_error(terms: float, n_terms: float) -> float:
    r"""Return :math:`\gamma_n \cdot` ``terms``: how wrong a sum of ``n_terms`` may be.

    Parameters
    ----------
    terms : float
        Sum of the absolute values of the terms, or more.
    n_terms : float
        How many they are, and how many operations made each of them.

    Examples
    --------
    >>> rounding_error(0.5 + 0.5, 2) < 1e-14
    True
    """
    share = (n_terms + _SPARE) * UNIT
    return terms * share / (1.0 - share) if share < 1.0 else math.inf


def from_units(units: float) -> float:
    """Return an error that was counted in units of 2^-53, with what its own additions may have lost."""
    return rounding_error(units, 1.0 - _SPARE) * (1.0 + 1e-6)


def pairwise(n: int) -> float:
    """Return how many additions a term of a NumPy sum of ``n`` goes through: it adds in pairs, 128 at a time in eights.

    Examples
    --------
    >>> pairwise(1), pairwise(2**20)
    (20.0, 40.0)
    """
    return 20.0 + math.log2(max(n, 1))


def magnitude(graph: FactorGraph) -> float:
    """Return the sum of the factors' largest absolute log potentials: no score or expectation of one is larger."""
    layout = graph.layout
    return float(potential_magnitude(layout.cell_ptr, layout.factor_size, graph.theta))


def widened(value: float, error: float, side: Bound) -> float:
    """Return a computed bound moved by its rounding error: LOWER down, UPPER up, anything else not at all.

    Examples
    --------
    >>> widened(1.0, 0.25, Bound.LOWER) < 0.75 + 1e-15, widened(1.0, 0.25, Bound.UPPER) > 1.25 - 1e-15
    (True, True)
    """
    if side not in (Bound.LOWER, Bound.UPPER) or error == 0.0 or not math.isfinite(value):
        return value
    sign = 1.0 if side is Bound.UPPER else -1.0
    return math.nextafter(value + sign * error, sign * math.inf)  # the addition rounds too


def certified(value: Value, error: float) -> Value:
    """Return what a method knows with both ends moved by a rounding error, and with it a point value that is an end.

    An interval of one number is a claim to be EXACT, and left alone.

    Examples
    --------
    >>> moved = certified(Value(1.0, -math.inf, 1.0), 0.25)
    >>> moved.lower, round(moved.upper, 9), moved.log_z == moved.upper, moved.rounding
    (-inf, 1.25, True, 0.25)
    """
    if value.lower == value.upper:
        return value
    lower, upper = widened(value.lower, error, Bound.LOWER), widened(value.upper, error, Bound.UPPER)
    point = upper if value.log_z == value.upper else lower if value.log_z == value.lower else value.log_z
    return Value(point, lower, upper, error)


def meet(lower: float, upper: float, error: float) -> bool:
    """Tell whether the ends of an interval, each moved by no more than ``error``, are one number up to rounding.

    Examples
    --------
    >>> meet(1.0, 1.5, 0.25), meet(1.0, 1.75, 0.25)
    (True, False)
    """
    return upper - lower <= _OF_END * error
