r"""Limited-memory BFGS, SciPy's [byrd1995], with a fresh start where it fails.

=====================  ====================================================================================
smooth losses          steps along the two-loop direction, scaled by a line search that demands a decrease
l1 penalty             :math:`w = p - n`, :math:`p, n \ge 0`, with :math:`\sum_j \ell_j (p_j + n_j)` added: smooth
                       with bounds, and a weight whose two parts rest on their bounds is exactly zero
a loss that knows      :math:`w = w_0 + A z` with its own A, whose range holds all slopes: the search is in z, and the
coordinates            slope that ends it is still that in w
a loss of inf or nan   that step is refused: the line search sees a parabola through the last good point whose
                       minimum is a tenth of the way, so that it comes back and can go on
a very long step       is refused likewise, before it is looked at: far out inference is slow and tells little
a failed line search   the memory is dropped and the search begins anew at the best point; a second failure
                       without a lower loss in between ends it ([domke2013] section 8)
=====================  ====================================================================================

Guarantee: every iterate has a lower objective than the one before. Cost: one to two evaluations of the loss an
iteration, and ``O(memory * n_weights)``. Failure: losses whose value and gradient do not belong together, as with
inference that has not converged, end in failed line searches; estimates by sampling are refused.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Status
from beliefs.errors import ModelError
from beliefs.learning.fit_loss import Evaluation
from beliefs.learning.optimizers.base import Optimizer, Outcome, Point, Stop, Watched
from beliefs.learning.optimizers.objective import Objective
from beliefs.options import MANY, check_integer, check_number
from beliefs.typing import Floats

__all__ = ["LBFGS"]

_MOST_PAIRS = 1000  # more are never worth their memory
_ROUNDING = 10 * sys.float_info.epsilon  # relative decreases below this are no progress


class _Rise(Exception):
    """A line search ended at a higher value, which SciPy's takes for an end where it cannot go on."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LBFGS(Optimizer):
    """Quasi-Newton steps from a few past gradients: the choice for losses that are not estimates.

    Parameters
    ----------
    memory : int
        Pairs of steps and gradient changes that are kept.
    max_line_search : int
        Evaluations in one line search at most.
    max_step : float
        The largest change of a weight in one step, relative to one plus the largest weight.

    Examples
    --------
    >>> LBFGS(memory=20)
    lbfgs(memory=20)
    """

    memory: int = 10
    max_line_search: int = 20
    max_step: float = 10.0

    name: ClassVar[str] = "lbfgs"
    default_tol: ClassVar[float] = 1e-5
    default_max_iters: ClassVar[int] = 1000

    def __post_init__(self) -> None:
        check_integer("memory", self.memory, 1, _MOST_PAIRS)
        check_integer("max_line_search", self.max_line_search, 1, MANY)
        check_number("max_step", self.max_step, positive=True)

    def check(self, objective: Objective) -> None:
        """Refuse losses with kinks, at which line searches fail."""
        if not objective.loss.is_smooth(objective.data):
            raise ModelError(
                f"lbfgs needs a smooth loss, and {objective.loss.name} has kinks with these options: use one_slack, "
                "bcfw or sgd"
            )

    def minimize(self, objective: Objective, watch: Watched, resumed: Point | None = None, seed: int = 0) -> Outcome:
        """Search until the slope is within ``tol``; dropped memory is all that a resumed run loses."""
        search = _Search(objective, watch, self, resumed)
        try:
            return search.run()
        except Stop as stop:
            if stop.status is Status.TIME_LIMIT and search.point.grad_norm <= watch.limits.tol:
                return Outcome(Status.CONVERGED, search.point)
            return Outcome(stop.status, search.point, stop.reason)


class _Search:
    """One minimisation under way, in the coordinates that SciPy sees."""

    def __init__(self, objective: Objective, watch: Watched, options: LBFGS, resumed: Point | None) -> None:
        self.objective, self.watch, self.options = objective, watch, options
        self.moving = np.flatnonzero(objective.free)
        self.split = bool(objective.l1[self.moving].any())
        weights = objective.start if resumed is None else resumed.weights
        found = objective.evaluate(weights)
        if not _finite(found):
            raise ModelError(
                "the loss or its gradient is not finite at the starting weights; start from smaller ones (or zeros)"
            )
        self.point = Point.of(objective, weights, found, 0 if resumed is None else resumed.iteration)
        self.fresh = resumed is None
        self.recent: list[tuple[Floats, Evaluation]] = []
        self.coordinates = objective.coordinates()
        self._begin_at(found)

    # -- coordinates ----------------------------------------------------------------------------------------------
    def _inside(self, weights: Floats) -> Floats:
        """Return SciPy's coordinates of some weights: those that move, or their positive and negative parts.

        Own coordinates of a loss begin anew at 0 there.
        """
        if self.coordinates is not None:
            self.origin = weights
            return np.zeros(self.coordinates.size)
        w = weights[self.moving]
        return np.concatenate([np.maximum(w, 0.0), np.maximum(-w, 0.0)]) if self.split else w.copy()

    def _weights_at(self, x: Floats) -> Floats:
        if self.coordinates is not None:
            return self.origin + self.coordinates.weights(x)
        n = self.moving.size
        moved = x[:n] - x[n:] if self.split else x.copy()
        if self.objective.all_free:
            return moved
        weights = self.objective.start.copy()
        weights[self.moving] = moved
        return weights

    def _value_and_grad(self, x: Floats, found: Evaluation) -> tuple[float, Floats]:
        """Return the objective and its gradient in SciPy's coordinates."""
        if self.coordinates is not None:
            return found.value, self.coordinates.slopes(found.grad)
        g = found.grad if self.objective.all_free else found.grad[self.moving]
        if not self.split:
            return found.value, g
        l1 = self.objective.l1[self.moving]
        n = self.moving.size
        return found.value + float(l1 @ (x[:n] + x[n:])), np.concatenate([l1 + g, l1 - g])

    def _bounds(self) -> Any:
        """Return SciPy's bounds, or None."""
        low, high = self.objective.low[self.moving], self.objective.high[self.moving]
        if self.split:
            low, high = (
                np.concatenate([np.maximum(low, 0.0), np.maximum(-high, 0.0)]),
                np.concatenate([np.maximum(high, 0.0), np.maximum(-low, 0.0)]),
            )
        elif not self.objective.bounded:
            return None
        from scipy.optimize import Bounds

        return Bounds(low, high)

    # -- the search -----------------------------------------------------------------------------------------------
    def run(self) -> Outcome:
        """Search, and begin anew where it fails."""
        limits, failures = self.watch.limits, 0
        if self.fresh:
            self.watch.iterate(self.point)
        while True:
            if self.point.grad_norm <= limits.tol:
                return Outcome(Status.CONVERGED, self.point)
            if self.point.iteration >= limits.max_iters:
                return Outcome(Status.MAX_ITERS, self.point)
            before = self.value
            with suppress(_Rise):
                self._scipy(limits.max_iters - self.point.iteration, limits.tol)
            progress = before - self.value > _rounding(before, self.value)
            failures = 1 if progress else failures + 1
            stuck = self.point.grad_norm > limits.tol and self.point.iteration < limits.max_iters
            if stuck and failures >= 2:
                return Outcome(Status.OSCILLATING, self.point, self._stalled())
            self._begin_at(self.found)

    def _stalled(self) -> str:
        """Say why no step lowers the loss."""
        why = (
            f"inference has not converged on {self.point.n_not_converged} instances, so value and gradient do not "
            "belong together: add damping, for example trw(damping=0.5), or iterations"
            if self.point.n_not_converged
            else "the loss is as low as rounding allows, or its value and gradient do not belong together (a smaller "
            "tolerance of inference may help)"
        )
        return f"two line searches in a row found no lower loss; {why}"

    def _scipy(self, max_iters: int, tol: float) -> None:
        from scipy.optimize import minimize

        options = {
            "maxcor": self.options.memory,
            "maxls": self.options.max_line_search,
            "gtol": tol if self.coordinates is None else 0.0,
            "ftol": 0.0,
            "maxiter": max_iters,
            "maxfun": sys.maxsize,
        }
        minimize(
            self._function,
            self.x,
            jac=True,
            method="L-BFGS-B",
            bounds=self._bounds(),
            callback=self._iterated,
            options=options,
        )

    def _function(self, x: Floats) -> tuple[float, Floats]:
        """Evaluate; a point too far off, or whose loss is not finite, is answered with a parabola that leads back."""
        known = next((found for y, found in self.recent if np.array_equal(x, y)), None)
        if known is None:
            if np.abs(x - self.x).max() > self.options.max_step * (1.0 + np.abs(self.x).max()):
                return self._refuse(x)
            self.watch.check_time()
            known = self.objective.evaluate(self._weights_at(x))
            self.recent = [*self.recent[-2:], (x.copy(), known)]
        return self._value_and_grad(x, known) if _finite(known) else self._refuse(x)

    def _refuse(self, x: Floats) -> tuple[float, Floats]:
        r"""Return a high value at ``x`` and the gradient with which it lies on a parabola through the last good point.

        With the slope :math:`-c` along the step :math:`s`, the value :math:`f + 4c` and the gradient
        :math:`9 c\,s / \|s\|^2` belong to a parabola with its minimum at :math:`s/10`.
        """
        step = x - self.x
        fall = max(-float(self.grad @ step), 1e-12 * max(1.0, abs(self.value)))
        return self.value + 4.0 * fall, 9.0 * fall * step / max(float(step @ step), 1e-300)

    def _iterated(self, intermediate_result: Any) -> None:
        x = intermediate_result.x.copy()
        found = next((f for y, f in reversed(self.recent) if np.array_equal(x, y)), None)
        weights = self._weights_at(x)
        found = self.objective.evaluate(weights) if found is None else found
        value = self._value_and_grad(x, found)[0]
        if not value <= self.value + _rounding(value, self.value):
            raise _Rise
        self._accept(x, found)
        self.point = Point.of(self.objective, weights, found, self.point.iteration + 1)
        self.watch.iterate(self.point)
        if self.coordinates is not None and self.point.grad_norm <= self.watch.limits.tol:
            raise StopIteration  # SciPy's own test is of the slope in its coordinates

    def _begin_at(self, found: Evaluation) -> None:
        self._accept(self._inside(self.point.weights), found)
        self.recent = [(self.x, found)]

    def _accept(self, x: Floats, found: Evaluation) -> None:
        self.x, self.found = x, found
        self.value, self.grad = self._value_and_grad(x, found)


def _rounding(a: float, b: float) -> float:
    return _ROUNDING * max(abs(a), abs(b), 1e-300)


def _finite(found: Evaluation) -> bool:
    return bool(np.isfinite(found.value) and np.isfinite(found.grad).all())
