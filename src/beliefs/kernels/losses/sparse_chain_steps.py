r"""Steps of block-coordinate Frank-Wolfe over chains with sparse attributes; see :mod:`.chain_blocks`.

The weights of states are those of the pairs (attribute, label), by attribute. A step reads and writes the weights of
the attributes that its chain has, and no others: :math:`d` lies in a piece of memory with a slot for each of them.

Cost of a step: a few operations for each label of each attribute of each token, ``2 n K^2`` for the labelling, and a
pass over the block's cells; nothing depends on the number of weights. Numerics: everything finite, sums in order.
"""

from __future__ import annotations

from typing import NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.kernels.chains.features import LabelPairs, Occurrences
from beliefs.kernels.losses.chain_blocks import (
    BlockShape,
    ChainBlockData,
    Room,
    begin_rows,
    chosen_step,
    find_path,
    finish_step,
    step_by_batches,
    write_residual,
)
from beliefs.kernels.losses.frank_wolfe import DualArrays
from beliefs.typing import Floats, Ints

__all__ = ["SparseFeatures", "sparse_steps"]


class SparseFeatures(NamedTuple):
    """Attributes of all tokens, the pairs with weights, and where d has the attributes of the chain at hand."""

    occurrences: Occurrences
    ones: bool  # whether all values are one, and are not given
    pairs: LabelPairs
    slot: Ints  # (n_attributes,) where d of an attribute begins, -1: nowhere
    touched: Ints  # (attributes of a chain at most,) those that have a slot


@kernel
def _solve(
    at: int, block: int, weights: Floats, data: ChainBlockData, shape: BlockShape, tokens: SparseFeatures, room: Room
) -> None:
    """Score a chain and find its labelling."""
    ptr, attribute, value = tokens.occurrences
    pair_ptr, label = tokens.pairs
    ones, first = tokens.ones, data.starts[block]
    begin_rows(block, data, shape, weights, room.rows)
    for t in range(first, data.starts[block + 1]):
        row = (t - first) * shape.width
        for i in range(ptr[t], ptr[t + 1]):
            v = 1.0 if ones else value[i]
            for f in range(pair_ptr[attribute[i]], pair_ptr[attribute[i] + 1]):
                room.rows[row + label[f]] += v * weights[f]
    find_path(at, block, data, shape, weights, room)


@kernel
def _pull(block: int, data: ChainBlockData, shape: BlockShape, tokens: SparseFeatures, room: Room) -> int:
    """Write d of the attributes of a chain, each to its slot; return how many attributes there are."""
    ptr, attribute, value = tokens.occurrences
    pair_ptr, label = tokens.pairs
    ones, first = tokens.ones, data.starts[block]
    count, size = 0, 0
    for t in range(first, data.starts[block + 1]):
        row = (t - first) * shape.width
        for i in range(ptr[t], ptr[t + 1]):
            a, v = attribute[i], 1.0 if ones else value[i]
            begin, n = pair_ptr[a], pair_ptr[a + 1] - pair_ptr[a]
            if tokens.slot[a] < 0:
                tokens.slot[a], tokens.touched[count] = size, a
                for f in range(n):
                    room.pulled[size + f] = 0.0
                count, size = count + 1, size + n
            for f in range(n):
                room.pulled[tokens.slot[a] + f] += v * room.rows[row + label[begin + f]]
    return count


@kernel
def _move(
    at: int, block: int, dual: DualArrays, data: ChainBlockData, shape: BlockShape, tokens: SparseFeatures, room: Room
) -> None:
    """Make the step of a chain towards its labelling."""
    weights, lag, pair_ptr = dual.weights, dual.lag, tokens.pairs.ptr
    write_residual(at, block, data, shape, dual.cells, room)
    count = _pull(block, data, shape, tokens, room)
    slope, norm = 0.0, 0.0
    for i in range(count):
        a = tokens.touched[i]
        shift = tokens.slot[a] - pair_ptr[a]
        for f in range(pair_ptr[a], pair_ptr[a + 1]):
            slope += weights[f] * room.pulled[f + shift]
            norm += room.pulled[f + shift] * room.pulled[f + shift]
    step = chosen_step(at, block, dual, data, shape, room, slope, norm)
    factor, late = -step * data.scale[block], 0.5 * dual.numbers[0] * (dual.numbers[0] + 1.0)
    for i in range(count):
        a = tokens.touched[i]
        shift = tokens.slot[a] - pair_ptr[a]
        tokens.slot[a] = -1
        if step > 0.0:
            for f in range(pair_ptr[a], pair_ptr[a + 1]):
                change = factor * room.pulled[f + shift]
                weights[f] += change
                lag[f] += late * change
    finish_step(at, block, dual, data, shape, room, step)


@kernel
def sparse_steps(
    dual: DualArrays, data: ChainBlockData, shape: BlockShape, tokens: SparseFeatures, order: Ints, batch: int,
    room: Room,
) -> None:  # fmt: skip
    """Make one step for each chain in ``order``, ``batch`` at a time at the same weights.

    Equivalent to :func:`~beliefs.kernels.losses.frank_wolfe.update_block` with the planes of the best labellings.
    Shapes: as in the structures; ``room.pulled`` has a number for each label of each attribute of a chain.
    """
    step_by_batches(_solve, _move, dual, data, shape, tokens, order, batch, room)
