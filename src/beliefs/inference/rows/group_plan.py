"""Plans of groups of missing variables: which tables meet where, for rows of any states.

A group is a connected set of variables that some rows do not observe. Its plan is a cluster tree over them alone: the
factors that touch them are read at the row's states, so one plan serves all rows with that group, and all tables. Small
groups are one cluster; larger ones are eliminated in an order of few cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beliefs.inference.budget import over_budget
from beliefs.inference.clusters.cluster_tree import eliminate
from beliefs.inference.clusters.operands import Clusters
from beliefs.inference.orders.orders import plan_order
from beliefs.kernels.rows.sweep import LANES, Programs, Tables
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.typing import Ints

__all__ = ["GroupPlan", "group_graph", "joined", "loose_group", "plan_group"]

_SMALL = 64  # joint states up to which a group is one cluster


@dataclass(frozen=True, eq=False)
class GroupPlan:
    """The arrays of one group, as in :class:`Programs`, numbered from 0.

    ``soft`` has the factors of soft evidence, after the ordinary ones.
    """

    variables: Ints
    factors: Ints
    soft: Ints
    n_cells: Ints
    n_columns: Ints
    ops: tuple[tuple[tuple[int, Ints], ...], ...]  # of each cluster: (source, map)
    columns: tuple[Ints, ...]  # of each cluster: the cell of its message that each cell adds to

    @property
    def is_loose(self) -> bool:
        """Whether there is no plan."""
        return self.n_cells.size == 0

    @property
    def total_cells(self) -> int:
        """Cells of all clusters."""
        return int(self.n_cells.sum())


def plan_group(layout: Layout, group: Ints, soft: Layout | None, max_bytes: float) -> GroupPlan:
    """Plan one group; ``soft`` has factors over the same variables whose tables are others for every row.

    BudgetError before anything is laid out, where the tables of LANES rows would not fit.
    """
    inside = {int(v): k for k, v in enumerate(group)}
    factors = _touching(layout, group)
    own = np.zeros(0, np.int64) if soft is None else _touching(soft, group)
    scopes = [_inside(layout, f, inside) for f in factors]
    scopes += [] if soft is None else [_inside(soft, f, inside) for f in own]
    card = layout.card[group]
    axes, parents, n_eliminated, host = _clusters(card, scopes, max_bytes)
    ops: list[list[tuple[int, Ints]]] = [[] for _ in axes]
    for k, scope in enumerate(scopes):
        ops[host[k]].append((k, _map(axes[host[k]], card, dict(scope))))
    columns, n_columns = [], []
    for c, members in enumerate(axes):
        separator = members[n_eliminated[c] :]
        strides = _strides(card[separator])
        columns.append(_map(members, card, dict(zip(separator, strides, strict=True))))
        n_columns.append(int(np.prod(card[separator])))
        if parents[c] >= 0:
            where = _map(axes[parents[c]], card, dict(zip(separator, strides, strict=True)))
            ops[parents[c]].append((-1 - c, where))
    n_cells = np.array([int(np.prod(card[members])) for members in axes], np.int64)
    return GroupPlan(
        group, factors, own, n_cells, np.array(n_columns, np.int64), tuple(map(tuple, ops)), tuple(columns)
    )


def loose_group(layout: Layout, group: Ints, soft: Layout | None) -> GroupPlan:
    """Return a group without a plan: its rows are asked one by one."""
    own = np.zeros(0, np.int64) if soft is None else _touching(soft, group)
    none = np.zeros(0, np.int64)
    return GroupPlan(group, _touching(layout, group), own, none, none, (), ())


def _touching(layout: Layout, group: Ints) -> Ints:
    """Return the factors with a variable of the group, ascending."""
    edges = [layout.var_edges[layout.var_ptr[v] : layout.var_ptr[v + 1]] for v in group]
    return np.unique(layout.edge_factor[np.concatenate(edges)])


def _inside(layout: Layout, f: int, inside: dict[int, int]) -> list[tuple[int, int]]:
    """Return the variables of a factor that are in a group, by their numbers there, and their strides."""
    return [(inside[int(v)], int(s)) for v, s in _edges(layout, int(f)) if int(v) in inside]


def _edges(layout: Layout, f: int) -> zip[tuple[int, int]]:
    edges = slice(int(layout.scope_ptr[f]), int(layout.scope_ptr[f + 1]))
    return zip(layout.scope_vars[edges], layout.edge_stride[edges], strict=True)


def _clusters(
    card: Ints, scopes: Sequence[Sequence[tuple[int, int]]], max_bytes: float
) -> tuple[list[list[int]], list[int], list[int], list[int]]:
    """Return axes, parents and eliminated counts of the clusters, children first, and the host of each factor."""
    if float(np.prod(card.astype(np.float64))) <= _SMALL:
        return [list(range(card.size))], [-1], [card.size], [0] * len(scopes)
    ptr = np.concatenate([[0], np.cumsum([len(scope) for scope in scopes])])
    layout = Layout.build(card, ptr, np.array([v for scope in scopes for v, _ in scope], np.int64))
    order = plan_order(card, layout.scope_ptr, layout.scope_vars)
    needed = 8.0 * LANES * order.total_cells
    if needed > max_bytes:
        advice = "Observe more variables, or give the model fewer arcs among those that are never seen"
        raise over_budget("exact inference of missing cells needs", needed, max_bytes, advice, f": {order.size}")
    position = np.empty(card.size, np.int64)
    position[order.order] = np.arange(card.size)
    clusters: Clusters
    clusters, of_bucket, bucket = eliminate(layout, order, position, np.ones(card.size), True)
    ends = clusters.axes_ptr
    axes = [order.order[clusters.axes[ends[c] : ends[c + 1]]].tolist() for c in range(clusters.parent.size)]
    return axes, clusters.parent.tolist(), clusters.eliminated.tolist(), of_bucket[bucket].tolist()


def _strides(card: Ints) -> list[int]:
    return [int(np.prod(card[k + 1 :])) for k in range(card.size)]


def _map(axes: Sequence[int], card: Ints, stride: dict[int, int]) -> Ints:
    """Return for each cell over some axes the cell of a table with these strides, 0 for axes it lacks."""
    found = np.zeros(1, np.int64)
    for v in axes:
        found = (found[:, None] + np.arange(card[v]) * stride.get(int(v), 0)).ravel()
    return found


def group_graph(
    layout: Layout, soft: Layout | None, plan: GroupPlan, places: Ints, values: Tables
) -> tuple[FactorGraph, list[Ints]]:
    """Return a group at one row's states as a graph, and the places of each factor's cells."""
    inside = {int(v): k for k, v in enumerate(plan.variables)}
    scopes = [_inside(layout, f, inside) for f in plan.factors]
    scopes += [] if soft is None else [_inside(soft, f, inside) for f in plan.soft]
    card, n_shared = layout.card[plan.variables], values.shared.size
    cells, tables = [], []
    for place, scope in zip(places, scopes, strict=True):
        axes = [v for v, _ in scope]
        at = place + _map(axes, card, dict(scope))
        numbers = values.shared[at] if place < n_shared else values.own[at - n_shared]
        cells.append(at)
        tables.append((axes, numbers.reshape(card[axes])))
    return FactorGraph.from_tables(card, tables), cells


def joined(layout: Layout, plans: Sequence[GroupPlan], soft: Layout | None) -> Programs:
    """Lay plans end to end; the tables of ``soft`` begin where the shared ones end, in the first row."""
    starts, steps, states, scopes = [], [], [], []
    for plan in plans:
        starts += [int(layout.cell_ptr[f]) for f in plan.factors]
        steps += [0] * plan.factors.size
        states += [0] * plan.factors.size
        scopes += [list(_edges(layout, int(f))) for f in plan.factors]
        if soft is not None:
            starts += [layout.n_cells + int(soft.cell_ptr[f]) for f in plan.soft]
            steps += [soft.n_cells] * plan.soft.size
            states += [int(soft.factor_size[f]) if soft.arity[f] == 1 else 0 for f in plan.soft]
            scopes += [list(_edges(soft, int(f))) for f in plan.soft]
    ops = [op for plan in plans for cluster in plan.ops for op in cluster]
    columns = [where for plan in plans for where in plan.columns]
    maps = [*columns, *(where for _, where in ops)]
    map_ptr = _offsets([where.size for where in maps])
    flat = [edge for scope in scopes for edge in scope]
    return Programs(
        _offsets([plan.n_cells.size for plan in plans]),
        _offsets([plan.factors.size + plan.soft.size for plan in plans]),
        np.array(starts, np.int64),
        np.array(steps, np.int64),
        np.array(states, np.int64),
        _offsets([len(scope) for scope in scopes]),
        np.array([v for v, _ in flat], np.int64),
        np.array([s for _, s in flat], np.int64),
        np.concatenate([*(plan.n_cells for plan in plans), np.zeros(0, np.int64)]),
        np.concatenate([*(_offsets(plan.n_cells)[:-1] for plan in plans), np.zeros(0, np.int64)]),
        np.concatenate([*(plan.n_columns for plan in plans), np.zeros(0, np.int64)]),
        np.concatenate([*(_offsets(plan.n_columns)[:-1] for plan in plans), np.zeros(0, np.int64)]),
        map_ptr[: len(columns)].copy(),
        _offsets([len(cluster) for plan in plans for cluster in plan.ops]),
        np.array([source for source, _ in ops], np.int64),
        map_ptr[len(columns) : -1].copy(),
        np.concatenate([*maps, np.zeros(0, np.int64)]).astype(np.uint32),
    )


def _offsets(sizes: Sequence[int] | Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, np.int64))]).astype(np.int64)
