r"""Stochastic gradient descent with momentum and averaging [bottou2018].

.. math:: v_t = m\,v_{t-1} + \hat g_t, \qquad w_t = w_{t-1} - \tau_t v_t

See :mod:`beliefs.learning.optimizers.stochastic` for :math:`\hat g` and :math:`\tau_t`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.learning.optimizers.descent import Memory
from beliefs.learning.optimizers.stochastic import Stochastic
from beliefs.options import check_option, is_number
from beliefs.typing import Floats

__all__ = ["SGD"]


@dataclass(frozen=True, kw_only=True, repr=False)
class SGD(Stochastic):
    """Steps along the gradients of mini-batches, smaller and smaller.

    Parameters
    ----------
    momentum : float in [0, 1)
        The share of the last direction that is kept.

    Examples
    --------
    >>> SGD(step=0.5, average=True)
    sgd(step=0.5, average=True)
    """

    step: float = 0.1
    t0: float | None = 1000.0
    momentum: float = 0.0

    name: ClassVar[str] = "sgd"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(is_number(self.momentum) and 0 <= self.momentum < 1, "momentum", "in [0, 1)", self.momentum)

    def begin(self, n: int, dtype: Any) -> Memory:
        """Start at rest."""
        return {"velocity": np.zeros(n, dtype)} if self.momentum else {}

    def direction(self, grad: Floats, memory: Memory, t: int) -> tuple[Floats, Floats | float]:
        """Return the velocity, or the gradient itself."""
        if not self.momentum:
            return grad, 1.0
        velocity = memory["velocity"]
        velocity *= self.momentum
        velocity += grad
        return velocity, 1.0
