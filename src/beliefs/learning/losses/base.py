r"""What a loss on instances is: a number that says what one instance costs, and its gradient in the log potentials.

.. math:: R(w) = \frac{1}{n} \sum_{\text{instances}} a_s L(\theta(x_s; w), \hat x_s) + \lambda \lVert w \rVert^2

A loss says what one instance costs as a function of its log potentials. How potentials follow from weights and
gradients go back is the template's; the sum, the ridge and the threads are those of
:class:`~beliefs.learning.batches.BatchLoss`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.base import Bound, Method
from beliefs.learning.batches import Batch, BatchLoss, Share
from beliefs.learning.fit_loss import Evaluation
from beliefs.learning.instance_batch import InstanceBatch
from beliefs.learning.instances import Instance
from beliefs.learning.joined import Joiner
from beliefs.learning.losses.inference import InferenceSpec
from beliefs.learning.parallel import Executor
from beliefs.model.features import Template
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["Evaluation", "InstanceLoss", "Loss", "Needs"]


class Needs(Enum):
    """What a loss needs, besides labels, to be evaluated."""

    NOTHING = "no inference"
    EXACT = "exact inference, which it chooses"
    METHOD = "a method, run until it converges"
    GRADIENT = "a method and a way to differentiate through it"
    SWEEPS = "a method that makes a number of sweeps, and its derivative"
    SAMPLES = "Gibbs sampling, which it does itself"


@dataclass(frozen=True, eq=False)
class InstanceLoss:
    """What one instance contributes: its loss and the gradient in ``theta``; and whether the numbers can be trusted.

    ``diverged``: a surrogate log-probability of the labels is positive, so too few sweeps have left the objective
    unbounded ([domke2013] section 7.3). ``converged``: inference met its tolerance. ``bound``: for likelihoods and
    margins, what the value is of the one with exact inference. ``upper``: a certified upper bound on that; inf: none.
    ``minorant``: the tangent ``value + grad_theta . (theta' - theta)`` is nowhere above it, so a cutting plane.
    ``delta``: the loss of the loss-augmented state, its expectation where that is soft.
    """

    value: float
    grad_theta: Floats
    diverged: bool = False
    converged: bool = True
    bound: Bound | None = None
    upper: float = np.inf
    minorant: bool = False
    delta: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Loss(BatchLoss):
    """Base of the losses on instances.

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

    hidden: ClassVar[bool] = False
    """Whether variables without a label are allowed."""

    by_variable: ClassVar[bool] = True
    """Whether the loss is a sum of terms that can be weighted by the label of their variable."""

    clamps: ClassVar[bool] = False
    """Whether inference is also run with the labels as evidence, where some are hidden."""

    needs: ClassVar[Needs] = Needs.NOTHING
    """What it needs to be evaluated."""

    starts_from: ClassVar[str] = "independent"
    """What is fitted first where nothing else is asked for: the ``independent`` model, and then a ``surrogate``."""

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """The methods of inference that it runs; None unless the loss of a disjoint union is the sum of its parts'.

        Small instances are then evaluated together if the methods treat a union as its parts.
        """
        return None

    # -- inference ------------------------------------------------------------------------------------------------
    @classmethod
    def taken(cls, inference: InferenceSpec) -> dict[str, Any]:
        """Return the options that follow from the inference it is given; none where it needs none."""
        return {}

    def marginals(self, graph: FactorGraph, inference: InferenceSpec) -> Floats:
        """Return the marginals ``(n_states,)`` that a model fitted by this loss predicts with.

        Those of its own inference, sweep for sweep; without any, those of the inference at hand, run to convergence.
        """
        return inference.marginals(graph)

    def is_exact(self, inference: InferenceSpec) -> bool:
        """Whether these marginals are the exact ones."""
        return inference.method.guarantee == "exact"

    @property
    def predicts_jointly(self) -> bool:
        """Whether the marginals of several small inputs may be found together.

        Not where inference runs until convergence: the last digits of an answer would depend on what else is asked in
        the same call.
        """
        return False

    # -- evaluation -----------------------------------------------------------------------------------------------
    @property
    def n_weights(self) -> int:
        """Number of weights of the template."""
        return self.template.n_weights

    @abstractmethod
    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return loss and gradient of one instance as a function of its log potentials."""

    def batches(self, data: Any) -> Iterable[Batch]:
        """Return instances as units of work, small ones joined; what is joined of a list is kept for the next time."""
        joiner = Joiner.of(self)
        if joiner is None:
            return (self._batch(data, None),)
        if not isinstance(data, list | tuple):
            return (self._batch(joiner.units(data), joiner),)
        return self._recent.of(data, lambda: (self._batch(list(joiner.units(data)), joiner),))

    def _batch(self, units: Iterable[Instance], joiner: Joiner | None) -> InstanceBatch:
        return InstanceBatch(units, self.share, self.check, joiner)

    def share(self, weights: Floats, instance: Instance) -> Share:
        """Return what an instance, or several joined, adds to the sum."""
        part = self.part(self.template.theta(weights, instance.inputs), instance)
        pulled = np.zeros(self.template.n_weights)
        self.template.add_pullback(weights, instance.inputs, instance.weight * part.grad_theta, pulled)
        return Share(
            instance.weight * part.value,
            pulled,
            instance.n_counted,
            instance.n_parts,
            int(part.diverged),
            int(not part.converged),
            part.bound,
            instance.weight * part.upper if instance.weight else 0.0,  # nothing is no share of what has no bound
            part.minorant,
            instance.weight * part.delta,
        )

    def shares(self, weights: Floats, instances: Sequence[Instance], executor: Executor) -> Iterable[Share]:
        """Yield what each of some instances adds, in their order; :meth:`batches` join small ones."""

        def one(instance: Instance) -> Share:
            self.check(instance)
            return self.share(weights, instance)

        return executor.windows(one, instances)

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
