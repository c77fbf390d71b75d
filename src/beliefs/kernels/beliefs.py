r"""Beliefs and the free energy that follow from messages.

.. math::
    b_i \propto e^{\beta_i}, \qquad
    b_c \propto e^{T_c}, \quad T_c = \theta_c / \rho_c + \sum_{i \in c} (\beta_i - \lambda_{ci})

    \tilde A = \sum_c \big[ \langle b_c, \theta_c \rangle + \rho_c H(b_c) \big]
             + \sum_i \Big(1 - \sum_{c \ni i} \rho_c\Big) H(b_i)
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.contraction import spread_log
from beliefs.kernels.messages import cavity, widest_scope
from beliefs.typing import Bools, Floats, Ints

__all__ = ["factor_beliefs", "inconsistency", "variable_beliefs"]


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
def factor_beliefs(
    card: Ints,
    scope_ptr: Ints,
    scope_vars: Ints,
    cell_ptr: Ints,
    table_ptr: Ints,
    state_ptr: Ints,
    msg_ptr: Ints,
    theta: Floats,
    rho: Floats,
    messages: Floats,
    finite: Floats,
    zeros: Ints,
    mu_var: Floats,
    mu_factor: Floats,
) -> float:
    """Write factor beliefs, given variable beliefs ``mu_var``; return the free energy, ``-inf`` if a belief is empty.

    With ``T = theta/rho + cavities`` the term of a factor is ``rho * (LSE(T) - <b, cavities>)``: one exponential a cell
    and no logarithm. Cost: about twice the cells.
    """
    _, largest, _, room = widest_scope(card, scope_ptr, scope_vars)
    vector, spread = np.empty(largest), np.empty(room)
    count = np.ones(card.size)
    energy = 0.0
    for f in range(cell_ptr.size):
        first, arity = scope_ptr[f], scope_ptr[f + 1] - scope_ptr[f]
        belief = mu_factor[table_ptr[f] : table_ptr[f + 1]]
        spread[0] = 0.0
        begin, length = 0, 1
        for a in range(arity):
            v = scope_vars[first + a]
            count[v] -= rho[f]
            for x in range(card[v]):
                s = state_ptr[v] + x
                vector[x] = cavity(finite[s], zeros[s], messages[msg_ptr[first + a] + x])
            ahead = begin + length
            spread_log(spread[begin:ahead], vector[: card[v]], spread[ahead : ahead + length * card[v]])
            begin, length = ahead, length * card[v]
        cavities = spread[begin : begin + length]
        top = -math.inf
        for k in range(length):
            belief[k] = theta[cell_ptr[f] + k] / rho[f] + cavities[k]
            top = max(top, belief[k])
        if top == -math.inf:
            return -math.inf
        total, crossed = 0.0, 0.0
        for k in range(length):
            belief[k] = math.exp(belief[k] - top)
            total += belief[k]
            if belief[k] > 0.0:
                crossed += belief[k] * cavities[k]
        for k in range(length):
            belief[k] /= total
        energy += rho[f] * (top + math.log(total) - crossed / total)
    for v in range(card.size):
        for s in range(state_ptr[v], state_ptr[v + 1]):
            if mu_var[s] > 0.0:
                energy -= count[v] * mu_var[s] * math.log(mu_var[s])
    return energy


@kernel
def inconsistency(
    card: Ints, scope_ptr: Ints, scope_vars: Ints, table_ptr: Ints, state_ptr: Ints, mu_factor: Floats, mu_var: Floats
) -> float:
    """Return the largest difference between a variable's belief and the same summed out of a factor's belief."""
    _, largest, _, _ = widest_scope(card, scope_ptr, scope_vars)
    total = np.empty(largest)
    worst = 0.0
    for f in range(scope_ptr.size - 1):
        inner = table_ptr[f + 1] - table_ptr[f]
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            v = scope_vars[e]
            inner //= card[v]
            total[: card[v]] = 0.0
            for k in range(table_ptr[f + 1] - table_ptr[f]):
                total[k // inner % card[v]] += mu_factor[table_ptr[f] + k]
            for x in range(card[v]):
                worst = max(worst, abs(total[x] - mu_var[state_ptr[v] + x]))
    return worst
