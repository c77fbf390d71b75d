r"""Convex generalised belief propagation: entropies that only count positively, and a certified bound from the dual.

With counting numbers :math:`c_\gamma \ge 0` that cover every variable, :math:`\sum_{\gamma \ni i} c_\gamma \ge 1`, the
entropies of true marginals add up to at least the true entropy (Shearer's inequality), so that

.. math:: \log Z \;\le\; \max_b \sum_\gamma \langle \theta_\gamma, b_\gamma \rangle + c_\gamma H(b_\gamma)
   \;\le\; \text{the dual at any multipliers},

over beliefs of outer regions that agree inside. Block descent (:mod:`beliefs.kernels.regions.concave`) never raises
the dual: the value is an upper bound at every iterate, widened by its own rounding. The optimum is unique, and the
marginals are its gradient in the potentials. ``counting="positive"`` takes a region graph's own positive counting
numbers and drops the negative ones, whose regions still must agree [gelfand2014]. They cover a variable as often as
there are outer regions around it; ``counting="covering"`` does so about once, by a linear program, and is much tighter.

Given numbers may be negative where a linear program shows the entropy to be concave
(:mod:`beliefs.inference.clusters.concave_entropy`). The one optimum is then found by the steps of ``double_loop``, and
its value is an estimate.

Cost: as a sweep of ``gbp``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Value
from beliefs.errors import ModelError
from beliefs.inference.base import Bound, Guarantee, Marginals, Method, Problem, Task, check_possible, claimed
from beliefs.inference.clusters.concave_entropy import covering_numbers, is_concave
from beliefs.inference.clusters.region_graph import RegionGraph, counting_array
from beliefs.inference.regions.choice import check_regions, chosen_plan
from beliefs.inference.regions.concave import ConcaveState, ConcaveWarmStart, check_outer
from beliefs.inference.regions.double_loop import DoubleLoopState
from beliefs.inference.regions.plan import RegionPlan
from beliefs.inference.rounding import widened
from beliefs.options import check_option
from beliefs.typing import Floats

__all__ = ["ConvexGBP", "ConvexState"]

_CLOSE = 1e-12
_WORDS = ("positive", "covering")


class ConvexState(ConcaveState):
    """Multipliers, the least certified dual value met, and what it is worth."""

    covers: bool = True
    best: float = math.inf
    point: float = math.inf
    rounding: float = 0.0

    def look(self) -> None:
        """Take the dual at the present multipliers."""
        value, rounding = self.dual()
        self.point = min(self.point, value)
        if widened(value, rounding, Bound.UPPER) < self.best:
            self.best, self.rounding = widened(value, rounding, Bound.UPPER), rounding


@dataclass(frozen=True, kw_only=True, repr=False)
class ConvexGBP(Method):
    """Convexified generalised belief propagation.

    Parameters
    ----------
    regions : str or RegionGraph
        As in :class:`GBP`.
    counting : {"positive", "covering"} or array_like (n_regions,)
        The counting numbers. ``"positive"``: those of the regions where they are positive, else 0. ``"covering"``: as
        little as covers every variable once, by a linear program; much tighter. Or given ones, positive for outer
        regions. They bound log Z if none is negative and they cover every variable; else the value is an estimate.
        Negative ones must be outweighed by regions around, so that there is one optimum.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.datasets.make_ising_grid(4, seed=0)
    >>> result = bl.infer(g, "convex_gbp")
    >>> result.bound.name, bool(result.log_z >= bl.infer(g).log_z)
    ('UPPER', True)
    """

    regions: str | RegionGraph = "auto"
    counting: Any = "positive"

    name: ClassVar[str] = "convex_gbp"
    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER,)
    guarantee: ClassVar[Guarantee] = Guarantee(
        Bound.UPPER, "(estimate, for counting numbers that do not cover)", also=(Bound.ESTIMATE,)
    )
    cost: ClassVar[str] = "cells of regions, length x K^3 for loops, a sweep"
    reference: ClassVar[str] = "heskes2006, gelfand2014"
    iterative: ClassVar[bool] = True
    value_is_free: ClassVar[bool] = True
    residual_of: ClassVar[str] = "bound"
    warm_startable: ClassVar[bool] = True
    price: ClassVar[float] = 150.0

    def __post_init__(self) -> None:
        check_regions(self.regions)
        given = isinstance(self.counting, (list, tuple, np.ndarray))
        word = isinstance(self.counting, str) and self.counting in _WORDS
        check_option(given or word, "counting", f"one of {', '.join(_WORDS)} or a list of numbers", self.counting)

    def init(self, problem: Problem, warm: ConcaveWarmStart | None = None) -> ConvexState | DoubleLoopState:
        """Choose and lay out the regions, and start from no multipliers or from an earlier result's."""
        check_possible(problem.graph)
        plan = chosen_plan(problem, self.regions, self.name, dual=True)
        counting = self._counting(problem, plan)
        if (counting < 0).any():
            return DoubleLoopState(problem, plan, counting, warm)
        state = ConvexState(problem, plan, counting, warm)
        state.aim(np.zeros(plan.n_cells))
        covered = np.zeros(problem.graph.n_vars)
        for scope, c in zip(plan.regions.scopes, counting.tolist(), strict=True):
            covered[list(scope)] += c
        state.covers = bool((covered[~problem.graph.layout.observed] >= 1.0 - _CLOSE).all())
        state.look()
        return state

    def _counting(self, problem: Problem, plan: RegionPlan) -> Floats:
        """Return the counting numbers, checked."""
        regions = plan.regions
        if isinstance(self.counting, str) and self.counting == "covering":
            layout = problem.graph.layout
            key = (covering_numbers, id(regions))
            return layout.keep(key, lambda: covering_numbers(layout, regions.scopes, regions.n_outer))
        if isinstance(self.counting, str):
            check_outer(problem, plan, regions.counting, self.name)
            return np.maximum(regions.counting, 0.0)
        given = counting_array(self.counting, regions.n_regions)
        check_outer(problem, plan, given, self.name)
        if not is_concave(given, regions.edges):
            raise ModelError(
                "convex_gbp needs counting numbers with one optimum: what is negative must be outweighed by regions "
                "around it, and a linear program finds that it is not; use double_loop"
            )
        return given

    def step(self, state: ConvexState | DoubleLoopState) -> float:
        """Descend once; the residual is the relative change of the bound, or how far inner beliefs still move."""
        if isinstance(state, DoubleLoopState):
            return state.climb()
        before = state.point
        moved = state.sweep()
        state.look()
        fell = abs(before - state.point) / max(1.0, abs(state.point))
        return max(fell, min(moved, 1.0) ** 2)  # the dual is off by the square of what beliefs are off

    def value(self, state: ConvexState | DoubleLoopState) -> Value:
        """Return the least bound so far; with negative counting numbers, the value of the beliefs."""
        if isinstance(state, DoubleLoopState):
            return Value(state.latest())
        if not state.covers:
            return Value(state.point)
        return Value(state.best, -math.inf, state.best, state.rounding)

    def finish(self, state: ConvexState | DoubleLoopState) -> Marginals:
        """Return the bound, and the beliefs at its multipliers."""
        value = self.value(state)
        state.rebuild()
        mu_var, (tables, joint) = state.mu_var(), state.tables_and_joints()
        return Marginals(value.log_z, claimed(value), mu_var, tables, value.lower, value.upper, joint=joint)

    def warm_state(self, state: ConvexState | DoubleLoopState) -> ConcaveWarmStart:
        """Return multipliers and inner beliefs."""
        return state.concave_warm_start()
