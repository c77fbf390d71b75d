r"""The likelihood, exact, or with the log Z of an approximate method in the place of the true one.

.. math:: L(\theta) = A(\theta) - \theta \cdot f(\hat x), \qquad \frac{dL}{d\theta} = \mu(\theta) - f(\hat x)

and, with hidden variables h and observed ones z ([domke2013] section 4.1.2),

.. math:: L(\theta) = A(\theta) - A(\theta, z), \qquad A(\theta, z) = \log \sum_h e^{\theta \cdot f(z, h)},
          \qquad \frac{dL}{d\theta} = \mu(\theta) - \mu(\theta \mid z)

``likelihood`` computes both terms exactly; ``surrogate_likelihood`` and ``surrogate_em`` put the value and the beliefs
of approximate methods in their place. At a fixed point of a variational method its beliefs are the gradient of its
value, so the gradient is exact for the surrogate where inference has converged, and only there.

What the value is worth: with a method whose log Z is an upper bound (TRW) the surrogate likelihood is a lower bound
on the likelihood. Hidden variables need the other side for the clamped term: mean field clamped and TRW free give a
lower bound on the log-likelihood of the labels; one and the same method for both gives none, and is reported to work
well all the same. The evaluation says which (``bound``).

Convex without hidden variables if the method's value is convex in theta (exact, TRW). Cost: one inference, two with
hidden variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import BudgetError
from beliefs.inference.base import Bound, Method
from beliefs.inference.messages.trw import TRW
from beliefs.inference.portfolio.auto import exact_method
from beliefs.inference.run import Answer, answer, settled
from beliefs.learning.instances import Instance, Slot
from beliefs.learning.joined import common_tol
from beliefs.learning.losses.base import InstanceLoss, Loss, Needs
from beliefs.learning.losses.free_energy import free_energy
from beliefs.learning.losses.inference import InferenceSpec, method_and_tol
from beliefs.learning.losses.label_scores import label_scores
from beliefs.model.graph import FactorGraph
from beliefs.options import check_integer, check_option, is_number
from beliefs.typing import Floats

__all__ = ["Likelihood", "SurrogateEM", "SurrogateLikelihood"]

_SLACK = 1e-6  # of log Z: a log-probability above zero by less is rounding and tolerance


@dataclass(frozen=True, kw_only=True)
class LikelihoodLoss(Loss):
    """What likelihoods share: a free term, a term of the labels, and their gradients."""

    hidden: ClassVar[bool] = True
    by_variable: ClassVar[bool] = False
    clamps: ClassVar[bool] = True

    def free(self, graph: FactorGraph, instance: Instance) -> Answer:
        """Return the answer for the model as it is."""
        raise NotImplementedError

    def clamped(self, graph: FactorGraph, instance: Instance) -> Answer:
        """Return the answer for the model with the labels as evidence."""
        raise NotImplementedError

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return the free value minus that of the labels, and the difference of expectations."""
        whole = instance.graph(theta)
        free = self.free(whole, instance)
        if instance.n_labelled == instance.labels.size:
            clamped, scores = None, instance.by_part(label_scores(whole, instance))
            score, settled, worth, expected = float(scores.sum()), True, Bound.EXACT, instance.statistics
        else:
            graph = instance.clamped(theta)
            clamped = self.clamped(graph, instance)
            score, settled, worth = clamped.log_z, clamped.converged, clamped.bound
            expected = scattered(graph, clamped.mu, theta.size)
        bound, diverged = of_difference(free.bound, worth), impossible(free.log_z, score)
        if instance.n_parts > 1 and bound not in (Bound.EXACT, Bound.UPPER):  # any part may be above one
            of_labels = scores if clamped is None else energies(graph, clamped, instance)
            diverged = diverged or impossible(energies(whole, free, instance), of_labels)
        value, convex = free.log_z - score, clamped is None and free.bound is Bound.EXACT
        upper = value if bound in (Bound.EXACT, Bound.UPPER) else np.inf
        return InstanceLoss(
            value, free.mu - expected, diverged, free.converged and settled, bound, upper, minorant=convex
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Likelihood(LikelihoodLoss):
    """The negative log-likelihood of the labels, exact, hidden variables summed out.

    One sweep of messages on forests, else a junction tree: a :class:`~beliefs.errors.BudgetError` says when the model
    is too large for that.
    """

    name: ClassVar[str] = "likelihood"
    needs: ClassVar[Needs] = Needs.EXACT

    def marginals(self, graph: FactorGraph, inference: InferenceSpec) -> Floats:
        """Return the exact marginals."""
        return answer(graph, exact_method(graph.layout), max_iters=1).mu_var

    def is_exact(self, inference: InferenceSpec) -> bool:
        """They are, whatever the inference at hand."""
        return True

    @property
    def predicts_jointly(self) -> bool:
        """Exact inference on a union is that on its parts."""
        return True

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """Exact inference alone."""
        return ()

    def free(self, graph: FactorGraph, instance: Instance) -> Answer:
        """Return the exact answer."""
        try:
            return answer(graph, exact_method(graph.layout), max_iters=1)
        except BudgetError as error:
            raise BudgetError(
                f"{instance.name} is too wide for the exact likelihood; use surrogate_likelihood or surrogate_em, or a "
                f"loss on marginals such as clique_logistic ({error})"
            ) from None

    clamped = free


@dataclass(frozen=True, kw_only=True)
class SurrogateLikelihood(LikelihoodLoss):
    """The likelihood with an approximate log Z.

    Parameters
    ----------
    method : Method
        Anything that answers ``infer``.
    tol, max_iters : optional
        When inference stops; None: the method's own defaults. Gradients need inference that has converged well: a
        change of 1e-3 in a marginal is harmless in prediction and ruins learning, and one of 1e-5 still ends line
        searches early where couplings are strong.
    warm : bool
        Whether each inference goes on from the last one on the same instance.
    """

    method: Method = TRW()
    tol: float | None = 1e-6
    max_iters: int | None = None
    warm: bool = True

    name: ClassVar[str] = "surrogate_likelihood"
    needs: ClassVar[Needs] = Needs.METHOD
    hidden: ClassVar[bool] = False

    @classmethod
    def taken(cls, inference: InferenceSpec) -> dict[str, Any]:
        """Return the method, and the tolerance where one is given."""
        return method_and_tol(inference)

    def marginals(self, graph: FactorGraph, inference: InferenceSpec) -> Floats:
        """Return the marginals of the method, as far as it is run in the fit."""
        return settled(graph, self.method, tol=self.tol).mu_var

    def is_exact(self, inference: InferenceSpec) -> bool:
        """Whether the method is exact."""
        return self.method.guarantee == "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(isinstance(self.method, Method), "method", "a method, such as TRW()", self.method)
        ok = self.tol is None or (is_number(self.tol) and self.tol >= 0)
        check_option(ok, "tol", "None or a number of at least 0", self.tol)
        check_integer("max_iters", self.max_iters, 0, none=True)

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """The method."""
        return (self.method,)

    def free(self, graph: FactorGraph, instance: Instance) -> Answer:
        """Ask the method."""
        return self._asked(graph, self.method, instance, "free")

    def _asked(self, graph: FactorGraph, method: Method, instance: Instance, what: str) -> Answer:
        slot = Slot[Any](f"warm start, {what}", repr(method))  # another loss may have left that of its own method
        warm = instance.memory.get(slot) if self.warm else None
        tol = common_tol(method.default_tol if self.tol is None else self.tol, instance.n_parts)
        found = settled(graph, method, tol=tol, max_iters=self.max_iters, warm=warm)
        if self.warm:
            instance.memory.put(slot, found.kept)
        return found


@dataclass(frozen=True, kw_only=True)
class SurrogateEM(SurrogateLikelihood):
    """The likelihood of the labels with approximate sums over everything and over the hidden variables.

    Parameters
    ----------
    clamped_method : Method, optional
        For the sum over hidden variables; None: the same as ``method``. ``MeanField()`` here and ``TRW()`` there make
        the loss an upper bound on the negative log-likelihood of the labels.
    """

    clamped_method: Method | None = None

    name: ClassVar[str] = "surrogate_em"
    hidden: ClassVar[bool] = True

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """The methods of both terms."""
        return (self.method, self.clamped_method or self.method)

    def clamped(self, graph: FactorGraph, instance: Instance) -> Answer:
        """Ask the method for the clamped model."""
        return self._asked(graph, self.clamped_method or self.method, instance, "clamped")


def scattered(graph: FactorGraph, mu: Floats, n_cells: int) -> Floats:
    """Return the expectations of a conditioned graph at the cells of the whole one."""
    assert graph.parent_cells is not None
    return np.bincount(graph.parent_cells, mu, n_cells).astype(np.float64, copy=False)


def energies(graph: FactorGraph, found: Answer, instance: Instance) -> Floats:
    """Return the free energy of each part of an instance: its log Z, to the tolerance of inference."""
    room = np.empty(graph.layout.n_states), np.empty(int(graph.layout.table_ptr[-1]))
    of_vars, of_factors = free_energy("counted", graph, found, *room)
    return instance.by_part(of_factors, of_vars)


def impossible(log_z: Floats | float, score: Floats | float) -> bool:
    """Whether a surrogate log-probability of the labels is positive beyond rounding and tolerance, of any part."""
    return bool(np.any(score - log_z > _SLACK * np.maximum(1.0, np.abs(score))))


def of_difference(free: Bound, clamped: Bound) -> Bound:
    """Return what ``A - A(z)`` is of the negative log-likelihood, given what its two terms are of theirs."""
    if free is Bound.EXACT and clamped is Bound.EXACT:
        return Bound.EXACT
    if free in (Bound.EXACT, Bound.UPPER) and clamped in (Bound.EXACT, Bound.LOWER):
        return Bound.UPPER
    if free in (Bound.EXACT, Bound.LOWER) and clamped in (Bound.EXACT, Bound.UPPER):
        return Bound.LOWER
    return Bound.ESTIMATE
