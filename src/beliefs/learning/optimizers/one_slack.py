r"""The bundle method for regularised risks, one plane an evaluation: cutting planes with one slack.

.. math:: R(w) = r(w) + \lambda \lVert w \rVert^2 \;\ge\; \max_t\, (a_t \cdot w + b_t) + \lambda \lVert w \rVert^2,
   \qquad a_t \in \partial r(w_t), \quad b_t = r(w_t) - a_t \cdot w_t

The minimum of the right side is a lower bound that rises with every plane ([teo2010], [joachims2009]); the best value
seen is an upper bound. Their difference is the gap. It serves every convex risk with a ridge, smooth or not. Where to
look next is said in :mod:`beliefs.learning.optimizers.bundle`.

Guarantee: ``gap``, of the best weights so far, is at least their excess over the minimum of the objective with exact
inference, at every iterate: from a certified upper bound of theirs and planes that are all certified (``minorant``);
else it is inf, and the fit stops by what it would be if they were. Cost: one evaluation an iteration, and a quadratic
program in as many variables as planes. Memory: 8 bytes for each weight of each plane, some hundred of them; planes
without a part in the last ``keep`` solutions are let go. Failure: a small ridge takes many planes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from beliefs.learning.fit_loss import Evaluation
from beliefs.learning.optimizers.base import Point
from beliefs.learning.optimizers.bundle import Bundle, Model, restarted
from beliefs.learning.optimizers.objective import Objective
from beliefs.learning.optimizers.planes import Planes
from beliefs.typing import Floats

__all__ = ["OneSlack", "moved"]


@dataclass(frozen=True, kw_only=True, repr=False)
class OneSlack(Bundle):
    """Cutting planes of the whole risk: a certified gap for every convex loss with a ridge.

    Parameters
    ----------
    step : float in (0, 1]
        How far to go from the centre to the minimiser of the planes; 1 is plain cutting planes.
    inertia : float in [0, 1)
        The share of the centre that stays when it follows the best weights.
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

    def model(self, objective: Objective, arrays: dict[str, np.ndarray] | None) -> Model:
        """Return the planes of the whole risk."""
        return _Whole(objective, Planes(objective.l2, objective.start.size, arrays))


class _Whole(Model):
    """One plane an evaluation, of all instances together."""

    def __init__(self, objective: Objective, planes: Planes) -> None:
        self.objective, self.planes = objective, planes

    def look(self, weights: Floats) -> Evaluation:
        """Evaluate, and remember for :meth:`cut`."""
        self.weights, self.found = weights, self.objective.evaluate(weights)
        return self.found

    def cut(self) -> None:
        """Add the plane of what is not the ridge."""
        w, found, l2 = self.weights, self.found, self.objective.l2
        if found.risk_grad is None:
            slope = np.where(self.objective.free, found.grad - 2.0 * l2 * w, 0.0)
            risk = found.value - l2 * float(w @ w)
        else:
            slope, risk = found.risk_grad, found.risk
        self.planes.add(slope, risk, w)

    def solve(self, precision: float) -> None:
        """Solve the quadratic program, as precisely as rounding allows."""
        self.planes.solve()

    def minimiser(self) -> tuple[Floats, float]:
        """Ask the planes."""
        return self.planes.minimiser()

    def drop(self, idle: int) -> None:
        """Let the planes go."""
        self.planes.drop(idle)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return those of the planes."""
        return self.planes.arrays()


def moved(point: Point, to: Point, upper: float, slope: Floats, offset: float, objective: Objective) -> Point:
    """Return where to go on when the risk has changed by ``offset + slope . w``: with all planes, changed as well.

    ``to`` is the point to begin at, of the objective as it is now, and ``upper`` its certified upper bound.
    """
    memory = point.memory
    slopes = memory["slopes"] + np.where(objective.free, slope, 0.0)
    of_held = float(np.where(objective.free, 0.0, slope) @ objective.start)
    changed = {"slopes": slopes, "gram": slopes @ slopes.T, "offsets": memory["offsets"] + offset + of_held}
    model = _Whole(objective, Planes(objective.l2, objective.start.size, memory | changed))
    model.solve(0.0)
    return restarted(point, to, upper, model, objective)
