"""What each cluster multiplies together, and in which order: operands grouped before they meet a large table.

A cluster of N cells with k operands costs k N. Operands with small scopes are first multiplied among themselves into a
table over the union of their scopes, a *group*: a cluster of its own that eliminates nothing and hands its whole table
on (a binary join tree, [shenoy1997]). Marginals come back the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beliefs.kernels.trees.operand_groups import Groups, OperandScopes, group_operands
from beliefs.model.layout import offsets
from beliefs.typing import Floats, Ints

__all__ = ["Clusters", "Operands", "gather_rows", "group"]

_GAIN = 4.0  # cells of a group's table cost about this many times what they save per cell of the cluster's: measured


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters, children first: axes by position in the order, eliminated ones leading; parent; temperature."""

    axes_ptr: Ints
    axes: Ints
    eliminated: Ints
    parent: Ints
    temperature: Floats


@dataclass(frozen=True, eq=False)
class Operands:
    """Pairs (cluster, slot), sorted by cluster. Slots are the factors, then one separator a cluster."""

    cluster: Ints
    slot: Ints

    @classmethod
    def of(cls, clusters: Clusters, scopes: tuple[Ints, Ints], host: Ints) -> Operands:
        """Return each cluster's factors (``host`` says whose they are) and its children's separators."""
        n_factors = scopes[0].size - 1
        children = np.flatnonzero(clusters.parent >= 0)
        cluster = np.concatenate([host, clusters.parent[children]])
        slot = np.concatenate([np.arange(n_factors), n_factors + children])
        by_cluster = np.argsort(cluster, kind="stable")
        return cls(cluster[by_cluster], slot[by_cluster])

    def slot_axes(self, clusters: Clusters, scopes: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
        """Return the axes of all slots as a CSR: factor scopes, then separators."""
        starts = clusters.axes_ptr[:-1] + clusters.eliminated
        bounds = np.stack([starts, clusters.axes_ptr[1:]])
        sep_ptr, sep = gather_rows(bounds, clusters.axes, np.arange(clusters.parent.size))
        ptr, scope = scopes
        return np.concatenate([ptr, ptr[-1] + sep_ptr[1:]]), np.concatenate([scope, sep])

    def with_separators(self, n_clusters: int, n_factors: int) -> tuple[Ints, Ints]:
        """Return clusters and slots of all operands, each cluster's own separator last."""
        cluster = np.concatenate([self.cluster, np.arange(n_clusters)])
        slot = np.concatenate([self.slot, n_factors + np.arange(n_clusters)])
        by_cluster = np.argsort(cluster, kind="stable")
        return cluster[by_cluster], slot[by_cluster]


def group(clusters: Clusters, operands: Operands, scopes: tuple[Ints, Ints], card: Ints) -> tuple[Clusters, Operands]:
    """Insert a cluster for every group of operands that pays, in front of the cluster it serves."""
    n_old, n_factors = clusters.parent.size, scopes[0].size - 1
    op_ptr = np.searchsorted(operands.cluster, np.arange(n_old + 1))
    read = OperandScopes(op_ptr, operands.slot, *operands.slot_axes(clusters, scopes))
    groups = Groups(*(np.empty(operands.slot.size, np.int64) for _ in range(4)))
    n_groups = group_operands(clusters.axes_ptr, clusters.axes, card[clusters.axes], read, _GAIN, groups)
    op_group = groups.op_group
    home, mask, into = groups.cluster[:n_groups], groups.mask[:n_groups], groups.into[:n_groups]
    if home.size == 0:
        return clusters, operands
    # new numbers: by the cluster served, deepest groups first, the cluster itself last
    depth, above = np.ones(home.size, np.int64), into.copy()
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, into[above], -1)
    served = np.concatenate([np.arange(n_old), home])
    order = np.lexsort((-np.concatenate([np.zeros(n_old, np.int64), depth]), served))
    number = np.empty(order.size, np.int64)
    number[order] = np.arange(order.size)

    axis_of, group_of = _mask_axes(mask, clusters, home)
    all_ptr = np.concatenate(
        [clusters.axes_ptr, clusters.axes_ptr[-1] + np.cumsum(np.bincount(group_of, minlength=home.size))]
    )
    axes_ptr, axes = gather_rows(all_ptr, np.concatenate([clusters.axes, axis_of]), order)
    parent = np.concatenate(
        [np.where(clusters.parent >= 0, number[clusters.parent], -1), np.zeros(home.size, np.int64)]
    )
    parent[n_old:] = np.where(into >= 0, number[n_old + into], number[home])
    child_group = np.full(n_old, -1, np.int64)  # a child whose message joins a group now reports there
    is_message = operands.slot >= n_factors
    child_group[operands.slot[is_message] - n_factors] = op_group[is_message]
    parent[:n_old] = np.where(child_group >= 0, number[n_old + child_group], parent[:n_old])
    grouped = Clusters(
        axes_ptr,
        axes,
        np.concatenate([clusters.eliminated, np.zeros(home.size, np.int64)])[order],
        parent[order],
        np.concatenate([clusters.temperature, np.zeros(home.size)])[order],  # nothing to sum: a copy in any semiring
    )
    host = np.where(op_group >= 0, number[n_old + op_group], number[operands.cluster])[~is_message]
    factor_host = np.empty(n_factors, np.int64)
    factor_host[operands.slot[~is_message]] = host
    return grouped, Operands.of(grouped, scopes, factor_host)


def _mask_axes(mask: Ints, clusters: Clusters, home: Ints) -> tuple[Ints, Ints]:
    """Return the axes that bit masks over their clusters' axes stand for, and the group of each."""
    width = int(np.diff(clusters.axes_ptr)[home].max())
    chosen = (mask[:, None] >> np.arange(width)) & 1 == 1
    group_of, bit = np.nonzero(chosen)
    return clusters.axes[clusters.axes_ptr[home[group_of]] + bit], group_of


def gather_rows(ptr: Ints, values: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return the CSR of some rows; ``ptr`` is offsets, or a (2, n) pair of starts and ends."""
    starts, ends = (ptr[0], ptr[1]) if ptr.ndim == 2 else (ptr[:-1], ptr[1:])
    starts, lengths = starts[rows], (ends - starts)[rows]
    new = offsets(lengths)
    at = np.repeat(starts - new[:-1], lengths) + np.arange(new[-1])
    return new, values[at]
