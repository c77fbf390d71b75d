r"""The double loop: the Kikuchi value climbs by concave maximisations, so it converges always [heskes2006].

Entropies with negative counting numbers are convex in the beliefs. Each step replaces them by their tangent at the
present beliefs,

.. math:: \theta_\beta \;\leftarrow\; |c_\beta| \log b_\beta \qquad \text{where } c_\beta < 0,

and maximises what is then concave by dual block descent (:mod:`beliefs.kernels.regions.concave`), to a tolerance that
follows the residual: beliefs must keep still, and regions agree, since saturated beliefs keep still long before. The
Kikuchi value never falls, up to that tolerance. Fixed points are those of ``gbp``; which of several is found depends on
the start, uniform beliefs. The value is an estimate; a run that ends before the tolerance was met once has that of
beliefs that do not agree yet.

Cost: some tens of sweeps a step, each like one of ``gbp``. A step that does not meet its tolerance goes on in the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from beliefs.driver import Value
from beliefs.inference.base import Bound, Guarantee, Marginals, Method, Problem, Task, check_possible
from beliefs.inference.clusters.region_graph import RegionGraph
from beliefs.inference.regions.choice import check_regions, chosen_plan
from beliefs.inference.regions.concave import ConcaveState, ConcaveWarmStart, check_outer
from beliefs.inference.regions.plan import RegionPlan
from beliefs.inference.regions.state import impossible_beliefs
from beliefs.inference.rounding import UNIT, magnitude
from beliefs.typing import Floats

__all__ = ["DoubleLoop", "DoubleLoopState"]

_SWEEPS = 200  # of the inner loop, at most, in a step
_FIRST = 4000  # the same in the first step: until one has met its tolerance there is no value
_TWO_LOGS = 2.0  # of which each may be off by a rounding: no belief is told apart more closely
_CLOSER = 1e-3  # the inner loop's tolerance, in residuals of the last step
_BELOW = 1000.0  # nats: a belief that is smaller adds nothing to a sum of plain numbers
_LEAST, _MOST, _WARM = 1e-13, 1e-6, 1e-11  # its limits, but for rounding, and where an earlier run has left off


class DoubleLoopState(ConcaveState):
    """Beliefs, what counts negatively, and how closely the inner loop was solved."""

    def __init__(
        self, problem: Problem, plan: RegionPlan, counting: Floats, warm: ConcaveWarmStart | None = None
    ) -> None:
        super().__init__(problem, plan, counting, warm)
        self.debt = np.maximum(-counting, 0.0)[plan.region_of_cell[self.n_outer_cells :]]
        self.inner_tol, self.met = (_MOST if warm is None else _WARM), True
        self.near = math.sqrt(self.inner_tol)
        self.least_log = -_BELOW - 2.0 * magnitude(problem.graph)
        self.recorded, self.patience = -math.inf, _FIRST
        self.begun_at = self.inner_beliefs

    def tangent(self) -> Floats:
        """Return what stands for the entropies that count negatively, at the present beliefs.

        A state that zeros elsewhere forbid has a log that doubles from step to step, until rounding is all there is;
        what no possible state has stands for all that is below.
        """
        self.to_logs()
        found, logs = np.zeros(self.plan.n_cells), self.beliefs[self.n_outer_cells :]
        found[self.n_outer_cells :] = self.debt * np.where(logs > -np.inf, np.maximum(logs, self.least_log), 0.0)
        return found

    def climb(self) -> float:
        """Make one step; return the largest change of an inner belief since the tangent, or how far regions are apart.

        Where the step does not meet its tolerance the residual is at least the one that would have asked for no more.
        What the rounding of two logs may make of one belief is no change.
        """
        if self.met:
            self.begun_at = self.inner_beliefs
            self.aim(self.tangent())
        self.rebuild()
        largest = float(np.abs(self.logs).max(initial=0.0, where=self.logs > -np.inf))
        moved = self.settle()
        change = float(np.abs(self.inner_beliefs - self.begun_at).max(initial=0.0))
        residual = max(change, self.apart)
        if not self.met:  # no closer tolerance before this one is met: a maximum at zero is approached ever more slowly
            return max(residual, moved / _CLOSER)
        rounding = UNIT * largest
        least = max(_LEAST, rounding)
        self.inner_tol = max(min(_CLOSER * change, self.inner_tol), least)
        # where a belief falls to 0, regions come to agree as slowly as the root of what a sweep still changes
        self.near = min(math.sqrt(self.inner_tol), max(0.5 * residual, least))
        self.recorded = self.primal()
        return residual if residual > _TWO_LOGS * rounding else 0.0

    def settle(self) -> float:
        """Descend until beliefs keep still and regions agree, and note whether they do; return the last change."""
        moved, self.met = math.inf, False
        for _ in range(self.patience):
            moved = self.sweep()
            self.met = moved <= self.inner_tol and self.apart <= self.near
            if self.met:
                break
        self.patience = _SWEEPS
        return moved

    def turning(self) -> bool:
        """As of messages; or the step is not solved yet."""
        return not self.met or super().turning()

    def latest(self) -> float:
        """Return the Kikuchi value when the inner loop last met its tolerance; before, of beliefs that do not agree."""
        return self.primal() if self.recorded == -math.inf else self.recorded


@dataclass(frozen=True, kw_only=True, repr=False)
class DoubleLoop(Method):
    """Convergent maximisation of the Kikuchi value on a region graph.

    Parameters
    ----------
    regions : str or RegionGraph
        As in :class:`GBP`.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.datasets.make_ising_grid(4, seed=0)
    >>> result = bl.infer(g, "double_loop", trace_every=1)
    >>> bool((result.trace.log_z[1:] >= result.trace.log_z[:-1] - 1e-6).all())
    True
    """

    regions: str | RegionGraph = "auto"

    name: ClassVar[str] = "double_loop"
    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER,)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.ESTIMATE, "converges always")
    cost: ClassVar[str] = "tens of sweeps of gbp, a step"
    reference: ClassVar[str] = "heskes2006"
    iterative: ClassVar[bool] = True
    value_is_free: ClassVar[bool] = False
    fixed_point: ClassVar[bool] = True
    warm_startable: ClassVar[bool] = True
    default_tol: ClassVar[float] = 1e-7
    price: ClassVar[float] = 3000.0

    def __post_init__(self) -> None:
        check_regions(self.regions)

    def init(self, problem: Problem, warm: ConcaveWarmStart | None = None) -> DoubleLoopState:
        """Choose and lay out the regions, and start from uniform beliefs or from an earlier result's."""
        check_possible(problem.graph)
        plan = chosen_plan(problem, self.regions, self.name, dual=True)
        counting = plan.regions.counting
        check_outer(problem, plan, counting, self.name)
        return DoubleLoopState(problem, plan, counting, warm)

    def step(self, state: DoubleLoopState) -> float:
        """Take the tangent, and maximise; the residual is the largest change of a belief."""
        return state.climb()

    def verify(self, state: DoubleLoopState) -> float:
        """Refuse beliefs that no model can have, and go on where saturated ones may yet turn over."""
        if impossible_beliefs(state.problem.graph, state.mu_var()).any():
            return math.inf
        return float(state.turning())

    def may_oscillate(self, state: DoubleLoopState) -> bool:
        """Return False: beliefs may leave a saddle slowly, but the value rises all the while."""
        return False

    def value(self, state: DoubleLoopState) -> Value:
        """Return the Kikuchi value when the inner loop last met its tolerance."""
        return Value(state.latest())

    def finish(self, state: DoubleLoopState) -> Marginals:
        """Return beliefs and their value."""
        value = self.value(state)
        mu_var, (tables, joint) = state.mu_var(), state.tables_and_joints()
        return Marginals(value.log_z, Bound.ESTIMATE, mu_var, tables, value.lower, value.upper, joint=joint)

    def warm_state(self, state: DoubleLoopState) -> ConcaveWarmStart:
        """Return multipliers and inner beliefs."""
        return state.concave_warm_start()
