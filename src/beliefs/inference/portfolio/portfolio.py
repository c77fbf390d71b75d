r"""A portfolio: several methods share one question, and the answer is an interval that closes.

Where exact inference does not fit, every method knows one side of the truth. The stages of
:mod:`beliefs.inference.portfolio.stages` take turns, and at every moment

.. math:: \max_s \text{lower}_s \;\le\; \log Z \;\le\; \min_s \text{upper}_s

over all stages :math:`s` and all their iterates so far (likewise for the best score and for marginal MAP), so both ends
are monotone. Who has the next turn:

1. a stage whose time has come, in the order of the list: cheap answers first;
2. a stage that has had less than its least share of the work, for a bound may move slowly and then pass the others;
3. the stage whose last turn shrank the interval most for its work, or came closest to do so.

A stage that improves the estimate and not the interval comes *last*: without a time limit it starts when all others
have had their effort, so that it changes no bound.

With a time limit work is measured in seconds, a turn is about a hundredth of the limit, and a turn that is predicted
not to end in time is not begun. Without one, work is counted in cells and the clock is never read: the same question
gives the same bytes; it ends after ``max_iters`` turns, or where these are not given after a fixed effort. ``tol`` is
the width of the interval relative to its larger end.

An end that no method has yet is that of :mod:`beliefs.inference.search.local_interval`, so that there is an interval
however little time there was.

Guarantee: the interval is certified at every turn. Failure modes: a stage beyond the memory budget is left out and the
reason says so; a proof that no state has positive weight is an error, as from every method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from beliefs.deadline import OutOfTime, now
from beliefs.driver import Status, Value
from beliefs.errors import BudgetError, UnsupportedError
from beliefs.inference.base import Bound, Decoding, Guarantee, Marginals, Method, Problem, Task, WarmStages
from beliefs.inference.messages.bp import BP
from beliefs.inference.portfolio.stages import (
    NARROW,
    STAGES,
    ActiveMethod,
    Clock,
    Room,
    Stage,
    cells_valued,
    start_seconds,
)
from beliefs.inference.portfolio.state import PortfolioState
from beliefs.inference.search.local_interval import score_of_a_state

__all__ = ["Portfolio"]

_TRIFLE = 1_000_000  # bytes that are always there
_HELD = 24.0  # bytes a cell that an active method keeps
_RATE = 3e7  # cells of mini-buckets a second
_ROOM = 6e7  # such cells where no time is measured
_EFFORT = 4e8  # cells of work of all stages together unless the caller says otherwise: some seconds
_FIRST = 0.05, 5.0  # share of the time left, and seconds at most, that local search may take to find and value a start
_KEPT = 0.02, 0.25  # share of the time limit, and seconds at most, that are kept for the final answer


@dataclass(frozen=True, kw_only=True, repr=False)
class Portfolio(Method):
    """What ``auto`` runs where exact inference does not fit; not in ``METHODS``.

    Parameters
    ----------
    stages : tuple of Stage
    clock : Clock
        Of the whole question; without a limit by default.
    effort : float
        Work of all stages together, in cells; it ends nothing that has a time limit.
    """

    stages: tuple[Stage, ...]
    clock: Clock = Clock()
    effort: float = _EFFORT

    name: ClassVar[str] = "auto"
    tasks: ClassVar[tuple[Task, ...]] = tuple(STAGES)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.LOWER, "(and upper)", also=(Bound.UPPER,))
    warm_startable: ClassVar[bool] = True
    cost: ClassVar[str] = "as much as there is time for"
    reference: ClassVar[str] = ""
    iterative: ClassVar[bool] = True
    default_tol: ClassVar[float] = 1e-9
    default_max_iters: ClassVar[int] = 10**9  # turns: time or effort end it
    takes_turns: ClassVar[bool] = True

    @classmethod
    def of(cls, problem: Problem, started: float) -> Portfolio:
        """Return the portfolio of a task; ``started`` is :func:`beliefs.deadline.now` where its time limit begins."""
        limit = problem.time_limit
        kept = min(_KEPT[0] * limit, _KEPT[1]) if limit < math.inf else 0.0
        clock = Clock(started, started + limit - kept) if limit < math.inf else Clock()
        return cls(stages=STAGES[problem.task], clock=clock)

    @classmethod
    def at_once(cls, problem: Problem) -> Portfolio:
        """Return the portfolio of which nothing is left but the start of the stage that starts soonest."""
        return cls(stages=(Stage(BP()), *STAGES[problem.task]), clock=Clock(now(), now()))

    def __repr__(self) -> str:
        return self.name

    # -- the verbs ----------------------------------------------------------------------------------------------
    def init(self, problem: Problem, warm: WarmStages | None = None) -> PortfolioState:
        """Start the first stage that fits; a budget too small for all of them is its BudgetError."""
        state = PortfolioState(problem, self.clock, list(self.stages), warm)
        while state.waiting and not state.running:
            _start(state, state.waiting.pop(0), self._spent(state))
        if not state.running:
            first = self.stages[0].sized(problem, Room(0.0, 0.0))
            assert first is not None
            first.init(problem)  # raises, unless it was time that all of them lacked
            raise OutOfTime
        state.next_up = state.running[0]
        return state

    def ended(self, state: PortfolioState) -> Status | None:
        """Choose the method to run next; the status if none is left or has the time."""
        over = self._over(state)
        if state.next_up is None:
            state.next_up = self._next(state)
        if state.next_up is not None:
            return None
        if not over and not state.hurried and all(p.settled for p in state.running):
            return Status.CONVERGED
        return Status.TIME_LIMIT if self.clock.limited else Status.MAX_ITERS

    def step(self, state: PortfolioState) -> float:
        """Let one stage take its turn; the residual is the relative width of the interval."""
        active = state.next_up or self._next(state)
        state.next_up = None
        if active is not None:
            state.turns += 1
            state.at_work = repr(active.method)
            self._advance(state, active)
        return state.width

    def value(self, state: PortfolioState) -> Value:
        """Return the interval so far, and in it the best single value."""
        if state.turns == 0:  # none has run: what the first stage knows at its start
            active = state.running[0]
            active.value = active.method.value(active.state)
            state.learn(active)
        if state.closed:
            return Value(state.lower, state.lower, state.upper)
        lower, upper = state.interval
        return Value(min(max(_source(state).value.log_z, lower), upper), lower, upper)

    def finish(self, state: PortfolioState) -> Marginals | Decoding:
        """Return marginals or the assignment of the best stage, with the interval of all."""
        value = self.value(state)
        if state.problem.task is not Task.INFER:
            source = _source(state)
            found = source.method.finish(source.state)
            assert isinstance(found, Decoding)
            if state.problem.task is Task.MAXIMIZE:
                found = replace(found, bound=Bound.EXACT if state.closed else Bound.ESTIMATE)
            lower = max(found.lower, value.lower)  # a last local search may have improved it
            return replace(found, lower=lower, upper=max(lower, value.upper))
        marginals = _marginals_of(state)
        beliefs = marginals.method.finish(marginals.state)
        assert isinstance(beliefs, Marginals)
        lower = value.lower
        if lower == -math.inf:
            lower = min(score_of_a_state(state.problem.graph, state.problem.seed), value.upper)
        return replace(
            beliefs,
            log_z=max(lower, value.log_z),
            bound=_bound(state),
            lower=lower,
            upper=value.upper,
            estimated=beliefs.estimated or beliefs.bound is not Bound.EXACT,
        )

    def warm_state(self, state: PortfolioState) -> WarmStages:
        """Return what each stage keeps."""
        return WarmStages(tuple((p.method, p.method.warm_state(p.state)) for p in state.running))

    def warm_from(self, earlier: WarmStages) -> WarmStages:
        """Return what all of them have left: each stage looks for its own."""
        return earlier

    def for_iterations(self, max_iters: int | None) -> Portfolio:
        """Take as many turns as were asked for, whatever the effort."""
        return self if max_iters is None else replace(self, effort=math.inf)

    def at_work(self, state: PortfolioState) -> str:
        """Return the text of the method that had the last turn."""
        return state.at_work

    def ran(self, state: PortfolioState) -> tuple[Method, str]:
        """Return the method whose value or assignment is the answer, and a sentence on what each stage gave."""
        return _source(state).method, _summary(state)

    # -- whose turn it is ---------------------------------------------------------------------------------------
    def _spent(self, state: PortfolioState) -> float:
        """Return the share of the whole effort that is gone."""
        if not self.clock.limited:
            return state.spent / (_EFFORT + state.values)
        return (self.clock.now() - self.clock.started) / max(1e-9, self.clock.end - self.clock.started)

    def _over(self, state: PortfolioState) -> bool:
        """Whether the effort is gone, so that only the last stages may go on."""
        return not self.clock.limited and state.spent >= self.effort + state.values

    def _due(self, stage: Stage, spent: float) -> bool:
        return stage.begins <= spent and (self.clock.limited or not stage.last)

    def _next(self, state: PortfolioState) -> ActiveMethod | None:
        over, spent = self._over(state), self._spent(state)
        ready = [p for p in state.ready if p.stage.last or not over]
        while state.waiting and (not ready or self._due(state.waiting[0], spent)):
            stage = state.waiting.pop(0)
            started = None if over and not stage.last else _start(state, stage, spent)
            if started is not None:
                return started
        if not ready:
            return None
        starving = [p for p in ready if p.spent < p.stage.least * state.spent]
        return min(starving, key=lambda p: p.spent / p.stage.least) if starving else max(ready, key=lambda p: p.gain)

    def _advance(self, state: PortfolioState, active: ActiveMethod) -> None:
        before, spent, interval = active.value, active.spent, (state.lower, state.upper)
        try:
            active.advance(self.clock)
        except (BudgetError, UnsupportedError) as error:
            _leave(state, active, str(error))
            return
        state.learn(active)
        shrunk = _fall(interval[1], state.upper) + _fall(-interval[0], -state.lower)
        near_upper = _fall(before.upper, active.value.upper) - _fall(active.value.upper, state.upper)
        near_lower = _fall(-before.lower, -active.value.lower) - _fall(-active.value.lower, -state.lower)
        active.gain = max(shrunk, near_upper, near_lower, 0.0) / max(active.spent - spent, 1e-9)


def _fall(before: float, after: float) -> float:
    """Return by how much a bound fell; 0 where it did not exist before or does not now."""
    return before - after if math.isfinite(before) and math.isfinite(after) else 0.0


def _start(state: PortfolioState, stage: Stage, spent: float) -> ActiveMethod | None:
    """Start a stage; one that does not fit, in memory or in time, is left out."""
    problem, clock = state.problem, state.clock
    if stage.fallback and any(p.estimates and p.settled for p in state.running):
        return None
    if not clock.limited and state.width <= stage.wider:
        return None
    held = _HELD * problem.graph.layout.table_ptr[-1] * len(state.running)
    n_bytes = max(problem.max_bytes - float(held), 0.0)
    left = clock.left()
    if state.running and left <= 0:
        state.hurried = True
        return None
    try:
        method = stage.sized(problem, Room(n_bytes, _RATE * left if clock.limited else _ROOM))
    except OutOfTime:
        state.hurried = True
        return None
    if method is None or any(repr(p.method) == repr(method) for p in state.running):
        return None
    if not method.has_marginals and not state.running:  # one must have marginals
        return None
    cells = method.step_cells(problem)
    if state.running and start_seconds(method, problem, cells) > left:
        state.skipped.append(f"{method} (no time)")
        state.hurried = True
        return None
    limit = max(left, 0.0) if clock.limited else math.inf
    if not method.ends_by_itself:
        limit = min(_FIRST[0] * left, _FIRST[1]) if clock.limited else math.inf
    try:
        asked = replace(problem, max_bytes=max(int(n_bytes), _TRIFLE), time_limit=limit)
        begun = method.init(asked, _warm(state, stage, method))
    except (BudgetError, UnsupportedError, OutOfTime) as error:
        state.skipped.append(f"{method} ({_short(error) or 'no time'})")
        state.hurried |= isinstance(error, OutOfTime)
        return None
    most = stage.most * (clock.end - clock.started if clock.limited else _EFFORT)
    active = ActiveMethod(stage, method, begun, cells, cells_valued(method, problem), most)
    state.running.append(active)
    return active


def _warm(state: PortfolioState, stage: Stage, method: Method) -> Any:
    """Return what a stage may go on from: an earlier result, or for a fallback what the same method has reached."""
    if state.warm is not None:
        return state.warm.of(method)
    alike = [p for p in state.running if type(p.method) is type(method)] if stage.fallback else []
    return alike[0].method.warm_state(alike[0].state) if alike else None


def _leave(state: PortfolioState, active: ActiveMethod, why: str) -> None:
    """Stop a method whose next step does not fit; what it has given stays."""
    state.skipped.append(f"{active.method} ({_short(why)})")
    active.exhausted = True


def _short(error: object) -> str:
    """Return the first part of a message: what is needed, without advice."""
    return str(error).split(";")[0].split(". ")[0]


# -- which method answers -----------------------------------------------------------------------------------------
def _source(state: PortfolioState) -> ActiveMethod:
    """Return the method of the point value: the estimate in the interval, or the best assignment."""
    exact = [p for p in state.running if p.exact]
    if exact:
        return exact[0]
    if state.problem.task is not Task.INFER:
        best = max(state.running, key=lambda p: p.value.log_z)
        return state.lower_by or best
    estimates = [p for p in state.running if p.estimates]
    if estimates and not state.closed:
        settled = [p for p in estimates if p.settled]
        if not settled:  # none is to be believed, the one in the middle is the furthest from nowhere
            possible = [p for p in estimates if not state.refutes(p)] or estimates
            return sorted(possible, key=lambda p: p.value.log_z)[(len(possible) - 1) // 2]
        return next((p for p in settled if p.stage.last), settled[0])
    return state.upper_by or _with_marginals(state.lower_by) or state.running[0]


def _marginals_of(state: PortfolioState) -> ActiveMethod:
    """Return the method with the best marginals: exact ones, a settled estimate, or those of the tighter bound.

    Where a settled estimate lies outside a narrow interval, those of the bound are better, as was measured.
    """
    source = _source(state)
    wrong = state.refutes(source) and state.width <= NARROW
    if source.exact or (source.estimates and source.settled and not wrong):
        return source
    return state.upper_by or _with_marginals(state.lower_by) or source


def _with_marginals(active: ActiveMethod | None) -> ActiveMethod | None:
    """Return the method, None if it bounds log Z and knows nothing else."""
    return None if active is None or not active.method.has_marginals else active


def _bound(state: PortfolioState) -> Bound:
    if state.closed:
        return Bound.EXACT
    source = _source(state)
    if source.estimates:
        return Bound.ESTIMATE
    return Bound.UPPER if source is state.upper_by else Bound.LOWER if source is state.lower_by else Bound.ESTIMATE


def _summary(state: PortfolioState) -> str:
    """Return what each stage gave, in one sentence."""
    roles: dict[str, list[str]] = {}
    sources = [("assignment", _source(state)), ("upper bound", state.upper_by)]
    if state.problem.task is Task.INFER:
        sources = [("log Z", _source(state)), ("marginals", _marginals_of(state)), ("lower bound", state.lower_by)]
        sources.append(("upper bound", state.upper_by))
    for what, active in sources:
        if active is not None:
            name = f"{active.method} ({active.steps} step{'' if active.steps == 1 else 's'})"
            roles.setdefault(name, []).append(what)
    parts = [f"{' and '.join(what)} by {name}" for name, what in roles.items()]
    others = [repr(p.method) for p in state.running if p not in [active for _, active in sources]]
    if others:
        parts.append(f"no better: {', '.join(others)}")
    if state.skipped:
        parts.append(f"left out: {', '.join(state.skipped)}")
    return "; ".join(parts)
