r"""What an optimiser minimises: a loss over data, an optional l1 penalty, weights that may move and their bounds.

.. math:: R(w) = L(w) + \sum_j \ell_j |w_j|, \qquad \text{low}_j \le w_j \le \text{high}_j

with :math:`w_j` held at its start where it may not move. How far a point is from being stationary is the largest entry
of the projected minimum-norm subgradient, zero exactly where no small move lowers R.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.learning.data import LabelledData
from beliefs.learning.fit_loss import Evaluation, as_fit_loss
from beliefs.typing import Bools, Floats

__all__ = ["Coordinates", "Objective"]


class Coordinates(Protocol):
    """A linear map to the weights, in whose arguments a loss is rounder; its range holds all gradients from 0 on."""

    size: int
    """How many numbers it takes."""

    def weights(self, z: Floats) -> Floats:
        """Return the weights at some coordinates."""
        ...

    def slopes(self, grad: Floats) -> Floats:
        """Return the gradient in the coordinates: the transposed map."""
        ...


class Objective:
    """A loss over instances, as a function of the weights.

    Parameters
    ----------
    loss : FitLoss or object
        Has ``evaluate(w, data) -> Evaluation``, or ``value_and_grad(w, data)`` at least.
    data : list or iterable of Instance, or Data
        What the loss is summed over.
    start : ndarray (n_weights,)
    l1 : float or array (n_weights,)
        Penalty on absolute values, on the scale of the loss.
    free : array of bool (n_weights,), optional
        Weights that may move; None: all.
    bounds : pair of float or array, optional
        Lowest and highest values of the weights; infinities where there are none.

    Attributes
    ----------
    n_evaluations : int
        How often the loss over all instances was asked for.
    all_free, penalised, bounded : bool
        Whether all weights may move, any has an l1 penalty, any has a bound.
    """

    def __init__(
        self,
        loss: Any,
        data: LabelledData,
        start: Floats,
        l1: ArrayLike = 0.0,
        free: ArrayLike | None = None,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        self.loss: Any = as_fit_loss(loss)
        self.data, self.start = data, start
        n = start.size
        self.l1 = _per_weight(l1, n, "l1")
        if not (np.isfinite(self.l1).all() and (self.l1 >= 0).all()):
            raise ModelError(f"l1 must be finite and at least 0, found {float(self.l1.min()):g}")
        self.free = _mask(free, n)
        low, high = (-np.inf, np.inf) if bounds is None else _pair(bounds)
        self.low, self.high = _per_weight(low, n, "the lower bounds"), _per_weight(high, n, "the upper bounds")
        if not (self.low <= self.high).all():
            raise ModelError("bounds must be a pair (low, high) with low at most high for every weight")
        self.start = np.where(self.free, np.clip(start, self.low, self.high), start).astype(start.dtype, copy=False)
        self.all_free, self.penalised = bool(self.free.all()), bool(self.l1.any())
        self.bounded = bool(np.isfinite(self.low).any() or np.isfinite(self.high).any())
        self.n_evaluations = 0

    @property
    def l2(self) -> float:
        """The ridge inside the loss."""
        return float(self.loss.l2)

    def coordinates(self) -> Coordinates | None:
        """Return the loss's own coordinates, where it has some; from 0, where all weights may move at no l1 penalty."""
        held = self.penalised or self.bounded or not self.all_free or bool(self.start.any())
        found: Coordinates | None = None if held else self.loss.coordinates(self.data)
        return found

    def check_convex(self, name: str) -> None:
        """Raise for an optimiser of that name, which needs a convex loss, where it is known not to be."""
        if not self.loss.is_convex(self.data):
            others = '"cccp", or sgd' if self.loss.alternates else '"sgd"'
            raise ModelError(
                f"{name} needs a convex loss, and with hidden variables {self.loss.name} is not: use optimizer={others}"
            )

    def penalty(self, weights: Floats) -> float:
        """Return the l1 term."""
        return float(self.l1 @ np.abs(weights)) if self.penalised else 0.0

    def of(self, weights: Floats, data: LabelledData, in_blocks: bool = False) -> Evaluation:
        """Return the loss over some instances, without the l1 term; overflow is an answer, for the optimiser to see.

        With ``in_blocks`` the gradient may come in blocks.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            found: Evaluation = (self.loss.evaluate_in_blocks if in_blocks else self.loss.evaluate)(weights, data)
            return found

    def evaluate(self, weights: Floats) -> Evaluation:
        """Return the loss over all instances, without the l1 term; weights that may not move have gradient 0.

        The gradient is a copy, so that a loss may use its memory again.
        """
        self.n_evaluations += 1
        found = self.of(weights, self.data)
        if found.grad.shape != weights.shape:
            raise ModelError(f"the gradient has shape {found.grad.shape}, the weights have {weights.shape}")
        own = None if found.risk_grad is None else self._where_free(found.risk_grad)
        return replace(found, grad=self._where_free(found.grad), risk_grad=own)

    def _where_free(self, grad: Floats) -> Floats:
        """Return a copy with 0 for the weights that may not move."""
        return grad.copy() if self.all_free else np.where(self.free, grad, 0.0)

    def slope(self, weights: Floats, grad: Floats) -> Floats:
        """Return the projected minimum-norm subgradient of the objective, ``(n_weights,)``."""
        if not (self.penalised or self.bounded):
            return grad if self.all_free else np.where(self.free, grad, 0.0)
        smooth = grad + self.l1 * np.sign(weights)
        at_zero = np.sign(grad) * np.maximum(np.abs(grad) - self.l1, 0.0)
        steep = np.where(weights == 0.0, at_zero, smooth)
        blocked = (weights <= self.low) & (steep > 0) | (weights >= self.high) & (steep < 0)
        return np.where(self.free & ~blocked, steep, 0.0)

    def grad_norm(self, weights: Floats, grad: Floats) -> float:
        """Return the largest entry of :meth:`slope`, the number that ``tol`` is compared with."""
        return float(np.abs(self.slope(weights, grad)).max(initial=0.0))


def _per_weight(values: ArrayLike, n: int, what: str) -> Floats:
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"{what} must be a number or one number a weight, found {values!r}") from None
    if array.ndim and array.shape != (n,):
        raise ModelError(f"{what} must be a number or {n} numbers, one a weight; found shape {array.shape}")
    return np.broadcast_to(array, (n,))


def _pair(bounds: Any) -> tuple[ArrayLike, ArrayLike]:
    try:
        low, high = bounds
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"bounds must be a pair (low, high), found {bounds!r}") from None
    return low, high


def _mask(free: ArrayLike | None, n: int) -> Bools:
    if free is None:
        return np.ones(n, np.bool_)
    mask = np.asarray(free)
    if mask.dtype != np.bool_ or mask.shape != (n,):
        raise ModelError(f"free must be a mask of {n} booleans, found shape {mask.shape} of {mask.dtype}")
    return mask
