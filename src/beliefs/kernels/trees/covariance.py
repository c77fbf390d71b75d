r"""Covariances of all tables with one function, by two passes over a calibrated cluster tree.

For :math:`g(x) = \sum_f g_f(x_f)` and :math:`p(x) = \prod_C b_C / \prod_S b_S`, children first,

.. math:: M_C(s) = E[\text{g below C} \mid s] = \sum_r b_C(r, s)\, G_C(r, s) / b_S(s), \qquad
    G_C = \sum_{f \in C} g_f + \sum_{\text{children}} M,

and parents first, with :math:`D_S(s)` the conditional expectation of everything else minus that of g,

.. math:: A_o(x_o) = \sum_{x_{C \setminus o}} b_C (G_C + D_S), \qquad D_{S'} = A_{S'} / b_{S'} - M_{S'},

so that :math:`A_f(x_f) = p(x_f)\,(E[g \mid x_f] - E[g])`, the covariance of g with the indicator of :math:`x_f`. Only
averages with known probabilities are taken: no logs, no differences of large numbers, and 0/0 is 0.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.trees.blocks import (
    Tree,
    add_block,
    advance,
    cluster_view,
    largest_block,
    odometer,
    rewind,
    sum_block,
)
from beliefs.kernels.trees.linear import multiply_block
from beliefs.kernels.trees.log import add_operands
from beliefs.typing import BlockMaps, Floats, Ints

__all__ = ["tree_covariances"]


@kernel
def _probabilities(
    in_logs: bool, modes: Ints, starts: Ints, inner: Ints, maps: BlockMaps, offset: Ints, tables: Floats,
    quotients: Floats, own: Floats, out: Floats,
) -> None:  # fmt: skip
    """Write one block of a cluster's marginal: its operands times the quotient at its separator, which comes last."""
    last = modes.size - 1
    if in_logs:
        add_operands(modes, starts, maps, last, offset, tables, out)
        add_operands(modes[last:], starts[last:], maps, 1, offset[last:], quotients, own)
        for i in range(out.size):
            out[i] = math.exp(out[i] + own[i])
    elif multiply_block(modes, starts, inner, maps, last, offset, tables, out):
        multiply_block(modes[last:], starts[last:], inner[last:], maps, 1, offset[last:], quotients, own)
        for i in range(out.size):
            out[i] *= own[i]


@kernel
def tree_covariances(
    tree: Tree, in_logs: bool, tables: Floats, quotients: Floats, beliefs: Floats, means: Floats, covariances: Floats
) -> None:
    """Write the covariance of every factor's cells with the function whose tables are in ``means``.

    All arrays have the tree's slots. ``tables`` holds factors and messages, ``quotients`` at separators
    ``b_S / m_C``, both as logs if ``in_logs``; ``beliefs`` the slots' marginals; ``means`` the function's
    tables at factors' slots, its separators are overwritten; ``covariances`` must be zero. Cost: that of collecting and
    distributing, three passes over each block instead of one.
    """
    offset, digit = odometer(tree)
    maps, slot_ptr = tree.maps, tree.slot_ptr
    largest = largest_block(tree)
    scratch, sums = np.empty(largest), np.empty(largest)
    for c in range(tree.block.size):
        slots, modes, starts, inner, extents, strides, n_fast = cluster_view(tree, c)
        n_ops, size, n_outer = slots.size - 1, tree.block[c], tree.n_outer[c]
        begin, end = slot_ptr[slots[n_ops]], slot_ptr[slots[n_ops] + 1]
        means[begin:end] = 0.0
        own = maps[starts[n_ops] + size : starts[n_ops] + 2 * size]
        block, total = scratch[:size], sums[:size]
        rewind(slots, slot_ptr, n_outer, offset, digit)
        for _ in range(tree.cell_ptr[c], tree.cell_ptr[c + 1], size):
            _probabilities(in_logs, modes, starts, inner, maps, offset, tables, quotients, total, block)
            add_operands(modes, starts, maps, n_ops, offset, means, total)
            for i in range(size):
                block[i] *= total[i]
            add_block(modes[n_ops], own, inner[n_ops], block, sum_block(block), offset[n_ops], means)
            advance(extents, n_fast, n_outer, strides, n_ops + 1, offset, digit)
        for i in range(begin, end):
            means[i] = means[i] / beliefs[i] if beliefs[i] > 0.0 else 0.0
    for c in range(tree.block.size - 1, -1, -1):
        slots, modes, starts, inner, extents, strides, n_fast = cluster_view(tree, c)
        n_ops, size, n_outer = slots.size - 1, tree.block[c], tree.n_outer[c]
        for i in range(slot_ptr[slots[n_ops]], slot_ptr[slots[n_ops] + 1]):  # at a root, minus the expectation
            means[i] = covariances[i] / beliefs[i] - means[i] if beliefs[i] > 0.0 else 0.0
        block, total = scratch[:size], sums[:size]
        rewind(slots, slot_ptr, n_outer, offset, digit)
        for _ in range(tree.cell_ptr[c], tree.cell_ptr[c + 1], size):
            _probabilities(in_logs, modes, starts, inner, maps, offset, tables, quotients, total, block)
            add_operands(modes, starts, maps, n_ops + 1, offset, means, total)
            for i in range(size):
                block[i] *= total[i]
            whole = sum_block(block)
            for k in range(n_ops):
                cells = maps[starts[k] + size : starts[k] + 2 * size]
                add_block(modes[k], cells, inner[k], block, whole, offset[k], covariances)
            advance(extents, n_fast, n_outer, strides, n_ops + 1, offset, digit)
