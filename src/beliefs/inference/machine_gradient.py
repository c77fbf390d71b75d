"""The gradient of a log-likelihood, shaped like the machine that it is of; that of a ``CRBM`` is one itself."""

from __future__ import annotations

from dataclasses import dataclass

from beliefs.typing import Floats

__all__ = ["MachineGradient"]


@dataclass(frozen=True, kw_only=True, eq=False)
class MachineGradient:
    """A gradient, shaped like the machine; ``counts`` is None for an ordinary one."""

    weights: Floats
    visible_bias: Floats
    hidden_bias: Floats
    counts: Floats | None = None
