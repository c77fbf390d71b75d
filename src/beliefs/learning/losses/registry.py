"""All losses by name, and losses from text: ``"smoothed_classification(alpha=15)"``."""

from __future__ import annotations

from typing import Any

from beliefs.inference.base import Method
from beliefs.inference.text import parse_method, parse_named
from beliefs.learning.gradients.base import Gradient
from beliefs.learning.losses.base import Loss
from beliefs.learning.losses.composite_likelihood import CompositeLikelihood, PatchPseudoLikelihood
from beliefs.learning.losses.inference import InferenceSpec
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
from beliefs.learning.losses.saddle_point import SaddlePoint
from beliefs.learning.losses.sampled import ContrastiveDivergence, StochasticLikelihood
from beliefs.learning.losses.truncated import TruncatedEM, TruncatedLikelihood
from beliefs.model.features import Template

__all__ = ["LOSSES", "loss_named", "loss_names", "make_loss"]

LOSSES: tuple[type[Loss], ...] = (
    Likelihood,
    SurrogateLikelihood,
    SurrogateEM,
    TruncatedLikelihood,
    TruncatedEM,
    UnivariateLogistic,
    CliqueLogistic,
    UnivariateQuadratic,
    CliqueQuadratic,
    SmoothedClassification,
    CliqueSmoothedClassification,
    PseudoLikelihood,
    PatchPseudoLikelihood,
    CompositeLikelihood,
    Piecewise,
    SaddlePoint,
    MaxMargin,
    MinEntropy,
    ContrastiveDivergence,
    StochasticLikelihood,
)
"""Every loss, in the order of the guide."""

_GIVEN = ("template", "l2", "threads", "through", "method")  # said by the caller, not in the text


def loss_names() -> tuple[str, ...]:
    """Return the names of all losses."""
    return tuple(loss.name for loss in LOSSES)


def loss_named(text: str | type[Loss]) -> tuple[type[Loss], dict[str, Any]]:
    """Return the loss written as ``name`` or ``name(field=literal, ...)``, and the options in the text."""
    return parse_named(text, LOSSES, "loss", given=_GIVEN) if isinstance(text, str) else (text, {})


def make_loss(
    text: str | type[Loss],
    *,
    template: Template,
    method: Method,
    n_sweeps: int | None = None,
    gradient: str | Gradient = "auto",
    tol: float | None = None,
    l2: float = 0.0,
    threads: int | None = 1,
) -> Loss:
    """Return the loss written as ``name`` or ``name(field=literal, ...)`` with this inference.

    Parameters
    ----------
    text : str
        Fields are the loss's own options, such as ``alpha``.
    method, n_sweeps, gradient, tol
        The inference, its sweeps (None: until ``tol``) and the way to differentiate through it, for losses that need
        them; see :func:`~beliefs.learning.gradients.registry.make_gradient`.
    """
    cls, options = loss_named(text)
    taken = cls.taken(InferenceSpec(method, n_sweeps, gradient, tol))
    return cls(template=template, l2=l2, threads=threads, **taken | _methods(options))


def _methods(values: dict[str, Any]) -> dict[str, Any]:
    """Turn methods written as words (``clamped_method=mean_field``) into methods."""
    return {
        name: parse_method(value) if name.endswith("_method") and isinstance(value, str) else value
        for name, value in values.items()
    }
