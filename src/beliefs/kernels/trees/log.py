r"""Passes over a cluster tree in the log domain: any temperature, any range of values.

Collect: :math:`u_C = \sum_o \log t_o` and :math:`m_C(s) = \tau \log \sum_r \exp(u_C(r,s)/\tau)`, the maximum at
:math:`\tau = 0`. Distribute: :math:`b_C(r,s) = \exp((u_C(r,s) - m_C(s))/\tau)\, b_S(s)`, of either sign of
:math:`\tau`, at :math:`\tau = 0` the first maximiser of each column; beliefs are probabilities and live in the linear
domain.

``-inf`` is a true zero everywhere; a column of zeros has message ``-inf`` and belief 0. No value is ever ``+inf``.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.trees.blocks import (
    MAPPED,
    RUN,
    SCALAR,
    Tree,
    add_block,
    advance,
    cluster_view,
    largest_block,
    odometer,
    rewind,
    sum_block,
)
from beliefs.kernels.trees.linear import DONE, STOPPED, ZERO
from beliefs.typing import BlockMaps, Floats, Ints

__all__ = ["collect_log", "distribute_log"]


@twofold_kernel
def all_zero(logs: Floats) -> bool:
    """Return whether all are -inf."""
    for s in range(logs.size):
        if logs[s] != -math.inf:
            return False
    return True


@twofold_kernel
def add_operands(
    modes: Ints, starts: Ints, maps: BlockMaps, n_ops: int, offset: Ints, tables: Floats, out: Floats
) -> None:
    """Write the sum of ``n_ops`` log operands over one block to ``out``; equivalent to ``sum(broadcast(t_o))``."""
    size = out.size
    scalar = 0.0
    for k in range(n_ops):
        if modes[k] == SCALAR:
            scalar += tables[offset[k]]
    for i in range(size):
        out[i] = scalar
    for k in range(n_ops):
        if modes[k] == RUN:
            run = tables[offset[k] : offset[k] + size]
            for i in range(size):
                out[i] += run[i]
        elif modes[k] >= MAPPED:
            rest = tables[offset[k] :]
            where = maps[starts[k] : starts[k] + size]
            for i in range(size):
                out[i] += rest[where[i]]


@twofold_kernel
def fill_columns(mode: int, where: BlockMaps, at: int, column: Ints) -> None:
    """Write the column of each cell of a block: ``at``, ``at + i`` or ``at + where[i]``."""
    for i in range(column.size):
        if mode == SCALAR:
            column[i] = at
        elif mode == RUN:
            column[i] = at + i
        else:
            column[i] = at + np.int64(where[i])


@twofold_kernel(cost=2.0)
def collect_log(tree: Tree, tables: Floats) -> int:
    """Compute all log messages, leaves to roots; return DONE, ZERO or STOPPED (by ``tree.stop``).

    ``tables`` holds the factors' log slots; separator slots are overwritten. ``log Z`` is the sum of the roots'
    messages. Cost: as in the linear domain for maxima; the products a second time and one ``exp`` a cell for sums.
    """
    offset, digit = odometer(tree)
    largest = largest_block(tree)
    column_scratch, scratch = np.empty(largest, np.int64), np.empty(largest)
    maps, slot_ptr = tree.maps, tree.slot_ptr
    for c in range(tree.block.size):
        slots, modes, starts, inner, extents, strides, n_fast = cluster_view(tree, c)
        n_ops, size, n_outer, tau = slots.size - 1, tree.block[c], tree.n_outer[c], tree.temperature[c]
        base = slot_ptr[slots[n_ops]]
        message = tables[base : slot_ptr[slots[n_ops] + 1]]
        message[:] = -math.inf
        own = maps[starts[n_ops] : starts[n_ops] + size]
        column, out = column_scratch[:size], scratch[:size]
        total = np.zeros(message.size if tau > 0.0 else 0)
        for summing in range(2 if tau > 0.0 else 1):  # first the maximum of each column, then the sum shifted by it
            rewind(slots, slot_ptr, n_outer, offset, digit)
            for _ in range(tree.cell_ptr[c], tree.cell_ptr[c + 1], size):
                if tree.stop[0] != 0:
                    return STOPPED
                add_operands(modes, starts, maps, n_ops, offset, tables, out)
                fill_columns(modes[n_ops], own, offset[n_ops] - base, column)
                if summing:
                    for i in range(size):
                        if out[i] > -math.inf:
                            total[column[i]] += math.exp((out[i] - message[column[i]]) / tau)
                else:
                    for i in range(size):
                        message[column[i]] = max(message[column[i]], out[i])
                advance(extents, n_fast, n_outer, strides, n_ops + 1, offset, digit)
        for s in range(total.size):
            if message[s] > -math.inf:
                message[s] += tau * math.log(total[s])
        if all_zero(message):
            return ZERO
    return DONE


@twofold_kernel(cost=4.0)
def distribute_log(tree: Tree, tables: Floats, beliefs: Floats) -> None:
    """Compute the belief of every slot, roots to leaves, into ``beliefs`` (linear, zeroed on entry)."""
    offset, digit = odometer(tree)
    largest = largest_block(tree)
    column_scratch, scratch, score = np.empty(largest, np.int64), np.empty(largest), np.empty(largest)
    maps, slot_ptr = tree.maps, tree.slot_ptr
    for c in range(tree.block.size - 1, -1, -1):
        slots, modes, starts, inner, extents, strides, n_fast = cluster_view(tree, c)
        n_ops, size, n_outer, tau = slots.size - 1, tree.block[c], tree.n_outer[c], tree.temperature[c]
        base, end = slot_ptr[slots[n_ops]], slot_ptr[slots[n_ops] + 1]
        message, belief = tables[base:end], beliefs[base:end]
        if message.size == 1:
            belief[0] = 1.0
        own = maps[starts[n_ops] : starts[n_ops] + size]
        column, block, out = column_scratch[:size], scratch[:size], score[:size]
        taken = np.zeros(message.size, np.bool_)
        rewind(slots, slot_ptr, n_outer, offset, digit)
        for _ in range(tree.cell_ptr[c], tree.cell_ptr[c + 1], size):
            if tree.stop[0] != 0:
                return
            add_operands(modes, starts, maps, n_ops, offset, tables, out)
            fill_columns(modes[n_ops], own, offset[n_ops] - base, column)
            for i in range(size):
                s = column[i]
                block[i] = 0.0
                if belief[s] > 0.0 and out[i] > -math.inf:
                    if tau != 0.0:
                        block[i] = belief[s] * math.exp((out[i] - message[s]) / tau)
                    elif out[i] == message[s] and not taken[s]:
                        taken[s] = True
                        block[i] = belief[s]
            total = sum_block(block)
            if total > 0.0:
                for k in range(n_ops):
                    cells = maps[starts[k] + size : starts[k] + 2 * size]
                    add_block(modes[k], cells, inner[k], block, total, offset[k], beliefs)
            advance(extents, n_fast, n_outer, strides, n_ops + 1, offset, digit)
