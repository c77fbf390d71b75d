r"""What a loss is: a number to be minimised, and its gradient, over a list of instances.

.. math:: R(w) = \frac{1}{n} \sum_{\text{instances}} a_s L(\theta(x_s; w), \hat x_s) + \lambda \lVert w \rVert^2

with n the number of labelled variables (weighted like the instances), so that the ridge is measured against the
risk per variable ([domke2013] section 8). A loss says what one instance costs as a function of its log potentials;
everything else, weights, features, threads, the sum and the ridge, is said here once.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import BeliefsError, ModelError
from beliefs.inference.base import Bound, Method
from beliefs.learning.instances import Instance
from beliefs.learning.joined import Joined, Joiner
from beliefs.learning.kept_batches import KeptBatches
from beliefs.model.features import Template
from beliefs.options import MANY, check_integer, check_option, is_number
from beliefs.typing import Floats

__all__ = ["Evaluation", "Loss", "InstanceLoss"]

_WINDOW = 4  # instances a thread works on between two additions to the gradient


@dataclass(frozen=True, eq=False)
class InstanceLoss:
    """What one instance contributes: its loss and the gradient in ``theta``; and whether the numbers can be trusted.

    ``diverged``: a surrogate log-probability of the labels is positive, so too few sweeps have left the objective
    unbounded ([domke2013] section 7.3). ``converged``: inference met its tolerance. ``bound``: for likelihoods, what
    the value is of the negative log-likelihood of the labels.
    """

    value: float
    grad_theta: Floats
    diverged: bool = False
    converged: bool = True
    bound: Bound | None = None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The loss over many instances, its gradient in the weights, and how many instances raised which flag.

    ``bound``: for likelihoods, what the value without the ridge is of the negative log-likelihood; else None.
    """

    value: float
    grad: Floats
    n_instances: int
    n_diverged: int = 0
    n_not_converged: int = 0
    bound: Bound | None = None


@dataclass(frozen=True, kw_only=True)
class Loss(ABC):
    """Base of all losses.

    Parameters
    ----------
    template : Template
        How log potentials follow from the weights.
    l2 : float
        The ridge, relative to the loss per labelled variable.
    threads : int, optional
        Instances evaluated side by side; None means all cores. It changes no byte of the answer.
    """

    template: Template
    l2: float = 0.0
    threads: int | None = 1
    _kept: KeptBatches[Any] = field(default_factory=KeptBatches, init=False, repr=False, compare=False)

    name: ClassVar[str]
    hidden: ClassVar[bool] = False
    """Whether variables without a label are allowed."""

    by_variable: ClassVar[bool] = True
    """Whether the loss is a sum of terms that can be weighted by the label of their variable."""

    stochastic: ClassVar[bool] = False
    """Whether value and gradient are estimates, which line searches cannot use."""

    clamps: ClassVar[bool] = False
    """Whether inference is also run with the labels as evidence, where some are hidden."""

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """The methods of inference that it runs; None unless the loss of a disjoint union is the sum of its parts'.

        Small instances are then evaluated together if the methods treat a union as its parts.
        """
        return None

    def __post_init__(self) -> None:
        check_option(is_number(self.l2) and self.l2 >= 0, "l2", "a number of at least 0", self.l2)
        check_integer("threads", self.threads, 1, MANY, none=True)

    @abstractmethod
    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return loss and gradient of one instance as a function of its log potentials."""

    def value_and_grad(self, weights: Floats, instances: Iterable[Instance]) -> tuple[float, Floats]:
        """Return the regularised loss per labelled variable and its gradient ``(n_weights,)``."""
        found = self.evaluate(weights, instances)
        return found.value, found.grad

    def evaluate(self, weights: Floats, instances: Iterable[Instance]) -> Evaluation:
        """Return what :meth:`value_and_grad` returns, and the flags."""
        grad, value, count = np.zeros(self.template.n_weights), 0.0, 0.0
        n = diverged = waiting = 0
        worth: set[Bound | None] = set()
        for found in self._parts(weights, instances):
            for instance, part, pulled in found:
                value += instance.weight * part.value
                grad += pulled
                count += instance.n_counted
                n += instance.n_parts
                diverged, waiting = diverged + part.diverged, waiting + (not part.converged)
                worth.add(part.bound)
        if not count > 0:
            raise ModelError("no variable of any instance has a label; a loss needs labels to compare with")
        value, grad = value / count + self.l2 * float(weights @ weights), grad / count + 2.0 * self.l2 * weights
        return Evaluation(value, grad, n, diverged, waiting, _common(worth))

    def forget(self) -> None:
        """Let go of what was made of lists of instances."""
        self._kept.clear()

    def _parts(
        self, weights: Floats, instances: Iterable[Instance]
    ) -> Iterable[Sequence[tuple[Instance, InstanceLoss, Floats]]]:
        """Yield windows of evaluated instances, in order whatever the number of threads."""
        joiner = Joiner.of(self)
        if joiner is not None and isinstance(instances, list | tuple):
            instances = self._kept.of(instances, lambda whole: list(joiner.units(whole)))
        elif joiner is not None:
            instances = joiner.units(instances)

        def one(instance: Instance) -> list[tuple[Instance, InstanceLoss, Floats]]:
            if not isinstance(instance, Joined):
                self.check(instance)
                return [(instance, *self._evaluated(weights, instance))]
            if not instance.is_apart():
                together = self._together(weights, instance)
                if together is not None:
                    return [(instance, *together)]
                instance.leave_apart()
            assert joiner is not None
            return [found for half in joiner.halves(instance) for found in one(half)]

        threads = (os.cpu_count() or 1) if self.threads is None else self.threads
        if threads == 1:
            for instance in instances:
                yield one(instance)
            return
        with ThreadPoolExecutor(threads) as pool:
            window: list[Instance] = []
            for instance in instances:
                again = any(instance is other for other in window)  # goes on from what the other leaves: not beside it
                if again or len(window) == threads * _WINDOW:
                    yield list(chain.from_iterable(pool.map(one, window)))
                    window = []
                window.append(instance)
            yield list(chain.from_iterable(pool.map(one, window)))

    def _evaluated(self, weights: Floats, instance: Instance) -> tuple[InstanceLoss, Floats]:
        """Return what an instance contributes, and the gradient in the weights."""
        part = self.part(self.template.theta(weights, instance.inputs), instance)
        pulled = np.zeros(self.template.n_weights)
        self.template.add_pullback(weights, instance.inputs, instance.weight * part.grad_theta, pulled)
        return part, pulled

    def _together(self, weights: Floats, instance: Joined) -> tuple[InstanceLoss, Floats] | None:
        """Return what joined instances contribute; None where one of them fails or raises a flag."""
        try:
            part, pulled = self._evaluated(weights, instance)
        except BeliefsError:
            return None
        return (part, pulled) if part.converged and not part.diverged else None

    def check(self, instance: Instance) -> None:
        """Raise if the loss cannot serve an instance."""
        if not self.hidden and instance.n_labelled < instance.labels.size:
            v = int(np.argmin(instance.labelled))
            raise ModelError(
                f"{instance.name}: variable {v} has no label, and {self.name} is not defined with hidden variables; "
                "try surrogate_em or a marginal loss such as clique_logistic"
            )
        if instance.label_weights is not None and not self.by_variable:
            raise ModelError(
                f"{self.name} is not a sum over variables, so labels cannot be weighted one by one; weight whole "
                "instances (sample_weight) or use a marginal loss such as univariate_logistic"
            )


def _common(bounds: set[Bound | None]) -> Bound | None:
    """Return what a sum is when its terms are these."""
    if None in bounds:
        return None
    inexact = bounds - {Bound.EXACT}
    if not inexact:
        return Bound.EXACT
    return inexact.pop() if len(inexact) == 1 else Bound.ESTIMATE
