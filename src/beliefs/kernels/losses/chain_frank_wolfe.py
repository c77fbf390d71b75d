r"""Block-coordinate Frank-Wolfe over linear chains with dense features: many steps in one loop.

For each chain in turn: scores of its tokens, the best loss-augmented labelling (:mod:`beliefs.kernels.chains.viterbi`),
and the step of :mod:`beliefs.kernels.losses.frank_wolfe`, whose formulas these are. With features X ``(n, D)``, the
residual :math:`r = f(y^*) - f(\hat y) - s_i` of tokens ``(n, K)`` and of pairs ``(K, K)``,

.. math:: d = (X^\top r_{\text{tokens}},\; r_{\text{pairs}},\; r_{\text{first}},\; r_{\text{last}})

is made in memory that stays in cache. The weights lie by feature, ``(D, width)``, so that a feature is a few vectors;
then the table ``(K, width)``, and a row each for the first and the last token. Padding is zero and stays zero. The
features of a chain are first listed without their zeros.

Cost of a step: ``4 K`` flops a feature that is not zero, ``2 n K^2`` for the labelling, and a pass each over the
weights and over the block's cells, which are asked for early. Numerics: everything finite; sums run in explicit vectors
or in loops that only read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from beliefs.kernels._jit import inlined_kernel, kernel
from beliefs.kernels.chains.features import add_rows, add_to_rows
from beliefs.kernels.chains.viterbi import best_path
from beliefs.kernels.losses.frank_wolfe import DualArrays, line_search, note_step
from beliefs.kernels.primitives.memory import address, get, onward, prefetch, put
from beliefs.kernels.primitives.simd import add4, fill4, load4, multiply4, multiply_add4, store4, total4
from beliefs.typing import Floats, Ints

__all__ = ["BlockShape", "ChainBlockData", "Room", "chain_steps"]


class BlockShape(NamedTuple):
    """Sizes: features (the intercept counted), labels, entries of a row of weights, tokens of the longest chain."""

    features: int
    states: int
    width: int
    longest: int
    intercept: bool
    boundaries: bool


class ChainBlockData(NamedTuple):
    """Chains and their blocks; they stay the same from pass to pass."""

    starts: Ints  # (n_blocks+1,) where the tokens of a chain begin
    labels: Ints  # (n_tokens,)
    features: Floats  # (any number of tokens * D,) without the intercept
    feature_start: Ints  # (n_blocks,) the token of the features at which those of a chain begin
    cost_row: Ints  # (n_tokens,) the row of costs of a token
    costs: Floats  # (n_rows * width,) of labels, 0 for the true one; padding -1e300
    cell_ptr: Ints  # (n_blocks+1,) where the cells of a block begin: tokens, pairs, first and last
    scale: Floats  # (n_blocks,) c_i
    weight: Floats  # (n_blocks,) a_i
    allowed: Floats  # (K * width,) 1 where a pair of neighbours has a weight, else 0


class Room(NamedTuple):
    """Memory to work in, for a batch of b chains of n tokens at most."""

    rows: Floats  # ((2 * n + 1 + K + D) * width,)
    path: Ints  # (b * n,) labellings
    found: Floats  # (b * 2,) losses of the chains, and costs of their labellings
    list_ptr: Ints  # (b * (n + 1),)
    listed: Ints  # (b * n * D,) features that are not zero
    value: Floats  # (b * n * D,)


@inlined_kernel
def _add_row(width: int, row: Any, out: Any) -> None:
    """Add one row to another."""
    for y in range(0, width, 4):
        store4(out, y, add4(load4(out, y), load4(row, y)))


@inlined_kernel
def _clear(n: int, out: Any) -> None:
    """Write zeros; n is a multiple of four."""
    zero = fill4(0.0)
    for j in range(0, n, 4):
        store4(out, j, zero)


@inlined_kernel
def _slope_and_norm(n: int, weights: Any, pulled: Any) -> Any:
    """Return the inner products of ``pulled`` with the weights and with itself; n is a multiple of four."""
    s0, s1, n0, n1 = fill4(0.0), fill4(0.0), fill4(0.0), fill4(0.0)
    j = 0
    while j + 8 <= n:
        a, b = load4(pulled, j), load4(pulled, j + 4)
        s0, s1 = multiply_add4(a, load4(weights, j), s0), multiply_add4(b, load4(weights, j + 4), s1)
        n0, n1 = multiply_add4(a, a, n0), multiply_add4(b, b, n1)
        j += 8
    if j < n:
        a = load4(pulled, j)
        s0, n0 = multiply_add4(a, load4(weights, j), s0), multiply_add4(a, a, n0)
    return total4(add4(s0, s1)), total4(add4(n0, n1))


@inlined_kernel
def _add_change(n: int, factor: float, late: float, pulled: Any, weights: Any, lag: Any) -> None:
    """Add ``factor * pulled`` to the weights, and ``late`` times as much to their lag; n is a multiple of four."""
    by, further = fill4(factor), fill4(late)
    for j in range(0, n, 4):
        change = multiply4(by, load4(pulled, j))
        store4(weights, j, add4(load4(weights, j), change))
        store4(lag, j, multiply_add4(further, change, load4(lag, j)))


@kernel
def _list(at: int, n: int, shape: BlockShape, features: Any, room: Room) -> None:
    """List the features of a chain that are not zero, and the intercept, as the batch's number ``at``."""
    given = shape.features - shape.intercept
    begin, count = at * (shape.longest + 1), at * shape.longest * shape.features
    listed, value = address(room.listed), address(room.value)
    room.list_ptr[begin] = count
    for t in range(n):
        row = onward(features, t * given)
        for f in range(given):
            v = get(row, f)
            put(listed, count, f)
            put(value, count, v)
            count += 1 if v != 0.0 else 0
        if shape.intercept:
            put(listed, count, given)
            put(value, count, 1.0)
            count += 1
        room.list_ptr[begin + t + 1] = count


@kernel
def _solve(at: int, block: int, data: ChainBlockData, shape: BlockShape, weights: Floats, room: Room) -> None:
    """Find the best loss-augmented labelling of a chain, the loss, and the cost of the labelling."""
    states, width, begin = shape.states, shape.width, at * shape.longest
    first, n, labels = data.starts[block], data.starts[block + 1] - data.starts[block], data.labels
    w, rows, costs = address(weights), address(room.rows), address(data.costs)
    table, lists = onward(w, shape.features * width), onward(address(room.list_ptr), at * (shape.longest + 1))
    given = data.feature_start[block] * (shape.features - shape.intercept)
    _list(at, n, shape, onward(address(data.features), given), room)
    listed, value = address(room.listed), address(room.value)
    for t in range(n):
        row, cost = onward(rows, t * width), onward(costs, data.cost_row[first + t] * width)
        for y in range(0, width, 4):
            store4(row, y, load4(cost, y))
        if get(lists, t) < get(lists, t + 1):
            add_rows(get(lists, t), get(lists, t + 1), listed, value, False, width, w, row)
    if shape.boundaries:
        ends = onward(table, states * width)
        _add_row(width, ends, rows)
        _add_row(width, onward(ends, width), onward(rows, (n - 1) * width))
    score = best_path(n, states, width, table, rows, onward(rows, n * width), room.path, begin)
    paid = 0.0
    for t in range(n):
        score -= get(rows, t * width + labels[first + t])
        if t > 0:
            score -= get(table, labels[first + t - 1] * width + labels[first + t])
        paid += get(costs, data.cost_row[first + t] * width + room.path[begin + t])
    room.found[2 * at] = max(0.0, score)
    room.found[2 * at + 1] = paid


@kernel
def _residual(n: int, shape: BlockShape, cells: Any, labels: Any, path: Any, out: Any) -> None:
    """Write ``f(path) - f(labels) - s_i``: of tokens ``(n, width)``, then of pairs ``(K, width)``."""
    states, width = shape.states, shape.width
    for x in range(n + states):
        known = x < n or n > 1
        for y in range(states):
            put(out, x * width + y, -get(cells, x * states + y) if known else 0.0)
        for y in range(states, width):
            put(out, x * width + y, 0.0)
    for t in range(n):
        here, truth = t * width + get(path, t), t * width + get(labels, t)
        put(out, here, get(out, here) + 1.0)
        put(out, truth, get(out, truth) - 1.0)
        if t > 0:
            here = (n + get(path, t - 1)) * width + get(path, t)
            truth = (n + get(labels, t - 1)) * width + get(labels, t)
            put(out, here, get(out, here) + 1.0)
            put(out, truth, get(out, truth) - 1.0)


@kernel
def _mix(n: int, shape: BlockShape, size: int, step: float, labels: Any, path: Any, cells: Any) -> None:
    """Move the ``size`` cells of a block by a share ``step`` towards ``f(path) - f(labels)``."""
    states = shape.states
    for i in range(size):
        put(cells, i, get(cells, i) - step * get(cells, i))
    pairs = n * states
    ends = pairs + (states * states if n > 1 else 0)
    for sign, chosen in ((step, path), (-step, labels)):
        for t in range(n):
            here = t * states + get(chosen, t)
            put(cells, here, get(cells, here) + sign)
            if t > 0:
                here = pairs + get(chosen, t - 1) * states + get(chosen, t)
                put(cells, here, get(cells, here) + sign)
        if shape.boundaries:
            first, last = ends + get(chosen, 0), ends + states + get(chosen, n - 1)
            put(cells, first, get(cells, first) + sign)
            put(cells, last, get(cells, last) + sign)


@kernel
def _move(at: int, block: int, dual: DualArrays, data: ChainBlockData, shape: BlockShape, room: Room) -> None:
    """Make the step of a chain towards its labelling."""
    d, states, width = shape.features, shape.states, shape.width
    first, n = data.starts[block], data.starts[block + 1] - data.starts[block]
    begin, scale = data.cell_ptr[block], data.scale[block]
    cells, residual = onward(address(dual.cells), begin), address(room.rows)
    path, labels = onward(address(room.path), at * shape.longest), onward(address(data.labels), first)
    pairs = onward(residual, n * width)
    pulled = onward(pairs, states * width)
    last = onward(residual, (n - 1) * width)
    _residual(n, shape, cells, labels, path, residual)
    _clear(d * width, pulled)
    lists = onward(address(room.list_ptr), at * (shape.longest + 1))
    listed, value = address(room.listed), address(room.value)
    for t in range(n):
        if get(lists, t) < get(lists, t + 1):
            row = onward(residual, t * width)
            add_to_rows(get(lists, t), get(lists, t + 1), listed, value, False, width, row, pulled)
    for y in range(0, states * width, 4):
        store4(pairs, y, multiply4(load4(pairs, y), load4(data.allowed, y)))
    w, lag = address(dual.weights), address(dual.lag)
    table, ends = onward(w, d * width), onward(w, (d + states) * width)
    slope, norm = _slope_and_norm(d * width, w, pulled)
    more, longer = _slope_and_norm(states * width, table, pairs)
    slope, norm = slope + more, norm + longer
    if shape.boundaries:
        more, longer = _slope_and_norm(width, ends, residual)
        slope, norm = slope + more, norm + longer
        more, longer = _slope_and_norm(width, onward(ends, width), last)
        slope, norm = slope + more, norm + longer
    rise = room.found[2 * at + 1] - dual.offsets[block]
    step = line_search(rise + slope, scale * norm)
    if step > 0.0:
        change, late = -step * scale, 0.5 * dual.numbers[0] * (dual.numbers[0] + 1.0)
        _add_change(d * width, change, late, pulled, w, lag)
        _add_change(states * width, change, late, pairs, table, onward(lag, d * width))
        if shape.boundaries:
            lag_ends = onward(lag, (d + states) * width)
            _add_change(width, change, late, residual, ends, lag_ends)
            _add_change(width, change, late, last, onward(ends, width), onward(lag_ends, width))
        _mix(n, shape, data.cell_ptr[block + 1] - begin, step, labels, path, cells)
        dual.offsets[block] += step * rise
    weight = data.weight[block]
    note_step(dual.numbers, weight * step * rise, weight * room.found[2 * at], weight * n)


@kernel
def chain_steps(dual: DualArrays, data: ChainBlockData, shape: BlockShape, order: Ints, batch: int, room: Room) -> None:
    """Make one step for each chain in ``order``, ``batch`` at a time at the same weights.

    Equivalent to :func:`~beliefs.kernels.losses.frank_wolfe.update_block` with the planes of the best labellings.
    Shapes: as in the structures.
    """
    for begin in range(0, order.size, batch):
        end = min(begin + batch, order.size)
        for j in range(begin, end):
            for line in range(data.cell_ptr[order[j]], data.cell_ptr[order[j] + 1], 8):
                prefetch(dual.cells, line)
            _solve(j - begin, order[j], data, shape, dual.weights, room)
        for j in range(begin, end):
            _move(j - begin, order[j], dual, data, shape, room)
