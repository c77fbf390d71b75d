"""What a fit asks of a loss, as data with defaults; and losses from elsewhere, asked alike.

Optimisers, checkpoints and early stopping look at nothing else: what a loss can do is declared here, and no optimiser
tries a loss for its attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.inference.base import Bound
from beliefs.typing import Floats

__all__ = ["Evaluation", "FitLoss", "GradientBlocks", "as_fit_loss", "is_loss"]


@dataclass(frozen=True, eq=False)
class GradientBlocks:
    """A gradient that is made block by block, by whoever moves the weights: a block is used while it is in the cache.

    ``ends`` are those of the blocks, and ``write(k, out)`` makes block ``k`` of the weights as they are then there. No
    block depends on another, so they may be made side by side. They are lent until the next evaluation.
    """

    ends: tuple[int, ...]
    write: Callable[[int, Floats], None]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The loss over many instances, its gradient in the weights, and how many instances raised which flag.

    ``bound``: for likelihoods and margins, what the value is of the one with exact inference; else None. ``upper``: a
    certified upper bound on that one, the ridge included; inf: none. ``minorant``: the tangent of what is not the ridge
    is nowhere above it, so a cutting plane. ``delta``: the loss of the loss-augmented states, per labelled variable.
    ``risk``, ``risk_grad``: value and gradient of what is not the ridge, which beside a large one would drown; None:
    not known by themselves. ``blocks``: the gradient, where it was asked for in blocks; ``grad`` is then empty.
    """

    value: float
    grad: Floats
    n_instances: int
    n_diverged: int = 0
    n_not_converged: int = 0
    bound: Bound | None = None
    upper: float = np.inf
    minorant: bool = False
    delta: float = 0.0
    risk: float = np.inf
    risk_grad: Floats | None = None
    blocks: GradientBlocks | None = None


class FitLoss:
    """Base of everything that :func:`~beliefs.learning.fit.fit` minimises."""

    name: ClassVar[str]
    l2: float = 0.0
    """The ridge inside the loss."""

    threads: int | None = 1
    """Units of work evaluated side by side; None means all cores."""

    stochastic: ClassVar[bool] = False
    """Whether value and gradient are estimates, which line searches cannot use."""

    by_row: ClassVar[bool] = False
    """Whether the loss is a mean over rows of an array, so that a mini-batch stands for all of them as it is. Gradients
    are then lent until the next evaluation, none are added up over a pass, and an estimate is not made once more when
    a fit ends."""

    remembers: ClassVar[bool] = False
    """Whether evaluations go on from earlier ones, as chains do: checkpoints keep what it remembers."""

    least: ClassVar[float] = -np.inf
    """What the loss is never below, ridge or not, whatever the weights and however good inference is."""

    @property
    def n_weights(self) -> int | None:
        """Number of weights; None: a fit must be given weights to start from."""
        return None

    @property
    def weight_type(self) -> Any:
        """The type of the weights and of gradients."""
        return np.float64

    @property
    def alternates(self) -> bool:
        """Whether there are convex functions above it that touch it, so that ``cccp`` serves it."""
        return False

    def value_and_grad(self, weights: Floats, data: Any) -> tuple[float, Floats]:
        """Return the value over some data and its gradient ``(n_weights,)``."""
        found = self.evaluate(weights, data)
        return found.value, found.grad

    def evaluate(self, weights: Floats, data: Any) -> Evaluation:
        """Return what :meth:`value_and_grad` returns, and the flags; a loss has one of the two."""
        value, grad = self.value_and_grad(weights, data)
        return Evaluation(float(value), np.asarray(grad, np.float64), 0)

    def evaluate_in_blocks(self, weights: Floats, data: Any) -> Evaluation:
        """Return the same with the gradient in blocks, if it can be had so; else as it is."""
        return self.evaluate(weights, data)

    def ridge(self, weights: Floats) -> float:
        """Return the ridge alone."""
        return float(self.l2) * float(weights @ weights)

    def remembered(self) -> dict[str, np.ndarray]:
        """Return what the next evaluation goes on from; the arrays are the loss's own."""
        return {}

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        """Go on from what was remembered."""

    def is_smooth(self, data: Any) -> bool:
        """Whether the loss over these data has a gradient everywhere, as quasi-Newton steps need."""
        return True

    def is_convex(self, data: Any) -> bool:
        """Whether the loss over these data may be convex in the weights; False: it is known not to be."""
        return True

    def is_maximum(self, data: Any) -> bool:
        """Whether the loss over these data may be a maximum of planes; False: it is known not to be."""
        return True

    def coordinates(self, data: Any) -> Any:
        """Return coordinates in which the loss is rounder (:class:`.objective.Coordinates`); None: the weights."""
        return None

    def blocks(self, data: Any) -> Any:
        """Return the blocks (:class:`.blocks.Blocks`) in which the dual is ascended; None: one an instance."""
        return None


class _GivenLoss(FitLoss):
    """A loss from elsewhere, with the defaults for what it does not declare itself."""

    n_weights: int | None = None
    weight_type: Any = np.float64
    alternates: bool = False

    def __init__(self, given: Any) -> None:
        self.given, self.name = given, type(given).__name__  # type: ignore[misc]
        for name in _DECLARED:
            method = callable(getattr(FitLoss, name, None))  # in the place of which a number says nothing
            if hasattr(given, name) and (not method or callable(getattr(given, name))):
                vars(self)[name] = getattr(given, name)


_DECLARED = tuple(name for name in vars(FitLoss) if not name.startswith("_")) + ("name",)


def is_loss(given: Any) -> bool:
    """Whether something can be minimised: it has ``value_and_grad``, or ``evaluate``."""
    return isinstance(given, FitLoss) or hasattr(given, "value_and_grad") or hasattr(given, "evaluate")


def as_fit_loss(given: Any) -> FitLoss:
    """Return a loss as optimisers ask it."""
    return given if isinstance(given, FitLoss) else _GivenLoss(given)
