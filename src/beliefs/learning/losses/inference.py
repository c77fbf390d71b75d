"""The inference that a loss is given: a method, how far it runs, and the way to differentiate through it.

What of this a loss takes, and which marginals a model fitted by it predicts with, is said by the loss
(:meth:`~beliefs.learning.losses.base.Loss.taken`, :meth:`~beliefs.learning.losses.base.Loss.marginals`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from beliefs.inference.base import Method
from beliefs.inference.run import settled
from beliefs.learning.gradients.base import Gradient
from beliefs.learning.gradients.registry import make_gradient
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["InferenceSpec", "method_and_tol"]

_TOL = 1e-5  # residual of inference for models that were fitted without one ([domke2013] section 8)


@dataclass(frozen=True)
class InferenceSpec:
    """A method with its sweeps (None: until ``tol``; None again: the method's own) and the text of a gradient."""

    method: Method
    n_sweeps: int | None = None
    gradient: str | Gradient = "auto"
    tol: float | None = None

    def through(self) -> Gradient:
        """Return the way to differentiate through this inference."""
        return make_gradient(self.gradient, self.method, n_sweeps=self.n_sweeps, tol=self.tol)

    def marginals(self, graph: FactorGraph) -> Floats:
        """Return the marginals of the variables, ``(n_states,)``, by the method run to convergence."""
        return settled(graph, self.method, tol=_TOL if self.tol is None else self.tol).mu_var


def method_and_tol(inference: InferenceSpec) -> dict[str, Any]:
    """Return the options ``method`` and, where one is given, ``tol``."""
    return {"method": inference.method} | ({} if inference.tol is None else {"tol": inference.tol})
