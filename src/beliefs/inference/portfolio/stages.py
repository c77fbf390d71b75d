"""Stages of a portfolio: which methods share the work of one question, in which order, and one of them that is running.

The tuples below are all there is to say about a task; a further method is one more line. Where a method comes in
several sizes, its line holds a function that chooses the largest one for the room there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from beliefs.deadline import OutOfTime, now
from beliefs.driver import Value
from beliefs.inference.base import Method, Problem, Task
from beliefs.inference.buckets.bucket_tree import default_ibound
from beliefs.inference.buckets.wmb import WMB
from beliefs.inference.dual.gdd import GDD
from beliefs.inference.messages.bp import BP
from beliefs.inference.messages.trw import TRW
from beliefs.inference.orders.chosen import chosen_order
from beliefs.inference.regions.ijgp import IJGP, join_ibound
from beliefs.inference.search.cutset import CutsetSearch, cutset
from beliefs.inference.search.local_search import LocalSearch
from beliefs.inference.search.query_value import QueryEvaluator
from beliefs.inference.variational.mean_field import MeanField

__all__ = ["NARROW", "STAGES", "Clock", "ActiveMethod", "Room", "Stage", "cells_valued", "start_seconds"]

_CELL = 1e-8  # seconds of work called a cell: reading one of a plain table
_START = 20.0  # steps that a stage's start, first step and first value take together, at worst
_SMALL, _LARGE = 0.001, 0.02  # of the work there is room for: one step of a small and of a large mini-bucket tree
_TERM, _CUT = 0.0005, (12.0, 22.0)  # likewise the sum outside a cutset; its largest cluster, as powers of two
_JOINED = 0.005  # likewise a step on a join graph
_QUICK = 5e5  # cells of a small one at most: a first answer comes within a second, however much time there is
_DECODING = 300.0  # passes over the model for a decoding and its local search
_BOUNDING = 10_000.0  # likewise for bounds on the value of a query
_STEPS = (3, 50)  # steps of one turn without a clock, at least and at most
_WORK = 5e6  # cells read in such a turn, as far as these allow

NARROW = 0.04
"""Relative: soft models have narrower intervals. A search for one heavy state brings them little, and marginals of the
upper bound are mostly better than those of an estimate outside the interval."""


@dataclass(frozen=True)
class Clock:
    """The time there is: ``end`` on the clock of :func:`beliefs.deadline.now`; inf where nothing is measured."""

    started: float = 0.0
    end: float = math.inf

    @property
    def limited(self) -> bool:
        """Whether there is a time limit; without one the clock is never read, so that answers can be repeated."""
        return self.end < math.inf

    def now(self) -> float:
        """Seconds on the clock, 0 without a limit."""
        return now() if self.limited else 0.0

    def left(self) -> float:
        """Seconds that are left."""
        return self.end - self.now()

    @property
    def turn(self) -> float:
        """Seconds of one turn: short enough to watch and to stop, long enough to be worth its value."""
        return min(max(0.01 * (self.end - self.started), 0.02), 0.3)


@dataclass(frozen=True)
class Room:
    """What a stage that starts now may take: bytes, and cells in all its steps (by the clock, or a fixed effort)."""

    n_bytes: float
    cells: float


Sized = Callable[[Problem, Room], Method | None]


@dataclass(frozen=True)
class Stage:
    """One line of a portfolio.

    Attributes
    ----------
    method : Method, or function of a problem and its room that returns one
    begins : float
        Share of the whole effort after which it starts; sooner if no other has anything to do.
    least : float
        Share of the effort that it gets, as long as it moves, even if the interval does not shrink.
    fallback : bool
        Start only if no estimate has settled by then.
    wider : float
        Where no time is measured, start only if the interval is wider than this by then, relative to its larger end.
    last : bool
        Where no time is measured, start when all others have had the whole effort: the interval is what it is without
        this stage, which improves the estimate in it.
    most : float
        Share of the effort that it gets at most.
    """

    method: Method | Sized
    begins: float = 0.0
    least: float = 0.05
    fallback: bool = False
    wider: float = 0.0
    last: bool = False
    most: float = math.inf

    def sized(self, problem: Problem, room: Room) -> Method | None:
        """Return the method to run, None where none fits the room."""
        return self.method if isinstance(self.method, Method) else self.method(problem, room)


def weighted_mini_buckets(side: str, share: float) -> Sized:
    """Return a function that chooses the largest i-bound whose step is this share of the work there is room for."""

    def sized(problem: Problem, room: Room) -> Method:
        order = chosen_order(problem, "auto")
        fitting = replace(problem, max_bytes=int(room.n_bytes))
        cells = min(share * room.cells, _QUICK if share == _SMALL else math.inf)
        return WMB(ibound=default_ibound(fitting, order, cells), side=side)

    return sized


def heaviest_of_a_cutset(problem: Problem, room: Room) -> Method | None:
    """Return a search over a cutset whose sums are a small part of the work; None where nothing is to be cut."""
    log2_cells = round(float(np.clip(np.log2(max(_TERM * room.cells, 1.0)), *_CUT)))
    layout, order = problem.graph.layout, chosen_order(problem, "auto")
    return CutsetSearch(log2_cells=log2_cells) if cutset(layout, order, log2_cells).size else None


def join_graph(problem: Problem, room: Room) -> Method | None:
    """Return messages on the largest clusters of which a step is a small part of the work; None where none is."""
    fitting = replace(problem, max_bytes=int(room.n_bytes))
    ibound = join_ibound(fitting, chosen_order(problem, "auto"), _JOINED * room.cells)
    return None if ibound is None else IJGP(ibound=ibound)


def cells_valued(method: Method, problem: Problem) -> float:
    """Return the work of a value: passes over the model, and for marginal MAP the sum outside the query."""
    cells = float(problem.graph.layout.table_ptr[-1])
    if method.value_is_free:
        return 0.0
    if problem.task is not Task.MARGINAL_MAP:
        return cells * (_DECODING if problem.task is Task.MAXIMIZE else 10.0)
    evaluator = QueryEvaluator(problem.graph, problem.query, problem.max_bytes)
    return float(evaluator.plan.summed.order.total_cells) if evaluator.is_exact else _BOUNDING * cells


def start_seconds(method: Method, problem: Problem, cells: float) -> float:
    """Predict the time of a stage's start, first step and first value."""
    steps = _START if method.value_is_free is False else 3.0
    return _CELL * steps * cells + method.start_seconds(problem)


STAGES: dict[Task, tuple[Stage, ...]] = {
    Task.INFER: (
        Stage(BP(), least=0.1),
        Stage(MeanField()),
        Stage(TRW()),
        Stage(weighted_mini_buckets("upper", _SMALL)),
        Stage(weighted_mini_buckets("lower", _SMALL)),
        Stage(weighted_mini_buckets("upper", _LARGE), begins=0.1),
        Stage(weighted_mini_buckets("lower", _LARGE), begins=0.1),
        Stage(BP(damping=0.5), begins=0.15, least=0.1, fallback=True),
        Stage(heaviest_of_a_cutset, begins=0.2, wider=NARROW),
        Stage(join_graph, begins=0.5, least=0.2, last=True, most=0.1),
    ),
    Task.MAXIMIZE: (
        Stage(TRW()),
        Stage(BP()),
        Stage(weighted_mini_buckets("upper", _SMALL)),
        Stage(LocalSearch(), least=0.2),
        Stage(weighted_mini_buckets("upper", _LARGE), begins=0.1),
        Stage(GDD(), begins=0.2, least=0.02),
    ),
    Task.MARGINAL_MAP: (
        Stage(weighted_mini_buckets("upper", _SMALL)),
        Stage(LocalSearch(), least=0.2),
        Stage(TRW(), begins=0.05),
        Stage(weighted_mini_buckets("upper", _LARGE), begins=0.1),
        Stage(GDD(), begins=0.2, least=0.02),
    ),
}


@dataclass(eq=False)
class ActiveMethod:
    """A stage that has started.

    Attributes
    ----------
    cells, value_cells : float
        Cells that a step and a value read, the unit of work without a clock.
    most : float
        Seconds, or cells, that it gets at most.
    spent : float
        Seconds, or cells.
    pace, valued : float
        Seconds of a step and of a value, as measured last.
    gain : float
        By how much its last turn shrank the interval per second or cell; inf before the first.
    settled, exhausted : bool
        Whether nothing would move any more, and whether it takes no further turn for another reason.
    """

    stage: Stage
    method: Method
    state: Any
    cells: float
    value_cells: float
    most: float = math.inf
    value: Value = field(default_factory=lambda: Value(-math.inf))
    steps: int = 0
    spent: float = 0.0
    pace: float = 0.0
    valued: float = 0.0
    gain: float = math.inf
    settled: bool = False
    exhausted: bool = False

    def work(self, taken: int) -> float:
        """Cells that a turn of so many steps reads."""
        return self.cells * taken + self.value_cells

    @property
    def estimates(self) -> bool:
        """Whether its value is a number without a bound."""
        return self.value.lower == -math.inf and self.value.upper == math.inf and math.isfinite(self.value.log_z)

    @property
    def exact(self) -> bool:
        """Whether its value is the answer."""
        return self.value.lower == self.value.upper

    def ready(self, clock: Clock) -> bool:
        """Whether it may still move, and one more step and value are predicted to be over in time."""
        over = self.settled or self.exhausted or self.spent >= self.most
        return not over and self.pace + self.valued <= clock.left()

    def advance(self, clock: Clock) -> None:
        """Run a turn: some steps, then the value. Out of time, the value of the last whole step stays."""
        began = clock.now()
        try:
            taken = self._steps(clock)
            stepped = clock.now()
            self.value = self.method.value(self.state)
        except OutOfTime:
            self._give_up()
            return
        self.settled |= self.exact
        if clock.limited:
            self.valued, self.spent = clock.now() - stepped, self.spent + clock.now() - began
        else:
            self.spent += self.work(taken)

    def _give_up(self) -> None:
        """Take no further turn; what the start or the steps before have brought counts."""
        self.exhausted = True
        if self.method.value_is_free:
            with suppress(OutOfTime):
                self.value = self.method.value(self.state)

    def _steps(self, clock: Clock) -> int:
        most, until = self._room(clock)
        for taken in range(1, most + 1):
            before = clock.now()
            residual = self.method.step(self.state)
            self.steps, self.pace = self.steps + 1, clock.now() - before
            tol = self.method.default_tol
            self.settled = residual <= tol and self.method.verify(self.state) <= tol
            long = not clock.limited and self.steps >= self.method.default_max_iters
            self.exhausted = long or not residual < math.inf
            if self.settled or self.exhausted or clock.now() + self.pace > until:
                return taken
        return most

    def _room(self, clock: Clock) -> tuple[int, float]:
        """Return the number of steps, and the time by which they must be over."""
        if not clock.limited:
            return int(np.clip(max(_WORK, self.value_cells) / max(1.0, self.cells), *_STEPS)), math.inf
        return 10**6, min(clock.now() + max(clock.turn, 2.0 * self.valued), clock.end - self.valued)
