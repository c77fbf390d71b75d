r"""Best labellings of linear chains ([viterbi1967]).

.. math:: b_t(y) = u_t(y) + \max_x \bigl( b_{t-1}(x) + A(x, y) \bigr)

On the way forward only the maxima are kept, which are whole vectors; on the way back the maximiser is looked for again,
for the one label of each token that is on the path. Ties go to the smallest label. Log potentials are finite;
impossible labels, and padding, are -1e300.

Rows have ``width`` entries, the number of states rounded up to a multiple of four; ``table (K * width,)`` is padded
like them, with anything finite.
"""

from __future__ import annotations

from typing import Any

from beliefs.kernels._jit import inlined_kernel, kernel
from beliefs.kernels.chains.linear import Chains
from beliefs.kernels.primitives.memory import address, get, onward
from beliefs.kernels.primitives.simd import add4, fill4, load4, maximum4, store4
from beliefs.typing import Floats, Ints

__all__ = ["best_labels", "best_path", "row_maxima"]


@inlined_kernel
def row_maxima(states: int, width: int, row: Any, table: Any, unary: Any, out: Any) -> None:
    """Write ``out = unary + (row[:states, None] + table).max(0)``: 24 columns at a time, then 8, then 4."""
    y = 0
    while y + 24 <= width:
        c = fill4(get(row, 0))
        s0, s1, s2 = add4(c, load4(table, y)), add4(c, load4(table, y + 4)), add4(c, load4(table, y + 8))
        s3, s4, s5 = add4(c, load4(table, y + 12)), add4(c, load4(table, y + 16)), add4(c, load4(table, y + 20))
        for x in range(1, states):
            c, at = fill4(get(row, x)), x * width + y
            s0, s1 = maximum4(s0, add4(c, load4(table, at))), maximum4(s1, add4(c, load4(table, at + 4)))
            s2, s3 = maximum4(s2, add4(c, load4(table, at + 8))), maximum4(s3, add4(c, load4(table, at + 12)))
            s4, s5 = maximum4(s4, add4(c, load4(table, at + 16))), maximum4(s5, add4(c, load4(table, at + 20)))
        store4(out, y, add4(s0, load4(unary, y)))
        store4(out, y + 4, add4(s1, load4(unary, y + 4)))
        store4(out, y + 8, add4(s2, load4(unary, y + 8)))
        store4(out, y + 12, add4(s3, load4(unary, y + 12)))
        store4(out, y + 16, add4(s4, load4(unary, y + 16)))
        store4(out, y + 20, add4(s5, load4(unary, y + 20)))
        y += 24
    while y < width:
        s0 = add4(fill4(get(row, 0)), load4(table, y))
        for x in range(1, states):
            s0 = maximum4(s0, add4(fill4(get(row, x)), load4(table, x * width + y)))
        store4(out, y, add4(s0, load4(unary, y)))
        y += 4


@inlined_kernel
def best_path(n: int, states: int, width: int, table: Any, rows: Any, best: Any, labels: Ints, first: int) -> float:
    """Write the best labels of one chain to ``labels[first:first + n]``; return their score.

    ``rows (n * width,)`` are its log potentials; ``best`` has room for as much, beside a row to spare.
    """
    for y in range(0, width, 4):
        store4(best, y, load4(rows, y))
    for t in range(1, n):
        row_maxima(
            states, width, onward(best, (t - 1) * width), table, onward(rows, t * width), onward(best, t * width)
        )
    last = onward(best, (n - 1) * width)
    at = 0
    for y in range(1, states):
        if get(last, y) > get(last, at):
            at = y
    score: float = get(last, at)
    labels[first + n - 1] = at
    for t in range(n - 1, 0, -1):
        before, chosen = onward(best, (t - 1) * width), 0
        top = get(before, 0) + get(table, at)
        for x in range(1, states):
            here = get(before, x) + get(table, x * width + at)
            if here > top:
                top, chosen = here, x
        at = chosen
        labels[first + t - 1] = at
    return score


@kernel
def best_labels(chains: Chains, table: Floats, unary: Floats, best: Floats, labels: Ints, score: Floats) -> None:
    """Write the labelling of largest score of each chain, and the score.

    Shapes: ``unary (n_tokens * width,)``, ``best`` room for ``(longest + 1) * width``. Cost: 2 K^2 flops a token.
    """
    starts, begin, end, states, width = chains
    for s in range(begin, end):
        first, n = starts[s], starts[s + 1] - starts[s]
        rows = onward(address(unary), first * width)
        score[s] = best_path(n, states, width, address(table), rows, address(best), address(labels), first)
