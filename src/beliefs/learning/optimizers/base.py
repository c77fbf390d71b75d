"""What an optimiser is: options, and one verb that works until the watch says stop.

The watch (:class:`beliefs.learning.watch.Watch`) is the driver as an optimiser sees it. It is told of every iterate
and decides about limits, callbacks, validation and checkpoints; an optimiser owns no clock, no print and no file.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from beliefs.driver import Limits, Status
from beliefs.inference.base import written
from beliefs.learning.fit_loss import Evaluation
from beliefs.learning.optimizers.objective import Objective
from beliefs.options import Suggesting
from beliefs.typing import Floats

__all__ = ["Optimizer", "Outcome", "Point", "Stop", "Watched"]


@dataclass(frozen=True, eq=False)
class Point:
    """An iterate, whole: what is shown of it and what a later run needs to go on from it.

    Attributes
    ----------
    iteration : int
        Iterations finished (passes over the data, for mini-batches).
    step : int
        Updates of the weights made.
    loss, grad_norm : float
        The objective and its largest slope; running means over the pass for mini-batches.
    gap : float
        A certified bound on how far the objective is above its minimum; inf: none.
    delta : float
        The loss of the loss-augmented states, of losses with a margin.
    bound : str
        What the loss is of the one with exact inference, the name of a :class:`~beliefs.inference.base.Bound`; empty
        where that is not known.
    memory : dict of arrays
        What the optimiser remembers besides the weights.
    """

    iteration: int
    step: int
    weights: Floats
    loss: float
    grad_norm: float
    n_diverged: int = 0
    n_not_converged: int = 0
    gap: float = math.inf
    delta: float = 0.0
    bound: str = ""
    memory: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, objective: Objective, weights: Floats, found: Evaluation, iteration: int) -> Point:
        """Return the point of a whole evaluation."""
        return cls(
            iteration,
            iteration,
            weights,
            found.value + objective.penalty(weights),
            objective.grad_norm(weights, found.grad),
            found.n_diverged,
            found.n_not_converged,
            delta=found.delta,
            bound="" if found.bound is None else found.bound.name,
        )


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a minimisation ended: the last point, and a sentence where the status alone does not say enough.

    ``record``: columns by name, one entry an iteration, of what the trace has no place for.
    """

    status: Status
    point: Point
    reason: str = ""
    record: Mapping[str, Floats] = field(default_factory=dict)


class Stop(Exception):
    """Raised by the watch to end a minimisation."""

    def __init__(self, status: Status, reason: str = "") -> None:
        super().__init__(status, reason)
        self.status, self.reason = status, reason


class Watched(Protocol):
    """What an optimiser may ask of the watch."""

    limits: Limits

    def iterate(self, point: Point) -> None:
        """Take note of a finished iteration; raise :class:`Stop` to end."""

    def between(self, point: Point) -> None:
        """Take note of an update within an iteration; raise :class:`Stop` to end."""

    @property
    def looks_between(self) -> bool:
        """Whether anybody looks at updates within an iteration; if not, the time alone has to be checked."""

    def check_time(self) -> None:
        """Raise :class:`Stop` if the time is up."""

    def back_to(self, point: Point) -> None:
        """Forget what came after an earlier point."""


@dataclass(frozen=True, kw_only=True)
class Optimizer(metaclass=Suggesting):
    """Base of all optimisers; the fields are its options, ``repr`` its text form."""

    name: ClassVar[str]
    default_tol: ClassVar[float]
    default_max_iters: ClassVar[int]
    reads_once: ClassVar[bool] = False
    """Whether instances that can be read only once are enough."""

    takes_estimates: ClassVar[bool] = False
    """Whether losses whose values are estimates are served."""

    tol_is_of: ClassVar[str] = "gradient"
    """What ``tol`` is compared with: the largest entry of the ``gradient``, the gap relative to the objective
    (``relative gap``), or the ``relative change`` of the loss."""

    certifies: ClassVar[bool] = True
    """Whether the gap of a point is that of the objective; else it is that of a problem inside, and shown alone."""

    def check(self, objective: Objective) -> None:
        """Raise for an objective that cannot be served, before any work."""

    @abstractmethod
    def minimize(self, objective: Objective, watch: Watched, resumed: Point | None = None, seed: int = 0) -> Outcome:
        """Minimise from the objective's start, or go on from an earlier point."""

    def __repr__(self) -> str:
        return written(self)
