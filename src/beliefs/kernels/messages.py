"""Sum-product messages on factors of any arity, in the log domain.

Messages run from factors to variables, one per edge, normalised to log-sum zero. The cavity of an edge, the product
of all *other* messages into its variable, is kept as a sum of finite logs and a count of ``-inf``, so that a hard
zero can be divided out again.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.typing import Floats, Ints

__all__ = ["bethe_beliefs", "factor_traversal", "log_beliefs", "sweep_factors"]


@kernel
def factor_traversal(
    scope_ptr: Ints, scope_vars: Ints, var_ptr: Ints, var_edges: Ints, edge_factor: Ints, order: Ints
) -> bool:
    """Write the factors breadth first, part by part, from the lowest variable; return whether the graph is a forest.

    Leaves-to-root is this order reversed. A factor graph is a forest when edges = variables + factors - parts.
    Cost: edges.
    """
    n_vars, n_factors = var_ptr.size - 1, scope_ptr.size - 1
    seen_var = np.zeros(n_vars, np.bool_)
    seen_factor = np.zeros(n_factors, np.bool_)
    queue = np.empty(n_vars, np.int64)
    count = 0
    parts = 0
    for f in range(n_factors):  # constants first; they send nothing
        if scope_ptr[f] == scope_ptr[f + 1]:
            order[count] = f
            count += 1
            parts += 1
    for root in range(n_vars):
        if seen_var[root]:
            continue
        seen_var[root] = True
        parts += 1
        queue[0] = root
        head, tail = 0, 1
        while head < tail:
            v = queue[head]
            head += 1
            for i in range(var_ptr[v], var_ptr[v + 1]):
                f = edge_factor[var_edges[i]]
                if seen_factor[f]:
                    continue
                seen_factor[f] = True
                order[count] = f
                count += 1
                for e in range(scope_ptr[f], scope_ptr[f + 1]):
                    u = scope_vars[e]
                    if not seen_var[u]:
                        seen_var[u] = True
                        queue[tail] = u
                        tail += 1
    return scope_vars.size == n_vars + n_factors - parts


@kernel
def log_beliefs(
    card: Ints, state_ptr: Ints, scope_vars: Ints, msg_ptr: Ints, messages: Floats, finite: Floats, zeros: Ints
) -> None:
    """Add up all messages into each variable: finite parts to ``finite``, counts of ``-inf`` to ``zeros``."""
    finite[:] = 0.0
    zeros[:] = 0
    for e in range(scope_vars.size):
        v = scope_vars[e]
        for x in range(card[v]):
            m = messages[msg_ptr[e] + x]
            if m == -math.inf:
                zeros[state_ptr[v] + x] += 1
            else:
                finite[state_ptr[v] + x] += m


@kernel
def cavity(finite: float, zeros: int, message: float) -> float:
    """Return the sum of logs without one message: ``-inf`` if any other is."""
    if message == -math.inf:
        return finite if zeros == 1 else -math.inf
    return finite - message if zeros == 0 else -math.inf


@kernel
def sweep_factors(
    card: Ints,
    scope_ptr: Ints,
    scope_vars: Ints,
    cell_ptr: Ints,
    state_ptr: Ints,
    msg_ptr: Ints,
    theta: Floats,
    order: Ints,
    damping: float,
    messages: Floats,
    finite: Floats,
    zeros: Ints,
) -> bool:
    """Update all messages out of each factor, in ``order``; return False if one is zero everywhere (Z = 0).

    For edge ``(f, j)``, Eqs. (1.20)-(1.21) [gelfand2014]: ``m(x_j) = LSE over the others of theta_f + cavities``,
    normalised, then ``(1 - damping) * new + damping * old`` in logs. ``messages``, ``finite`` and ``zeros`` change in
    place. Cost: arity^2 x cells of each factor, two passes (a maximum and a sum of exponentials).
    """
    widest, largest = 1, 1
    for f in range(cell_ptr.size):
        widest = max(widest, scope_ptr[f + 1] - scope_ptr[f])
    for v in range(card.size):
        largest = max(largest, card[v])
    incoming = np.empty((widest, largest))
    digit = np.empty(widest, np.int64)
    top = np.empty(largest)
    total = np.empty(largest)
    for f in order:
        first, arity = scope_ptr[f], scope_ptr[f + 1] - scope_ptr[f]
        for j in range(arity):
            for a in range(arity):
                v = scope_vars[first + a]
                digit[a] = 0
                for x in range(card[v]):
                    k = state_ptr[v] + x
                    incoming[a, x] = cavity(finite[k], zeros[k], messages[msg_ptr[first + a] + x]) if a != j else 0.0
            target = scope_vars[first + j]
            size = 1
            for a in range(arity):
                size *= card[scope_vars[first + a]]
            top[: card[target]] = -math.inf
            total[: card[target]] = 0.0
            for sweep in range(2):
                for k in range(size):
                    value = theta[cell_ptr[f] + k]
                    for a in range(arity):
                        value += incoming[a, digit[a]]
                    x = digit[j]
                    if sweep == 0:
                        top[x] = max(top[x], value)
                    elif value > -math.inf:
                        total[x] += math.exp(value - top[x])
                    a = arity - 1
                    while a >= 0:
                        digit[a] += 1
                        if digit[a] < card[scope_vars[first + a]]:
                            break
                        digit[a] = 0
                        a -= 1
            peak = -math.inf
            for x in range(card[target]):
                if top[x] > -math.inf:
                    top[x] += math.log(total[x])
                peak = max(peak, top[x])
            if peak == -math.inf:
                return False
            norm = 0.0
            for x in range(card[target]):
                norm += math.exp(top[x] - peak)
            norm = peak + math.log(norm)
            for x in range(card[target]):
                e, s = msg_ptr[first + j] + x, state_ptr[target] + x
                old, new = messages[e], top[x] - norm
                if damping > 0.0 and new > -math.inf and old > -math.inf:
                    new = (1.0 - damping) * new + damping * old
                if old == -math.inf:
                    zeros[s] -= 1
                else:
                    finite[s] -= old
                if new == -math.inf:
                    zeros[s] += 1
                else:
                    finite[s] += new
                messages[e] = new
    return True


@kernel
def bethe_beliefs(
    card: Ints,
    scope_ptr: Ints,
    scope_vars: Ints,
    cell_ptr: Ints,
    table_ptr: Ints,
    state_ptr: Ints,
    var_ptr: Ints,
    msg_ptr: Ints,
    theta: Floats,
    messages: Floats,
    finite: Floats,
    zeros: Ints,
    mu_var: Floats,
    mu_factor: Floats,
) -> float:
    """Write factor beliefs, given variable beliefs ``mu_var``; return the Bethe log Z, ``-inf`` if a belief is empty.

    ``b_f`` is proportional to ``exp(theta_f + cavities)``, Eq. (1.23), and
    ``log Z = sum_f <b_f, theta_f> + H(b_f) + sum_v (1 - degree_v) H(b_v)`` [yedidia2005]. Cost: arity x cells.
    """
    widest = 1
    for f in range(cell_ptr.size):
        widest = max(widest, scope_ptr[f + 1] - scope_ptr[f])
    digit = np.empty(widest, np.int64)
    log_z = 0.0
    for f in range(cell_ptr.size):
        first, arity = scope_ptr[f], scope_ptr[f + 1] - scope_ptr[f]
        belief = mu_factor[table_ptr[f] : table_ptr[f + 1]]
        digit[:arity] = 0
        top = -math.inf
        for k in range(belief.size):
            value = theta[cell_ptr[f] + k]
            for a in range(arity):
                s = state_ptr[scope_vars[first + a]] + digit[a]
                value += cavity(finite[s], zeros[s], messages[msg_ptr[first + a] + digit[a]])
            belief[k] = value
            top = max(top, value)
            a = arity - 1
            while a >= 0:
                digit[a] += 1
                if digit[a] < card[scope_vars[first + a]]:
                    break
                digit[a] = 0
                a -= 1
        if top == -math.inf:
            return -math.inf
        total = 0.0
        for k in range(belief.size):
            belief[k] = math.exp(belief[k] - top)
            total += belief[k]
        for k in range(belief.size):
            belief[k] /= total
            if belief[k] > 0.0:
                log_z += belief[k] * (theta[cell_ptr[f] + k] - math.log(belief[k]))
    for v in range(card.size):
        degree = var_ptr[v + 1] - var_ptr[v]
        for s in range(state_ptr[v], state_ptr[v + 1]):
            if mu_var[s] > 0.0:
                log_z -= (1 - degree) * mu_var[s] * math.log(mu_var[s])
    return log_z
