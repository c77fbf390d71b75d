"""Mean field on pairwise models of one cardinality without hard zeros: one vertex after the other, in memory order.

Each table is stored once, in ``theta``: towards its second variable rows are scaled and added, towards its first they
are multiplied by the marginal and summed. See :mod:`beliefs.kernels.mean_field.general` for unsigned offsets and
residuals.

Rows are taken four entries at a time, without padding: where K is no multiple of four, the last four entries of a row
overlap the four before them, and ``mask`` sees to it that sums count them once. So K is at least four; three states
have a kernel of their own, as have two. For rows of four and of up to eight entries the loops are compiled with their
length as a constant, and unroll.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from beliefs.kernels._jit import inlined_kernel, kernel, linear_kernel
from beliefs.kernels.primitives.elementary import fast_exp
from beliefs.kernels.primitives.exponential import exp4
from beliefs.kernels.primitives.memory import address, get, prefetch, put, stack_memory
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
    totals4,
)
from beliefs.typing import Bools, Floats, Ints

__all__ = [
    "CONSTANT_WIDTHS",
    "LARGEST_STATES",
    "Couplings",
    "Neighbours",
    "add_neighbours",
    "add_neighbours_ternary",
    "pairwise_sweep",
    "sweep_binary",
    "sweep_ternary",
]

CONSTANT_WIDTHS = (4, 8)
"""Widths (K rounded up to a multiple of four) that have kernels of their own."""

LARGEST_STATES = 256
"""The largest K of these kernels: their vectors live on the stack, where the compiler knows that nothing else is."""

_ROOM = LARGEST_STATES + 40  # not a divisor of 4 kB: else vectors would seem to overlap in the low bits of addresses
_ONE, _TWO = np.uint64(1), np.uint64(2)
_AHEAD = 256  # cells: how far ahead tables are prefetched, but at least a vertex


class Neighbours(NamedTuple):
    """Pairwise structure by vertex: entries ``ptr[v]:ptr[v+1]``, by table where tables are tied."""

    state_ptr: Ints  # (n_vars+1,) where a vertex's marginal begins in mu
    ptr: Ints  # (n_vars+1,)
    nbr: Ints  # (n_entries,) where the neighbour's marginal begins in mu
    cell: Ints  # (n_entries,) where the table begins in theta
    is_first: Bools  # (n_entries,) whether the vertex is the table's first variable


class Couplings(NamedTuple):
    """Binary pairs in log-odds: entries ``ptr[v]:ptr[v+1]``."""

    state_ptr: Ints  # (n_vars+1,) where a vertex's marginal begins in mu
    ptr: Ints  # (n_vars+1,)
    second: Ints  # (n_entries,) where the probability of the neighbour's second state is in mu
    coupling: Floats  # (n_entries,) what that adds to the log-odds of the vertex
    field: Floats  # (n_vars,) log-odds with all neighbours in their first state


@kernel
def sweep_binary(order: Ints, couplings: Couplings, mu: Floats) -> int:
    """Update binary vertices in log-odds; return the bits of the largest absolute change of a probability.

    Equivalent, for each ``v`` in ``order``, to ``q[v] = sigmoid(field[v] + coupling @ q[neighbours])`` with
    ``mu = (1 - q, q)``. Not reassociated: short sums gain nothing from SIMD. One exponential a vertex; log-odds beyond
    708 are as good as 708.
    """
    state_ptr, nbr_ptr, second_at, coupling, field = couplings
    largest = np.int64(0)
    for t in range(order.size):
        v = np.uint64(order[t])
        odds = field[v]
        for i in range(np.uint64(nbr_ptr[v]), np.uint64(nbr_ptr[v + _ONE])):
            odds += coupling[i] * mu[np.uint64(second_at[i])]
        ratio = fast_exp(-odds)
        second = 1.0 / (1.0 + ratio)
        m = np.uint64(state_ptr[v])
        change = np.float64(abs(second - mu[m + _ONE])).view(np.int64)
        largest = max(largest, change)
        mu[m] = ratio * second
        mu[m + _ONE] = second
    return int(largest)


@inlined_kernel
def add_neighbours_ternary(
    v: np.uint64, three: np.uint64, near: Neighbours, theta: Floats, values: Floats, start: Floats
) -> tuple[float, float, float]:
    """Return ``start[v] + sum of T @ values[u] or values[u] @ T`` over the entries of ``v``, three numbers."""
    m = np.uint64(near.state_ptr[v])
    a, b, c = start[m], start[m + _ONE], start[m + _TWO]
    for i in range(np.uint64(near.ptr[v]), np.uint64(near.ptr[v + _ONE])):
        j, k = np.uint64(near.nbr[i]), np.uint64(near.cell[i])
        p, q, r = values[j], values[j + _ONE], values[j + _TWO]
        row, column = (three, _ONE) if near.is_first[i] else (_ONE, three)
        a += theta[k] * p + theta[k + column] * q + theta[k + _TWO * column] * r
        k += row
        b += theta[k] * p + theta[k + column] * q + theta[k + _TWO * column] * r
        k += row
        c += theta[k] * p + theta[k + column] * q + theta[k + _TWO * column] * r
    return a, b, c


@linear_kernel
def sweep_ternary(order: Ints, n: int, near: Neighbours, unary: Floats, theta: Floats, mu: Floats) -> int:
    """Do what :func:`pairwise_sweep` does for ``n = 3``, in registers; 708 nats below the best state is the least."""
    largest, three = np.int64(0), np.uint64(n)
    for t in range(order.size):
        v = np.uint64(order[t])
        m = np.uint64(near.state_ptr[v])
        a, b, c = add_neighbours_ternary(v, three, near, theta, mu, unary)
        top = max(a, b, c)
        a, b, c = fast_exp(a - top), fast_exp(b - top), fast_exp(c - top)
        scale = 1.0 / (a + b + c)
        a, b, c = a * scale, b * scale, c * scale
        change = max(abs(a - mu[m]), abs(b - mu[m + _ONE]), abs(c - mu[m + _TWO]))
        largest = max(largest, np.float64(change).view(np.int64))
        mu[m], mu[m + _ONE], mu[m + _TWO] = a, b, c
    return int(largest)


@inlined_kernel
def prefetch_cells(theta: Any, start: int, end: int) -> None:
    """Prefetch the cells ``start..end``, if ``start`` is not negative."""
    if start >= 0:
        for line in range(start, end, 8):
            prefetch(theta, line)


@inlined_kernel
def add_rows_times(n: int, width: int, at: int, later: int, theta: Any, pool: Any, logs: Any) -> None:
    """Do ``logs += T @ pool`` for ``T = theta[at:].reshape(n, n)``, four rows at a time.

    Meanwhile as much of the table at ``later`` is prefetched: all at once, its lines would be waited for.
    """
    for x in range(0, width, 4):
        prefetch_cells(theta, later + x * n if later >= 0 else -1, later + (x + 4) * n)
        r0 = at + min(x, n - 4) * n
        r1, r2, r3 = r0 + n, r0 + 2 * n, r0 + 3 * n
        s0, s1, s2, s3 = fill4(0.0), fill4(0.0), fill4(0.0), fill4(0.0)
        for y in range(0, width, 4):
            p, z = load4(pool, y), min(y, n - 4)
            s0, s1 = multiply_add4(load4(theta, r0 + z), p, s0), multiply_add4(load4(theta, r1 + z), p, s1)
            s2, s3 = multiply_add4(load4(theta, r2 + z), p, s2), multiply_add4(load4(theta, r3 + z), p, s3)
        store4(logs, x, add4(load4(logs, x), totals4(s0, s1, s2, s3)))


@inlined_kernel
def add_scaled_rows(n: int, width: int, at: int, later: int, theta: Any, pool: Any, logs: Any) -> None:
    """Do ``logs += pool @ T`` as :func:`add_rows_times` does the other."""
    for x in range(0, width, 4):
        prefetch_cells(theta, later + x * n if later >= 0 else -1, later + (x + 4) * n)
        r0 = at + min(x, n - 4) * n
        r1, r2, r3 = r0 + n, r0 + 2 * n, r0 + 3 * n
        p0, p1, p2, p3 = fill4(get(pool, x)), fill4(get(pool, x + 1)), fill4(get(pool, x + 2)), fill4(get(pool, x + 3))
        for y in range(0, width, 4):
            z = min(y, n - 4)
            two = multiply_add4(load4(theta, r0 + z), p0, multiply4(load4(theta, r1 + z), p1))
            onto = multiply_add4(load4(theta, r2 + z), p2, load4(logs, y))
            store4(logs, y, add4(two, multiply_add4(load4(theta, r3 + z), p3, onto)))


@inlined_kernel
def add_neighbours(
    n: int, width: int, v: int, ahead: int, near: Neighbours, mask: Any, theta: Any, values: Any, pool: Any, out: Any
) -> None:
    """Do ``out += sum of T @ values[u] or values[u] @ T`` over the entries of ``v``, by its side of each table.

    Adjacent entries with the same table and side are pooled: their vectors are added up first, so a tied table is read
    at most twice a vertex. Tables of the vertex ``ahead`` are prefetched. ``values`` is laid out like ``mu``; ``pool``
    and ``out`` have ``width`` entries. The sweep and its adjoint both read their neighbours by this.
    """
    last, i, end = n - 4, near.ptr[v], near.ptr[v + 1]
    j, stop = near.ptr[ahead], near.ptr[ahead + 1]
    while i < end:
        at, side = near.cell[i], near.is_first[i]
        for y in range(0, width, 4):
            store4(pool, y, load4(values, near.nbr[i] + min(y, last)))
        i += 1
        while i < end and near.cell[i] == at and near.is_first[i] == side:
            for y in range(0, width, 4):
                store4(pool, y, add4(load4(pool, y), load4(values, near.nbr[i] + min(y, last))))
            i += 1
        store4(pool, width - 4, multiply4(load4(pool, width - 4), load4(mask, 0)))
        later = near.cell[j] if width > 4 and j < stop and near.cell[j] != at else -1
        j += 1
        if side:
            add_rows_times(n, width, at, later, theta, pool, out)
        else:
            add_scaled_rows(n, width, at, later, theta, pool, out)


@inlined_kernel
def softmax4(n: int, width: int, own: int, mask: Any, logs: Any, mu: Any, change: Any) -> Any:
    """Write ``mu[own:] = softmax(logs)``; return the larger of ``change`` and the changes. ``logs`` is overwritten."""
    top, total = load4(logs, 0), fill4(0.0)
    for x in range(4, width, 4):
        top = maximum4(top, load4(logs, x))
    shift = fill4(peak4(top))
    for x in range(0, width, 4):
        weight = exp4(subtract4(load4(logs, x), shift))
        store4(logs, x, weight)
        total = add4(total, weight if x < width - 4 else multiply4(weight, load4(mask, 0)))
    scale = fill4(1.0 / total4(total))
    for x in range(0, width, 4):  # all read before any is written, because the last overlap
        new, old = multiply4(load4(logs, x), scale), load4(mu, own + min(x, n - 4))
        change = maximum4(change, maximum4(subtract4(new, old), subtract4(old, new)))
        store4(logs, x, new)
    for x in range(0, width, 4):
        store4(mu, own + min(x, n - 4), load4(logs, x))
    return change


@cache
def pairwise_sweep(constant: int) -> Callable[..., int]:
    """Return the sweep for rows of ``constant`` entries, known to the compiler; 0 for any."""

    @linear_kernel
    def sweep(order: Ints, n: int, near: Neighbours, unary: Floats, theta: Floats, mu: Floats) -> int:
        """Update vertices of ``n >= 4`` states; return the bits of the largest absolute change of a probability.

        Equivalent, for each ``v`` in ``order``, to ``mu[v] = softmax(unary[v] + sum of T @ mu[u] or mu[u] @ T)`` over
        its entries, by whether ``v`` is the first variable of the table (``is_first``). ``unary`` is like ``mu``. Cost:
        K^2 a table and side, K exponentials a vertex; each table from memory once a sweep if the order is that of
        memory.
        """
        width = constant if constant > 0 else (n + 3) // 4 * 4
        last, ahead = n - 4, max(1, _AHEAD // (n * n))
        pool, logs, mask = stack_memory(_ROOM), stack_memory(_ROOM), stack_memory(4)
        for x in range(4):
            put(mask, x, 1.0 if x >= width - n else 0.0)
        alone, tables, marginals = address(unary), address(theta), address(mu)
        change = fill4(0.0)
        for t in range(order.size):
            v, u = order[t], order[min(t + ahead, order.size - 1)]
            own = near.state_ptr[v]
            for x in range(0, width, 4):
                store4(logs, x, load4(alone, own + min(x, last)))
            add_neighbours(n, width, v, u, near, mask, tables, marginals, pool, logs)
            change = softmax4(n, width, own, mask, logs, marginals, change)
        return int(np.float64(peak4(change)).view(np.int64))

    return sweep
