r"""Beliefs and the free energy that follow from messages.

.. math::
    b_i \propto e^{\beta_i}, \qquad
    b_c \propto e^{T_c}, \quad T_c = \theta_c / \rho_c + \sum_{i \in c} (\beta_i - \lambda_{ci})

    \tilde A = \sum_c \rho_c \log \sum_{x_c} e^{T_c}
             + \sum_i \Big(1 - \sum_{c \ni i} \rho_c\Big) \log \sum_{x_i} e^{\beta_i}

:math:`\tilde A` is the Lagrangian of the free energy
:math:`\sum_c [\langle b_c, \theta_c \rangle + \rho_c H(b_c)] + \sum_i (1 - \sum_{c \ni i} \rho_c) H(b_i)` at the
multipliers that messages are [yedidia2005]. Where beliefs agree, as at a fixed point, the two are equal. Elsewhere the
Lagrangian is nearer to the value at the fixed point (its error is of second order), its gradient in theta at given
messages is the beliefs of factors, and it takes one logarithm a factor.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.layout import Scopes
from beliefs.kernels.messages.contraction import spread_log
from beliefs.kernels.messages.log import cavity, widest_scope
from beliefs.kernels.messages.structures import LogSums, Reweighted
from beliefs.typing import Bools, Floats, Ints

__all__ = ["assess_factors", "factor_beliefs", "variable_beliefs"]


@kernel
def variable_beliefs(
    state_ptr: Ints, observed: Bools, finite: Floats, zeros: Ints, mu_var: Floats
) -> tuple[float, bool]:
    """Write ``softmax(beta_v)`` for each unobserved variable; return the largest change, and False if one has no state.

    ``mu_var`` holds the beliefs of before, which the change is measured from. Observed variables are left alone.
    """
    change = 0.0
    for v in range(observed.size):
        if observed[v]:
            continue
        top = -math.inf
        for s in range(state_ptr[v], state_ptr[v + 1]):
            if zeros[s] == 0:
                top = max(top, finite[s])
        if top == -math.inf:
            return change, False
        total = 0.0
        for s in range(state_ptr[v], state_ptr[v + 1]):
            if zeros[s] == 0:
                total += math.exp(finite[s] - top)
        for s in range(state_ptr[v], state_ptr[v + 1]):
            belief = math.exp(finite[s] - top) / total if zeros[s] == 0 else 0.0
            change = max(change, abs(belief - mu_var[s]))
            mu_var[s] = belief
    return change, True


@kernel
def belief_table(
    f: int, scopes: Scopes, model: Reweighted, sums: LogSums, vector: Floats, spread: Floats, belief: Floats
) -> tuple[float, float]:
    """Write ``exp(T - max T)`` of factor ``f``, not normalised, to ``belief``; return ``max T`` and the sum.

    Scratch: ``vector`` (largest cardinality), ``spread`` (room of :func:`beliefs.kernels.messages.log.widest_scope`).
    """
    card = scopes.card
    first, cells = scopes.scope_ptr[f], scopes.cell_ptr[f]
    spread[0] = 0.0
    begin, length = 0, 1
    for e in range(first, scopes.scope_ptr[f + 1]):
        v = scopes.scope_vars[e]
        for x in range(card[v]):
            s = scopes.state_ptr[v] + x
            vector[x] = cavity(sums.finite[s], sums.zeros[s], sums.messages[model.message_ptr[e] + x])
        ahead = begin + length
        spread_log(spread[begin:ahead], vector[: card[v]], spread[ahead : ahead + length * card[v]])
        begin, length = ahead, length * card[v]
    top, total = -math.inf, 0.0
    for k in range(length):
        belief[k] = model.theta[cells + k] / model.rho[f] + spread[begin + k]
        top = max(top, belief[k])
    if top == -math.inf:
        return top, 0.0
    for k in range(length):
        belief[k] = math.exp(belief[k] - top)
        total += belief[k]
    return top, total


@kernel
def factor_beliefs(scopes: Scopes, table_ptr: Ints, model: Reweighted, sums: LogSums, mu_factor: Floats) -> bool:
    """Write the beliefs of factors, one after the other; False if one has no state. Cost: about twice the cells."""
    _, largest, _, room = widest_scope(scopes.card, scopes.scope_ptr, scopes.scope_vars)
    vector, spread = np.empty(largest), np.empty(room)
    for f in range(scopes.cell_ptr.size):
        belief = mu_factor[table_ptr[f] : table_ptr[f + 1]]
        top, total = belief_table(f, scopes, model, sums, vector, spread, belief)
        if top == -math.inf:
            return False
        for k in range(belief.size):
            belief[k] /= total
    return True


@kernel
def assess_factors(
    scopes: Scopes, observed: Bools, model: Reweighted, sums: LogSums, mu_var: Floats
) -> tuple[float, float]:
    """Return the value of the messages, ``-inf`` if a belief is empty, and the largest disagreement of two beliefs.

    A factor's belief of a variable, summed out of its table, is compared with the variable's own in ``mu_var``. Cost:
    cells, once for each of a factor's variables, and an exponential a cell. Numerics: each beta is lowered by its
    log-sum-exp, which then counts once in the value instead of once for each factor around and as often against it.
    """
    card, state_ptr, finite, zeros = scopes.card, scopes.state_ptr, sums.finite, sums.zeros
    _, largest, cells, room = widest_scope(card, scopes.scope_ptr, scopes.scope_vars)
    vector, spread, belief = np.empty(largest), np.empty(room), np.empty(cells)
    centred = LogSums(sums.messages, np.zeros(finite.size), zeros)
    value, apart = 0.0, 0.0
    for v in range(card.size):
        if observed[v]:
            continue
        top, total = -math.inf, 0.0
        for s in range(state_ptr[v], state_ptr[v + 1]):
            if zeros[s] == 0:
                top = max(top, finite[s])
        if top == -math.inf:
            return top, apart
        for s in range(state_ptr[v], state_ptr[v + 1]):
            if zeros[s] == 0:
                total += math.exp(finite[s] - top)
        level = top + math.log(total)
        for s in range(state_ptr[v], state_ptr[v + 1]):
            centred.finite[s] = finite[s] - level
        value += level
    for f in range(scopes.cell_ptr.size):
        top, total = belief_table(f, scopes, model, centred, vector, spread, belief)
        if top == -math.inf:
            return top, apart
        value += model.rho[f] * (top + math.log(total))
        size = 1
        for e in range(scopes.scope_ptr[f], scopes.scope_ptr[f + 1]):
            size *= card[scopes.scope_vars[e]]
        inner = size
        for e in range(scopes.scope_ptr[f], scopes.scope_ptr[f + 1]):
            v = scopes.scope_vars[e]
            inner //= card[v]
            apart = max(apart, _disagreement(belief, size, inner, total, mu_var, state_ptr[v], card[v], vector))
    return value, apart


@kernel
def _disagreement(
    belief: Floats, size: int, inner: int, total: float, mu_var: Floats, start: int, card: int, sums: Floats
) -> float:
    """Return how far one axis of a table, of stride ``inner``, is from a variable's belief when summed out."""
    sums[:card] = 0.0
    for outer in range(0, size, inner * card):
        for x in range(card):
            at = outer + x * inner
            for k in range(at, at + inner):
                sums[x] += belief[k]
    worst = 0.0
    for x in range(card):
        worst = max(worst, abs(sums[x] / total - mu_var[start + x]))
    return worst
