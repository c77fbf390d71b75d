r"""Sums over all labellings of linear chains that share one table of transitions, in the scaled linear domain.

For unary potentials :math:`e_t = \exp(u_t - \max u_t)` and :math:`M = \exp(A - \max A)`,

.. math:: \alpha_t = (\alpha_{t-1} M) \odot e_t / c_t, \qquad
          w_t = e_t \odot \beta_t / c_t, \qquad \beta_{t-1} = M w_t

with :math:`c_t` such that :math:`\alpha_t` sums to one ([rabiner1989] section V.A). Then the posterior of a label is
:math:`\alpha_t \odot \beta_t`, that of a pair of neighbours :math:`\alpha_{t-1}(x) M(x, y) w_t(y)`, and log Z is the
sum of all :math:`\log c_t` and of what was subtracted. Because M is shared, pairs are summed as outer products of
:math:`\alpha_{t-1}` and :math:`w_t` and multiplied by M once, by the caller.

Where no row of u, and not A, spans more than :data:`WIDEST` = 300 nats, :math:`\alpha_t` spans at most 600, because
:math:`\alpha_{t-1} M` spans no more than A does; :math:`c_t \ge e^{-300}`, :math:`\beta_t \le e^{300}` and
:math:`w_t \le e^{600}`. So everything is within the range of a double, and the answers have full relative precision.
Chains that span more are marked ``wide`` and left to :mod:`beliefs.kernels.chains.log`.

Arrays are flat. Rows have ``width`` entries, the number of states rounded up to a multiple of four; padding is ``LOW``
in log potentials, and zero in all others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from beliefs.kernels._jit import inlined_kernel, linear_kernel
from beliefs.kernels.primitives.elementary import fast_log
from beliefs.kernels.primitives.exponential import exp4
from beliefs.kernels.primitives.memory import address, get, onward, put
from beliefs.kernels.primitives.simd import (
    add4,
    fill4,
    load4,
    maximum4,
    multiply4,
    multiply_add4,
    peak4,
    store4,
    subtract4,
    total4,
)
from beliefs.typing import Bools, Floats, Ints

__all__ = ["LOW", "WIDEST", "Chains", "chain_posteriors", "chain_spans"]

WIDEST = 300.0
"""Nats that a row of unary potentials, or the table, may span in the linear domain."""

LOW = -1e300
"""A log potential that no linear-domain kernel can tell from minus infinity: padding, and impossible labels."""


class Chains(NamedTuple):
    """The chains ``begin`` to ``end`` of a union; chain s is the tokens ``starts[s]:starts[s+1]``."""

    starts: Ints  # (n_chains+1,)
    begin: int
    end: int
    states: int  # labels
    width: int  # of a row


@linear_kernel
def chain_spans(chains: Chains, unary: Floats, span: Floats) -> None:
    """Write the largest difference within a row of each chain: ``span[s] = np.ptp(unary[rows of s], axis=1).max()``.

    Shapes: ``unary (n_tokens * width,)``, ``span (n_chains,)``. Cost: one read.
    """
    starts, begin, end, states, width = chains
    full = states - states % 4
    for s in range(begin, end):
        widest = 0.0
        for t in range(starts[s], starts[s + 1]):
            row = t * width
            high, low = fill4(unary[row]), fill4(-unary[row])
            for x in range(0, full, 4):
                u = load4(unary, row + x)
                high, low = maximum4(high, u), maximum4(low, subtract4(fill4(0.0), u))
            top, bottom = peak4(high), peak4(low)
            for x in range(full, states):
                top, bottom = max(top, unary[row + x]), max(bottom, -unary[row + x])
            widest = max(widest, top + bottom)
        span[s] = widest


@inlined_kernel
def store24(array: Any, at: int, s0: Any, s1: Any, s2: Any, s3: Any, s4: Any, s5: Any) -> None:
    """Store six vectors one after the other."""
    store4(array, at, s0)
    store4(array, at + 4, s1)
    store4(array, at + 8, s2)
    store4(array, at + 12, s3)
    store4(array, at + 16, s4)
    store4(array, at + 20, s5)


@inlined_kernel
def add_scaled24(
    scale: Any, array: Any, at: int, s0: Any, s1: Any, s2: Any, s3: Any, s4: Any, s5: Any
) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Return six vectors plus ``scale`` times 24 numbers of an array."""
    return (
        multiply_add4(scale, load4(array, at), s0),
        multiply_add4(scale, load4(array, at + 4), s1),
        multiply_add4(scale, load4(array, at + 8), s2),
        multiply_add4(scale, load4(array, at + 12), s3),
        multiply_add4(scale, load4(array, at + 16), s4),
        multiply_add4(scale, load4(array, at + 20), s5),
    )


@inlined_kernel
def row_product(states: int, width: int, row: Any, matrix: Any, out: Any) -> None:
    """Write ``out = row[:states] @ matrix``, ``matrix (states, width)``: 24 columns at a time, then 8, then 4."""
    y = 0
    while y + 24 <= width:
        s0, s1, s2, s3, s4, s5 = fill4(0.0), fill4(0.0), fill4(0.0), fill4(0.0), fill4(0.0), fill4(0.0)
        for x in range(states):
            c, at = fill4(get(row, x)), x * width + y
            s0, s1, s2, s3, s4, s5 = add_scaled24(c, matrix, at, s0, s1, s2, s3, s4, s5)
        store24(out, y, s0, s1, s2, s3, s4, s5)
        y += 24
    while y + 8 <= width:
        s0, s1 = fill4(0.0), fill4(0.0)
        for x in range(states):
            c, at = fill4(get(row, x)), x * width + y
            s0, s1 = multiply_add4(c, load4(matrix, at), s0), multiply_add4(c, load4(matrix, at + 4), s1)
        store4(out, y, s0)
        store4(out, y + 4, s1)
        y += 8
    if y < width:
        s0 = fill4(0.0)
        for x in range(states):
            s0 = multiply_add4(fill4(get(row, x)), load4(matrix, x * width + y), s0)
        store4(out, y, s0)


@inlined_kernel
def exponentials(width: int, row: Any) -> float:
    """Replace a row by its exponentials, the largest of them one; return what was subtracted."""
    high = load4(row, 0)
    for x in range(4, width, 4):
        high = maximum4(high, load4(row, x))
    top = peak4(high)
    shift = fill4(top)
    for x in range(0, width, 4):
        store4(row, x, exp4(subtract4(load4(row, x), shift)))
    return top


@inlined_kernel
def scaled_product(width: int, a: Any, b: Any, out: Any) -> float:
    """Write ``out = a * b / sum(a * b)``; return the sum."""
    total = fill4(0.0)
    for x in range(0, width, 4):
        product = multiply4(load4(a, x), load4(b, x))
        store4(out, x, product)
        total = add4(total, product)
    whole = total4(total)
    scale = fill4(1.0 / whole)
    for x in range(0, width, 4):
        store4(out, x, multiply4(load4(out, x), scale))
    return whole


@inlined_kernel
def add_outer_products(n: int, states: int, width: int, weight: float, left: Any, right: Any, out: Any) -> None:
    """Add ``weight * left.T @ right`` to ``out (states, width)``, ``left`` and ``right (n, width)``; by fours."""
    t = 0
    while t < n:
        rows = min(n - t, 4)
        l0 = t * width
        l1, l2, l3 = l0 + width * min(1, rows - 1), l0 + width * min(2, rows - 1), l0 + width * min(3, rows - 1)
        g1, g2, g3 = weight * (rows > 1), weight * (rows > 2), weight * (rows > 3)
        for x in range(states):
            c0, c1 = fill4(weight * get(left, l0 + x)), fill4(g1 * get(left, l1 + x))
            c2, c3 = fill4(g2 * get(left, l2 + x)), fill4(g3 * get(left, l3 + x))
            for y in range(0, width, 4):
                onto = multiply_add4(c0, load4(right, l0 + y), load4(out, x * width + y))
                onto = multiply_add4(c1, load4(right, l1 + y), onto)
                more = multiply_add4(c3, load4(right, l3 + y), multiply4(c2, load4(right, l2 + y)))
                store4(out, x * width + y, add4(onto, more))
        t += 4


@linear_kernel
def chain_posteriors(
    chains: Chains, matrix: Floats, transposed: Floats, weight: Floats, wide: Bools, unary: Floats, scratch: Floats,
    log_z: Floats, pairs: Floats,
) -> None:  # fmt: skip
    """Replace the log potentials of some chains by posteriors; see the module's formulas.

    Equivalent, for each chain s that is not ``wide``, to summing ``exp(score)`` over all labellings: ``log_z[s]`` is
    the log of the sum without transitions' largest entry, ``unary[t]`` becomes the posterior of label t times
    ``weight[s]``, and ``pairs += weight[s] * sum_t outer(alpha[t-1], w[t])``.
    Shapes: ``matrix`` and ``transposed (states * width,)`` hold exp of the table and of its transpose, the largest
    entry 1; ``unary (n_tokens * width,)``; ``scratch ((2 * longest + 2) * width + longest,)``; ``pairs (states *
    width,)``. Cost: 6 K^2 flops and K exponentials a token.
    """
    starts, begin, end, states, width = chains
    forward, backward = address(matrix), address(transposed)
    for s in range(begin, end):
        first, n = starts[s], starts[s + 1] - starts[s]
        if wide[s]:
            continue
        rows = onward(address(unary), first * width)
        alpha = address(scratch)
        right = onward(alpha, n * width)  # row t - 1 is w of token t
        beta, inverse = onward(right, n * width), onward(right, (n + 2) * width)
        log_z[s] = _filter(n, states, width, forward, rows, alpha, beta, inverse)
        _smooth(n, states, width, backward, weight[s], rows, alpha, right, beta, inverse)
        add_outer_products(n - 1, states, width, weight[s], alpha, right, address(pairs))


@inlined_kernel
def _filter(n: int, states: int, width: int, matrix: Any, rows: Any, alpha: Any, beta: Any, inverse: Any) -> float:
    """Write all alpha and 1 / c; rows become exponentials. Return the logarithm of the sum, without the table's."""
    for x in range(0, width, 4):
        store4(beta, x, fill4(1.0))
    log_z = 0.0
    for t in range(n):
        row, here = onward(rows, t * width), onward(alpha, t * width)
        log_z += exponentials(width, row)
        if t > 0:
            row_product(states, width, onward(alpha, (t - 1) * width), matrix, beta)
        c = scaled_product(width, beta, row, here)
        put(inverse, t, 1.0 / c)
        log_z += fast_log(c)
    return log_z


@inlined_kernel
def _smooth(
    n: int,
    states: int,
    width: int,
    transposed: Any,
    weight: float,
    rows: Any,
    alpha: Any,
    right: Any,
    beta: Any,
    inverse: Any,
) -> None:
    """Write w of tokens 1 to n - 1 and turn rows into weighted posteriors, from the last token to the first."""
    for x in range(0, width, 4):
        store4(beta, x, fill4(1.0))
    for t in range(n - 1, -1, -1):
        row, here, onto = onward(rows, t * width), onward(alpha, t * width), onward(right, (t - 1) * width)
        if t > 0:
            scale = fill4(get(inverse, t))
            for x in range(0, width, 4):
                store4(onto, x, multiply4(multiply4(load4(row, x), load4(beta, x)), scale))
        scaled_product(width, here, beta, row)
        if weight != 1.0:
            factor = fill4(weight)
            for x in range(0, width, 4):
                store4(row, x, multiply4(load4(row, x), factor))
        if t > 0:
            row_product(states, width, onto, transposed, beta)
