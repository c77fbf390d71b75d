r"""EM for fields with missing cells and hidden variables, an M-step being a fit to expected frequencies.

.. math::
    \text{E:}\quad & \hat\mu \leftarrow \frac1n \sum_{\text{rows}} \mathrm{E}_\theta [f \mid \text{row}] \\
    \text{M:}\quad & \theta \leftarrow \arg\min A(\theta) - \theta \cdot \hat\mu + \lambda \lVert \theta \rVert^2

The M-step has no closed form; a few steps of L-BFGS that lower its objective are enough for the likelihood to rise:
generalised EM [dempster1977].

Guarantee: with exact inference the objective never rises, up to rounding; the limit is a stationary point. Uniform
tables of hidden variables are saddle points, so starts are random. Cost: ``steps`` inferences and a sweep over the rows
with missing cells an iteration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from beliefs.driver import Status, Value, run
from beliefs.errors import ModelError
from beliefs.learning.fields.base import clamped
from beliefs.learning.fields.statistics import FieldRows
from beliefs.learning.fit import fit
from beliefs.learning.optimizers.base import Optimizer, Outcome, Point, Stop, Watched
from beliefs.learning.optimizers.objective import Objective

__all__ = ["FieldEM"]

_INNER = 0.1  # of the slope at the beginning of an M-step, below which it ends


@dataclass(frozen=True, kw_only=True, repr=False)
class FieldEM(Optimizer):
    """Expected frequencies, then potentials that fit them better, again and again; ``steps`` of L-BFGS each."""

    steps: int = 20

    name: ClassVar[str] = "em"
    default_tol: ClassVar[float] = 1e-5
    default_max_iters: ClassVar[int] = 1000

    def check(self, objective: Objective) -> None:
        """Refuse what is not defined."""
        if objective.penalised:
            raise ModelError("em has no l1; use l2, or method='likelihood'")

    def minimize(self, objective: Objective, watch: Watched, resumed: Point | None = None, seed: int = 0) -> Outcome:
        """Go round until the gradient is small."""
        point = Point.of(objective, objective.start, objective.evaluate(objective.start), 0)
        point = point if resumed is None else resumed
        if not math.isfinite(point.loss):
            raise ModelError("a row is impossible under the potentials to start from")

        def step() -> float:
            nonlocal point
            data: FieldRows = objective.data  # type: ignore[assignment]
            expected = FieldRows(clamped(point.weights, data)[1], data.total, None, {})
            found = fit(
                objective.loss, expected, point.weights, tol=max(_INNER * point.grad_norm, 1e-12), max_iters=self.steps,
                free=objective.free,
            )  # fmt: skip
            after = objective.evaluate(found.weights)
            point = Point.of(objective, found.weights, after, point.iteration + 1)
            watch.iterate(point)
            return point.grad_norm

        try:
            if resumed is None:
                watch.iterate(point)
            left = max(watch.limits.max_iters - point.iteration, 0)
            limits = replace(watch.limits, max_iters=left, callbacks=())
            status = run(step, lambda: Value(0.0), limits, fixed_point=False).status
        except Stop as stop:
            return Outcome(stop.status, point, stop.reason)
        return Outcome(status, point, "the gradient fell below tol" if status is Status.CONVERGED else "")
