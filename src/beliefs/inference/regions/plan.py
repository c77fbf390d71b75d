"""A region graph laid out for kernels: tables, maps between them, messages, and where factors and variables are found.

A region has one table over its variables; a loop has one an edge. A *map* leads from the cells of a wide table to
those of a narrow one, and tables alike in shape share it. Every factor has its home in the first outer region that
covers it, and every variable is read off the smallest table with it. The plan belongs to the layout: models with other
values share it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from beliefs.inference.base import Problem
from beliefs.inference.budget import over_budget
from beliefs.inference.clusters.region_graph import RegionGraph
from beliefs.inference.clusters.region_sets import Region
from beliefs.kernels.regions.structure import Messages, RegionTables
from beliefs.model.layout import Layout, frozen_ints
from beliefs.typing import Ints

__all__ = ["RegionPlan", "check_plan", "region_plan"]

_MOST_CELLS = 2.0**40
_TRIFLE = 1e6  # bytes that are always there
_A_REGION, _A_MESSAGE = 500.0, 700.0  # bytes of tuples, sets and lists while a plan is made, measured


@dataclass(frozen=True, eq=False)
class RegionPlan:
    """The arrays of a region graph; made by :func:`region_plan`.

    Attributes
    ----------
    regions : RegionGraph
        What is laid out.
    tables, edges : RegionTables, Messages
        As kernels take them.
    factor_cell, factor_to : ndarray
        Cells of home tables, and the cell of the factor (side by side) that each belongs to.
    state_cell, state_to : ndarray
        Cells of the smallest table of each variable, and the state in ``mu_var`` that each belongs to.
    n_room : int
        Numbers that kernels need to work.
    n_bytes : float
        Memory of the plan and of one run on it.
    """

    regions: RegionGraph
    tables: RegionTables
    edges: Messages
    factor_cell: Ints
    factor_to: Ints
    state_cell: Ints
    state_to: Ints
    n_room: int
    n_bytes: float

    @property
    def n_cells(self) -> int:
        """Cells of all tables."""
        return int(self.tables.cell_ptr[-1])

    @cached_property
    def region_of_cell(self) -> Ints:
        """The region of each cell."""
        table_region = np.repeat(np.arange(self.regions.n_regions), np.diff(self.tables.table_ptr))
        return np.repeat(table_region, np.diff(self.tables.cell_ptr))

    @cached_property
    def valid(self) -> bool:
        """Whether counting numbers add up to one over every region and its ancestors."""
        sums = [float(self.regions.counting[list(above)].sum()) for above in self.regions.ancestors]
        return all(abs(total - 1.0) < 1e-9 for total in sums)

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
        return [axes for r in range(self.regions.n_regions) for axes in table_axes(self.regions, r)]


def table_axes(regions: RegionGraph, r: int) -> list[Region]:
    """Return the variables of each table of a region."""
    scope = regions.scopes[r]
    if not regions.is_loop[r]:
        return [scope]
    return [(u, v) for u, v in zip(scope, (*scope[1:], scope[0]), strict=True)]


def narrow_cells(card: Sequence[int], positions: Sequence[int]) -> Ints:
    """Return for each cell of a table the cell of a table over some of its axes, in the given order.

    Examples
    --------
    >>> narrow_cells([2, 3], [1, 0]).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    found = np.zeros(tuple(card), np.int64)
    step = 1
    for axis in reversed(positions):
        shape = [1] * len(card)
        shape[axis] = card[axis]
        found += step * np.arange(card[axis]).reshape(shape)
        step *= card[axis]
    return found.ravel()


def predicted_cells(regions: RegionGraph) -> float:
    """Return the cells of all tables, as a float that may be large."""
    log_card = np.log2(regions.layout.card)
    total = 0.0
    for r in range(regions.n_regions):
        for axes in table_axes(regions, r):
            bits = float(log_card[list(axes)].sum())
            total += 2.0**bits if bits < 1000 else math.inf
    return total


def region_plan(problem: Problem, regions: RegionGraph, method: str) -> RegionPlan:
    """Lay a region graph out, if that fits.

    Raises
    ------
    BudgetError
        Where tables, maps and what belongs to them do not fit ``max_bytes``, before any of them is allocated.
    """
    cells = predicted_cells(regions)
    _check(problem, regions, method, 24.0 * cells if cells < _MOST_CELLS else math.inf)
    builder = _Builder(regions)
    _check(problem, regions, method, builder.n_bytes)
    return builder.built()


def check_plan(problem: Problem, plan: RegionPlan, method: str) -> None:
    """Raise a BudgetError where a plan that was made for an earlier question does not fit this one's."""
    _check(problem, plan.regions, method, plan.n_bytes)


def _check(problem: Problem, regions: RegionGraph, method: str, needed: float) -> None:
    if needed > max(problem.max_bytes, _TRIFLE):
        advice = "Choose smaller regions, raise max_bytes or observe more variables"
        raise over_budget(f"{method} on {regions.n_regions} regions needs", needed, problem.max_bytes, advice)


@dataclass(eq=False)
class _Builder:
    """The lists that a plan is made of."""

    regions: RegionGraph
    keys: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        regions, card = self.regions, self.regions.layout.card.tolist()
        self.layout: Layout = regions.layout
        of_region = [table_axes(regions, r) for r in range(regions.n_regions)]
        self.axes = [axes for own in of_region for axes in own]
        self.card = [tuple(card[v] for v in axes) for axes in self.axes]
        self.sizes = [math.prod(shape) for shape in self.card]
        self.table_ptr = np.concatenate([[0], np.cumsum([len(own) for own in of_region], dtype=np.int64)])
        self.cell_ptr = np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])
        self.first: list[int] = self.table_ptr.tolist()

    def map_to(self, q: int, narrow: Region) -> int:
        """Return the number of the map from a table to some of its variables."""
        axes = self.axes[q]
        key = self.card[q], tuple(axes.index(v) for v in narrow)
        if key not in self.known:
            self.known[key] = len(self.keys)
            self.keys.append(key)
        return self.known[key]

    def several(self, scope: Sequence[int]) -> Region:
        """Return the variables of a factor without those of one state, which need be in no table."""
        return tuple(v for v in scope if self.layout.card[v] > 1)

    def covering_table(self, r: int, scope: Region) -> int:
        """Return the table of a region that covers a set."""
        first = self.first[r]
        if not self.regions.is_loop[r]:
            return first
        cycle = self.regions.scopes[r]
        if len(scope) == 1:
            return first + cycle.index(scope[0])
        at = cycle.index(scope[0])
        return first + at if cycle[(at + 1) % len(cycle)] == scope[1] else first + (at - 1) % len(cycle)

    def messages(self) -> Messages:
        """Return who sends to whom, and which tables each message changes."""
        regions = self.regions
        above = regions.ancestors
        around: list[tuple[int, int, int]] = []
        around_ptr = [0]
        place: dict[int, dict[int, int]] = {}
        for r in range(regions.n_regions):
            if len(above[r]) > 1:
                scope = regions.scopes[r]
                place[r] = {}
                for region in sorted(above[r]):
                    q = self.covering_table(region, scope)
                    place[r][region] = len(around)
                    around.append((region, q, self.map_to(q, scope)))
            around_ptr.append(len(around))
        source, source_map, target, target_ptr = [], [], [], [0]
        for parent, child in regions.edges.tolist():
            q = self.covering_table(parent, regions.scopes[child])
            source.append(q)
            source_map.append(self.map_to(q, regions.scopes[child]))
            target += [place[child][region] for region in sorted(above[child] - above[parent])]
            target_ptr.append(len(target))
        columns = np.array(around, np.int64).reshape(-1, 3).T
        arrays = (*regions.edges.T, source, source_map, around_ptr, *columns, target_ptr, target)
        return Messages(*(frozen_ints(np.array(a, np.int64), "messages") for a in arrays))

    def homes(self) -> list[int]:
        """Return the table of each factor, -1 for one of a single cell."""
        regions, found = self.regions, []
        by_scope: dict[frozenset[int], list[int]] = {}
        around: dict[int, list[int]] = {}
        for r in range(regions.n_outer):
            for q in range(self.first[r], self.first[r + 1]):
                by_scope.setdefault(frozenset(self.axes[q]), []).append(q)
                for v in self.axes[q]:
                    around.setdefault(v, []).append(q)
        sets = [frozenset(axes) for axes in self.axes]
        for f in range(self.layout.n_factors):
            scope = frozenset(self.several(self.layout.scope(f).tolist()))
            if not scope:
                found.append(-1)
                continue
            alike = by_scope.get(scope)
            if alike:  # parallel factors with a region each go to one each
                home = alike.pop(0) if len(alike) > 1 and not self.regions.is_loop.any() else alike[0]
            else:
                rarest = min((around[v] for v in scope), key=len)
                home = next(q for q in rarest if scope <= sets[q])
            found.append(home)
        return found

    @cached_property
    def edges(self) -> Messages:
        """The messages; made once."""
        return self.messages()

    @cached_property
    def factor_pairs(self) -> list[tuple[int, int, int]]:
        """Of each factor its home, the map to it, and where its cells begin."""
        layout = self.layout
        homes = [(f, q) for f, q in enumerate(self.homes()) if q >= 0]
        scopes = [self.several(layout.scope(f).tolist()) for f, _ in homes]
        return [
            (q, self.map_to(q, scope), int(layout.table_ptr[f])) for (f, q), scope in zip(homes, scopes, strict=True)
        ]

    @cached_property
    def state_pairs(self) -> list[tuple[int, int, int]]:
        """Of each variable its smallest table, the map to it, and where its states begin."""
        smallest: dict[int, int] = {}
        for q, axes in enumerate(self.axes):
            for v in axes:
                if v not in smallest or self.sizes[q] < self.sizes[smallest[v]]:
                    smallest[v] = q
        seen = [v for v in sorted(smallest) if self.layout.card[v] > 1]
        return [(smallest[v], self.map_to(smallest[v], (v,)), int(self.layout.state_ptr[v])) for v in seen]

    @cached_property
    def rows(self) -> list[int]:
        """Rows of each table of a loop, 0 of others."""
        return [
            shape[0] if self.regions.is_loop[r] else 0
            for r in range(self.regions.n_regions)
            for shape in self.card[self.first[r] : self.first[r + 1]]
        ]

    @cached_property
    def n_bytes(self) -> float:
        """Memory of tables, beliefs and potentials, of maps, and of what leads from cells to factors and variables."""
        pairs = [*self.factor_pairs, *self.state_pairs]
        n_messages = sum(array.size for array in self.edges)
        of_cells = 24.0 * float(self.cell_ptr[-1]) + 16.0 * sum(self.sizes[q] for q, _, _ in pairs)
        of_maps = 8.0 * sum(math.prod(card) for card, _ in self.keys)
        python = _A_REGION * self.regions.n_regions + _A_MESSAGE * len(self.regions.edges)
        return float(of_cells + of_maps + 8.0 * (n_messages + self._room()) + python)

    def built(self) -> RegionPlan:
        """Put everything together."""
        needed = self.n_bytes  # all maps are known then
        self.maps = [narrow_cells(*key) for key in self.keys]
        map_ptr = np.concatenate([[0], np.cumsum([m.size for m in self.maps], dtype=np.int64)])
        maps = np.concatenate([*self.maps, np.zeros(0, np.int64)])
        arrays = (self.table_ptr, self.cell_ptr, self.rows, map_ptr, maps)
        tables = RegionTables(*(frozen_ints(np.array(a, np.int64), "tables") for a in arrays))
        found = (*self._cells(self.factor_pairs), *self._cells(self.state_pairs))
        return RegionPlan(self.regions, tables, self.edges, *found, self._room(), needed)

    def _cells(self, pairs: list[tuple[int, int, int]]) -> tuple[Ints, Ints]:
        """Return the cells of wide tables, and the narrow cell that each belongs to."""
        none = [np.zeros(0, np.int64)]
        wide = [np.arange(self.cell_ptr[q], self.cell_ptr[q + 1]) for q, _, _ in pairs]
        narrow = [begin + self.maps[m] for _, m, begin in pairs]
        return np.concatenate(wide + none), np.concatenate(narrow + none)

    def _room(self) -> int:
        """Return how many numbers a loop's products take, or two messages."""
        most = 2 * max(self.sizes, default=1)
        for r in np.flatnonzero(self.regions.is_loop).tolist():
            own = self.rows[self.first[r] : self.first[r + 1]]
            most = max(most, (3 * len(own) + 3) * max(own) ** 2)
        return most
