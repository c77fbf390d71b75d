r"""The likelihood, exact, or with the log Z of an approximate method in the place of the true one.

.. math:: L(\theta) = A(\theta) - \theta \cdot f(\hat x), \qquad \frac{dL}{d\theta} = \mu(\theta) - f(\hat x)

(Eqs. (19)-(20) [domke2013], with the sign of a loss) and, with hidden variables h and observed ones z (Eq. (21)),

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

from beliefs.errors import BudgetError
from beliefs.inference.base import Method
from beliefs.inference.messages.trw import TRW
from beliefs.inference.portfolio.auto import exact_method
from beliefs.inference.run import Answer, answer, settled, tol_for_marginals
from beliefs.learning.instances import Instance, Slot
from beliefs.learning.joined import common_tol
from beliefs.learning.losses.base import Needs
from beliefs.learning.losses.difference import DifferenceLoss
from beliefs.learning.losses.exact_inference import ExactInference
from beliefs.learning.losses.inference import InferenceSpec, method_and_tol
from beliefs.model.graph import FactorGraph
from beliefs.options import check_integer, check_number, check_option
from beliefs.typing import Floats

__all__ = ["Likelihood", "SurrogateEM", "SurrogateLikelihood"]


@dataclass(frozen=True, kw_only=True)
class Likelihood(ExactInference, DifferenceLoss):
    """The negative log-likelihood of the labels, exact, hidden variables summed out.

    One sweep of messages on forests, else a junction tree: a :class:`~beliefs.errors.BudgetError` says when the model
    is too large for that.
    """

    name: ClassVar[str] = "likelihood"

    @property
    def predicts_jointly(self) -> bool:
        """Exact inference on a union is that on its parts."""
        return True

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
class SurrogateLikelihood(DifferenceLoss):
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
        check_number("tol", self.tol, none=True)
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
        tol = common_tol(tol_for_marginals(method, self.tol), instance.n_parts)
        found = settled(graph, method, tol=tol, max_iters=self.max_iters, warm=warm)
        if self.warm:
            instance.memory.put(slot, found.warm_state)
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
