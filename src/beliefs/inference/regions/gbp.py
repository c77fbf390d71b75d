r"""Generalised belief propagation: messages from parents to children on any region graph [yedidia2005].

The question is the Kikuchi approximation

.. math:: \log Z \approx \sum_\gamma \langle b_\gamma, \theta_\gamma \rangle + \sum_\gamma c_\gamma H(b_\gamma)

at beliefs that agree where a parent covers a child; updates are in :mod:`beliefs.kernels.regions.parent_to_child`.
A loop keeps one table an edge, and its messages cost :math:`|C| K^3` for all its children. The value is
:math:`\sum_\gamma c_\gamma \log Z_\gamma` of the tables as they are: at a fixed point the Kikuchi value, near one with
an error of second order, and its gradient at given messages is the beliefs.

No order of messages serves all regions. Depth first settles on stars and mostly on faces, where sweeps level by level
are unstable on stars from six variables on [gelfand2014]. ``schedule="auto"`` begins depth first, goes on two-way when
the residual stalls, and from there with the double loop, which converges always; ``reason`` says which settled.

An unstable run may look settled: beliefs collapse to 0 and 1 and agree. A marginal below
:math:`e^{-\sum_f (\max \theta_f - \min \theta_f)} / K`, over the factors of its variable, is impossible; such a run
ends DIVERGED. The value is an estimate, exact on forests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from beliefs.driver import Value
from beliefs.errors import ModelError
from beliefs.inference.base import Bound, Guarantee, Marginals, Method, Problem, Task, check_possible, claimed
from beliefs.inference.clusters.region_graph import RegionGraph
from beliefs.inference.regions.choice import SCHEDULES, check_regions, chosen_plan, message_order
from beliefs.inference.regions.concave import ConcaveWarmStart
from beliefs.inference.regions.double_loop import DoubleLoopState
from beliefs.inference.regions.plan import RegionPlan
from beliefs.inference.regions.state import RegionState, RegionWarmStart, impossible_beliefs
from beliefs.options import check_option, is_number, is_word

__all__ = ["GBP", "GBPState", "GBPWarmStart"]

_PATIENCE = 40  # sweeps in which a residual must halve, or the next schedule has its turn
_NEXT = {"depth_first": "two_way", "two_way": "double_loop"}


@dataclass(frozen=True, eq=False)
class GBPWarmStart:
    """What a warm start needs: what messages have changed, and where the double loop was if it came last."""

    messages: RegionWarmStart
    concave: ConcaveWarmStart | None


class GBPState:
    """Beliefs of regions, the schedule at work, and how its residual has done."""

    def __init__(self, problem: Problem, plan: RegionPlan, warm: GBPWarmStart | None) -> None:
        alike = warm is not None and warm.messages.scopes == plan.regions.scopes
        self.messages = RegionState(problem, plan, warm.messages.moved if warm is not None and alike else None)
        self.double: DoubleLoopState | None = None
        self.residuals: list[float] = []
        self.schedule, self.n_steps, self.impossible = "", 0, False

    @property
    def regions(self) -> RegionState:
        """The beliefs as they are."""
        return self.messages if self.double is None else self.double

    def use(self, schedule: str, warm: ConcaveWarmStart | None = None) -> None:
        """Go on with another schedule, or with the double loop from the present beliefs."""
        self.schedule, self.residuals = schedule, []
        if schedule != "double_loop":
            self.order = message_order(self.messages.plan.regions, schedule)
            return
        plan = self.messages.plan
        self.double = DoubleLoopState(self.messages.problem, plan, plan.regions.counting, warm)
        if warm is None:
            self.messages.refresh()
            self.double.begin_at(self.messages.beliefs)

    @property
    def stalls(self) -> bool:
        """Whether the residual has not halved for a while."""
        late = self.residuals[-_PATIENCE:]
        early = self.residuals[-2 * _PATIENCE : -_PATIENCE]
        return len(early) == _PATIENCE and min(late) > 0.5 * min(early)


@dataclass(frozen=True, kw_only=True, repr=False)
class GBP(Method):
    """Generalised belief propagation on a region graph.

    Parameters
    ----------
    regions : str or RegionGraph
        ``"auto"``: loops of a partially tree-robust cycle basis for pairwise models, else the factors and their
        intersections. ``"loops"``, ``"cvm"``: one of these. ``"bethe"``: factors and variables. ``"faces"`` and
        ``"star"``: loops around the faces of a planar graph, or around the variable of largest degree.
    damping : float in [0, 1)
        Share of the old message in the new one, in logs.
    schedule : {"auto", "depth_first", "two_way", "levels"}
        The order of messages.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.datasets.make_ising_grid(6, seed=0)
    >>> truth = bl.infer(g).log_z
    >>> abs(bl.infer(g, "gbp").log_z - truth) < abs(bl.infer(g, "bp").log_z - truth)
    True
    """

    regions: str | RegionGraph = "auto"
    damping: float = 0.5
    schedule: str = "auto"

    name: ClassVar[str] = "gbp"
    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER,)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.ESTIMATE)
    cost: ClassVar[str] = "cells of regions, length x K^3 for loops, a sweep"
    reference: ClassVar[str] = "yedidia2005, welling2005, gelfand2014"
    iterative: ClassVar[bool] = True
    value_is_free: ClassVar[bool] = False
    fixed_point: ClassVar[bool] = True
    warm_startable: ClassVar[bool] = True
    price: ClassVar[float] = 100.0

    def __post_init__(self) -> None:
        check_regions(self.regions)
        check_option(is_number(self.damping) and 0 <= self.damping < 1, "damping", "in [0, 1)", self.damping)
        check_option(is_word(self.schedule, SCHEDULES), "schedule", f"one of {', '.join(SCHEDULES)}", self.schedule)

    def init(self, problem: Problem, warm: GBPWarmStart | None = None) -> GBPState:
        """Choose and lay out the regions, and start from the factors alone or from an earlier result's messages."""
        check_possible(problem.graph)
        plan = chosen_plan(problem, self.regions, self.name)
        _check_counting(problem, plan)
        state = GBPState(problem, plan, warm)
        state.use("depth_first" if self.schedule == "auto" else self.schedule)
        if self.schedule == "auto" and warm is not None and warm.concave is not None:
            state.use("double_loop", warm.concave)
        return state

    def step(self, state: GBPState) -> float:
        """Make one sweep; the residual is how far parents and children were apart, or how far beliefs have moved."""
        if state.double is not None:
            residual = state.double.climb()
        else:
            residual = state.messages.send(state.order, 1.0 - self.damping)
        state.n_steps += 1
        state.residuals.append(residual)
        if self.schedule == "auto" and state.schedule in _NEXT and (residual == math.inf or state.stalls):
            state.use(_NEXT[state.schedule])
            return min(residual, 1.0)
        return residual

    def verify(self, state: GBPState) -> float:
        """Refuse beliefs that no model can have, and go on where saturated ones may yet turn over."""
        state.impossible = bool(impossible_beliefs(state.regions.problem.graph, state.regions.mu_var()).any())
        return math.inf if state.impossible else float(state.regions.turning())

    def may_oscillate(self, state: GBPState) -> bool:
        """Return whether messages had the last of the work: the double loop cannot."""
        return state.double is None

    def value(self, state: GBPState) -> Value:
        """Return the Kikuchi value."""
        return Value(state.messages.kikuchi() if state.double is None else state.double.latest())

    def finish(self, state: GBPState) -> Marginals:
        """Return beliefs and their value."""
        value, regions = self.value(state), state.regions
        mu_var, (tables, joint) = regions.mu_var(), regions.tables_and_joints()
        return Marginals(value.log_z, claimed(value), mu_var, tables, value.lower, value.upper, joint=joint)

    def warm_state(self, state: GBPState) -> GBPWarmStart:
        """Return what messages have changed, and where the double loop is."""
        concave = None if state.double is None else state.double.concave_warm_start()
        return GBPWarmStart(state.messages.warm_start(), concave)

    def ran(self, state: GBPState) -> tuple[Method, str]:
        """Say which schedule came last, and whether it ended at impossible beliefs."""
        found = f"{state.schedule} had the last of {state.n_steps} sweeps on {state.regions.plan.regions!r}"
        if state.impossible:
            found += (
                "; its beliefs are smaller than the factors of a variable allow, so they are no answer: use double_loop"
            )
        return self, found


def _check_counting(problem: Problem, plan: RegionPlan) -> None:
    """Refuse counting numbers that messages from parents to children do not belong to."""
    if plan.valid:
        return
    regions = plan.regions
    sums = plan.sums_above
    r = int(np.argmax(np.abs(sums - 1.0) > 1e-9))
    names = ", ".join(problem.graph.naming.name(v) for v in regions.scopes[r][:8])
    raise ModelError(
        f"gbp needs counting numbers that add up to 1 over a region and all above it, found {sums[r]:g} for ({names}); "
        "use double_loop or convex_gbp"
    )
