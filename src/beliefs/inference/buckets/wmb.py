r"""Weighted mini-bucket: bounds on log Z, on the MAP score and on marginal MAP that hold at every iterate.

Bucket elimination on the split model of :mod:`beliefs.inference.clusters.partition`. Each replica :math:`r` of
:math:`x_i` has a weight :math:`w_r`, and those of a variable add up to its temperature :math:`\tau_i` (1 for a sum, 0
for a maximum). By Hölder's inequality the product of power sums bounds the power sum of the product [liu2011]:

.. math:: \sum_x^{\tau} \prod_r f_r(x) \;\le\; \prod_r \sum_x^{w_r} f_r(x), \qquad w_r \ge 0,

and if exactly one weight is positive the inequality is reversed: a *lower* bound on a sum. Going up, then down:

.. math::
    m_{k \to p}(s) &= w_k \log \sum_{x_k} \exp\big(u_k / w_k\big), &
    u_k &= \theta_k + \delta_k + \textstyle\sum_{c} m_{c \to k}   & (1.32)\\
    m_{p \to k}(s) &= w_k \log \sum_{x_p \setminus s} \exp\big((u_p + m_{p'})/w_p\big) - m_{k \to p}(s) & & & (1.33)\\
    q_k &\propto \exp\big((u_k + m_{p \to k})/w_k\big) & & & (1.35)

The numbers are those of [gelfand2014]. The bound is the sum of the roots' messages. It is jointly convex in the
cost shifts :math:`\delta` (which add up to zero over the replicas of a variable) and the weights; its derivatives are
:math:`q_k(x_i)` and the conditional entropies :math:`H_k = H(x_i | s; q_k)`. On the way up, bucket after bucket,

.. math::
    \delta_r \mathrel{+}= \eta\, w_r \big(\log \bar q - \log q_r\big), \quad
        \log \bar q = \textstyle\sum_r w_r \log q_r / \tau_i; \qquad
    w_r \propto w_r \exp\big(-\eta_w w_r (H_r - \bar H)\big)

moves the replicas towards one marginal and one conditional entropy, which is the optimum. For a lower bound the
negative weights climb likewise, :math:`w_r \mathrel{*}= \exp(\eta_w w_r (H_r - H_1))`, and the positive one makes up.

*Maxima.* With :math:`w = 0` the replicas' max-marginals are averaged (``smoothing=0``); such steps may well raise the
bound. By default maximised variables are given a small temperature instead, which falls by a fifth an iteration, when
shifts are computed. The bound itself is always that of the maximum.

Guarantee: an upper bound (``side="lower"``: a lower bound on log Z) at every iterate; the best so far is kept. Exact
once ``ibound`` reaches the width of the order. With ``backtrack`` a step that made the bound worse is undone and
halved, and log marginals that differ from the others' by more than a nat are believed to do so only as far as earlier
steps were good: where tables are nearly deterministic a first full step would overshoot by far. Cost of an iteration:
about five ``exp`` a cell of all clusters, which have at most :math:`K^{\mathrm{ibound}+1}` cells each; memory for
messages and factors, since clusters' tables are made block by block. Failure: a lower bound is ``-inf`` where hard
zeros meet negative weights.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from beliefs.deadline import OutOfTime
from beliefs.driver import Value
from beliefs.errors import UnsupportedError
from beliefs.inference.base import (
    Bound,
    Decoding,
    Guarantee,
    Marginals,
    Method,
    Problem,
    Task,
    claimed,
    zero_probability,
)
from beliefs.inference.buckets.bucket_order import ordered_tree
from beliefs.inference.buckets.bucket_run import BucketRun, lower_weights, uniform_weights
from beliefs.inference.buckets.bucket_tree import BucketTree
from beliefs.inference.clusters.partition import check_ibound, partition
from beliefs.inference.orders.chosen import check_order, chosen_order
from beliefs.inference.rounding import certified, widened
from beliefs.inference.search.incumbent import Incumbent
from beliefs.inference.temperatures import chosen_temperatures, power_sum_bound
from beliefs.options import check_number, check_option, is_number, is_word
from beliefs.typing import Bools, Floats

__all__ = ["WMB"]

_COOLING, _COOLEST = 0.8, 0.02  # of the temperature of maximised variables, an iteration
_LOWER = 0.5  # first size of negative weights
_LEAST_STEP, _GROWTH = 1e-3, 1.2  # relative to the first; an iteration that was good
_FAR, _FURTHER = 1.0, 1.5  # nats by which a log marginal is believed to differ at first; growth
_BUCKET, _CLUSTER = 5.0, 150.0  # cells of work for a cell and for a cluster of a step
_NONE = np.zeros(0)


@dataclass(eq=False)
class WmbState:
    """A run, its best bound, and shifts and weights: those of the best (``best_parameters``) and of the last good step.

    ``level`` is the bound at the temperature of the search, which is what steps are judged by. Where variables are
    split, ``best`` is moved by its rounding error; ``rounding`` is that error.
    """

    run: BucketRun
    maximised: Bools
    incumbent: Incumbent | None
    step: float
    heat: float
    bound: float = math.inf
    best: float = math.inf
    rounding: float = 0.0
    far: float = math.inf
    level: float = math.inf
    good: tuple[Floats, Floats] = (_NONE, _NONE)
    best_parameters: tuple[Floats, Floats] | None = None
    model: bytes = b""


@dataclass(frozen=True, eq=False)
class WMBWarmStart:
    """What a warm start needs: shifts and weights, of which split model they are, and how far the search has come."""

    model: bytes
    shifts: Floats
    weight: Floats
    step: float
    heat: float


@dataclass(frozen=True, kw_only=True, repr=False)
class WMB(Method):
    """Weighted mini-bucket with cost shifting and weight optimisation.

    Parameters
    ----------
    ibound : int or None
        Variables in a message, at least 1; None takes the largest with about four million cells in all clusters.
    order : str or sequence of variables
        A heuristic as in :class:`JunctionTree`, or all unobserved variables, first eliminated first; ``"auto"`` takes
        the better of two orders (:mod:`beliefs.inference.buckets.bucket_order`).
    side : str
        ``"upper"``, or ``"lower"`` for a lower bound on log Z.
    step_size, weight_step : float
        Step sizes of shifts, in (0, 1], and of weights, at least 0.
    backtrack : bool
        Undo and halve steps that make the bound worse.
    smoothing : float
        First temperature of maximised variables while shifts are computed; 0 matches their max-marginals.
    tau : array_like (n_vars,) or None
        Temperatures of a power sum, at least 0; None takes those of the question.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.datasets.make_ising_grid(6, seed=0)
    >>> upper, lower = bl.infer(g, "wmb(ibound=3)"), bl.infer(g, "wmb(ibound=3, side=lower)")
    >>> bool(lower.log_lower <= bl.infer(g).log_z <= upper.log_upper)
    True
    """

    ibound: int | None = None
    order: str | Sequence[Any] = "auto"
    side: str = "upper"
    step_size: float = 1.0
    weight_step: float = 2.0
    backtrack: bool = True
    smoothing: float = 1.0
    tau: Any = None

    name: ClassVar[str] = "wmb"
    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER, Task.MAXIMIZE, Task.MARGINAL_MAP)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.UPPER, "(or lower, for sums)", also=(Bound.LOWER,))
    warm_startable: ClassVar[bool] = True
    any_temperatures: ClassVar[bool] = True
    variants: ClassVar[Mapping[Task, tuple[str, ...]]] = {
        Task.INFER: (
            "ibound=1",
            "ibound=1, side=lower",
        ),
        Task.MARGINAL_MAP: ("ibound=1",),
    }
    values_queries: ClassVar[bool] = True
    cost: ClassVar[str] = "exponential in ibound, per iteration"
    reference: ClassVar[str] = "liu2011"
    iterative: ClassVar[bool] = True
    residual_of: ClassVar[str] = "bound"
    default_tol: ClassVar[float] = 1e-6
    default_max_iters: ClassVar[int] = 100

    def __post_init__(self) -> None:
        check_ibound(self.ibound)
        check_order(self.order)
        check_option(is_word(self.side, ("upper", "lower")), "side", "upper or lower", self.side)
        ok = is_number(self.step_size) and 0 < self.step_size <= 1
        check_option(ok, "step_size", "in (0, 1]", self.step_size)
        for name in ("weight_step", "smoothing"):
            check_number(name, getattr(self, name))
        check_option(isinstance(self.backtrack, bool), "backtrack", "True or False", self.backtrack)

    @property
    def lower(self) -> bool:
        """Whether the bound is a lower one."""
        return self.side == "lower"

    # -- the three verbs --------------------------------------------------------------------------------------------
    def init(self, problem: Problem, warm: WMBWarmStart | None = None) -> WmbState:
        """Partition, check the budget, allocate; the first bound is that of uniform weights."""
        tau = chosen_temperatures(problem, self.tau)
        hidden = ~problem.graph.layout.observed
        if self.lower and not (problem.task is Task.INFER and (tau[hidden] > 0).all()):
            raise UnsupportedError(
                "wmb(side=lower) bounds sums only; maxima have the value of any state as a lower bound"
            )
        plan = ordered_tree(problem, self.order, self.ibound, tau, self.name)
        weight = lower_weights(plan, tau, _LOWER) if self.lower else uniform_weights(plan, tau)
        run = BucketRun(problem, plan, tau, weight)
        maximised = tau[plan.buckets.order][plan.buckets.variable] == 0
        incumbent = None if problem.task is Task.INFER else Incumbent(problem)
        state = WmbState(run, maximised, incumbent, self.step_size, self.smoothing)
        if self.backtrack:
            state.far = _FAR
        state.model = self._model(plan, tau)
        if warm is not None and warm.model == state.model:
            run.shifts[:], run.weight[:] = warm.shifts, warm.weight
            state.step = min(warm.step, self.step_size)
            state.heat = min(warm.heat, self.smoothing) if warm.heat > 0 else self.smoothing
        if run.constant == -math.inf:
            raise zero_probability(problem.graph)
        self._judge(state, *self._bound(state))
        state.level = self._refresh(state)
        state.good = run.shifts.copy(), run.weight.copy()
        return state

    def step(self, state: WmbState) -> float:
        """Match on the way up, send beliefs down, and judge the step by the bound at the temperature of the search."""
        run, before = state.run, (state.best, state.level)
        if not run.plan.buckets.split or state.best == -math.inf:  # exact, or nothing to match
            return 0.0
        level, error = self._certified(state, run.match(state.step, self.weight_step, state.far))
        run.backward()
        self._judge(state, *(self._bound(state) if state.maximised.any() else (level, error)))
        if self.backtrack and self._worse(level, state.level):
            self._undo(state)
            return 1.0 if state.step > _LEAST_STEP * self.step_size else 0.0
        state.level, state.good = level, (run.shifts.copy(), run.weight.copy())
        state.step, state.far = min(state.step * _GROWTH, self.step_size), state.far * _FURTHER
        self._cool(state)
        moved = max(abs(now - then) for now, then in zip((state.best, level), before, strict=True))
        return moved / max(1.0, abs(state.best))

    def value(self, state: WmbState) -> Value:
        """Return the best bound so far (of maxima, the value of the latest assignment) and the certified interval."""
        exact = not state.run.plan.buckets.split
        if state.incumbent is not None:
            value = state.incumbent.value(state.best, state.rounding if exact else 0.0)
            return replace(value, rounding=state.rounding)
        means = power_sum_bound(state.run.problem, state.run.tau)
        value = Value(
            state.best,
            state.best if (self.lower or exact) and means in (Bound.EXACT, Bound.LOWER) else -math.inf,
            state.best if (not self.lower or exact) and means in (Bound.EXACT, Bound.UPPER) else math.inf,
            state.rounding,
        )
        return certified(value, state.rounding) if exact else value

    def finish(self, state: WmbState) -> Marginals | Decoding:
        """Return the best bound with the beliefs of the best weights and shifts, or the best assignment."""
        value = self.value(state)
        if state.incumbent is not None:
            split = state.run.plan.buckets.split
            return state.incumbent.decoding(value) if split else state.incumbent.proved(state.best)
        mu_var, mu_factor = self._beliefs(state)
        split = state.run.plan.buckets.split
        return Marginals(value.log_z, claimed(value), mu_var, mu_factor, value.lower, value.upper, estimated=split)

    def step_cells(self, problem: Problem) -> float:
        """Count the cells and clusters of the mini-buckets, where the i-bound is given."""
        if self.ibound is None:
            return super().step_cells(problem)
        buckets = problem.graph.layout.plan(partition, chosen_order(problem, self.order), self.ibound)
        return _BUCKET * buckets.n_cells + _CLUSTER * buckets.n_clusters

    def warm_state(self, state: WmbState) -> WMBWarmStart:
        """Return the shifts and weights of the best bound."""
        assert state.best_parameters is not None
        return WMBWarmStart(state.model, *state.best_parameters, state.step, state.heat)

    def _beliefs(self, state: WmbState) -> tuple[Floats, Floats]:
        """Return the beliefs of the best weights and shifts; uniform ones where a zero, or no time, leaves none."""
        self._restore(state)
        try:
            return state.run.beliefs() if state.run.forward() > -math.inf else state.run.uniform()
        except OutOfTime:
            return state.run.uniform()

    def _model(self, plan: BucketTree, tau: Floats) -> bytes:
        """Return what tells one split model from another: shifts and weights of a different one would prove nothing."""
        digest = hashlib.sha256(self.side.encode())
        for array in (plan.buckets.order, plan.buckets.axes_ptr, plan.buckets.axes, plan.buckets.host, tau):
            digest.update(array.tobytes())
        return digest.digest()

    # -- bounds -----------------------------------------------------------------------------------------------------
    def _bound(self, state: WmbState) -> tuple[float, float]:
        """Return the bound with maxima as maxima and its rounding error, and offer what is read off the buckets."""
        run, weight = state.run, state.run.weight
        run.weight = np.where(state.maximised, 0.0, weight)
        bound, error = self._certified(state, run.forward())
        if state.incumbent is not None:
            state.incumbent.offer(run.decode())
        run.weight = weight
        return bound, error

    def _certified(self, state: WmbState, bound: float) -> tuple[float, float]:
        """Return the bound of the last pass, moved by its rounding error where it is no exact value; and that error.

        Steps are judged by such bounds: what large weights and shifts gain is worth nothing if rounding takes it back.
        The bound at a temperature of the search, where maxima have weights, certifies nothing and stays as it is.
        """
        if (state.run.weight[state.maximised] != 0).any():
            return bound, 0.0
        error = state.run.rounding(bound)
        side = Bound.LOWER if self.lower else Bound.UPPER
        return widened(bound, error, side if state.run.plan.buckets.split else Bound.EXACT), error

    def _judge(self, state: WmbState, bound: float, error: float) -> None:
        """Record a bound, and keep the shifts and weights of the best."""
        if bound == -math.inf and not (self.lower and state.run.plan.buckets.split):
            raise zero_probability(state.run.problem.graph)
        state.bound = bound
        if state.best_parameters is None or self._worse(state.best, bound):
            state.best, state.rounding = bound, error
            state.best_parameters = state.run.shifts.copy(), state.run.weight.copy()

    def _worse(self, one: float, other: float) -> bool:
        slack = 1e-12 * max(1.0, abs(other)) if math.isfinite(other) else 0.0
        return one < other - slack if self.lower else one > other + slack

    # -- steps ------------------------------------------------------------------------------------------------------
    def _refresh(self, state: WmbState) -> float:
        """Send all messages, up and down, at the temperature of the search; return the bound at it."""
        run = state.run
        if self.smoothing > 0:
            share = 1.0 / run.plan.buckets.replicas[run.plan.buckets.variable]
            run.weight[state.maximised] = state.heat * share[state.maximised]
        level, _ = self._certified(state, run.forward())
        run.backward()
        return level

    def _cool(self, state: WmbState) -> None:
        """Lower the temperature of maximised variables; the bound at it falls with it."""
        if state.maximised.any() and self.smoothing > 0:
            heat = max(state.heat * _COOLING, min(_COOLEST, state.heat))
            state.run.weight[state.maximised] *= heat / state.heat
            state.heat = heat

    def _undo(self, state: WmbState) -> None:
        """Go back to the last good shifts and weights, with half the step."""
        state.run.shifts[:], state.run.weight[:] = state.good
        state.step, state.far = 0.5 * state.step, max(0.5 * state.far, min(_FAR, state.far))
        self._refresh(state)

    def _restore(self, state: WmbState) -> None:
        assert state.best_parameters is not None
        state.run.shifts[:], state.run.weight[:] = state.best_parameters
