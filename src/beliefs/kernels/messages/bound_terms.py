"""The terms of the factors in the decomposed bound, see :mod:`beliefs.kernels.messages.decomposed_bound`.

A factor's terms are ``sum_j parent_j max_x_j [R(theta / rho + sum_i (beta_i - message_i), axes other than j) -
message_j]``. They are ``-inf`` if no state is left, and ``+inf`` if one of the factor's messages is ``-inf`` at a state
that the factor and the other variables allow. Pairs have code of their own: for small tables the general one costs
several times more than the arithmetic.
"""

from __future__ import annotations

import math

from beliefs.kernels._jit import kernel
from beliefs.kernels.layout import Scopes
from beliefs.kernels.messages.structures import Reweighted
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.typing import Floats

__all__ = ["factor_terms", "log_power", "pair_terms"]

LOWEST = -1e308


@kernel
def log_power(values: Floats, start: int, size: int, tau: float) -> float:
    """Return the log-sum-exp (``tau`` 1) or maximum (0) of ``values[start : start + size]``; ``-inf`` if all are."""
    top = -math.inf
    for k in range(start, start + size):
        top = max(top, values[k])
    if tau == 0.0 or top == -math.inf:
        return top
    total = 0.0
    for k in range(start, start + size):
        total += fast_exp(values[k] - top)
    return top + fast_log(total)


# -- pairs --------------------------------------------------------------------------------------------------------


@kernel
def _cavity(messages: Floats, m: int, beta: Floats, b: int, card: int, cavity: Floats) -> bool:
    """Write ``beta - message``, ``-inf`` where ``beta`` is; return whether a message is ``-inf``."""
    zeros = False
    for x in range(card):
        zeros |= messages[m + x] == -math.inf
        cavity[x] = beta[b + x] - messages[m + x] if beta[b + x] > -math.inf else -math.inf
    return zeros


@kernel
def _rows(
    theta: Floats,
    start: int,
    scale: float,
    rows: int,
    columns: int,
    cavity: Floats,
    tau: float,
    out: Floats,
    work: Floats,
) -> None:
    """Write the power sum of each row: ``R((theta * scale).reshape(rows, columns) + cavity, axis=1)``."""
    for x in range(rows):
        at = start + x * columns
        for y in range(columns):
            work[y] = theta[at + y] * scale + cavity[y]
        top = -math.inf
        for y in range(columns):
            if work[y] > top:
                top = work[y]
        if tau != 0.0 and top > -math.inf:
            for y in range(columns):  # a loop of its own, which vectorises
                work[y] = fast_exp(work[y] - top)
            total = 0.0
            for y in range(columns):
                total += work[y]
            top += fast_log(total)
        out[x] = top


@kernel
def _columns(
    theta: Floats,
    start: int,
    scale: float,
    rows: int,
    columns: int,
    cavity: Floats,
    tau: float,
    out: Floats,
    total: Floats,
) -> None:
    """Write the power sum of each column: ``R((theta * scale).reshape(rows, columns) + cavity[:, None], axis=0)``."""
    for x in range(columns):
        out[x] = -math.inf
        total[x] = 0.0
    for y in range(rows):
        at = start + y * columns
        for x in range(columns):
            out[x] = max(out[x], theta[at + x] * scale + cavity[y])
    if tau == 0.0:
        return
    for y in range(rows):
        at = start + y * columns
        for x in range(columns):  # the floor keeps columns of zeros from inf - inf; their sums are not used
            total[x] += fast_exp(theta[at + x] * scale + cavity[y] - max(out[x], LOWEST))
    for x in range(columns):
        if out[x] > -math.inf:
            out[x] += fast_log(total[x])


@kernel
def _best(values: Floats, messages: Floats, m: int, beta: Floats, b: int, card: int) -> float:
    """Return ``max(values - messages)`` over the states that ``beta`` allows."""
    best = -math.inf
    for x in range(card):
        if beta[b + x] > -math.inf:
            best = max(best, values[x] - messages[m + x])
    return best


@kernel
def pair_terms(
    scopes: Scopes,
    model: Reweighted,
    tau: Floats,
    parent: Floats,
    messages: Floats,
    beta: Floats,
    cavity: Floats,
    cells: Floats,
    work: Floats,
) -> float:
    """Return the terms of all factors of two variables. Cost: their cells, for each variable that they hang from.

    ``cavity``, ``cells`` and ``work`` are working space for the largest table.
    """
    card, state_ptr, message_ptr = scopes.card, scopes.state_ptr, model.message_ptr
    total = 0.0
    for f in range(scopes.cell_ptr.size):
        e, start = scopes.scope_ptr[f], scopes.cell_ptr[f]
        if scopes.scope_ptr[f + 1] - e != 2:
            continue
        u, v, scale = scopes.scope_vars[e], scopes.scope_vars[e + 1], 1.0 / model.rho[f]
        zeros = _cavity(messages, message_ptr[e + 1], beta, state_ptr[v], card[v], cavity)
        if parent[e] > 0.0:
            _rows(model.theta, start, scale, card[u], card[v], cavity, tau[v], cells, work)
            total += parent[e] * _best(cells, messages, message_ptr[e], beta, state_ptr[u], card[u])
        zeros |= _cavity(messages, message_ptr[e], beta, state_ptr[u], card[u], cavity)
        if parent[e + 1] > 0.0:
            _columns(model.theta, start, scale, card[u], card[v], cavity, tau[u], cells, work)
            total += parent[e + 1] * _best(cells, messages, message_ptr[e + 1], beta, state_ptr[v], card[v])
        if zeros and _unproved_zero(f, scopes, model, messages, beta):
            return math.inf
    return total


# -- any arity ----------------------------------------------------------------------------------------------------


@kernel
def _unproved_zero(f: int, scopes: Scopes, model: Reweighted, messages: Floats, beta: Floats) -> bool:
    """Whether a message of a factor is ``-inf`` although the factor and the other variables allow that state."""
    card, scope_ptr, scope_vars = scopes.card, scopes.scope_ptr, scopes.scope_vars
    size = 1
    for e in range(scope_ptr[f], scope_ptr[f + 1]):
        size *= card[scope_vars[e]]
    for k in range(size):
        if model.theta[scopes.cell_ptr[f] + k] == -math.inf:
            continue
        excluded, own, rest = 0, False, k
        for e in range(scope_ptr[f + 1] - 1, scope_ptr[f] - 1, -1):
            v = scope_vars[e]
            x = rest % card[v]
            rest //= card[v]
            if beta[scopes.state_ptr[v] + x] == -math.inf:
                excluded += 1
                own = messages[model.message_ptr[e] + x] == -math.inf
        if excluded == 1 and own:
            return True
    return False


@kernel
def _add_along(cells: Floats, outer: int, card: int, inner: int, values: Floats) -> None:
    """Add ``values`` along one axis: ``cells.reshape(outer, card, inner) += values[:card, None]``."""
    k = 0
    for _ in range(outer):
        for x in range(card):
            for _ in range(inner):
                cells[k] += values[x]
                k += 1


@kernel
def _reduce_along(cells: Floats, outer: int, card: int, inner: int, tau: float) -> None:
    """Power-sum out one axis in place: ``cells[:outer * inner] = R(cells.reshape(outer, card, inner), axis=1)``."""
    for o in range(outer):
        for i in range(inner):
            at = o * card * inner + i
            top = -math.inf
            for x in range(card):
                top = max(top, cells[at + x * inner])
            if tau != 0.0 and top > -math.inf:
                total = 0.0
                for x in range(card):
                    total += fast_exp(cells[at + x * inner] - top)
                top += fast_log(total)
            cells[o * inner + i] = top


@kernel
def _reduce_others(scopes: Scopes, f: int, kept: int, tau: Floats, cells: Floats, size: int) -> None:
    """Power-sum out all axes but that of edge ``kept``, in place: the summed ones first, then the maximised."""
    card = scopes.card
    for maximised in (False, True):
        outer, inner = 1, size
        for e in range(scopes.scope_ptr[f], scopes.scope_ptr[f + 1]):
            v = scopes.scope_vars[e]
            if e != kept and maximised and tau[v] != 0.0:  # summed out already
                continue
            inner //= card[v]
            if e == kept or (tau[v] == 0.0 and not maximised):
                outer *= card[v]
            else:
                _reduce_along(cells, outer, card[v], inner, tau[v])
                size //= card[v]


@kernel
def factor_terms(
    scopes: Scopes,
    model: Reweighted,
    tau: Floats,
    parent: Floats,
    messages: Floats,
    beta: Floats,
    cavity: Floats,
    cells: Floats,
    work: Floats,
) -> float:
    """Return the terms of all factors of other than two variables; of constants, the constants.

    The full belief is built once. It contains ``beta_j - message_j``, which the reduction of the other axes does not
    see; so what is subtracted afterwards is ``beta_j``. ``cavity``, ``cells`` and ``work`` are working space for the
    largest table. Cost: arity times cells.
    """
    card, state_ptr, scope_vars = scopes.card, scopes.state_ptr, scopes.scope_vars
    total = 0.0
    for f in range(scopes.cell_ptr.size):
        first, last = scopes.scope_ptr[f], scopes.scope_ptr[f + 1]
        if last - first == 2:
            continue
        size = 1
        for e in range(first, last):
            size *= card[scope_vars[e]]
        for k in range(size):
            cells[k] = model.theta[scopes.cell_ptr[f] + k] / model.rho[f]
        outer, zeros = 1, False
        for e in range(first, last):
            v = scope_vars[e]
            zeros |= _cavity(messages, model.message_ptr[e], beta, state_ptr[v], card[v], cavity)
            _add_along(cells, outer, card[v], size // (outer * card[v]), cavity)
            outer *= card[v]
        if zeros and _unproved_zero(f, scopes, model, messages, beta):
            return math.inf
        if first == last:
            total += cells[0]
        for e in range(first, last):
            if parent[e] > 0.0:
                v = scope_vars[e]
                for k in range(size):
                    work[k] = cells[k]
                _reduce_others(scopes, f, e, tau, work, size)
                total += parent[e] * _best(work, beta, state_ptr[v], beta, state_ptr[v], card[v])
    return total
