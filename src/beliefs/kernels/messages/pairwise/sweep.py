r"""Messages of pairwise models whose variables all have K states: one read of a table serves both of its messages.

For edge e = (u, v) with table :math:`\psi_e` (K x K), cavities :math:`c_u = p_u / m_{e \to u}` and
:math:`c_v = p_v / m_{e \to v}`,

.. math:: m_{e \to v} \propto \psi_e^\top c_u, \qquad m_{e \to u} \propto \psi_e c_v, \qquad
          p_u \leftarrow p_u \, (m^{new}_{e \to u} / m^{old}_{e \to u})^{\rho_e}

and the same with (+, max) in the place of (x, +). Messages have mean one (sums) or maximum zero (maxima, in logs).
Tables lie in the order of the sweep, so memory is read forwards or backwards. Values must be finite and within the
range of a double: the caller sees to that.

Arrays are flat. A row of ``product`` or ``messages`` has ``width`` entries, K rounded up to a multiple of four; in the
padding messages are one and products zero (zero and ``LOW`` in logs), so that it adds nothing. Rows of tables are not
padded: four entries at the end of a row are read into the next one, and ``psi`` has some entries to spare at its end.
The table of edge e begins at ``at[e]``, or, if ``at`` is empty, at ``e K^2``.

Messages are read from ``messages`` and written to ``fresh``, which may be the same array.

The loops over states are a few steps long, so for rows of four and of eight they are compiled with that width as a
constant, and unroll.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from beliefs.kernels._jit import inlined_kernel, linear_kernel
from beliefs.kernels.messages.pairwise.structures import PairTables
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.kernels.primitives.exponential import NEAR_ONE, binomials, exp4, power_near_one4
from beliefs.kernels.primitives.memory import address, get, onward, prefetch, put, stack_memory
from beliefs.kernels.primitives.simd import (
    add4,
    divide4,
    fill4,
    load4,
    maximum4,
    multiply4,
    multiply_add4,
    peak4,
    peaks4,
    root4,
    store4,
    subtract4,
    total4,
    totals4,
)
from beliefs.typing import Bools, Floats

__all__ = ["CONSTANT_WIDTHS", "LARGEST_STATES", "LOW", "linear_sweep", "max_sweep", "row_beliefs"]

LARGEST_STATES = 256
"""The largest K of these kernels: their vectors live on the stack."""

CONSTANT_WIDTHS = (4, 8)
"""Widths that have kernels of their own."""

LOW = -1e300  # stands for -inf in the padding of logs
_ROOM = LARGEST_STATES + 40  # not a divisor of 4 kB: else vectors would seem to overlap in the low bits of addresses
_BOTH = 2 * _ROOM
AHEAD = 4096
"""Doubles: how far ahead of a sweep memory is prefetched. Farther than it takes to arrive, since it comes in bursts."""


@inlined_kernel
def plain_products(
    states: int, width: int, at: int, psi: Any, soon: int, cu: Any, cv: Any, to_u: Any, to_v: Any
) -> None:
    """Write ``to_u = T @ cv`` and ``to_v = cu @ T``; their padding gets nonsense, finite.

    Four rows at a time: each of their entries is read once and used twice. Rows beyond the last are the last again,
    with weight zero. Nothing is written one by one that is then read four at a time: that stalls. Meanwhile the table
    at ``soon`` is prefetched, a few lines at a time, because only so many can be under way; -1: none.
    """
    for x in range(0, width, 4):
        if soon >= 0:
            for line in range(soon + x * states, soon + (x + 4) * states, 8):
                prefetch(psi, line)
        r0, r1 = at + x * states, at + min(x + 1, states - 1) * states
        r2, r3 = at + min(x + 2, states - 1) * states, at + min(x + 3, states - 1) * states
        c0, c1, c2, c3 = fill4(get(cu, x)), fill4(get(cu, x + 1)), fill4(get(cu, x + 2)), fill4(get(cu, x + 3))
        s0, s1, s2, s3 = fill4(0.0), fill4(0.0), fill4(0.0), fill4(0.0)
        for y in range(0, width, 4):
            c, t0, t1 = load4(cv, y), load4(psi, r0 + y), load4(psi, r1 + y)
            t2, t3 = load4(psi, r2 + y), load4(psi, r3 + y)
            s0, s1 = multiply_add4(t0, c, s0), multiply_add4(t1, c, s1)
            s2, s3 = multiply_add4(t2, c, s2), multiply_add4(t3, c, s3)
            onto = multiply_add4(t1, c1, multiply4(t0, c0))
            if x > 0:
                onto = add4(onto, load4(to_v, y))
            store4(to_v, y, add4(onto, multiply_add4(t3, c3, multiply4(t2, c2))))
        store4(to_u, x, totals4(s0, s1, s2, s3))


@inlined_kernel
def scale_to_mean_one(states: int, width: int, mask: Any, message: Any) -> None:
    """Divide by the mean; the padding, where ``mask`` is zero, becomes one."""
    total = fill4(0.0)
    for x in range(0, width, 4):
        total = multiply_add4(load4(message, x), load4(mask, x), total)
    scale, one = fill4(states / total4(total)), fill4(1.0)
    for x in range(0, width, 4):
        kept = load4(mask, x)
        scaled = multiply4(multiply4(load4(message, x), kept), scale)
        store4(message, x, add4(scaled, subtract4(one, kept)))


@inlined_kernel
def both_products(
    states: int, width: int, at: int, psi: Any, soon: int, mask: Any, cu: Any, cv: Any, to_u: Any, to_v: Any
) -> None:
    """Write ``to_u = T @ cv`` and ``to_v = cu @ T`` for ``T = psi[at:].reshape(K, K)``, scaled to mean one."""
    plain_products(states, width, at, psi, soon, cu, cv, to_u, to_v)
    scale_to_mean_one(states, width, mask, to_u)
    scale_to_mean_one(states, width, mask, to_v)


@inlined_kernel
def cavity(width: int, product: Any, at: int, messages: Any, sent: int, out: Any) -> None:
    """Write the product of one variable at ``at`` without the message at ``sent``."""
    for x in range(0, width, 4):
        store4(out, x, divide4(load4(product, at + x), load4(messages, sent + x)))


@inlined_kernel
def fill_mask(states: int, width: int, mask: Any) -> None:
    """Write one for each state and zero for the padding."""
    for x in range(width):
        put(mask, x, 1.0 if x < states else 0.0)


@inlined_kernel
def prefetch_row(memory: Any, row: int, n_rows: int, size: int) -> None:
    """Prefetch a row of ``size`` entries, if there is one: a table, or the messages of an edge."""
    if 0 <= row < n_rows:
        for line in range(row * size, (row + 1) * size, 8):
            prefetch(memory, line)


@inlined_kernel
def plain_step(width: int, c: Any, to: Any, sending: Any, m: int, product: Any, p: int) -> None:
    """Write the message ``to`` at ``m``, and its product with the cavity ``c`` at ``p``."""
    for x in range(0, width, 4):
        new = load4(to, x)
        store4(sending, m + x, new)
        store4(product, p + x, multiply4(load4(c, x), new))


@inlined_kernel
def root_step(width: int, damped: bool, c: Any, to: Any, sent: Any, sending: Any, m: int, product: Any, p: int) -> None:
    """Do what :func:`power_step` does for a counting number of 0.5 or, if ``damped``, for a damping of 0.5.

    ``p (new / old)^(1/2) = c (new old)^(1/2)``, and the root is the damped message as well.
    """
    for x in range(0, width, 4):
        new = load4(to, x)
        root = root4(multiply4(new, load4(sent, m + x)))
        store4(product, p + x, multiply4(load4(c, x), root))
        store4(sending, m + x, root if damped else new)


@inlined_kernel
def logs_and_powers(n: int, rho: float, keep: float, ratios: Any, logs: Any, powers: Any, moves: Any) -> None:
    """Write ``powers = ratios ** (keep * rho)`` and, if ``keep`` is less than 1, ``moves = ratios ** keep``.

    The first ``n`` entries, a multiple of 16, so that the loops are SIMD with nothing left over. ``logs`` is scratch.
    """
    for y in range(n):
        put(logs, y, keep * fast_log(get(ratios, y)))
    for y in range(n):
        put(powers, y, fast_exp(rho * get(logs, y)))
    if keep < 1.0 and rho != 1.0:
        for y in range(n):
            put(moves, y, fast_exp(get(logs, y)))
    elif keep < 1.0:
        for y in range(n):
            put(moves, y, get(powers, y))


@inlined_kernel
def from_one4(ratio: Any) -> Any:
    """Return how far each number is from 1."""
    return maximum4(subtract4(ratio, fill4(1.0)), subtract4(fill4(1.0), ratio))


@inlined_kernel
def powers_near_one(
    n: int, damped: bool, same: bool, for_power: Any, for_move: Any, ratios: Any, powers: Any, moves: Any
) -> None:
    """Do what :func:`logs_and_powers` does where messages begin to settle, with coefficients for both exponents."""
    for y in range(0, n, 4):
        ratio = load4(ratios, y)
        power = power_near_one4(ratio, for_power)
        store4(powers, y, power)
        if damped:
            store4(moves, y, power if same else power_near_one4(ratio, for_move))


@inlined_kernel
def power_step(
    width: int, keep: float, powers: Any, moves: Any, to: Any, sent: Any, sending: Any, m: int, product: Any, p: int
) -> None:
    """Multiply the product at ``p`` by ``powers``; write ``to`` or, if damped, the old message times ``moves``."""
    for x in range(0, width, 4):
        store4(product, p + x, multiply4(load4(product, p + x), load4(powers, x)))
        if keep == 1.0:
            store4(sending, m + x, load4(to, x))
        else:
            store4(sending, m + x, multiply4(load4(sent, m + x), load4(moves, x)))


@cache
def linear_sweep(constant: int, powered: bool) -> Callable[..., None]:
    """Return the sweep of sums for rows of ``constant`` entries, known to the compiler; 0 for any.

    Unless ``powered``, counting numbers are 1 and nothing is damped.
    """

    @linear_kernel
    def sweep(
        pairs: PairTables,
        rho: Floats,
        keep: float,
        begin: int,
        end: int,
        stride: int,
        product: Floats,
        messages: Floats,
        fresh: Floats,
    ) -> None:
        """Update edges ``begin, begin + stride, ...`` up to ``end``, with counting numbers and damping in logs.

        Cost: 4 K^2 flops and 4 K divisions an edge, its table read once. If powered, ``rho`` 0.5, as on grids, and a
        damping of 0.5 cost a square root a state; other numbers an exponential and a logarithm, both together two
        exponentials, or eight multiplications where messages move by less than 1/64. ``keep`` is 1 minus the damping.
        Else neither is read.
        """
        states, u, v, at = pairs.states, pairs.u, pairs.v, pairs.at
        width = constant if constant > 0 else (states + 3) // 4 * 4
        cu, cv = stack_memory(_ROOM), stack_memory(_ROOM)
        to_u, to_v, mask = stack_memory(_ROOM), stack_memory(_ROOM), stack_memory(_ROOM)
        fill_mask(states, width, mask)
        if powered:
            padded = (2 * width + 15) // 16 * 16
            ratios, logs = stack_memory(_BOTH), stack_memory(_BOTH)
            powers, moves = stack_memory(_BOTH), stack_memory(_BOTH)
            for x in range(padded):
                put(ratios, x, 1.0)
            for_power, for_move, prepared = stack_memory(8), stack_memory(8), -1.0
            binomials(keep, for_move)
        tables, beliefs, own_tables = address(pairs.psi), address(product), at.size == 0
        sent, sending = address(messages), address(fresh)
        ahead = max(1, AHEAD // (states * states)) * stride
        for e in range(begin, end, stride):
            pu, pv, mu = u[e] * width, v[e] * width, 2 * e * width
            mv = mu + width
            prefetch_row(sent, e + ahead, u.size, 2 * width)
            soon = (e + ahead) * states * states if own_tables and 0 <= e + ahead < u.size else -1
            cavity(width, beliefs, pu, sent, mu, cu)
            cavity(width, beliefs, pv, sent, mv, cv)
            table = e * states * states if own_tables else at[e]
            both_products(states, width, table, tables, soon, mask, cu, cv, to_u, to_v)
            if not powered:
                plain_step(width, cu, to_u, sending, mu, beliefs, pu)
                plain_step(width, cv, to_v, sending, mv, beliefs, pv)
            elif (rho[e] == 0.5 and keep == 1.0) or (rho[e] == 1.0 and keep == 0.5):
                root_step(width, keep == 0.5, cu, to_u, sent, sending, mu, beliefs, pu)
                root_step(width, keep == 0.5, cv, to_v, sent, sending, mv, beliefs, pv)
            else:
                far = fill4(0.0)
                for x in range(0, width, 4):
                    by_u = divide4(load4(to_u, x), load4(sent, mu + x))
                    by_v = divide4(load4(to_v, x), load4(sent, mv + x))
                    store4(ratios, x, by_u)
                    store4(ratios, width + x, by_v)
                    far = maximum4(far, maximum4(from_one4(by_u), from_one4(by_v)))
                if peak4(far) < NEAR_ONE and 0.0 <= rho[e] <= 1.0:
                    if rho[e] != prepared:
                        prepared = rho[e]
                        binomials(keep * prepared, for_power)
                    powers_near_one(2 * width, keep < 1.0, prepared == 1.0, for_power, for_move, ratios, powers, moves)
                else:
                    logs_and_powers(padded, rho[e], keep, ratios, logs, powers, moves)
                power_step(width, keep, powers, moves, to_u, sent, sending, mu, beliefs, pu)
                of_v, moves_v = onward(powers, width), onward(moves, width)
                power_step(width, keep, of_v, moves_v, to_v, sent, sending, mv, beliefs, pv)

    return sweep


@inlined_kernel
def both_maxima(
    states: int, width: int, at: int, psi: Any, mask: Any, low: Any, cu: Any, cv: Any, to_u: Any, to_v: Any
) -> None:
    """Write ``to_u = (T + cv).max(axis=1)`` and ``to_v = (T + cu[:, None]).max(axis=0)``, shifted to maximum zero."""
    for x in range(0, width, 4):
        r0, r1 = at + x * states, at + min(x + 1, states - 1) * states
        r2, r3 = at + min(x + 2, states - 1) * states, at + min(x + 3, states - 1) * states
        c0, c1, c2, c3 = fill4(get(cu, x)), fill4(get(cu, x + 1)), fill4(get(cu, x + 2)), fill4(get(cu, x + 3))
        s0, s1, s2, s3 = fill4(LOW), fill4(LOW), fill4(LOW), fill4(LOW)
        for y in range(0, width, 4):
            c, t0, t1 = load4(cv, y), load4(psi, r0 + y), load4(psi, r1 + y)
            t2, t3 = load4(psi, r2 + y), load4(psi, r3 + y)
            s0, s1 = maximum4(s0, add4(t0, c)), maximum4(s1, add4(t1, c))
            s2, s3 = maximum4(s2, add4(t2, c)), maximum4(s3, add4(t3, c))
            onto = maximum4(add4(t0, c0), add4(t1, c1))
            if x > 0:
                onto = maximum4(onto, load4(to_v, y))
            store4(to_v, y, maximum4(onto, maximum4(add4(t2, c2), add4(t3, c3))))
        store4(to_u, x, peaks4(s0, s1, s2, s3))
    shift_to_zero(width, mask, low, to_u)
    shift_to_zero(width, mask, low, to_v)


@inlined_kernel
def shift_to_zero(width: int, mask: Any, low: Any, message: Any) -> None:
    """Subtract the maximum; the padding, where ``mask`` is zero and ``low`` is ``LOW``, becomes zero.

    ``low`` is added, and nothing taken away again: a sum such as ``m * mask + LOW * (1 - mask)`` may be reassociated
    into one in which ``m`` is lost.
    """
    top = fill4(LOW)
    for x in range(0, width, 4):
        top = maximum4(top, add4(load4(message, x), load4(low, x)))
    shift = fill4(peak4(top))
    for x in range(0, width, 4):
        store4(message, x, multiply4(subtract4(load4(message, x), shift), load4(mask, x)))


@cache
def max_sweep(constant: int) -> Callable[..., None]:
    """Return the sweep for rows of ``constant`` entries, known to the compiler; 0 for any."""

    @linear_kernel
    def sweep(
        pairs: PairTables,
        rho: Floats,
        keep: float,
        begin: int,
        end: int,
        stride: int,
        product: Floats,
        messages: Floats,
        fresh: Floats,
    ) -> None:
        """Do what :func:`linear_sweep` does with sums and maxima; ``psi`` is ``theta / rho``, ``product`` is beta."""
        states, u, v, at = pairs.states, pairs.u, pairs.v, pairs.at
        width = constant if constant > 0 else (states + 3) // 4 * 4
        cu, cv = stack_memory(_ROOM), stack_memory(_ROOM)
        to_u, to_v, mask, low = stack_memory(_ROOM), stack_memory(_ROOM), stack_memory(_ROOM), stack_memory(_ROOM)
        fill_mask(states, width, mask)
        for x in range(width):
            put(low, x, 0.0 if x < states else LOW)
        tables, beliefs, own_tables = address(pairs.psi), address(product), at.size == 0
        sent, sending = address(messages), address(fresh)
        ahead = max(1, AHEAD // (states * states)) * stride
        for e in range(begin, end, stride):
            pu, pv, mu = u[e] * width, v[e] * width, 2 * e * width
            mv = mu + width
            prefetch_row(sent, e + ahead, u.size, 2 * width)
            if own_tables:
                prefetch_row(tables, e + ahead, u.size, states * states)
            for x in range(0, width, 4):
                store4(cu, x, subtract4(load4(beliefs, pu + x), load4(sent, mu + x)))
                store4(cv, x, subtract4(load4(beliefs, pv + x), load4(sent, mv + x)))
            table = e * states * states if own_tables else at[e]
            both_maxima(states, width, table, tables, mask, low, cu, cv, to_u, to_v)
            share, weight = fill4(keep), fill4(rho[e])
            for x in range(0, width, 4):
                old_u, old_v = load4(sent, mu + x), load4(sent, mv + x)
                change_u = multiply4(share, subtract4(load4(to_u, x), old_u))
                change_v = multiply4(share, subtract4(load4(to_v, x), old_v))
                store4(sending, mu + x, add4(old_u, change_u))
                store4(sending, mv + x, add4(old_v, change_v))
                store4(beliefs, pu + x, multiply_add4(weight, change_u, load4(beliefs, pu + x)))
                store4(beliefs, pv + x, multiply_add4(weight, change_v, load4(beliefs, pv + x)))

    return sweep


@linear_kernel
def row_beliefs(states: int, in_logs: bool, observed: Bools, product: Floats, mu_var: Floats) -> float:
    """Write each row of ``product`` (its ``exp`` if in logs) normalised; return the largest change of ``mu_var``.

    Rows of ``mu_var`` are not padded. What does not fill four entries is left, so that no row reaches into the next.
    """
    width, four = (states + 3) // 4 * 4, states // 4 * 4
    row, values, held = stack_memory(_ROOM), address(product), address(mu_var)
    zero, changes, change = fill4(0.0), fill4(0.0), 0.0
    for v in range(observed.size):
        if observed[v]:
            continue
        at, out, total = v * width, v * states, zero
        if in_logs:
            top = fill4(LOW)
            for x in range(0, width, 4):  # the padding is low
                top = maximum4(top, load4(values, at + x))
            shift = fill4(peak4(top))
            for x in range(0, width, 4):
                value = exp4(subtract4(load4(values, at + x), shift))
                store4(row, x, value)
                total = add4(total, value)
        else:
            for x in range(0, width, 4):  # the padding is zero
                value = load4(values, at + x)
                store4(row, x, value)
                total = add4(total, value)
        share = 1.0 / total4(total)
        shares = fill4(share)
        for x in range(0, four, 4):
            belief, before = multiply4(load4(row, x), shares), load4(held, out + x)
            changes = maximum4(changes, maximum4(subtract4(belief, before), subtract4(before, belief)))
            store4(held, out + x, belief)
        for x in range(four, states):
            last = get(row, x) * share
            change = max(change, abs(last - get(held, out + x)))
            put(held, out + x, last)
    return max(change, peak4(changes))
