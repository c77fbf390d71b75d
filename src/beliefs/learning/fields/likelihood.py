r"""The likelihood of a field as a function of its log potentials, and two ways to its maximum.

.. math::
    L(\theta) = A(\theta) - \theta \cdot \hat\mu + \lambda \lVert \theta \rVert^2, \qquad
    \nabla L = \mu(\theta) - \hat\mu + 2 \lambda \theta

with :math:`\hat\mu` the relative frequencies of cells and :math:`\mu` the field's marginals [koller2009]. With missing
cells :math:`\theta \cdot \hat\mu` becomes the mean of :math:`\log \sum_z \exp \theta \cdot f(x, z)` over rows, and
:math:`\hat\mu` its gradient, the expected frequencies; the loss is then no longer convex. With approximate inference
A is its value: an upper bound of A makes a lower bound of the likelihood.

Proportional fitting (``ipf``) visits factor after factor: :math:`\theta_c \leftarrow \theta_c + \log \hat\mu_c -
\log \mu_c(\theta)`, 0/0 being 0 [deming1940]. Each visit matches one marginal exactly and never lowers the likelihood;
cells that never occur get potential zero, so a maximum at infinity is reached too.
Cost: one inference an evaluation, and one a factor and sweep of ``ipf``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.base import Bound, Method
from beliefs.inference.run import Answer, answer, settled
from beliefs.learning.fields.base import FieldLoss, clamped
from beliefs.learning.fields.statistics import FieldRows
from beliefs.learning.fit_loss import Evaluation
from beliefs.learning.optimizers.base import Optimizer, Outcome, Point, Watched
from beliefs.learning.optimizers.objective import Objective
from beliefs.learning.optimizers.rounds import Rounds
from beliefs.typing import Floats

__all__ = ["IPF", "FieldLikelihood"]


@dataclass(frozen=True, eq=False, kw_only=True)
class FieldLikelihood(FieldLoss):
    """The negative log-likelihood of a row on average, exact or with the log Z of an approximate method.

    Attributes
    ----------
    inference : Method
        What gives log Z and marginals.
    tol : float
        To which inference is run: a gradient needs marginals that have settled.
    """

    inference: Method
    tol: float = 1e-8
    name: ClassVar[str] = "likelihood"
    hidden: ClassVar[bool] = True
    _warm: dict[str, Any] = field(default_factory=dict, repr=False)

    def asked(self, theta: Floats) -> Answer:
        """Return log Z and marginals; messages go on from the last answer."""
        if not self.inference.iterative:
            return answer(self.graph(theta), self.inference)
        warm = self._warm.get("state") if self.inference.warm_startable else None
        found = settled(self.graph(theta), self.inference, tol=min(self.tol, self.inference.default_tol), warm=warm)
        self._warm["state"] = found.warm_state
        return found

    def part(self, theta: Floats, data: FieldRows) -> Evaluation:
        """Return the loss and its gradient; ``bound`` is what it is of the exact one."""
        found = self.asked(theta)
        score, frequencies = clamped(theta, data)
        return Evaluation(
            found.log_z - score, found.mu - frequencies, 1, n_not_converged=int(not found.converged), bound=found.bound
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class IPF(Optimizer):
    """Iterative proportional fitting: one marginal after the other is made right."""

    name: ClassVar[str] = "ipf"
    default_tol: ClassVar[float] = 1e-8
    default_max_iters: ClassVar[int] = 1000

    def check(self, objective: Objective) -> None:
        """Refuse what it cannot fit: missing cells, penalties, approximate inference and tied tables."""
        loss = objective.loss
        if objective.data.sweep is not None:  # type: ignore[union-attr]
            raise ModelError("ipf needs complete rows, or marginals; use method='likelihood'")
        if loss.l2 or objective.penalised:
            raise ModelError("ipf has no penalties, l2 and l1; use method='likelihood'")
        if loss.structure.layout.tied:
            raise ModelError("ipf needs a table a factor, found tied ones; use method='likelihood'")
        if loss.inference.guarantee.bound is not Bound.EXACT:
            raise ModelError(f"ipf needs exact inference, found {loss.inference}")

    def minimize(self, objective: Objective, watch: Watched, resumed: Point | None = None, seed: int = 0) -> Outcome:
        """Sweep over the factors until all marginals agree."""
        return _Sweeps(objective, watch, resumed).outcome("all marginals agree")


class _Sweeps(Rounds):
    """One run of proportional fitting; the gradient of a point is how far its marginals are from the frequencies."""

    def __init__(self, objective: Objective, watch: Watched, resumed: Point | None) -> None:
        self.objective, self.watch, self.fresh = objective, watch, resumed is None
        self.target: Floats = objective.data.frequencies  # type: ignore[union-attr]
        self.theta = (objective.start if resumed is None else resumed.weights).copy()
        self.point = self._point(0) if resumed is None else resumed

    def _point(self, iteration: int) -> Point:
        found = self.objective.evaluate(self.theta)
        bound = "" if found.bound is None else found.bound.name
        distance = float(np.abs(found.grad).max(initial=0.0))
        return Point(iteration, iteration, self.theta.copy(), found.value, distance, bound=bound)

    def _step(self) -> float:
        loss: FieldLikelihood = self.objective.loss
        layout = loss.structure.layout
        for f in range(layout.n_factors):
            cells = layout.cells(f)
            now, wanted = loss.asked(self.theta).mu[cells], self.target[cells]
            with np.errstate(divide="ignore", invalid="ignore"):
                move = np.log(wanted) - np.log(now)
            self.theta[cells] = np.where(wanted > 0.0, self.theta[cells] + move, -np.inf)
            if not np.isfinite(self.theta[cells][wanted > 0.0]).all():
                raise ModelError("two marginals contradict each other: one excludes what another has")
            self.watch.check_time()
        self.point = self._point(self.point.iteration + 1)
        self.watch.iterate(self.point)
        return self.point.grad_norm
