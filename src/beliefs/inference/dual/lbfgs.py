r"""Limited-memory BFGS one step at a time, with a weak Wolfe line search that also survives kinks.

The inverse Hessian is that of the last pairs :math:`s_k = x_{k+1} - x_k`, :math:`y_k = g_{k+1} - g_k` by the two-loop
recursion, scaled by :math:`s^\top y / y^\top y` [nocedal2006]. A step :math:`t` is bracketed and halved until it
decreases the value in proportion to the slope and the slope has become flatter; on convex functions that are not
smooth this still makes progress [lewis2013]. Every step decreases the value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from beliefs.typing import Floats

__all__ = ["QuasiNewton"]

_MEMORY = 12
_DECREASE, _FLATTER = 1e-4, 0.9
_EVALUATIONS = 25


class QuasiNewton:
    """A minimisation under way.

    Parameters
    ----------
    function : callable
        Returns the value and the gradient at a point.
    x : ndarray
        Where to start.

    Examples
    --------
    >>> search = QuasiNewton(lambda x: (float(x @ x), 2.0 * x), np.array([3.0, -4.0]))
    >>> while search.step():
    ...     pass
    >>> round(search.value, 9)
    0.0
    """

    def __init__(self, function: Callable[[Floats], tuple[float, Floats]], x: Floats) -> None:
        self.function, self.x = function, x.copy()
        self.value, self.gradient = function(self.x)
        self._pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=_MEMORY)

    def step(self) -> bool:
        """Take a step; return whether one was found. The function was last called at the new point."""
        if self._search(self._direction()):
            return True
        if self._pairs:  # the curvature of elsewhere may mislead: once more along the gradient
            self._pairs.clear()
            if self._search(self._direction()):
                return True
        self.function(self.x)
        return False

    def _direction(self) -> Floats:
        q = self.gradient.copy()
        steps = []
        for s, y, product in reversed(self._pairs):
            a = float(s @ q) / product
            q -= a * y
            steps.append(a)
        if self._pairs:
            _, y, product = self._pairs[-1]
            q *= product / float(y @ y)
        else:
            q /= max(1.0, float(np.abs(q).sum()))
        for (s, y, product), a in zip(self._pairs, reversed(steps), strict=True):
            q += (a - float(y @ q) / product) * s
        return -q

    def _search(self, direction: Floats) -> bool:
        slope = float(direction @ self.gradient)
        if not slope < 0.0:
            return False
        low, high, t = 0.0, np.inf, 1.0
        best: tuple[float, float, Floats] | None = None
        for _ in range(_EVALUATIONS):
            value, gradient = self.function(self.x + t * direction)
            if not value <= self.value + _DECREASE * t * slope:
                high = t
            else:
                best = (t, value, gradient)
                if float(direction @ gradient) >= _FLATTER * slope:
                    break
                low = t
            t = 2.0 * low if high == np.inf else 0.5 * (low + high)
        if best is None or not best[1] < self.value:
            return False
        if best[0] != t:
            self.function(self.x + best[0] * direction)
        self._move(best[0] * direction, best[1], best[2])
        return True

    def _move(self, step: Floats, value: float, gradient: Floats) -> None:
        change = gradient - self.gradient
        product = float(step @ change)
        if product > 1e-10 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self._pairs.append((step, change, product))
        self.x, self.value, self.gradient = self.x + step, value, gradient
