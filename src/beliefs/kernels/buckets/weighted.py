r"""One bucket at a time of weighted mini-bucket: power sums of blocks of a cluster's table, and their statistics.

A cluster's table is a matrix :math:`u(x, s)` with one row a state of the eliminated variable and one column a state of
the separator, the sum of its operands' log tables. Blocks hold whole columns: all rows of some consecutive columns, so
a column is finished when its block is. For a weight :math:`w` (positive, negative, or 0 for the maximum)

.. math::
    m(s) = w \log \sum_x e^{u(x,s)/w}, \qquad p(x | s) = e^{(u(x,s) - m(s))/w}, \qquad
    q(x, s) \propto p(x|s)\, e^{(m(s) + b(s))/w}

with the backward message :math:`b` of the parent; see :mod:`beliefs.inference.buckets.wmb` for what they are good for.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.kernels.trees.blocks import Tree, advance, cluster_view, rewind
from beliefs.kernels.trees.log import add_operands
from beliefs.typing import Floats, Ints

__all__ = ["BucketScratch", "bucket_scratch", "eliminate_bucket", "measure_bucket"]


class BucketScratch(NamedTuple):
    """Scratch for any one bucket of a tree, and for all replicas of any one variable."""

    offset: Ints  # of the operands; see `odometer`
    digit: Ints  # of the axes
    rows: Floats  # (cells of the largest block of a table,)
    base: Floats  # (columns of the longest block,)
    slope: Floats  # (columns of the longest block,)
    sums: Floats  # (3,)
    moment: Floats  # (replicas * states,) of the variable that has most
    entropy: Floats  # (replicas,)


def bucket_scratch(tree: Tree, replicas: int) -> BucketScratch:
    """Return scratch for the largest bucket of a tree in which a variable has so many replicas at most."""
    card = tree.axes_card[tree.axes_ptr[:-1]]
    columns, cells, states = (int(sizes.max(initial=1)) for sizes in (tree.block, tree.block * card, card))
    offset, digit = (np.empty(int(np.diff(ptr).max(initial=1)), np.int64) for ptr in (tree.op_ptr, tree.axes_ptr))
    return BucketScratch(
        offset, digit, *(np.empty(n) for n in (cells, columns, columns, 3, replicas * states, replicas))
    )


@kernel
def power_sum(rows: Floats, weight: float, out: Floats, base: Floats) -> None:
    """Write ``out = weight * log(sum(exp(rows / weight)))`` along the columns; the maximum at weight 0.

    ``rows (k * out.size,)`` row after row; ``base (out.size,)`` is scratch. Shifted by the largest entry of a column,
    by the least for a negative weight. A column of ``-inf`` gives ``-inf``; for a negative weight one such
    entry is enough.
    """
    size = out.size
    k = rows.size // size
    for i in range(size):
        out[i] = rows[i]
    for x in range(1, k):
        row = rows[x * size : (x + 1) * size]
        if weight < 0.0:
            for i in range(size):
                out[i] = min(out[i], row[i])
        else:
            for i in range(size):
                out[i] = max(out[i], row[i])
    if weight == 0.0:
        return
    inverse = 1.0 / weight
    for i in range(size):
        base[i] = 0.0
    for x in range(k):
        row = rows[x * size : (x + 1) * size]
        for i in range(size):
            top = out[i] if out[i] > -math.inf else 0.0
            base[i] += fast_exp((row[i] - top) * inverse)
    for i in range(size):
        out[i] += weight * fast_log(base[i])


@kernel
def eliminate_bucket(tree: Tree, c: int, weight: float, tables: Floats, scratch: BucketScratch) -> float:
    """Write the message of cluster ``c`` to its slot; return its largest entry (its least for a negative weight)."""
    offset, digit, rows, base = scratch.offset, scratch.digit, scratch.rows, scratch.base
    slots, modes, starts, _, extents, strides, n_fast = cluster_view(tree, c)
    n_ops, size, n_outer = slots.size - 1, tree.block[c], tree.n_outer[c]
    cells = size * extents[0]
    rewind(slots, tree.slot_ptr, n_outer, offset, digit)
    extreme = math.inf if weight < 0.0 else -math.inf
    for _ in range(tree.cell_ptr[c], tree.cell_ptr[c + 1], cells):
        at = offset[n_ops]
        for start in range(0, cells, size):
            add_operands(modes, starts, tree.maps, n_ops, offset, tables, rows[start : start + size])
            advance(extents, n_fast, n_outer, strides, n_ops + 1, offset, digit)
        out = tables[at : at + size]
        power_sum(rows[:cells], weight, out, base[:size])
        for i in range(size):
            extreme = min(extreme, out[i]) if weight < 0.0 else max(extreme, out[i])
    return extreme


@kernel
def block_moments(
    rows: Floats,
    weight: float,
    message: Floats,
    back: Floats,
    base: Floats,
    slope: Floats,
    sums: Floats,
    moment: Floats,
) -> None:
    """Add a block of columns to the moments of ``q``: the mass and entropy in ``sums[1:]``, its marginal in ``moment``.

    All are scaled by ``exp(-sums[0])``, the largest exponent met so far; ``message`` gets that of the block.
    """
    size = message.size
    k = rows.size // size
    power_sum(rows, weight, message, base)
    inverse = 1.0 / weight
    for i in range(size):
        slope[i] = 0.0
    for x in range(k):
        row = rows[x * size : (x + 1) * size]
        for i in range(size):
            top = message[i] if message[i] > -math.inf else 0.0
            a = max((row[i] - top) * inverse, -708.0)
            row[i] = fast_exp(a)
            slope[i] += row[i] * a
    largest = -math.inf
    for i in range(size):
        if message[i] > -math.inf:
            largest = max(largest, (message[i] + back[i]) * inverse)
    if largest == -math.inf:
        return
    if largest > sums[0]:
        shrink = math.exp(sums[0] - largest) if sums[0] > -math.inf else 0.0
        sums[0] = largest
        sums[1] *= shrink
        sums[2] *= shrink
        for x in range(k):
            moment[x] *= shrink
    for i in range(size):
        mass = 0.0
        if message[i] > -math.inf:
            mass = fast_exp((message[i] + back[i]) * inverse - sums[0])
        sums[1] += mass
        sums[2] -= mass * slope[i]
        base[i] = mass
    for x in range(k):
        row = rows[x * size : (x + 1) * size]
        total = 0.0
        for i in range(size):
            total += row[i] * base[i]
        moment[x] += total


@kernel
def measure_bucket(
    tree: Tree, c: int, weight: float, tables: Floats, back: Floats, scratch: BucketScratch, moment: Floats
) -> float:
    r"""Write the log marginal of cluster ``c`` on its variable to ``moment``; return its conditional entropy.

    With weight 0, the max-marginal :math:`\max_s u(x,s) + b(s)` and entropy 0. Log marginals are at least -700. The
    message is written too.
    """
    offset, digit, rows, base, slope, sums, _, _ = scratch
    slots, modes, starts, _, extents, strides, n_fast = cluster_view(tree, c)
    n_ops, size, n_outer = slots.size - 1, tree.block[c], tree.n_outer[c]
    k = extents[0]
    cells = size * k
    rewind(slots, tree.slot_ptr, n_outer, offset, digit)
    sums[0], sums[1], sums[2] = -math.inf, 0.0, 0.0
    for x in range(k):
        moment[x] = -math.inf if weight == 0.0 else 0.0
    for _ in range(tree.cell_ptr[c], tree.cell_ptr[c + 1], cells):
        at = offset[n_ops]
        for start in range(0, cells, size):
            add_operands(modes, starts, tree.maps, n_ops, offset, tables, rows[start : start + size])
            advance(extents, n_fast, n_outer, strides, n_ops + 1, offset, digit)
        behind = back[at : at + size]
        if weight != 0.0:
            block_moments(
                rows[:cells], weight, tables[at : at + size], behind, base[:size], slope[:size], sums, moment[:k]
            )
            continue
        for x in range(k):
            row = rows[x * size : (x + 1) * size]
            for i in range(size):
                moment[x] = max(moment[x], row[i] + behind[i])
    if weight == 0.0:
        return 0.0
    for x in range(k):
        share = moment[x] / sums[1] if sums[1] > 0.0 else 1.0 / k
        moment[x] = max(math.log(share) if share > 0.0 else -700.0, -700.0)
    return sums[2] / sums[1] if sums[1] > 0.0 else 0.0
