r"""Passes over a cluster tree in the log domain: any temperature, any range of values.

Collect: :math:`u_C = \sum_o \log t_o` and :math:`m_C(s) = \tau \log \sum_r \exp(u_C(r,s)/\tau)`, the maximum at
:math:`\tau = 0`. Distribute: :math:`b_C(r,s) = \exp((u_C(r,s) - m_C(s))/\tau)\, b_S(s)`, at :math:`\tau = 0` the first
maximiser of each column; beliefs are probabilities and live in the linear domain.

``-inf`` is a true zero everywhere; a column of zeros has message ``-inf`` and belief 0. No value is ever ``+inf``.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.tree import Tree, add_block, advance, odometer, rewind
from beliefs.kernels.tree_linear import DONE, ZERO, sum_block
from beliefs.typing import Floats

__all__ = ["collect_log", "distribute_log"]


@kernel
def add_operands(tree: Tree, first: int, n_ops: int, offset, tables, out):  # type: ignore[no-untyped-def]
    """Write the sum of ``n_ops`` log operands over one block to ``out``; equivalent to ``sum(broadcast(t_o))``."""
    size = out.size
    scalar = 0.0
    for k in range(n_ops):
        if tree.op_mode[first + k] == 0:
            scalar += tables[offset[k]]
    for i in range(size):
        out[i] = scalar
    for k in range(n_ops):
        o = first + k
        mode = tree.op_mode[o]
        if mode == 1:
            run = tables[offset[k] : offset[k] + size]
            for i in range(size):
                out[i] += run[i]
        elif mode == 2:
            rest = tables[offset[k] :]
            where = tree.maps[tree.op_map[o] : tree.op_map[o] + size]
            for i in range(size):
                out[i] += rest[where[i]]


@kernel
def columns(tree: Tree, o: int, at: int, out):  # type: ignore[no-untyped-def]
    """Write the position in its slot of operand ``o`` for each cell of a block: ``at``, ``at + i`` or ``at + map``."""
    mode = tree.op_mode[o]
    for i in range(out.size):
        if mode == 0:
            out[i] = at
        elif mode == 1:
            out[i] = at + i
        else:
            out[i] = at + tree.maps[tree.op_map[o] + i]


@kernel
def collect_log(tree: Tree, tables: Floats, phi: Floats) -> int:
    """Compute all clusters' log products ``phi`` and log messages, leaves to roots; return DONE or ZERO.

    ``tables`` holds the factors' log slots; separator slots are overwritten. ``log Z`` is the sum of the roots'
    messages. Cost: as in the linear domain for maxima; two more passes and one ``exp`` a cell for sums.
    """
    offset, digit = odometer(tree)
    column = np.empty(np.max(tree.block), np.int64)
    for c in range(tree.block.size):
        first, n_ops = tree.op_ptr[c], tree.op_ptr[c + 1] - tree.op_ptr[c] - 1
        slot = tree.op_slot[first + n_ops]
        base = tree.slot_ptr[slot]
        message = tables[base : tree.slot_ptr[slot + 1]]
        message[:] = -math.inf
        size, tau = tree.block[c], tree.temperature[c]
        where = column[:size]
        rewind(tree, c, offset, digit)
        for start in range(tree.cell_ptr[c], tree.cell_ptr[c + 1], size):
            out = phi[start : start + size]
            add_operands(tree, first, n_ops, offset, tables, out)
            columns(tree, first + n_ops, offset[n_ops] - base, where)
            for i in range(size):
                message[where[i]] = max(message[where[i]], out[i])
            advance(tree, c, offset, digit)
        if tau > 0.0:
            total = np.zeros(message.size)
            rewind(tree, c, offset, digit)
            for start in range(tree.cell_ptr[c], tree.cell_ptr[c + 1], size):
                out = phi[start : start + size]
                columns(tree, first + n_ops, offset[n_ops] - base, where)
                for i in range(size):
                    if out[i] > -math.inf:
                        total[where[i]] += math.exp((out[i] - message[where[i]]) / tau)
                advance(tree, c, offset, digit)
            for s in range(message.size):
                if message[s] > -math.inf:
                    message[s] += tau * math.log(total[s])
        if np.max(message) == -math.inf:
            return ZERO
    return DONE


@kernel
def distribute_log(tree: Tree, tables: Floats, phi: Floats, beliefs: Floats) -> None:
    """Compute the belief of every slot, roots to leaves, into ``beliefs`` (linear, zeroed on entry)."""
    offset, digit = odometer(tree)
    column = np.empty(np.max(tree.block), np.int64)
    scratch = np.empty(np.max(tree.block))
    for c in range(tree.block.size - 1, -1, -1):
        first, n_ops = tree.op_ptr[c], tree.op_ptr[c + 1] - tree.op_ptr[c] - 1
        slot = tree.op_slot[first + n_ops]
        base, end = tree.slot_ptr[slot], tree.slot_ptr[slot + 1]
        message, belief = tables[base:end], beliefs[base:end]
        if message.size == 1:
            belief[0] = 1.0
        size, tau = tree.block[c], tree.temperature[c]
        where, block = column[:size], scratch[:size]
        taken = np.zeros(message.size, np.bool_)
        rewind(tree, c, offset, digit)
        for start in range(tree.cell_ptr[c], tree.cell_ptr[c + 1], size):
            out = phi[start : start + size]
            columns(tree, first + n_ops, offset[n_ops] - base, where)
            for i in range(size):
                s = where[i]
                block[i] = 0.0
                if belief[s] > 0.0 and out[i] > -math.inf:
                    if tau > 0.0:
                        block[i] = belief[s] * math.exp((out[i] - message[s]) / tau)
                    elif out[i] == message[s] and not taken[s]:
                        taken[s] = True
                        block[i] = belief[s]
            total = sum_block(block)
            if total > 0.0:
                for k in range(n_ops):
                    add_block(tree, first + k, offset[k], block, total, beliefs)
            advance(tree, c, offset, digit)
