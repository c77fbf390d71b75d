r"""A convex function above the loss of min-entropy models, for the concave-convex procedure.

With scores s of hidden states given outputs, :math:`c = 1 / |a - 1|`, and (p, q) the larger and the smaller of a and 1,
entropies are differences of convex functions, :math:`R(y) = P(y) - Q(y)`,

.. math:: P(y) = c \log \sum_h e^{p\, s(y, h)}, \qquad Q(y) = c \log \sum_h e^{q\, s(y, h)}, \qquad
   L = \max_y \bigl( \Delta + P(y) - Q(y) \bigr) - P(\hat y) + Q(\hat y)

Tangents at a point take the place of all Q of the first term and of P in the second: each is below its function, so
what comes out is above L, convex, and equal to it at the point. The tangents of Q are a table a hidden variable, like Q
itself, so the maximum is found as for the loss. Order 1, the limit, is no such difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.inference.base import Bound, Method
from beliefs.inference.portfolio.auto import exact_method
from beliefs.inference.run import best_states
from beliefs.learning.instances import Instance, Slot
from beliefs.learning.losses.base import InstanceLoss, Loss
from beliefs.learning.losses.costs import costs_of
from beliefs.learning.losses.outputs_model import OutputsModel, outputs_model
from beliefs.typing import Floats

__all__ = ["MinEntropyMajorant", "keep_scores"]

_SCORES = Slot[Floats]("scores of hidden states where the tangents are")


@dataclass(frozen=True, kw_only=True)
class MinEntropyMajorant(Loss):
    """The majorant at the point whose scores each instance keeps (:func:`keep_scores`)."""

    order: float
    delta: Any

    name: ClassVar[str] = "the convex problem"
    hidden: ClassVar[bool] = True
    by_variable: ClassVar[bool] = False

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """Instances are not joined: each has its own tangents."""
        return None

    def is_smooth(self, data: Any) -> bool:
        """It has kinks where two labellings are best."""
        return False

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return value and gradient."""
        model, costs, at = outputs_model(instance), costs_of(self.delta, instance), instance.memory.get(_SCORES)
        assert at is not None
        s, order = model.scores(theta), float(self.order)
        p, q, c = max(order, 1.0), min(order, 1.0), 1.0 / abs(order - 1.0)
        of_p, of_q = c * model.log_sums(p * s), c * model.log_sums(q * s)
        tangent_p, slope_p = _tangent(model, at, s, p, c)
        tangent_q, slope_q = _tangent(model, at, s, q, c)
        graph = model.with_tables(theta, _difference(of_p, tangent_q), costs)
        best = best_states(graph, exact_method(model.layout), max_iters=1)[0]
        of_labels = model.value(model.with_tables(theta, _difference(tangent_p, of_q), costs), instance.labels)
        grad = model.pulled_back(best, c * p * model.shares(s, p) - slope_q)
        grad -= model.pulled_back(instance.labels, slope_p - c * q * model.shares(s, q))
        value = model.value(graph, best) - of_labels
        delta = float(costs[model.layout.state_ptr[:-1] + best].sum())
        return InstanceLoss(value, grad, bound=Bound.EXACT, upper=value, minorant=True, delta=delta)


def _tangent(model: OutputsModel, at: Floats, s: Floats, power: float, c: float) -> tuple[Floats, Floats]:
    """Return the tangents of ``c log sum e^(power s)`` at some scores, a table each, and their slopes in s."""
    if not s.size:
        return s, s
    slope = c * power * model.shares(at, power)
    moved = np.where(slope > 0, np.where(slope > 0, s, 0.0) - np.where(slope > 0, at, 0.0), 0.0)
    return c * model.log_sums(power * at) + np.add.reduceat(slope * moved, model.starts), slope


def _difference(one: Floats, other: Floats) -> Floats:
    """Return ``one - other``; -inf where no hidden state is possible."""
    with np.errstate(invalid="ignore"):
        return np.where(one == -np.inf, -np.inf, one - other)


def keep_scores(loss: Loss, weights: Floats, instances: Sequence[Instance]) -> None:
    """Let every instance keep the scores of its hidden states, where the tangents will be."""
    for instance in instances:
        theta = loss.template.theta(weights, instance.inputs)
        instance.memory.put(_SCORES, outputs_model(instance).scores(theta))
