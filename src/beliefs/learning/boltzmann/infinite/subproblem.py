r"""The next hidden unit: the weight vector along which the log-likelihood rises fastest.

.. math::
    w^* = \arg\max_w J(w), \qquad
    J(w) = -\tfrac{\rho}{2} \lVert w \rVert^2 + \tfrac1N \sum_n \log(1 + e^{w^T v^n}) - E_{p}[\log(1 + e^{w^T v})]

([ping2016] eq. 5.8). The functional gradient of (5.5) at w is :math:`g(w) = \alpha J(w)` with :math:`\rho = \lambda /
\alpha`. The print has :math:`\rho = \lambda` whatever :math:`\alpha` is, which is (5.5) with a penalty that grows with
:math:`\alpha`: :math:`\tfrac\lambda2 \sum_j \lVert w_j \rVert^2`.

With the bias at its optimum the rates of data and model are the same. Where they differ by :math:`\Delta = \tfrac1N
\sum_n v^n - E_p[v]`, because expectations are sampled and the bias has not quite followed, what is maximised is

.. math:: J(w) - \tfrac1N \sum_n \sigma(w^T v^n)\; w^T \Delta ,

the slope of the likelihood along the move that is made (:mod:`.steps`), in which the bias makes up for the mean effect
of the unit. J itself has a maximum at :math:`w = \Delta / \rho`, a unit that is always on, says what the bias says, and
is taken back by it: small starts find it, since :math:`\Delta` is the gradient of J at zero. The two are equal where
:math:`\Delta = 0`.

J is smooth and not concave, and :math:`w = 0` is stationary once the rates of visible units are matched, so L-BFGS
starts from a few small random vectors and the best end is taken: a stationary point, and the maximum only as far as
the starts have found it. Zero may be a local maximum, so larger vectors are tried before no unit is said to help.
Cost: about fifty evaluations a start, each two products of all rows with a vector.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from beliefs.driver import Limits, Status
from beliefs.learning.boltzmann.infinite.averages import RowAverages
from beliefs.learning.optimizers.base import Point, Stop, Watched
from beliefs.learning.optimizers.lbfgs import LBFGS
from beliefs.learning.optimizers.objective import Objective
from beliefs.typing import Floats

__all__ = ["Inner", "NewUnit", "best_unit", "minimised"]

_SCALES = 0.01, 0.1, 1.0  # standard deviations of starts; the larger ones where all smaller ones lead nowhere


@dataclass(frozen=True, eq=False)
class NewUnit:
    """What a unit would add: minus J is the loss.

    Parameters
    ----------
    data, model : RowAverages
        Over the training rows, and over the law of the present machine.
    ridge : float
        rho.
    hidden_bias : bool
        Whether the last weight, of the unit that is always 1, may move.
    """

    data: RowAverages
    model: RowAverages
    ridge: float
    hidden_bias: bool = True

    def value_and_grad(self, atom: Floats, data: object = None) -> tuple[float, Floats]:
        """Return -J and its gradient at a weight vector, ``(n_visible + 1,)``."""
        seen, seen_grad = self.data.softplus(atom, self.data.mean - self.model.mean)
        expected, expected_grad = self.model.softplus(atom)
        grad = self.ridge * atom - seen_grad + expected_grad  # minus the gradient of (5.8)
        if not self.hidden_bias:
            grad[-1] = 0.0
        return 0.5 * self.ridge * float(atom @ atom) - seen + expected, grad


class Inner:
    """The watch of a problem within a step: how closely to solve it, and the clock of the whole."""

    looks_between = False

    def __init__(self, watch: Watched, tol: float, max_iters: int) -> None:
        self.watch = watch
        self.limits: Limits = replace(watch.limits, tol=tol, max_iters=max_iters, callbacks=())

    def iterate(self, point: Point) -> None:
        """Look at the clock."""
        self.watch.check_time()

    def between(self, point: Point) -> None:
        """Look at the clock."""
        self.watch.check_time()

    def check_time(self) -> None:
        """Ask the whole."""
        self.watch.check_time()

    def back_to(self, point: Point) -> None:
        """Nothing is kept."""


def minimised(objective: Objective, inner: Inner) -> Point:
    """Return where L-BFGS ends; raise Stop where the time is over."""
    outcome = LBFGS().minimize(objective, inner)
    if outcome.status in (Status.TIME_LIMIT, Status.STOPPED):
        raise Stop(outcome.status, outcome.reason)
    return outcome.point


def best_unit(problem: NewUnit, rng: np.random.Generator, n_starts: int, inner: Inner) -> tuple[Floats, float]:
    """Return the best weight vector of several starts, and J there; zeros, where J is 0, if none is better."""
    size = problem.data.n_visible + 1
    best, value = np.zeros(size), 0.0
    for scale in _SCALES:
        for _ in range(n_starts):
            start = rng.normal(scale=scale, size=size)
            start[-1] *= problem.hidden_bias
            found = minimised(Objective(problem, (), start), inner)
            if -found.loss > value:
                best, value = found.weights, -found.loss
        if value > inner.watch.limits.tol:
            break
    return best, value
