r"""The way back through one factor of any arity with plain arithmetic inside: exponentials by state, not by cell.

As in :mod:`beliefs.kernels.messages.scaled`, cavities are divided by their largest entries, :math:`e_j = e^{\kappa_j -
\max}`, and tables come as :math:`\psi`. The new messages are known, so the unnormalised ones are
:math:`\psi`'s total :math:`Z = \sum \psi \prod_j e_j` over :math:`e_i \cdot m_i` times :math:`m_i`, and with
:math:`q_i = \bar u_i / m^0_i`

.. math:: t = \psi \sum_i q_i \prod_{j \ne i} e_j .

The last axis is the inner loop: of the others only :math:`P = \prod e_j` and :math:`D = \sum_i q_i \prod_{j \ne i} e_j`
are needed there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from beliefs.kernels._jit import kernel, linear_kernel
from beliefs.kernels.messages.scaled import SPAN
from beliefs.kernels.messages.structures import ScaledTables
from beliefs.kernels.primitives.strides import count_on
from beliefs.typing import Floats, Ints

__all__ = ["AdjointScratch", "scaled_adjoint"]


class AdjointScratch(NamedTuple):
    """What goes into the way back through one factor, what comes out of it, and working space; all ``(arity, K)``."""

    incoming: Floats  # log cavities
    sent: Floats  # the new messages as probabilities; 1 for those that were not sent
    bar: Floats  # the adjoints of their logs; 0 for those that were not sent
    back: Floats  # what the cavities get
    linear: Floats  # cavities as plain numbers, scaled
    q: Floats  # see the formula
    parts: Floats  # (arity,) a product for each axis
    digit: Ints  # (arity,) the present cell


@linear_kernel
def row_products(sizes: Ints, digit: Ints, linear: Floats, q: Floats, parts: Floats) -> tuple[float, float]:
    """Return P and D at the present digits of all axes but the last; ``parts[i]`` gets the term of axis i."""
    last = sizes.size - 1
    whole, total = 1.0, 0.0
    for i in range(last):
        whole *= linear[i, digit[i]]
        part = q[i, digit[i]]
        for j in range(last):
            if j != i:
                part *= linear[j, digit[j]]
        parts[i] = part
        total += part
    return whole, total


@kernel  # as add_row: what writes arrays beside those it reads must not be free to round in two ways
def write_quotients(n: int, scale: float, bar: Floats, sent: Floats, q: Floats) -> None:
    """Write ``q = scale * bar / sent`` where there is something to divide."""
    for x in range(n):
        if bar[x] != 0.0 and sent[x] > 0.0:
            q[x] = scale * bar[x] / sent[x]


@kernel
def add_row(
    whole: float, joined: float, over: float, cells: Floats, inner: Floats, outer: Floats, to_last: Floats, out: Floats
) -> None:
    """Add a row's terms to the marginal of the last axis, and to the gradient of its cells."""
    for y in range(cells.size):
        from_e = joined * (cells[y] * inner[y])
        to_last[y] += from_e
        out[y] += over * (whole * (cells[y] * outer[y]) + from_e)


@linear_kernel
def scaled_adjoint(
    scaled: ScaledTables, f: int, weight: float, sizes: Ints, work: AdjointScratch, grad: Floats
) -> bool:
    """Add ``t / weight`` to ``grad`` and its marginals, without the term of the axis itself, to ``back (arity, K)``.

    False, with nothing added, if the range is too large for a double. Cost: two passes over the table of factor ``f``.
    """
    psi, at, incoming, back = scaled.psi, scaled.ptr[f], work.incoming, work.back
    linear, q, parts, digit = work.linear, work.q, work.parts, work.digit
    arity, span, n_rows = sizes.size, -scaled.log_least, 1
    for a in range(arity):
        low, high = math.inf, -math.inf
        for x in range(sizes[a]):
            if incoming[a, x] > -math.inf:
                low, high = min(low, incoming[a, x]), max(high, incoming[a, x])
        span += high - low if high > -math.inf else math.inf
        if not span <= SPAN:
            return False
        for x in range(sizes[a]):
            linear[a, x] = math.exp(incoming[a, x] - high)
            q[a, x] = 0.0
        digit[a] = 0
        if a < arity - 1:
            n_rows *= sizes[a]
    k, last = sizes[arity - 1], arity - 1
    inner, mass = linear[last, :k], 0.0
    for row in range(n_rows):
        whole, _ = row_products(sizes, digit, linear, q, parts)
        cells, total = psi[at + row * k : at + (row + 1) * k], 0.0
        for y in range(k):
            total += cells[y] * inner[y]
        mass += whole * total
        count_on(last, sizes, digit)
    if not mass > 0.0:
        return False
    for a in range(arity):
        both = 0.0
        for x in range(sizes[a]):
            both += linear[a, x] * work.sent[a, x]
        if not both > 0.0:
            return False
        write_quotients(sizes[a], both / mass, work.bar[a], work.sent[a], q[a])
    outer, to_last = q[last, :k], back[last, :k]
    over = 1.0 / weight
    for row in range(n_rows):
        whole, joined = row_products(sizes, digit, linear, q, parts)
        cells, out = psi[at + row * k : at + (row + 1) * k], grad[row * k : (row + 1) * k]
        with_q, with_e = 0.0, 0.0
        for y in range(k):
            with_q += cells[y] * outer[y]
            with_e += cells[y] * inner[y]
        add_row(whole, joined, over, cells, inner, outer, to_last, out)
        for a in range(last):
            back[a, digit[a]] += whole * with_q + (joined - parts[a]) * with_e
        count_on(last, sizes, digit)
    return True
