r"""The messages of :mod:`beliefs.kernels.messages` for sums, as products and sums of plain numbers.

Without exponentials or logarithms (counting numbers 1) a message costs about two multiply-adds a cell. Potentials are
scaled, :math:`\psi_c = e^{(\theta_c - \max \theta_c)/\rho_c}`; messages have mean one; each variable keeps ``product``,
its product of non-zero messages to their :math:`\rho_c`, and ``zeros``, the number of zero ones. Every update checks
that no product of incoming numbers can leave the range of a double; where one could, the sweep stops and says so, and
the caller goes on in logs.
"""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import inlined_kernel, kernel, linear_kernel
from beliefs.kernels.contraction import contract_sum, spread_sum
from beliefs.kernels.elementary import fast_exp, fast_log, fast_power
from beliefs.typing import Bools, Floats, Ints

__all__ = ["DONE", "IMPOSSIBLE", "OUT_OF_RANGE", "linear_beliefs", "products", "scaled_potentials", "sweep_linear"]

DONE, IMPOSSIBLE, OUT_OF_RANGE = 0, 1, 2
_LEAST, _MOST = 1e-270, 1e270


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
def products(
    scope_ptr: Ints,
    scope_vars: Ints,
    state_ptr: Ints,
    msg_ptr: Ints,
    rho: Floats,
    messages: Floats,
    product: Floats,
    zeros: Ints,
) -> bool:
    """Multiply up all messages into each variable; return False if a product leaves the range of a double."""
    product[:] = 1.0
    zeros[:] = 0
    inside = True
    for f in range(rho.size):
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            s = state_ptr[scope_vars[e]]
            for x in range(msg_ptr[e + 1] - msg_ptr[e]):
                m = messages[msg_ptr[e] + x]
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
    """Do what :func:`beliefs.kernels.beliefs.variable_beliefs` does, from products."""
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
def replaced(product: float, old: float, new: float, weight: float) -> float:
    """Return the product of non-zero messages with ``old ** weight`` exchanged for ``new ** weight``."""
    ratio = (new if new > 0.0 else 1.0) / (old if old > 0.0 else 1.0)
    return product * (ratio if weight == 1.0 else fast_power(ratio, weight))


@linear_kernel
def sweep_linear(
    card: Ints,
    scope_ptr: Ints,
    scope_vars: Ints,
    psi_ptr: Ints,
    state_ptr: Ints,
    msg_ptr: Ints,
    psi: Floats,
    least: float,
    extent: Ints,
    rho: Floats,
    order: Ints,
    skip: Ints,
    damping: float,
    in_logs: bool,
    at_once: bool,
    messages: Floats,
    fresh: Floats,
    product: Floats,
    zeros: Ints,
) -> int:
    """Do what :func:`beliefs.kernels.messages.sweep_log` does for sums; return DONE, IMPOSSIBLE or OUT_OF_RANGE.

    ``least`` is the smallest non-zero entry of ``psi``; ``skip`` may be empty; ``extent`` is
    :func:`beliefs.kernels.messages.widest_scope`. After OUT_OF_RANGE the messages are of no use. Cost: two
    multiply-adds a cell, a division a state; where counting numbers are not 1, an exponential and a logarithm more.
    """
    widest, largest, cells = extent[0], extent[1], extent[2]
    incoming, out = np.empty((widest, largest)), np.empty(largest)
    rest, spread = np.empty(cells), np.empty(extent[3])
    spread[0] = 1.0
    for k in range(order.size):
        f = order[k]
        first, arity, weight = scope_ptr[f], scope_ptr[f + 1] - scope_ptr[f], rho[f]
        if arity < 2:
            continue
        left_out = skip[k] if skip.size > 0 else -1
        low, high, begin, length = least, 1.0, 0, 1  # W_j is spread[begin : begin + length]
        for a in range(arity):
            v = scope_vars[first + a]
            s, m, n = state_ptr[v], msg_ptr[first + a], card[v]
            smallest, greatest = _MOST, 0.0
            vector = incoming[a]
            for x in range(n):
                old, missing = messages[m + x], zeros[s + x]
                if missing == 0:
                    c = product[s + x] / old
                else:
                    c = product[s + x] if missing == 1 and old == 0.0 else 0.0
                vector[x] = c
                greatest = max(greatest, c)
                smallest = min(smallest, c if c > 0.0 else smallest)
            low *= smallest
            high *= greatest
            if a < arity - 1:
                ahead = begin + length
                spread_sum(spread[begin:ahead], vector[:n], spread[ahead : ahead + length * n])
                begin, length = ahead, length * n
        if high == 0.0:
            return IMPOSSIBLE
        if low < _LEAST or high > _MOST:
            return OUT_OF_RANGE
        for a in range(arity - 1, -1, -1):
            v = scope_vars[first + a]
            s, m, n = state_ptr[v], msg_ptr[first + a], card[v]
            weights = spread[begin : begin + length]
            if a == arity - 1:
                contract_sum(psi[psi_ptr[f] : psi_ptr[f] + length * n], weights, incoming[a, :n], out, rest)
            else:
                contract_sum(rest[: length * n], weights, incoming[a, :n], out, rest)
            if a > 0:
                length //= card[scope_vars[first + a - 1]]
                begin -= length
            if a == left_out:
                continue
            total = 0.0
            for x in range(n):
                total += out[x]
            if total == 0.0:
                return IMPOSSIBLE
            scale = n / total
            for x in range(n):
                old, new = messages[m + x], out[x] * scale
                if damping > 0.0:
                    new = mixed_message(old, new, damping, in_logs)
                fresh[m + x] = new
                if at_once:
                    continue
                zeros[s + x] += (new == 0.0) - (old == 0.0)
                product[s + x] = replaced(product[s + x], old, new, weight)
                if not _LEAST < product[s + x] < _MOST:
                    return OUT_OF_RANGE
    return DONE
