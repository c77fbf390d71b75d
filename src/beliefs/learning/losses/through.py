"""What losses share that differentiate through inference: the inference of the fit is that of predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.inference.base import Method
from beliefs.learning.gradients.base import Gradient
from beliefs.learning.losses.base import Loss, Needs
from beliefs.learning.losses.inference import InferenceSpec
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["LossThroughInference"]


@dataclass(frozen=True, kw_only=True)
class LossThroughInference(Loss):
    """Base of the losses that are differentiated through inference.

    Parameters
    ----------
    through : Gradient
        How inference is run and differentiated: ``Truncated(method=TRW(), n_sweeps=10)`` for example.
    """

    through: Gradient

    needs: ClassVar[Needs] = Needs.GRADIENT

    @classmethod
    def taken(cls, inference: InferenceSpec) -> dict[str, Any]:
        """Return the way through inference."""
        return {"through": inference.through()}

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """The inference that is differentiated through."""
        return self.through.runs

    def marginals(self, graph: FactorGraph, inference: InferenceSpec) -> Floats:
        """Return the beliefs that are trained."""
        return np.array(self.through.marginals(graph))

    def is_exact(self, inference: InferenceSpec) -> bool:
        """Whether the beliefs are exact marginals."""
        return self.through.exact

    @property
    def predicts_jointly(self) -> bool:
        """Where inference does a fixed amount of work."""
        return not self.through.until_tol
