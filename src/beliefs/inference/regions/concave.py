r"""Beliefs of regions by dual block descent: the inner loop of the double loop, and the convex method itself.

Outer regions (with weights :math:`w_\gamma = c_\gamma > 0`) agree with what is inside them through multipliers; see
:mod:`beliefs.kernels.regions.concave`. ``weight`` of inner regions is what remains of their counting numbers once
negative ones are put aside, and ``target`` what stands in their place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beliefs.deadline import check_time
from beliefs.errors import ModelError
from beliefs.inference.base import Problem, zero_probability
from beliefs.inference.regions.plan import RegionPlan
from beliefs.inference.regions.state import RegionState, pieces, region_work
from beliefs.inference.rounding import UNIT, magnitude, pairwise, rounding_error
from beliefs.kernels.regions.concave import Agreements, descend, with_multipliers
from beliefs.model.layout import frozen_ints, offsets
from beliefs.model.scopes import within
from beliefs.typing import Floats, Ints

__all__ = ["A_CONCAVE_CELL", "ConcaveState", "ConcaveWarmStart", "check_outer"]

A_CONCAVE_CELL = 130.0  # bytes of a cell of all tables, with multipliers, targets and a warm start, measured


@dataclass(frozen=True, eq=False)
class ConcaveWarmStart:
    """What a warm start needs: multipliers and inner beliefs, and of which regions."""

    scopes: tuple[tuple[int, ...], ...]
    multipliers: Floats
    beliefs: Floats


class ConcaveState(RegionState):
    """Log tables divided by the weights of outer regions, multipliers, and beliefs of inner regions."""

    def __init__(
        self, problem: Problem, plan: RegionPlan, counting: Floats, warm: ConcaveWarmStart | None = None
    ) -> None:
        super().__init__(problem, plan)
        self.counting, self.weight, self.begun = counting, np.maximum(counting, 0.0), False
        self.pairs, self.cell_of = agreements(plan)
        work = np.append(0.0, np.cumsum(region_work(plan)[self.pairs.region]))
        self.parts = pieces(np.diff(work[self.pairs.ptr]))
        """Inner regions between two looks at the clock."""
        self.multipliers = np.zeros(self.cell_of.size)
        inner = np.diff(plan.tables.cell_ptr)[plan.tables.table_ptr[self.pairs.inner]]
        self.room = np.zeros(plan.n_room + int((inner * (np.diff(self.pairs.ptr) + 3)).max(initial=0)))
        self.outer = plan.region_of_cell < plan.regions.n_outer
        self.target = np.zeros(plan.n_cells)
        """What stands for the potentials of inner regions."""
        self.inner_zero = ~self.outer & (self.logs == -np.inf)
        self.potentials[~self.outer] = 0.0
        self.refresh()  # beliefs of inner regions, uniform over what is possible
        if warm is not None and warm.scopes == plan.regions.scopes:
            self.multipliers = warm.multipliers.copy()
            self.begin_at(warm.beliefs)
        self.rebuild()

    def begin_at(self, beliefs: Floats) -> None:
        """Take log beliefs of inner regions as they are, where they are possible."""
        known = ~self.outer & ~self.inner_zero & (beliefs > -np.inf)
        self.beliefs[known] = beliefs[known]

    def concave_warm_start(self) -> ConcaveWarmStart:
        """Return multipliers and inner beliefs."""
        return ConcaveWarmStart(self.plan.regions.scopes, self.multipliers.copy(), self.beliefs.copy())

    def rebuild(self) -> None:
        """Make the tables of outer regions anew from potentials and multipliers, so that nothing drifts."""
        cells = self.outer
        self.logs[cells] = self.potentials[cells] / self.weight[self.plan.region_of_cell[cells]]
        with_multipliers(self.plan.tables, self.pairs, self.weight, self.multipliers, self.logs)
        self.changed[: self.plan.regions.n_outer] = 1

    def aim(self, target: Floats) -> None:
        """Put a function in the place of the potentials of inner regions; impossible states stay so."""
        self.target = np.where(self.inner_zero, -np.inf, target)

    def sweep(self) -> float:
        """Descend once in the multipliers of every inner region; return the largest change of a belief."""
        arrays = (self.room, self.target, self.multipliers, self.logs, self.beliefs, self.log_norm)
        change = 0.0
        for begin, end in self.parts:
            check_time()
            pairs = self.pairs._replace(inner=self.pairs.inner[begin:end], ptr=self.pairs.ptr[begin : end + 1])
            found = descend(self.plan.tables, pairs, self.weight, self.changed, *arrays)
            if found < 0:
                raise zero_probability(self.problem.graph)
            change = max(change, float(found))
        return change

    def refresh(self) -> None:
        """Bring beliefs of outer regions up to date; those of inner regions are set by :meth:`sweep`."""
        if self.begun:
            self.changed[self.plan.regions.n_outer :] = 0
        super().refresh()
        self.begun = True

    # -- values -------------------------------------------------------------------------------------------------------
    def sums(self) -> Floats:
        """Return the sum of the multipliers of each inner cell, over the outer regions around it."""
        total: Floats = np.bincount(self.cell_of, self.multipliers, self.plan.n_cells).astype(np.float64)
        return total

    @property
    def inner_beliefs(self) -> Floats:
        """The beliefs of inner regions as probabilities, 0 in the cells of outer ones."""
        return np.where(self.outer, 0.0, np.exp(np.where(self.outer, -np.inf, self.beliefs)))

    def inner_entropies(self) -> Floats:
        """Return the entropy of each region's inner beliefs, 0 for outer ones."""
        p = self.inner_beliefs
        terms = np.where(p > 0, -p * np.where(p > 0, self.beliefs, 0.0), 0.0)
        return np.bincount(self.plan.region_of_cell, terms, self.plan.regions.n_regions).astype(np.float64)

    def primal(self) -> float:
        """Return the Kikuchi value of the present beliefs, up to how far they are from agreeing."""
        self.refresh()
        n = self.plan.regions.n_outer
        p = self.inner_beliefs
        coupled = float((p * np.where(p > 0, self.sums(), 0.0)).sum())
        entropies = float(self.counting[n:] @ self.inner_entropies()[n:])
        return float(self.weight[:n] @ self.log_norm[:n]) - coupled + entropies + self.constant

    def dual(self) -> tuple[float, float]:
        """Return the dual value, an upper bound on the maximum at any multipliers, and how wrong it may be."""
        self.rebuild()
        self.refresh()
        n = self.plan.regions.n_outer
        sums = self.sums()
        value = float(self.weight[:n] @ self.log_norm[:n]) + self.constant
        left = np.where(self.inner_zero, -np.inf, self.target - sums)
        starts = self.plan.tables.cell_ptr[self.plan.tables.table_ptr[n:-1]]
        if starts.size:
            cells, c = left[starts[0] :], self.weight[n:]
            top = np.maximum.reduceat(cells, starts - starts[0])
            hot = np.where(c > 0, c, 1.0)
            spread = np.repeat(np.stack([top, hot]), np.diff(np.append(starts, left.size)), axis=1)
            summed = np.add.reduceat(np.exp((cells - spread[0]) / spread[1]), starts - starts[0])
            value += float(top.sum() + c @ np.log(summed))
        return value, self._rounding(sums)

    def _rounding(self, sums: Floats) -> float:
        """Return how wrong the dual may be: every term is a log-sum of sums of potentials and multipliers."""
        tables = self.plan.tables
        sizes = np.diff(tables.cell_ptr)
        widest = float(sizes.max(initial=1)) + 8.0
        finite = np.where(self.logs > -np.inf, np.abs(self.logs), 0.0)
        weight = np.where(self.outer, self.weight[self.plan.region_of_cell], 1.0)
        largest = _largest(weight * finite, tables.cell_ptr) + _largest(np.abs(sums), tables.cell_ptr)
        shares = float(np.abs(self.multipliers).max(initial=0.0)) * float(self.pairs.region.size)
        of_factors = magnitude(self.problem.graph)  # added into tables they may cancel, their roundings do not
        total = float(largest.sum()) + shares + of_factors
        longest = float(np.diff(tables.table_ptr).max(initial=1))
        together = float(np.bincount(self.plan.homes.table).max(initial=0)) + pairwise(self.problem.graph.n_factors)
        terms = sizes.size + widest + together + longest * widest
        own = float(self.weight.sum()) * UNIT * longest * (3.0 * widest + 10.0) * 4.0
        return rounding_error(total, terms + float(self.pairs.region.size)) + own


def _largest(values: Floats, ptr: Ints) -> Floats:
    return np.maximum.reduceat(values, ptr[:-1]) if values.size else np.zeros(0)


def agreements(plan: RegionPlan) -> tuple[Agreements, Ints]:
    """Return the inner regions with the outer ones around each, and the inner cell that each multiplier belongs to."""
    edges, n = plan.edges, plan.regions.n_outer
    inner = np.arange(n, plan.regions.n_regions)
    first = plan.tables.table_ptr[inner]
    begins, sizes = plan.tables.cell_ptr[first], np.diff(plan.tables.cell_ptr)[first]
    owner = np.repeat(np.arange(plan.regions.n_regions), np.diff(edges.around_ptr)) - n
    at = np.flatnonzero(edges.around_region < n)  # inner regions alone have others around them
    owner = owner[at]
    ptr, start = offsets(np.bincount(owner, minlength=inner.size)), offsets(sizes[owner])[:-1]
    arrays = (inner, ptr, edges.around_region[at], edges.around_table[at], edges.around_map[at], start)
    return Agreements(*(frozen_ints(a, "agreements") for a in arrays)), within(begins[owner], sizes[owner])


def check_outer(problem: Problem, plan: RegionPlan, counting: Floats, method: str) -> None:
    """Refuse counting numbers by which outer regions do not count."""
    regions = plan.regions
    bad = np.flatnonzero(counting[: regions.n_outer] <= 0)
    if bad.size:
        names = ", ".join(problem.graph.naming.name(v) for v in regions.scopes[int(bad[0])][:8])
        found = f"{counting[bad[0]]:g} for ({names})"
        raise ModelError(f"{method} needs positive counting numbers of regions without parents, found {found}")
