"""The driver of a fit as its optimiser sees it: limits, trace, validation, callbacks and checkpoints.

SciPy's loop calls it from its callback; the loops of the other optimisers are those of :func:`beliefs.driver.run`.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields, replace

from beliefs.driver import Limits, Status, says_stop
from beliefs.errors import FormatError, ModelError
from beliefs.learning.checkpoint import Saved
from beliefs.learning.optimizers.base import Point, Stop
from beliefs.learning.result import FitProgress, FitTrace
from beliefs.typing import Floats

__all__ = ["UNBOUNDED", "Watch"]

UNBOUNDED = (
    "too few sweeps, or a value below log Z such as mean_field's, leave the loss without a bound; use an upper "
    "bound such as trw, more sweeps or a larger l2"
)
"""Why a loss can fall for ever, and what to do."""

_VALIDATION = [f.name for f in fields(FitTrace)].index("validation")

Callback = Callable[[FitProgress], object]
Saver = Callable[[Saved], None]


class Watch:
    """What happens between the steps of a fit.

    Parameters
    ----------
    limits : Limits
        The callbacks in it are ignored.
    validate : callable, optional
        From weights to a number that should become small.
    patience : int
        Iterations without a better validation loss after which to stop.
    save, save_every : callable, float
        Writes a checkpoint, at most once in so many seconds.
    past : Saved, optional
        The run that this one goes on from; its clock goes on, too.
    """

    def __init__(
        self,
        limits: Limits,
        callbacks: Sequence[Callback] = (),
        validate: Callable[[Floats], float] | None = None,
        patience: int = 10,
        save: Saver | None = None,
        save_every: float = 30.0,
        past: Saved | None = None,
    ) -> None:
        self.limits, self.callbacks, self.validate, self.patience = limits, tuple(callbacks), validate, patience
        self.save, self.save_every, self.saved_at = save, save_every, limits.started
        self.rows = [] if past is None else past.trace.rows()
        self.earlier = 0.0 if past is None else past.seconds
        self.point = None if past is None else past.point
        self.best = None if past is None else past.best
        self.best_validation = math.inf if past is None else past.best_validation
        self.validation = math.inf
        self.first_diverged: int | None = None

    @property
    def seconds(self) -> float:
        """Wall clock since the call, and of the run that this one goes on from."""
        return time.perf_counter() - self.limits.started + self.earlier

    # -- what optimisers call -------------------------------------------------------------------------------------
    def iterate(self, point: Point) -> None:
        """Take note of a finished iteration: validate, record, save, tell, and stop where that is due."""
        if self.validate is not None:
            self.validation = float(self.validate(point.weights))
            if math.isnan(self.validation):
                raise ModelError(f"the validation loss is nan at iteration {point.iteration}")
            if self.best is None or self._improved():
                self.best, self.best_validation = replace(point, memory={}), self.validation
        self.rows.append(
            (point.iteration, self.seconds, point.loss, point.grad_norm, self.validation, point.gap, point.delta)
        )
        if point.n_diverged and self.first_diverged is None:
            self.first_diverged = point.iteration
        self.between(point)
        if point.n_diverged and point.loss < 0.0:
            raise Stop(
                Status.DIVERGED,
                f"the labels of all instances together have a surrogate probability above one: {UNBOUNDED}",
            )
        if self.best is not None and point.iteration - self.best.iteration >= self.patience:
            raise Stop(
                Status.STOPPED,
                f"the validation loss has not improved for {self.patience} iterations; "
                f"the weights are those of iteration {self.best.iteration}",
            )

    def _improved(self) -> bool:
        """Whether the last validation is better than all before."""
        better = getattr(self.validate, "better", None)
        if better is None:
            return self.validation < self.best_validation
        return bool(better(self.validation, [row[_VALIDATION] for row in self.rows]))

    def between(self, point: Point) -> None:
        """Take note of an update: save, tell, and stop where that is due."""
        self.point = point
        if self.save is not None and time.perf_counter() - self.saved_at >= self.save_every:
            self.write()
        if self.callbacks:
            shown = self._shown(point)
            answers = [says_stop(callback(shown)) for callback in self.callbacks]  # all are told, also if one says stop
            if any(answers):
                raise Stop(Status.STOPPED, Status.STOPPED.advice)
        self.check_time()

    @property
    def looks_between(self) -> bool:
        """Whether anybody looks at updates within an iteration: a checkpoint or a callback."""
        return self.save is not None or bool(self.callbacks)

    def check_time(self) -> None:
        """Stop if the time is up."""
        if time.perf_counter() - self.limits.started > self.limits.time_limit:
            raise Stop(Status.TIME_LIMIT)

    def back_to(self, point: Point) -> None:
        """Forget what came after an earlier point, so that no checkpoint holds it."""
        self.point = point

    # -- what the door calls --------------------------------------------------------------------------------------
    def write(self) -> None:
        """Write a checkpoint of the last whole point, if there is a file for it and a point.

        A disk that is full ends no fit: it is a warning, and the next turn tries again.
        """
        if self.save is None or self.point is None:
            return
        self.saved_at = time.perf_counter()
        try:
            self.save(Saved(self.point, self.trace(), self.seconds, self.best, self.best_validation))
        except FormatError as error:
            warnings.warn(f"the checkpoint was not written: {error}", UserWarning, stacklevel=2)

    def trace(self) -> FitTrace:
        """Return what was recorded."""
        return FitTrace.of(self.rows)

    def _shown(self, point: Point) -> FitProgress:
        weights = point.weights.copy()  # updates may change them, and callbacks may keep them
        weights.setflags(write=False)
        return FitProgress(
            point.iteration,
            point.step,
            self.seconds,
            point.loss,
            point.grad_norm,
            self.validation,
            weights,
            point.n_diverged,
            point.gap,
        )
