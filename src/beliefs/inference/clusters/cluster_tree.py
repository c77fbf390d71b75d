r"""The cluster tree of an elimination order: the plan that bucket elimination and the junction tree share.

Eliminating the variables in turn joins each with its neighbours in a *bucket*; a bucket and the one its message goes
to form a tree with the running-intersection property [dechter1999]. Buckets contained in a child may be absorbed, which
leaves the maximal cliques: the junction tree [lauritzen1988]. A plan holds structure only, so it serves every ``theta``
and all evidence on the same observed set, and is kept on the layout.

========================  =====================================================================================
symbol                    array
========================  =====================================================================================
:math:`C`, :math:`R, S`   axes of a cluster: the eliminated ones :math:`R` first, then its separator :math:`S`
:math:`\phi_C`            an R x S matrix in C order; made block by block where it is needed, never kept
:math:`m_{C\to pa(C)}`    ``tables`` at the separator's slot
:math:`b`                 ``beliefs``, laid out as ``tables``
========================  =====================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from beliefs.errors import BudgetError
from beliefs.inference.base import Problem, Task
from beliefs.inference.budget import over_budget, readable_bytes
from beliefs.inference.clusters.operands import Clusters, Operands, gather_rows, group
from beliefs.inference.orders.orders import Order
from beliefs.kernels.trees.blocks import Tree
from beliefs.kernels.trees.plan import (
    ClusterBlocks,
    OperandReads,
    absorb_clusters,
    choose_blocks,
    eliminate_symbolic,
    factor_cells,
    hash_size,
    lay_operands,
    plan_scratch,
    write_maps,
)
from beliefs.model.layout import Layout, offsets
from beliefs.typing import Floats, Ints

__all__ = [
    "MOST_SECONDS",
    "ClusterTree",
    "check_memory",
    "check_work",
    "eliminate",
    "factor_slots",
    "lay_tree",
    "least_seconds",
]

MOST_SECONDS = 86400.0  # a day: nothing beyond is meant seriously, and cell counts stay far below 2**63
_PER_CELL, _PER_MIXED_CELL = 2.5e-9, 6e-9  # seconds for a cell of a cluster; where sums in logs precede maxima
_PER_BYTE = 1.5e-9  # and for a byte of messages and beliefs: fresh memory costs time, and caches do not hold them
_LEAST_BLOCK, _MOST_BLOCK = 512, 4096  # cells: long enough to hide a block's fixed cost, short enough for the L1 cache


@dataclass(frozen=True, eq=False)
class ClusterTree:
    """A planned cluster tree.

    Attributes
    ----------
    order : Order
        The elimination order and its predicted cost.
    tree : Tree
        The arrays that kernels read.
    factors : ndarray
        Factors with a scope, in the order of their slots.
    source : ndarray
        For every cell of the factors' slots, the cell of ``theta`` that it holds.
    target : ndarray
        Likewise the position in ``mu_factor``.
    roots : ndarray
        Slots whose messages are the value of a connected part.
    """

    order: Order
    tree: Tree
    factors: Ints
    source: Ints
    target: Ints
    roots: Ints
    _bytes: dict[Task, int] = field(default_factory=dict, repr=False)

    @property
    def n_cells(self) -> int:
        """Cells of all clusters' tables."""
        return int(self.tree.cell_ptr[-1])

    @property
    def n_roundings(self) -> float:
        """How many roundings of numbers up to the sum of all potentials a pass to the roots makes, in either domain."""
        columns = np.diff(self.tree.slot_ptr)[self.factors.size :]
        rows = np.diff(self.tree.cell_ptr) / columns
        return float((np.diff(self.tree.op_ptr) + 3.0 * rows + 14.0).sum() + 4.0 * self.factors.size)

    def n_bytes(self, task: Task = Task.INFER) -> int:
        """Memory of one run: factors and messages, for marginals their beliefs, and the plan's own arrays.

        In the log domain the sums of a message come on top, before there are beliefs; sampling takes the longest
        column, that of the largest root. Where clusters are many and small, making the plan takes more than a run.
        """
        if task not in self._bytes:
            slots, columns = int(self.tree.slot_ptr[-1]), np.diff(self.tree.slot_ptr)[self.factors.size :]
            numbers = slots
            if task is Task.INFER:
                numbers += slots
            elif task is Task.MARGINAL_MAP:
                numbers += int(columns[self.tree.temperature > 0].max(initial=0))
            elif task is Task.SAMPLE:
                numbers += int((np.diff(self.tree.cell_ptr) // columns).max(initial=0))
            n_ops, n_read = self.tree.op_slot.size, self.tree.op_stride.size
            making = 2 * hash_size(n_ops) + 12 * n_ops + 2 * n_read // 3
            held = sum(a.nbytes for a in (*self.tree, self.source, self.target))
            self._bytes[task] = held + 8 * max(numbers, making)
        return self._bytes[task]

    def seconds(self, task: Task = Task.INFER) -> float:
        """Predict the processor time of one run.

        Fitted to 96 runs of all questions, published problems and grids of 10^7 to 2 10^9 cells: eight in ten took
        0.3 to 1.1 times as long. Sums that leave the range of plain numbers, which only the run will tell, take about
        twice as long as this.
        """
        per_cell = _PER_MIXED_CELL if task is Task.MARGINAL_MAP else _PER_CELL
        return per_cell * self.n_cells + _PER_BYTE * self.n_bytes(task)

    @classmethod
    def build(cls, layout: Layout, order: Order, temperature: Floats, absorb: bool) -> ClusterTree:
        """Lay out the tree of ``order``; ``temperature (n_vars,)`` keeps clusters of different kinds apart.

        ``absorb``: buckets that are part of another go into it, which leaves the maximal cliques.
        """
        position = np.full(layout.n_vars, -1, np.int64)
        position[order.order] = np.arange(order.order.size)
        clusters, bucket_cluster, bucket = eliminate(layout, order, position, temperature, absorb)
        factors = np.flatnonzero(bucket >= 0)
        scope_ptr, scope, source, target = factor_slots(layout, position, factors)
        card = layout.card[order.order]
        operands = Operands.of(clusters, (scope_ptr, scope), bucket_cluster[bucket[factors]])
        if absorb:
            clusters, operands = group(clusters, operands, (scope_ptr, scope), card)
        tree = lay_tree(clusters, operands, (scope_ptr, scope), layout.factor_size[factors], card, order.order)
        return cls(order, tree, factors, source, target, factors.size + np.flatnonzero(clusters.parent < 0))


def factor_slots(layout: Layout, position: Ints, factors: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the scopes of some factors by position, and where each cell of their slots comes from and goes to."""
    source, target = np.empty((2, int(layout.factor_size[factors].sum())), np.int64)
    scope_ptr, scope = gather_rows(layout.scope_ptr, layout.scope_vars, factors)
    factor_cells(layout.scopes, position, layout.table_ptr, factors, scope, source, target)
    return scope_ptr, scope, source, target


def least_seconds(order: Order) -> float:
    """Return what :meth:`ClusterTree.seconds` is at least, before there is a tree."""
    return _PER_CELL * order.maximal_cells


def check_work(order: Order, method: str, task: Task) -> None:
    """Raise BudgetError for an order that no machine would finish, before anything is laid out."""
    if order.seconds > MOST_SECONDS:
        raise BudgetError(
            f"{method} would take more than a day: {order.size} (order {order.method}), the largest table "
            f"{readable_bytes(8.0 * order.largest_cells)}. Observe more variables{_remedy(task)}"
        )


def check_memory(order: Order, n_bytes: float, problem: Problem, method: str) -> None:
    """Raise BudgetError with width, bytes and what to try."""
    if n_bytes > problem.max_bytes:
        advice = f"Raise max_bytes or observe more variables{_remedy(problem.task)}"
        size = f": {order.size} (order {order.method})"
        raise over_budget(f"{method} needs", n_bytes, problem.max_bytes, advice, size)


def _remedy(task: Task) -> str:
    return ", or use bp for an estimate" if task is Task.INFER else ""


def eliminate(
    layout: Layout, order: Order, position: Ints, temperature: Floats, absorb: bool
) -> tuple[Clusters, Ints, Ints]:
    """Return the clusters, the cluster of each bucket and the bucket of each factor."""
    ptr, members, parent, bucket = eliminate_symbolic(layout.scope_ptr, layout.scope_vars, order.order, position)
    heat = temperature[order.order]
    owner, eliminated, last, rank = absorb_clusters(ptr, parent, heat, absorb)
    number = np.full(order.order.size, -1, np.int64)
    number[rank] = np.arange(rank.size)
    axes_ptr, axes = gather_rows(ptr, members, rank)
    above = parent[last[rank]]
    above = np.where(above >= 0, number[owner[above]], -1)
    return Clusters(axes_ptr, axes, eliminated[rank], above, heat[rank]), number[owner], bucket


def lay_tree(
    clusters: Clusters,
    operands: Operands,
    scopes: tuple[Ints, Ints],
    sizes: Ints,
    card: Ints,
    order: Ints,
    *,
    split: bool = False,
) -> Tree:
    """Fill the arrays that kernels read; separators become the last operand of their clusters.

    ``scopes`` and ``sizes`` are those of the factors' slots, variables by their position in ``order``; with ``split``
    the blocks of a table hold separator axes only.
    """
    n_clusters = clusters.parent.size
    n_outer, block, cells, columns = np.empty((4, n_clusters), np.int64)
    axes_card = card[clusters.axes]
    choose_blocks(
        clusters.axes_ptr, axes_card, clusters.eliminated, _LEAST_BLOCK, _MOST_BLOCK, split, n_outer, block, cells,
        columns,
    )  # fmt: skip
    slot_axes_ptr, slot_axes = operands.slot_axes(clusters, scopes)
    op_cluster, op_slot = operands.with_separators(n_clusters, sizes.size)
    op_axes_ptr, op_axes = gather_rows(slot_axes_ptr, slot_axes, op_slot)
    op_ptr = np.searchsorted(op_cluster, np.arange(n_clusters + 1))
    width_of = np.diff(clusters.axes_ptr)[op_cluster]
    stride_ptr = np.cumsum(width_of) - width_of
    op_mode, op_map, op_inner = np.zeros((3, op_slot.size), np.int64)
    op_stride = np.empty(int(width_of.sum()), np.int64)
    blocks = ClusterBlocks(clusters.axes_ptr, axes_card, n_outer, block)
    reads = OperandReads(op_ptr, stride_ptr, op_mode, op_map, op_inner, op_stride)
    scratch = plan_scratch(blocks, op_slot.size)
    maps = np.empty(lay_operands(blocks, clusters.axes, op_axes_ptr, op_axes, scratch, reads), np.uint32)
    write_maps(blocks, reads, scratch, maps)
    return Tree(
        clusters.axes_ptr, axes_card, order[clusters.axes], n_outer, clusters.eliminated, block,
        offsets(cells), clusters.temperature, op_ptr, op_slot, op_mode, op_map, op_inner,
        stride_ptr, op_stride, maps, offsets(np.concatenate([sizes, columns])),
        np.zeros(1, np.int64),
    )  # fmt: skip
