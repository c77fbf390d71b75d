r"""Alternating minimisation of a difference of convex functions, the concave-convex procedure [yuille2003].

.. math:: w_{t+1} \approx \arg\min_w \tfrac1n \sum_s \bigl[ F_s(w) - C_s(w_t) - \nabla C_s(w_t) \cdot (w - w_t) \bigr]
   + \lambda \lVert w \rVert^2

An iteration is a round: a tangent of the clamped term, which is above the objective and touches it at the weights, and
a convex problem, solved by another optimiser from where the last round ended ([ping2016] Algorithm 4.2, with a stop
rule that sees the ridge). For the likelihood this is EM: the tangent is the E-step and the convex problem the M-step.

=============  ======================================================================================================
``inner``      what solves the convex problem
=============  ======================================================================================================
``lbfgs``      where it is smooth
``one_slack``  else; the planes of earlier rounds are kept, since a tangent changes all by the same
``n_slack``    few evaluations, much memory; ``bcfw`` where the free term is a maximum of planes
``sgd``        mini-batches; a round that does not lower the objective is not taken
=============  ======================================================================================================

Other losses may have convex functions above them that touch them at the weights (``m3e``), which then take the place of
the tangent. The convex problem is solved no better than the rounds gain by it: to 0.3 of the decrease of the last
round, down to 0.3 of ``tol``. A round that would raise the objective, for want of precision, is not taken, and the next
one is more precise. The fit ends with a round whose decrease, with what its convex problem has left to gain, is within
``tol`` of the objective: 1e-3 unless said otherwise, since each further digit takes several times as long.

Guarantee: with exact inference the objective never rises, and falls by at least what the convex problem does. There is
no bound on the distance to the global minimum: the ``gap`` of the result is inf. ``trace.gap`` is that of the convex
problem of each round. Cost of a round: the convex problem, an evaluation, and inference given the labels. Failure:
with inference that is not exact (``bp`` on graphs with loops) the tangent may be below the objective, and planes above
the convex problem, where they block the way. Planes that nothing certifies are therefore let go when a round gains
nothing by them, and the next one begins without; if that gains nothing either, or raises the objective, the fit ends,
and says so: these weights are the best seen, and ``sgd`` may find better ones.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Limits, Status
from beliefs.errors import ModelError, UnsupportedError
from beliefs.inference.text import parse
from beliefs.learning.chains.template import ChainTemplate
from beliefs.learning.linearised import Expected, Linearised, Terms, expect
from beliefs.learning.losses.difference import DifferenceLoss
from beliefs.learning.optimizers.adam import Adam
from beliefs.learning.optimizers.base import Optimizer, Outcome, Point, Stop, Watched
from beliefs.learning.optimizers.bcfw import BCFW
from beliefs.learning.optimizers.lbfgs import LBFGS
from beliefs.learning.optimizers.n_slack import NSlack
from beliefs.learning.optimizers.objective import Objective
from beliefs.learning.optimizers.one_slack import OneSlack, moved
from beliefs.learning.optimizers.rounds import Rounds
from beliefs.learning.optimizers.sgd import SGD
from beliefs.model.features import LogLinearTemplate
from beliefs.options import MANY, check_integer, check_option
from beliefs.typing import Floats

__all__ = ["CCCP"]

_INNER: tuple[type[Optimizer], ...] = (LBFGS, OneSlack, NSlack, BCFW, SGD, Adam)
_TOGETHER = (LBFGS, OneSlack)  # those that look at all instances together
_FIRST = 1e-2  # precision of the first round: the gap relative to the objective
_SHARE = 0.3  # of the last decrease: the precision of the next round
_FINEST = 1e-10
_TINY = 1e-300
_UNKNOWN = sys.float_info.max  # a residual that is no reason to stop; the driver takes inf for divergence
_INNER_MEMORY = "inner."


@dataclass(frozen=True, kw_only=True, repr=False)
class CCCP(Optimizer):
    """Tangents of the concave part, one convex problem after the other: the choice where variables are hidden.

    Parameters
    ----------
    inner : Optimizer or str
        What solves the convex problems: its name or text; ``"auto"``: lbfgs where they are smooth, else one_slack.
    inner_iters : int, optional
        Its iterations a round; None: its own limit.

    Examples
    --------
    >>> CCCP(inner="one_slack")
    cccp(inner=one_slack)
    """

    inner: Any = "auto"
    inner_iters: int | None = None

    name: ClassVar[str] = "cccp"
    default_tol: ClassVar[float] = 1e-3
    default_max_iters: ClassVar[int] = 200
    tol_is_of: ClassVar[str] = "relative change"
    certifies: ClassVar[bool] = False

    def __post_init__(self) -> None:
        good = isinstance(self.inner, str | Optimizer)
        check_option(good, "inner", "an optimizer or its text, or auto", self.inner)
        if isinstance(self.inner, str) and self.inner != "auto":
            parse(self.inner, _INNER, "inner optimizer")
        check_integer("inner_iters", self.inner_iters, 1, MANY, none=True)

    def check(self, objective: Objective) -> None:
        """Refuse losses that are no such difference, and what the inner optimiser refuses."""
        loss = objective.loss
        if not loss.alternates:
            others = "lbfgs, sgd or one_slack" if loss.is_smooth(objective.data) else "sgd"
            raise ModelError(
                "cccp needs a loss with a free and a clamped term, such as likelihood or max_margin (not with "
                f"rescaling='slack'); {loss.name} is not: use {others}"
            )
        if not isinstance(objective.data, list | tuple):
            raise ModelError(f"cccp needs a list of instances, found {type(objective.data).__name__}")
        solver = self.solver(objective)
        if isinstance(solver, BCFW) and not loss.is_maximum(objective.data):
            raise UnsupportedError(
                "cccp(inner=bcfw) needs maxima alone: eps_y=0, and eps_h=0 where variables are hidden; use "
                "inner=one_slack, or lbfgs where all temperatures are above 0"
            )
        convex = Terms(loss).free if isinstance(loss, DifferenceLoss) else loss.above
        solver.check(_inner_objective(objective, objective.start, convex))

    def solver(self, objective: Objective) -> Optimizer:
        """Return the optimiser of the convex problems."""
        if isinstance(self.inner, Optimizer):
            return self.inner
        if self.inner == "auto":
            return LBFGS() if objective.loss.is_smooth(objective.data) else OneSlack()
        return parse(self.inner, _INNER, "inner optimizer")

    def minimize(self, objective: Objective, watch: Watched, resumed: Point | None = None, seed: int = 0) -> Outcome:
        """Go round until the objective hardly falls; a resumed run makes the very rounds of the first."""
        rounds = _Rounds(self, objective, watch, resumed, seed)
        try:
            status = rounds.run()
        except Stop as stop:
            return Outcome(stop.status, rounds.point, stop.reason)
        return Outcome(status, rounds.point, _MEANING.get(status, "") + rounds.doubt(status))


_MEANING = {
    Status.CONVERGED: "the objective fell by less than tol in a round",
    Status.OSCILLATING: "a round raised the objective: inference is not exact, so tangents of the clamped term do not "
    "bound it; use an exact method or one with a lower bound for the clamped term, or optimizer sgd",
}


class _Rounds(Rounds):
    """One minimisation under way."""

    def __init__(self, options: CCCP, objective: Objective, watch: Watched, resumed: Point | None, seed: int) -> None:
        self.options, self.objective, self.watch, self.seed = options, objective, watch, seed
        self.inner, self.terms = options.solver(objective), Terms(objective.loss)
        linear = isinstance(objective.loss.template, LogLinearTemplate | ChainTemplate)
        self.together = linear and isinstance(self.inner, _TOGETHER) and isinstance(objective.loss, DifferenceLoss)
        self.fresh, self.rose = resumed is None, False
        if resumed is None:
            found = objective.evaluate(objective.start)
            self.point = Point.of(objective, objective.start, found, 0)
            if not math.isfinite(self.point.loss):
                raise ModelError("the loss is not finite at the starting weights; start from smaller ones (or zeros)")
            self.precision, self.upper = _FIRST, found.upper
            self._show(0)
        else:
            self.point = resumed
            self.precision, self.upper = resumed.memory["scalars"].tolist()

    def doubt(self, status: Status) -> str:
        """Say what convergence is worth where nothing certifies the planes of the convex problems."""
        by_planes = self.inner.tol_is_of == "relative gap" and self.point.iteration > 0
        if status is not Status.CONVERGED or not by_planes or self.point.gap < math.inf:
            return ""
        return ", by planes that inference does not certify: sgd, or an exact method, may lower it further"

    def _ended(self) -> Status | None:
        return Status.OSCILLATING if self.rose else None

    def _step(self) -> float:
        inner, problem = self._linearised()
        warm, tol = self._warm(inner, problem), self.watch.limits.tol
        outcome = self.inner.minimize(inner, _Inside(self, inner), warm, self.seed)
        self.objective.n_evaluations += inner.n_evaluations
        if outcome.status is Status.STOPPED:
            raise Stop(outcome.status, outcome.reason)
        found = self.objective.evaluate(outcome.point.weights)
        after = Point.of(self.objective, outcome.point.weights, found, self.point.iteration + 1)
        scale = max(abs(self.point.loss), _TINY)
        change, finest = (self.point.loss - after.loss) / scale, max(_SHARE * tol, _FINEST)
        by_gap, gap = self.inner.tol_is_of == "relative gap", outcome.point.gap
        left = min(gap / scale, self.precision) if by_gap else 0.0  # of the convex problem, for a later round
        misled = change <= tol and warm is not None and math.isinf(gap)  # by planes that nothing certifies
        precise = not by_gap or self.precision <= finest
        self.rose = precise and not misled and not change >= -max(tol, _FINEST)
        if change >= 0:
            self.point, self.upper = after, found.upper
        finer = _SHARE * (change if change > tol else self.precision)
        self.precision = max(min(finer, self.precision), finest)
        self._show(after.iteration, None if misled else problem, outcome.point)
        self.watch.iterate(self.point)
        return max(change, 0.0) + left if not (misled or self.rose) else _UNKNOWN

    def _linearised(self) -> tuple[Objective, Any]:
        """Return the convex problem at the present weights."""
        loss, data, weights = self.objective.loss, self.objective.data, self.point.weights
        if self.together:
            problem: Any = self.terms.tangent(weights, data)
        elif isinstance(loss, DifferenceLoss):
            expect(loss, weights, data)  # type: ignore[arg-type]
            problem = Expected(template=loss.template, l2=loss.l2, threads=loss.threads, of=loss)
        else:
            problem = loss.majorant(weights, data)
        return _inner_objective(self.objective, weights, problem), problem

    def _warm(self, inner: Objective, problem: Any) -> Point | None:
        """Return the planes of the last round as those of this one; the tangent alone has changed."""
        memory = self.point.memory
        if not (self.together and isinstance(self.inner, OneSlack)) or "inner.slopes" not in memory:
            return None
        slope, offset = memory["inner.tangent"], float(memory["inner.offset"])
        planes = {n.removeprefix(_INNER_MEMORY): a for n, a in memory.items() if n.startswith(_INNER_MEMORY)}
        last = replace(self.point, memory=planes)
        return moved(last, self.point, self.upper, slope - problem.slope, offset - problem.offset, inner)

    def _show(self, iteration: int, problem: Any = None, solved: Point | None = None) -> None:
        """Make the point of this round; its gap is that of the convex problem."""
        memory: dict[str, np.ndarray] = {"scalars": np.array([self.precision, self.upper])}
        if isinstance(problem, Linearised) and solved is not None:
            memory |= {_INNER_MEMORY + name: array for name, array in solved.memory.items()}
            memory |= {"inner.tangent": problem.slope, "inner.offset": np.array(problem.offset)}
        gap = math.inf if solved is None else solved.gap
        self.point = replace(self.point, iteration=iteration, step=iteration, gap=gap, memory=memory)


class _Inside:
    """The watch of a convex problem: how precisely to solve it, and the clock and callbacks of the whole."""

    def __init__(self, rounds: _Rounds, inner: Objective) -> None:
        self.rounds = rounds
        solver, watch = rounds.inner, rounds.watch
        tol = solver.default_tol
        if solver.tol_is_of == "relative gap":
            tol = rounds.precision
        elif solver.tol_is_of == "gradient":
            tol = max(min(tol, _FIRST * rounds.point.grad_norm), _FINEST)
        most = solver.default_max_iters if rounds.options.inner_iters is None else rounds.options.inner_iters
        self.limits: Limits = replace(watch.limits, tol=tol, max_iters=most, callbacks=())

    def iterate(self, point: Point) -> None:
        """Let the whole look at its clock and callbacks."""
        self.rounds.watch.between(self.rounds.point)

    def between(self, point: Point) -> None:
        """Let the whole look at its clock and callbacks."""
        self.rounds.watch.between(self.rounds.point)

    @property
    def looks_between(self) -> bool:
        """Whether anybody looks at the whole."""
        return self.rounds.watch.looks_between

    def check_time(self) -> None:
        """Ask the whole."""
        self.rounds.watch.check_time()

    def back_to(self, point: Point) -> None:
        """Nothing is kept."""


def _inner_objective(objective: Objective, start: Floats, loss: Any) -> Objective:
    bounds = (objective.low, objective.high) if objective.bounded else None
    return Objective(loss, objective.data, start, objective.l1, objective.free, bounds)
