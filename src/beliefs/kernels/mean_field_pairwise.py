"""Mean field on pairwise models of one cardinality without hard zeros: one vertex after the other, in memory order.

The neighbours of vertex ``v`` are the entries ``nbr_ptr[v]:nbr_ptr[v+1]``; ``nbr`` is where their marginals start in
``mu``. Each table is stored once, in ``theta``: towards its second variable rows are scaled and added, towards its
first they are multiplied by the marginal and summed. See :mod:`beliefs.kernels.mean_field` for unsigned offsets and
residuals.
"""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import kernel, linear_kernel
from beliefs.kernels.elementary import fast_exp
from beliefs.kernels.mean_field import softmax
from beliefs.typing import Bools, Floats, Ints

__all__ = ["sweep_binary", "sweep_pairwise"]

_ZERO, _ONE, _TWO, _THREE, _FOUR = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@kernel
def sweep_binary(
    order: Ints, state_ptr: Ints, nbr_ptr: Ints, nbr: Ints, coupling: Floats, field: Floats, mu: Floats
) -> int:
    """Update binary vertices in log-odds; return the bits of the largest absolute change of a probability.

    Equivalent, for each ``v`` in ``order``, to ``q[v] = sigmoid(field[v] + coupling @ q[neighbours])`` with
    ``mu = (1 - q, q)``, where ``nbr`` points to the neighbours' second states. Not reassociated: short sums gain
    nothing from SIMD. One exponential a vertex; log-odds beyond 708 are as good as 708.
    """
    largest = np.int64(0)
    for t in range(order.size):
        v = np.uint64(order[t])
        odds = field[v]
        for i in range(np.uint64(nbr_ptr[v]), np.uint64(nbr_ptr[v + _ONE])):
            odds += coupling[i] * mu[np.uint64(nbr[i])]
        ratio = fast_exp(-odds)
        second = 1.0 / (1.0 + ratio)
        m = np.uint64(state_ptr[v])
        change = np.float64(abs(second - mu[m + _ONE])).view(np.int64)
        largest = max(largest, change)
        mu[m] = ratio * second
        mu[m + _ONE] = second
    return int(largest)


@linear_kernel
def _gather(
    begin: np.uint64, end: np.uint64, n: np.uint64, nbr: Ints, cell: Ints, is_first: Bools, theta: Floats, mu: Floats,
    pool: Floats, logs: Floats,
) -> None:  # fmt: skip
    """Do ``logs += T @ p`` or ``p @ T`` for the entries ``begin..end`` of one vertex, four rows at a time.

    ``p`` is the sum of the marginals of adjacent entries with the same table ``T`` and side.
    """
    whole = n - n % _FOUR
    i = begin
    while i < end:
        start, side, m = cell[i], is_first[i], np.uint64(nbr[i])
        for y in range(n):
            pool[y] = mu[m + y]
        i += _ONE
        while i < end and cell[i] == start and is_first[i] == side:
            m = np.uint64(nbr[i])
            for y in range(n):
                pool[y] += mu[m + y]
            i += _ONE
        at = np.uint64(start)
        if side:
            for x in range(_ZERO, whole, _FOUR):
                s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
                for y in range(n):
                    w = pool[y]
                    s0 += theta[at + y] * w
                    s1 += theta[at + n + y] * w
                    s2 += theta[at + _TWO * n + y] * w
                    s3 += theta[at + _THREE * n + y] * w
                logs[x] += s0
                logs[x + _ONE] += s1
                logs[x + _TWO] += s2
                logs[x + _THREE] += s3
                at += _FOUR * n
            for x in range(whole, n):
                s0 = 0.0
                for y in range(n):
                    s0 += theta[at + y] * pool[y]
                logs[x] += s0
                at += n
        else:
            for y in range(_ZERO, whole, _FOUR):
                w0, w1, w2, w3 = pool[y], pool[y + _ONE], pool[y + _TWO], pool[y + _THREE]
                for x in range(n):
                    logs[x] += (w0 * theta[at + x] + w1 * theta[at + n + x]) + (
                        w2 * theta[at + _TWO * n + x] + w3 * theta[at + _THREE * n + x]
                    )
                at += _FOUR * n
            for y in range(whole, n):
                w = pool[y]
                for x in range(n):
                    logs[x] += w * theta[at + x]
                at += n


@kernel
def sweep_pairwise(
    order: Ints, n_states: int, state_ptr: Ints, nbr_ptr: Ints, nbr: Ints, cell: Ints, is_first: Bools, unary: Floats,
    theta: Floats, pool: Floats, logs: Floats, mu: Floats,
) -> int:  # fmt: skip
    """Update vertices of ``n_states`` states; return the bits of the largest absolute change of a probability.

    Equivalent, for each ``v`` in ``order``, to ``mu[v] = softmax(unary[v] + sum of T @ mu[u] or mu[u] @ T)`` over its
    entries, by whether ``v`` is the first variable of the table (``is_first``). Adjacent entries with the same table
    and side are pooled: their marginals are added up first, so a tied table is read at most twice a vertex. Shapes:
    ``unary`` like ``mu``; scratch ``pool, logs (n_states,)``. Cost: K^2 a table and side, K exponentials a vertex.
    """
    largest = 0
    n = np.uint64(n_states)
    for t in range(order.size):
        v = np.uint64(order[t])
        own = np.uint64(state_ptr[v])
        for x in range(n):
            logs[x] = unary[own + x]
        begin, end = np.uint64(nbr_ptr[v]), np.uint64(nbr_ptr[v + _ONE])
        if n > _FOUR:
            _gather(begin, end, n, nbr, cell, is_first, theta, mu, pool, logs)
        else:  # too short for SIMD
            for i in range(begin, end):
                at, m = np.uint64(cell[i]), np.uint64(nbr[i])
                row, column = (n, _ONE) if is_first[i] else (_ONE, n)
                for x in range(n):
                    total, place = 0.0, at
                    for y in range(n):
                        total += theta[place] * mu[m + y]
                        place += column
                    logs[x] += total
                    at += row
        largest = max(largest, softmax(0, logs, state_ptr[v], n_states, mu))
    return largest
