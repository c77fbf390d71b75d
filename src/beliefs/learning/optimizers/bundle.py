r"""The loop of bundle methods: look at a point, cut, solve for a lower bound, and choose where to look next.

What cuts is a :class:`Model` of the risk from below, as a maximum of planes: of all instances together, or of each.
Its minimum with the ridge is a lower bound on that of the objective, as is what the loss is never below (0 for
margins; as a plane it would mislead the first steps); the best value seen is an upper bound.

Planes at the minimisers of the model alone make weights leap from one end to the other. The point that is looked at
next lies between a centre and the minimiser :math:`\hat w`, as in the in-out method [benameur2007]:

.. math:: c \leftarrow \eta\, c + (1 - \eta)\, w_\text{best}, \qquad w = c + s\,(\hat w - c)

If its plane does not cut off :math:`\hat w`, then R(w) is below R(c) by at least s times the gap of c, so one of the
bounds moves. On problems with many classes this halves the evaluations. A point whose loss is not finite is left for
one nearer to the centre.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from beliefs.driver import Status
from beliefs.errors import ModelError
from beliefs.learning.fit_loss import Evaluation
from beliefs.learning.optimizers.base import Optimizer, Outcome, Point, Stop, Watched
from beliefs.learning.optimizers.objective import Objective
from beliefs.learning.optimizers.rounds import Rounds
from beliefs.options import MANY, check_integer, check_option, is_number
from beliefs.typing import Floats

__all__ = ["Bundle", "Model", "restarted"]

_STALLED = 20  # iterations in which neither bound moves: rounding allows no more
_TINY = 1e-300
_SHARE = 0.1  # of the gap that is asked for: how precisely the model's minimum is found
_SCALARS = ("lower", "upper", "residual", "certified", "reach", "stalled")


class Model(ABC):
    """A maximum of planes below a risk."""

    @abstractmethod
    def look(self, weights: Floats) -> Evaluation:
        """Evaluate the objective; its planes are added by :meth:`cut`."""

    @abstractmethod
    def cut(self) -> None:
        """Add the planes of the last evaluation, which was finite."""

    @abstractmethod
    def solve(self, precision: float) -> None:
        """Find the minimum of model and ridge, as a dual solution, from the last one."""

    @abstractmethod
    def minimiser(self) -> tuple[Floats, float]:
        """Return the weights of the dual solution, and its value: a lower bound on the minimum of model and ridge."""

    @abstractmethod
    def drop(self, idle: int) -> None:
        """Let go of planes without a part in so many solutions."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Return all that is needed to go on; arrays that were handed out are never written again."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Bundle(Optimizer):
    """Base of the bundle methods.

    Parameters
    ----------
    step : float in (0, 1]
        How far to go from the centre to the minimiser of the planes; 1 is plain cutting planes.
    inertia : float in [0, 1)
        The share of the centre that stays when it follows the best weights.
    keep : int
        Solutions without a part in which a plane stays.
    """

    step: float
    inertia: float
    keep: int

    default_tol: ClassVar[float] = 1e-3
    default_max_iters: ClassVar[int] = 2000
    tol_is_of: ClassVar[str] = "relative gap"

    def __post_init__(self) -> None:
        check_option(is_number(self.step) and 0 < self.step <= 1, "step", "in (0, 1]", self.step)
        check_option(is_number(self.inertia) and 0 <= self.inertia < 1, "inertia", "in [0, 1)", self.inertia)
        check_integer("keep", self.keep, 1, MANY)

    @abstractmethod
    def model(self, objective: Objective, arrays: dict[str, np.ndarray] | None) -> Model:
        """Return the model to begin with, or that of a checkpoint."""

    def check(self, objective: Objective) -> None:
        """Refuse what planes and a ridge alone cannot serve."""
        name = self.name
        if not objective.l2 > 0:
            raise ModelError(
                f"{name} needs a ridge, since planes alone have no minimum: give l2 > 0, or use lbfgs or sgd"
            )
        if objective.penalised or objective.bounded:
            what = "an l1 penalty" if objective.penalised else "bounds on weights"
            raise ModelError(f"{name} does not take {what}; use lbfgs where the loss is smooth, else sgd or adam")
        objective.check_convex(name)

    def minimize(self, objective: Objective, watch: Watched, resumed: Point | None = None, seed: int = 0) -> Outcome:
        """Add planes until the gap is within ``tol`` of the objective; a resumed run adds the very same ones."""
        search = _Search(self, objective, watch, resumed)
        try:
            status, reason = search.run(), ""
        except Stop as stop:
            near = stop.status is Status.TIME_LIMIT and search.residual <= watch.limits.tol
            status, reason = (Status.CONVERGED, "") if near else (stop.status, stop.reason)
        return Outcome(status, search.point, reason or search.meaning(status))


class _Search(Rounds):
    """One minimisation under way."""

    def __init__(self, options: Bundle, objective: Objective, watch: Watched, resumed: Point | None) -> None:
        self.options, self.objective, self.watch = options, objective, watch
        self.of_held = _ridge_of_held(objective)
        self.fresh = resumed is None
        self.floor = self.of_held + objective.loss.least
        self.lower, self.upper, self.residual = -math.inf, math.inf, math.inf
        self.certified, self.reach, self.stalled = 1.0, 1.0, 0.0
        if resumed is None:
            self._begin()
        else:
            self.model = options.model(objective, resumed.memory)
            self.point, self.centre = resumed, resumed.memory["centre"]
            for name, number in zip(_SCALARS, resumed.memory["scalars"].tolist(), strict=True):
                setattr(self, name, number)

    def _begin(self) -> None:
        start = self.objective.start
        self.model = self.options.model(self.objective, None)
        found = self.model.look(start)
        if not _finite(found):
            raise ModelError(
                "the loss or its gradient is not finite at the starting weights; start from smaller ones (or zeros)"
            )
        self.centre = start
        self._take(start, found, 0)

    # -- the loop -------------------------------------------------------------------------------------------------
    def _ended(self) -> Status | None:
        if self.residual <= self.watch.limits.tol:
            return Status.CONVERGED
        return Status.OSCILLATING if self.stalled >= _STALLED else None

    def _step(self) -> float:
        weights = self._next()
        self._take(weights, self.model.look(weights), self.point.iteration + 1)
        self.watch.iterate(self.point)
        return self.residual

    def _take(self, weights: Floats, found: Evaluation, iteration: int) -> None:
        """Add the plane of an evaluation, solve for the minimum, and choose where to look next."""
        if not _finite(found):
            self.stalled, self.reach = self.stalled + 1.0, self.reach / 4.0
            self._show(iteration)
            return
        self.model.cut()
        self.certified = min(self.certified, float(found.minorant))
        before, best = self.lower, math.inf if iteration == 0 else self.point.loss
        shown = Point.of(self.objective, weights, found, iteration)
        if shown.loss < best:
            self.point, self.upper = shown, found.upper
        wanted = max(self.point.loss - self.lower, self.watch.limits.tol * abs(self.point.loss))
        self.model.solve(_SHARE * wanted if wanted < math.inf else 0.0)
        self.lower = max(self.lower, self.model.minimiser()[1] + self.of_held)
        self.model.drop(self.options.keep)
        self.stalled = 0.0 if shown.loss < best or self.lower > before else self.stalled + 1.0
        self.reach = min(2.0 * self.reach, 1.0) if iteration else 1.0 / self.options.step  # first, all the way
        if iteration:
            self.centre = self.options.inertia * self.centre + (1.0 - self.options.inertia) * self.point.weights
        self._show(iteration)

    def _next(self) -> Floats:
        """Return where to look next; after points whose loss was not finite, nearer to the centre."""
        minimiser = self.model.minimiser()[0]
        following = self.centre + self.reach * self.options.step * (minimiser - self.centre)
        return following if self.objective.all_free else np.where(self.objective.free, following, self.objective.start)

    def _show(self, iteration: int) -> None:
        """Make the point of this iteration: the best weights, their gap, and all that the next iteration needs."""
        loss = self.point.loss
        self.residual = _relative(loss, max(self.lower, self.floor))
        numbers = {name: getattr(self, name) for name in _SCALARS}
        point = _packed(self.point, iteration, self.model.arrays(), self.centre, numbers)
        self.point = replace(point, gap=min(point.gap, self.upper - self.floor)) if self.certified else point

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


def _packed(
    best: Point, iteration: int, arrays: dict[str, np.ndarray], centre: Floats, numbers: dict[str, float]
) -> Point:
    """Return the best point with its gap and all that the next iteration needs."""
    gap = max(numbers["upper"] - numbers["lower"], 0.0) if numbers["certified"] else math.inf
    memory = arrays | {"centre": centre, "scalars": np.array([numbers[name] for name in _SCALARS])}
    return replace(best, iteration=iteration, step=iteration, gap=gap, memory=memory)


def restarted(last: Point, best: Point, upper: float, model: Model, objective: Objective) -> Point:
    """Return where to go on with a model that has changed: from a point whose value and upper bound are known."""
    numbers = dict(zip(_SCALARS, last.memory["scalars"].tolist(), strict=True))
    lower = model.minimiser()[1] + _ridge_of_held(objective)
    numbers |= {"lower": lower, "upper": upper, "residual": _relative(best.loss, lower), "reach": 1.0, "stalled": 0.0}
    return _packed(best, 0, model.arrays(), best.weights, numbers)


def _ridge_of_held(objective: Objective) -> float:
    """Return the ridge of the weights that may not move."""
    held = np.where(objective.free, 0.0, objective.start)
    return objective.l2 * float(held @ held)


def _relative(loss: float, lower: float) -> float:
    return max(loss - lower, 0.0) / max(abs(loss), _TINY)


def _finite(found: Evaluation) -> bool:
    return bool(abs(found.value) <= sys.float_info.max and np.isfinite(found.grad).all())
