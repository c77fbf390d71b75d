r"""Block-coordinate Frank-Wolfe for structured SVMs [lacostejulien2013]: one instance at a time, no step size.

.. math:: R(w) = \frac1n \sum_i a_i L_i(w) + \lambda \lVert w \rVert^2, \qquad
   L_i = \max_y \bigl( \ell_y + s_y \cdot \theta_i(w) \bigr)

A step takes one instance, finds the plane :math:`(s, \ell)` that is highest at the present weights (loss-augmented
inference), and moves the instance's part of the dual towards it by as much as raises the dual most, which has a closed
form (:mod:`beliefs.kernels.losses.frank_wolfe`; the dual is in :mod:`beliefs.learning.optimizers.blocks`). An iteration
is a pass over all instances, in an order drawn by the seed. The weights returned are those of the last step, or the
average in which step j counts j times.

Guarantee: the dual never decreases, and with exact inference ``gap`` is what it says: the objective at the weights
returned, average or not, minus the largest dual value known, which no objective is below; the excess over the optimum
is at most that. ``tol`` is on the gap relative to the objective. Where inference is inexact the gap is taken from
certified upper bounds, and is inf where there are none or where a plane may lie above the loss.

Convergence: the excess falls like 1/k, fast at first. Cost: an inference and a pass over the weights a step; the gap
costs one evaluation of all instances, every ``gap_every`` passes. Memory: 8 bytes for each cell of ``theta`` of each
instance. The dual begins at the labels, where the weights are 0; weights to start from are not used, and as the problem
is convex they do not matter. Failure: hardly any ridge makes the problem hard; hidden labels make it another problem.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Status, Value, run
from beliefs.errors import ModelError, UnsupportedError
from beliefs.learning.chains.template import ChainTemplate
from beliefs.learning.data import n_labels
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import Loss
from beliefs.learning.optimizers.base import Optimizer, Outcome, Point, Stop, Watched
from beliefs.learning.optimizers.blocks import Blocks, Dual, InstanceBlocks
from beliefs.learning.optimizers.objective import Objective
from beliefs.model.features import LogLinearTemplate
from beliefs.options import MANY, check_integer, check_option
from beliefs.typing import Floats

__all__ = ["BCFW"]

_UNKNOWN = sys.float_info.max  # the residual where there is no gap; the driver takes inf for divergence


@dataclass(frozen=True, kw_only=True, repr=False)
class BCFW(Optimizer):
    """Exact line searches in the dual, instance by instance: the choice for margins without hidden labels.

    Parameters
    ----------
    average : bool
        Whether the weights returned are an average over the steps, late ones counting more.
    batch_size : int
        Instances solved at the same weights, on threads (chains: in one loop); then they move one after the other.
    gap_every : int
        Passes between two evaluations of objective and gap; the last one always ends with one.

    Examples
    --------
    >>> BCFW(average=False)
    bcfw(average=False)
    """

    average: bool = True
    batch_size: int = 1
    gap_every: int = 1

    name: ClassVar[str] = "bcfw"
    default_tol: ClassVar[float] = 1e-3
    default_max_iters: ClassVar[int] = 1000
    tol_is_of: ClassVar[str] = "relative gap"

    def __post_init__(self) -> None:
        check_option(isinstance(self.average, bool), "average", "True or False", self.average)
        check_integer("batch_size", self.batch_size, 1, MANY)
        check_integer("gap_every", self.gap_every, 1, MANY)

    def check(self, objective: Objective) -> None:
        """Refuse what has no such dual."""
        _check_problem(objective)

    def minimize(self, objective: Objective, watch: Watched, resumed: Point | None = None, seed: int = 0) -> Outcome:
        """Pass over the instances until the gap is small; a resumed run makes the very steps of the first."""
        ascent = _Ascent(self, objective, watch, resumed, seed)
        try:
            status = ascent.run()
        except Stop as stop:
            return Outcome(stop.status, ascent.best_known(), stop.reason)
        if status is Status.TIME_LIMIT:
            return Outcome(status, ascent.best_known())
        met = "the duality gap fell below tol of the objective" if status is Status.CONVERGED else ""
        return Outcome(status, ascent.evaluated(), met)


class _Ascent:
    """One maximisation of the dual under way."""

    def __init__(self, options: BCFW, objective: Objective, watch: Watched, resumed: Point | None, seed: int) -> None:
        self.options, self.objective, self.watch, self.seed = options, objective, watch, seed
        self.blocks = _blocks(objective)
        labels = n_labels(objective.data)
        dual = Dual.start(self.blocks.n_weights, self.blocks.n_cells, self.blocks.n_blocks, labels, objective.l2)
        self.dual = dual if resumed is None else dual.filled(resumed.memory)
        self.last: Point | None = None if resumed is None else resumed
        self.order = self._drawn()

    def run(self) -> Status:
        """Let the driver run the loop."""
        limits = replace(self.watch.limits, max_iters=sys.maxsize, callbacks=())
        return run(self._step, lambda: Value(0.0), limits, fixed_point=False, ended=self._ended).status

    def _drawn(self) -> Any:
        return np.random.default_rng([self.seed, self.dual.n_pass]).permutation(self.blocks.n_blocks)

    def _ended(self) -> Status | None:
        if self.last is not None and self.dual.position == 0 and _residual(self.last) <= self.watch.limits.tol:
            return Status.CONVERGED  # by an earlier run
        return Status.MAX_ITERS if self.dual.n_pass >= self.watch.limits.max_iters else None

    def _step(self) -> float:
        if self.dual.position < self.blocks.n_blocks:
            self.blocks.advance(self.dual, self.order[self.dual.position :], self.options.batch_size)
        if self.dual.position < self.blocks.n_blocks:
            self.watch.between(self._passing())
            return _UNKNOWN
        return self._pass_over()

    def _pass_over(self) -> float:
        """Evaluate if it is due, and begin the next pass."""
        due = (self.dual.n_pass + 1) % self.options.gap_every == 0
        point = self._certified(self.dual.n_pass + 1) if due else replace(
            self._passing(), iteration=self.dual.n_pass + 1
        )  # fmt: skip
        self.dual.end_pass()
        self.order = self._drawn()
        self.last = point
        self.watch.iterate(point)
        return _residual(point)

    # -- points ---------------------------------------------------------------------------------------------------
    def _shown(self) -> Floats:
        return self.blocks.template_weights(self.dual.averaged() if self.options.average else self.dual.arrays.weights)

    def _passing(self) -> Point:
        """Return the present point with the running mean of the losses, as far as that is known."""
        weights, dual = self._shown(), self.dual
        loss = dual.loss + dual.l2 * float(weights @ weights)
        waiting = int(dual.arrays.numbers[8])
        return Point(dual.n_pass, dual.step, weights, loss, math.inf, 0, waiting, memory=dual.memory)

    def _certified(self, n_pass: int) -> Point:
        """Return the present point with the objective over all instances, and the gap."""
        weights = self._shown()
        found = self.objective.evaluate(weights)
        gap = max(0.0, found.upper - self.dual.lower()) if self.dual.is_certified else math.inf
        point = Point.of(self.objective, weights, found, n_pass)
        return replace(point, step=self.dual.step, gap=gap, memory=self.dual.memory)

    def evaluated(self) -> Point:
        """Return the present point, at the end of a pass, with objective and gap."""
        known = self.last is not None and math.isfinite(self.last.grad_norm)
        return self.last if known and self.last is not None else self._certified(self.dual.n_pass)

    def best_known(self) -> Point:
        """Return the end of the last pass, if there was one; else the present point."""
        return self._passing() if self.last is None else self.last


def _residual(point: Point) -> float:
    """Return the gap relative to the objective."""
    return point.gap / max(abs(point.loss), sys.float_info.min) if point.gap < math.inf else _UNKNOWN


def _blocks(objective: Objective) -> Blocks:
    """Return the blocks that the loss offers for its data, else one an instance."""
    loss = objective.loss
    offered: Blocks | None = loss.blocks(objective.data)
    return InstanceBlocks(loss, objective.data, n_labels(objective.data)) if offered is None else offered  # type: ignore[arg-type]


def _check_problem(objective: Objective) -> None:
    """Raise where the dual is not that of a structured SVM without hidden labels."""
    loss, data = objective.loss, objective.data
    if not isinstance(data, list | tuple) or not all(isinstance(i, Instance) for i in data):
        raise ModelError(f"bcfw draws instances from a list, found {type(data).__name__}; give a list of instances")
    if not isinstance(loss, Loss) or not isinstance(loss.template, LogLinearTemplate | ChainTemplate):
        kind = type(loss.template).__name__ if isinstance(loss, Loss) else "none"
        raise UnsupportedError(f'bcfw needs a template linear in its weights, found {kind}; use optimizer="sgd"')
    if not objective.l2 > 0:
        raise ModelError('bcfw needs a ridge, found l2=0; give l2 above 0 (a finite C), or use optimizer="sgd"')
    if objective.penalised or objective.bounded or not objective.all_free:
        what = (
            "an l1 penalty" if objective.penalised else "bounds" if objective.bounded else "weights that may not move"
        )
        raise UnsupportedError(f'bcfw has no dual with {what}; use optimizer="sgd"')
    _check_labels(loss, data)
    objective.check_convex("bcfw")
    if not loss.is_maximum(data):
        raise UnsupportedError(
            f"bcfw needs a loss that is a maximum of planes, which {loss.name} is not with temperatures above 0; use "
            'optimizer="lbfgs", or max_margin with eps_y=0'
        )


def _check_labels(loss: Loss, data: Any) -> None:
    if not n_labels(data) > 0:
        raise ModelError("no variable of any instance has a label; a loss needs labels to compare with")
    for instance in () if loss.hidden and loss.is_convex(data) else data:
        if instance.n_labelled < instance.labels.size:
            raise UnsupportedError(
                f"{instance.name} has hidden variables (without a label, or substates), which make the problem "
                'non-convex, and bcfw needs a convex one; use optimizer="cccp"'
            )
