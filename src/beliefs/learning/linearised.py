r"""The convex problem inside a difference of convex functions: the clamped term replaced by its tangent.

.. math:: R(w) = \tfrac1n \sum_s a_s \bigl[ F_s(w) - C_s(w) \bigr] + \lambda \lVert w \rVert^2 \;\le\;
   \tilde R(w) = \tfrac1n \sum_s a_s \bigl[ F_s(w) - C_s(w_0) - u_s \cdot (w - w_0) \bigr] + \lambda \lVert w \rVert^2,
   \qquad u_s = \nabla C_s(w_0)

with equality at :math:`w_0`: C is convex in the weights where theta is linear in them. In the words of EM the tangent
is the E-step, and minimising :math:`\tilde R` the M-step.

=====================  =============================================================================================
:class:`Linearised`    one tangent for all instances: as many numbers as weights; small instances are joined. For
                       learners that look at all instances together
:class:`Expected`      each instance keeps the tangent in its :math:`\theta_s`: expectations :math:`\mu_s`, and
                       an offset; as many numbers as cells. For learners that look at some of them,
                       and for templates that are not linear, where this is no tangent in w but still above R
=====================  =============================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from beliefs.errors import ModelError
from beliefs.inference.base import Bound, Method
from beliefs.learning.batches import Batch
from beliefs.learning.fit_loss import Evaluation
from beliefs.learning.instances import Instance, Slot
from beliefs.learning.losses.base import InstanceLoss, Loss
from beliefs.learning.losses.difference import DifferenceLoss, scattered
from beliefs.learning.losses.label_scores import label_scores
from beliefs.learning.parallel import executor_of
from beliefs.typing import Floats

__all__ = ["Expected", "Linearised", "Terms", "expect"]

_EXPECTED = Slot[tuple[Floats, float]]("expected statistics given the labels, and what the tangent is at theta = 0")


@dataclass(frozen=True, kw_only=True)
class _Term(Loss):
    """A term of a difference, with its options."""

    of: DifferenceLoss

    hidden: ClassVar[bool] = True
    by_variable: ClassVar[bool] = False
    clamps: ClassVar[bool] = True

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """The methods of the whole."""
        return self.of.runs

    def check(self, instance: Instance) -> None:
        """Ask the whole."""
        self.of.check(instance)

    def is_smooth(self, data: Any) -> bool:
        """Whether the whole is."""
        return self.of.is_smooth(data)


@dataclass(frozen=True, kw_only=True)
class Clamped(_Term):
    """The clamped term alone, without a ridge: its value and gradient are those of the tangent."""

    name: ClassVar[str] = "the clamped term"

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return the value and the expectations given the labels."""
        if instance.n_labelled == instance.labels.size:
            score = float(label_scores(instance.graph(theta), instance).sum())
            return InstanceLoss(score, instance.statistics, bound=Bound.EXACT)
        graph = instance.clamped(theta)
        found = self.of.clamped(graph, instance)
        expected = scattered(graph, found.mu, theta.size)
        return InstanceLoss(found.log_z, expected, converged=found.converged, bound=found.bound)


@dataclass(frozen=True, kw_only=True)
class Free(_Term):
    """The free term alone, and the ridge."""

    name: ClassVar[str] = "the free term"

    def batches(self, data: Any) -> Iterable[Batch]:
        """Return what the loss offers for this term, else instances and unions of small ones."""
        offered = self.offered(data)
        return super().batches(data) if offered is None else offered

    def offered(self, data: Any) -> Iterable[Batch] | None:
        """Return what the loss itself has laid out of a list."""
        return self.of.free_batches(data) if isinstance(data, list | tuple) else None

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return the free value and expectations."""
        free = self.of.free(instance.graph(theta), instance)
        return InstanceLoss(
            free.log_z,
            free.mu,
            converged=free.converged,
            bound=free.bound,
            upper=free.upper,
            minorant=self.of.is_plane(free),
            delta=self.of.expected_cost(free, instance),
        )


@dataclass(frozen=True, eq=False)
class Linearised:
    """The free term of all instances together minus ``offset + slope . w``, and the ridge."""

    free: Free
    slope: Floats
    offset: float

    name: ClassVar[str] = "the convex problem"

    @property
    def l2(self) -> float:
        """The ridge of the whole."""
        return self.free.l2

    @property
    def n_weights(self) -> int:
        """Number of weights."""
        return self.free.n_weights

    def is_smooth(self, data: Any) -> bool:
        """Whether the whole is."""
        return self.free.is_smooth(data)

    def evaluate(self, weights: Floats, data: Any) -> Evaluation:
        """Return the sum over all instances, and the tangent subtracted."""
        found = self.free.evaluate(weights, data)
        score = self.offset + float(self.slope @ weights)
        own = None if found.risk_grad is None else found.risk_grad - self.slope
        return replace(
            found, value=found.value - score, grad=found.grad - self.slope, upper=found.upper - score,
            risk=found.risk - score, risk_grad=own,
        )  # fmt: skip


class Terms:
    """Both terms of a loss, each with what it has laid out of the data, from round to round."""

    def __init__(self, loss: DifferenceLoss) -> None:
        self.loss = loss
        self.free = Free(template=loss.template, l2=loss.l2, threads=loss.threads, of=loss)
        self.clamped = Clamped(template=loss.template, l2=0.0, threads=loss.threads, of=loss)

    def tangent(self, weights: Floats, data: Any) -> Linearised:
        """Return the problem with the clamped term linearised at some weights, for templates linear in them."""
        if self.free.offered(data) is None:
            found = self.clamped.evaluate(weights, data)
        else:  # what is not free is clamped: the loss evaluates all sequences at once, one by one would take longer
            free, whole = self.free.evaluate(weights, data), self.loss.evaluate(weights, data)
            found = replace(free, value=free.value - whole.value, grad=free.grad - whole.grad)
        return Linearised(self.free, found.grad, found.value - float(found.grad @ weights))


@dataclass(frozen=True, kw_only=True)
class Expected(_Term):
    """The free value minus the tangent that each instance keeps (:func:`expect`): the M-step.

    Parameters
    ----------
    of : DifferenceLoss
        The loss whose free term and clamped term are alternated.
    """

    name: ClassVar[str] = "the convex problem"

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """Instances are not joined: each has its own expectations."""
        return None

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Compare with the kept expectations."""
        kept = instance.memory.get(_EXPECTED)
        if kept is None:
            raise ModelError(f"{instance.name} has no expectations yet; take an E-step (learning.em.expect) first")
        expected, offset = kept
        free = self.of.free(instance.graph(theta), instance)
        score = offset + _score(theta, expected)
        return InstanceLoss(
            free.log_z - score,
            free.mu - expected,
            converged=free.converged,
            bound=free.bound,
            upper=free.upper - score,
            minorant=self.of.is_plane(free),
            delta=self.of.expected_cost(free, instance),
        )


def expect(loss: DifferenceLoss, weights: Floats, instances: Sequence[Instance]) -> None:
    """Take the E-step: keep every instance's expectations given its labels."""
    term = Clamped(template=loss.template, l2=0.0, threads=loss.threads, of=loss)

    def keep(instance: Instance) -> None:
        theta = loss.template.theta(weights, instance.inputs)
        found = term.part(theta, instance)
        instance.memory.put(_EXPECTED, (found.grad_theta, found.value - _score(theta, found.grad_theta)))

    for _ in executor_of(loss.threads).windows(keep, instances):
        pass


def _score(theta: Floats, expected: Floats) -> float:
    return float(theta[expected > 0] @ expected[expected > 0])  # a hard zero is expected never
