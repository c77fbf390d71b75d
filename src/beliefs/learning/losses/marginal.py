r"""Losses on marginals: how good are the beliefs that inference gives, at the labels?

:math:`L(\theta) = Q(\mu(\theta))`, with the beliefs of whatever inference will be used for prediction
([domke2013] section 4.2). Sums run over the labelled variables, or over the factors of two or more variables all of
which are labelled (the clique forms; a labelled variable in no such factor counts for itself there). Variables
without label drop out of the sum and still receive gradient through inference.

===================================  ===================================================================================
``univariate_logistic``              :math:`-\sum_i \log \mu(\hat x_i)`: the divergence between marginals
``clique_logistic``                  :math:`-\sum_c \log \mu(\hat x_c)`; consistent for well-specified models
``univariate_quadratic``             :math:`\sum_i [-2 \mu(\hat x_i) + \sum_k \mu_i(k)^2]`: Brier score minus one
``clique_quadratic``                 the same over factors
``smoothed_classification``          :math:`\sum_i S(\max_{k \ne \hat x_i} \mu_i(k) - \mu_i(\hat x_i))`,
                                     :math:`S(t) = 1/(1+e^{-\alpha t})`; towards the error rate as alpha grows, and with
                                     more local minima: start from the solution of another loss
``clique_smoothed_classification``   the same over factors
===================================  ===================================================================================

Not convex in general. Cost: one inference and its way back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from beliefs.errors import NotConvergedError
from beliefs.kernels.losses.marginal import logistic_loss, quadratic_loss, smoothed_classification_loss
from beliefs.learning.instances import Instance, Slot
from beliefs.learning.losses.base import InstanceLoss
from beliefs.learning.losses.through import LossThroughInference
from beliefs.options import check_number
from beliefs.typing import Floats, Ints

__all__ = [
    "CliqueLogistic",
    "CliqueQuadratic",
    "CliqueSmoothedClassification",
    "MarginalLoss",
    "SmoothedClassification",
    "UnivariateLogistic",
    "UnivariateQuadratic",
]


@dataclass(frozen=True, eq=False)
class LossTerms:
    """Runs of beliefs and the entry of each that the labels pick; see :mod:`beliefs.kernels.losses.marginal`."""

    begin: Ints
    size: Ints
    target: Ints
    weight: Floats

    @classmethod
    def of_variables(cls, instance: Instance, chosen: Ints) -> LossTerms:
        """One term per labelled variable among these."""
        chosen = chosen[instance.labelled[chosen]]
        lay, weights = instance.layout, instance.label_weights
        weight = np.ones(chosen.size) if weights is None else weights[chosen]
        return cls(lay.state_ptr[chosen], lay.card[chosen], instance.labels[chosen], weight)

    @classmethod
    def of_factors(cls, instance: Instance) -> LossTerms:
        """One term per factor of two or more variables that all have labels, weighted by their mean."""
        lay = instance.layout
        arity = lay.arity
        f = np.flatnonzero((arity > 1) & (instance.label_cells >= 0))
        weight = np.ones(f.size)
        if instance.label_weights is not None:
            sums = np.bincount(lay.edge_factor, instance.label_weights[lay.scope_vars], lay.n_factors)
            weight = sums[f] / arity[f]
        return cls(lay.table_ptr[f], lay.factor_size[f], instance.label_cells[f] - lay.cell_ptr[f], weight)


Terms: TypeAlias = tuple[LossTerms, LossTerms | None]


@dataclass(frozen=True, kw_only=True)
class MarginalLoss(LossThroughInference):
    """Base of the losses on marginals; ``through`` is how inference is run and differentiated."""

    hidden: ClassVar[bool] = True
    cliques: ClassVar[bool] = False
    kernel: ClassVar[Callable[..., float]]

    @property
    def sharpness(self) -> float:
        """The alpha of smoothed losses."""
        return 0.0

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Run inference, compare with the labels, and go back."""
        slot = Slot[Any]("warm start of beliefs", repr(self.through))
        beliefs = self.through.run(instance.graph(theta), instance.memory.get(slot))
        if beliefs.warm_state is not None:
            instance.memory.put(slot, beliefs.warm_state)
        alone, joint = self._terms(instance)
        bar_var, bar_factor = np.zeros(instance.layout.n_states), None
        value = self._compare(alone, beliefs.mu_var, bar_var)
        if joint is not None:
            mu_factor = beliefs.mu_factor
            bar_factor = np.zeros(mu_factor.size)
            value += self._compare(joint, mu_factor, bar_factor)
        try:
            grad = beliefs.pullback(bar_var, bar_factor)
        except NotConvergedError:  # no gradient here: an infinite loss makes the optimiser take a smaller step
            return InstanceLoss(np.inf, np.zeros(theta.size), converged=False)
        return InstanceLoss(value, grad, converged=beliefs.converged)

    def _compare(self, terms: LossTerms, mu: Floats, bar: Floats) -> float:
        return float(self.kernel(terms.begin, terms.size, terms.target, terms.weight, self.sharpness, mu, bar))

    def _terms(self, instance: Instance) -> Terms:
        """Return the terms over variables, and over factors for the clique forms; made once an instance."""
        slot = Slot[Terms]("clique terms" if self.cliques else "terms")
        return instance.memory.of(slot, lambda: self._made_terms(instance))

    def _made_terms(self, instance: Instance) -> Terms:
        lay = instance.layout
        variables = np.arange(lay.n_vars)
        if not self.cliques:
            return LossTerms.of_variables(instance, variables), None
        joined = ((lay.arity > 1) & (instance.label_cells >= 0))[lay.edge_factor]
        variables = np.setdiff1d(variables, lay.scope_vars[joined])
        return LossTerms.of_variables(instance, variables), LossTerms.of_factors(instance)


@dataclass(frozen=True, kw_only=True)
class UnivariateLogistic(MarginalLoss):
    """The negative log of each labelled variable's belief in its label."""

    name: ClassVar[str] = "univariate_logistic"
    kernel = staticmethod(logistic_loss)


@dataclass(frozen=True, kw_only=True)
class CliqueLogistic(UnivariateLogistic):
    """The negative log of each labelled factor's belief in its labels."""

    name: ClassVar[str] = "clique_logistic"
    cliques: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class UnivariateQuadratic(MarginalLoss):
    """The Brier score of each labelled variable, minus one."""

    name: ClassVar[str] = "univariate_quadratic"
    kernel = staticmethod(quadratic_loss)


@dataclass(frozen=True, kw_only=True)
class CliqueQuadratic(UnivariateQuadratic):
    """The Brier score of each labelled factor, minus one."""

    name: ClassVar[str] = "clique_quadratic"
    cliques: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class SmoothedClassification(MarginalLoss):
    """A smooth count of errors.

    Parameters
    ----------
    alpha : float
        How sharp: 5, 15 and 50 in [domke2013]. Large numbers make it flat almost everywhere.
    """

    alpha: float = 15.0

    name: ClassVar[str] = "smoothed_classification"
    kernel = staticmethod(smoothed_classification_loss)
    starts_from: ClassVar[str] = "surrogate"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("alpha", self.alpha, positive=True)

    @property
    def sharpness(self) -> float:
        """The alpha."""
        return float(self.alpha)


@dataclass(frozen=True, kw_only=True)
class CliqueSmoothedClassification(SmoothedClassification):
    """A smooth count of factors whose labels are not the most likely ones."""

    name: ClassVar[str] = "clique_smoothed_classification"
    cliques: ClassVar[bool] = True
