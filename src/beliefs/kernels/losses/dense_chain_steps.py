r"""Steps of block-coordinate Frank-Wolfe over chains with dense features; see :mod:`.chain_blocks`.

The weights of states lie by feature, ``(D, width)``, so that a feature is a few vectors. The features of a chain are
first listed without their zeros; :math:`d = X^\top r` is made in memory that stays in cache.

Cost of a step: ``4 K`` flops a feature that is not zero, ``2 n K^2`` for the labelling, and a pass each over the
weights and over the block's cells. Numerics: everything finite; sums run in explicit vectors or in loops that only
read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from beliefs.kernels._jit import inlined_kernel, kernel
from beliefs.kernels.chains.features import add_rows, add_to_rows
from beliefs.kernels.losses.chain_blocks import (
    BlockShape,
    ChainBlockData,
    Room,
    add_change,
    begin_rows,
    chosen_step,
    find_path,
    finish_step,
    slope_and_norm,
    step_by_batches,
    write_residual,
)
from beliefs.kernels.losses.frank_wolfe import DualArrays
from beliefs.kernels.primitives.memory import get, onward, put
from beliefs.kernels.primitives.simd import fill4, store4
from beliefs.typing import Floats, Ints

__all__ = ["DenseFeatures", "dense_steps"]


class DenseFeatures(NamedTuple):
    """The features of some tokens, and room to list those of a batch of b chains, n tokens at most."""

    values: Floats  # (tokens * D,) without the intercept
    start: Ints  # (n_blocks,) the token at which those of a chain begin
    given: int  # D
    intercept: bool  # whether there is a further feature of 1
    list_ptr: Ints  # (b * (n + 1),)
    listed: Ints  # (b * n * (D + 1) + 1,) features that are not zero
    value: Floats  # (b * n * (D + 1) + 1,)


@kernel
def _list(at: int, n: int, shape: BlockShape, tokens: DenseFeatures, block: int) -> None:
    """List the features of a chain that are not zero, and the intercept, as the batch's number ``at``."""
    given = tokens.given
    begin, count = at * (shape.longest + 1), at * shape.longest * (given + 1)
    listed, value = tokens.listed, tokens.value
    tokens.list_ptr[begin] = count
    for t in range(n):
        row = onward(tokens.values, (tokens.start[block] + t) * given)
        for f in range(given):
            v = get(row, f)
            put(listed, count, f)
            put(value, count, v)
            count += 1 if v != 0.0 else 0
        if tokens.intercept:
            put(listed, count, given)
            put(value, count, 1.0)
            count += 1
        tokens.list_ptr[begin + t + 1] = count


@inlined_kernel
def _clear(n: int, out: Any) -> None:
    """Write zeros; n is a multiple of four."""
    zero = fill4(0.0)
    for j in range(0, n, 4):
        store4(out, j, zero)


@kernel
def _solve(
    at: int, block: int, weights: Floats, data: ChainBlockData, shape: BlockShape, tokens: DenseFeatures, room: Room
) -> None:
    """Score a chain and find its labelling."""
    n, width = data.starts[block + 1] - data.starts[block], shape.width
    _list(at, n, shape, tokens, block)
    begin_rows(block, data, shape, weights, room.rows)
    lists, listed = onward(tokens.list_ptr, at * (shape.longest + 1)), tokens.listed
    for t in range(n):
        row = onward(room.rows, t * width)
        if get(lists, t) < get(lists, t + 1):
            add_rows(get(lists, t), get(lists, t + 1), listed, tokens.value, False, width, weights, row)
    find_path(at, block, data, shape, weights, room)


@kernel
def _move(
    at: int, block: int, dual: DualArrays, data: ChainBlockData, shape: BlockShape, tokens: DenseFeatures, room: Room
) -> None:
    """Make the step of a chain towards its labelling."""
    n, width = data.starts[block + 1] - data.starts[block], shape.width
    write_residual(at, block, data, shape, dual.cells, room)
    pulled, residual = room.pulled, room.rows
    _clear(shape.state_weights, pulled)
    lists, listed = onward(tokens.list_ptr, at * (shape.longest + 1)), tokens.listed
    for t in range(n):
        if get(lists, t) < get(lists, t + 1):
            row = onward(residual, t * width)
            add_to_rows(get(lists, t), get(lists, t + 1), listed, tokens.value, False, width, row, pulled)
    slope, norm = slope_and_norm(shape.state_weights, dual.weights, pulled)
    step = chosen_step(at, block, dual, data, shape, room, slope, norm)
    if step > 0.0:
        late = 0.5 * dual.numbers[0] * (dual.numbers[0] + 1.0)
        change = -step * data.scale[block]
        add_change(shape.state_weights, change, late, pulled, dual.weights, dual.lag)
    finish_step(at, block, dual, data, shape, room, step)


@kernel
def dense_steps(
    dual: DualArrays,
    data: ChainBlockData,
    shape: BlockShape,
    tokens: DenseFeatures,
    order: Ints,
    batch: int,
    room: Room,
) -> None:
    """Make one step for each chain in ``order``, ``batch`` at a time at the same weights.

    Equivalent to :func:`~beliefs.kernels.losses.frank_wolfe.update_block` with the planes of the best labellings.
    Shapes: as in the structures.
    """
    step_by_batches(_solve, _move, dual, data, shape, tokens, order, batch, room)
