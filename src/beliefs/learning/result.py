"""What a fit returns: weights, the loss at them, how it went and how it ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from beliefs.display.description import Described, Description
from beliefs.display.frames import frame
from beliefs.driver import Status
from beliefs.errors import NotConvergedError
from beliefs.inference.base import Bound
from beliefs.learning.optimizers.base import Optimizer
from beliefs.typing import Floats, Ints

__all__ = ["FitProgress", "FitResult", "FitTrace"]


@dataclass(frozen=True, slots=True, eq=False)
class FitProgress:
    """What a callback sees after each update of the weights.

    Attributes
    ----------
    iteration : int
        Iterations finished; of mini-batch optimisers, passes over the data.
    step : int
        Updates made.
    loss, grad_norm : float
        The objective and the largest entry of its gradient; running means of mini-batches.
    validation : float
        The last validation loss, inf before the first.
    weights : ndarray
        The present weights, read-only.
    n_diverged : int
        Instances whose loss has lost its bound; see :class:`beliefs.learning.losses.base.InstanceLoss`.
    gap : float
        A certified bound on how far the loss is above its minimum; inf: none. Of ``cccp``, that of the convex problem.
    """

    iteration: int
    step: int
    seconds: float
    loss: float
    grad_norm: float
    validation: float
    weights: Floats
    n_diverged: int = 0
    gap: float = math.inf


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FitTrace:
    """One row an iteration; never nan, and inf where a number was not computed.

    ``gap``: a certified bound on how far the loss is above its minimum, of ``cccp`` above that of the convex problem
    of the round; ``delta``: the loss of the loss-augmented
    states, of losses with a margin.
    """

    iteration: Ints
    seconds: Floats
    loss: Floats
    grad_norm: Floats
    validation: Floats
    gap: Floats
    delta: Floats

    @classmethod
    def of(cls, rows: Sequence[tuple[float, ...]]) -> FitTrace:
        """Collect rows of the columns."""
        table = np.array(rows, np.float64).reshape(len(rows), len(fields(cls)))
        table[np.isnan(table)] = math.inf
        return cls(table[:, 0].astype(np.int64), *(table[:, c].copy() for c in range(1, table.shape[1])))

    def rows(self) -> list[tuple[float, ...]]:
        """Return the rows."""
        return list(zip(*(getattr(self, f.name).tolist() for f in fields(self)), strict=True))

    def __len__(self) -> int:
        return len(self.iteration)

    def __repr__(self) -> str:
        return f"FitTrace({len(self)} rows of {', '.join(f.name for f in fields(self))})"

    def to_frame(self) -> Any:
        """Return the rows as a pandas frame."""
        return frame({f.name: getattr(self, f.name) for f in fields(self)})


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FitResult(Described):
    """Weights and how they were found.

    Attributes
    ----------
    weights : ndarray (n_weights,)
    loss : float
        The objective at the weights, penalties included.
    grad_norm : float
        The largest entry of its gradient there (of the minimum-norm subgradient with ``l1``).
    validation : float
        The validation loss at the weights, inf without validation.
    gap : float
        A certified bound on how far the loss is above its minimum; inf where the optimiser has none.
    bound : Bound or None
        What the loss is of the one with exact inference, for likelihoods and margins.
    trace : FitTrace
    status : Status
    reason : str
        What the status means here.
    n_iters, n_evaluations : int
        Iterations, and evaluations of the loss over all instances.
    n_diverged, n_not_converged : int
        Instances of the last evaluation whose loss has lost its bound, and whose inference stopped short.
    record : dict of ndarray
        Columns beside the trace that only this optimiser has, by name.
    """

    weights: Floats
    loss: float
    grad_norm: float
    validation: float
    gap: float
    bound: Bound | None
    trace: FitTrace
    status: Status
    reason: str
    n_iters: int
    n_evaluations: int
    n_diverged: int
    n_not_converged: int
    seconds: float
    optimizer: Optimizer
    record: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def converged(self) -> bool:
        """Whether the tolerance was met."""
        return self.status is Status.CONVERGED

    @property
    def was_stopped(self) -> bool:
        """Whether a callback ended the fit, so that no further stage is to follow."""
        return self.status is Status.STOPPED and self.reason == Status.STOPPED.advice

    def require_converged(self) -> FitResult:
        """Return itself, or raise NotConvergedError with advice."""
        if not self.converged:
            raise NotConvergedError(f"{self.optimizer} stopped after {self.n_iters} iterations: {self.reason}")
        return self

    def to_frame(self) -> Any:
        """Return the trace as a pandas frame, a row an iteration."""
        return self.trace.to_frame()

    def _description(self) -> Description:
        worth = "of the loss that was asked for" if self.bound is None else f"{self.bound.words}"
        facts = [
            ("optimizer", f"{self.optimizer}, {self.weights.size} weights"),
            ("loss", f"{self.loss:.10g}"),
            ("worth", worth),
            ("gap", f"at most {self.gap:.2e} above the minimum" if math.isfinite(self.gap) else "not known"),
            ("status", f"{self.status} after {self.n_iters} iterations, {self.seconds:.3g} s"),
            *[("validation", f"{self.validation:.6g}")] * math.isfinite(self.validation),
            *[("advice", self.reason)] * (not self.converged),
        ]
        return Description("FitResult", facts)

    def __repr__(self) -> str:
        gap = f", gap {self.gap:.2e}" if math.isfinite(self.gap) else ""
        held_out = f", validation {self.validation:.6g}" if math.isfinite(self.validation) else ""
        flags = f", {self.n_diverged} diverged" if self.n_diverged else ""
        flags += f", {self.n_not_converged} not converged" if self.n_not_converged else ""
        iterations = f"{self.n_iters} iteration{'' if self.n_iters == 1 else 's'}"
        return (
            f"FitResult\n  optimizer  {self.optimizer}, {self.weights.size} weights\n"
            f"  loss       {self.loss:.10g}, gradient {self.grad_norm:.2e}{gap}{held_out}{flags}\n"
            f"  status     {self.status} after {iterations}, {self.seconds:.3g} s"
        )
