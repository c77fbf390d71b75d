r"""A joint state read off max-beliefs, one variable after the other, each given those before it.

The state of v maximises, over the factors c at v,

.. math:: \sum_{c \ni v} \rho_c \max_{x_u,\, u \in c \text{ open}} \Big[ \theta_c(x_c) / \rho_c
          + \sum_{u \in c \text{ open}} (\beta_u - \lambda_{cu})(x_u) \Big]

with decided variables held at their states; a factor without any contributes its message. On a forest with settled
messages this is a MAP state, ties or not. Elsewhere it is a consistent state near the beliefs, no more.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.layout import Adjacency, Scopes
from beliefs.kernels.messages.log import TIE, cavity, widest_scope
from beliefs.kernels.messages.structures import LogSums, Reweighted
from beliefs.typing import Floats, Ints

__all__ = ["best_states", "decode_in_order"]


@twofold_kernel
def best_states(state_ptr: Ints, finite: Floats, zeros: Ints, variables: Ints, states: Ints) -> None:
    """Write the state of largest belief of each listed variable; within ``TIE`` the smallest index wins."""
    for k in range(variables.size):
        v = variables[k]
        top, states[k] = -math.inf, 0
        for s in range(state_ptr[v], state_ptr[v + 1]):
            if zeros[s] == 0 and finite[s] > top + TIE:
                top, states[k] = finite[s], s - state_ptr[v]


@twofold_kernel
def conditional_gain(
    f: int,
    place: int,
    scopes: Scopes,
    model: Reweighted,
    sums: LogSums,
    states: Ints,
    digit: Ints,
    gain: Floats,
) -> None:
    """Write the bracket of the module's formula for factor ``f`` and each state of the variable at axis ``place``."""
    card, scope_vars = scopes.card, scopes.scope_vars
    first, arity = scopes.scope_ptr[f], scopes.scope_ptr[f + 1] - scopes.scope_ptr[f]
    gain[: card[scope_vars[first + place]]] = -math.inf
    for a in range(arity):  # decided variables stand still, open ones run
        digit[a] = max(states[scope_vars[first + a]], 0)
    going = True
    while going:
        cell, extra = 0, 0.0
        for a in range(arity):
            v = scope_vars[first + a]
            cell = cell * card[v] + digit[a]
            if a != place and states[v] < 0:
                s, m = scopes.state_ptr[v] + digit[a], model.message_ptr[first + a] + digit[a]
                extra += cavity(sums.finite[s], sums.zeros[s], sums.messages[m])
        reached = model.theta[scopes.cell_ptr[f] + cell] / model.rho[f] + extra
        gain[digit[place]] = max(gain[digit[place]], reached)
        going = False
        for a in range(arity - 1, -1, -1):
            v = scope_vars[first + a]
            if states[v] >= 0:
                continue
            digit[a] += 1
            if digit[a] < card[v]:
                going = True
                break
            digit[a] = 0


@twofold_kernel
def decode_in_order(
    scopes: Scopes, adjacency: Adjacency, model: Reweighted, sums: LogSums, order: Ints, tie: float, states: Ints
) -> None:
    """Decide the variables of all factors, in the ``order`` of factors; ``states`` comes in as -1 where open.

    Of states within ``tie`` of the best the first is taken; variables in no factor get state 0. Cost: arity times
    cells.
    """
    card, scope_ptr, scope_vars, rho = scopes.card, scopes.scope_ptr, scopes.scope_vars, model.rho
    widest, largest, _, _ = widest_scope(card, scope_ptr, scope_vars)
    digit = np.empty(widest, np.int64)
    gain, score = np.empty(largest), np.empty(largest)
    for k in range(order.size):
        for e in range(scope_ptr[order[k]], scope_ptr[order[k] + 1]):
            v = scope_vars[e]
            if states[v] >= 0:
                continue
            score[: card[v]] = 0.0
            for i in range(adjacency.var_ptr[v], adjacency.var_ptr[v + 1]):
                edge = adjacency.var_edges[i]
                f = adjacency.edge_factor[edge]
                fixed = False
                for other in range(scope_ptr[f], scope_ptr[f + 1]):
                    fixed = fixed or states[scope_vars[other]] >= 0
                if fixed:
                    conditional_gain(f, edge - scope_ptr[f], scopes, model, sums, states, digit, gain)
                    for x in range(card[v]):
                        score[x] += rho[f] * gain[x]
                else:
                    for x in range(card[v]):
                        score[x] += rho[f] * sums.messages[model.message_ptr[edge] + x]
            best = 0
            for x in range(1, card[v]):
                if score[x] > score[best] + tie:
                    best = x
            states[v] = best
    for v in range(card.size):
        states[v] = max(states[v], 0)
