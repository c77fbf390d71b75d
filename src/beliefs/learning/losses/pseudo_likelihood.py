r"""Pseudo-likelihood: each variable predicted from the labels of all others.

.. math:: a_i(k) = \sum_{c \ni i} \theta_c(k, \hat x_{c \setminus i}), \qquad p_i = \mathrm{softmax}(a_i), \qquad
          L(\theta) = -\sum_i \log p_i(\hat x_i)

.. math:: \frac{dL}{d\theta_c(k, \hat x_{c \setminus i})} \mathrel{+}= p_i(k) - [k = \hat x_i]
          \quad \text{for all } i \in c

[besag1975]. No inference, convex in theta, and consistent: with data from a model of the family the gradient vanishes
in expectation at the true parameters. With few data or a wrong model it trusts neighbours too much, since at test time
nobody gives their labels ([domke2013] section 4.1.4).

Hidden variables: the model is restricted to the labelled variables and the factors among them; a factor with a hidden
variable is left out. That is no marginal of the model, and weights of such factors alone get no gradient.

Cost: the states of each edge, twice, and one exponential per state of a variable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from beliefs.inference.base import Method
from beliefs.kernels.losses.pseudo_likelihood import add_conditional_errors, conditional_errors, conditional_logits
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import InstanceLoss, Loss
from beliefs.learning.losses.label_scores import known_labels, label_score
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["PseudoLikelihood", "add_conditionals", "conditional_part"]

_ANY_WIDTH = 2**62


@dataclass(frozen=True, kw_only=True)
class PseudoLikelihood(Loss):
    """The sum over variables of the negative log-probability of a label given those of all other variables.

    Examples
    --------
    >>> from beliefs.model.features import FactorType, LogLinearTemplate, Rows
    >>> from beliefs.model.layout import Layout
    >>> layout = Layout.build([2, 2], [0, 2], [0, 1])
    >>> pair = Instance(layout, (Rows(1),), np.array([1, 1]))
    >>> loss = PseudoLikelihood(template=LogLinearTemplate([FactorType("pair", 4)]))
    >>> value, grad = loss.value_and_grad(np.array([0.0, 0.0, 0.0, np.log(3.0)]), [pair])
    >>> round(float(np.exp(-value)), 6), grad
    (0.75, array([ 0.   ,  0.125,  0.125, -0.25 ]))
    """

    name: ClassVar[str] = "pseudo_likelihood"
    hidden: ClassVar[bool] = True

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """No inference."""
        return ()

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return value and gradient; label weights multiply the terms of their variables."""
        return conditional_part(instance.graph(theta), instance)


def conditional_part(graph: FactorGraph, instance: Instance) -> InstanceLoss:
    """Return the negative log pseudo-likelihood and its gradient in theta."""
    label_score(graph, instance)
    grad = np.zeros(graph.layout.n_cells)
    return InstanceLoss(add_conditionals(graph, instance, grad), grad)


def add_conditionals(graph: FactorGraph, instance: Instance, grad: Floats, widest: int = _ANY_WIDTH) -> float:
    """Return the sum of the variables' terms, made of factors of at most ``widest`` variables; add to the gradient.

    With ``widest=1`` each variable stands alone.
    """
    lay, labels = graph.layout, known_labels(instance)
    stride, cells, logits = lay.edge_stride, instance.label_cells, np.zeros(lay.n_states)
    given = instance.label_weights
    weights = np.ones(lay.n_vars) if given is None else np.array(given, np.float64)
    conditional_logits(lay.scopes, stride, widest, labels, cells, graph.theta, logits)
    value = conditional_errors(lay.state_ptr, labels, weights, logits)
    add_conditional_errors(lay.scopes, stride, widest, labels, cells, logits, grad)
    return float(value)
