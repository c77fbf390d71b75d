"""Which operands of a cluster to multiply together before they meet its large table: a greedy choice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Ints

__all__ = ["Groups", "OperandScopes", "group_operands"]


class OperandScopes(NamedTuple):
    """The operands of each cluster, and the axes of the slots that they read."""

    op_ptr: Ints  # (n_clusters+1,) operands of each cluster
    op_slot: Ints  # (n_ops,) slot each operand reads
    slot_axes_ptr: Ints  # (n_slots+1,) axes of each slot
    slot_axes: Ints  # variables by position, ascending in a slot


class Groups(NamedTuple):
    """Operands multiplied together; each array has room for as many as there are operands."""

    op_group: Ints  # per operand: its group, or -1
    cluster: Ints  # per group: the cluster it serves
    mask: Ints  # per group: its axes as a bit mask over the cluster's
    into: Ints  # per group: the group it flows into, -1 for the cluster itself


@twofold_kernel
def group_operands(axes_ptr: Ints, axes: Ints, card: Ints, operands: OperandScopes, gain: float, groups: Groups) -> int:
    """Choose groups of operands to multiply together before they meet a large table.

    Multiplying an operand into a table of ``N`` cells costs ``N``; multiplying two first into a table over the union
    of their scopes, of ``U`` cells, costs about ``gain * U`` and saves ``N``. Greedily, the pair of smallest union is
    joined as long as that pays; an operand inside a group's scope joins the group. ``axes_ptr (n_clusters+1,)``,
    ``axes`` and ``card`` are the clusters' axes by position, ascending, and their cardinalities. Writes ``groups`` and
    returns how many there are. Clusters of more than 63 axes or few cells are left alone. Cost: operands^3 of each
    large cluster at worst, taken 48 at a time.
    """
    op_ptr, op_slot, slot_axes_ptr, slot_axes = operands
    op_group, group_cluster, group_mask, group_into = groups
    op_group[:] = -1
    group_into[:] = -1
    n_groups = 0
    mask = np.empty(48, np.int64)
    size = np.empty(48)
    ident = np.empty(48, np.int64)  # operand number, or -1 - group
    for c in range(axes_ptr.size - 1):
        width = axes_ptr[c + 1] - axes_ptr[c]
        first, last = op_ptr[c], op_ptr[c + 1]
        cells = 1.0
        for a in range(axes_ptr[c], axes_ptr[c + 1]):
            cells *= card[a]
        if width > 63 or last - first < 2 or cells < 512.0:
            continue
        live = 0
        following = first
        while True:
            while live < 48 and following < last:
                slot = op_slot[following]
                bits = 0
                a = 0
                amount = 1.0
                for k in range(slot_axes_ptr[slot], slot_axes_ptr[slot + 1]):
                    while axes[axes_ptr[c] + a] != slot_axes[k]:
                        a += 1
                    bits |= 1 << a
                    amount *= card[axes_ptr[c] + a]
                mask[live] = bits
                size[live] = amount
                ident[live] = following
                live += 1
                following += 1
            best = cells / gain
            left = -1
            right = -1
            for i in range(live):
                for j in range(i):
                    union = size[i]
                    extra = mask[j] & ~mask[i]
                    a = axes_ptr[c]
                    while extra > 0 and union < best:
                        if extra & 1:
                            union *= card[a]
                        extra >>= 1
                        a += 1
                    if union < best:
                        best = union
                        left, right = j, i
            if left < 0:
                if following == last:
                    break
                live -= 1  # no pair of these pays: let the largest go and take another
                largest = 0
                for i in range(live + 1):
                    if size[i] > size[largest]:
                        largest = i
                mask[largest], size[largest], ident[largest] = mask[live], size[live], ident[live]
                continue
            union_mask = mask[left] | mask[right]
            if ident[right] < 0 and mask[right] == union_mask:
                left, right = right, left
            if ident[left] < 0 and mask[left] == union_mask:
                group = -1 - ident[left]
            else:
                group = n_groups
                n_groups += 1
                group_cluster[group] = c
                group_mask[group] = union_mask
                if ident[left] < 0:
                    group_into[-1 - ident[left]] = group
                else:
                    op_group[ident[left]] = group
            if ident[right] < 0:
                group_into[-1 - ident[right]] = group
            else:
                op_group[ident[right]] = group
            mask[left], size[left], ident[left] = union_mask, best, -1 - group
            live -= 1
            mask[right], size[right], ident[right] = mask[live], size[live], ident[live]
    return n_groups
