r"""The messages of :mod:`beliefs.kernels.messages.log` for sums, as products and sums of plain numbers.

Without exponentials or logarithms (counting numbers 1) a message costs about two multiply-adds a cell. Potentials are
scaled, :math:`\psi_c = e^{(\theta_c - \max \theta_c)/\rho_c}`; messages have mean one; each variable keeps ``product``,
its product of non-zero messages to their :math:`\rho_c`, and ``zeros``, the number of zero ones. Every update checks
that no product of incoming numbers can leave the range of a double; where one could, the sweep stops and says so, and
the caller goes on in logs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from beliefs.kernels._jit import inlined_kernel, kernel, linear_kernel
from beliefs.kernels.layout import Scopes
from beliefs.kernels.messages.contraction import contract_sum, spread_sum
from beliefs.kernels.messages.damping import relaxation, turns_of
from beliefs.kernels.messages.structures import LinearMessages, ScaledTables, Update
from beliefs.kernels.primitives.elementary import fast_exp, fast_log, fast_power
from beliefs.kernels.primitives.memory import address, get, onward, put
from beliefs.typing import Bools, Floats, Ints

__all__ = [
    "DONE",
    "IMPOSSIBLE",
    "OUT_OF_RANGE",
    "linear_beliefs",
    "products",
    "room_for",
    "scaled_potentials",
    "sweep_linear",
]

DONE, IMPOSSIBLE, OUT_OF_RANGE = 0, 1, 2
_LEAST, _MOST = 1e-270, 1e270
_NEAR = 1e-150  # products beyond this are scaled back
_TINY = 1e-300  # messages below this are rounded more than others, or to zero


class _Addresses(NamedTuple):
    """Where the arrays of :class:`beliefs.kernels.messages.structures.LinearMessages` begin in memory."""

    messages: Any
    fresh: Any
    product: Any
    zeros: Any


@kernel
def scaled_potentials(
    factor_size: Ints, cell_ptr: Ints, psi_ptr: Ints, theta: Floats, rho: Floats, psi: Floats
) -> float:
    """Write ``exp((theta - max) / rho)`` of each factor at ``psi_ptr``; return the smallest non-zero entry."""
    least = 1.0
    for f in range(cell_ptr.size):
        top = -np.inf
        for k in range(factor_size[f]):
            top = max(top, theta[cell_ptr[f] + k])
        for k in range(factor_size[f]):
            value = theta[cell_ptr[f] + k]
            if value == -np.inf:
                psi[psi_ptr[f] + k] = 0.0
            else:
                value = fast_exp((value - top) / rho[f])
                psi[psi_ptr[f] + k] = value
                least = min(least, value)
    return least


@kernel
def products(scopes: Scopes, message_ptr: Ints, rho: Floats, messages: Floats, product: Floats, zeros: Ints) -> bool:
    """Multiply up all messages into each variable; return False if a product leaves the range of a double."""
    product[:] = 1.0
    zeros[:] = 0
    inside = True
    for f in range(rho.size):
        for e in range(scopes.scope_ptr[f], scopes.scope_ptr[f + 1]):
            s = scopes.state_ptr[scopes.scope_vars[e]]
            for x in range(message_ptr[e + 1] - message_ptr[e]):
                m = messages[message_ptr[e] + x]
                if m == 0.0:
                    zeros[s + x] += 1
                else:
                    product[s + x] *= m if rho[f] == 1.0 else fast_power(m, rho[f])
                    inside = inside and _LEAST < product[s + x] < _MOST
    return inside


@kernel
def linear_beliefs(
    state_ptr: Ints, observed: Bools, product: Floats, zeros: Ints, mu_var: Floats
) -> tuple[float, bool]:
    """Do what :func:`beliefs.kernels.messages.beliefs.variable_beliefs` does, from products."""
    change = 0.0
    for v in range(observed.size):
        if observed[v]:
            continue
        total = 0.0
        for s in range(state_ptr[v], state_ptr[v + 1]):
            total += product[s] if zeros[s] == 0 else 0.0
        if total == 0.0:
            return change, False
        share = 1.0 / total
        for s in range(state_ptr[v], state_ptr[v + 1]):
            belief = product[s] * share if zeros[s] == 0 else 0.0
            change = max(change, abs(belief - mu_var[s]))
            mu_var[s] = belief
    return change, True


@inlined_kernel
def mixed_message(old: float, new: float, damping: float, in_logs: bool) -> float:
    """Return the new message mixed with a share ``damping`` of the old; a proved zero stays zero."""
    if new == 0.0 or old == 0.0 and in_logs:
        return new
    if in_logs:
        return fast_exp((1.0 - damping) * fast_log(new) + damping * fast_log(old))
    return (1.0 - damping) * new + damping * old


@inlined_kernel
def gather(s: int, m: int, n: int, held: _Addresses, incoming: Any) -> tuple[float, float]:
    """Write products of all other messages to ``incoming[:n]``; return their least above zero, and their largest.

    An entry is zero if another message is; where only this one is, it is what is left without it.
    """
    smallest, greatest = _MOST, 0.0
    for x in range(n):
        c, missing, message = get(held.product, s + x), get(held.zeros, s + x), get(held.messages, m + x)
        if missing == 0:
            c /= message
        elif missing > 1 or message > 0.0:
            c = 0.0
        put(incoming, x, c)
        greatest = max(greatest, c)
        smallest = min(smallest, c if c > 0.0 else smallest)
    return smallest, greatest


@inlined_kernel
def update_message(
    out: Any, cavity: Any, n: int, s: int, m: int, weight: float, share: float, update: Update, held: _Addresses
) -> int:
    """Send ``out[:n]``, scaled to mean one, and exchange it in its variable's product; return DONE or why not.

    ``cavity`` has the product without the old message, of which the new one keeps a ``share``.
    """
    total = 0.0
    for x in range(n):
        total += get(out, x)
    if total == 0.0:
        return IMPOSSIBLE
    scale = n / total
    least, most = _MOST, _LEAST
    for x in range(n):
        old, new = get(held.messages, m + x), get(out, x) * scale
        if new < _TINY and get(out, x) > 0.0:  # a zero would pass for a proof
            return OUT_OF_RANGE
        if share > 0.0:
            new = mixed_message(old, new, share, update.in_logs)
        put(held.fresh, m + x, new)
        if update.at_once:
            continue
        missing = get(held.zeros, s + x)
        if weight == 1.0 and missing == 0 and new > 0.0:
            p = get(cavity, x) * new
        else:
            put(held.zeros, s + x, missing + (new == 0.0) - (old == 0.0))
            ratio = (new if new > 0.0 else 1.0) / (old if old > 0.0 else 1.0)
            p = get(held.product, s + x) * (ratio if weight == 1.0 else fast_power(ratio, weight))
        put(held.product, s + x, p)
        least, most = min(least, p), max(most, p)
    if update.at_once or (least > _NEAR and most < 1.0 / _NEAR):
        return DONE
    for x in range(n):  # a common factor says nothing
        put(held.product, s + x, get(held.product, s + x) / most)
    return DONE if least > _LEAST * most and most < _MOST else OUT_OF_RANGE


@inlined_kernel
def too_small(out: Any, at: int, n: int) -> bool:
    """Whether an entry could have lost a part to underflow that matters."""
    for x in range(at, at + n):
        if get(out, x) < _LEAST:
            return True
    return False


@inlined_kernel
def binary_messages(table: Any, arity: int, incoming: Any, out: Any) -> None:
    """Write all messages out of a table over two or three binary variables: the recursion, written out.

    ``incoming`` and ``out (arity, K)`` are flat with rows of two.
    """
    a0, a1, b0, b1 = get(incoming, 0), get(incoming, 1), get(incoming, 2), get(incoming, 3)
    t0, t1, t2, t3 = get(table, 0), get(table, 1), get(table, 2), get(table, 3)
    if arity == 2:
        put(out, 0, t0 * b0 + t1 * b1)
        put(out, 1, t2 * b0 + t3 * b1)
        put(out, 2, t0 * a0 + t2 * a1)
        put(out, 3, t1 * a0 + t3 * a1)
        return
    t4, t5, t6, t7 = get(table, 4), get(table, 5), get(table, 6), get(table, 7)
    c0, c1 = get(incoming, 4), get(incoming, 5)
    w0, w1, w2, w3 = a0 * b0, a0 * b1, a1 * b0, a1 * b1
    put(out, 4, w0 * t0 + w1 * t2 + w2 * t4 + w3 * t6)
    put(out, 5, w0 * t1 + w1 * t3 + w2 * t5 + w3 * t7)
    s0, s1, s2, s3 = t0 * c0 + t1 * c1, t2 * c0 + t3 * c1, t4 * c0 + t5 * c1, t6 * c0 + t7 * c1
    put(out, 2, a0 * s0 + a1 * s2)
    put(out, 3, a0 * s1 + a1 * s3)
    put(out, 0, b0 * s0 + b1 * s1)
    put(out, 1, b0 * s2 + b1 * s3)


def room_for(extent: Ints) -> int:
    """Return how much working space a sweep needs: a message, all incoming ones, and two intermediate tables."""
    return int(max(extent[1], 6) + extent[0] * extent[1] + extent[2] + extent[3])


@linear_kernel
def sweep_linear(
    scopes: Scopes,
    message_ptr: Ints,
    rho: Floats,
    scaled: ScaledTables,
    update: Update,
    extent: Ints,
    order: Ints,
    skip: Ints,
    held: LinearMessages,
    work: Floats,
) -> int:
    """Do what :func:`beliefs.kernels.messages.log.sweep_log` does for sums; return DONE, IMPOSSIBLE or OUT_OF_RANGE.

    ``skip`` may be empty; ``extent`` is :func:`beliefs.kernels.messages.log.widest_scope`, ``work`` an array of
    :func:`room_for` it. After OUT_OF_RANGE the messages are of no use. Cost: two multiply-adds a cell, a division a
    state; where counting numbers are not 1, an exponential and a logarithm more.
    """
    card, scope_vars, state_ptr = scopes.card, scopes.scope_vars, scopes.state_ptr
    out = address(work)
    incoming = onward(out, max(extent[1], 6))
    rest = onward(incoming, extent[0] * extent[1])
    spread = onward(rest, extent[2])
    tables = address(scaled.psi)
    memory = _Addresses(address(held.messages), address(held.fresh), address(held.product), address(held.zeros))
    put(spread, 0, 1.0)
    code = DONE
    for k in range(order.size):
        f = order[k]
        first, arity = scopes.scope_ptr[f], scopes.scope_ptr[f + 1] - scopes.scope_ptr[f]
        left_out = skip[k] if skip.size > 0 else -1
        turns = 1 if update.at_once else turns_of(arity, rho[f])
        share = 1.0 - (1.0 - update.damping) * relaxation(arity, rho[f]) if update.at_once else update.damping
        binary = arity == 2 or arity == 3
        for a in range(arity):
            binary = binary and card[scope_vars[first + a]] == 2
        table = onward(tables, scaled.ptr[f])
        for turn in range(turns if arity > 1 else 0):
            low, high, at = scaled.least, 1.0, 0  # incoming vectors lie one after the other, from ``at``
            barren = False
            for a in range(arity):
                s, m, n = state_ptr[scope_vars[first + a]], message_ptr[first + a], card[scope_vars[first + a]]
                if binary:  # with a constant, so that loops unroll
                    smallest, greatest = gather(s, m, 2, memory, onward(incoming, at))
                else:
                    smallest, greatest = gather(s, m, n, memory, onward(incoming, at))
                low, high, at, barren = low * smallest, high * greatest, at + n, barren or greatest == 0.0
            if not _LEAST < high < _MOST:
                code = IMPOSSIBLE if barren else OUT_OF_RANGE
                break
            if binary:
                binary_messages(table, arity, incoming, out)
                for a in range(arity):
                    s, m = state_ptr[scope_vars[first + a]], message_ptr[first + a]
                    if a == left_out or code != DONE or (turns > 1 and a != turn):
                        continue
                    if low < _LEAST and too_small(out, 2 * a, 2):
                        code = OUT_OF_RANGE
                    else:
                        code = update_message(
                            onward(out, 2 * a), onward(incoming, 2 * a), 2, s, m, rho[f], share, update, memory
                        )
                continue
            begin, length, at = 0, 1, 0  # W_j is spread[begin : begin + length]
            for a in range(arity - 1):
                n = card[scope_vars[first + a]]
                spread_sum(length, onward(spread, begin), n, onward(incoming, at), onward(spread, begin + length))
                begin, length, at = begin + length, length * n, at + n
            at += card[scope_vars[first + arity - 1]]
            for a in range(arity - 1, -1, -1):
                s, m, n = state_ptr[scope_vars[first + a]], message_ptr[first + a], card[scope_vars[first + a]]
                at -= n
                cells = table if a == arity - 1 else rest
                contract_sum(length, n, cells, onward(spread, begin), onward(incoming, at), out, rest)
                if a > 0:
                    length //= card[scope_vars[first + a - 1]]
                    begin -= length
                if a == left_out or code != DONE or (turns > 1 and a != turn):
                    continue
                if low < _LEAST and too_small(out, 0, n):
                    code = OUT_OF_RANGE
                else:
                    code = update_message(out, onward(incoming, at), n, s, m, rho[f], share, update, memory)
        if code != DONE:
            break
    return code
