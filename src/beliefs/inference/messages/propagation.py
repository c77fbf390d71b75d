r"""What belief propagation, tree-reweighted and fractional message passing have in common.

They differ in one array, the counting numbers :math:`\rho_c`, and in what their value is worth. Equations are in
:mod:`beliefs.kernels.messages.log`; how messages are held, in :mod:`beliefs.inference.messages.tiers`.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Value
from beliefs.inference.base import (
    Bound,
    Decoding,
    Derivative,
    Marginals,
    Method,
    Problem,
    Tables,
    Task,
    Unions,
    check_possible,
    observed_point_masses,
    zero_probability,
)  # fmt: skip
from beliefs.inference.budget import over_budget
from beliefs.inference.messages.decoding import Moves, decoded, query_decoding
from beliefs.inference.messages.log_messages import Assessment, LogMessages
from beliefs.inference.messages.memory import needed_bytes
from beliefs.inference.messages.pairwise_tier import PairwiseTier
from beliefs.inference.messages.residual import ResidualQueue
from beliefs.inference.messages.rho import Reweighting
from beliefs.inference.messages.schedule import SCHEDULES, make_schedule
from beliefs.inference.messages.sweep_spec import SweepSpec
from beliefs.inference.messages.tiers import LinearTier, LogTier, Tier
from beliefs.inference.rounding import meet
from beliefs.kernels.messages.linear import IMPOSSIBLE, OUT_OF_RANGE
from beliefs.kernels.messages.reach import keep_within_reach
from beliefs.model.layout import Layout
from beliefs.options import check_option, is_number, is_word
from beliefs.typing import Bools, Floats, Ints

__all__ = ["FrankWolfe", "MessagePassing", "MessageState", "MessageWarmStart"]

_LEAST = -7.0  # nats: where a hard zero is gone, no message of a warm start says less than exp(-7), about 1e-3
_QUIET = 1e-3  # change of a marginal below which saturated models are looked at more closely, and of their logs
_SETTLED = 1e-6  # change below which a fixed point is verified: factors and variables must agree
_AGREE = 1e-6  # how closely
_SATURATED = 1e-9  # a marginal that may hide a change of its logs
_TINY = 1e-4  # share of the way to turning over that a step may still go: ten thousand of them are not looked ahead
_CALM = 0.5  # damping of messages that do not settle without
_TRIFLE = 1_000_000  # bytes that are always there
_WORTH_THREADS = 200_000  # cells: a smaller sweep is over before a second thread has begun


@dataclass(frozen=True, eq=False)
class MessageWarmStart:
    """What a warm start needs: the log messages, or who can give them, and the potentials they rest on."""

    sent: Tables
    theta: Floats
    reweighting: Reweighting
    frank_wolfe_steps: int = 0

    @cached_property
    def messages(self) -> Floats:
        """The log messages."""
        return self.sent() if callable(self.sent) else self.sent

    def messages_for(self, spec: SweepSpec) -> Floats:
        """Return messages to go on from, those of other potentials as far as the present ones could have said them.

        Proofs of impossibility stay as long as all zeros they rest on are there.
        """
        sent, theta = self.messages.copy(), spec.theta
        if theta is not self.theta:
            if ((self.theta == -np.inf) & (theta > -np.inf)).any():
                np.maximum(sent, _LEAST, out=sent)
            keep_within_reach(spec.layout.scopes, spec.model, spec.summed, sent)
        return sent

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"sent": self.messages}  # arrays travel, functions may not


@dataclass(eq=False)
class FrankWolfe:
    """Steps of conditional gradient on the counting numbers, and the best of them so far with its messages."""

    left: int = 0
    bound: float = np.inf
    reweighting: Reweighting | None = None
    messages: Floats | None = None


class MessageState:
    """Messages and what follows from them."""

    def __init__(self, problem: Problem, spec: SweepSpec, reweighting: Reweighting, warm: Floats | None) -> None:
        self.problem, self.spec, self.reweighting, self.start = problem, spec, reweighting, warm
        self.mu_var = observed_point_masses(problem.graph)
        self.n_steps = 0
        self.whole = _whole(problem)
        """Whether a state of all variables is asked for."""
        self.threads = problem.threads if spec.layout.table_ptr[-1] >= _WORTH_THREADS else 1
        self.change = np.inf
        self.rounding = 0.0
        """How far the bound on maxima was moved for the errors of its own arithmetic."""
        self.best: Decoding | None = None
        self.decoded_at = -1
        self.log_beliefs: deque[Floats] = deque(maxlen=3)
        """Those after the last steps, as long as marginals stand still and some are saturated."""
        self.least_upper = np.inf
        """The least certified upper bound met so far."""
        self.log_z_upper: float | None = None
        """A bound on log Z, which no value of a query exceeds; None: not looked for."""
        self.frank_wolfe = FrankWolfe()
        self.tier: Tier
        self._logs: tuple[int, LogMessages] | None = None
        self._assessment: tuple[int, Assessment] | None = None

    def select_tier(self, tiers: tuple[type[Tier], ...], spec: SweepSpec, messages: Floats | None) -> None:
        """Hold the messages in the first form that can; None stands for uniform messages."""
        self.spec, self._logs, self._assessment = spec, None, None
        found = next((tier for kind in tiers if (tier := kind.make(spec, messages)) is not None), None)
        if found is None or not found.beliefs(self.mu_var)[1]:
            raise zero_probability(self.problem.graph)
        self.tier = found

    @cached_property
    def moves(self) -> Moves:
        """What improves decodings."""
        return Moves(self.spec.layout)

    @property
    def logs(self) -> LogMessages:
        """The messages as logs, made once an iterate."""
        if self._logs is None or self._logs[0] != self.n_steps:
            self._logs = self.n_steps, LogMessages.of(self.spec, self.tier.log_messages())
        return self._logs[1]

    @property
    def assessment(self) -> Assessment:
        """What the messages of sums are worth, found once an iterate."""
        if self._assessment is None or self._assessment[0] != self.n_steps:
            found = self.tier.assess(self.mu_var, self.reweighting.parent)
            if found.energy == -np.inf:
                raise zero_probability(self.problem.graph)
            self._assessment = self.n_steps, found
        return self._assessment[1]

    def iterate(self) -> int:
        """Run all passes once; return the worst of what the tier says."""
        for index in range(self.tier.n_passes):
            code = self.tier.run_pass(index, self.threads)
            if code > 0:
                return code
        self.n_steps += 1
        return self.tier.end_iteration(self.n_steps)


@dataclass(frozen=True, kw_only=True, repr=False)
class MessagePassing(Method):
    """Options and verbs of all message passing.

    Parameters
    ----------
    damping : float in [0, 1)
        Share of the old message in the new one.
    damp : {"log", "probability"}
        Whether messages are mixed as logs or as probabilities.
    schedule : str
        See :mod:`beliefs.inference.messages.schedule`; ``"auto"`` is ``"tree"`` on forests, else ``"sequential"``.
    order : list of factor indices, optional
        The order of a sequential schedule.
    stop : {"marginals", "messages"}
        What ``tol`` is compared with: the largest change of a variable's marginal or of a message in an iteration.
    """

    damping: float = 0.0
    damp: str = "log"
    schedule: str = "auto"
    order: Any = None
    stop: str = "marginals"

    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER, Task.MAXIMIZE, Task.MARGINAL_MAP)
    cost: ClassVar[str] = "cells a sweep"
    iterative: ClassVar[bool] = True
    value_is_free: ClassVar[bool] = False
    fixed_point: ClassVar[bool] = True
    derivative: ClassVar[Derivative] = Derivative.MESSAGES
    warm_startable: ClassVar[bool] = True
    warm_kind: ClassVar[type] = MessageWarmStart
    mixed_price: ClassVar[float] = 30.0
    values_queries: ClassVar[bool] = True
    certifies: ClassVar[bool] = False
    """Whether counting numbers come with a certificate."""

    tiers: ClassVar[tuple[type[Tier], ...]] = (PairwiseTier, LinearTier, LogTier)

    def __post_init__(self) -> None:
        if is_word(self.schedule, ("even",)):
            warnings.warn("schedule=even is called color_or_tree; the old name goes in 0.2", DeprecationWarning, 4)
            object.__setattr__(self, "schedule", "color_or_tree")
        check_option(is_number(self.damping) and 0 <= self.damping < 1, "damping", "in [0, 1)", self.damping)
        how = "'log' or 'probability'" + f" (did you mean damping={self.damp}?)" * is_number(self.damp)
        check_option(is_word(self.damp, ("log", "probability")), "damp", how, self.damp)
        check_option(is_word(self.schedule, SCHEDULES), "schedule", f"one of {', '.join(SCHEDULES)}", self.schedule)
        check_option(is_word(self.stop, ("marginals", "messages")), "stop", "'marginals' or 'messages'", self.stop)

    @abstractmethod
    def counting_numbers(self, problem: Problem, warm: MessageWarmStart | None) -> Reweighting:
        """Return the counting numbers, with their certificate if there is one."""

    # -- the verbs ----------------------------------------------------------------------------------------------
    def init(self, problem: Problem, warm: MessageWarmStart | None = None) -> MessageState:
        """Start from uniform messages, or from those of an earlier result."""
        graph, layout = problem.graph, problem.graph.layout
        self._check_budget(problem)
        check_possible(graph)
        reweighting = self.counting_numbers(problem, warm)
        summed = problem.tau > 0
        schedule = make_schedule(layout, self.schedule, self.order)
        spec = SweepSpec(
            layout, graph.theta, summed, reweighting.rho, schedule, float(self.damping), self.damp == "log"
        )
        state = MessageState(problem, spec, reweighting, None if warm is None else warm.messages_for(spec))
        state.select_tier((ResidualQueue,) if schedule.name == "residual" else self.tiers, spec, state.start)
        if warm is not None:
            _keep_log_beliefs(state, 0.0)
        return state

    def _check_budget(self, problem: Problem) -> None:
        """Raise if scaled tables, messages, their sums and the order do not fit."""
        room = max(problem.max_bytes, _TRIFLE)
        enough = 0.0 if problem.task is Task.MARGINAL_MAP else room  # there what is not claimed is left to values
        needed = needed_bytes(problem.graph, self.certifies, problem.task, enough)
        problem.claim(needed)
        if needed > room:
            demand, purpose = f"{self.name} needs", " for messages and tables"
            raise over_budget(demand, needed, problem.max_bytes, "Raise max_bytes", purpose)

    def step(self, state: MessageState) -> float:
        """Run every pass once; the residual is the largest change of a variable's marginal (or of a message)."""
        before = state.tier.log_messages().copy() if self.stop == "messages" else None
        code = state.iterate()
        if code == OUT_OF_RANGE:  # from the start again, in logs, where nothing is left of the numbers
            del state.tier
            state.select_tier((LogTier,), state.spec, state.start)
            code = state.iterate()
        if code == IMPOSSIBLE:
            raise zero_probability(state.problem.graph)
        change, possible = state.tier.beliefs(state.mu_var)
        if not possible:
            raise zero_probability(state.problem.graph)
        if before is not None:
            after = state.tier.log_messages()
            change = float(np.abs(np.exp(after) - np.exp(before)).max(initial=0.0)) / (1.0 - self.damping)
        state.change = change
        _keep_log_beliefs(state, change)
        if state.whole and state.n_steps & (state.n_steps - 1) == 0:
            self.decoding(state)  # after 1, 2, 4, 8, ... iterations: messages that do not settle pass good states
        return change

    def verify(self, state: MessageState) -> float:
        """Return how far the messages are from a fixed point where marginals, 0 or 1 up to rounding, do not tell."""
        if self.exact_here(state) or not (state.change < _SETTLED or _may_hide_changes(state)):
            return 0.0
        apart = self.distance(state)
        return apart if apart > _AGREE else 0.0

    def distance(self, state: MessageState) -> float:
        """Return how far beliefs are from agreeing, or 1 where saturated ones may yet turn over."""
        if _still_moving(state):
            return 1.0
        return state.assessment.apart if state.problem.task is Task.INFER else 0.0

    def value(self, state: MessageState) -> Value:
        """Return the present value: of the beliefs for sums, of the best decoding for maxima."""
        if state.problem.task is Task.INFER:
            log_z, _, lower, upper = self.worth(state)
            return Value(log_z, lower, upper, state.assessment.rounding)
        found = self.decoding(state)
        return Value(found.log_value, found.lower, found.upper, state.rounding)

    def finish(self, state: MessageState) -> Marginals | Decoding:
        """Return beliefs and their value, or the decoding; neither holds on to the tables of the sweeps."""
        return self.marginals(state) if state.problem.task is Task.INFER else self.decoding(state)

    def warm_state(self, state: MessageState) -> MessageWarmStart:
        """Return the messages, the potentials they rest on, and the counting numbers."""
        return MessageWarmStart(state.tier.record().log_messages, state.problem.graph.theta, state.reweighting)

    def for_learning(self) -> MessagePassing:
        """Send class by class of factors that share no variable, unless a schedule is given.

        The strips that let large models use several threads would leave seams after few sweeps, and a sequential order
        swings where couplings are strong, so that learning through it ends elsewhere.
        """
        return replace(self, schedule="color_or_tree") if self.schedule == "auto" and self.order is None else self

    @property
    def on_unions(self) -> Unions:
        """Messages of parts do not meet, in an order that treats each part as if it were alone."""
        alone = self.order is None and self.schedule != "residual" and self.chooses_by_part
        return Unions.PARTS if alone else Unions.NOTHING

    @property
    def chooses_by_part(self) -> bool:
        """Whether the counting numbers of a union can be those of its parts."""
        return True

    def irreversible(self) -> str:
        """Refuse damping, and schedules that no kernel walks back."""
        if self.damping > 0:
            return (
                f"gradients through {self.name} need damping=0, found {self.damping:g}; a fixed number of sweeps "
                "needs no damping"
            )
        if self.schedule in ("flooding", "chains", "residual"):
            return f"there is no way back through schedule={self.schedule!r}; use sequential, forward, color or tree"
        return ""

    def calmer(self) -> MessagePassing | None:
        """Keep half of the old message, where none is kept yet: damping moves no fixed point."""
        return replace(self, damping=_CALM) if self.damping == 0 else None

    # -- answers ------------------------------------------------------------------------------------------------
    def worth(self, state: MessageState) -> tuple[float, Bound, float, float]:
        """Return the value of sums, what it is, and the certified interval."""
        energy = state.assessment.energy
        if self.exact_here(state):
            return energy, Bound.EXACT, energy, energy
        upper = self.upper_bound(state)
        if upper < np.inf:
            return upper, Bound.UPPER, -np.inf, upper
        return energy, Bound.ESTIMATE, -np.inf, np.inf

    def marginals(self, state: MessageState) -> Marginals:
        """Return beliefs and their worth; those of factors are made when they are asked for."""
        log_z, bound, lower, upper = self.worth(state)
        return Marginals(
            log_z,
            bound,
            state.mu_var,
            partial(state.tier.record().tables, state.mu_var),
            lower,
            upper,
            rho=state.reweighting.rho,
        )

    def decoding(self, state: MessageState) -> Decoding:
        """Return the best decoding so far: a real assignment with its real score or value."""
        problem = state.problem
        if state.best is None or state.decoded_at != state.n_steps:
            state.decoded_at = state.n_steps
            upper = self.upper_bound(state)
            if state.whole:
                state.moves.allow(state.n_steps, state.change < _SETTLED)
                found = decoded(problem, state.tier, self.exact_here(state), upper, state.moves)
            else:
                found = query_decoding(problem, state.logs, upper)
            found = found if state.best is None else better(state.best, found)
            met = meet(found.lower, found.upper, state.rounding)
            state.best = replace(found, upper=found.lower) if met else found
        return state.best

    def exact_here(self, state: MessageState) -> bool:
        """Whether the messages are those of exact inference: a forest, swept from leaves to roots and back."""
        schedule = state.spec.schedule
        plain = schedule.forest and schedule.name == "tree" and self.damping == 0 and bool((state.spec.rho == 1).all())
        return plain and state.n_steps > 0

    def upper_bound(self, state: MessageState) -> float:
        """Return a certified upper bound at the present iterate, inf if there is none."""
        return np.inf


def _whole(problem: Problem) -> bool:
    """Whether a state of all variables is asked for."""
    hidden = int((~problem.graph.layout.observed).sum())
    return problem.task is Task.MAXIMIZE or (problem.task is Task.MARGINAL_MAP and problem.query.size == hidden)


def _may_hide_changes(state: MessageState) -> bool:
    """Whether marginals that stand still may hide messages that do not."""
    if state.change >= _QUIET:
        return False
    lay, rho = state.spec.layout, state.spec.rho
    wide = lay.plan(_wide_factors)
    has_self_feedback = bool((rho[wide] < 1.0).any())  # messages of such a factor depend on each other
    return has_self_feedback or _some_are_saturated(state)


def _wide_factors(layout: Layout) -> Ints:
    return np.flatnonzero(layout.arity > 2)


def _saturated(state: MessageState) -> Bools:
    """Return which states of unobserved variables have a marginal of 0 up to rounding."""
    lay = state.spec.layout
    return (state.mu_var < _SATURATED) & np.repeat(~lay.observed, lay.card)


def _some_are_saturated(state: MessageState) -> bool:
    return state.mu_var.min(initial=1.0) < _SATURATED and bool(_saturated(state).any())


def _keep_log_beliefs(state: MessageState, change: float) -> None:
    """Keep the logs of the variables' beliefs after a step, that of the likeliest state 0."""
    if change >= _QUIET or not _some_are_saturated(state):
        state.log_beliefs.clear()
        return
    lay, beta = state.spec.layout, state.tier.log_beliefs()
    beta -= np.repeat(np.maximum.reduceat(beta, lay.state_ptr[:-1]), lay.card)
    state.log_beliefs.append(beta)


def _still_moving(state: MessageState) -> bool:
    """Whether a state whose belief is 0 up to rounding is likelier than in the two steps before: it may yet turn over.

    Two, for messages that are sent all at once may go to and fro.
    """
    if not state.log_beliefs:
        return False
    *earlier, now = state.log_beliefs
    saturated = _saturated(state) & (now > -np.inf)
    if not earlier:
        return bool(saturated.any())
    old = np.maximum.reduce(earlier)[saturated]
    return bool((now[saturated] > old + (_QUIET - _TINY * np.maximum(old, -np.finfo(float).max))).any())


def better(first: Decoding, second: Decoding) -> Decoding:
    """Return the decoding of larger value (exact before estimated), with the tighter of both upper bounds."""
    upper = min(first.upper, second.upper)
    ranks = [(d.bound is Bound.EXACT, d.log_value) for d in (first, second)]
    chosen = second if ranks[1] > ranks[0] else first
    return Decoding(chosen.assignment, chosen.log_value, chosen.bound, chosen.lower, max(upper, chosen.lower))
