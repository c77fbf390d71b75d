r"""The bundle method for regularised risks, one plane an evaluation: cutting planes with one slack.

.. math:: R(w) = r(w) + \lambda \lVert w \rVert^2 \;\ge\; \max_t\, (a_t \cdot w + b_t) + \lambda \lVert w \rVert^2,
   \qquad a_t \in \partial r(w_t), \quad b_t = r(w_t) - a_t \cdot w_t

The minimum of the right side is a lower bound that rises with every plane ([teo2010], [joachims2009]); the best value
seen is an upper bound. Their difference is the gap. It serves every convex risk with a ridge, smooth or not.

Planes at the minimisers of the right side alone make weights leap from one end to the other. The point that is
evaluated next lies between a centre and the minimiser :math:`\hat w`, as in the in-out method [benameur2007]:

.. math:: c \leftarrow \eta\, c + (1 - \eta)\, w_\text{best}, \qquad w = c + s\,(\hat w - c)

If its plane does not cut off :math:`\hat w`, then R(w) is below R(c) by at least s times the gap of c, so one of the
bounds moves. On problems with many classes this halves the evaluations.

Guarantee: ``gap``, of the best weights so far, is at least their excess over the minimum of the objective with exact
inference, at every iterate: from a certified upper bound of theirs and planes that are all certified (``minorant``);
else it is inf, and the fit stops by what it would be if they were. Cost: one evaluation an iteration, and a quadratic
program in as many variables as planes. Memory: 8 bytes for each weight of each plane, some hundred of them; planes
without a part in the last ``keep`` solutions are let go. A point whose loss is not finite is left for one nearer to the
centre. Failure: a small ridge takes many planes.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from beliefs.driver import Status, Value, run
from beliefs.errors import ModelError
from beliefs.learning.batches import Evaluation
from beliefs.learning.optimizers.base import Optimizer, Outcome, Point, Stop, Watched
from beliefs.learning.optimizers.objective import Objective
from beliefs.learning.optimizers.planes import Planes
from beliefs.options import MANY, check_integer, check_option, is_number
from beliefs.typing import Floats

__all__ = ["OneSlack", "check_ridge", "moved"]

_STALLED = 20  # iterations in which neither bound moves: rounding allows no more
_TINY = 1e-300
_SCALARS = ("lower", "upper", "residual", "certified", "reach", "stalled")


@dataclass(frozen=True, kw_only=True, repr=False)
class OneSlack(Optimizer):
    """Cutting planes of the whole risk: a certified gap for every convex loss with a ridge.

    Parameters
    ----------
    step : float in (0, 1]
        How far to go from the centre to the minimiser of the planes.
    inertia : float in [0, 1)
        The share of the centre that stays when it follows the best weights. ``step=1`` is plain cutting planes.
    keep : int
        Solutions without a part in which a plane stays.

    Examples
    --------
    >>> OneSlack(step=0.5)
    one_slack(step=0.5)
    """

    step: float = 0.3
    inertia: float = 0.85
    keep: int = 50

    name: ClassVar[str] = "one_slack"
    default_tol: ClassVar[float] = 1e-3
    default_max_iters: ClassVar[int] = 2000
    tol_is_of: ClassVar[str] = "relative gap"

    def __post_init__(self) -> None:
        check_option(is_number(self.step) and 0 < self.step <= 1, "step", "in (0, 1]", self.step)
        check_option(is_number(self.inertia) and 0 <= self.inertia < 1, "inertia", "in [0, 1)", self.inertia)
        check_integer("keep", self.keep, 1, MANY)

    def check(self, objective: Objective) -> None:
        """Refuse what planes and a ridge alone cannot serve."""
        check_ridge(self.name, objective)

    def minimize(self, objective: Objective, watch: Watched, resumed: Point | None = None, seed: int = 0) -> Outcome:
        """Add planes until the gap is within ``tol`` of the objective; a resumed run adds the very same ones."""
        search = _Search(self, objective, watch, resumed)
        try:
            status = search.run()
        except Stop as stop:
            near = stop.status is Status.TIME_LIMIT and search.residual <= watch.limits.tol
            status, reason = (Status.CONVERGED, "") if near else (stop.status, stop.reason)
        else:
            reason = ""
        return Outcome(status, search.point, reason or search.meaning(status))


def moved(point: Point, to: Point, upper: float, slope: Floats, offset: float, objective: Objective) -> Point:
    """Return where to go on when the risk has changed by ``offset + slope . w``: with all planes, changed as well.

    ``to`` is the point to begin at, of the objective as it is now, and ``upper`` its certified upper bound.
    """
    memory = point.memory
    slopes = memory["slopes"] + np.where(objective.free, slope, 0.0)
    of_held = float(np.where(objective.free, 0.0, slope) @ objective.start)
    changed = {"slopes": slopes, "gram": slopes @ slopes.T, "offsets": memory["offsets"] + offset + of_held}
    planes = Planes(objective.l2, objective.start.size, memory | changed)
    planes.solve()
    lower = planes.minimiser()[1] + _ridge_of_held(objective)
    certified = float(memory["scalars"][_SCALARS.index("certified")])
    scalars = np.array([lower, upper, _relative(to.loss, lower), certified, 1.0, 0.0])
    gap = max(upper - lower, 0.0) if certified else math.inf
    return replace(
        to, iteration=0, step=0, gap=gap, memory=planes.arrays() | {"centre": to.weights, "scalars": scalars}
    )  # fmt: skip


def check_ridge(name: str, objective: Objective) -> None:
    """Raise unless the objective is a convex risk with a ridge and no other penalty or bound."""
    if not objective.l2 > 0:
        raise ModelError(f"{name} needs a ridge, since planes alone have no minimum: give l2 > 0, or use lbfgs or sgd")
    if objective.penalised or objective.bounded:
        what = "an l1 penalty" if objective.penalised else "bounds on weights"
        raise ModelError(f"{name} does not take {what}; use lbfgs where the loss is smooth, else sgd or adam")
    objective.check_convex(name)


class _Search:
    """One minimisation under way."""

    def __init__(self, options: OneSlack, objective: Objective, watch: Watched, resumed: Point | None) -> None:
        self.options, self.objective, self.watch = options, objective, watch
        self.of_held = _ridge_of_held(objective)
        self.fresh = resumed is None
        self.lower, self.upper, self.residual = -math.inf, math.inf, math.inf
        self.certified, self.reach, self.stalled = 1.0, 1.0, 0.0
        if resumed is None:
            self._begin()
        else:
            memory = resumed.memory
            self.planes = Planes(objective.l2, objective.start.size, memory)
            self.point, self.centre = resumed, memory["centre"]
            for name, number in zip(_SCALARS, memory["scalars"].tolist(), strict=True):
                setattr(self, name, number)

    def _begin(self) -> None:
        start = self.objective.start
        found = self.objective.evaluate(start)
        if not _finite(found):
            raise ModelError(
                "the loss or its gradient is not finite at the starting weights; start from smaller ones (or zeros)"
            )
        self.planes = Planes(self.objective.l2, start.size)
        self.centre = start
        self._take(start, found, 0)

    # -- the loop -------------------------------------------------------------------------------------------------
    def run(self) -> Status:
        """Let the driver run the loop."""
        if self.fresh:
            self.watch.iterate(self.point)
        left = max(self.watch.limits.max_iters - self.point.iteration, 0)
        limits = replace(self.watch.limits, max_iters=left, callbacks=())
        return run(self._step, lambda: Value(0.0), limits, fixed_point=False, ended=self._ended).status

    def _ended(self) -> Status | None:
        if self.residual <= self.watch.limits.tol:
            return Status.CONVERGED
        return Status.OSCILLATING if self.stalled >= _STALLED else None

    def _step(self) -> float:
        weights = self._next()
        self._take(weights, self.objective.evaluate(weights), self.point.iteration + 1)
        self.watch.iterate(self.point)
        return self.residual

    def _take(self, weights: Floats, found: Evaluation, iteration: int) -> None:
        """Add the plane of an evaluation, solve for the minimum, and choose where to look next."""
        if not _finite(found):
            self.stalled, self.reach = self.stalled + 1.0, self.reach / 4.0
            self._show(iteration)
            return
        self._add(weights, found)
        before, best = self.lower, math.inf if iteration == 0 else self.point.loss
        shown = Point.of(self.objective, weights, found, iteration)
        if shown.loss < best:
            self.point, self.upper = shown, found.upper
        self.planes.solve()
        self.lower = max(self.lower, self.planes.minimiser()[1] + self.of_held)
        self.planes.drop(self.options.keep)
        self.stalled = 0.0 if shown.loss < best or self.lower > before else self.stalled + 1.0
        self.reach = min(2.0 * self.reach, 1.0)
        if iteration:
            self.centre = self.options.inertia * self.centre + (1.0 - self.options.inertia) * self.point.weights
        self._show(iteration)

    def _add(self, weights: Floats, found: Evaluation) -> None:
        l2 = self.objective.l2
        slope = np.where(self.objective.free, found.grad - 2.0 * l2 * weights, 0.0)
        self.planes.add(slope, found.value - l2 * float(weights @ weights) - float(slope @ weights))
        self.certified = min(self.certified, float(found.minorant))

    def _next(self) -> Floats:
        """Return where to look next; after points whose loss was not finite, nearer to the centre."""
        minimiser = self.planes.minimiser()[0]
        step = self.reach * (self.options.step if len(self.planes) > 1 else 1.0)
        following = self.centre + step * (minimiser - self.centre)
        return following if self.objective.all_free else np.where(self.objective.free, following, self.objective.start)

    def _show(self, iteration: int) -> None:
        """Make the point of this iteration: the best weights, their gap, and all that the next iteration needs."""
        loss = self.point.loss
        self.residual = _relative(loss, self.lower)
        gap = max(self.upper - self.lower, 0.0) if self.certified else math.inf
        scalars = np.array([getattr(self, name) for name in _SCALARS])
        memory = self.planes.arrays() | {"centre": self.centre, "scalars": scalars}
        self.point = replace(self.point, iteration=iteration, step=iteration, gap=gap, memory=memory)

    def meaning(self, status: Status) -> str:
        """Say what a status means here; empty: what it always does."""
        if status is Status.CONVERGED:
            worth = "" if self.certified and self.upper < math.inf else ", which inference does not certify,"
            return f"the gap{worth} fell below tol of the objective"
        if status is Status.OSCILLATING:
            return (
                f"neither bound has moved for {_STALLED} iterations: the gap is as small as rounding allows, or "
                "inference is not exact and its planes do not belong together"
            )
        return ""


def _ridge_of_held(objective: Objective) -> float:
    held = np.where(objective.free, 0.0, objective.start)
    return objective.l2 * float(held @ held)


def _relative(loss: float, lower: float) -> float:
    return max(loss - lower, 0.0) / max(abs(loss), _TINY)


def _finite(found: Evaluation) -> bool:
    return bool(abs(found.value) <= sys.float_info.max and np.isfinite(found.grad).all())
