"""A mini-bucket tree laid out for kernels: slots of factors, of cost shifts and of messages.

A variable that was split has one *cost shift* a replica, a vector over its states; whatever these are, as long as they
add up to zero the model is the same. They are slots like unary factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beliefs.inference.base import Problem
from beliefs.inference.buckets.content import partition_by_content
from beliefs.inference.budget import over_budget
from beliefs.inference.clusters.cluster_tree import factor_slots, lay_tree
from beliefs.inference.clusters.operands import Clusters, Operands
from beliefs.inference.clusters.partition import MiniBuckets, growing_ibounds, partition
from beliefs.inference.orders.orders import Order
from beliefs.kernels.trees.blocks import Tree
from beliefs.kernels.trees.plan import hash_size
from beliefs.model.layout import Layout
from beliefs.typing import Floats, Ints

__all__ = ["BucketTree", "bucket_tree", "default_ibound", "plan_bytes", "predicted_bytes"]

_CELLS = 2.0**22  # of all clusters together: what the default i-bound allows, some tens of milliseconds a pass
_MOST_CELLS = 2.0**50
_MAPS = 1e6  # bytes: beyond, maps repeat
_STAYS = 0.75  # of what making a plan takes, measured


@dataclass(frozen=True, eq=False)
class BucketTree:
    """A planned mini-bucket tree.

    Attributes
    ----------
    buckets : MiniBuckets
        The partition.
    tree : Tree
        The arrays that kernels read, blocks of whole columns.
    factors, source, target : ndarray
        As in :class:`~beliefs.inference.clusters.cluster_tree.ClusterTree`.
    first_message : int
        The slot of the first message; before it come factors, then cost shifts.
    shift_at : ndarray (n_clusters,)
        Where a replica's cost shift begins, -1 for a variable that was not split.
    """

    buckets: MiniBuckets
    tree: Tree
    factors: Ints
    source: Ints
    target: Ints
    first_message: int
    shift_at: Ints

    @classmethod
    def build(cls, layout: Layout, buckets: MiniBuckets) -> BucketTree:
        """Lay out a partition."""
        position = np.full(layout.n_vars, -1, np.int64)
        position[buckets.order] = np.arange(buckets.order.size)
        factors = np.flatnonzero(buckets.host >= 0)
        scope_ptr, scope, source, target = factor_slots(layout, position, factors)
        shifted = np.flatnonzero(buckets.replicas[buckets.variable] > 1)
        scopes = (
            np.concatenate([scope_ptr, scope_ptr[-1] + 1 + np.arange(shifted.size)]),
            np.concatenate([scope, buckets.variable[shifted]]),
        )
        sizes = np.concatenate([layout.factor_size[factors], buckets.card[buckets.variable[shifted]]])
        n = buckets.n_clusters
        clusters = Clusters(buckets.axes_ptr, buckets.axes, np.ones(n, np.int64), buckets.parent, np.zeros(n))
        operands = Operands.of(clusters, scopes, np.concatenate([buckets.host[factors], shifted]))
        tree = lay_tree(clusters, operands, scopes, sizes, buckets.card, buckets.order, split=True)
        shift_at = np.full(n, -1, np.int64)
        shift_at[shifted] = tree.slot_ptr[factors.size + np.arange(shifted.size)]
        return cls(buckets, tree, factors, source, target, factors.size + shifted.size, shift_at)


def predicted_bytes(buckets: MiniBuckets, layout: Layout, n_arrays: int = 3) -> float:
    """Memory of a run, from the partition alone: the plan, and what making it or running over it takes besides.

    ``n_arrays``: numbers for each cell of all slots in a run; 1 for messages, 2 with beliefs, 3 with backward messages.
    What making the plan takes is let go of, but most of it is too small to be given back.
    """
    slots, factors = _n_cells(buckets, layout)
    owners, width = _operand_clusters(buckets), np.diff(buckets.axes_ptr)
    read = float(width[owners].sum())
    making = 8.0 * (2.0 * hash_size(owners.size) + 10.0 * owners.size + 0.67 * read)
    return plan_bytes(buckets, layout) + 8.0 * (n_arrays * slots + factors) + _STAYS * making


def plan_bytes(buckets: MiniBuckets, layout: Layout) -> float:
    """Memory of a partition and its tree.

    What is not known before the plan is made is how many blocks are read through the same index map.
    """
    owners, width = _operand_clusters(buckets), np.diff(buckets.axes_ptr)
    bits = _log2_columns(buckets)
    counts = np.bincount(np.minimum(bits, 9.0).astype(np.int64)[owners])
    sizes = np.exp2(
        np.arange(counts.size)
    )  # of blocks; for 2^b cells there are about 2^b maps of 8 bytes a cell, and most of them occur
    maps = min(5.0 * float((np.minimum(counts, sizes) * sizes).sum()), _MAPS)
    _, factors = _n_cells(buckets, layout)
    tree = 2.0 * factors + 6.0 * owners.size + width[owners].sum() + 2.0 * width.sum() + 7.0 * width.size
    divided = width.sum() + layout.n_edges + 2.2 * layout.n_factors + 3.0 * width.size
    return float(8.0 * (tree + divided) + maps)


def _operand_clusters(buckets: MiniBuckets) -> Ints:
    """Return the cluster of each operand: factors, cost shifts, messages, and what the cluster itself sends."""
    shifted = np.flatnonzero(buckets.replicas[buckets.variable] > 1)
    own = np.arange(buckets.n_clusters)
    return np.concatenate([buckets.host[buckets.host >= 0], shifted, buckets.parent[buckets.parent >= 0], own])


def _log2_columns(buckets: MiniBuckets) -> Floats:
    """Return the base-2 logarithm of the cells of each cluster's message."""
    bits: Floats = buckets.log2_cells - np.log2(buckets.card[buckets.variable])
    return bits


def _n_cells(buckets: MiniBuckets, layout: Layout) -> tuple[float, float]:
    """Return the cells of all slots, and those of factors."""
    shifted = buckets.replicas[buckets.variable] > 1
    with np.errstate(over="ignore"):
        messages = float(np.exp2(_log2_columns(buckets)).sum())
    factors = float(layout.factor_size[buckets.host >= 0].sum())
    return messages + factors + float(buckets.card[buckets.variable[shifted]].sum()), factors


def bucket_tree(
    problem: Problem,
    order: Order,
    ibound: int | None,
    method: str,
    by_content: Floats | None = None,
    n_arrays: int = 3,
) -> BucketTree:
    """Return the tree of an order and i-bound, kept on the layout; None takes the default.

    With temperatures ``by_content (n_vars,)`` the buckets are divided by the values of their functions instead of by
    scopes, and nothing is kept. ``n_arrays`` as in :func:`predicted_bytes`.

    Raises
    ------
    BudgetError
        If it does not fit ``max_bytes``, before anything large is allocated.
    """
    layout = problem.graph.layout
    if ibound is None:
        ibound = default_ibound(problem, order)
    buckets = layout.plan(partition, order, ibound)
    if by_content is not None:
        buckets = partition_by_content(problem, order, ibound, by_content)
    needed = predicted_bytes(buckets, layout, n_arrays)
    problem.claim(needed)
    if needed > problem.max_bytes or buckets.n_cells > _MOST_CELLS:
        advice = "Lower ibound, raise max_bytes or observe more variables"
        raise over_budget(f"{method} with ibound={ibound} needs", needed, problem.max_bytes, advice)
    if by_content is not None:
        return BucketTree.build(layout, buckets)
    return layout.plan(BucketTree.build, buckets)


def default_ibound(problem: Problem, order: Order, cells: float = _CELLS) -> int:
    """Return the largest i-bound up to the width whose clusters have no more than ``cells`` and fit the memory."""
    best = 1
    for ibound, n_cells, n_bytes in growing_ibounds(problem.graph.layout, order, _size):
        if n_cells > cells or n_bytes > problem.max_bytes:
            break
        best = ibound
    return best


def _size(layout: Layout, order: Order, ibound: int) -> tuple[float, float, bool]:
    """Return the cells of a partition, which is not kept, memory of a run, and whether a variable has replicas."""
    buckets = partition(layout, order, ibound)
    return buckets.n_cells, predicted_bytes(buckets, layout), buckets.split
