r"""Learning with hidden variables by alternating steps, as EM calls them.

.. math::
    \text{E:}\quad & \hat\mu_s \leftarrow \mu(\theta(x_s; w) \mid z_s) \quad \text{for every instance} \\
    \text{M:}\quad & w \leftarrow \arg\min_w \tfrac1n \sum_s
        \bigl[ A(\theta(x_s; w)) - \theta(x_s; w) \cdot \hat\mu_s \bigr] + \lambda \lVert w \rVert^2

The E-step linearises the clamped term and the M-step is a convex problem: this is ``optimizer="cccp"``
(:mod:`beliefs.learning.optimizers.cccp`) with both temperatures 1, and so it is run. With exact inference no round
increases the negative log-likelihood; with surrogates the same holds of the surrogate of
:class:`~beliefs.learning.losses.likelihood.SurrogateEM` where the clamped method is exact, or a lower bound such as
mean field.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from beliefs.driver import Status, says_stop
from beliefs.learning.fit import fit
from beliefs.learning.instances import Instance
from beliefs.learning.linearised import Expected as ExpectedLikelihood
from beliefs.learning.linearised import expect
from beliefs.learning.losses.base import Loss
from beliefs.learning.losses.difference import DifferenceLoss
from beliefs.learning.optimizers.base import Optimizer, Outcome, Point, Watched
from beliefs.learning.optimizers.cccp import CCCP
from beliefs.learning.optimizers.objective import Objective
from beliefs.learning.result import FitProgress
from beliefs.typing import Floats

__all__ = ["ExpectedLikelihood", "Rounds", "alternate", "expect"]


@dataclass(frozen=True, kw_only=True, repr=False)
class _Given(Optimizer):
    """The M-step as a function of the caller."""

    minimise: Callable[[Loss, Sequence[Instance], Floats], Floats]

    name: ClassVar[str] = "given"
    default_tol: ClassVar[float] = 0.0
    default_max_iters: ClassVar[int] = 1

    def minimize(self, objective: Objective, watch: Watched, resumed: Point | None = None, seed: int = 0) -> Outcome:
        """Call it."""
        data: Any = objective.data
        weights = self.minimise(objective.loss, data, objective.start)
        return Outcome(Status.CONVERGED, Point.of(objective, weights, objective.evaluate(weights), 1))


@dataclass(frozen=True, eq=False)
class Rounds:
    """What alternating steps led to: the weights, and the loss before each round and after the last."""

    weights: Floats
    losses: Floats


def alternate(
    loss: DifferenceLoss,
    instances: Sequence[Instance],
    weights: Floats,
    minimise: Callable[[Loss, Sequence[Instance], Floats], Floats],
    *,
    n_rounds: int = 20,
    tol: float = 1e-6,
    callback: Callable[[int, float], Any] | None = None,
) -> Rounds:
    """Alternate E-steps and M-steps; deprecated: ``fit(loss, instances, weights, optimizer="cccp")`` does the same.

    Parameters
    ----------
    minimise : callable ``(loss, instances, weights) -> weights``
        Takes the M-step, for example ``lambda l, x, w: fit(l, x, w, max_iters=10).weights``.
    tol : float
        On the relative decrease of the loss in a round.
    callback : callable ``(round, loss)``, optional
        Returns True to stop.
    """
    warnings.warn(
        'learning.em.alternate will be removed; use fit(loss, instances, weights, optimizer="cccp")',
        DeprecationWarning,
        stacklevel=2,
    )
    last = 0

    def told(now: FitProgress) -> bool:
        nonlocal last
        if callback is None or now.iteration == last:
            return False
        last = now.iteration
        return says_stop(callback(now.iteration, now.loss))

    method = CCCP(inner=_Given(minimise=minimise))
    result = fit(loss, list(instances), weights, optimizer=method, max_iters=n_rounds, tol=tol, callback=told)
    return Rounds(result.weights, result.trace.loss)
