"""The state of a portfolio: the interval so far, the methods that gave its ends, and those that are still to come."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

from beliefs.driver import Value
from beliefs.errors import BeliefsError
from beliefs.inference.base import Problem, Task, WarmStages, zero_probability
from beliefs.inference.portfolio.stages import ActiveMethod, Clock, Stage
from beliefs.inference.rounding import magnitude, meet, rounding_error
from beliefs.inference.search.local_interval import local_interval

__all__ = ["PortfolioState"]

_ROUNDING = 1e-6  # relative: beyond it two bounds that cross are no accident of arithmetic
_EXACT = 1e-12  # relative: what rounding may leave at most between two ends that are the same number
_UNKNOWN = 2.0  # relative width of an interval that is open on one side; no other is wider


@dataclass(eq=False)
class PortfolioState:
    """The interval, the methods that gave its ends, those that are running, and the stages still to come.

    ``hurried``: some stage did not start because there was no time for it.
    """

    problem: Problem
    clock: Clock
    waiting: list[Stage]
    warm: WarmStages | None
    turns: int = 0
    running: list[ActiveMethod] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    lower: float = -math.inf
    upper: float = math.inf
    lower_by: ActiveMethod | None = None
    upper_by: ActiveMethod | None = None
    next_up: ActiveMethod | None = None
    at_work: str = ""
    hurried: bool = False

    @property
    def closed(self) -> bool:
        """Whether both ends are one number."""
        return self.lower == self.upper

    @property
    def width(self) -> float:
        """Width of the interval, relative to its larger end."""
        if not math.isfinite(self.upper - self.lower):
            return _UNKNOWN
        return (self.upper - self.lower) / max(1.0, abs(self.lower), abs(self.upper))

    @property
    def spent(self) -> float:
        """Seconds or cells of all turns, but for those that come last."""
        return sum(p.spent for p in self.running if not p.stage.last)

    @property
    def values(self) -> float:
        """Cells of the first value of each stage, which come on top of the effort."""
        return sum(p.value_cells for p in self.running if not p.stage.last)

    @property
    def ready(self) -> list[ActiveMethod]:
        """Those of which another turn is worth it and fits in time."""
        return [p for p in self.running if p.ready(self.clock)]

    @property
    def interval(self) -> tuple[float, float]:
        """The ends known so far: those of the methods, or of the tables alone where these have none as good."""
        return max(self.lower, self.of_tables.lower), min(self.upper, self.of_tables.upper)

    @cached_property
    def of_tables(self) -> Value:
        """What holds before any method has begun; states are worth only what their own value is from below."""
        found = local_interval(self.problem.graph, self.problem.tau)
        if found.upper == -math.inf:
            raise zero_probability(self.problem.graph)
        return found if self.problem.task is Task.INFER else replace(found, lower=-math.inf)

    def refutes(self, active: ActiveMethod) -> bool:
        """Whether an estimate lies outside the interval."""
        return not self.lower <= active.value.log_z <= self.upper

    @cached_property
    def rounding(self) -> float:
        """How far apart two sums of the same potentials may be."""
        graph = self.problem.graph
        return rounding_error(magnitude(graph), graph.n_factors + graph.n_vars)

    def _close(self) -> None:
        """Make one number of two ends that are the same up to rounding: the lower, of sums as it was computed."""
        below, above = (p.value.rounding if p is not None else 0.0 for p in (self.lower_by, self.upper_by))
        same = self.width <= _EXACT and self.upper - self.lower <= self.rounding
        if same or meet(self.lower, self.upper, max(below, above)):
            if self.problem.task is Task.INFER:
                self.lower = min(self.lower + below, self.upper)
            self.upper = self.lower

    def learn(self, active: ActiveMethod) -> None:
        """Take over what a method knows; rounding never turns the interval around, and anything else is a defect."""
        for low, high in ((active.value.lower, self.upper), (self.lower, active.value.upper)):
            if low > high + _ROUNDING * max(1.0, abs(high)):
                raise BeliefsError(
                    f"{active.method}: a lower bound of {low!r} contradicts an upper bound of {high!r}; one of the "
                    "methods is wrong about this model. Please report it, and name the method to run instead"
                )
        lower, upper = min(active.value.lower, self.upper), max(active.value.upper, self.lower)
        if lower > self.lower or (self.lower_by is None and lower > -math.inf):
            self.lower, self.lower_by = lower, active
        if upper < self.upper:
            self.upper, self.upper_by = upper, active
        self._close()
