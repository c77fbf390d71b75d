"""A region graph laid out for kernels: tables, maps between them, messages, and where factors and variables are found.

A region has one table over its variables; a loop has one an edge. A *map* leads from the cells of a wide table to
those of a narrow one, and tables alike in shape share it. Every factor has its home in the first outer region that
covers it, and every variable is read off the smallest table with it. The plan belongs to the layout: models with other
values share it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beliefs.deadline import check_time
from beliefs.inference.base import Problem
from beliefs.inference.budget import over_budget
from beliefs.inference.clusters.region_graph import RegionGraph
from beliefs.inference.clusters.region_sets import Region
from beliefs.inference.regions.builder import A_CELL, PlanBuilder, a_run, narrow_cells
from beliefs.kernels.regions.structure import FactorHomes, Messages, RegionTables
from beliefs.typing import Floats, Ints

__all__ = ["RegionPlan", "check_plan", "region_plan"]

_MOST_CELLS = 2.0**40
_TRIFLE = 1e6  # bytes that are always there
_LITTLE = 2.0**26  # bytes that predicting may take


@dataclass(frozen=True, eq=False)
class RegionPlan:
    """The arrays of a region graph; made by :func:`region_plan`.

    Attributes
    ----------
    regions : RegionGraph
        What is laid out.
    tables, edges : RegionTables, Messages
        As kernels take them.
    homes : FactorHomes
        The table of each factor.
    state_cell, state_to : ndarray
        Cells of the smallest table of each variable, and the state in ``mu_var`` that each belongs to.
    width : ndarray
        The largest cardinality of each loop, 0 of other regions.
    n_room : int
        Numbers that kernels need to work.
    held_bytes, making_bytes : float
        Memory of the plan, and what making it took besides.
    """

    regions: RegionGraph
    tables: RegionTables
    edges: Messages
    homes: FactorHomes
    state_cell: Ints
    state_to: Ints
    width: Ints
    n_room: int
    held_bytes: float
    making_bytes: float

    @property
    def n_cells(self) -> int:
        """Cells of all tables."""
        return int(self.tables.cell_ptr[-1])

    def n_bytes(self, dual: bool = False) -> float:
        """Memory of the plan and of one run on it, messages or dual block descent."""
        run = a_run(self.n_cells, dual, self.width, self.regions.flat.size)
        return self.held_bytes + max(self.making_bytes, run)

    @cached_property
    def region_of_cell(self) -> Ints:
        """The region of each cell."""
        table_region = np.repeat(np.arange(self.regions.n_regions), np.diff(self.tables.table_ptr))
        return np.repeat(table_region, np.diff(self.tables.cell_ptr))

    @cached_property
    def sums_above(self) -> Floats:
        """The counting numbers of each region and all above it, added up."""
        ptr, region = self.regions.above
        owner = np.repeat(np.arange(self.regions.n_regions), np.diff(ptr))
        return np.bincount(owner, self.regions.counting[region], self.regions.n_regions).astype(np.float64)

    @property
    def valid(self) -> bool:
        """Whether counting numbers add up to one over every region and its ancestors."""
        return bool((np.abs(self.sums_above - 1.0) < 1e-9).all())

    def find(self, scope: Region) -> tuple[int, Ints] | None:
        """Return the smallest table that covers a set of variables, and the map from its cells to the set's."""
        best: tuple[int, list[int]] | None = None
        sizes = np.diff(self.tables.cell_ptr)
        for q, axes in enumerate(self.axes):
            if set(scope) <= set(axes) and (best is None or sizes[q] < sizes[best[0]]):
                best = q, [axes.index(v) for v in scope]
        if best is None:
            return None
        card = [int(self.regions.layout.card[v]) for v in self.axes[best[0]]]
        return best[0], narrow_cells(card, best[1])

    @cached_property
    def axes(self) -> list[Region]:
        """The variables of each table."""
        found: list[Region] = []
        for scope, loop in zip(self.regions.scopes, self.regions.is_loop.tolist(), strict=True):
            found += zip(scope, (*scope[1:], scope[0]), strict=True) if loop else [scope]
        return found


def region_plan(
    problem: Problem, regions: RegionGraph, method: str, dual: bool = False, a_cell: float = A_CELL
) -> RegionPlan:
    """Lay a region graph out, if that fits, and a run on it, messages (``a_cell`` bytes each) or dual block descent.

    Raises
    ------
    BudgetError
        Where tables, maps and what belongs to them do not fit ``max_bytes``, before any of them is allocated.
    OutOfTime
        If the time is over before the plan is made.
    """
    builder = PlanBuilder(regions)
    check_time()
    if builder.predicted > _MOST_CELLS:  # beyond what integers count
        _check(problem, regions, method, math.inf)
    if builder.target_bytes > _LITTLE:  # else all of it is known first: a part would be too low a prediction
        _check(problem, regions, method, builder.target_bytes)
    held, making = builder.held_bytes, builder.making_bytes
    run = a_run(float(builder.cell_ptr[-1]), dual, builder.width, regions.flat.size, a_cell)
    _check(problem, regions, method, held + max(making, run))
    check_time()
    tables = builder.tables()
    check_time()
    found = builder.messages, builder.factor_homes, *builder.state_cells(tables)
    return RegionPlan(regions, tables, *found, builder.width, builder.n_room, held, making)


def check_plan(problem: Problem, plan: RegionPlan, method: str, dual: bool = False) -> None:
    """Raise a BudgetError where a plan that was made for an earlier question does not fit this one's."""
    _check(problem, plan.regions, method, plan.n_bytes(dual))


def _check(problem: Problem, regions: RegionGraph, method: str, needed: float) -> None:
    if needed > max(problem.max_bytes, _TRIFLE):
        advice = "Choose smaller regions, raise max_bytes or observe more variables"
        raise over_budget(f"{method} on {regions.n_regions} regions needs", needed, problem.max_bytes, advice)
