"""Gradients of log-likelihoods, shaped like the machines that they are of."""

from __future__ import annotations

from dataclasses import dataclass

from beliefs.typing import Floats

__all__ = ["ConditionalGradient", "MachineGradient"]


@dataclass(frozen=True, kw_only=True, eq=False)
class MachineGradient:
    """A gradient, shaped like the machine; ``counts`` is None for an ordinary one."""

    weights: Floats
    visible_bias: Floats
    hidden_bias: Floats
    counts: Floats | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class ConditionalGradient(MachineGradient):
    """A gradient, shaped like the conditional machine."""

    visible_input: Floats
    hidden_input: Floats
