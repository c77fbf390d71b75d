"""What losses share that are evaluated by exact inference, and whose models predict with exact marginals."""

from __future__ import annotations

from typing import ClassVar

from beliefs.inference.base import Method
from beliefs.inference.portfolio.auto import exact_method
from beliefs.inference.run import answer
from beliefs.learning.losses.base import Needs
from beliefs.learning.losses.inference import InferenceSpec
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["ExactInference"]


class ExactInference:
    """Whatever the inference at hand: one sweep of messages on forests, else a junction tree; before a loss's base."""

    needs: ClassVar[Needs] = Needs.EXACT

    def marginals(self, graph: FactorGraph, inference: InferenceSpec) -> Floats:
        """Return the exact marginals."""
        return answer(graph, exact_method(graph.layout), max_iters=1).mu_var

    def is_exact(self, inference: InferenceSpec) -> bool:
        """They are."""
        return True

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """Exact inference alone."""
        return ()
