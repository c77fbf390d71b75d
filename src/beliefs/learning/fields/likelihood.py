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

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from beliefs.driver import Status, Value, run
from beliefs.errors import ModelError
from beliefs.inference.base import Bound, Method
from beliefs.inference.run import Answer, answer
from beliefs.learning.batches import Evaluation
from beliefs.learning.fields.statistics import FieldRows
from beliefs.learning.networks.structure import Structure
from beliefs.learning.optimizers.base import Optimizer, Outcome, Point, Stop, Watched
from beliefs.learning.optimizers.objective import Objective
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["IPF", "FieldLikelihood"]


@dataclass(frozen=True, eq=False)
class FieldLikelihood:
    """The negative log-likelihood of a row on average, and a ridge.

    Attributes
    ----------
    structure : Structure
        Scopes and names of the field.
    inference : Method
        What gives log Z and marginals.
    l2 : float
        The ridge, relative to the mean log-likelihood of a row.
    """

    structure: Structure
    inference: Method
    l2: float = 0.0
    name: ClassVar[str] = "field_likelihood"

    @property
    def n_weights(self) -> int:
        """Cells of all tables."""
        return self.structure.layout.n_cells

    def field(self, theta: Floats) -> FactorGraph:
        """Return the field with these log potentials."""
        return FactorGraph.build(self.structure.layout, theta.copy(), self.structure.naming)

    def asked(self, theta: Floats) -> Answer:
        """Return log Z and marginals."""
        return answer(self.field(theta), self.inference)

    def evaluate(self, theta: Floats, data: FieldRows) -> Evaluation:
        """Return the loss and its gradient; ``bound`` is what it is of the exact one."""
        found = self.asked(theta)
        score, frequencies = self.clamped(theta, data)
        value, grad = found.log_z - score, found.mu - frequencies
        if self.l2:  # potentials of fitted fields may be -inf where there is none
            value += self.l2 * float(theta @ theta)
            grad = grad + 2.0 * self.l2 * theta
        return Evaluation(value, grad, 1, n_not_converged=int(not found.converged), bound=found.bound)

    def clamped(self, theta: Floats, data: FieldRows) -> tuple[float, Floats]:
        """Return the mean log weight of a row, missing cells summed out, and its gradient."""
        seen = data.frequencies > 0
        score = float(data.frequencies[seen] @ theta[seen])
        if data.sweep is None:
            return score, data.frequencies
        layout = self.structure.layout
        tops = np.array([theta[layout.cells(f)].max() for f in range(layout.n_factors)])
        shift = np.empty(layout.n_cells)
        for f in range(layout.n_factors):
            shift[layout.cells(f)] = tops[f]
        swept = data.sweep.run(np.exp(theta - shift))
        score += data.sweep.total_log_z(swept) / data.total
        score += float(swept.cells @ shift) / data.total  # each swept cell carries its factor's scale
        return score, data.frequencies + swept.cells / data.total


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
        sweeps = _Sweeps(objective, watch, resumed)
        try:
            status = sweeps.run()
        except Stop as stop:
            return Outcome(stop.status, sweeps.point, stop.reason)
        return Outcome(status, sweeps.point, "all marginals agree" if status is Status.CONVERGED else "")


class _Sweeps:
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

    def run(self) -> Status:
        """Let the driver run the loop."""
        if self.fresh:
            self.watch.iterate(self.point)
        left = max(self.watch.limits.max_iters - self.point.iteration, 0)
        limits = replace(self.watch.limits, max_iters=left, callbacks=())
        return run(self._step, lambda: Value(0.0), limits, fixed_point=False).status

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
