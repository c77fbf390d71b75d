r"""Rounding errors of a pass over a tree in the log domain, from the tables that it left behind.

A message :math:`m(s) = w \log \sum_x \exp(u(x,s)/w)` with :math:`u = \sum_o t_o` passes the errors of its operands on
with a factor of at most 1 (its derivatives are probabilities, for weights of either sign; so are a maximum's). Its own
roundings, in units of :math:`2^{-53}`:

==========================  =======================================================================================
adding n operands           at most :math:`n \sum_o \max |t_o|`, and as much again for the sums' second order
the exponents               :math:`(u - top)/w` is wrong by :math:`3 |a|` where :math:`a \le 0` is the result, and
                            :math:`|a| e^a \le 1/e`; ``exp`` by 4: of K terms :math:`1.2 K + 4`, and K for adding them
``log``, times w            :math:`5 \log K`; altogether :math:`(3 K + 10) |w|`
adding it to the top        :math:`\max |m|`
==========================  =======================================================================================

The errors of all clusters add up at the roots.
"""

from __future__ import annotations

import math

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.dual.structure import Axes, Links
from beliefs.kernels.trees.blocks import Tree
from beliefs.kernels.trees.replicas import end_of_replicas
from beliefs.typing import Floats, Ints

__all__ = [
    "forest_deviation",
    "junction_roundings",
    "log_pass_roundings",
    "potential_magnitude",
    "potential_span",
    "split_roundings",
]


@twofold_kernel
def _largest(values: Floats) -> float:
    """Return the largest absolute value of the finite ones, 0 if there are none."""
    largest = 0.0
    for i in range(values.size):
        size = abs(values[i])
        if size < math.inf:
            largest = max(largest, size)
    return largest


@twofold_kernel
def potential_magnitude(cell_ptr: Ints, factor_size: Ints, theta: Floats) -> float:
    """Return the sum over all factors of the largest absolute value in their tables; hard zeros do not count."""
    total = 0.0
    for f in range(factor_size.size):
        largest = 0.0  # as _largest, which is compiled for arrays that may be written to, and these may not
        for i in range(cell_ptr[f], cell_ptr[f] + factor_size[f]):
            size = abs(theta[i])
            if size < math.inf:
                largest = max(largest, size)
        total += largest
    return total


@twofold_kernel
def potential_span(slot_ptr: Ints, n_factors: int, tables: Floats) -> float:
    """Return the sum of the ranges of the first ``n_factors`` slots; hard zeros do not count."""
    span = 0.0
    for f in range(n_factors):
        least, most = math.inf, -math.inf
        for i in range(slot_ptr[f], slot_ptr[f + 1]):
            if tables[i] > -math.inf:
                least, most = min(least, tables[i]), max(most, tables[i])
        span += max(most - least, 0.0)
    return span


@twofold_kernel
def log_pass_roundings(tree: Tree, weight: Floats, tables: Floats, largest: Floats) -> float:
    """Return the error of the sum of the roots' messages, in units of 2^-53, after a pass that left ``tables``.

    ``weight (n_clusters,)`` are the weights of the power sums, ``largest (n_slots,)`` is scratch. Cost: one read of all
    slots.
    """
    slot_ptr = tree.slot_ptr
    for s in range(largest.size):
        largest[s] = _largest(tables[slot_ptr[s] : slot_ptr[s + 1]])
    total = 0.0
    for c in range(tree.block.size):
        first, own = tree.op_ptr[c], tree.op_ptr[c + 1] - 1
        together = 0.0
        for o in range(first, own):
            together += largest[tree.op_slot[o]]
        out = tree.op_slot[own]
        rows = (tree.cell_ptr[c + 1] - tree.cell_ptr[c]) / (slot_ptr[out + 1] - slot_ptr[out])
        total += (own - first + 2.0) * together + largest[out] + abs(weight[c]) * (3.0 * rows + 10.0)
        if slot_ptr[out + 1] - slot_ptr[out] == 1:
            total += largest[out]  # a root, added to the others
    return total


@twofold_kernel
def split_roundings(tree: Tree, shift_at: Ints, weight: Floats, heat: Floats, tables: Floats) -> float:
    r"""Return by how much the bound of a split model may differ from one of the model itself, in units of 2^-53.

    Cost shifts of a variable's replicas should add up to zero, and their weights to its temperature ``heat[c]``; what
    they add up to instead counts. Another table changes the value by at most its largest entry, another temperature by
    at most :math:`\log K` times the difference. ``shift_at (n_clusters,)`` as in ``forward_pass``.
    """
    unit = 2.0**-53
    total, c = 0.0, 0
    while c < tree.block.size:
        end, k = end_of_replicas(tree, c), tree.axes_card[tree.axes_ptr[c]]
        n = end - c
        if n > 1:
            rest, sizes = -heat[c], abs(heat[c])
            for r in range(c, end):
                rest += weight[r]
                sizes += abs(weight[r])
            total += (abs(rest) / unit + n * sizes) * math.log(k)
            worst = 0.0
            for x in range(k):
                rest, sizes = 0.0, 0.0
                for r in range(c, end):
                    rest += tables[shift_at[r] + x]
                    sizes += abs(tables[shift_at[r] + x])
                worst = max(worst, abs(rest) / unit + n * sizes)
            total += worst
        c = end
    return total


@twofold_kernel
def junction_roundings(
    clusters: Axes, weight: Floats, tables: Floats, separators: Axes, sep_weight: Floats, sep_tables: Floats,
    links: Links, largest: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Return the errors of a bound on a junction graph, in units of 2^-53: of computing it, and of moving its tables.

    Computing: the power sums of all axes of all terms. Moving: what one sweep may change the sum of all tables by. An
    update of a separator with n links reads each of its tables, adds n + 1 of them, divides the sum again with some
    eight operations a part, and subtracts the parts; all of them are no larger than the tables before and after.
    ``largest (n_clusters,)`` is scratch. Cost: one read of all tables.
    """
    axis_ptr, card, cell_ptr = clusters.ptr, clusters.card, clusters.cell
    sep_ptr, sep_card, sep_cell = separators.ptr, separators.card, separators.cell
    link_ptr, link_cluster = links.ptr, links.cluster
    here, moved = 0.0, 0.0
    for c in range(largest.size):
        largest[c] = _largest(tables[cell_ptr[c] : cell_ptr[c + 1]])
        here += 3.0 * (axis_ptr[c + 1] - axis_ptr[c] + 1) * largest[c]
        for a in range(axis_ptr[c], axis_ptr[c + 1]):
            here += weight[a] * (3.0 * card[a] + 10.0)
    for s in range(link_ptr.size - 1):
        together = _largest(sep_tables[sep_cell[s] : sep_cell[s + 1]])
        here += 3.0 * (sep_ptr[s + 1] - sep_ptr[s] + 1) * together
        for a in range(sep_ptr[s], sep_ptr[s + 1]):
            here += sep_weight[a] * (3.0 * sep_card[a] + 10.0)
        n_links = link_ptr[s + 1] - link_ptr[s]
        for link in range(link_ptr[s], link_ptr[s + 1]):
            together += largest[link_cluster[link]]
        moved += (n_links + 12.0) * together if n_links > 0 else 0.0
    return here, 2.0 * moved


@twofold_kernel
def forest_deviation(
    branch_ptr: Ints, scope_ptr: Ints, scope_vars: Ints, table_ptr: Ints, card: Ints, state_ptr: Ints, tree: Floats,
    mu: Floats, sums: Floats,
) -> float:  # fmt: skip
    """Return by how much the factors of one tree disagree with its variables' marginals, of the worst tree.

    The tables of tree ``t``, axes as in their scopes, are ``branch_ptr[t]:branch_ptr[t + 1]``; distances are sums over
    states, the worst axis of each factor counts, and factors add up. ``sums`` is scratch for the largest cardinality.
    Cost: axes times cells.
    """
    worst = 0.0
    for t in range(branch_ptr.size - 1):
        together = 0.0
        for f in range(branch_ptr[t], branch_ptr[t + 1]):
            size, apart = table_ptr[f + 1] - table_ptr[f], 0.0
            after = size
            for e in range(scope_ptr[f], scope_ptr[f + 1]):
                k, m = card[scope_vars[e]], state_ptr[scope_vars[e]]
                after //= k
                sums[:k] = 0.0
                for i in range(size):
                    sums[(i // after) % k] += tree[table_ptr[f] + i]
                distance = 2.0**-53 * (size // k + 1)  # of these sums themselves
                for x in range(k):
                    distance += abs(sums[x] - mu[m + x])
                apart = max(apart, distance)
            together += apart
        worst = max(worst, together)
    return worst
