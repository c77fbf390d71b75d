r"""One minimisation by mini-batches under way; what it does is said in :mod:`beliefs.learning.optimizers.stochastic`.

Weights, and whatever the optimiser remembers, are changed in place, block by block: an update reads and writes each of
them once, in its own type, and copies nothing. Copies are made at the end of a pass: the point that a fit goes back to
where a later update is not finite, or an interrupt comes in the middle of one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from beliefs.driver import Status, Value, run
from beliefs.errors import ModelError
from beliefs.learning.data import mean_labels, n_labels, read_once
from beliefs.learning.fit_loss import Evaluation
from beliefs.learning.optimizers.base import Point, Watched
from beliefs.learning.optimizers.batches import Batches
from beliefs.learning.optimizers.objective import Objective
from beliefs.learning.parallel import WORTH_SHARING, executor_of
from beliefs.typing import Floats

if TYPE_CHECKING:
    from beliefs.learning.optimizers.stochastic import Stochastic

__all__ = ["Descent", "Memory"]

Memory = dict[str, Floats]
_DEGREE = 3.0  # of the averaging; 0 would be the plain mean
_UNKNOWN = sys.float_info.max  # the residual before two passes can be compared; the driver takes inf for divergence
_BLOCK = 2**16  # weights that are updated together: they stay in cache
_ALONE = executor_of(1)


@dataclass(frozen=True, eq=False)
class _State:
    """Everything that the next update depends on: arrays, which updates change, and numbers, which are replaced.

    ``averaged`` is the weights themselves where nothing is averaged. ``scalars`` of a checkpoint are the fields from
    ``t`` on, in this order.
    """

    weights: Floats
    averaged: Floats
    grads: Floats
    memory: Memory
    best: Memory = field(default_factory=dict)
    t: int = 0
    n_pass: int = 0
    position: int = 0
    losses: float = 0.0
    seen: int = 0
    diverged: int = 0
    waiting: int = 0
    before: float = math.inf
    labels: float = 0.0
    instances: int = 0


_SCALARS = ("t", "n_pass", "position", "losses", "seen", "diverged", "waiting", "before", "labels", "instances")
_COUNTS = {"t", "n_pass", "position", "seen", "diverged", "waiting", "instances"}


class Descent:
    """One minimisation under way.

    Attributes
    ----------
    good : Point
        The end of the last whole pass, a copy.
    torn : bool
        Whether arrays and numbers do not belong together, as within an update.
    """

    def __init__(
        self, options: Stochastic, objective: Objective, watch: Watched, resumed: Point | None, seed: int
    ) -> None:
        self.options, self.objective, self.watch = options, objective, watch
        self.norm, self.torn, self.residual = math.inf, False, _UNKNOWN
        self.executor = executor_of(objective.loss.threads)
        self.rooms: list[Floats] = []  # for the step of a block, one a thread
        self.now = self._begun() if resumed is None else self._unpacked(resumed)
        self.good = _copied(self.point()) if resumed is None else _copied(resumed)
        self.mean_labels = mean_labels(objective.data)
        self.seed = seed
        self.batches: Batches | None = None

    def _begun(self) -> _State:
        options, start = self.options, self.objective.start
        n = start.size
        best = {"weights": start, "loss": np.array(math.inf), "begin": start, "t": np.array(0.0)}
        weights = start.copy()
        averaged = start.copy() if options.average else weights
        grads = np.zeros(0 if self.objective.loss.by_row else n, start.dtype)
        return _State(weights, averaged, grads, options.begin(n, start.dtype), best if options.best else {})

    def run(self) -> Status:
        """Let the driver run the loop."""
        limits = replace(self.watch.limits, max_iters=sys.maxsize, callbacks=())
        if self.now.n_pass >= self.watch.limits.max_iters:
            return Status.MAX_ITERS
        now = self.now
        self.batches = Batches(self.objective.data, self.options.batch_size, self.seed, now.n_pass, now.position)
        try:
            return run(self._step, lambda: Value(0.0), limits, fixed_point=False, ended=self._ended).status
        finally:
            self.batches.close()

    def _ended(self) -> Status | None:
        return Status.MAX_ITERS if self.now.n_pass >= self.watch.limits.max_iters else None

    def _step(self) -> float:
        assert self.batches is not None
        batch = self.batches.take()
        after = self.now if batch is None else self._updated(batch)
        if after is None:
            return math.inf
        self.now = after
        self.torn = False
        if not self.batches.over:
            if self.watch.looks_between:
                self.watch.between(self.point())
            else:
                self.watch.check_time()
            return _UNKNOWN
        return self._pass_over()

    def _pass_over(self) -> float:
        """Compare the pass with the one before, and begin the next."""
        now = self.now
        if not now.seen:
            raise ModelError("no variable of any instance has a label; a loss needs labels to compare with")
        self.objective.n_evaluations += 1
        loss = now.losses / now.seen
        change = abs(loss - now.before) / max(abs(now.before), abs(loss), 1e-300)
        norm = self._grad_norm(now)
        now.grads[:] = 0.0
        done = self.now = replace(now, n_pass=now.n_pass + 1, position=0, best=_best(now, loss))
        fresh = replace(done, losses=0.0, seen=0, diverged=0, waiting=0, before=loss)
        point = self._packed(done, *self._shown(loss), norm, done.n_pass)
        self.good = _copied(replace(point, memory=self._packed(fresh, point.weights, loss, 0.0, 0).memory))
        self.now = fresh
        self.watch.iterate(self.good)
        if fresh.n_pass < self.watch.limits.max_iters and not read_once(self.objective.data):
            assert self.batches is not None
            self.batches.enter(fresh.n_pass)
        return change if math.isfinite(change) else _UNKNOWN

    # -- one update -----------------------------------------------------------------------------------------------
    def _updated(self, batch: Any) -> _State | None:
        """Return the state after a batch, or None if the batch's loss or an update is not finite."""
        now, options, objective = self.now, self.options, self.objective
        count, b = n_labels(batch), len(batch)
        labels, instances = now.labels + count, now.instances + b
        if not count > 0:
            return replace(now, labels=labels, instances=instances, position=now.position + b)
        self.torn = objective.loss.remembers  # its chains move on
        by_row, over = objective.loss.by_row, self.batches is not None and self.batches.over
        found = objective.of(now.weights, batch, in_blocks=by_row and not over)  # the last one's slope is looked at
        mean = labels / instances if self.mean_labels is None else self.mean_labels
        t, scale = now.t + 1, count / (b * mean)
        with np.errstate(over="ignore", invalid="ignore"):
            value = self._value(found, scale)
        if not math.isfinite(value):
            return None
        self.torn = True
        tau = options.step / (1.0 + (t - 1) / (options.t0 or math.inf))
        shared = not by_row or b * now.weights.size >= WORTH_SHARING
        ends = _ends(now.weights.size) if found.blocks is None else found.blocks.ends
        (self.executor if shared else _ALONE).chunks(
            lambda begin, end: self._move(range(begin, end), ends, found, scale, b, tau, t), len(ends)
        )
        if (over or not by_row) and not self._is_finite():
            return None
        if by_row and over:
            self.norm = objective.grad_norm(now.weights, found.grad)
        return replace(
            now,
            t=t,
            position=now.position + b,
            losses=now.losses + b * value,
            seen=now.seen + b,
            diverged=now.diverged + found.n_diverged,
            waiting=now.waiting + found.n_not_converged,
            labels=labels,
            instances=instances,
        )

    def _value(self, found: Evaluation, scale: float) -> float:
        """Return the value as an estimate of the whole objective; the ridge is not scaled."""
        w = self.now.weights
        if self.objective.loss.by_row:
            return found.value + self.objective.penalty(w)
        ridge = self.objective.l2 * float(w @ w)
        return scale * (found.value - ridge) + ridge + self.objective.penalty(w)

    def _is_finite(self) -> bool:
        """Whether all weights are numbers; where the loss has many it is asked once a pass, as its value tells soon."""
        w = self.now.weights
        with np.errstate(over="ignore", invalid="ignore"):
            return math.isfinite(float(w @ w)) or (not self.objective.loss.by_row and bool(np.isfinite(w).all()))

    def _move(
        self, blocks: range, ends: Sequence[int], found: Evaluation, scale: float, b: int, tau: float, t: int
    ) -> None:
        """Update some blocks of weights in place; no block depends on another."""
        room = self._room(max(end - begin for begin, end in pairwise((0, *ends))))
        with np.errstate(over="ignore", invalid="ignore"):  # of this thread
            for k in blocks:
                block = slice(ends[k - 1] if k else 0, ends[k])
                step = room[: block.stop - block.start]
                if found.blocks is None:
                    self._move_block(block, found.grad[block], scale, b, tau, t, step)
                else:
                    found.blocks.write(k, step)
                    self._move_block(block, step, scale, b, tau, t, step)
        self.rooms.append(room)

    def _room(self, size: int) -> Floats:
        """Return memory of this thread's own for a block."""
        room = self.rooms.pop() if self.rooms else None
        return np.empty(size, self.now.weights.dtype) if room is None or room.size < size else room

    def _move_block(self, block: slice, g: Floats, scale: float, b: int, tau: float, t: int, step: Floats) -> None:
        now, options, objective = self.now, self.options, self.objective
        w = now.weights[block]
        if not objective.loss.by_row:
            ridge = 2.0 * objective.l2 * w
            g = scale * (g - ridge) + ridge
        if not objective.all_free:
            g = np.where(objective.free[block], g, 0.0)
        if now.grads.size:
            now.grads[block] += b * g
        direction, steps = options.direction(g, {name: array[block] for name, array in now.memory.items()}, t)
        np.multiply(direction, tau, out=step)
        np.subtract(w, step, out=w)
        if objective.penalised or objective.bounded or not objective.all_free:
            w[:] = self._proximal(w, tau * steps, block)
        if options.average:
            share = (_DEGREE + 1.0) / (t + _DEGREE)
            now.averaged[block] += share * (w - now.averaged[block])

    def _proximal(self, weights: Floats, steps: Floats | float, block: slice) -> Floats:
        """Apply the soft threshold of the l1 penalty and the bounds; weights that may not move stay."""
        objective = self.objective
        if objective.penalised:
            weights = np.sign(weights) * np.maximum(np.abs(weights) - steps * objective.l1[block], 0.0)
        if objective.bounded:
            weights = np.clip(weights, objective.low[block], objective.high[block])
        return weights if objective.all_free else np.where(objective.free[block], weights, objective.start[block])

    # -- points ---------------------------------------------------------------------------------------------------
    def _shown(self, loss: float) -> tuple[Floats, float]:
        """Return the weights to show and their loss: those of the best pass, if asked for, once there is one."""
        now = self.now
        if now.best and now.best["loss"] < math.inf:
            return now.best["weights"], float(now.best["loss"])
        return now.averaged if self.options.average else now.weights, loss

    def _grad_norm(self, now: _State) -> float:
        """Return the largest slope of the pass: of the mean of its gradients, or of the last of them."""
        if self.objective.loss.by_row:
            return self.norm
        return self.objective.grad_norm(now.weights, now.grads / now.seen) if now.seen else math.inf

    def point(self) -> Point:
        """Return the present point, which the next update changes; before the first batch of a pass, its beginning."""
        now = self.now
        if not now.seen and now.n_pass:
            return self.good
        loss = now.losses / now.seen if now.seen else math.inf
        return self._packed(now, *self._shown(loss), self._grad_norm(now), now.n_pass)

    def evaluated(self) -> Point:
        """Return the present point with the objective over all instances, if they can be read again."""
        objective = self.objective
        if read_once(objective.data) or (objective.loss.by_row and objective.loss.stochastic):
            return self.point()
        weights = self._shown(math.inf)[0].copy()
        found = objective.evaluate(weights)
        return replace(Point.of(objective, weights, found, self.now.n_pass), step=self.now.t)

    def _packed(self, state: _State, shown: Floats, loss: float, grad_norm: float, iteration: int) -> Point:
        """Return a state as a point that a checkpoint can hold; its arrays are those of the state."""
        memory = {"weights": state.weights, "averaged": state.averaged, "grads": state.grads}
        memory["scalars"] = np.array([float(getattr(state, name)) for name in _SCALARS])
        kinds = {"rule": state.memory, "best": state.best, "loss": self.objective.loss.remembered()}
        memory |= {f"{kind}.{name}": array for kind, arrays in kinds.items() for name, array in arrays.items()}
        return Point(iteration, state.t, shown, loss, grad_norm, state.diverged, state.waiting, memory=memory)

    def _unpacked(self, point: Point) -> _State:
        memory = point.memory
        numbers = zip(_SCALARS, memory["scalars"].tolist(), strict=True)
        scalars = {name: int(number) if name in _COUNTS else number for name, number in numbers}
        rule, best, loss = (
            {name.removeprefix(kind): array.copy() for name, array in memory.items() if name.startswith(kind)}
            for kind in ("rule.", "best.", "loss.")
        )
        self.objective.loss.recall(loss)
        weights = memory["weights"].copy()
        averaged = memory["averaged"].copy() if self.options.average else weights
        return _State(weights, averaged, memory["grads"].copy(), rule, best, **scalars)


@cache
def _ends(n: int) -> tuple[int, ...]:
    """Return where blocks of weights end."""
    return (*range(_BLOCK, n, _BLOCK), n)


def _copied(point: Point) -> Point:
    """Return a point that no update changes; what it holds twice is copied once."""
    copies: dict[int, np.ndarray] = {}

    def copy(array: np.ndarray) -> np.ndarray:
        return copies.setdefault(id(array), array.copy())

    memory = {name: copy(array) for name, array in point.memory.items()}
    return replace(point, weights=copy(point.weights), memory=memory)


def _best(state: _State, loss: float) -> Memory:
    """Return the best pass so far, and where the next one begins, at the end of a pass; nothing if it is not kept."""
    if not state.best:
        return state.best
    best = state.best | {"begin": state.weights.copy(), "t": np.array(float(state.t))}
    if not loss < state.best["loss"]:
        return best
    one_batch = state.t - state.best["t"] == 1
    return best | {"weights": state.best["begin"] if one_batch else state.weights.copy(), "loss": np.array(loss)}
