r"""Max-margin min-entropy models: outputs that score well and leave little doubt about what is hidden.

.. math::
    L(\theta) = \max_y \bigl( \Delta(\hat y, y) + R_a(y) \bigr) - R_a(\hat y), \qquad
    R_a(y) = \frac{1}{a - 1} \Bigl( \log \sum_h e^{a\, \theta(y, h)} - \log \sum_h e^{\theta(y, h)} \Bigr)

([miller2012]). :math:`-R_a(y)` is, but for log Z, the generalised Rényi entropy of order a of the unnormalised
distribution over h that y leaves: :math:`-\log p(y) + H_a(h \mid y)`. Order 1 is the limit, the expectation of the
score (Shannon's entropy); as the order grows R approaches the maximum over h, so the loss that of the latent structured
SVM (``max_margin(eps_h=0)``).

Where no factor holds two hidden variables they are independent given the outputs, and R is a sum: of the factors
without hidden variables, and of one table a hidden variable over the outputs around it. Maximising a model of such
tables is exact inference over outputs alone; anything else is refused. Not convex with hidden variables, and its two
terms are not either; :mod:`~beliefs.learning.losses.min_entropy_majorant` has a convex function above it. Cost: a
maximisation, and a few exponentials a cell around hidden variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import ModelError, UnsupportedError, ZeroProbabilityError
from beliefs.inference.base import Bound
from beliefs.inference.portfolio.auto import exact_method
from beliefs.inference.run import best_states
from beliefs.learning.instances import HIDDEN, Instance
from beliefs.learning.losses.base import InstanceLoss, Loss
from beliefs.learning.losses.costs import checked_delta, costs_of
from beliefs.learning.losses.difference import any_hidden
from beliefs.learning.losses.exact_inference import ExactInference
from beliefs.learning.losses.min_entropy_majorant import MinEntropyMajorant, keep_scores
from beliefs.learning.losses.outputs_model import outputs_model
from beliefs.options import check_option, is_number
from beliefs.typing import Floats, Ints

__all__ = ["MinEntropy"]


@dataclass(frozen=True, kw_only=True)
class MinEntropy(ExactInference, Loss):
    """The margin of the outputs' entropies.

    Parameters
    ----------
    order : float
        Of the entropy, above 0.
    delta : str or array_like (K, K)
        As in :class:`~beliefs.learning.losses.max_margin.MaxMargin`, without ``"zero_one"``.
    """

    order: float = 2.0
    delta: Any = "hamming"

    name: ClassVar[str] = "m3e"
    hidden: ClassVar[bool] = True
    by_variable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        ok = is_number(self.order) and 0 < self.order <= 1e6
        check_option(ok, "order", "a number above 0, up to 1e6 (beyond, max_margin(eps_h=0) is the limit)", self.order)
        object.__setattr__(self, "delta", checked_delta(self.delta))
        if self.delta == "zero_one":
            raise UnsupportedError(f"{self.name} takes costs that are sums over variables, so not delta='zero_one'")

    def check(self, instance: Instance) -> None:
        """Raise for an instance without labels, with bad costs, or with hidden variables that depend on each other."""
        if not instance.n_labelled:
            raise ModelError(f"{instance.name}: no variable has a label, so no output is left to compare with")
        costs_of(self.delta, instance)
        lay, inner = instance.layout, ~instance.labelled
        n_hidden = np.bincount(lay.edge_factor, inner[lay.scope_vars], lay.n_factors)
        if (n_hidden > 1).any():
            f = int(np.argmax(n_hidden))
            scope = ", ".join(str(v) for v in lay.scope(f) if inner[v])
            raise UnsupportedError(
                f"{instance.name}: {self.name} needs hidden variables that are independent given the outputs, and "
                f"factor {f} holds the hidden variables {scope}; use max_margin"
            )

    def is_convex(self, data: Any) -> bool:
        """Whether nothing is hidden."""
        return not any_hidden(data)

    def is_smooth(self, data: Any) -> bool:
        """It has kinks where two labellings are best."""
        return False

    @property
    def alternates(self) -> bool:
        """Whether there is a convex function above it that touches it anywhere."""
        return self.order != 1

    def majorant(self, weights: Floats, data: Any) -> Loss:
        """Return the convex function above it that touches it at some weights."""
        keep_scores(self, weights, data)
        return self.above

    @property
    def above(self) -> MinEntropyMajorant:
        """The family of these functions."""
        return MinEntropyMajorant(
            template=self.template, l2=self.l2, threads=self.threads, order=self.order, delta=self.delta
        )

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return the difference of the best outputs' value and the labels', and of their gradients."""
        model, costs = outputs_model(instance), costs_of(self.delta, instance)
        graph = model.graph(theta, float(self.order), costs)
        of_labels = model.value(graph, instance.labels)
        if of_labels == -np.inf:
            raise ZeroProbabilityError(
                f"{instance.name}: hard zeros exclude the labels, whatever the hidden variables are; no weights can "
                "make such labels likely, so correct the labels or drop the hard zeros"
            )
        best = best_states(graph, exact_method(model.layout), max_iters=1)[0]
        value = model.value(graph, best) - of_labels
        plane, n = instance.n_labelled == instance.labels.size, theta.size
        if not value > 0:
            return InstanceLoss(0.0, np.zeros(n), bound=Bound.EXACT, upper=0.0, minorant=plane)
        order = float(self.order)
        grad = model.gradient(theta, best, order) - model.gradient(theta, instance.labels, order)
        delta = float(costs[model.layout.state_ptr[:-1] + best].sum())
        return InstanceLoss(value, grad, bound=Bound.EXACT, upper=value, minorant=plane, delta=delta)

    def best(self, theta: Floats, instance: Instance) -> Ints:
        """Return the outputs that the model predicts, of least generalised entropy; hidden variables are -1."""
        model = outputs_model(instance)
        graph = model.graph(theta, float(self.order), np.zeros(instance.layout.n_states))
        states = np.array(best_states(graph, exact_method(model.layout), max_iters=1)[0], np.int64)
        return np.where(instance.labelled, states, HIDDEN)
