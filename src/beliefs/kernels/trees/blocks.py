"""The arrays of a cluster tree as kernels read them, and the block-wise reading and writing that all passes share.

A cluster's table is walked in blocks of ``block[c]`` consecutive cells and never kept. Within a block each operand (a
factor, a child's message, or the cluster's own separator, which comes last) is a scalar, a run, a tiled run, repeated
cells, or a mapped read; see :func:`beliefs.kernels.trees.plan.lay_operands`. All operands live in one flat array,
slot after slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import BlockMaps, Floats, Ints

__all__ = ["Tree", "add_block", "advance", "cluster_view", "largest_block", "odometer", "rewind", "sum_block"]


SCALAR, RUN, MAPPED, TILED, REPEATED = 0, 1, 2, 3, 4


class Tree(NamedTuple):
    """Flat arrays of a cluster tree, clusters ordered children first."""

    axes_ptr: Ints  # (n_clusters+1,) axes of each cluster
    axes_card: Ints  # cardinality of each axis
    axes_var: Ints  # variable of each axis
    n_outer: Ints  # (n_clusters,) how many leading axes are walked by the odometer
    n_eliminated: Ints  # (n_clusters,) how many leading axes the cluster sums or maximises out
    block: Ints  # (n_clusters,) cells in a block
    cell_ptr: Ints  # (n_clusters+1,) cells of each cluster's table, accumulated; the tables are never kept
    temperature: Floats  # (n_clusters,) 1 sums, 0 maximises
    op_ptr: Ints  # (n_clusters+1,) operands of each cluster, its separator last
    op_slot: Ints  # (n_ops,) slot each operand reads
    op_mode: Ints  # (n_ops,) SCALAR, RUN, MAPPED, TILED or REPEATED
    op_map: Ints  # (n_ops,) start of its maps
    op_inner: Ints  # (n_ops,) how many of its cells fall into one block
    stride_ptr: Ints  # (n_ops,) start of its strides
    op_stride: Ints  # strides over the cluster's axes
    maps: BlockMaps  # for reading and for adding
    slot_ptr: Ints  # (n_slots+1,) factors with a scope first, then one separator a cluster
    stop: Ints  # (1,) read between blocks: not 0 ends a pass, which is then good for nothing


@twofold_kernel
def largest_block(tree: Tree) -> int:
    """Return the cells of the largest block."""
    largest = 0
    for c in range(tree.block.size):
        largest = max(largest, tree.block[c])
    return largest


@twofold_kernel
def cluster_view(tree: Tree, c: int) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, int]:
    """Return what the walk over one cluster needs, for its operands and, last, its separator.

    Slots, modes, starts of maps and inner sizes of the operands; the cluster's cardinalities; the operands' strides;
    and how many outer axes are eliminated, which the odometer turns fastest.
    """
    first, last = tree.op_ptr[c], tree.op_ptr[c + 1]
    return (
        tree.op_slot[first:last],
        tree.op_mode[first:last],
        tree.op_map[first:last],
        tree.op_inner[first:last],
        tree.axes_card[tree.axes_ptr[c] : tree.axes_ptr[c + 1]],
        tree.op_stride[tree.stride_ptr[first] :],
        min(tree.n_eliminated[c], tree.n_outer[c]),
    )


@twofold_kernel
def odometer(tree: Tree) -> tuple[Ints, Ints]:
    """Return scratch for the widest cluster: operand offsets and axis digits."""
    widest = 1
    deepest = 1
    for c in range(tree.block.size):
        widest = max(widest, tree.op_ptr[c + 1] - tree.op_ptr[c])
        deepest = max(deepest, tree.axes_ptr[c + 1] - tree.axes_ptr[c])
    return np.empty(widest, np.int64), np.empty(deepest, np.int64)


@twofold_kernel
def rewind(slots: Ints, slot_ptr: Ints, n_outer: int, offset: Ints, digit: Ints) -> None:
    """Set every operand (``slots`` lists them) to its slot's start and the outer odometer to zero."""
    for k in range(slots.size):
        offset[k] = slot_ptr[slots[k]]
    for a in range(n_outer):
        digit[a] = 0


@twofold_kernel
def advance(extents: Ints, n_fast: int, n_axes: int, strides: Ints, n_ops: int, offset: Ints, digit: Ints) -> None:
    """Move every operand by one step of the odometer over the first ``n_axes`` axes of a cluster.

    The first ``n_fast`` of them turn fastest: with the eliminated axes there, all blocks that go to one piece of the
    message follow one another, and it stays in cache. ``extents`` are the cluster's cardinalities, ``strides (n_ops x
    axes of the cluster)`` those of its operands.
    """
    width = extents.size
    a, slow = n_fast - 1, False
    while True:
        if a < 0 and not slow:  # the fast axes have wrapped: on to the slow ones, last first
            a, slow = n_axes - 1, True
        if slow and a < n_fast:
            return
        digit[a] += 1
        if digit[a] < extents[a]:
            for k in range(n_ops):
                offset[k] += strides[k * width + a]
            return
        digit[a] = 0
        for k in range(n_ops):
            offset[k] -= strides[k * width + a] * (extents[a] - 1)
        a -= 1


@twofold_kernel
def sum_block(block: Floats) -> float:
    """Return ``block.sum()``, in four sums that do not wait for one another: the same order on every machine."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    last = block.size - block.size % 4
    for i in range(0, last, 4):
        a += block[i]
        b += block[i + 1]
        c += block[i + 2]
        d += block[i + 3]
    for i in range(last, block.size):
        a += block[i]
    return (a + b) + (c + d)


@twofold_kernel
def add_block(mode: int, cells: BlockMaps, inner: int, block: Floats, total: float, at: int, target: Floats) -> None:
    """Add a block of linear values to an operand's slot at offset ``at``: a sum-out, block by block.

    Equivalent to ``np.add.at(target, at + map, block)``. ``cells`` is the operand's map for adding, ``inner`` how many
    of its cells fall into the block; ``total`` is ``block.sum()``, used where the operand is constant within it. A
    mapped sum gathers, target by target, rather than scatters: no store waits for another.
    """
    size = block.size
    if mode == SCALAR:
        target[at] += total
    elif mode == TILED:
        run = target[at : at + inner]
        for t in range(0, size, inner):
            part = block[t : t + inner]
            for i in range(inner):
                run[i] += part[i]
    elif mode == REPEATED:
        times = size // inner
        for j in range(inner):
            target[at + j] += sum_block(block[j * times : (j + 1) * times])
    elif mode == RUN:
        run = target[at : at + size]
        for i in range(size):
            run[i] += block[i]
    else:
        run = target[at : at + inner]
        for start in range(0, size, inner):
            row = cells[start : start + inner]
            for j in range(inner):
                run[j] += block[row[j]]
