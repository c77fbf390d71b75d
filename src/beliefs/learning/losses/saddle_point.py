r"""Saddle point: the score of the best state against that of the labels.

.. math:: L(\theta) = \max_x \theta \cdot f(x) - \theta \cdot f(\hat x), \qquad
          \frac{dL}{d\theta} = f(x^*) - f(\hat x)

The largest term in the place of log Z, a saddle-point approximation of the likelihood ([domke2013] section 4.1.3), and
the loss of the structured perceptron [collins2002]. Convex, piecewise linear, at least 0, and 0 where the labels are a
best state: also for theta = 0, so weights shrink to nothing under a ridge, and the scale of what is learnt means
nothing. Where several states are best the gradient is one of many (ties go as the method breaks them).

The labels themselves count as a candidate: where an approximate method finds nothing better, value and gradient are 0.
A corner of :mod:`beliefs.learning.losses.max_margin`: both temperatures 0, and no costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from beliefs.errors import UnsupportedError
from beliefs.inference.base import Method, Task
from beliefs.inference.portfolio.auto import exact_method
from beliefs.inference.run import settled
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import InstanceLoss, Loss, Needs
from beliefs.learning.losses.inference import InferenceSpec, method_and_tol
from beliefs.learning.losses.label_scores import label_score
from beliefs.learning.losses.max_margin import MaxMargin
from beliefs.model.graph import FactorGraph
from beliefs.options import check_integer, check_number, check_option
from beliefs.typing import Floats

__all__ = ["SaddlePoint"]


@dataclass(frozen=True, kw_only=True)
class SaddlePoint(Loss):
    """How much better than the labels the best state scores.

    Parameters
    ----------
    method : Method, optional
        Anything that answers ``maximize``; None: exact, by max-product on forests, else by a junction tree.
    tol, max_iters : optional
        When the method stops; None: its own defaults, which are many iterations where messages do not settle.
    seed : int
        For methods that draw random numbers.
    """

    method: Method | None = None
    tol: float | None = None
    max_iters: int | None = 50
    seed: int = 0

    name: ClassVar[str] = "saddle_point"
    by_variable: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs.METHOD

    @classmethod
    def taken(cls, inference: InferenceSpec) -> dict[str, Any]:
        """Return the method, and the tolerance where one is given."""
        return method_and_tol(inference)

    def marginals(self, graph: FactorGraph, inference: InferenceSpec) -> Floats:
        """Return the marginals of the method, which maximises in the fit."""
        method = exact_method(graph.layout) if self.method is None else self.method
        return settled(graph, method, tol=self.tol).mu_var

    def is_exact(self, inference: InferenceSpec) -> bool:
        """Whether the method is exact."""
        return self.method is None or self.method.guarantee == "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        ok = self.method is None or isinstance(self.method, Method)
        check_option(ok, "method", "a method, such as TRW(), or None", self.method)
        if self.method is not None and Task.MAXIMIZE not in self.method.tasks:
            raise UnsupportedError(f"{self.method.name} does not answer maximize, which {self.name} is made of")
        check_number("tol", self.tol, none=True)
        check_integer("max_iters", self.max_iters, 0, none=True)
        check_integer("seed", self.seed, 0)

    @cached_property
    def _margin(self) -> MaxMargin:
        """The same as a margin: maxima only, and no costs."""
        return MaxMargin(
            template=self.template, eps_y=0.0, eps_h=0.0, delta="none", method=self.method, tol=self.tol,
            max_iters=self.max_iters, seed=self.seed,
        )  # fmt: skip

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """Exact inference alone, or nothing that can be joined."""
        return self._margin.runs

    def is_smooth(self, data: Any) -> bool:
        """It has kinks where two states are best."""
        return False

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return the difference of scores and of statistics."""
        label_score(instance.graph(theta), instance)
        return self._margin.part(theta, instance)
