"""Losses: every way to compare a model with labels, behind one interface, ``value_and_grad(weights, instances)``."""

import warnings
from typing import Any

from beliefs.learning.losses.base import Evaluation, InstanceLoss, Loss
from beliefs.learning.losses.composite_likelihood import CompositeLikelihood, PatchPseudoLikelihood
from beliefs.learning.losses.likelihood import Likelihood, SurrogateEM, SurrogateLikelihood
from beliefs.learning.losses.marginal import (
    CliqueLogistic,
    CliqueQuadratic,
    CliqueSmoothedClassification,
    SmoothedClassification,
    UnivariateLogistic,
    UnivariateQuadratic,
)
from beliefs.learning.losses.max_margin import MaxMargin
from beliefs.learning.losses.min_entropy import MinEntropy
from beliefs.learning.losses.piecewise import Piecewise
from beliefs.learning.losses.pseudo_likelihood import PseudoLikelihood
from beliefs.learning.losses.registry import LOSSES, make_loss
from beliefs.learning.losses.saddle_point import SaddlePoint
from beliefs.learning.losses.sampled import ContrastiveDivergence, StochasticLikelihood
from beliefs.learning.losses.truncated import TruncatedEM, TruncatedLikelihood

__all__ = [
    "LOSSES",
    "CliqueLogistic",
    "CliqueQuadratic",
    "CliqueSmoothedClassification",
    "CompositeLikelihood",
    "ContrastiveDivergence",
    "Evaluation",
    "Likelihood",
    "Loss",
    "InstanceLoss",
    "MaxMargin",
    "MinEntropy",
    "PatchPseudoLikelihood",
    "Piecewise",
    "PseudoLikelihood",
    "SaddlePoint",
    "SmoothedClassification",
    "StochasticLikelihood",
    "SurrogateEM",
    "SurrogateLikelihood",
    "TruncatedEM",
    "TruncatedLikelihood",
    "UnivariateLogistic",
    "UnivariateQuadratic",
    "make_loss",
]


def __getattr__(name: str) -> Any:
    """Return what an old name stands for, with a warning; such names go with the next release."""
    if name == "Part":
        warnings.warn("Part is called InstanceLoss now", DeprecationWarning, stacklevel=2)
        return InstanceLoss
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
