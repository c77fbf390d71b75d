"""The loop of optimisers that make one point an iteration: the driver's, with the watch told of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from beliefs.driver import Status, Value, run
from beliefs.learning.optimizers.base import Outcome, Point, Stop, Watched

__all__ = ["Rounds"]


class Rounds(ABC):
    """One minimisation under way.

    Attributes
    ----------
    watch : Watched
    point : Point
        Where it is.
    fresh : bool
        Whether the first point is new; one that was resumed from is known to the watch.
    """

    watch: Watched
    point: Point
    fresh: bool

    def run(self) -> Status:
        """Let the driver run the loop."""
        if self.fresh:
            self.watch.iterate(self.point)
        left = max(self.watch.limits.max_iters - self.point.iteration, 0)
        limits = replace(self.watch.limits, max_iters=left, callbacks=())
        return run(self._step, lambda: Value(0.0), limits, fixed_point=False, ended=self._ended).status

    def outcome(self, meaning: str) -> Outcome:
        """Run to an end, and say which; ``meaning`` is what a convergence means."""
        try:
            status = self.run()
        except Stop as stop:
            return Outcome(stop.status, self.point, stop.reason)
        return Outcome(status, self.point, meaning if status is Status.CONVERGED else "")

    @abstractmethod
    def _step(self) -> float:
        """Make the next point, tell the watch, and return what is compared with ``tol``."""

    def _ended(self) -> Status | None:
        """Return the status to end with where nothing is left to do."""
        return None
