r"""Learning with hidden variables by alternating steps.

.. math::
    \text{E:}\quad & \hat\mu_s \leftarrow \mu(\theta(x_s; w) \mid z_s) \quad \text{for every instance} \\
    \text{M:}\quad & w \leftarrow \arg\min_w \tfrac1n \sum_s
        \bigl[ A(\theta(x_s; w)) - \theta(x_s; w) \cdot \hat\mu_s \bigr] + \lambda \lVert w \rVert^2

With exact inference in both steps each round cannot increase the negative log-likelihood; with surrogates the same
holds of the surrogate of :class:`~beliefs.learning.losses.likelihood.SurrogateEM` where the clamped method is exact, or
a lower bound such as mean field. The M-step is convex if the free value is. Few M-iterations a round are enough
(generalised EM); the gradient of the joint objective at the point where a round begins is that of the M-step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import says_stop
from beliefs.errors import ModelError
from beliefs.inference.base import Bound
from beliefs.learning.instances import Instance, Slot
from beliefs.learning.losses.base import InstanceLoss, Loss
from beliefs.learning.losses.difference import DifferenceLoss, scattered
from beliefs.typing import Floats

__all__ = ["ExpectedLikelihood", "Rounds", "alternate", "expect"]

_EXPECTED = Slot[Floats]("expected statistics given the labels")


@dataclass(frozen=True, kw_only=True)
class ExpectedLikelihood(Loss):
    """The M-step: the free value minus the expected score, with the expectations of the last E-step.

    Parameters
    ----------
    of : DifferenceLoss
        The loss whose free term and clamped term are alternated.
    """

    of: DifferenceLoss

    name: ClassVar[str] = "expected_likelihood"
    hidden: ClassVar[bool] = True
    by_variable: ClassVar[bool] = False

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Compare with the kept expectations."""
        expected = instance.memory.get(_EXPECTED)
        if expected is None:
            raise ModelError(f"{instance.name} has no expectations yet; take an E-step (learning.em.expect) first")
        free = self.of.free(instance.graph(theta), instance)
        score = float(theta[expected > 0] @ expected[expected > 0])  # a hard zero is expected never
        value, exact = free.log_z - score, free.bound is Bound.EXACT
        upper = value if exact or free.bound is Bound.UPPER else np.inf
        return InstanceLoss(
            value, free.mu - expected, converged=free.converged, bound=free.bound, upper=upper, minorant=exact
        )  # fmt: skip


def expect(loss: DifferenceLoss, weights: Floats, instances: Sequence[Instance]) -> None:
    """Take the E-step: keep every instance's expectations given its labels."""
    for instance in instances:
        theta = loss.template.theta(weights, instance.inputs)
        graph = instance.clamped(theta)
        instance.memory.put(_EXPECTED, scattered(graph, loss.clamped(graph, instance).mu, theta.size))


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
    """Alternate E-steps and M-steps until a round gains less than ``tol``.

    Parameters
    ----------
    minimise : callable ``(loss, instances, weights) -> weights``
        Takes the M-step, for example ``lambda l, x, w: fit(l, x, w, max_iters=10).weights``.
    callback : callable ``(round, loss)``, optional
        Returns True to stop.
    """
    step = ExpectedLikelihood(template=loss.template, l2=loss.l2, threads=loss.threads, of=loss)
    losses = [loss.value_and_grad(weights, instances)[0]]
    for n in range(n_rounds):
        expect(loss, weights, instances)
        weights = minimise(step, instances, weights)
        losses.append(loss.value_and_grad(weights, instances)[0])
        if (callback is not None and says_stop(callback(n + 1, losses[-1]))) or losses[-2] - losses[-1] < tol:
            break
    return Rounds(weights, np.array(losses))
