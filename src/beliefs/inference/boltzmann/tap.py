r"""The Thouless-Anderson-Palmer equations of a machine: mean field with the second term of its expansion.

.. math::
    \Gamma(m) = H(m) + b^T m^v + a^T m^h + \sum_{ij} \big( w_{ij} m^v_i m^h_j
        + \tfrac12 w_{ij}^2\, s^v_i\, s^h_j \big), \qquad s = m (1 - m)

is log Z up to third order in the weights [plefka1982; gabrie2015]. Where its gradient vanishes,

.. math:: m^h_j = \sigma\big( a_j + \sum_i w_{ij} m^v_i - (m^h_j - \tfrac12) \sum_i w_{ij}^2 s^v_i \big)

and likewise for the visible units. A step updates the visible, then the hidden layer, each half of the way. Such a
point need be no maximum and the value is on no side of log Z: an ESTIMATE, good for weak weights. With strong ones the
iteration may not settle, which is said. Pair marginals are the gradient of the value in the weights, kept between the
bounds that single marginals set. Cost of a step: four products with the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Value
from beliefs.inference.base import Bound, Marginals
from beliefs.inference.boltzmann.mean_field import LayerMeanField, LayerMeans, entropies, given
from beliefs.inference.parallel import one_thread_of_blas
from beliefs.inference.units import UnitMarginals, keep_possible
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM
from beliefs.typing import Floats

__all__ = ["STEP", "TAP", "spread"]

STEP = 0.5  # of the way to the update, which by itself often swings


@dataclass(frozen=True, kw_only=True, repr=False)
class TAP(LayerMeanField):
    """Mean field of the second order."""

    fixed_point: ClassVar[bool] = True

    @classmethod
    def serves(cls, method: Any, machine: BoltzmannMachine) -> bool:
        """Whether the second order is asked for."""
        return bool(method.order == 2) and isinstance(machine, RBM)

    def step(self, state: LayerMeans) -> float:  # type: ignore[override]
        """Move both layers half of the way; the residual is the larger remaining distance."""
        p, v, h = state.parameters, state.visible, state.hidden
        squares = p.weights**2
        with one_thread_of_blas():
            target = given(h, p.weights.T, p.visible_bias - ((v - 0.5) * (spread(h) @ squares.T))[0])
            distance = float(np.abs(target - v).max(initial=0.0))
            state.visible = v = v + STEP * (target - v)
            target = given(v, p.weights, p.hidden_bias - ((h - 0.5) * (spread(v) @ squares))[0])
            distance = max(distance, float(np.abs(target - h).max(initial=0.0)))
            state.hidden = h + STEP * (target - h)
        state.moved = True
        return distance

    def value(self, state: LayerMeans) -> Value:  # type: ignore[override]
        """Return the second-order value, which bounds nothing."""
        p, v, h = state.parameters, state.visible, state.hidden
        log_z = (v @ p.visible_bias + h @ p.hidden_bias + entropies(v) + entropies(h))[0]
        log_z += ((v @ p.weights) * h).sum() + 0.5 * ((spread(v) @ p.weights**2) * spread(h)).sum()
        return Value(float(log_z))

    def finish(self, state: LayerMeans) -> Marginals:  # type: ignore[override]
        """Return the means, and the value's gradient in the weights as pairs."""
        v, h, log_z = state.visible[0], state.hidden[0], self.value(state).log_z
        pairs = np.outer(spread(v), spread(h))
        pairs *= state.parameters.weights
        pairs += np.outer(v, h)
        keep_possible(v, h, pairs)
        units = UnitMarginals(v, h, pairs)
        return Marginals(log_z, Bound.ESTIMATE, units.mu_var, units)


def spread(means: Floats) -> Floats:
    """Return the variance of units with these means."""
    return means * (1.0 - means)
