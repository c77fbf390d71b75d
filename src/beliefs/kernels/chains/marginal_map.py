r"""Best outputs of linear chains whose hidden labels are summed out at a temperature, in the scaled linear domain.

.. math:: \max_y S_h \Bigl[ \sum_t u_t + A \Bigr], \qquad S\, f = \varepsilon \log \sum e^{f / \varepsilon}

the corner :math:`\varepsilon_y = 0` of :mod:`beliefs.kernels.chains.two_temperatures`. Between two outputs s and t lies
a run of hidden tokens. With :math:`M = e^{(A - \max A) / \varepsilon}` and
:math:`e_j = e^{(u_j - \max u_j) / \varepsilon}`, and but for what was subtracted,

.. math:: P_{s+1} = \mathrm{diag}(e^{b_s / \varepsilon})\, M\, \mathrm{diag}(e_{s+1}), \qquad
          P_{j+1} = P_j M\, \mathrm{diag}(e_{j+1}), \qquad
          b_t(y) = u_t(y) + \varepsilon \log \max_{y'} (P_{t-1} M)(y', y)

so that a hidden token is a product of tables, and logarithms are taken of a row an output. A label y' of output s has
no part where another, :math:`y^*`, is ahead whatever comes next:
:math:`b_s(y') - b_s(y^*) < \min_x A(y^*, x) - A(y', x)`. Its row is left out; :math:`y^*` is the best label so far.

On the way back one label an output is left. From t to s go :math:`\beta_{t-1} = M(\cdot, y)`,
:math:`w_j = e_j \odot \beta_j`, :math:`\beta_{j-1} = M w_j`, which tell the best label of s; from there
:math:`\alpha` goes forward again, as in :mod:`beliefs.kernels.chains.linear`. A run at the end of a chain has
:math:`\beta = 1`, and one at the beginning no label before it.

Where no row of u and not A spans more than :data:`NARROW` = 120 times the temperature, no entry is below
:math:`e^{-600}`, and all digits are kept. Other chains are marked ``wide`` and left to the kernel above. Rows have
``width`` entries, the number of states rounded up to a multiple of four; padding is as in the linear domain.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from beliefs.kernels._jit import inlined_kernel, linear_kernel
from beliefs.kernels.chains.linear import Chains, add_outer_products, row_product, scaled_product
from beliefs.kernels.chains.viterbi import row_maxima
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.kernels.primitives.exponential import exp4, log4
from beliefs.kernels.primitives.memory import address, addresses, get, onward, put
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
)
from beliefs.typing import Bools, Floats

__all__ = ["NARROW", "Summed", "marginal_map", "n_room_of_maps"]

NARROW = 120.0
"""Temperatures that a row of unary potentials, or the table, may span here."""

_LEAST = 1e-290  # below all that is not padding


class Summed(NamedTuple):
    """The shared table at a temperature; all arrays are ``(K * width,)``.

    ``lead[y, x]`` is ``min(table[y] - table[x])``: how far y is ahead of x at least, in all that follows.
    """

    logs: Floats
    forward: Floats  # exp((table - top) / eps)
    backward: Floats  # its transpose
    lead: Floats
    top: float
    eps: float


class Room(NamedTuple):
    """Where the parts of the room begin for one chain: rows for each token, two tables, two rows."""

    best: Any
    alpha: Any
    beta: Any
    right: Any
    now: Any
    next: Any
    row: Any
    other: Any


def n_room_of_maps(longest: int, width: int) -> int:
    """Return how many numbers the kernel needs room for."""
    return (4 * longest + 2 * width + 2) * width


@inlined_kernel
def _exponentials(width: int, row: Any, eps: float) -> float:
    """Replace a row by its exponentials at a temperature, the largest of them one; return what was subtracted."""
    high = load4(row, 0)
    for x in range(4, width, 4):
        high = maximum4(high, load4(row, x))
    top = peak4(high)
    shift, over = fill4(top), fill4(1.0 / eps)
    for x in range(0, width, 4):
        store4(row, x, exp4(multiply4(subtract4(load4(row, x), shift), over)))
    return top


@inlined_kernel
def _table_product(rows: int, states: int, width: int, left: Any, matrix: Any, out: Any) -> None:
    """Write ``out = left @ matrix``, ``left (rows, width)`` with its rows padded to a multiple of four: 4 x 8 cells."""
    for i in range(0, rows, 4):
        a = i * width
        b, c, d = a + width, a + 2 * width, a + 3 * width
        y = 0
        while y + 8 <= width:
            a0, b0, c0, d0 = fill4(0.0), fill4(0.0), fill4(0.0), fill4(0.0)
            a1, b1, c1, d1 = fill4(0.0), fill4(0.0), fill4(0.0), fill4(0.0)
            for x in range(states):
                m0, m1 = load4(matrix, x * width + y), load4(matrix, x * width + y + 4)
                ax, bx = fill4(get(left, a + x)), fill4(get(left, b + x))
                cx, dx = fill4(get(left, c + x)), fill4(get(left, d + x))
                a0, a1 = multiply_add4(ax, m0, a0), multiply_add4(ax, m1, a1)
                b0, b1 = multiply_add4(bx, m0, b0), multiply_add4(bx, m1, b1)
                c0, c1 = multiply_add4(cx, m0, c0), multiply_add4(cx, m1, c1)
                d0, d1 = multiply_add4(dx, m0, d0), multiply_add4(dx, m1, d1)
            store4(out, a + y, a0)
            store4(out, a + y + 4, a1)
            store4(out, b + y, b0)
            store4(out, b + y + 4, b1)
            store4(out, c + y, c0)
            store4(out, c + y + 4, c1)
            store4(out, d + y, d0)
            store4(out, d + y + 4, d1)
            y += 8
        if y < width:
            a0, b0, c0, d0 = fill4(0.0), fill4(0.0), fill4(0.0), fill4(0.0)
            for x in range(states):
                m0 = load4(matrix, x * width + y)
                a0, b0 = multiply_add4(fill4(get(left, a + x)), m0, a0), multiply_add4(fill4(get(left, b + x)), m0, b0)
                c0, d0 = multiply_add4(fill4(get(left, c + x)), m0, c0), multiply_add4(fill4(get(left, d + x)), m0, d0)
            store4(out, a + y, a0)
            store4(out, b + y, b0)
            store4(out, c + y, c0)
            store4(out, d + y, d0)


@inlined_kernel
def _product(rows: int, states: int, width: int, left: Any, matrix: Any, out: Any) -> None:
    """Write ``out = left @ matrix``; one row is not padded to four."""
    if rows == 1:
        row_product(states, width, left, matrix, out)
    else:
        _table_product(rows, states, width, left, matrix, out)


@inlined_kernel
def _times(rows: int, width: int, table: Any, row: Any, scale: float, out: Any) -> float:
    """Write ``out = table * row * scale`` for so many rows; return the largest entry."""
    high, factor = fill4(0.0), fill4(scale)
    for x in range(0, width, 4):
        by = multiply4(load4(row, x), factor)
        for i in range(rows):
            product = multiply4(load4(table, i * width + x), by)
            store4(out, i * width + x, product)
            high = maximum4(high, product)
    return peak4(high)


@inlined_kernel
def _largest(states: int, row: Any) -> int:
    """Return the first of the largest entries."""
    at = 0
    for y in range(1, states):
        if get(row, y) > get(row, at):
            at = y
    return at


@inlined_kernel
def _origins(summed: Any, states: int, width: int, b: Any, out: Any) -> int:
    """Write the rows ``exp((b[y] - max b) / eps) * M[y]`` of the labels that may be best, and return how many."""
    high, rows = _largest(states, b), 0
    lead = onward(summed.lead, high * width)
    for y in range(states):
        behind = get(b, y) - get(b, high)
        if behind < get(lead, y):
            continue
        share = fill4(fast_exp(behind / summed.eps))
        for x in range(0, width, 4):
            store4(out, rows * width + x, multiply4(share, load4(summed.forward, y * width + x)))
        rows += 1
    for x in range(rows * width, -(-rows // 4) * 4 * width, 4):
        store4(out, x, fill4(0.0))
    return rows


@inlined_kernel
def _logs(width: int, row: Any, eps: float, shift: float, plus: Any, out: Any) -> None:
    """Write ``out = eps * log(row) + shift + plus``; where a row has padding ``plus`` decides."""
    by, more = fill4(eps), fill4(shift)
    for y in range(0, width, 4):
        logs = multiply_add4(log4(maximum4(load4(row, y), fill4(_LEAST))), by, more)
        store4(out, y, add4(logs, load4(plus, y)))


@linear_kernel
def _over_a_run(summed: Any, states: int, width: int, n: int, last: int, room: Any, run: Any, unary: Any) -> None:
    """Write b of the output after a run of n tokens, which become exponentials, to the row after theirs."""
    now, following, matrix, eps = room.now, room.next, summed.forward, summed.eps
    b, rows, shift = onward(room.best, last * width), 1, summed.top * n
    if last >= 0:
        rows = _origins(summed, states, width, b, now)
        shift += summed.top + get(b, _largest(states, b))
    peak = 1.0
    for j in range(n):
        here = onward(run, j * width)
        shift += _exponentials(width, here, eps)
        if j > 0:
            _product(rows, states, width, now, matrix, following)
            shift += eps * fast_log(peak)
            peak = _times(rows, width, following, here, 1.0 / peak, now)
        elif last >= 0:
            peak = _times(rows, width, now, here, 1.0, now)
        else:
            for x in range(0, width, 4):
                store4(now, x, load4(here, x))
    _product(rows, states, width, now, matrix, following)
    for y in range(0, width, 4):
        high = load4(following, y)
        for i in range(1, rows):
            high = maximum4(high, load4(following, i * width + y))
        store4(room.row, y, high)
    _logs(width, room.row, eps, shift, unary, onward(room.best, (last + n + 1) * width))


@linear_kernel
def _backward(summed: Any, states: int, width: int, n: int, room: Any, run: Any) -> float:
    """Write all beta and w of a run, from beta of its last token on; return the log of what was divided by.

    At last ``room.row`` has what beta of the output before would be.
    """
    total = 0.0
    for j in range(n - 1, -1, -1):
        right, onto = onward(room.right, j * width), onward(room.beta, (j - 1) * width) if j else room.row
        total += fast_log(scaled_product(width, onward(run, j * width), onward(room.beta, j * width), right))
        row_product(states, width, right, summed.backward, onto)
    return total


@linear_kernel
def _posteriors(
    summed: Any, states: int, width: int, n: int, origin: int, weight: float, room: Any, run: Any, outer: Any
) -> None:
    """Replace the exponentials of a run by weighted posteriors, given the label before it, -1: none, and all beta."""
    for j in range(n):
        here, alpha = onward(run, j * width), onward(room.alpha, j * width)
        before = onward(summed.forward, origin * width)
        if j > 0:
            row_product(states, width, onward(room.alpha, (j - 1) * width), summed.forward, room.other)
            before = room.other
        elif origin < 0:
            for x in range(0, width, 4):
                store4(room.other, x, fill4(1.0))
            before = room.other
        scaled_product(width, before, here, alpha)
        inverse = 1.0 / scaled_product(width, alpha, onward(room.beta, j * width), here)
        for x in range(0, width, 4):
            store4(here, x, multiply4(load4(here, x), fill4(weight)))
            store4(alpha, x, multiply4(load4(alpha, x), fill4(inverse)))
    add_outer_products(n - 1, states, width, weight, room.alpha, onward(room.right, width), outer)


@inlined_kernel
def _tail(summed: Any, states: int, width: int, n: int, last: int, room: Any, run: Any) -> float:
    """Return the value of a chain that ends with a run, and write the score of each label of the output before it."""
    shift: float = summed.top * (n if last >= 0 else n - 1)
    for j in range(n):
        shift += _exponentials(width, onward(run, j * width), summed.eps)
    for x in range(0, width, 4):
        store4(room.beta, (n - 1) * width + x, fill4(1.0))
    shift += summed.eps * _backward(summed, states, width, n, room, run)
    if last < 0:
        return shift
    _logs(width, room.row, summed.eps, 0.0, onward(room.best, last * width), room.other)
    shift += get(room.other, _largest(states, room.other))
    return shift


@inlined_kernel
def _before(summed: Any, states: int, width: int, n: int, last: int, label: int, room: Any, run: Any) -> int:
    """Return the best label of the output before a run of n tokens, given that of the one behind it; -1: no output."""
    for x in range(0, width, 4):
        store4(room.beta, (n - 1) * width + x, load4(summed.backward, label * width + x))
    _backward(summed, states, width, n, room, run)
    if last < 0:
        return -1
    _logs(width, room.row, summed.eps, 0.0, onward(room.best, last * width), room.other)
    return _largest(states, room.other)


@inlined_kernel
def _neighbours(states: int, width: int, n: int, label: int, after: int, run: Any, pairs: Any) -> None:
    """Add the pairs of a run with the outputs before and after it; -1: there is none."""
    if label >= 0:
        for x in range(0, width, 4):
            store4(pairs, label * width + x, add4(load4(pairs, label * width + x), load4(run, x)))
    if after >= 0:
        for x in range(states):
            put(pairs, x * width + after, get(pairs, x * width + after) + get(run, (n - 1) * width + x))


@inlined_kernel
def _best_before(states: int, width: int, table: Any, b: Any, label: int) -> int:
    """Return the best label of the output before another that has a label."""
    at, top = 0, get(b, 0) + get(table, label)
    for x in range(1, states):
        here = get(b, x) + get(table, x * width + label)
        if here > top:
            at, top = x, here
    return at


@inlined_kernel
def _forward(summed: Any, states: int, width: int, n: int, first: int, hidden: Bools, room: Any, rows: Any) -> int:
    """Write b of all outputs, and exponentials of what is between them; return the last output, -1: none."""
    last = -1
    for t in range(n):
        if hidden[first + t]:
            continue
        row, here = onward(rows, t * width), onward(room.best, t * width)
        if t - last > 1:
            run = onward(rows, (last + 1) * width)
            _over_a_run(summed, states, width, t - last - 1, last, room, run, row)
        elif t > 0:
            row_maxima(states, width, onward(room.best, (t - 1) * width), summed.logs, row, here)
        else:
            for y in range(0, width, 4):
                store4(here, y, load4(row, y))
        last = t
    return last


@linear_kernel
def marginal_map(
    chains: Chains, summed: Summed, hidden: Bools, weight: Floats, wide: Bools, unary: Floats, scratch: Floats,
    value: Floats, pairs: Floats, outer: Floats,
) -> None:  # fmt: skip
    """Replace the log potentials of some chains by the gradient of the best outputs' power sum; write the sum.

    Equivalent, for each chain that is not ``wide``, to ``two_temperatures`` with temperature 0 of the outputs, up to
    rounding and ties. The gradient in the table is ``pairs + outer * summed.forward``, to both of which is added.
    Shapes: ``hidden (n_tokens,)``, ``weight``, ``wide`` and ``value (n_chains,)``, ``unary (n_tokens * width,)``,
    ``scratch (n_room_of_maps(longest, width),)``, ``pairs`` and ``outer (K * width,)``.
    Cost: a hidden token ``2 K`` flops for each of K^2 cells, of the labels before it that may be best alone, and 6 K^2
    for its posteriors; none of the first at either end. An output costs ``2 K^2``.
    Numerics: potentials are finite, and span at most ``NARROW`` temperatures.
    """
    starts, begin, end, states, width = chains
    tables, onto, products = addresses(summed), address(pairs), address(outer)
    for s in range(begin, end):
        if wide[s]:
            continue
        first, n = starts[s], starts[s + 1] - starts[s]
        rows, size, memory = onward(address(unary), first * width), n * width, address(scratch)
        after = onward(memory, 4 * size)
        room = Room(
            memory, onward(memory, size), onward(memory, 2 * size), onward(memory, 3 * size), after,
            onward(after, width * width), onward(after, 2 * width * width), onward(after, (2 * width + 1) * width),
        )  # fmt: skip
        t = _forward(tables, states, width, n, first, hidden, room, rows)
        run, label, behind = onward(rows, (t + 1) * width), -1, -1
        if t == n - 1:
            label = _largest(states, onward(room.best, t * width))
            value[s] = get(room.best, t * width + label)
        else:
            value[s] = _tail(tables, states, width, n - 1 - t, t, room, run)
            label = _largest(states, room.other) if t >= 0 else -1
            _posteriors(tables, states, width, n - 1 - t, label, weight[s], room, run, products)
            _neighbours(states, width, n - 1 - t, label, -1, run, onto)
        while t >= 0:
            for y in range(0, width, 4):
                store4(rows, t * width + y, fill4(0.0))
            put(rows, t * width + label, weight[s])
            last = t - 1
            while last >= 0 and hidden[first + last]:
                last -= 1
            behind, length, run = label, t - 1 - last, onward(rows, (last + 1) * width)
            if length > 0:
                label = _before(tables, states, width, length, last, behind, room, run)
                _posteriors(tables, states, width, length, label, weight[s], room, run, products)
                _neighbours(states, width, length, label, behind, run, onto)
            elif last >= 0:
                label = _best_before(states, width, tables.logs, onward(room.best, last * width), behind)
                put(onto, label * width + behind, get(onto, label * width + behind) + weight[s])
            t = last
