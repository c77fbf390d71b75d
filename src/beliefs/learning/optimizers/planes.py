r"""Cutting planes of a risk with a ridge, and the minimum of their maximum.

.. math:: \max_t\, (a_t \cdot w + b_t) + \lambda \lVert w \rVert^2, \qquad
   \text{dual}(\alpha) = b \cdot \alpha - \tfrac1{4\lambda} \lVert \textstyle\sum_t \alpha_t a_t \rVert^2, \qquad
   w(\alpha) = -\tfrac1{2\lambda} \textstyle\sum_t \alpha_t a_t

for :math:`\alpha` on the simplex. Every dual value is a lower bound on the minimum, however well the dual is solved,
and on that of the risk if no plane is above it. Weights that are held have entries 0 in all planes.

Memory: 8 bytes for each weight of each plane, up to twice that while their number grows. Arrays that were handed out
are never written again, so that a checkpoint may hold them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from beliefs.kernels.optimizers.simplex_qp import simplex_qp, support_of
from beliefs.typing import Floats

__all__ = ["Planes", "rounding"]

_TOL = 1e-14  # of the terms of the dual
_TURNS = 50  # for each plane, at most; a few for all of them are the rule
_UNITS = 8  # in the last place: what a risk and its plane may be wrong by
_ROOM = 32  # planes at first
_MANY = 8  # idle planes are let go when they are one in so many, since what stays is copied


class Planes:
    """Planes ``slopes (m, n) @ w + offsets (m,)``, their products ``gram (m, m)`` and the dual solution ``alpha (m,)``.

    ``idle (m,)`` counts for how many solutions a plane has had no part in them.
    """

    def __init__(self, l2: float, n_weights: int, arrays: Mapping[str, np.ndarray] | None = None) -> None:
        self.l2 = l2
        self.slopes, self.gram = np.zeros((0, n_weights)), np.zeros((0, 0))
        self.offsets, self.alpha, self.idle = np.zeros(0), np.zeros(0), np.zeros(0, np.int64)
        if arrays is not None:
            self.slopes, self.gram, self.offsets = arrays["slopes"], arrays["gram"], arrays["offsets"]
            self.alpha, self.idle = arrays["alpha"], arrays["idle"]
        self._room, self._products = self.slopes, self.gram
        self._found: tuple[Floats, float] | None = None

    def __len__(self) -> int:
        return self.offsets.size

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all that is needed to go on, for a checkpoint."""
        return {name: getattr(self, name) for name in ("slopes", "gram", "offsets", "alpha", "idle")}

    def add(self, slope: Floats, value: float, weights: Floats) -> None:
        """Add the plane that touches the risk at some weights; it has no part until the next solution is found."""
        m = len(self)
        if m == len(self._room):
            self._make_room(max(_ROOM, 2 * m))
        self._room[m] = slope
        self.slopes, self.gram = self._room[: m + 1], self._products[: m + 1, : m + 1]
        self.gram[m] = self.slopes @ slope
        self.gram[:, m] = self.gram[m]
        lowered = rounding(value, float(np.sqrt(self.gram.diagonal().max())), weights)
        self.offsets = np.append(self.offsets, value - float(slope @ weights) - lowered)
        self.alpha = np.append(self.alpha, 0.0 if m else 1.0)
        self.idle = np.append(self.idle, 0)

    def _make_room(self, most: int) -> None:
        """Move all to arrays with room for more planes, which are then written beyond what was handed out."""
        m, slopes, gram = len(self), self.slopes, self.gram
        self._room, self._products = np.zeros((most, slopes.shape[1])), np.zeros((most, most))
        self._room[:m], self._products[:m, :m] = slopes, gram

    def solve(self) -> None:
        """Find the dual solution, from the last one."""
        alpha, m = self.alpha.copy(), len(self)
        simplex_qp(self.gram / (2.0 * self.l2), self.offsets, support_of(m), _TOL, _TURNS * m, alpha)
        self.alpha, self.idle, self._found = alpha, np.where(alpha > 0, 0, self.idle + 1), None

    def drop(self, idle: int) -> None:
        """Let go of planes that have been idle for longer, many at a time; the dual value stays as it is."""
        stay = self.idle <= idle
        if _MANY * (len(self) - int(stay.sum())) < len(self):
            return
        self.slopes, self.gram = self.slopes[stay], self.gram[np.ix_(stay, stay)]
        self._room, self._products = self.slopes, self.gram
        self.offsets, self.alpha, self.idle = self.offsets[stay], self.alpha[stay], self.idle[stay]

    def minimiser(self) -> tuple[Floats, float]:
        """Return the weights of the dual solution and the dual value there."""
        if self._found is None:
            part = np.flatnonzero(self.alpha)
            total = self.alpha[part] @ self.slopes[part]
            dual = float(self.offsets @ self.alpha - total @ total / (4.0 * self.l2))
            self._found = -total / (2.0 * self.l2), dual
        return self._found


def rounding(values: Any, longest: float, weights: Floats) -> Any:
    """Return how far to lower planes that touch the risk at some weights, so that rounding leaves none above it.

    Far out, scores are large beside the minimum, and a risk and its offset have lost digits that the lower bound would
    need: ``longest``, the norm of the longest slope of all planes, times that of the weights is their size. (The slope
    of the plane itself is nothing where labels win.)
    """
    return _UNITS * sys.float_info.epsilon * (np.abs(values) + longest * float(np.sqrt(weights @ weights)))
