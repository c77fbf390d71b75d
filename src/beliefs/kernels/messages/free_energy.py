r"""The free energy of given beliefs, consistent or not, and its gradient in them.

.. math::
    \tilde A(\mu) = \theta \cdot \mu + \tilde H(\mu), \qquad
    \tilde H(\mu) = \sum_i H(\mu_i) - \sum_c \rho_c \sum_{x_c} \mu(x_c) \log \frac{\mu(x_c)}{\prod_{i \in c} \mu(x_i)}

([domke2013] equations 16-17, the literal form; before convergence it differs from the one with counting numbers,
:math:`\sum_c \rho_c H(\mu_c) + \sum_i (1 - \sum_{c \ni i} \rho_c) H(\mu_i)`, because factors and variables do not agree
yet.) Its gradient, with the sums over factors of two or more variables,

.. math::
    \frac{\partial \tilde A}{\partial \mu(x_c)} &= \theta(x_c)
        - \rho_c \Bigl[1 + \log \mu(x_c) - \sum_{i \in c} \log \mu(x_i)\Bigr] \\
    \frac{\partial \tilde A}{\partial \mu(x_i)} &= -1 - \log \mu(x_i)
        + \sum_{c \ni i} \rho_c \frac{\sum_{x_{c \setminus i}} \mu(x_c)}{\mu(x_i)}

A belief of zero adds nothing and gets no gradient: what it goes back through is proportional to the belief.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.kernels.layout import Scopes
from beliefs.typing import Floats, Ints

__all__ = ["NodeArrays", "free_energy_counted", "free_energy_literal"]

_LEAST = 1e-300  # a variable's belief below counts as this much where a factor's is divided by it


class NodeArrays(NamedTuple):
    """One array for variables and one for factors: beliefs, their adjoints, or terms of a sum."""

    variables: Floats
    factors: Floats


@kernel
def free_energy_literal(
    scopes: Scopes,
    table_ptr: Ints,
    theta: Floats,
    rho: Floats,
    mu: NodeArrays,
    log_var: Floats,
    bar: NodeArrays,
    terms: NodeArrays,
) -> None:
    """Write the terms of the free energy of beliefs ``mu``, by variable and by factor, and its gradient ``bar``.

    The free energy is the sum of all terms. ``mu`` and ``bar`` have one entry a state, ``(n_states,)``, and one a cell
    of every factor's own table, at ``table_ptr``. ``log_var (n_states,)`` is scratch. With ``rho`` zero this is the
    value of mean field. Cost: cells x arity.
    """
    card, state_ptr, scope_vars = scopes.card, scopes.state_ptr, scopes.scope_vars
    mu_var, bar_var, bar_factor = mu.variables, bar.variables, bar.factors
    for v in range(card.size):
        total = 0.0
        for s in range(state_ptr[v], state_ptr[v + 1]):
            log_var[s] = bar_var[s] = 0.0
            if mu_var[s] > 0.0:
                log_var[s] = math.log(mu_var[s])
                bar_var[s] = -1.0 - log_var[s]
                total -= mu_var[s] * log_var[s]
        terms.variables[v] = total
    for f in range(scopes.cell_ptr.size):
        total = 0.0
        first, last = scopes.scope_ptr[f], scopes.scope_ptr[f + 1]
        weight = rho[f] if last - first > 1 else 0.0
        for k in range(table_ptr[f + 1] - table_ptr[f]):
            belief = mu.factors[table_ptr[f] + k]
            bar_factor[table_ptr[f] + k] = 0.0
            if not belief > 0.0:
                continue
            score = theta[scopes.cell_ptr[f] + k]
            total += belief * score
            if weight != 0.0:
                apart, rest = math.log(belief), k
                for e in range(last - 1, first - 1, -1):
                    s = state_ptr[scope_vars[e]] + rest % card[scope_vars[e]]
                    rest //= card[scope_vars[e]]
                    apart -= log_var[s]
                    bar_var[s] += weight * belief / max(mu_var[s], _LEAST) if mu_var[s] > 0.0 else 0.0
                total -= weight * belief * apart
                score -= weight * (1.0 + apart)
            bar_factor[table_ptr[f] + k] = score
        terms.factors[f] = total


@kernel
def free_energy_counted(
    scopes: Scopes,
    table_ptr: Ints,
    theta: Floats,
    rho: Floats,
    mu: NodeArrays,
    log_var: Floats,
    bar: NodeArrays,
    terms: NodeArrays,
) -> None:
    """Do what :func:`free_energy_literal` does with counting numbers, which agrees where beliefs agree."""
    card, state_ptr, scope_ptr = scopes.card, scopes.state_ptr, scopes.scope_ptr
    mu_var, bar_var, bar_factor = mu.variables, bar.variables, bar.factors
    count = log_var  # the counting number of each variable, at its first state
    for v in range(card.size):
        count[state_ptr[v]] = 1.0
    for f in range(scopes.cell_ptr.size):
        total, weight = 0.0, rho[f] if scope_ptr[f + 1] - scope_ptr[f] > 1 else 0.0
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            count[state_ptr[scopes.scope_vars[e]]] -= weight
        for k in range(table_ptr[f + 1] - table_ptr[f]):
            belief = mu.factors[table_ptr[f] + k]
            bar_factor[table_ptr[f] + k] = 0.0
            if belief > 0.0:
                score, log_belief = theta[scopes.cell_ptr[f] + k], math.log(belief)
                total += belief * (score - weight * log_belief)
                bar_factor[table_ptr[f] + k] = score - weight * (1.0 + log_belief)
        terms.factors[f] = total
    for v in range(card.size):
        total, share = 0.0, count[state_ptr[v]]
        for s in range(state_ptr[v], state_ptr[v + 1]):
            bar_var[s] = 0.0
            if mu_var[s] > 0.0:
                log_belief = math.log(mu_var[s])
                total -= share * mu_var[s] * log_belief
                bar_var[s] = -share * (1.0 + log_belief)
        terms.variables[v] = total
