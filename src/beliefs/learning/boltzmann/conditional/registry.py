"""All losses of conditional machines by name, and losses from text: ``"contrastive_divergence(sweeps=10)"``."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from beliefs.errors import ModelError
from beliefs.inference.text import parse_named
from beliefs.learning.boltzmann.conditional.contrastive import ConditionalContrastive, ContrastivePerceptron
from beliefs.learning.boltzmann.conditional.loss import ConditionalLoss
from beliefs.learning.boltzmann.conditional.max_margin import ConditionalMargin
from beliefs.learning.boltzmann.conditional.surrogate import ConditionalSurrogate

__all__ = ["CONDITIONAL_LOSSES", "make_conditional_loss"]

CONDITIONAL_LOSSES: tuple[type[ConditionalLoss], ...] = (
    ConditionalSurrogate,
    ConditionalContrastive,
    ContrastivePerceptron,
    ConditionalMargin,
)
"""Every loss of conditional machines, in the order of the guide."""

_GIVEN = (
    "shape", "dtype", "l2", "threads", "seed", "method", "n_sweeps", "sweep_growth", "tol", "record",
    "_recent", "_buffers", "_chains",
)  # fmt: skip
_PERSISTENT = "stochastic_likelihood"


def make_conditional_loss(text: str, given: dict[str, Any], optional: dict[str, Any]) -> ConditionalLoss:
    """Return the loss written as ``name`` or ``name(field=literal, ...)``; it takes of ``optional`` what it has."""
    if isinstance(text, str) and text.split("(")[0].strip() == _PERSISTENT:
        raise ModelError(
            "persistent chains do not suit conditional machines: each row would need one of its own, which is stale "
            "when the row comes again a pass later; use contrastive_divergence"
        )
    cls, options = parse_named(text, CONDITIONAL_LOSSES, "loss", given=_GIVEN)
    known = {f.name for f in fields(cls)}
    return cls(**given, **options, **{name: value for name, value in optional.items() if name in known})
