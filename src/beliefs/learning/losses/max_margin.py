r"""Max-margin learning with hidden variables: a temperature for the outputs, and one for what is hidden.

.. math::
    L(\theta) = \varepsilon_y \log \sum_y \exp \frac{1}{\varepsilon_y} \Bigl( \Delta(\hat y, y)
        + \varepsilon_h \log \sum_h \exp \frac{\theta(y, h)}{\varepsilon_h} \Bigr)
        - \varepsilon_h \log \sum_h \exp \frac{\theta(\hat y, h)}{\varepsilon_h}

with the maximum at temperature 0 ([ping2014], [ping2016] Eq. 4.6). Variables with a label are outputs y, those without
are hidden, h. The gradient is the difference of two expectations of the statistics (Eqs. 4.7-4.9), at
:math:`\varepsilon_y = 0` that at the loss-augmented state :math:`\arg\max_y \Delta + \dots`, the first of several.

=============================================  =================  =========  =========================================
corner                                         eps_y, eps_h       delta      source
=============================================  =================  =========  =========================================
structured SVM (nothing hidden)                0, any             hamming    [taskar2003], [tsochantaridis2005]
latent structured SVM                          0, 0               hamming    [yu2009]
marginal structured SVM                        0, 1               hamming    [ping2014]
epsilon-extension                              e, e               hamming    [schwing2012]
loss-augmented likelihood                      1, 1               hamming    [volkovs2011]
likelihood, hidden CRF                         1, 1               none       :class:`Likelihood`
structured perceptron                          0, 0               none       :class:`SaddlePoint`
=============================================  =================  =========  =========================================

Guarantees: at least the cost of the annealed marginal MAP :math:`\arg\max_y \varepsilon_h \log \sum_h
\exp(\theta / \varepsilon_h)` whatever the costs (Lemma B.1.1 [ping2016]); non-decreasing in eps_y; convex without
hidden variables, else a difference of convex functions. The evaluation says what the value is of the exact one
(``bound``), and has a certified upper bound (``upper``) where there is one.

Cost: one inference for each term. With different temperatures hidden variables are eliminated before the outputs, which
may be wide: a chain whose hidden variables are every second one is cheap, one long run of hidden variables with outputs
attached is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from beliefs.errors import BudgetError, ModelError, ZeroProbabilityError
from beliefs.inference.base import Method
from beliefs.inference.run import Answer
from beliefs.inference.temperatures import check_temperature
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import Needs
from beliefs.learning.losses.costs import augmented, checked_delta, costs_of
from beliefs.learning.losses.difference import DifferenceLoss
from beliefs.learning.losses.power_sums import exact_power_sum
from beliefs.model.graph import FactorGraph
from beliefs.typing import Bools

__all__ = ["MaxMargin"]


@dataclass(frozen=True, kw_only=True)
class MaxMargin(DifferenceLoss):
    """How far the labels are from beating every other labelling by its cost.

    Parameters
    ----------
    eps_y, eps_h : float
        Temperatures of labelled and of hidden variables: 0 maximises, 1 sums.
    delta : str or array_like (K, K)
        What wrong labels cost: ``"hamming"`` counts them, weighted by the labels' weights,
        ``"none"``, or a table ``[true, predicted]``. Costs of an instance (``Instance.costs``) come before it.
    """

    eps_y: float = 0.0
    eps_h: float = 1.0
    delta: Any = "hamming"

    name: ClassVar[str] = "max_margin"
    needs: ClassVar[Needs] = Needs.EXACT

    def __post_init__(self) -> None:
        super().__post_init__()
        check_temperature("eps_y", self.eps_y)
        check_temperature("eps_h", self.eps_h)
        object.__setattr__(self, "delta", checked_delta(self.delta))

    def check(self, instance: Instance) -> None:
        """Raise for an instance without labels, or with costs that are none."""
        if not instance.n_labelled:
            raise ModelError(f"{instance.name}: no variable has a label, so no output is left to compare with")
        costs_of(self.delta, instance)

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """Exact inference alone."""
        return ()

    # -- both terms -------------------------------------------------------------------------------------------------
    def free(self, graph: FactorGraph, instance: Instance) -> Answer:
        """Return the power sum of all variables with the costs of the outputs, over the cells of the graph."""
        costs = costs_of(self.delta, instance)
        if not costs.any():
            return self._power_sum(graph, ~instance.labelled, instance)
        with_costs = augmented(instance)
        found = self._power_sum(with_costs.graph(graph.theta, costs), ~instance.labelled, instance)
        return with_costs.restricted(found)

    def clamped(self, graph: FactorGraph, instance: Instance) -> Answer:
        """Return the power sum of the hidden variables given the labels."""
        try:
            return self._power_sum(graph, ~instance.labelled, instance)
        except ZeroProbabilityError:
            raise ZeroProbabilityError(
                f"{instance.name}: hard zeros exclude the labels, whatever the hidden variables are; no weights can "
                "make such labels likely, so correct the labels or drop the hard zeros"
            ) from None

    def expected_cost(self, free: Answer, instance: Instance) -> float:
        """Return the expected cost under the free answer; that of its state where it is one."""
        return float(costs_of(self.delta, instance) @ free.mu_var)

    def _power_sum(self, graph: FactorGraph, inner: Bools, instance: Instance) -> Answer:
        try:
            return exact_power_sum(graph, inner, float(self.eps_y), float(self.eps_h))
        except BudgetError as error:
            raise BudgetError(
                f"{instance.name} is too wide for exact inference at eps_y={self.eps_y:g} and eps_h={self.eps_h:g}; "
                f"use a method such as bp, or equal temperatures ({error})"
            ) from None
