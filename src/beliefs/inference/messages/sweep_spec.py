"""What a sweep of messages needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beliefs.inference.messages.schedule import Schedule
from beliefs.kernels.messages.structures import Reweighted
from beliefs.kernels.rounding import potential_magnitude
from beliefs.model.layout import Layout
from beliefs.typing import Bools, Floats

__all__ = ["SweepSpec"]

_LEAST_LOG = 1e4  # nats
_SPANS = 100.0


@dataclass(frozen=True, eq=False)
class SweepSpec:
    """What a sweep needs to know: the model, temperatures (``summed``), counting numbers, order and damping."""

    layout: Layout
    theta: Floats
    summed: Bools
    rho: Floats
    schedule: Schedule
    damping: float
    in_logs: bool

    @cached_property
    def model(self) -> Reweighted:
        """Potentials and counting numbers as kernels take them."""
        return Reweighted(self.theta, self.rho, self.layout.message_ptr)

    @cached_property
    def floor(self) -> float:
        """The least log of a message that is not zero: none on forests, else well below what the potentials span."""
        if self.schedule.forest:
            return -np.inf
        finite = self.theta[self.theta > -np.inf]
        return -max(_LEAST_LOG, _SPANS * float(np.ptp(finite)) if finite.size else 0.0)

    @cached_property
    def magnitude(self) -> float:
        """The largest absolute finite entry of each factor's table, added up: what sums of potentials may round by."""
        return float(potential_magnitude(self.layout.cell_ptr, self.layout.factor_size, self.theta))
