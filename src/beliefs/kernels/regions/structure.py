"""The arrays that say how regions are laid out in memory, as kernels take them."""

from typing import NamedTuple

from beliefs.typing import Floats, Ints

__all__ = ["FactorHomes", "Messages", "PlainTables", "RegionTables"]


class RegionTables(NamedTuple):
    """Region ``r`` has the tables ``table_ptr[r]`` to ``table_ptr[r+1]``: one, or one an edge of a loop.

    Table ``q`` has the cells ``cell_ptr[q]`` to ``cell_ptr[q+1]``; that of a loop's k-th edge has a row a state of its
    k-th variable (``rows[q]``, 0 in other tables) and a column a state of the next. Of map ``m``, the entries from
    ``map_ptr[m]`` to ``map_ptr[m+1]`` lead from the cells of a wide table to those of a narrow one. Where that has
    neighbouring axes of the wide one, in their order, cell k leads to ``k // stride[m]`` modulo its size; else
    ``stride[m]`` is 0.
    """

    table_ptr: Ints
    cell_ptr: Ints
    rows: Ints
    map_ptr: Ints
    maps: Ints
    stride: Ints


class Messages(NamedTuple):
    """Edges of the region graph, and for each child the tables of all regions around it.

    Edge ``e`` leads from region ``parent[e]``, whose table ``source[e]`` covers the child through the map
    ``source_map[e]``, to region ``child[e]``. Around region ``r``, itself and all its ancestors, are the entries
    ``around_ptr[r]`` to ``around_ptr[r+1]``: a region, its table and the map. A message on edge ``e`` goes to the
    entries ``target[target_ptr[e]:target_ptr[e+1]]`` of these.
    """

    parent: Ints
    child: Ints
    source: Ints
    source_map: Ints
    around_ptr: Ints
    around_region: Ints
    around_table: Ints
    around_map: Ints
    target_ptr: Ints
    target: Ints


class FactorHomes(NamedTuple):
    """Where factors of more than one cell are found.

    That number ``i`` lies in the table ``table[i]``, through the map ``map[i]``; among the tables of all factors side
    by side its own begins at ``cell[i]``.
    """

    table: Ints
    map: Ints
    cell: Ints


class PlainTables(NamedTuple):
    """Tables and beliefs as plain numbers, a cell each, and what scaling has taken out of each region.

    A region's tables multiply to ``lin`` times ``growth[r] exp(offset[r])``. When they were scaled, no product of
    tables of a loop was below ``least[r]`` or above its inverse (0: not known); since then messages have changed none,
    nor an entry, by more than a factor of ``spread[r]``.
    """

    lin: Floats
    beliefs: Floats
    growth: Floats
    offset: Floats
    spread: Floats
    least: Floats
