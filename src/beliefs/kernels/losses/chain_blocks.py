r"""Steps of block-coordinate Frank-Wolfe over linear chains: the part that is the same for all kinds of features.

For each chain in turn: scores of its tokens, the best loss-augmented labelling (:mod:`beliefs.kernels.chains.viterbi`),
and the step of :mod:`beliefs.kernels.losses.frank_wolfe`, whose formulas these are. With features X of its tokens and
the residual :math:`r = f(y^*) - f(\hat y) - s_i` of tokens ``(n, K)`` and of pairs ``(K, K)``,

.. math:: d = (X^\top r_{\text{tokens}},\; r_{\text{pairs}},\; r_{\text{first}},\; r_{\text{last}})

The dual holds the weights of states first, in the form that suits the features; then the table ``(K, width)``, and a
row each for the first and the last token. Padding is zero and stays zero. All parts take structures of addresses
(:func:`~beliefs.kernels.primitives.memory.addresses`): counting references to arrays would take as long as the step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from beliefs.kernels._jit import inlined_kernel, kernel
from beliefs.kernels.chains.viterbi import best_path
from beliefs.kernels.losses.frank_wolfe import DualArrays, line_search, note_step
from beliefs.kernels.primitives.memory import addresses, get, onward, prefetch, put
from beliefs.kernels.primitives.simd import add4, fill4, load4, multiply4, multiply_add4, store4, total4
from beliefs.typing import Floats, Ints

__all__ = [
    "BlockShape",
    "ChainBlockData",
    "Room",
    "add_change",
    "begin_rows",
    "chosen_step",
    "find_path",
    "finish_step",
    "slope_and_norm",
    "step_by_batches",
    "write_residual",
]


class BlockShape(NamedTuple):
    """Sizes: labels, entries of a row, tokens of the longest chain, weights of states (a multiple of four)."""

    states: int
    width: int
    longest: int
    state_weights: int
    boundaries: bool


class ChainBlockData(NamedTuple):
    """Chains and their blocks; they stay the same from pass to pass."""

    starts: Ints  # (n_blocks+1,) where the tokens of a chain begin
    labels: Ints  # (n_tokens,)
    cost_row: Ints  # (n_tokens,) the row of costs of a token
    costs: Floats  # (n_rows * width,) of labels, 0 for the true one; padding -1e300
    cell_ptr: Ints  # (n_blocks+1,) where the cells of a block begin: tokens, pairs, first and last
    scale: Floats  # (n_blocks,) c_i
    weight: Floats  # (n_blocks,) a_i
    allowed: Floats  # (K * width,) 1 where a pair of neighbours has a weight, else 0


class Room(NamedTuple):
    """Memory to work in, for a batch of b chains of n tokens at most."""

    rows: Floats  # ((2 * n + 1 + K) * width,)
    path: Ints  # (b * n,) labellings
    found: Floats  # (b * 2,) losses of the chains, and costs of their labellings
    pulled: Floats  # d of the states


# -- vectors --------------------------------------------------------------------------------------------------------
@inlined_kernel
def _add_row(width: int, row: Any, out: Any) -> None:
    """Add one row to another."""
    for y in range(0, width, 4):
        store4(out, y, add4(load4(out, y), load4(row, y)))


@inlined_kernel
def slope_and_norm(n: int, weights: Any, pulled: Any) -> Any:
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
def add_change(n: int, factor: float, late: float, pulled: Any, weights: Any, lag: Any) -> None:
    """Add ``factor * pulled`` to the weights, and ``late`` times as much to their lag; n is a multiple of four."""
    by, further = fill4(factor), fill4(late)
    for j in range(0, n, 4):
        change = multiply4(by, load4(pulled, j))
        store4(weights, j, add4(load4(weights, j), change))
        store4(lag, j, multiply_add4(further, change, load4(lag, j)))


# -- a chain --------------------------------------------------------------------------------------------------------
@kernel
def ask_for_cells(block: int, data: ChainBlockData, cells: Floats) -> None:
    """Ask for the cells of a block early: no other block's lie before them in the order of a pass."""
    for line in range(data.cell_ptr[block], data.cell_ptr[block + 1], 8):
        prefetch(cells, line)


@kernel
def begin_rows(block: int, data: ChainBlockData, shape: BlockShape, weights: Floats, rows: Floats) -> None:
    """Write what the labels of a chain score besides their features: costs, and weights of the boundaries."""
    width, first, n = shape.width, data.starts[block], data.starts[block + 1] - data.starts[block]
    costs, out = data.costs, rows
    for t in range(n):
        row, cost = onward(out, t * width), onward(costs, data.cost_row[first + t] * width)
        for y in range(0, width, 4):
            store4(row, y, load4(cost, y))
    if shape.boundaries:
        ends = onward(weights, shape.state_weights + shape.states * width)
        _add_row(width, ends, out)
        _add_row(width, onward(ends, width), onward(out, (n - 1) * width))


@kernel
def find_path(at: int, block: int, data: ChainBlockData, shape: BlockShape, weights: Floats, room: Room) -> None:
    """Find the best labelling of a chain whose rows are scored, its loss, and what it costs."""
    width, begin, labels = shape.width, at * shape.longest, data.labels
    first, n = data.starts[block], data.starts[block + 1] - data.starts[block]
    rows, table = room.rows, onward(weights, shape.state_weights)
    score = best_path(n, shape.states, width, table, rows, onward(rows, n * width), room.path, begin)
    paid = 0.0
    for t in range(n):
        score -= get(rows, t * width + labels[first + t])
        if t > 0:
            score -= get(table, labels[first + t - 1] * width + labels[first + t])
        paid += data.costs[data.cost_row[first + t] * width + room.path[begin + t]]
    room.found[2 * at] = max(0.0, score)
    room.found[2 * at + 1] = paid


@kernel
def write_residual(at: int, block: int, data: ChainBlockData, shape: BlockShape, cells: Floats, room: Room) -> None:
    """Write ``f(path) - f(labels) - s_i``: of tokens ``(n, width)``, then of pairs ``(K, width)``."""
    states, width, out = shape.states, shape.width, room.rows
    first, n = data.starts[block], data.starts[block + 1] - data.starts[block]
    given, begin, labels = data.cell_ptr[block], at * shape.longest, data.labels
    for x in range(n + states):
        known = x < n or n > 1
        for y in range(states):
            put(out, x * width + y, -cells[given + x * states + y] if known else 0.0)
        for y in range(states, width):
            put(out, x * width + y, 0.0)
    for t in range(n):
        here, truth = t * width + room.path[begin + t], t * width + labels[first + t]
        put(out, here, get(out, here) + 1.0)
        put(out, truth, get(out, truth) - 1.0)
        if t > 0:
            here = (n + room.path[begin + t - 1]) * width + room.path[begin + t]
            truth = (n + labels[first + t - 1]) * width + labels[first + t]
            put(out, here, get(out, here) + 1.0)
            put(out, truth, get(out, truth) - 1.0)
    pairs = onward(out, n * width)
    for y in range(0, states * width, 4):
        store4(pairs, y, multiply4(load4(pairs, y), load4(data.allowed, y)))


@kernel
def chosen_step(
    at: int, block: int, dual: DualArrays, data: ChainBlockData, shape: BlockShape, room: Room, slope: float,
    norm: float,
) -> float:  # fmt: skip
    """Return the step of a chain; ``slope`` and ``norm`` are those of the states."""
    states, width, n = shape.states, shape.width, data.starts[block + 1] - data.starts[block]
    residual, table = room.rows, onward(dual.weights, shape.state_weights)
    more, longer = slope_and_norm(states * width, table, onward(residual, n * width))
    slope, norm = slope + more, norm + longer
    if shape.boundaries:
        ends = onward(table, states * width)
        more, longer = slope_and_norm(width, ends, residual)
        slope, norm = slope + more, norm + longer
        more, longer = slope_and_norm(width, onward(ends, width), onward(residual, (n - 1) * width))
        slope, norm = slope + more, norm + longer
    rise = room.found[2 * at + 1] - dual.offsets[block]
    return line_search(rise + slope, data.scale[block] * norm)


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
def finish_step(
    at: int, block: int, dual: DualArrays, data: ChainBlockData, shape: BlockShape, room: Room, step: float
) -> None:
    """Move the table, the boundaries and the block itself, and count the step; the states have been moved."""
    states, width, n = shape.states, shape.width, data.starts[block + 1] - data.starts[block]
    rise, weight = room.found[2 * at + 1] - dual.offsets[block], data.weight[block]
    if step > 0.0:
        change, late = -step * data.scale[block], 0.5 * dual.numbers[0] * (dual.numbers[0] + 1.0)
        residual, begin = room.rows, data.cell_ptr[block]
        table, lag = onward(dual.weights, shape.state_weights), onward(dual.lag, shape.state_weights)
        add_change(states * width, change, late, onward(residual, n * width), table, lag)
        if shape.boundaries:
            ends, late_ends = onward(table, states * width), onward(lag, states * width)
            last = onward(residual, (n - 1) * width)
            add_change(width, change, late, residual, ends, late_ends)
            add_change(width, change, late, last, onward(ends, width), onward(late_ends, width))
        path, labels = onward(room.path, at * shape.longest), onward(data.labels, data.starts[block])
        size = data.cell_ptr[block + 1] - begin
        _mix(n, shape, size, step, labels, path, onward(dual.cells, begin))
        dual.offsets[block] += step * rise
    note_step(dual.numbers, weight * step * rise, weight * room.found[2 * at], weight * n)


@kernel
def step_by_batches(
    solve: Any,
    move: Any,
    dual: DualArrays,
    data: ChainBlockData,
    shape: BlockShape,
    tokens: Any,
    order: Ints,
    batch: int,
    room: Room,
) -> None:
    """Solve the chains in ``order``, ``batch`` at a time at the same weights, and move along them one by one.

    ``solve`` and ``move`` are the kernels for features of the kind of ``tokens``.
    """
    here, chains, features, work = addresses(dual), addresses(data), addresses(tokens), addresses(room)
    for begin in range(0, order.size, batch):
        end = min(begin + batch, order.size)
        for j in range(begin, end):
            ask_for_cells(order[j], chains, here.cells)
            solve(j - begin, order[j], here.weights, chains, shape, features, work)
        for j in range(begin, end):
            move(j - begin, order[j], here, chains, shape, features, work)
