"""Questions to a set of curves that several claims of the paper turn on. Bounds are compared in nats."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import median

from curves import Curve

__all__ = ["best_step", "decoding", "diverged", "free_weights", "is_monotone", "non_iterative", "steps_of", "wins"]

Curves = dict[str, Curve]
Labels = Iterable[str]
_EVEN = 0.05  # nats: bounds nearer than this are called even
_ONE_SHOT = ("MBE", "reordering")


def steps_of(curves: Labels) -> list[str]:
    """Return the labels of weighted mini-bucket with one damping ratio for shifts and weights."""
    return [label for label in curves if label.startswith("WMB-") and "," not in label]


def free_weights(curves: Labels) -> str:
    """Return the label of weighted mini-bucket whose weights are not damped."""
    return next(label for label in curves if "free weights" in label)


def is_monotone(curve: Curve) -> bool:
    """Whether no iterate is above the one before, up to rounding."""
    return all(b <= a + 1e-9 * max(1.0, abs(a)) for a, b in zip(curve.bound, curve.bound[1:]))


def diverged(curve: Curve) -> bool:
    """Whether the last bound is above the first."""
    return curve.bound[-1] > curve.bound[0]


def best_step(curves: Curves, iterations: int) -> str:
    """Return the damping ratio whose best bound after so many iterations is least."""
    return min(steps_of(curves), key=lambda label: curves[label].best_after(iterations))


def non_iterative(curves: Curves) -> float:
    """Return the better of the two bounds of one pass."""
    return min(curves[label].bound[0] for label in _ONE_SHOT)


def wins(one: float, other: float) -> bool:
    """Whether a bound is as good as another, or better."""
    return one <= other + _EVEN


def decoding(curve: Curve) -> float:
    """Return the median value of the decodings of the later half of the run, ``-inf`` if most are impossible."""
    later = curve.decoding[len(curve.decoding) // 2 :]
    return median(later) if later else -math.inf
