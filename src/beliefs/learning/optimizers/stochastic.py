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

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from beliefs.driver import Status
from beliefs.errors import ModelError
from beliefs.inference.budget import default_budget, over_budget
from beliefs.learning.optimizers.base import Optimizer, Outcome, Point, Stop, Watched
from beliefs.learning.optimizers.descent import Descent, Memory
from beliefs.learning.optimizers.objective import Objective
from beliefs.options import check_integer, check_number, check_option
from beliefs.typing import Floats

__all__ = ["Memory", "Stochastic"]

_BATCHES = 6  # in memory at most: one at work, one read ahead, and four that losses remember


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
        check_number("step", self.step, positive=True)
        check_integer("batch_size", self.batch_size, 1)
        check_number("t0", self.t0, positive=True, none=True)
        check_option(isinstance(self.average, bool), "average", "True or False", self.average)
        check_option(isinstance(self.best, bool), "best", "True or False", self.best)
        if self.average and self.best:
            raise ModelError("average and best are two ways to choose the weights returned; give one of them")

    def check(self, objective: Objective) -> None:
        """Raise BudgetError, before any work, where mini-batches that are read would not fit into memory."""
        largest, of_part = getattr(objective.data, "largest_bytes", (0, 0))
        needed, limit = _BATCHES * self.batch_size * largest + of_part, default_budget()
        if needed > limit:
            demand = f"mini-batches of {self.batch_size} instances, the one that is read ahead included, need"
            raise over_budget(demand, needed, limit, "Give a smaller batch_size, or smaller parts")

    @abstractmethod
    def begin(self, n: int, dtype: Any) -> Memory:
        """Return what is remembered before the first update of ``n`` weights of a type."""

    @abstractmethod
    def direction(self, grad: Floats, memory: Memory, t: int) -> tuple[Floats, Floats | float]:
        """Return the direction of update t = 1, 2, ... and the scale of each weight's step; the memory is renewed.

        It is asked for one block of weights after the other, all entries of the memory cut alike.
        """

    def minimize(self, objective: Objective, watch: Watched, resumed: Point | None = None, seed: int = 0) -> Outcome:
        """Update until a limit is met; a resumed run makes the very updates that the first would have made."""
        descent = Descent(self, objective, watch, resumed, seed)
        try:
            status = descent.run()
        except Stop as stop:
            return Outcome(stop.status, descent.point(), stop.reason)
        except BaseException:
            if descent.torn and descent.now.t:
                watch.back_to(descent.good)
            raise
        if status is Status.DIVERGED:
            watch.back_to(descent.good)
            reason = f"the loss of a mini-batch is not finite after update {descent.now.t}; use a smaller step"
            return Outcome(status, descent.good, reason)
        if status is Status.TIME_LIMIT:
            return Outcome(status, descent.good if descent.torn else descent.point())
        met = "the loss changed by less than tol between two passes" if status is Status.CONVERGED else ""
        return Outcome(status, descent.evaluated(), met)
