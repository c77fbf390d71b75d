"""All losses of machines by name, and losses from text: ``"contrastive_divergence(sweeps=10)"``.

Names are those of the losses on instances where they mean the same.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from beliefs.inference.base import Method
from beliefs.inference.text import parse_named
from beliefs.learning.boltzmann.flips import MinimumProbabilityFlow, PseudoLikelihood, RatioMatching
from beliefs.learning.boltzmann.likelihood import Likelihood, SurrogateLikelihood
from beliefs.learning.boltzmann.loss import RowLoss
from beliefs.learning.boltzmann.sampled import ContrastiveDivergence, StochasticLikelihood

__all__ = ["ROW_LOSSES", "make_row_loss"]

ROW_LOSSES: tuple[type[RowLoss], ...] = (
    StochasticLikelihood,
    ContrastiveDivergence,
    PseudoLikelihood,
    RatioMatching,
    MinimumProbabilityFlow,
    Likelihood,
    SurrogateLikelihood,
)
"""Every loss of machines, in the order of the guide."""

_GIVEN = ("shape", "dtype", "l2", "threads", "seed", "method", "_recent", "_buffers", "_chains")


def make_row_loss(text: str | type[RowLoss], *, method: Method | None = None, seed: int = 0, **given: Any) -> RowLoss:
    """Return the loss written as ``name`` or ``name(field=literal, ...)``.

    ``method`` and ``seed`` are for those that have such a field; the other options are those of
    :class:`~beliefs.learning.boltzmann.loss.RowLoss`.
    """
    cls, options = parse_named(text, ROW_LOSSES, "loss", given=_GIVEN) if isinstance(text, str) else (text, {})
    known = {f.name for f in fields(cls)}
    if method is not None and "method" in known:
        options["method"] = method
    if "seed" in known:
        options["seed"] = seed
    return cls(**given, **options)
