"""How far an answer is from the reference, as the inference competitions score it. Needs numpy alone.

``PR``   error of log10 Z, signed here so that a bound shows its side
``MAR``  Hellinger distance of marginals, averaged over the variables that are not observed
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

_LN10 = math.log(10.0)


def log10_error(log_z: float, reference: float) -> float:
    """Return ``log10 Z`` of the answer minus that of the reference; both are natural logs.

    Two zeros (``-inf``) agree; a zero against a number is an infinite error.
    """
    if log_z == reference:
        return 0.0
    return (log_z - reference) / _LN10


def hellinger(p: ArrayLike, q: ArrayLike) -> float:
    r"""Return :math:`\frac{1}{\sqrt 2} \| \sqrt p - \sqrt q \|_2`: 0 for the same distribution, 1 for disjoint ones."""
    p, q = np.asarray(p, float), np.asarray(q, float)
    if p.shape != q.shape:
        raise ValueError(f"distributions over {p.size} and {q.size} states")
    return float(np.sqrt(0.5 * np.square(np.sqrt(p) - np.sqrt(q)).sum()))


def mean_hellinger(
    marginals: Sequence[ArrayLike], reference: Sequence[ArrayLike], observed: Sequence[bool] | None = None
) -> float:
    """Return the mean distance over unobserved variables; 0 if all are observed."""
    if len(marginals) != len(reference):
        raise ValueError(f"{len(marginals)} marginals, {len(reference)} in the reference")
    seen = [False] * len(reference) if observed is None else observed
    apart = [hellinger(p, q) for p, q, known in zip(marginals, reference, seen, strict=True) if not known]
    return math.fsum(apart) / len(apart) if apart else 0.0


def up_to_digits(error: float, half_digit: float) -> float:
    """Return 0 for an error that the digits printed in the reference cannot tell from none, else the error."""
    return 0.0 if abs(error) <= half_digit else error
