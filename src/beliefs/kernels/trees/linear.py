r"""Passes over a cluster tree in the scaled linear domain: sums at the speed of memory.

Collect, children first: :math:`\phi_C = \prod_o t_o` over the cluster's factors and its children's messages, and
:math:`m_C(s) = \sum_r \phi_C(r, s)`, scaled to a maximum of one. Distribute, parents first, in the division form of
[jensen1990]: :math:`b_C(r,s) = \phi_C(r,s)\, b_S(s) / m_C(s)`, and :math:`b_C` is summed out onto every operand.

Numerics: all numbers are non-negative, so products, sums and quotients keep full relative precision as long as nothing
underflows. Every operand is scaled to a maximum of one and its dynamic range (log of maximum over smallest non-zero) is
known; if the ranges of a cluster's operands add up to more than ``limit`` the pass stops and says so, and the caller
turns to the log domain. Distribute needs no such check: it only makes probabilities.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.trees.blocks import (
    MAPPED,
    REPEATED,
    RUN,
    SCALAR,
    TILED,
    Tree,
    add_block,
    advance,
    cluster_view,
    largest_block,
    odometer,
    rewind,
    sum_block,
)
from beliefs.typing import BlockMaps, Floats, Ints

__all__ = ["DONE", "OUT_OF_RANGE", "STOPPED", "ZERO", "collect_linear", "distribute_linear"]

DONE, ZERO, OUT_OF_RANGE, STOPPED = 0, 1, 2, 3


@twofold_kernel
def multiply_block(
    modes: Ints, starts: Ints, inner: Ints, maps: BlockMaps, n_ops: int, offset: Ints, tables: Floats, out: Floats
) -> bool:
    """Write the product of ``n_ops`` operands over one block to ``out``; return whether it may be non-zero.

    Equivalent to ``out[:] = prod(broadcast(t_o))``. Scalars are multiplied first; a zero among them skips the rest.
    """
    size = out.size
    scalar = 1.0
    for k in range(n_ops):
        if modes[k] == SCALAR:
            scalar *= tables[offset[k]]
    if scalar == 0.0:
        for i in range(size):
            out[i] = 0.0
        return False
    fresh = True
    done = -1  # two gathered operands at the start are multiplied in one pass
    if n_ops > 1 and modes[0] == MAPPED and modes[1] == MAPPED:
        a, at_a = tables[offset[0] :], maps[starts[0] : starts[0] + size]
        b, at_b = tables[offset[1] :], maps[starts[1] : starts[1] + size]
        for i in range(size):
            out[i] = scalar * a[at_a[i]] * b[at_b[i]]
        fresh, done = False, 1
    for k in range(done + 1, n_ops):
        if modes[k] == RUN:
            multiply_run(fresh, scalar, tables[offset[k] : offset[k] + size], out)
        elif modes[k] == TILED:
            run = tables[offset[k] : offset[k] + inner[k]]
            for t in range(0, size, inner[k]):
                multiply_run(fresh, scalar, run, out[t : t + inner[k]])
        elif modes[k] == REPEATED:
            times = size // inner[k]
            for j in range(inner[k]):
                multiply_constant(fresh, scalar, tables[offset[k] + j], out[j * times : (j + 1) * times])
        elif modes[k] == MAPPED:
            multiply_mapped(fresh, scalar, tables[offset[k] :], maps[starts[k] : starts[k] + size], out)
        fresh = fresh and modes[k] == SCALAR
    if fresh:
        for i in range(size):
            out[i] = scalar
    return True


@twofold_kernel
def multiply_run(fresh: bool, scalar: float, run: Floats, out: Floats) -> None:
    """Set ``out = scalar * run`` where ``fresh``, else ``out *= run``."""
    if fresh:
        for i in range(out.size):
            out[i] = scalar * run[i]
    else:
        for i in range(out.size):
            out[i] *= run[i]


@twofold_kernel
def multiply_constant(fresh: bool, scalar: float, value: float, out: Floats) -> None:
    """Set ``out = scalar * value`` where ``fresh``, else ``out *= value``."""
    if fresh:
        for i in range(out.size):
            out[i] = scalar * value
    else:
        for i in range(out.size):
            out[i] *= value


@twofold_kernel
def multiply_mapped(fresh: bool, scalar: float, rest: Floats, where: BlockMaps, out: Floats) -> None:
    """Set ``out = scalar * rest[where]`` where ``fresh``, else ``out *= rest[where]``."""
    if fresh:
        for i in range(out.size):
            out[i] = scalar * rest[where[i]]
    else:
        for i in range(out.size):
            out[i] *= rest[where[i]]


@twofold_kernel(cost=2.0)
def collect_linear(tree: Tree, tables: Floats, ranges: Floats, limit: float, tops: Floats) -> int:
    """Compute all messages, leaves to roots; return DONE, ZERO, OUT_OF_RANGE or STOPPED (by ``tree.stop``).

    ``tables`` holds the factors' slots, scaled to a maximum of one; separator slots are overwritten with messages of
    maximum one, ``ranges (n_slots,)`` likewise, and ``tops (n_clusters,)`` gets what each message was divided by:
    ``log Z = sum(log(tops))`` plus the logs of the factors' own scales.
    Cost: (operands + 1) passes over each block while it is in cache; only messages go to memory.
    """
    offset, digit = odometer(tree)
    maps, slot_ptr = tree.maps, tree.slot_ptr
    scratch = np.empty(largest_block(tree))
    for c in range(tree.block.size):
        slots, modes, starts, inner, extents, strides, n_fast = cluster_view(tree, c)
        n_ops, size, n_outer = slots.size - 1, tree.block[c], tree.n_outer[c]
        spread = 0.0
        for k in range(n_ops):
            spread += ranges[slots[k]]
        if spread > limit:
            return OUT_OF_RANGE
        message = tables[slot_ptr[slots[n_ops]] : slot_ptr[slots[n_ops] + 1]]
        message[:] = 0.0
        own = maps[starts[n_ops] + size : starts[n_ops] + 2 * size]
        rewind(slots, slot_ptr, n_outer, offset, digit)
        out = scratch[:size]
        for _ in range(tree.cell_ptr[c], tree.cell_ptr[c + 1], size):
            if tree.stop[0] != 0:
                return STOPPED
            if multiply_block(modes, starts, inner, maps, n_ops, offset, tables, out):
                total = sum_block(out) if modes[n_ops] == SCALAR else 0.0
                add_block(modes[n_ops], own, inner[n_ops], out, total, offset[n_ops], tables)
            advance(extents, n_fast, n_outer, strides, n_ops + 1, offset, digit)
        top = 0.0
        least = math.inf
        for i in range(message.size):
            top = max(top, message[i])
            if message[i] > 0.0:
                least = min(least, message[i])
        if top == 0.0:
            return ZERO
        ranges[slots[n_ops]] = math.log(top) - math.log(least)
        tops[c] = top
        inverse = 1.0 / top
        for i in range(message.size):
            message[i] *= inverse
    return DONE


@twofold_kernel(cost=2.0)
def distribute_linear(tree: Tree, tables: Floats, tops: Floats, beliefs: Floats) -> None:
    """Compute the marginal of every slot, roots to leaves, into ``beliefs`` (same layout as ``tables``, zeroed).

    Messages in ``tables`` are overwritten with the quotients; a cluster's product is made again, block by block, which
    costs less than keeping it. Cost: two passes per operand over each block in cache.
    """
    offset, digit = odometer(tree)
    maps, slot_ptr = tree.maps, tree.slot_ptr
    scratch = np.empty(largest_block(tree))
    for c in range(tree.block.size - 1, -1, -1):
        slots, modes, starts, inner, extents, strides, n_fast = cluster_view(tree, c)
        n_ops, size, n_outer = slots.size - 1, tree.block[c], tree.n_outer[c]
        begin, end = slot_ptr[slots[n_ops]], slot_ptr[slots[n_ops] + 1]
        message, belief = tables[begin:end], beliefs[begin:end]
        if message.size == 1:  # a root, or a separator of single-state variables
            belief[0] = 1.0
        for i in range(message.size):  # 0/0 is 0
            message[i] = belief[i] / (message[i] * tops[c]) if message[i] > 0.0 else 0.0
        sums = False  # whether some operand is constant within a block
        for k in range(n_ops):
            sums = sums or modes[k] == SCALAR
        block = scratch[:size]
        rewind(slots, slot_ptr, n_outer, offset, digit)
        for _ in range(tree.cell_ptr[c], tree.cell_ptr[c + 1], size):
            if tree.stop[0] != 0:
                return
            if multiply_block(modes, starts, inner, maps, n_ops + 1, offset, tables, block):  # the quotient comes last
                total = sum_block(block) if sums else 0.0
                for k in range(n_ops):
                    cells = maps[starts[k] + size : starts[k] + 2 * size]
                    add_block(modes[k], cells, inner[k], block, total, offset[k], beliefs)
            advance(extents, n_fast, n_outer, strides, n_ops + 1, offset, digit)
