r"""Belief propagation of a machine as matrices: Algorithms 6.1 and 6.2 of [ping2016], one division a message.

A step sends all messages from the hidden to the visible units and back. Fixed points, beliefs and the Bethe value are
those of :class:`beliefs.inference.messages.bp.BP` on the machine's factor graph; iterates are not, for there the order
of messages is another. A machine with one unit in a layer is a star, hence exact after two steps; else an ESTIMATE.

``maximize`` decodes max-product beliefs after every step, improves each decoding by turns of the layers and keeps the
best. ``marginal_map`` has this form where the query is the visible layer: mixed-product, and the decoded state's value
:math:`-F(v)` is exact, so it is a lower bound of the best one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Value
from beliefs.inference.base import Bound, Decoding, Marginals, Method, Problem, Task
from beliefs.inference.boltzmann.machines import Form
from beliefs.inference.boltzmann.matrix_bp import LayerMessages
from beliefs.inference.budget import over_budget
from beliefs.inference.messages.bp import BP
from beliefs.inference.units import AT_A_TIME, UnitMarginals, keep_possible
from beliefs.kernels.boltzmann.between_layers import Beliefs, Couplings, Workspace, restless
from beliefs.kernels.boltzmann.log_messages import log_apart, log_pairs, log_sweeps
from beliefs.kernels.boltzmann.mixed_messages import mixed_sweeps
from beliefs.kernels.boltzmann.ratio_messages import ratio_pairs, ratio_sweeps
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM
from beliefs.typing import Bools, Floats, Ints

__all__ = ["LayerBP", "climbed"]

_AGREE = 1e-6  # how closely pairs and units must agree where messages are damped
_ROUNDED = 1e-6  # by how much messages of the same weights may be beyond them, in single precision


@dataclass(frozen=True, eq=False)
class Start:
    """What a warm start needs: the messages in the form that they had."""

    logs: bool
    sent: np.ndarray
    came: np.ndarray


@dataclass(eq=False)
class MatrixState:
    """A machine, its messages and beliefs, and the best decoding so far."""

    problem: Problem
    machine: RBM
    messages: LayerMessages
    couplings: Couplings
    work: Workspace
    beliefs: Beliefs
    best: Decoding | None = None

    @property
    def n_steps(self) -> int:
        """Steps done in this run."""
        return int(self.beliefs.n_iters[0])


@dataclass(frozen=True, kw_only=True, repr=False)
class LayerBP(BP, Form):
    """Belief propagation between two layers."""

    stands_for: ClassVar[type[Method]] = BP
    answers: ClassVar[tuple[Task, ...]] = (Task.INFER, Task.MAXIMIZE, Task.MARGINAL_MAP)
    warm_kind: ClassVar[type] = Start

    @classmethod
    def serves(cls, method: Any, machine: BoltzmannMachine) -> bool:
        """Whether messages may go layer by layer, and are damped, if at all, as logs."""
        plain = method.schedule == "auto" and method.order is None and method.stop == "marginals"
        return plain and method.damp == "log" and isinstance(machine, RBM)

    @classmethod
    def takes(cls, problem: Problem) -> bool:
        """Whether it is a question about both layers, or one whose query is the visible layer."""
        machine = problem.model
        assert isinstance(machine, BoltzmannMachine)
        if problem.task is Task.INFER:
            return True
        if min(machine.weights.shape) < 2:
            return False  # a star, of which the general form knows the exact answer
        return problem.task is Task.MAXIMIZE or np.array_equal(problem.query, np.arange(machine.n_visible))

    def init(self, problem: Problem, warm: Start | None = None) -> MatrixState:  # type: ignore[override]
        """Start from messages that say nothing, or from those of an earlier result."""
        machine = problem.model
        assert isinstance(machine, RBM)
        weights = machine.weights if min(machine.weights.shape) > 1 else machine.weights.astype(np.float64)  # exact
        needed = LayerMessages.needed_bytes(weights, 1, 1, self.damping)
        width = LayerMessages.width(weights, self.damping)
        if problem.task is Task.INFER:  # pair beliefs, where messages are kept, and in float64
            needed += (width + (8.0 if width < 8 else 0.0)) * weights.size + 64.0 * sum(weights.shape)
            needed += 24.0 * AT_A_TIME * weights.shape[1]
        if needed > problem.max_bytes:
            raise over_budget(f"{self} needs", needed, problem.max_bytes, "Raise max_bytes", " for messages")
        messages = LayerMessages(weights, self.damping)
        n = 1 if problem.task is Task.MARGINAL_MAP else machine.n_visible
        couplings = messages.couplings(machine.visible_bias[None], machine.hidden_bias[None])
        state = MatrixState(problem, machine, messages, couplings, messages.workspace(n, n), messages.beliefs(1))
        fits = warm is not None and warm.logs == messages.logs and warm.sent.shape == state.work.sent.shape
        _begin(state, warm if fits else None)
        return state

    def step(self, state: MatrixState) -> float:  # type: ignore[override]
        """Send all messages once; the residual is the largest change of a belief."""
        task, logs = state.problem.task, state.messages.logs
        rule = state.messages.rule(1, 0.0, maximise=task is Task.MAXIMIZE)
        asked = (state.couplings, rule, state.work, state.beliefs, 0, False)
        if task is Task.MARGINAL_MAP:
            mixed_sweeps(*asked, logs)
        elif logs:
            log_sweeps(*asked)
        else:
            ratio_sweeps(*asked, True)
        if task is not Task.INFER:
            _decode(state)
        return float(state.beliefs.change[0])

    def verify(self, state: MatrixState) -> float:  # type: ignore[override]
        """Return how far messages are from a fixed point; not damped they are at one once beliefs stand still.

        Saturated beliefs must stand still in their log odds: where the last sweep moved these it is 1.
        """
        if restless(state.work, state.beliefs, 0):
            return 1.0
        if self.damping == 0.0 or state.problem.task is Task.MARGINAL_MAP:
            return 0.0
        rule = state.messages.rule(1, 0.0, maximise=state.problem.task is Task.MAXIMIZE)
        apart = float(log_apart(state.couplings, rule, state.work, state.beliefs, 0))
        return apart if apart > _AGREE else 0.0

    def value(self, state: MatrixState) -> Value:  # type: ignore[override]
        """Return the Bethe value, or that of the best decoding."""
        if state.problem.task is Task.INFER:
            log_z = _pairs(state)[0]
            return Value(log_z, log_z, log_z) if _is_exact(state) else Value(log_z)
        found = _decoded(state)
        return Value(found.log_value, found.lower, found.upper)

    def finish(self, state: MatrixState) -> Marginals | Decoding:  # type: ignore[override]
        """Return beliefs and the Bethe value, or the best decoding."""
        if state.problem.task is not Task.INFER:
            return _decoded(state)
        log_z, came = _pairs(state)
        pairs: Floats = came.astype(np.float64, copy=False)
        visible, hidden = state.beliefs.visible[0], state.beliefs.hidden[0]
        keep_possible(visible, hidden, pairs)
        units = UnitMarginals(visible, hidden, pairs)
        if _is_exact(state):
            return Marginals(log_z, Bound.EXACT, units.mu_var, units, log_z, log_z)
        return Marginals(log_z, Bound.ESTIMATE, units.mu_var, units)

    def warm_state(self, state: MatrixState) -> Any:  # type: ignore[override]
        """Return the messages."""
        return Start(state.messages.logs, state.work.sent, state.work.came)


def _begin(state: MatrixState, warm: Start | None) -> None:
    """Start from messages that say nothing and the odds of biases, or from messages of an earlier run."""
    machine, beliefs, neutral = state.machine, state.beliefs, 0.0 if state.messages.logs else 1.0
    beliefs.visible_log_odds[0], beliefs.hidden_log_odds[0] = machine.visible_bias, machine.hidden_bias
    mixed = state.problem.task is Task.MARGINAL_MAP  # where nothing lies between the layers
    if warm is None or mixed:
        state.work.sent[:] = state.work.came[:] = neutral
    else:
        _take_possible(state.messages, warm.sent, state.work.sent)
        _take_possible(state.messages, warm.came, state.work.came)
        sent = state.work.sent.astype(np.float64)
        beliefs.hidden_log_odds[0] += (sent if warm.logs else np.log(sent)).sum(axis=0)
    for log_odds, out in ((beliefs.visible_log_odds, beliefs.visible), (beliefs.hidden_log_odds, beliefs.hidden)):
        out[:] = 1.0 / (1.0 + np.exp(-np.clip(log_odds, -708.0, 708.0)))
    if mixed:
        beliefs.visible_log_odds[0] = 0.0  # no unit has said that it is on


def _take_possible(messages: LayerMessages, old: np.ndarray, out: np.ndarray) -> None:
    """Take messages of an earlier run; those of other weights as far as these weights could have said them.

    Ratios lie between 1 and exp(W), logs between 0 and W, but for rounding.
    """
    neutral = 0.0 if messages.logs else 1.0
    for begin in range(0, len(out), AT_A_TIME):
        rows = slice(begin, begin + AT_A_TIME)
        between = messages.between[rows].astype(np.float64)
        low, high = np.minimum(between, neutral), np.maximum(between, neutral)
        room = _ROUNDED * (np.abs(between) + 1.0) if messages.logs else 0.0
        grown = 1.0 if messages.logs else 1.0 + _ROUNDED
        out[rows] = np.clip(old[rows], low / grown - room, high * grown + room)


def _is_exact(state: MatrixState) -> bool:
    """Whether the machine is a star, or no pairs at all, and messages have been there and back."""
    n, m = state.machine.weights.shape
    return m == 0 or (min(n, m) == 1 and state.n_steps >= 2 and state.messages.damping == 0.0)


def _pairs(state: MatrixState) -> tuple[float, np.ndarray]:
    """Return the Bethe value and the pair beliefs, in the messages' type."""
    none = np.empty((0, 0), state.work.came.dtype)
    work = state.work._replace(came=state.work.came.copy(), products=state.work.products.copy())
    if state.messages.logs:
        log_z = log_pairs(state.couplings, work, state.beliefs, 0, none)
    else:
        log_z = ratio_pairs(state.couplings, state.messages.rule(1, 0.0), work, state.beliefs, 0, none)
    return float(log_z), work.came


def climbed(machine: RBM, visible: Bools) -> tuple[Bools, Bools, float]:
    """Improve a state by turns of its layers, each the best given the other, until its score rises no more."""
    weights = machine.weights.astype(np.float64, copy=False)
    best: tuple[Bools, Bools, float] | None = None
    while True:
        x = visible @ weights + machine.hidden_bias
        score = float(visible @ machine.visible_bias.astype(np.float64) + np.maximum(x, 0.0).sum())
        if best is not None and score <= best[2]:
            return best
        best = visible, x > 0.0, score
        visible = weights @ best[1] + machine.visible_bias > 0.0


def _decode(state: MatrixState) -> None:
    """Keep the decoding of the present beliefs if it is the best so far."""
    visible = state.beliefs.visible_log_odds[0] > 0.0
    if state.problem.task is Task.MAXIMIZE:
        visible, hidden, value = climbed(state.machine, visible)
        states: Ints = np.concatenate([visible, hidden]).astype(np.int64)
        found = Decoding(states, value, Bound.ESTIMATE, value, math.inf)
    else:
        value = -float(state.machine.free_energy(visible[None])[0])
        found = Decoding(visible.astype(np.int64), value, Bound.EXACT, value, math.inf)
    if state.best is None or value > state.best.log_value:
        state.best = found


def _decoded(state: MatrixState) -> Decoding:
    if state.best is None:
        _decode(state)
    assert state.best is not None
    return state.best
