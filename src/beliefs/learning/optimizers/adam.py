r"""Adam: a step size for every weight, from the mean square of its gradients [kingma2015].

.. math:: m_t = \beta_1 m_{t-1} + (1-\beta_1) \hat g_t, \qquad s_t = \beta_2 s_{t-1} + (1-\beta_2) \hat g_t^2, \qquad
   w_t = w_{t-1} - \tau_t \frac{m_t / (1-\beta_1^t)}{\sqrt{s_t / (1-\beta_2^t)} + \epsilon}

See :mod:`beliefs.learning.optimizers.stochastic` for :math:`\hat g` and :math:`\tau_t`. With a constant step the
weights keep moving by about that step; let it decay (``t0``) or average to come close to the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.learning.optimizers.descent import Memory
from beliefs.learning.optimizers.stochastic import Stochastic
from beliefs.options import check_number, check_option, is_number
from beliefs.typing import Floats

__all__ = ["Adam"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Adam(Stochastic):
    """Mini-batch steps scaled weight by weight; little to tune.

    Parameters
    ----------
    beta1, beta2 : float in [0, 1)
        Memory of the mean and of the mean square.
    epsilon : float
        Keeps the scale finite.

    Examples
    --------
    >>> Adam(step=0.05, batch_size=8)
    adam(step=0.05, batch_size=8)
    """

    step: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    name: ClassVar[str] = "adam"

    def __post_init__(self) -> None:
        super().__post_init__()
        for option in ("beta1", "beta2"):
            value = getattr(self, option)
            check_option(is_number(value) and 0 <= value < 1, option, "in [0, 1)", value)
        check_number("epsilon", self.epsilon, positive=True)

    def begin(self, n: int, dtype: Any) -> Memory:
        """Start without a past."""
        return {"mean": np.zeros(n, dtype), "square": np.zeros(n, dtype)}

    def direction(self, grad: Floats, memory: Memory, t: int) -> tuple[Floats, Floats | float]:
        """Return the scaled mean of the gradients."""
        mean, square = memory["mean"], memory["square"]
        mean *= self.beta1
        mean += (1.0 - self.beta1) * grad
        square *= self.beta2
        square += (1.0 - self.beta2) * grad**2
        scale = 1.0 / (np.sqrt(square / (1.0 - self.beta2**t)) + self.epsilon)
        return scale * mean / (1.0 - self.beta1**t), scale
