r"""How far an answer is from the reference, and the competitions' score of that. Needs numpy alone.

An error becomes a score as in the competition of 2022,

.. math:: 100 \max(0, 1 - \text{error} / \text{error of a trivial solver})

averaged over problems. Its pages do not say what the trivial solver is; here it takes the factors for independent:

``PR``    error of ln Z. Trivial: :math:`\sum_v \ln k_v + \sum_f \ln \overline{f}`, the mean of each table
``MAR``   Hellinger distance of marginals, averaged over the variables that are not observed. Trivial: uniform ones
``MMAP``  ln of the value minus that of the best known one. Trivial: such an estimate of the *mean* over assignments

where :math:`k_v` counts the states of the variables that are not observed. A trivial answer may be right by chance (a
Bayesian network without evidence has Z = 1), so that its error counts as no less than ``FLOOR``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

FLOOR = {"PR": 1.0, "MAR": 0.01, "MMAP": 1.0}

# scores of the competition of 2022 after 20 seconds, 20 minutes and one hour, over its own problems
PUBLISHED = {
    "PR": {
        "uai14": (61.7, 96.8, 96.7),
        "IBIA": (53.6, 96.6, 97.1),
        "abstraction sampling": (78.9, 91.7, 93.9),
        "loopy belief propagation": (90.3, 89.9, 90.2),
    },
    "MAR": {"uai14": (58.4, 80.5, 81.9), "IBIA": (46.5, 78.2, 78.6), "loopy belief propagation": (58.6, 58.4, 58.4)},
    "MMAP": {"toulbar2-ipr": (67.7, 72.7, 73.3), "loopy belief propagation": (28.3, 29.4, 29.6)},
}


def log_error(value: float, reference: float) -> float:
    """Return the value minus the reference, both natural logs.

    Two zeros (``-inf``) agree; a zero against a number is an infinite error.
    """
    return 0.0 if value == reference else value - reference


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


def independent_log_z(
    card: Sequence[int], observed: Sequence[bool], log_tables: Sequence[ArrayLike], query: Sequence[int] = ()
) -> float:
    """Return ln Z as if all factors were independent; with a query, of the mean over its assignments.

    The mean of a table of zeros is 0, and so is Z.
    """
    asked = set(query)
    free = [math.log(k) for v, (k, seen) in enumerate(zip(card, observed, strict=True)) if not seen and v not in asked]
    return math.fsum(free) + math.fsum(_log_mean(table) for table in log_tables)


def _log_mean(log_table: ArrayLike) -> float:
    cells = np.asarray(log_table, float).ravel()
    top = float(cells.max())
    return top + math.log(float(np.exp(cells - top).mean())) if top > -math.inf else -math.inf


def score(task: str, error: float | None, trivial: float | None) -> float:
    """Return 0 to 100; ``error`` is signed, None where there is no answer, ``trivial`` that of the trivial solver.

    A value of marginal MAP above the best known one is no error. None for ``trivial`` stands for infinity.
    """
    if error is None or not math.isfinite(error):
        return 0.0
    distance = max(0.0, -error) if task == "MMAP" else abs(error)
    if distance == 0.0 or trivial is None:
        return 100.0
    return 100.0 * max(0.0, 1.0 - distance / max(abs(trivial), FLOOR[task]))


def outside(lower: float, upper: float, reference: float, slack: float) -> bool:
    """Whether a certified interval excludes the reference by more than ``slack`` and what rounding explains."""
    if math.isinf(reference):
        return lower > reference
    room = slack + 1e-9 * max(1.0, abs(reference))
    return lower > reference + room or upper < reference - room
