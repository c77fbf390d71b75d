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
multinomial latent logistic regression         1, 0               any        [xu2016]
structured perceptron                          0, 0               none       :class:`SaddlePoint`
=============================================  =================  =========  =========================================

Guarantees: at least the cost of the annealed marginal MAP :math:`\arg\max_y \varepsilon_h \log \sum_h
\exp(\theta / \varepsilon_h)` whatever the costs (Lemma B.1.1 [ping2016]); non-decreasing in eps_y; convex without
hidden variables, else a difference of convex functions. The evaluation says what the value is of the exact one
(``bound``), and has a certified upper bound (``upper``) where there is one.

Inference is exact by default. With different temperatures hidden variables are eliminated before the outputs, which may
be wide: a chain whose hidden variables are every second one is cheap, one long run of hidden variables with outputs
attached is not. With a ``method`` (:mod:`beliefs.learning.losses.approximate`) and eps_y = 0 the value is that of the
best outputs that it decodes, a lower bound where hidden variables are summed exactly. The labels themselves count as
candidates, with or without a method: the value is never below 0, and where nothing beats them the gradient is 0.
``certified`` takes an upper bound for the free term and a lower one for the labels', so the value is an upper bound.
Cost: one inference for each term.

``rescaling="slack"``: see :mod:`beliefs.learning.losses.slack`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import BudgetError, ModelError, UnsupportedError, ZeroProbabilityError
from beliefs.inference.base import Bound, Method, Task
from beliefs.inference.portfolio.auto import exact_method
from beliefs.inference.run import Answer, answer, settled
from beliefs.inference.temperatures import check_temperature
from beliefs.learning.instances import Instance
from beliefs.learning.losses import zero_one
from beliefs.learning.losses.approximate import Approximation, certified_lower, check_answers
from beliefs.learning.losses.base import InstanceLoss, Needs
from beliefs.learning.losses.costs import MarginAnswer, augmented, checked_delta, costs_of
from beliefs.learning.losses.difference import DifferenceLoss, any_hidden
from beliefs.learning.losses.inference import InferenceSpec, method_and_tol
from beliefs.learning.losses.power_sums import exact_power_sum, given_outputs
from beliefs.learning.losses.slack import check_slack, slack_part
from beliefs.model.graph import FactorGraph
from beliefs.options import check_integer, check_number, check_option, is_word
from beliefs.typing import Floats

__all__ = ["MaxMargin"]


@dataclass(frozen=True, kw_only=True)
class MaxMargin(DifferenceLoss):
    """How far the labels are from beating every other labelling by its cost.

    Parameters
    ----------
    eps_y, eps_h : float
        Temperatures of labelled and of hidden variables: 0 maximises, 1 sums.
    delta : str or array_like (K, K)
        What wrong labels cost: ``"hamming"`` counts them, weighted by the labels' weights, ``"zero_one"`` is 1 if any
        is wrong, ``"none"``, or a table ``[true, predicted]``. ``Instance.costs`` come before it.
    rescaling : {"margin", "slack"}
        Whether the cost is added to the margin or multiplies it.
    method : Method, optional
        For the free term; None: exact. ``bp``, ``trw``, ``wmb`` and ``gdd`` answer all corners with eps_y = 0 or equal
        temperatures.
    clamped_method : Method, optional
        For the hidden variables given outputs; None: the same as ``method``, or exact where that cannot.
    certified : bool
        Whether the value is to be an upper bound on the loss with exact inference.
    tol, max_iters : optional
        When a method stops: the residual (None: its own), and the iterations of maximisation.
    seed : int
        For methods that draw random numbers.
    """

    eps_y: float = 0.0
    eps_h: float = 1.0
    delta: Any = "hamming"
    rescaling: str = "margin"
    method: Method | None = None
    clamped_method: Method | None = None
    certified: bool = False
    tol: float | None = None
    max_iters: int | None = 50
    seed: int = 0

    name: ClassVar[str] = "max_margin"
    needs: ClassVar[Needs] = Needs.METHOD
    least: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_temperature("eps_y", self.eps_y)
        check_temperature("eps_h", self.eps_h)
        object.__setattr__(self, "delta", checked_delta(self.delta))
        for name in ("method", "clamped_method"):
            value = getattr(self, name)
            check_option(value is None or isinstance(value, Method), name, "a method, such as BP(), or None", value)
        check_option(isinstance(self.certified, bool), "certified", "True or False", self.certified)
        check_number("tol", self.tol, none=True)
        check_integer("max_iters", self.max_iters, 0, none=True)
        check_integer("seed", self.seed, 0)
        check_option(is_word(self.rescaling, ("margin", "slack")), "rescaling", "margin or slack", self.rescaling)
        if self._approximate is not None:
            check_answers(self._approximate, self.eps_y, self.eps_h, hidden=False, certified=self.certified)
        self._check_combination()

    def _check_combination(self) -> None:
        """Refuse options that do not go together."""
        if self.rescaling == "slack" and (self.eps_y > 0 or self.delta != "hamming" or self._approximate is not None):
            raise UnsupportedError(
                "rescaling='slack' maximises exactly over errors: it needs eps_y=0, delta='hamming' and None for exact "
                "inference"
            )
        if self.delta == "zero_one" and self._approximate is not None:
            raise UnsupportedError("delta='zero_one' is no sum over variables, so it needs None for exact inference")
        if self.delta == "zero_one" and 0 < self.eps_y < zero_one.COLDEST:
            raise UnsupportedError(
                f"delta='zero_one' needs eps_y of 0 or at least {zero_one.COLDEST:g}, found {self.eps_y:g}"
            )
        other = self.clamped_method
        if other is None or self.eps_h == 0 or _is_exact(other):
            return
        if Task.INFER not in other.tasks:
            raise UnsupportedError(f"{other.name} does not answer infer, as clamped_method must at eps_h > 0")
        if self.certified and not other.guarantee.gives(Bound.LOWER):
            raise UnsupportedError(
                f"{other.name} gives no lower bound on sums, which certified=True needs of clamped_method; use "
                "mean_field, or None for exact inference"
            )

    def check(self, instance: Instance) -> None:
        """Raise for an instance without labels, with bad costs, or that the method cannot answer for."""
        if not instance.n_labelled:
            raise ModelError(f"{instance.name}: no variable has a label, so no output is left to compare with")
        if instance.label_weights is not None and instance.costs is None and self.delta in ("zero_one", "none"):
            raise ModelError(
                f"{instance.name}: labels are weighted (class_weight), and delta='{self.delta}' is no sum over labels; "
                "use delta='hamming' or a table, or leave the weights out"
            )
        costs = costs_of(self.delta, instance)
        if self.rescaling == "slack":
            check_slack(instance, costs, float(self.eps_h))
        if self._approximate is not None and instance.n_labelled < instance.labels.size:
            check_answers(self._approximate, self.eps_y, self.eps_h, hidden=True, certified=self.certified)

    # -- what others ask ---------------------------------------------------------------------------------------------
    @property
    def _approximate(self) -> Method | None:
        """The method, unless it is exact: then the mechanism is the same as without one."""
        return None if self.method is None or _is_exact(self.method) else self.method

    @classmethod
    def taken(cls, inference: InferenceSpec) -> dict[str, Any]:
        """Return the method, and the tolerance where one is given."""
        return method_and_tol(inference)

    def marginals(self, graph: FactorGraph, inference: InferenceSpec) -> Floats:
        """Return marginals at the temperature of the outputs, at 1 where that is 0."""
        eps, method = float(self.eps_y) or 1.0, self._approximate
        scaled = graph if eps == 1 else graph.with_theta(graph.theta / eps)
        if method is None:
            return answer(scaled, exact_method(graph.layout), max_iters=1).mu_var
        return settled(scaled, method, tol=self.tol).mu_var

    def is_exact(self, inference: InferenceSpec) -> bool:
        """Whether the method is exact."""
        return self._approximate is None

    @property
    def predicts_jointly(self) -> bool:
        """Exact inference on a union is that on its parts."""
        return self._approximate is None

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """Exact inference; a union is not the sum of its parts for other costs, nor where a method decodes it whole."""
        apart = self.rescaling == "slack" or self.delta == "zero_one" or self._approximate is not None
        return None if apart else ()

    @property
    def alternates(self) -> bool:
        """Whether costs are added: slack rescaling multiplies what would be the clamped term."""
        return self.rescaling == "margin"

    def is_smooth(self, data: Any) -> bool:
        """Whether nothing is maximised."""
        return self.eps_y > 0 and (self.eps_h > 0 or not any_hidden(data))

    def is_maximum(self, data: Any) -> bool:
        """Whether nothing is summed."""
        return self.eps_y == 0 and (self.eps_h == 0 or not any_hidden(data))

    def is_plane(self, free: Answer) -> bool:
        """Whether the tangent is below: that of an exact term is, and that of any outputs."""
        decoded = self.eps_y == 0 and free.bound is Bound.LOWER and self.delta != "zero_one"
        return free.bound is Bound.EXACT or decoded

    # -- the loss ----------------------------------------------------------------------------------------------------
    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return value and gradient; outputs that lose to the labels are given up for them."""
        if self.rescaling == "slack":
            return slack_part(theta, instance)
        found = super().part(theta, instance)
        if found.value > 0 or self.eps_y > 0 or self.certified:
            return found
        bound = Bound.EXACT if found.bound is Bound.EXACT else Bound.LOWER
        return InstanceLoss(
            0.0, np.zeros(theta.size), False, found.converged, bound, max(found.upper, 0.0), found.minorant
        )

    def free(self, graph: FactorGraph, instance: Instance) -> Answer:
        """Return the power sum of all variables with the costs of the outputs, over the cells of the graph."""
        if self.delta == "zero_one" and instance.costs is None:
            return self._zero_one(graph, instance)
        costs = costs_of(self.delta, instance)
        if not costs.any():
            return MarginAnswer.of(self._power_sum(graph, instance), 0.0)
        with_costs = augmented(instance)
        found = with_costs.restricted(self._power_sum(with_costs.graph(graph.theta, costs), instance))
        return MarginAnswer.of(found, float(costs @ found.mu_var))

    def clamped(self, graph: FactorGraph, instance: Instance) -> Answer:
        """Return the power sum of the hidden variables given the labels."""
        try:
            return self._given(instance, graph)
        except ZeroProbabilityError:
            raise ZeroProbabilityError(
                f"{instance.name}: hard zeros exclude the labels, whatever the hidden variables are; no weights can "
                "make such labels likely, so correct the labels or drop the hard zeros"
            ) from None

    def expected_cost(self, free: Answer, instance: Instance) -> float:
        """Return the expected cost under the free answer; that of its state where it is one."""
        assert isinstance(free, MarginAnswer)
        return free.delta

    # -- inference ---------------------------------------------------------------------------------------------------
    def _power_sum(self, graph: FactorGraph, instance: Instance) -> Answer:
        """Return the free power sum of a graph, with whatever costs it has."""
        inner, eps_y, eps_h = ~instance.labelled, float(self.eps_y), float(self.eps_h)
        if self._approximate is None:
            return self._exact(graph, instance, eps_y)
        approximation = Approximation(self._approximate, self.tol, self.max_iters, self.seed, self.certified)
        return approximation.power_sum(graph, inner, eps_y, eps_h, partial(self._given, instance))

    def _given(self, instance: Instance, graph: FactorGraph) -> Answer:
        """Return the power sum of the hidden variables, all outputs of a graph observed."""
        method, eps_h = self._hidden_method, float(self.eps_h)
        if method is None:
            return self._exact(graph, instance, eps_h)
        approximation = Approximation(method, self.tol, self.max_iters, self.seed)
        found = approximation.power_sum(graph, ~instance.labelled, eps_h, eps_h, partial(self._given, instance))
        return certified_lower(found, method) if self.certified and eps_h > 0 else found

    def _exact(self, graph: FactorGraph, instance: Instance, eps_y: float) -> Answer:
        try:
            return exact_power_sum(graph, ~instance.labelled, eps_y, float(self.eps_h))
        except BudgetError as error:
            raise BudgetError(
                f"{instance.name} is too wide for exact inference at eps_y={self.eps_y:g}, eps_h={self.eps_h:g}, where "
                f"hidden variables are eliminated first; use a method such as bp, or equal temperatures ({error})"
            ) from None

    @property
    def _hidden_method(self) -> Method | None:
        """The method for hidden variables given outputs; None: exact."""
        method = self.clamped_method
        if method is None and self._approximate is not None:
            task = Task.INFER if self.eps_h > 0 else Task.MAXIMIZE
            usable = task in self._approximate.tasks and not (self.certified and self.eps_h > 0)
            method = self._approximate if usable else None
        return None if method is None or _is_exact(method) else method

    def _zero_one(self, graph: FactorGraph, instance: Instance) -> Answer:
        """Return the free term with costs of 0 and 1."""
        solve = partial(self._given, instance)
        if self.eps_y == 0:
            return zero_one.best_other(graph, instance, float(self.eps_h), solve)
        free = self._power_sum(graph, instance)
        given = given_outputs(graph, instance.labels, instance.labelled, solve)
        return zero_one.soft(free, given, float(self.eps_y))


def _is_exact(method: Method) -> bool:
    return method.guarantee.bound is Bound.EXACT
