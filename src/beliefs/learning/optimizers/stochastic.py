r"""The common part of mini-batch optimisers: scaling, decay, penalties, averaging, and the loop.

A batch of b instances out of N stands for all of them: with :math:`\bar c` the mean number of labels an instance,

.. math:: \hat g = \frac{1}{b\,\bar c} \sum_{\text{batch}} a_s \nabla L_s + 2\lambda w,
   \qquad \tau_t = \frac{\tau_0}{1 + t/t_0},

so that :math:`E \hat g` is the gradient of the very objective that L-BFGS minimises, also where instances differ in
size. For a list :math:`\bar c` is known beforehand; for other iterables it is that of the instances seen so far.
An l1 penalty is a soft threshold after each step, bounds are a projection. Averaging is that of [shamir2013],
:math:`\bar w_t = (1 - a_t)\bar w_{t-1} + a_t w_t` with :math:`a_t = 4/(t+3)`, which forgets the early iterates.

A pass over the data is one iteration. Its loss and gradient are means over its batches, at the weights of their time;
they are the objective at the end only where a fit ends by its limit or tolerance, when it is evaluated once more.
With ``best`` the weights shown are the best so far by the mean of their pass: subgradients do not lower the objective
step by step. Where a pass is one batch its loss is that of the weights before the update, and these are taken, so that
the loss shown is the objective itself; else those after the pass.

Guarantee: convergence for convex losses and a decaying step. Failure: too large a step; a batch whose loss is
not finite ends the fit (DIVERGED) with the weights after the last whole pass.
"""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Status, Value, run
from beliefs.errors import ModelError
from beliefs.learning.batches import Evaluation
from beliefs.learning.data import can_choose, n_labels, read_once
from beliefs.learning.optimizers.base import Optimizer, Outcome, Point, Stop, Watched
from beliefs.learning.optimizers.batches import Batches
from beliefs.learning.optimizers.objective import Objective
from beliefs.options import check_integer, check_option, is_number
from beliefs.typing import Floats

__all__ = ["Memory", "Stochastic"]

Memory = dict[str, Floats]
_DEGREE = 3.0  # of the averaging; 0 would be the plain mean
_UNKNOWN = sys.float_info.max  # the residual before two passes can be compared; the driver takes inf for divergence


@dataclass(frozen=True, kw_only=True, repr=False)
class Stochastic(Optimizer):
    """Base of mini-batch optimisers.

    Parameters
    ----------
    step : float
        The first step size.
    batch_size : int
        Instances a batch.
    t0 : float, optional
        Updates after which the step has halved; None keeps it constant.
    average : bool
        Whether the weights returned are an average over the late iterates; averages are not sparse.
    best : bool
        Whether the weights returned are those of the best pass, instead of the last; not with ``average``.
    """

    step: float
    batch_size: int = 16
    t0: float | None = None
    average: bool = False
    best: bool = False

    default_tol: ClassVar[float] = 0.0
    default_max_iters: ClassVar[int] = 100
    reads_once: ClassVar[bool] = True
    takes_estimates: ClassVar[bool] = True
    tol_is_of: ClassVar[str] = "relative change"

    def __post_init__(self) -> None:
        check_option(is_number(self.step) and self.step > 0, "step", "a number above 0", self.step)
        check_integer("batch_size", self.batch_size, 1)
        good = self.t0 is None or is_number(self.t0) and self.t0 > 0
        check_option(good, "t0", "a number above 0, or None", self.t0)
        check_option(isinstance(self.average, bool), "average", "True or False", self.average)
        check_option(isinstance(self.best, bool), "best", "True or False", self.best)
        if self.average and self.best:
            raise ModelError("average and best are two ways to choose the weights returned; give one of them")

    @abstractmethod
    def begin(self, n: int) -> Memory:
        """Return what is remembered before the first update of ``n`` weights."""

    @abstractmethod
    def direction(self, grad: Floats, memory: Memory, t: int) -> tuple[Floats, Floats | float, Memory]:
        """Return the direction of update t = 1, 2, ..., the scale of each weight's step, and the new memory."""

    def minimize(self, objective: Objective, watch: Watched, resumed: Point | None = None, seed: int = 0) -> Outcome:
        """Update until a limit is met; a resumed run makes the very updates that the first would have made."""
        descent = _Descent(self, objective, watch, resumed, seed)
        try:
            status = descent.run()
        except Stop as stop:
            return Outcome(stop.status, descent.point(), stop.reason)
        if status is Status.DIVERGED:
            watch.back_to(descent.good)
            reason = f"the loss of a mini-batch is not finite after update {descent.now.t}; use a smaller step"
            return Outcome(status, descent.good, reason)
        if status is Status.TIME_LIMIT:
            return Outcome(status, descent.point())
        met = "the loss changed by less than tol between two passes" if status is Status.CONVERGED else ""
        return Outcome(status, descent.evaluated(), met)


@dataclass(frozen=True, eq=False)
class _State:
    """Everything that the next update depends on; replaced, never changed, so that an interrupt finds it whole.

    ``scalars`` of a checkpoint are the fields from ``t`` on, in this order.
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


class _Descent:
    """One minimisation under way."""

    def __init__(
        self, options: Stochastic, objective: Objective, watch: Watched, resumed: Point | None, seed: int
    ) -> None:
        self.options, self.objective, self.watch = options, objective, watch
        start, n = objective.start, objective.start.size
        best = (
            {"weights": start, "loss": np.array(math.inf), "begin": start, "t": np.array(0.0)} if options.best else {}
        )
        self.now = _State(start, start, np.zeros(n), options.begin(n), best) if resumed is None else _unpacked(resumed)
        self.good = self.point() if resumed is None else resumed
        data: Any = objective.data
        known = can_choose(data) and len(data) > 0
        self.mean_labels = n_labels(data) / len(data) if known else None
        self.seed = seed
        self.batches: Batches | None = None
        self.residual = _UNKNOWN

    def run(self) -> Status:
        """Let the driver run the loop."""
        limits = replace(self.watch.limits, max_iters=sys.maxsize, callbacks=())
        if self.now.n_pass >= self.watch.limits.max_iters:
            return Status.MAX_ITERS
        now = self.now
        self.batches = Batches(self.objective.data, self.options.batch_size, self.seed, now.n_pass, now.position)
        return run(self._step, lambda: Value(0.0), limits, fixed_point=False, ended=self._ended).status

    def _ended(self) -> Status | None:
        return Status.MAX_ITERS if self.now.n_pass >= self.watch.limits.max_iters else None

    def _step(self) -> float:
        assert self.batches is not None
        batch, over = self.batches.take(), self.batches.over
        after = self.now if batch is None else self._updated(batch)
        if after is None:
            return math.inf
        self.now = replace(after, position=after.position + (0 if batch is None else len(batch)))
        if not over:
            self.watch.between(self.point())
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
        done = self.now = replace(now, n_pass=now.n_pass + 1, position=0, best=_best(now, loss))
        point = _packed(done, *self._shown(loss), self._grad_norm(now), done.n_pass)
        fresh = replace(done, losses=0.0, seen=0, diverged=0, waiting=0, before=loss, grads=np.zeros(now.grads.size))
        self.good = replace(point, memory=_packed(fresh, point.weights, loss, 0.0, 0).memory)
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
            return replace(now, labels=labels, instances=instances)
        found = objective.of(now.weights, batch)
        mean = labels / instances if self.mean_labels is None else self.mean_labels
        t = now.t + 1
        tau = options.step / (1.0 + (t - 1) / (options.t0 or math.inf))
        with np.errstate(over="ignore", invalid="ignore"):
            value, grad = self._scaled(found, count / (b * mean))
            direction, scale, memory = options.direction(grad, now.memory, t)
            weights = self._proximal(now.weights - tau * direction, tau * scale)
        if not (math.isfinite(value) and np.isfinite(weights).all()):
            return None
        share = (_DEGREE + 1.0) / (t + _DEGREE)
        return replace(
            now,
            weights=weights,
            averaged=now.averaged + share * (weights - now.averaged) if options.average else weights,
            grads=now.grads + b * grad,
            memory=memory,
            t=t,
            losses=now.losses + b * value,
            seen=now.seen + b,
            diverged=now.diverged + found.n_diverged,
            waiting=now.waiting + found.n_not_converged,
            labels=labels,
            instances=instances,
        )

    def _scaled(self, found: Evaluation, scale: float) -> tuple[float, Floats]:
        """Return value and gradient as estimates of the whole objective; the ridge is not scaled."""
        w, l2 = self.now.weights, self.objective.l2
        ridge = l2 * float(w @ w)
        value = scale * (found.value - ridge) + ridge + self.objective.penalty(w)
        return value, np.where(self.objective.free, scale * (found.grad - 2.0 * l2 * w) + 2.0 * l2 * w, 0.0)

    def _proximal(self, weights: Floats, steps: Floats | float) -> Floats:
        """Apply the soft threshold of the l1 penalty and the bounds; weights that may not move stay."""
        objective = self.objective
        if objective.penalised:
            weights = np.sign(weights) * np.maximum(np.abs(weights) - steps * objective.l1, 0.0)
        if objective.bounded:
            weights = np.clip(weights, objective.low, objective.high)
        return weights if objective.all_free else np.where(objective.free, weights, objective.start)

    # -- points ---------------------------------------------------------------------------------------------------
    def _shown(self, loss: float) -> tuple[Floats, float]:
        """Return the weights to show and their loss: those of the best pass, if asked for, once there is one."""
        now = self.now
        if now.best and now.best["loss"] < math.inf:
            return now.best["weights"], float(now.best["loss"])
        return now.averaged if self.options.average else now.weights, loss

    def _grad_norm(self, now: _State) -> float:
        return self.objective.grad_norm(now.weights, now.grads / now.seen) if now.seen else math.inf

    def point(self) -> Point:
        """Return the present point; before the first batch of a pass it is the end of the last."""
        now = self.now
        if not now.seen and now.n_pass:
            return self.good
        loss = now.losses / now.seen if now.seen else math.inf
        return _packed(now, *self._shown(loss), self._grad_norm(now), now.n_pass)

    def evaluated(self) -> Point:
        """Return the present point with the objective over all instances, if they can be read again."""
        if read_once(self.objective.data):
            return self.point()
        weights = self._shown(math.inf)[0]
        found = self.objective.evaluate(weights)
        return replace(Point.of(self.objective, weights, found, self.now.n_pass), step=self.now.t)


def _best(state: _State, loss: float) -> Memory:
    """Return the best pass so far, and where the next one begins, at the end of a pass; nothing if it is not kept."""
    if not state.best:
        return state.best
    best = state.best | {"begin": state.weights, "t": np.array(float(state.t))}
    if not loss < state.best["loss"]:
        return best
    one_batch = state.t - state.best["t"] == 1
    return best | {"weights": state.best["begin"] if one_batch else state.weights, "loss": np.array(loss)}


def _packed(state: _State, shown: Floats, loss: float, grad_norm: float, iteration: int) -> Point:
    """Return a state as a point that a checkpoint can hold."""
    memory = {"weights": state.weights, "averaged": state.averaged, "grads": state.grads}
    memory["scalars"] = np.array([float(getattr(state, name)) for name in _SCALARS])
    memory |= {f"rule.{name}": array for name, array in state.memory.items()}
    memory |= {f"best.{name}": array for name, array in state.best.items()}
    return Point(iteration, state.t, shown, loss, grad_norm, state.diverged, state.waiting, memory=memory)


def _unpacked(point: Point) -> _State:
    memory = point.memory
    numbers = zip(_SCALARS, memory["scalars"].tolist(), strict=True)
    scalars = {name: int(number) if name in _COUNTS else number for name, number in numbers}
    rule, best = (
        {name.removeprefix(kind): array for name, array in memory.items() if name.startswith(kind)}
        for kind in ("rule.", "best.")
    )
    return _State(memory["weights"], memory["averaged"], memory["grads"], rule, best, **scalars)
