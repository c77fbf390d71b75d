"""All losses by name, and losses from text: ``"smoothed_classification(alpha=15)"``."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from beliefs.errors import UnsupportedError
from beliefs.inference.base import Method
from beliefs.inference.text import parse_method, parse_named
from beliefs.learning.gradients.base import Gradient
from beliefs.learning.gradients.registry import make_gradient
from beliefs.learning.gradients.truncated import Truncated
from beliefs.learning.losses.base import Loss
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
from beliefs.learning.losses.piecewise import Piecewise
from beliefs.learning.losses.pseudo_likelihood import PseudoLikelihood
from beliefs.learning.losses.saddle_point import SaddlePoint
from beliefs.learning.losses.sampled import ContrastiveDivergence, StochasticLikelihood
from beliefs.learning.losses.truncated import TruncatedEM, TruncatedLikelihood
from beliefs.model.features import Template

__all__ = ["LOSSES", "make_loss"]

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
    ContrastiveDivergence,
    StochasticLikelihood,
)
"""Every loss, in the order of the guide."""

_GIVEN = ("template", "l2", "threads", "through", "method")  # said by the caller, not in the text


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
    cls, values = parse_named(text, LOSSES, "loss", given=_GIVEN) if isinstance(text, str) else (text, {})
    names = {f.name for f in fields(cls)}
    if "through" in names:
        values["through"] = make_gradient(gradient, method, n_sweeps=n_sweeps, tol=tol)
        if issubclass(cls, TruncatedLikelihood) and not isinstance(values["through"], Truncated):
            raise UnsupportedError(
                f"{cls.name} is defined by a number of sweeps: give n_sweeps and an inference of messages or mean "
                f"field (found {method}, n_sweeps={n_sweeps}); or use surrogate_likelihood or surrogate_em"
            )
    if "method" in names:
        values["method"] = method
        if "tol" in names and tol is not None:
            values.setdefault("tol", tol)
    return cls(template=template, l2=l2, threads=threads, **_methods(values))


def _methods(values: dict[str, Any]) -> dict[str, Any]:
    """Turn methods written as words (``clamped_method=mean_field``) into methods."""
    return {
        name: parse_method(value) if name.endswith("_method") and isinstance(value, str) else value
        for name, value in values.items()
    }
