"""Kernels that lay out a cluster tree: symbolic elimination, absorption, and the operands of each cluster's table.

Axes of every table follow the position of the variables in the elimination order, so a cluster's scope is
``(eliminated..., separator...)`` and its separator is a suffix: the table is a matrix with one row per state of the
eliminated variables and one column per state of the separator.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.layout import Scopes
from beliefs.kernels.primitives.strides import axis_room, table_index
from beliefs.kernels.trees.blocks import MAPPED, REPEATED, RUN, SCALAR, TILED
from beliefs.typing import BlockMaps, Floats, Ints

_LONG_RUN = 16  # cells: shorter runs are quicker gathered

__all__ = [
    "ClusterBlocks",
    "OperandReads",
    "PlanScratch",
    "absorb_clusters",
    "choose_blocks",
    "eliminate_symbolic",
    "factor_cells",
    "hash_size",
    "lay_operands",
    "plan_scratch",
    "write_maps",
]


class ClusterBlocks(NamedTuple):
    """The axes of each cluster, and how its table is cut into blocks; fields as in :class:`Tree`."""

    axes_ptr: Ints  # (n_clusters+1,)
    axes_card: Ints  # cardinality of each axis
    n_outer: Ints  # (n_clusters,) leading axes outside the block
    block: Ints  # (n_clusters,) cells in a block


class OperandReads(NamedTuple):
    """How each operand is read, block by block; fields as in :class:`Tree`."""

    op_ptr: Ints  # (n_clusters+1,)
    stride_ptr: Ints  # (n_ops,)
    op_mode: Ints  # (n_ops,) this and the following are written by `lay_operands`
    op_map: Ints  # (n_ops,)
    op_inner: Ints  # (n_ops,)
    op_stride: Ints  # strides over the cluster's axes


class PlanScratch(NamedTuple):
    """Scratch for laying operands."""

    place: Ints  # a hash table of mapped operands: a power of two, at least twice as many; clusters repeat
    place_cluster: Ints  # their clusters
    seen: Ints  # (cells of the largest block,)


def hash_size(n_ops: int) -> int:
    """Return how many places a table for so many operands has."""
    return int(2 ** max(1, (2 * n_ops - 1).bit_length()))


def plan_scratch(blocks: ClusterBlocks, n_ops: int) -> PlanScratch:
    """Return scratch for so many operands."""
    place, place_cluster = np.empty((2, hash_size(n_ops)), np.int64)
    return PlanScratch(place, place_cluster, np.empty(int(blocks.block.max(initial=1)), np.int64))


def eliminate_symbolic(scope_ptr: Ints, scope_vars: Ints, order: Ints, position: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Eliminate along an order, by scopes alone; return cluster offsets and scopes, parents and factors' buckets.

    As :func:`eliminate_scopes` writes them, with room for the scopes until they fit.
    """
    n, room = order.size, 4 * order.size + scope_vars.size
    ptr, parent, bucket = np.empty(n + 1, np.int64), np.empty(n, np.int64), np.empty(scope_ptr.size - 1, np.int64)
    while True:
        members = np.empty(room, np.int64)
        if eliminate_scopes(scope_ptr, scope_vars, order, position, ptr, members, parent, bucket):
            return ptr, members[: ptr[n]].copy(), parent, bucket
        room = 4 * room + n


@twofold_kernel
def eliminate_scopes(
    scope_ptr: Ints, scope_vars: Ints, order: Ints, position: Ints, ptr: Ints, members: Ints, parent: Ints, bucket: Ints
) -> bool:
    """Write cluster offsets, cluster scopes, parents and each factor's bucket; False if ``members`` is too short.

    Bucket ``i`` belongs to ``order[i]``; its scope is that variable and everything it meets when eliminated, by
    position. Its parent is the bucket of the next variable of its separator, -1 for a root. ``position`` inverts
    ``order`` (-1 for variables that are not eliminated and occur in no scope). Factors with empty scopes get bucket -1.
    Cost: the sum of all cluster sizes, times the log of one.
    """
    n, m = order.size, scope_ptr.size - 1
    bucket[:] = -1
    first_factor = np.full(n, -1, np.int64)
    next_factor = np.full(m, -1, np.int64)
    for f in range(m - 1, -1, -1):
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            p = position[scope_vars[e]]
            if bucket[f] < 0 or p < bucket[f]:
                bucket[f] = p
        if bucket[f] >= 0:
            next_factor[f] = first_factor[bucket[f]]
            first_factor[bucket[f]] = f
    parent[:] = -1
    first_child = np.full(n, -1, np.int64)
    next_child = np.full(n, -1, np.int64)
    ptr[0] = 0
    stamp = np.full(n, -1, np.int64)
    for i in range(n):
        start = ptr[i]
        if start + n - i > members.size:
            return False
        members[start] = i
        stamp[i] = i
        end = start + 1
        f = first_factor[i]
        while f >= 0:
            for e in range(scope_ptr[f], scope_ptr[f + 1]):
                p = position[scope_vars[e]]
                if stamp[p] != i:
                    stamp[p] = i
                    members[end] = p
                    end += 1
            f = next_factor[f]
        c = first_child[i]
        while c >= 0:
            for k in range(ptr[c] + 1, ptr[c + 1]):
                p = members[k]
                if stamp[p] != i:
                    stamp[p] = i
                    members[end] = p
                    end += 1
            c = next_child[c]
        members[start:end].sort()
        ptr[i + 1] = end
        if end - start > 1:
            parent[i] = members[start + 1]
            next_child[i] = first_child[parent[i]]
            first_child[parent[i]] = i
    return True


def absorb_clusters(ptr: Ints, parent: Ints, temperature: Floats, enabled: bool) -> tuple[Ints, Ints, Ints, Ints]:
    """Return owner, eliminated counts, last buckets and ranks, as :func:`merge_buckets` writes them."""
    owner, eliminated, last, rank = (np.empty(parent.size, np.int64) for _ in range(4))
    n_owners = merge_buckets(ptr, parent, temperature, enabled, owner, eliminated, last, rank)
    return owner, eliminated, last, rank[:n_owners]


@twofold_kernel
def merge_buckets(
    ptr: Ints, parent: Ints, temperature: Floats, enabled: bool, owner: Ints, eliminated: Ints, last: Ints, rank: Ints
) -> int:
    """Merge each bucket that is contained in one child into that child; return how many are left.

    Bucket ``j`` lies inside its child ``i`` when ``|C_j| = |C_i| - eliminated_i``; merged buckets must have one
    temperature. ``owner[i]`` is the bucket that stands for ``i``; ``eliminated[i]`` how many variables it
    eliminates; ``rank`` lists the owners, children before parents (by the last variable each eliminates). Linear.
    """
    n = parent.size
    for i in range(n):
        owner[i], eliminated[i], last[i] = i, 1, i
    if enabled:
        for i in range(n):
            if owner[i] != i:
                continue
            j = parent[i]
            while (
                j >= 0
                and owner[j] == j
                and temperature[j] == temperature[i]
                and ptr[j + 1] - ptr[j] == ptr[i + 1] - ptr[i] - eliminated[i]
            ):
                owner[j] = i
                eliminated[i] += 1
                last[i] = j
                j = parent[j]
    at_last = np.full(n, -1, np.int64)
    for i in range(n):
        if owner[i] == i:
            at_last[last[i]] = i
    n_owners = 0
    for i in range(n):
        if at_last[i] >= 0:
            rank[n_owners] = at_last[i]
            n_owners += 1
    return n_owners


@twofold_kernel
def choose_blocks(
    ptr: Ints,
    card: Ints,
    eliminated: Ints,
    least: int,
    most: int,
    split: bool,
    n_outer: Ints,
    block: Ints,
    cells: Ints,
    columns: Ints,
) -> None:
    """Split each cluster's axes into outer ones and an inner block of at least ``least`` cells where there are any.

    The block is the shortest suffix of axes with ``least`` cells or more, one axis shorter if that exceeds ``most``
    (unless it would be a single axis); with ``split`` it holds separator axes only. Writes the number of outer axes,
    the sizes of the block and of the table, and its columns: the states of the separator, which is all but the first
    ``eliminated`` axes.
    """
    for c in range(ptr.size - 1):
        size = 1
        a = ptr[c + 1]
        first = ptr[c] + eliminated[c] if split else ptr[c]
        while a > first and size < least and (size == 1 or size * card[a - 1] <= most):
            a -= 1
            size *= card[a]
        n_outer[c] = a - ptr[c]
        block[c] = size
        cells[c] = 1
        for a in range(ptr[c + 1] - 1, ptr[c] - 1, -1):
            if a == ptr[c] + eliminated[c] - 1:
                columns[c] = cells[c]
            cells[c] *= card[a]
        if eliminated[c] == 0:
            columns[c] = cells[c]


@twofold_kernel
def factor_cells(
    scopes: Scopes, position: Ints, table_ptr: Ints, factors: Ints, sorted_scope: Ints, source: Ints, target: Ints
) -> None:
    """Turn factors' tables to the tree's axis order: where each cell of their slots comes from and goes to.

    ``sorted_scope`` gets the positions of each factor's variables in ascending order; ``source`` the cell of
    ``theta`` and ``target`` the cell of ``mu_factor`` for each slot cell. Equivalent to ``np.transpose`` of an index
    table, factor by factor. Cost: cells, and the square of arities.
    """
    card, _, scope_ptr, scope_vars, cell_ptr = scopes
    stride, extent = axis_room(scope_ptr)
    k = 0
    first = 0
    for f in factors:
        arity = scope_ptr[f + 1] - scope_ptr[f]
        step = 1
        for e in range(scope_ptr[f + 1] - 1, scope_ptr[f] - 1, -1):  # insert each axis where its position belongs
            v = scope_vars[e]
            a = scope_ptr[f + 1] - 1 - e
            while a > 0 and sorted_scope[first + a - 1] > position[v]:
                sorted_scope[first + a] = sorted_scope[first + a - 1]
                stride[a] = stride[a - 1]
                extent[a] = extent[a - 1]
                a -= 1
            sorted_scope[first + a] = position[v]
            stride[a] = step
            extent[a] = card[v]
            step *= card[v]
        first += arity
        size = table_index(extent, stride, 0, arity, 0, cell_ptr[f], source, k)
        for i in range(k, k + size):
            target[i] = source[i] + (table_ptr[f] - cell_ptr[f])
        k += size


@twofold_kernel
def same_pattern(blocks: ClusterBlocks, reads: OperandReads, c: int, o: int, d: int, q: int) -> bool:
    """Tell whether operand ``o`` of cluster ``c`` and ``q`` of ``d`` lie alike in their blocks: the same map will do.

    They do if the blocks' axes of more than one state agree in size and in whether the operand has them.
    """
    ptr, card, n_outer, _ = blocks
    op_stride, here, there = reads.op_stride, reads.stride_ptr[o], reads.stride_ptr[q]
    a, b = ptr[c + 1] - ptr[c] - 1, ptr[d + 1] - ptr[d] - 1
    while True:
        while a >= n_outer[c] and card[ptr[c] + a] == 1:
            a -= 1
        while b >= n_outer[d] and card[ptr[d] + b] == 1:
            b -= 1
        first_ended, second_ended = a < n_outer[c], b < n_outer[d]
        if first_ended or second_ended:
            return bool(first_ended and second_ended)
        if card[ptr[c] + a] != card[ptr[d] + b]:
            return False
        if (op_stride[here + a] > 0) != (op_stride[there + b] > 0):
            return False
        a -= 1
        b -= 1


@twofold_kernel(cost=1.5)
def lay_operands(
    blocks: ClusterBlocks, axes: Ints, op_axes_ptr: Ints, op_axes: Ints, scratch: PlanScratch, reads: OperandReads
) -> int:
    """Describe how each operand of each cluster is read, block by block; return the size of the index maps.

    ``axes`` are the clusters' axes by position; ``op_axes`` lists each operand's variables by position (its table is in
    that order), from ``op_axes_ptr (n_ops+1,)``. Its stride along every axis of
    the cluster goes to ``op_stride`` (0: the operand lacks it). Within a block its cells are one scalar, a run
    of the whole block, a shorter run tiled over it, cells that are each repeated, or anything else: ``op_mode``. For
    the last three :func:`write_maps` writes maps: ``op_map`` says where ``2 * block`` numbers start. The first half
    is for reading: cell ``i`` of the block reads ``map[i]``. The second half is for adding: ``op_inner`` cells of the
    operand fall into the block, and row ``t`` of ``map.reshape(-1, op_inner)`` lists one cell of the block for each.
    Equivalent to ``np.broadcast_to`` of the operand over the cluster's axes. Equal maps are shared. Cost: operands
    times axes.
    """
    ptr, card, n_outer, block = blocks
    op_ptr, stride_ptr, op_mode, op_map, op_inner, op_stride = reads
    place, place_cluster, used, n_places = scratch.place, scratch.place_cluster, 0, scratch.place.size
    for h in range(n_places):
        place[h] = -1
    for c in range(ptr.size - 1):
        start, width = ptr[c], ptr[c + 1] - ptr[c]
        for o in range(op_ptr[c], op_ptr[c + 1]):
            k, at = op_axes_ptr[o + 1] - 1, stride_ptr[o]
            step = 1
            shared = 0
            inner = 0
            changes = 0
            last_has = False
            previous = False
            key = 0
            for a in range(width - 1, -1, -1):  # both lists ascend by position: one backward merge
                stride = 0
                if k >= op_axes_ptr[o] and op_axes[k] == axes[start + a]:
                    stride = step
                    step *= card[start + a]
                    k -= 1
                op_stride[at + a] = stride
                if a >= n_outer[c] and card[start + a] > 1:
                    has = stride > 0
                    if inner == 0:
                        last_has = has
                    elif has != previous:
                        changes += 1
                    previous = has
                    inner += 1
                    shared += has
                    key = (key * 1000003 + 2 * card[start + a] + (stride > 0)) & 0x7FFFFFFFFFFF
            count = 1
            for a in range(n_outer[c], width):
                if op_stride[at + a] > 0:
                    count *= card[start + a]
            op_inner[o] = count
            if shared == 0:
                op_mode[o] = SCALAR
                continue
            if shared == inner:
                op_mode[o] = RUN
                continue
            op_mode[o] = MAPPED
            if changes == 1:  # the axes it has are together at one end of the block
                if last_has and count >= _LONG_RUN:
                    op_mode[o] = TILED
                elif not last_has and block[c] // count >= _LONG_RUN:
                    op_mode[o] = REPEATED
            h = key & (n_places - 1)
            while place[h] >= 0 and not same_pattern(blocks, reads, c, o, place_cluster[h], place[h]):
                h = (h + 1) & (n_places - 1)
            if place[h] >= 0:
                op_map[o] = op_map[place[h]]
                continue
            place[h] = o
            place_cluster[h] = c
            op_map[o] = used
            used += 2 * block[c]
    return used


@twofold_kernel(cost=2.0)
def write_maps(blocks: ClusterBlocks, reads: OperandReads, scratch: PlanScratch, maps: BlockMaps) -> None:
    """Write the index maps that :func:`lay_operands` has described, each where it occurs first. Cost: their size."""
    ptr, card, n_outer, block = blocks
    op_ptr, stride_ptr, op_mode, op_map, op_inner, op_stride = reads
    seen, used = scratch.seen, 0
    for c in range(ptr.size - 1):
        for o in range(op_ptr[c], op_ptr[c + 1]):
            if op_mode[o] == SCALAR or op_mode[o] == RUN or op_map[o] != used:
                continue
            used += table_index(card, op_stride, ptr[c] + n_outer[c], ptr[c + 1], stride_ptr[o] - ptr[c], 0, maps, used)
            for i in range(op_inner[o]):
                seen[i] = 0
            for i in range(block[c]):
                cell = np.int64(maps[used - block[c] + i])
                maps[used + seen[cell] * op_inner[o] + cell] = i
                seen[cell] += 1
            used += block[c]
