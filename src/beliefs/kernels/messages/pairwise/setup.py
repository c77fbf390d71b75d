"""Tables, messages and products of the pairwise kernels: brought into their form, and back.

Flat log messages have one row of K entries an edge of the factor graph; held messages have two rows of ``width`` an
edge of the sweep (the factors in ``factors``, in this order): ratios of the two entries if ``width`` is 1, else K
entries and padding; plain numbers with mean one, or logs with maximum zero if ``in_logs``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from beliefs.kernels._jit import inlined_kernel, kernel, twofold_kernel
from beliefs.kernels.layout import Scopes
from beliefs.kernels.messages.pairwise.sweep import LOW
from beliefs.kernels.primitives.elementary import fast_power
from beliefs.kernels.primitives.exponential import exp4, exponentials16
from beliefs.kernels.primitives.memory import address, get, onward, put, stack_memory
from beliefs.kernels.primitives.simd import add4, fill4, load4, maximum4, multiply4, peak4, store4, subtract4
from beliefs.typing import Floats, Ints

_ROWS = 256  # rows whose exponentials are taken together
_BLOCK = 1 << 14  # binary tables whose exponentials are taken together: they stay in the cache; a multiple of four

__all__ = ["hold_messages", "hold_unary", "largest_reach", "load_tables", "log_rows", "multiply_up"]


@inlined_kernel
def extremes(logs: Any, begin: int, n: int) -> tuple[float, float]:
    """Return the least and the largest of ``n`` entries from ``begin`` on."""
    most = least = get(logs, begin)
    if n < 4:
        for k in range(begin + 1, begin + n):
            most, least = max(most, get(logs, k)), min(least, get(logs, k))
        return least, most
    zero, last = fill4(0.0), load4(logs, begin + n - 4)  # overlaps what comes before
    high0 = high1 = last
    low0 = low1 = subtract4(zero, last)
    for k in range(begin, begin + n // 8 * 8, 8):  # two chains of maxima each, which do not wait for one another
        here, next = load4(logs, k), load4(logs, k + 4)
        high0, high1 = maximum4(high0, here), maximum4(high1, next)
        low0, low1 = maximum4(low0, subtract4(zero, here)), maximum4(low1, subtract4(zero, next))
    if n % 8 >= 4:
        here = load4(logs, begin + n // 8 * 8)
        high0, low0 = maximum4(high0, here), maximum4(low0, subtract4(zero, here))
    return -peak4(maximum4(low0, low1)), peak4(maximum4(high0, high1))


@inlined_kernel
def exponentials(logs: Any, begin: int, n: int, shift: float, scale: float, out: Any) -> None:
    """Write ``exp((logs - shift) / scale)`` of ``n >= 4`` entries from ``begin`` on to ``out``."""
    if n >= 16:
        for k in range(0, n, 16):  # what is left over overlaps what comes before
            k = min(k, n - 16)
            exponentials16(logs, begin + k, shift, 1.0 / scale, out, k)
        return
    under, over = fill4(shift), fill4(1.0 / scale)
    for k in range(0, n, 8):  # what is left over overlaps what comes before
        j, k = min(k, n - 4), min(k + 4, n - 4)
        first = exp4(multiply4(subtract4(load4(logs, begin + j), under), over))
        second = exp4(multiply4(subtract4(load4(logs, begin + k), under), over))
        store4(out, j, first)
        store4(out, k, second)


@kernel
def exponentiate(values: Floats, begin: int, end: int) -> None:
    """Replace ``values[begin:end]`` by their exponentials."""
    memory = address(values)
    sixteen, four = begin + (end - begin) // 16 * 16, begin + (end - begin) // 4 * 4
    for k in range(begin, sixteen, 16):
        exponentials16(memory, k, 0.0, 1.0, memory, k)
    for k in range(sixteen, four, 4):
        store4(memory, k, exp4(load4(memory, k)))
    if four < end:  # not by another formula: equal tables have equal numbers, wherever they lie
        rest = stack_memory(4)
        store4(rest, 0, fill4(0.0))
        for k in range(four, end):
            put(rest, k - four, values[k])
        store4(rest, 0, exp4(load4(rest, 0)))
        for k in range(four, end):
            values[k] = get(rest, k - four)


@twofold_kernel(cost=0.5)
def binary_log_ratios(
    begin: int, end: int, cells: Ints, theta: Floats, rho: Floats, psi: Floats, span: Floats, shift: Floats
) -> bool:
    """Do what :func:`load_tables` does for two states in logs, for the tables ``begin..end``."""
    for d in range(begin, end):
        k, over = cells[d], 1.0 / rho[d]
        t00, t01, t10, t11 = theta[k], theta[k + 1], theta[k + 2], theta[k + 3]
        low = min(min(t00, t01), min(t10, t11))
        if low == -np.inf:
            return False
        span[d], shift[d] = max(max(t00, t01), max(t10, t11)) - low, t00
        psi[3 * d], psi[3 * d + 1], psi[3 * d + 2] = (t01 - t00) * over, (t10 - t00) * over, (t11 - t00) * over
    return True


def load_binary_tables(
    cells: Ints, theta: Floats, rho: Floats, in_logs: bool, psi: Floats, span: Floats, shift: Floats
) -> bool:
    """Do what :func:`load_tables` does for two states; exponentials are taken of a block of tables at a time."""
    for begin in range(0, cells.size, _BLOCK):
        end = min(begin + _BLOCK, cells.size)
        if not binary_log_ratios(begin, end, cells, theta, rho, psi, span, shift):
            return False
        if not in_logs:
            exponentiate(psi, 3 * begin, 3 * end)
    return True


@kernel
def load_wide_tables(
    cells: Ints, theta: Floats, rho: Floats, in_logs: bool, psi: Floats, span: Floats, shift: Floats
) -> bool:
    """Do what :func:`load_tables` does for more than two states."""
    n_cells, logs, out = psi.shape[1], address(theta), address(psi)
    for d in range(cells.size):
        low, high = extremes(logs, cells[d], n_cells)
        if low == -np.inf:
            return False
        span[d], shift[d] = high - low, high
        if in_logs:
            for k in range(n_cells):
                psi[d, k] = (theta[cells[d] + k] - high) / rho[d]
        else:
            exponentials(logs, cells[d], n_cells, high, rho[d], onward(out, d * n_cells))
    return True


def load_tables(
    cells: Ints, theta: Floats, rho: Floats, in_logs: bool, psi: Floats, span: Floats, shift: Floats
) -> bool:
    """Write ``(theta[cells[d] : cells[d] + K^2] - shift[d]) / rho[d]`` to each row d of ``psi``; False at a ``-inf``.

    ``psi (tables, K^2)`` has its maximum at one (zero in logs). Binary tables are ``psi (tables, 3)``: divided by
    their first entry, which is left out. ``span`` gets the range of each table in nats. No kernel, so that who has
    binary models waits for the compilation of their half alone.
    """
    if psi.shape[1] == 3:
        return load_binary_tables(cells, theta, rho, in_logs, psi.reshape(-1), span, shift)
    return load_wide_tables(cells, theta, rho, in_logs, psi, span, shift)


@kernel
def hold_messages(
    factors: Ints, scope_ptr: Ints, states: int, width: int, in_logs: bool, logs: Floats, held: Floats
) -> None:
    """Bring flat log messages into the held form."""
    for k in range(factors.size):
        for side in range(2):
            row = logs[(scope_ptr[factors[k]] + side) * states : (scope_ptr[factors[k]] + side + 1) * states]
            into = held[(2 * k + side) * width : (2 * k + side + 1) * width]
            if width == 1:
                into[0] = row[1] - row[0] if in_logs else math.exp(row[1] - row[0])
                continue
            for x in range(width):
                if x < states:
                    into[x] = row[x] if in_logs else math.exp(row[x]) * states
                else:
                    into[x] = 0.0 if in_logs else 1.0


@kernel
def log_rows(
    factors: Ints, scope_ptr: Ints, states: int, width: int, in_logs: bool, held: Floats, logs: Floats
) -> None:
    """Bring held messages into flat log messages, log-sum-exp zero (maximum zero if ``in_logs``)."""
    for k in range(factors.size):
        for side in range(2):
            row = logs[(scope_ptr[factors[k]] + side) * states : (scope_ptr[factors[k]] + side + 1) * states]
            at = (2 * k + side) * width
            total, top = 0.0, LOW
            for x in range(states):
                value = held[at + x] if width > 1 else (1.0 - in_logs if x == 0 else held[at])
                row[x] = value
                total += value
                top = max(top, value)
            for x in range(states):
                row[x] = row[x] - top if in_logs else math.log(row[x] / total)


@twofold_kernel(cost=0.5)
def binary_log_odds(scopes: Scopes, theta: Floats, unary: Floats, shift: Floats, reach: Floats) -> bool:
    """Do what :func:`hold_unary` does for two states, held as log ratios."""
    for v in range(unary.size):
        unary[v], shift[v] = 0.0, 0.0
    for f in range(scopes.cell_ptr.size):
        if scopes.scope_ptr[f + 1] - scopes.scope_ptr[f] == 1:
            v, k = scopes.scope_vars[scopes.scope_ptr[f]], scopes.cell_ptr[f]
            first, second = theta[k], theta[k + 1]
            if first == -math.inf or second == -math.inf:
                return False
            unary[v] += second - first
            shift[v] += first
    for v in range(unary.size):
        reach[v] = abs(unary[v])
    return True


@kernel
def hold_wide_unary(
    scopes: Scopes,
    states: int,
    width: int,
    in_logs: bool,
    theta: Floats,
    unary: Floats,
    shift: Floats,
    reach: Floats,
) -> bool:
    """Do what :func:`hold_unary` does for more than two states."""
    unary[:] = 0.0
    shift[:] = 0.0
    sums, logs = address(unary), address(theta)
    for f in range(scopes.cell_ptr.size):
        if scopes.scope_ptr[f + 1] - scopes.scope_ptr[f] == 1:
            row, at = scopes.cell_ptr[f], scopes.scope_vars[scopes.scope_ptr[f]] * width
            for x in range(0, states - 3, 4):
                store4(sums, at + x, add4(load4(sums, at + x), load4(logs, row + x)))
            for x in range(states // 4 * 4, states):
                unary[at + x] += theta[row + x]
    for begin in range(0, unary.size, _ROWS * width):
        end = min(begin + _ROWS * width, unary.size)
        for at in range(begin, end, width):
            low, top = extremes(sums, at, states)
            if low == -math.inf:
                return False
            reach[at // width] = top - low
            for x in range(states, width):
                unary[at + x] = LOW
            if not in_logs:
                shift[at // width] = top
                for x in range(0, width, 4):
                    store4(sums, at + x, subtract4(load4(sums, at + x), fill4(top)))
        if not in_logs:
            exponentiate(unary, begin, end)  # the padding becomes zero
    return True


def hold_unary(
    scopes: Scopes,
    states: int,
    width: int,
    in_logs: bool,
    theta: Floats,
    unary: Floats,
    shift: Floats,
    reach: Floats,
) -> bool:
    """Add up the tables of factors of one variable, as products ``(n_vars, width)`` are held; False at a ``-inf``.

    ``shift (n_vars,)`` gets what the sums were lowered by: their maximum, or that of state 0 if ``width`` is 1; ``reach
    (n_vars,)`` their ranges, in nats. No kernel, for the same reason as :func:`load_tables`.
    """
    if width > 1:
        return hold_wide_unary(scopes, states, width, in_logs, theta, unary, shift, reach)
    if not binary_log_odds(scopes, theta, unary, shift, reach):
        return False
    if not in_logs:
        exponentiate(unary, 0, unary.size)
    return True


@twofold_kernel(cost=0.5)
def reach_of_tables(u: Ints, v: Ints, table: Ints, rho: Floats, span: Floats, reach: Floats) -> float:
    """Do what :func:`largest_reach` does for uniform messages."""
    own, widest = 0.0, 0.0
    for e in range(u.size):
        wide = span[table[e] if table.size > 0 else e]
        reach[u[e]] += wide
        reach[v[e]] += wide
        own = max(own, wide / rho[e])
    for i in range(reach.size):
        widest = max(widest, reach[i])
    return widest + 2.0 * own


@kernel
def reach_of_messages(
    u: Ints, v: Ints, table: Ints, rho: Floats, span: Floats, states: int, first: Ints, logs: Floats, reach: Floats
) -> float:
    """Do what :func:`largest_reach` does for given messages."""
    own, widest = 0.0, 0.0
    for e in range(u.size):
        wide = span[table[e] if table.size > 0 else e]
        at = first[e] * states
        low, high = extremes(address(logs), at, states)
        of_u = max(wide, high - low)
        low, high = extremes(address(logs), at + states, states)
        of_v = max(wide, high - low)
        reach[u[e]] += of_u
        reach[v[e]] += of_v
        own = max(own, max(of_u, of_v) / rho[e])
    for i in range(reach.size):
        widest = max(widest, reach[i])
    return widest + 2.0 * own


def largest_reach(
    u: Ints, v: Ints, table: Ints, rho: Floats, span: Floats, states: int, first: Ints, logs: Floats, reach: Floats
) -> float:
    """Return how many nats a product or cavity of messages may span: tables around a variable, its own one twice.

    To ``reach (n_vars,)``, the ranges of unary potentials, the ranges of tables (of log messages where these are wider)
    are added at each variable. ``table`` maps edges of the sweep to ``span``, empty means one to one; ``logs`` may be
    empty: uniform messages. Else the two messages of edge ``e`` are its rows from ``first[e]`` on. No kernel, for the
    same reason as :func:`load_tables`.
    """
    if logs.size == 0:
        return reach_of_tables(u, v, table, rho, span, reach)
    return reach_of_messages(u, v, table, rho, span, states, first, logs, reach)


@kernel
def multiply_up(u: Ints, v: Ints, rho: Floats, width: int, in_logs: bool, messages: Floats, product: Floats) -> None:
    """Multiply held ``messages ** rho`` (add ``rho * messages`` in logs) into ``product``; empty ``rho`` is ones."""
    for e in range(u.size):
        weight = rho[e] if rho.size > 0 else 1.0
        for side in range(2):
            at = width * (u[e] if side == 0 else v[e])
            for x in range(width):
                m = messages[(2 * e + side) * width + x]
                if in_logs:
                    product[at + x] += weight * m
                elif weight == 1.0:
                    product[at + x] *= m
                else:
                    product[at + x] *= fast_power(m, weight)
