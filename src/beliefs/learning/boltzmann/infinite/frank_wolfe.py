r"""Frank-Wolfe in the space of measures: a hidden layer that grows unit by unit ([ping2016] Algorithm 5.1).

One step, from the measure :math:`q_{t-1}` with mass :math:`\alpha` and bias b:

==  =====================================================================================================
1.  the law p of the present machine: all visible rows, or samples drawn once (``expectations``)
2.  :math:`w^* = \arg\max_w J(w)`, eq. (5.8) (:mod:`.subproblem`)
3.  the move (:mod:`.steps`): ``alpha="units"`` appends :math:`w^*` as a column and has :math:`\alpha_t = t`; a fixed
    mass moves part of it to :math:`w^*`; ``"learned"`` also moves :math:`\alpha`
4.  the bias b, fitted to the rates of the data
==  =====================================================================================================

The Frank-Wolfe gap :math:`\max_w g(w) - E_q[g] \ge L^* - L(q)`, with :math:`g = \alpha J`, bounds how far the objective
(5.5) is from its maximum over all measures of mass :math:`\alpha` and all biases (the bias being at its optimum) -- if
the subproblem has found its maximum, which several starts make likely and nothing certifies.

Guarantee, with exact expectations: with a fixed or learned alpha no step lowers (5.5). With ``alpha="units"`` a unit
gains in log-likelihood

.. math:: \Delta = \tfrac1N \sum_n \log(1 + e^{w^{*T} v^n}) - \log E_p[1 + e^{w^{*T} v}]
          \le J(w^*) + \tfrac\lambda2 \lVert w^* \rVert^2

and then what the bias gains. The first may be negative where :math:`w^*` is long, that is for small :math:`\lambda`.
Stops when no unit helps: J(w*) (a fixed alpha: the gap) is at most ``tol``. Cost of a step: see :mod:`.subproblem`, and
the sweeps of the chains. Failure: chains that do not mix, whose samples lack what the machine has.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Status, Value, run
from beliefs.errors import ModelError
from beliefs.learning.boltzmann.infinite.averages import RowAverages
from beliefs.learning.boltzmann.infinite.expectations import ExactExpectations, Expectations
from beliefs.learning.boltzmann.infinite.measure import Measure
from beliefs.learning.boltzmann.infinite.objective import GrowingLikelihood
from beliefs.learning.boltzmann.infinite.sampled import SampledExpectations, Sampling
from beliefs.learning.boltzmann.infinite.steps import Position, appended, away, rescaled, towards, without_worst
from beliefs.learning.boltzmann.infinite.subproblem import Inner, NewUnit, best_unit
from beliefs.learning.optimizers.base import Optimizer, Outcome, Point, Stop, Watched
from beliefs.learning.optimizers.objective import Objective
from beliefs.learning.parallel import executor_of
from beliefs.typing import Floats

__all__ = ["COLUMNS", "FrankWolfe"]

COLUMNS = ("n_units", "subproblem", "gap", "gain", "step", "log_z", "free_energy")
"""What is recorded of each step besides the time."""

_MOST_ITERS = 200  # of L-BFGS in a subproblem
_ROWS = "rows"  # of the memory: what was recorded


@dataclass(frozen=True, kw_only=True, repr=False)
class FrankWolfe(Optimizer):
    """Grow a hidden layer.

    Parameters
    ----------
    expectations : str
        ``"sampled"`` or ``"exact"``.
    away_steps : bool
        Whether units may be removed again.
    hidden_bias : bool
        Whether hidden units have a bias, which is ridged like their weights.
    n_starts : int
        Starts of each subproblem.
    sampling : Sampling
        How much to sample.
    dtype : str
        Of matrix products and of the machine.
    """

    expectations: str = "sampled"
    away_steps: bool = False
    hidden_bias: bool = True
    n_starts: int = 2
    sampling: Sampling = Sampling()
    dtype: str = "float32"

    name: ClassVar[str] = "frank_wolfe"
    default_tol: ClassVar[float] = 1e-4
    default_max_iters: ClassVar[int] = 10**6
    takes_estimates: ClassVar[bool] = True
    tol_is_of: ClassVar[str] = "Frank-Wolfe gap"
    certifies: ClassVar[bool] = False

    def check(self, objective: Objective) -> None:
        """Refuse what is no machine that grows."""
        if not isinstance(objective.loss, GrowingLikelihood):
            raise ModelError(f"frank_wolfe maximises growing_likelihood alone, found {objective.loss.name}")

    def minimize(self, objective: Objective, watch: Watched, resumed: Point | None = None, seed: int = 0) -> Outcome:
        """Add units until none helps; a resumed run takes the very steps of one that was not interrupted."""
        growth = _Growth(self, objective, watch, resumed, seed)
        try:
            status = growth.run()
        except Stop as stop:
            return Outcome(stop.status, growth.point, stop.reason, growth.record)
        return Outcome(status, growth.point, growth.reason(status), growth.record)


class _Growth:
    """One run under way."""

    def __init__(
        self, options: FrankWolfe, objective: Objective, watch: Watched, resumed: Point | None, seed: int
    ) -> None:
        self.options, self.watch, self.seed, self.fresh = options, watch, seed, resumed is None
        self.loss: GrowingLikelihood = objective.loss
        rows: Any = objective.data
        executor = executor_of(self.loss.threads)
        exact = options.expectations == "exact"
        self.dtype = np.dtype(np.float64 if exact else options.dtype)
        self.data = RowAverages(rows, self.dtype, executor)
        start = self.loss.measure(objective.start)
        self.expectations: Expectations = (
            ExactExpectations(self.loss.n_visible, executor)
            if exact
            else SampledExpectations(start, self.loss.plain, options.sampling, self.data, seed)
        )
        self.residual = math.inf
        if resumed is None:
            self.point = self._point(start, start.n_units, math.inf, np.zeros((0, len(COLUMNS))))
        else:
            self.point = resumed
            self.expectations.resume(resumed.memory)

    # -- the loop ---------------------------------------------------------------------------------------------------
    def run(self) -> Status:
        """Let the driver run the loop."""
        if self.fresh:
            self.watch.iterate(self.point)
        limits = replace(self.watch.limits, max_iters=sys.maxsize, callbacks=())
        return run(self._step, lambda: Value(0.0), limits, fixed_point=False, ended=self._ended).status

    def _ended(self) -> Status | None:
        full = self.measure.n_units >= self.loss.max_units
        return Status.MAX_ITERS if full or self.point.iteration >= self.watch.limits.max_iters else None

    def reason(self, status: Status) -> str:
        """Say what a status means here."""
        if status is Status.CONVERGED:
            what = "a unit can gain" if self.loss.plain else "the Frank-Wolfe gap is"
            return f"no unit helps any more: {what} at most {max(self.residual, 0.0):.1e} (tol)"
        full = status is Status.MAX_ITERS and self.measure.n_units >= self.loss.max_units
        return f"max_units = {self.loss.max_units} was reached; more may help" if full else ""

    @property
    def measure(self) -> Measure:
        """The present measure."""
        return self.loss.measure(self.point.weights)

    # -- one step ---------------------------------------------------------------------------------------------------
    def _step(self) -> float:
        before, t = self.measure, self.point.iteration + 1
        inner = Inner(self.watch, self.expectations.tol, _MOST_ITERS)
        position = self._position(before)
        problem = NewUnit(self.data, position.law, position.ridge, self.options.hidden_bias)
        rng = np.random.default_rng([self.seed, t])
        atom, value = best_unit(problem, rng, self.options.n_starts, inner)
        atom = atom.astype(self.dtype).astype(np.float64)  # the machine's own numbers
        gap = position.gap(value)
        self.residual = value if self.loss.plain else gap
        away_from = self._away(position, gap)
        if away_from is None and self.residual <= self.watch.limits.tol:
            return max(self.residual, 0.0)
        after, step = away_from or self._towards(position, atom, value)
        after = self.expectations.settled(before, after, self.data, inner)
        if self.loss.alpha == "learned":
            scaled = rescaled(self._position(after), self.expectations.least_share)
            after = self.expectations.settled(after, scaled, self.data, inner)
        self._record(before, after, (value, gap, step), t)
        return sys.float_info.max  # no reason to stop; the driver takes inf for divergence

    def _position(self, measure: Measure) -> Position:
        return Position.of(measure, self.data, self.expectations.law(measure), self.loss.rho(measure))

    def _away(self, position: Position, gap: float) -> tuple[Measure, float] | None:
        """Return the measure after a step away from an atom, and the step, if that promises more than one towards."""
        if not (self.options.away_steps and position.measure.n_units):
            return None
        unit, lowest = position.worst()
        if position.mean - position.measure.alpha * lowest <= gap:  # E_q[g] - g(a) against max g - E_q[g]
            return None
        if not self.loss.plain:
            return away(position, unit, self.expectations.least_share)
        fewer = without_worst(position, unit)
        return None if fewer is None else (fewer, -1.0)

    def _towards(self, position: Position, atom: Floats, value: float) -> tuple[Measure, float]:
        """Return the measure after a step towards the best atom, and the step."""
        if self.loss.plain:
            return appended(position, atom), 1.0
        if position.values.max(initial=0.0) > value:  # an atom that is there is better than what the starts found
            atom = position.measure.atoms[:, int(np.argmax(position.values))]
        return towards(position, atom, self.expectations.least_share)

    @property
    def record(self) -> dict[str, Floats]:
        """What was recorded, by column."""
        return dict(zip(COLUMNS, self.point.memory[_ROWS].T.copy(), strict=True))

    # -- what is kept -----------------------------------------------------------------------------------------------
    def _record(self, before: Measure, after: Measure, found: tuple[float, float, float], t: int) -> None:
        gain = self._log_likelihood(after) - self._log_likelihood(before)
        value, gap, step = found
        row = [after.n_units, value, gap, gain, step, after.log_z, self._free_energy(after)]
        if not np.isfinite(row).all():
            raise Stop(Status.DIVERGED, f"step {t} has left the range of numbers; use a larger l2 or a smaller rate")
        self.point = self._point(after, t, gap, np.concatenate([self.point.memory[_ROWS], [row]]))
        self.watch.iterate(self.point)

    def _free_energy(self, measure: Measure) -> float:
        """Return the mean free energy of the data."""
        return -float(measure.bias @ self.data.mean) - float(measure.counts @ self.data.units(measure.atoms)[0])

    def _log_likelihood(self, measure: Measure) -> float:
        return -self._free_energy(measure) - measure.log_z

    def _point(self, measure: Measure, iteration: int, gap: float, rows: np.ndarray) -> Point:
        loss = self.loss.penalty(measure) - self._log_likelihood(measure)
        memory = {_ROWS: rows} | self.expectations.memory()
        weights = measure.flat(self.loss.max_units)
        return Point(iteration, iteration, weights, loss, max(self.residual, 0.0), gap=gap, memory=memory)
