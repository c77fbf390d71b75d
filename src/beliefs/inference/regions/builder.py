"""The arrays of a plan of regions: tables, who covers whom, the maps between them, homes of factors.

All pairs of regions are asked at once (:mod:`beliefs.model.scopes`). Nothing as large as the tables is
made before its memory is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from beliefs.inference.clusters.region_graph import RegionGraph
from beliefs.inference.clusters.region_sets import holders
from beliefs.kernels.regions.structure import FactorHomes, Messages, RegionTables
from beliefs.model.layout import frozen_ints, offsets, read_only
from beliefs.model.scopes import Scopes, row_codes, within
from beliefs.typing import Ints

__all__ = ["A_CELL", "PlanBuilder", "a_run", "narrow_cells", "tree_begins"]

A_CELL = 66.0  # bytes of tables, beliefs, potentials, and of what a run and its answer make of them, measured
_A_DUAL_CELL, _A_DUAL_REGION = 88.0, 200.0  # with multipliers, targets and a warm start, measured
_LONG, _LONG_BINARY = 96, 256  # edges of a loop times cardinality, and edges, from which on a tree pays, measured
_A_REGION, _A_MESSAGE = 110.0, 180.0  # bytes of the region graph and of what leads from tables to tables, measured
_A_SET, _A_MEETING = 200.0, 700.0  # bytes of a region found among sets of variables, and of each pair beyond a tree's
_SORTED_REGION, _SORTED_MESSAGE = 90.0, 190.0  # bytes of what sorts regions while a plan is made, measured


class _Maps(NamedTuple):
    """Shapes of wide tables and the axes to keep, all that differ; which one belongs to every pair, factor, state."""

    keys: list[tuple[list[int], list[int]]]
    around: Ints
    factor: Ints
    state: Ints


class PlanBuilder:
    """The arrays that a plan is made of."""

    def __init__(self, regions: RegionGraph) -> None:
        self.regions, self.layout = regions, regions.layout
        flat, card = regions.flat, regions.layout.card
        self.flat = flat
        self.table_ptr = offsets(np.where(regions.is_loop, flat.size, 1))
        self.region = np.repeat(np.arange(regions.n_regions), np.diff(self.table_ptr))
        self.turn = np.arange(self.region.size) - self.table_ptr[self.region]  # places between a loop's first and its
        arity = np.where(regions.is_loop, 2, flat.size)[self.region]
        ptr = offsets(arity)
        column = np.arange(ptr[-1]) - np.repeat(ptr[:-1], arity)
        region = np.repeat(self.region, arity)
        at = flat.ptr[:-1][region] + (np.repeat(self.turn, arity) + column) % flat.size[region]
        self.axes = Scopes(ptr, flat.var[at])
        bits = np.bincount(self.axes.row, np.log2(card)[self.axes.var], arity.size)
        self.predicted = float(np.exp2(bits).sum()) if bits.max(initial=0.0) < 1000.0 else math.inf

    @cached_property
    def sizes(self) -> Ints:
        """Cells of each table."""
        sizes = np.ones(self.region.size, np.int64)
        for column in range(int(self.axes.size.max(initial=0))):
            has = self.axes.size > column
            sizes[has] *= self.layout.card[self.axes.var[self.axes.ptr[:-1][has] + column]]
        return sizes

    @cached_property
    def cell_ptr(self) -> Ints:
        """Where the cells of each table begin."""
        return offsets(self.sizes)

    # -- who covers whom --------------------------------------------------------------------------------------------
    def covering_table(self, region: Ints, narrow: Scopes) -> Ints:
        """Return the table of each region that covers a set: its only one, or a loop's that begins or ends there."""
        first = self.table_ptr[region]
        loops = self.regions.is_loop[region]
        if not loops.any():
            return first
        r, start, size = region[loops], narrow.ptr[:-1][loops], narrow.size[loops]
        at, length = self.flat.place(r, narrow.var[start]), self.flat.size[r]
        after = self.flat.var[self.flat.ptr[:-1][r] + (at + 1) % length]
        ends = (size == 2) & (after != narrow.var[np.where(size == 2, start + 1, start)])
        first = first.copy()
        first[loops] += np.where(ends, (at - 1) % length, at)
        return first

    def places(self, table: Ints, narrow: Scopes) -> Scopes:
        """Return the axes of each table that the variables of a set are."""
        wide = np.repeat(table, narrow.size)
        region = self.region[wide]
        place = self.flat.place(region, narrow.var)
        return Scopes(narrow.ptr, (place - self.turn[wide]) % self.flat.size[region])

    @cached_property
    def pairs(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Around each region that has parents, itself and those above: offsets, regions, tables, and sets."""
        ptr, region = self.regions.above
        count = np.where(np.diff(ptr) > 1, np.diff(ptr), 0)
        owner = np.repeat(np.arange(count.size), count)
        around = region[within(ptr[:-1], count)]
        return offsets(count), around, self.covering_table(around, self.flat.take(owner)), owner

    @cached_property
    def homes(self) -> tuple[Ints, Ints, Scopes]:
        """Factors of more than one cell, the table of each, and its variables of several states.

        A table over the same variables, of several alike one each, or the first of an outer region that covers it.
        """
        layout, n_outer = self.layout, self.regions.n_outer
        scopes = Scopes(layout.scope_ptr, layout.scope_vars)
        scopes = scopes.keep(layout.card[scopes.var] > 1)
        factor = np.flatnonzero(scopes.size > 0)
        scopes = scopes.take(factor)
        n_tables = int(self.table_ptr[n_outer])
        outer = Scopes(self.axes.ptr[: n_tables + 1], self.axes.var[: self.axes.ptr[n_tables]])
        both = Scopes(np.append(outer.ptr, outer.ptr[-1] + scopes.ptr[1:]), np.append(outer.var, scopes.var))
        code = row_codes(both.ascending())
        known, count = np.unique(code[:n_tables], return_counts=True)
        by_code = np.argsort(code[:n_tables], kind="stable")
        home = np.full(factor.size, -1, np.int64)
        if known.size:
            at = np.minimum(np.searchsorted(known, code[n_tables:]), known.size - 1)
            alike = known[at] == code[n_tables:]
            at = at[alike]
            turn = np.zeros(at.size, np.int64)
            if not self.regions.is_loop.any():
                turn = np.minimum(_turns(at), count[at] - 1)  # parallel factors with a region each go to one each
            home[alike] = by_code[offsets(count)[at] + turn]
        alone = np.flatnonzero((home < 0) & (scopes.size == 1))
        first_of = np.full(layout.n_vars, n_tables, np.int64)
        np.minimum.at(first_of, outer.var, outer.row)
        home[alone] = first_of[scopes.var[scopes.ptr[:-1][alone]]]
        rest = np.flatnonzero(home < 0)
        home[rest] = _first_around(outer, scopes.take(rest))
        return factor, home, scopes

    @cached_property
    def smallest(self) -> tuple[Ints, Ints]:
        """The variables of several states, and the smallest table of each, of these the first."""
        order = np.lexsort((self.axes.row, self.sizes[self.axes.row]))
        variable, first = np.unique(self.axes.var[order], return_index=True)
        table = self.axes.row[order][first]
        several = self.layout.card[variable] > 1
        return variable[several], table[several]

    @cached_property
    def maps(self) -> _Maps:
        """The maps from tables around regions to these, from homes to factors, and from tables to variables."""
        shape = np.unique(row_codes(Scopes(self.axes.ptr, self.layout.card[self.axes.var])), return_inverse=True)[1]
        _, _, wide, owner = self.pairs
        _, home, scopes = self.homes
        variable, table = self.smallest
        asked = [(wide, self.flat.take(owner)), (home, scopes), (table, Scopes(np.arange(variable.size + 1), variable))]
        places = [self.places(q, narrow) for q, narrow in asked]
        tables = np.concatenate([q for q, _ in asked])
        rows = Scopes(offsets(np.concatenate([p.size for p in places])), np.concatenate([p.var for p in places]))
        _, first, number = np.unique(row_codes(rows, shape[tables]), return_index=True, return_inverse=True)
        keys = []
        for k in first.tolist():
            axes = self.axes.take(tables[k : k + 1]).var
            keys.append((self.layout.card[axes].tolist(), rows.var[rows.ptr[k] : rows.ptr[k + 1]].tolist()))
        return _Maps(keys, *np.split(number.astype(np.int64), np.cumsum([q.size for q, _ in asked])[:-1]))

    # -- what kernels take ------------------------------------------------------------------------------------------
    @cached_property
    def messages(self) -> Messages:
        """Who sends to whom, and which tables each message changes."""
        edges, n = self.regions.edges, self.regions.n_regions
        around_ptr, around, table, owner = self.pairs
        above_ptr, above = self.regions.above
        parent, child = edges[:, 0], edges[:, 1]
        keys = owner * n + around  # ascending
        entry = np.searchsorted(keys, child * n + parent)
        # a message changes what is around the child, less what is around the parent
        n_above = np.diff(above_ptr)[parent]
        spared = np.repeat(child, n_above) * n + above[within(above_ptr[parent], n_above)]
        count = np.diff(around_ptr)[child]
        kept = np.ones(int(count.sum()), np.bool_)
        begin = offsets(count)[:-1] - around_ptr[child]
        kept[np.searchsorted(keys, spared) + np.repeat(begin, n_above)] = False
        target = within(around_ptr[child], count)[kept]
        target_ptr = offsets(count - n_above)
        arrays = (parent, child, table[entry], self.maps.around[entry], around_ptr, around, table, self.maps.around)
        return Messages(*(frozen_ints(a, "messages") for a in (*arrays, target_ptr, target)))

    def tables(self) -> RegionTables:
        """How tables lie in memory, and the maps."""
        map_ptr = offsets([math.prod(card) for card, _ in self.maps.keys])
        maps = np.empty(int(map_ptr[-1]), np.int64)  # the largest of these arrays, by far, where cardinalities differ
        for key, begin, end in zip(self.maps.keys, map_ptr[:-1].tolist(), map_ptr[1:].tolist(), strict=True):
            maps[begin:end] = narrow_cells(*key)
        stride = np.array([_stride(*key) for key in self.maps.keys], np.int64)
        arrays = (self.table_ptr, self.cell_ptr, self.rows, map_ptr, read_only(maps), stride)
        return RegionTables(*(frozen_ints(a, "tables") for a in arrays))

    @property
    def factor_homes(self) -> FactorHomes:
        """Where factors are found."""
        factor, home, _ = self.homes
        arrays = (np.array(home), self.maps.factor, self.layout.table_ptr[factor])
        return FactorHomes(*(frozen_ints(a, "homes") for a in arrays))

    def state_cells(self, tables: RegionTables) -> tuple[Ints, Ints]:
        """Return the cells of each variable's smallest table, and the state that each belongs to."""
        variable, table = self.smallest
        size = self.sizes[table]
        narrow = tables.maps[within(tables.map_ptr[self.maps.state], size)]
        return within(self.cell_ptr[table], size), narrow + np.repeat(self.layout.state_ptr[variable], size)

    @cached_property
    def rows(self) -> Ints:
        """Rows of each table of a loop, 0 of others."""
        found, loops = np.zeros(self.region.size, np.int64), np.flatnonzero(self.regions.is_loop[self.region])
        found[loops] = self.layout.card[self.axes.var[self.axes.ptr[loops]]]  # of others the scope may be empty
        return found

    @property
    def target_bytes(self) -> float:
        """What it takes to say which tables each message changes: all others around a region that all are above."""
        n_above, edges = np.diff(self.regions.above[0]), self.regions.edges
        around = np.where(n_above > 1, n_above, 0)
        return 8.0 * (float(around[edges[:, 1]].sum()) - float(n_above[edges[:, 0]].sum()))

    @cached_property
    def held_bytes(self) -> float:
        """Memory of regions and maps, and of what leads from cells to factors and variables."""
        of_states, of_factors = float(self.sizes[self.smallest[1]].sum()), float(self.homes[1].size)
        of_maps = 8.0 * sum(math.prod(card) for card, _ in self.maps.keys)
        n_messages = sum(array.size for array in self.messages)
        n_regions, n_edges = self.regions.n_regions, len(self.regions.edges)
        sets = 0.0 if self.regions.is_loop.any() else _A_SET * n_regions + _A_MEETING * max(0, n_edges - n_regions)
        python = _A_REGION * n_regions + _A_MESSAGE * n_edges + sets
        return 16.0 * of_states + 24.0 * of_factors + of_maps + 8.0 * (n_messages + self.n_room) + python

    @property
    def making_bytes(self) -> float:
        """What sorting regions takes besides, before there are tables."""
        return _SORTED_REGION * self.regions.n_regions + _SORTED_MESSAGE * len(self.regions.edges)

    @cached_property
    def n_room(self) -> int:
        """How many numbers a loop's products take, or two messages."""
        most = 2 * int(self.sizes.max(initial=1))
        loops = self.regions.is_loop
        if not loops.any():
            return most
        return max(most, int(((3 * self.flat.size[loops] + 3) * self.width[loops] ** 2).max()))

    @cached_property
    def width(self) -> Ints:
        """The largest cardinality of each loop, 0 of other regions."""
        found = np.zeros(self.regions.n_regions, np.int64)
        np.maximum.at(found, self.region, self.rows)
        return found


def a_run(n_cells: float, dual: bool, width: Ints, size: Ints, a_cell: float = A_CELL) -> float:
    """Return the bytes of a run on so many cells, and maybe of dual block descent on loops of a width and a length."""
    if not dual:
        return a_cell * n_cells
    return _A_DUAL_CELL * n_cells + _A_DUAL_REGION * width.size + 8.0 * float(tree_begins(width, size)[1])


def tree_begins(width: Ints, size: Ints) -> tuple[Ints, int]:
    """Return where the tree of each long loop begins, -1 for other regions, and how many numbers all trees take."""
    long = np.where(width > 2, size * width >= _LONG, (width == 2) & (size >= _LONG_BINARY))
    taken = np.where(long, 2 * size * width**2, 0)
    ends = np.cumsum(taken)
    return np.where(taken > 0, ends - taken, -1), int(ends[-1]) if ends.size else 0


def _stride(card: list[int], kept: list[int]) -> int:
    """Return how many cells in a row lead to one narrow cell; 0 unless kept axes are neighbours in their order."""
    if not kept or kept != list(range(kept[0], kept[0] + len(kept))):
        return 0
    return math.prod(card[kept[-1] + 1 :])


def _turns(number: Ints) -> Ints:
    """Return how many equal numbers came before each."""
    order = np.argsort(number, kind="stable")
    same = number[order]
    begin = np.searchsorted(same, same)
    found = np.empty_like(order)
    found[order] = np.arange(order.size) - begin
    return found


def _first_around(tables: Scopes, scopes: Scopes) -> list[int]:
    """Return the first table that covers each set, one after the other: for sets smaller than any table."""
    if scopes.ptr.size == 1:
        return []
    rows = [tuple(row.tolist()) for row in np.split(tables.var, tables.ptr[1:-1])]
    sets, around = [frozenset(row) for row in rows], holders(rows)
    found = []
    for row in np.split(scopes.var, scopes.ptr[1:-1]):
        scope = frozenset(row.tolist())
        rarest = min((around[v] for v in scope), key=len)
        found.append(next(q for q in rarest if scope <= sets[q]))
    return found


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
