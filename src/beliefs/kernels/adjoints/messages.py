r"""The way back through message passing, in logs, for factors of any arity and with hard zeros.

Forward, a factor c sends from cavities :math:`\kappa_j = \beta_j - \lambda_{cj}`, and :math:`\beta` follows:

.. math::
    u_i(x_i) = \log \sum_{x_{c \setminus i}} \exp \Big[\theta_c / \rho_c + \sum_{j \ne i} \kappa_j \Big], \qquad
    \lambda_{ci}' = u_i - \log \sum e^{u_i}, \qquad \beta_i' = \beta_i + \rho_c (\lambda_{ci}' - \lambda_{ci}).

All influence on a variable passes through :math:`\beta_j`, so one running adjoint :math:`B_j` a variable is enough
[domke2013]: the adjoint of a message is :math:`g_{ci} = k_{ci} + \rho_c B_i` with :math:`k` for what is the message's
own. Backward, with :math:`\bar u_i = g_i - m_i \sum g_i`,
:math:`t = \sum_i \bar u_i(x_i) \exp[\theta_c/\rho_c + \sum_{j \ne i} \kappa_j - u_i(x_i)]` and its marginals
:math:`R_j` (without the term of j itself),

.. math::
    \bar\theta_c \mathrel{+}= t / \rho_c, \qquad k_{ci} \leftarrow -\rho_c B_i - R_i, \qquad B_i \leftarrow B_i + R_i .

The sums are over a factor's messages that were sent together: all of them, or one at a time where
:func:`beliefs.kernels.messages.damping.turns_of` says so. What is multiplied are conditional probabilities, so nothing
overflows whatever the potentials.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import kernel, twofold_kernel
from beliefs.kernels.adjoints.scaled import AdjointScratch, scaled_adjoint
from beliefs.kernels.adjoints.structures import Adjoints
from beliefs.kernels.layout import Scopes
from beliefs.kernels.messages.damping import turns_of
from beliefs.kernels.messages.log import cavity, replace_message
from beliefs.kernels.messages.structures import LogSums, Reweighted, ScaledTables
from beliefs.kernels.primitives.strides import count_on
from beliefs.typing import Floats, Ints

__all__ = ["add_unary", "adjoint_beliefs", "adjoint_sweep_log", "largest_adjoint"]


@kernel
def adjoint_beliefs(
    scopes: Scopes,
    table_ptr: Ints,
    model: Reweighted,
    mu_var: Floats,
    mu_factor: Floats,
    bar_var: Floats,
    bar_factor: Floats,
    adjoints: Adjoints,
    grad: Floats,
) -> None:
    """Go back through ``mu = softmax(T)``: ``nu = mu * (bar - mu @ bar)``, for variables and factors of two or more.

    Adds ``nu / rho`` to ``grad (n_cells,)``, marginals of ``nu`` to the adjoints of variables, minus these to those of
    messages. ``bar_factor`` may be empty: zero. Where ``mu`` is 0, ``bar`` may be infinite. Cost: cells x arity.
    """
    card, state_ptr, scope_vars = scopes.card, scopes.state_ptr, scopes.scope_vars
    for v in range(card.size):
        mean = 0.0
        for s in range(state_ptr[v], state_ptr[v + 1]):
            if mu_var[s] > 0.0:
                mean += mu_var[s] * bar_var[s]
        for s in range(state_ptr[v], state_ptr[v + 1]):
            if mu_var[s] > 0.0:
                adjoints.variable[s] += mu_var[s] * (bar_var[s] - mean)
    if bar_factor.size == 0:
        return
    for f in range(scopes.cell_ptr.size):
        first, end = scopes.scope_ptr[f], scopes.scope_ptr[f + 1]
        if end - first < 2:
            continue
        mean = 0.0
        for k in range(table_ptr[f], table_ptr[f + 1]):
            if mu_factor[k] > 0.0:
                mean += mu_factor[k] * bar_factor[k]
        for k in range(table_ptr[f + 1] - table_ptr[f]):
            mu = mu_factor[table_ptr[f] + k]
            if mu > 0.0:
                nu = mu * (bar_factor[table_ptr[f] + k] - mean)
                grad[scopes.cell_ptr[f] + k] += nu / model.rho[f]
                rest = k
                for e in range(end - 1, first - 1, -1):
                    n = card[scope_vars[e]]
                    adjoints.variable[state_ptr[scope_vars[e]] + rest % n] += nu
                    adjoints.message[model.message_ptr[e] + rest % n] -= nu
                    rest //= n


@kernel
def conditionals(
    target: int, sizes: Ints, cells: Floats, weight: float, incoming: Floats, digit: Ints, table: Floats, out: Floats
) -> None:
    """Write ``softmax`` of ``cells / weight + cavities`` over all axes but ``target`` (and without its cavity).

    ``incoming (arity, K)`` has the cavities, ``table`` gets the probabilities, ``out (2, K)`` is working space. A slice
    without any possible cell becomes zero.
    """
    arity = sizes.size
    for x in range(sizes[target]):
        out[0, x], out[1, x] = -math.inf, 0.0
    for a in range(arity):
        digit[a] = 0
    for turn in range(3):  # the largest of each slice; exponentials and their sums; shares
        for k in range(cells.size):
            x = digit[target]
            if turn == 0:
                value = cells[k] / weight
                for a in range(arity):
                    if a != target:
                        value += incoming[a, digit[a]]
                table[k] = value
                out[0, x] = max(out[0, x], value)
            elif turn == 1:
                table[k] = math.exp(table[k] - out[0, x]) if table[k] > -math.inf else 0.0
                out[1, x] += table[k]
            elif table[k] > 0.0:
                table[k] /= out[1, x]
            count_on(arity, sizes, digit)


@kernel
def spread_adjoint(
    target: int, sizes: Ints, bar: Floats, weight: float, table: Floats, digit: Ints, back: Floats, grad: Floats
) -> None:
    """Add ``t = table * bar[x_target]`` over ``weight`` to ``grad``, its marginals to ``back (arity, K)``.

    The axis ``target`` gets none.
    """
    arity = sizes.size
    for a in range(arity):
        digit[a] = 0
    for k in range(grad.size):
        if table[k] > 0.0:
            t = table[k] * bar[digit[target]]
            grad[k] += t / weight
            for a in range(arity):
                if a != target:
                    back[a, digit[a]] += t
        count_on(arity, sizes, digit)


@kernel
def message_adjoint(
    new: Floats, floor: float, weight: float, variable: Floats, message: Floats, sent: Floats, bar: Floats
) -> None:
    """Write ``sent = exp(new)`` and ``bar = g - sent * g.sum()`` for ``g = message + weight * variable``.

    Then set ``message = -weight * variable``. Entries that are zero, or that were raised to ``floor``, do not move and
    have no adjoint.
    """
    sum_g = 0.0
    for x in range(new.size):
        g = message[x] + weight * variable[x] if new[x] > floor else 0.0
        bar[x] = g
        sum_g += g
        message[x] = -weight * variable[x]
    for x in range(new.size):
        sent[x] = math.exp(new[x])
        if new[x] > floor:
            bar[x] -= sent[x] * sum_g


@kernel
def only(target: int, sizes: Ints, sent: Floats, bar: Floats) -> None:
    """Make messages other than the one to ``target`` count as not sent."""
    for a in range(sizes.size):
        if a != target:
            for x in range(sizes[a]):
                sent[a, x], bar[a, x] = 1.0, 0.0


@kernel
def adjoint_scratch(arity: int, card: int) -> AdjointScratch:
    """Allocate working space for factors of at most so many variables with at most so many states."""
    incoming, bar, back = np.empty((arity, card)), np.empty((arity, card)), np.empty((arity, card))
    sent, linear, q = np.empty((arity, card)), np.empty((arity, card)), np.empty((arity, card))
    return AdjointScratch(incoming, sent, bar, back, linear, q, np.empty(arity), np.empty(arity, np.int64))


@kernel
def adjoint_sweep_log(
    scopes: Scopes,
    model: Reweighted,
    scaled: ScaledTables,
    floor: float,
    extent: Ints,
    order: Ints,
    old: Floats,
    sums: LogSums,
    adjoints: Adjoints,
    grad: Floats,
) -> None:
    """Go back through a pass of :func:`beliefs.kernels.messages.log.sweep_log` over ``order`` (all sums, no damping).

    The messages with their ``sums`` are those after the pass and become ``old``, those before it; ``grad (n_cells,)``
    gets the tables' part. Cost: two passes over the cells; where their range is too large for
    :mod:`beliefs.kernels.adjoints.scaled`, cells x arity^2, and cells x arity exponentials.
    """
    state_ptr, scope_vars, message_ptr, rho = scopes.state_ptr, scopes.scope_vars, model.message_ptr, model.rho
    work = adjoint_scratch(extent[0], extent[1])
    out, table, size_of = np.empty((2, extent[1])), np.empty(extent[2]), np.empty(extent[0], np.int64)
    for k in range(order.size - 1, -1, -1):
        f = order[k]
        first, arity = scopes.scope_ptr[f], scopes.scope_ptr[f + 1] - scopes.scope_ptr[f]
        if arity < 2:
            continue
        n_cells, start = 1, scopes.cell_ptr[f]
        for a in range(arity):
            size_of[a] = scopes.card[scope_vars[first + a]]
            n_cells *= size_of[a]
        sizes, cells, out_cells = size_of[:arity], model.theta[start : start + n_cells], grad[start : start + n_cells]
        turns = turns_of(arity, rho[f])
        for turn in range(turns - 1, -1, -1):
            begin, end = (turn, turn + 1) if turns > 1 else (0, arity)
            for a in range(begin, end):
                v, m = scope_vars[first + a], message_ptr[first + a]
                new, was = sums.messages[m : m + sizes[a]], old[m : m + sizes[a]]
                variable, message = (
                    adjoints.variable[state_ptr[v] : state_ptr[v + 1]],
                    adjoints.message[m : m + sizes[a]],
                )
                message_adjoint(new, floor, rho[f], variable, message, work.sent[a], work.bar[a])
                replace_message(v, new, was, rho[f], state_ptr, sums)
                for x in range(sizes[a]):
                    new[x] = was[x]
            for a in range(arity):
                s, m = state_ptr[scope_vars[first + a]], message_ptr[first + a]
                for x in range(sizes[a]):
                    work.incoming[a, x] = cavity(sums.finite[s + x], sums.zeros[s + x], sums.messages[m + x])
                    work.back[a, x] = 0.0
            if turns > 1:
                only(turn, sizes, work.sent, work.bar)
            if not scaled_adjoint(scaled, f, rho[f], sizes, work, out_cells):
                for a in range(begin, end):
                    conditionals(a, sizes, cells, rho[f], work.incoming, work.digit, table[:n_cells], out)
                    spread_adjoint(a, sizes, work.bar[a], rho[f], table, work.digit, work.back, out_cells)
            for a in range(arity):
                s, m = state_ptr[scope_vars[first + a]], message_ptr[first + a]
                for x in range(sizes[a]):
                    adjoints.variable[s + x] += work.back[a, x]
                    adjoints.message[m + x] -= work.back[a, x]


@twofold_kernel
def add_unary(scopes: Scopes, theta: Floats, variable: Floats, grad: Floats) -> None:
    """Add each variable's adjoint to the cells of its factors of one variable; hard zeros have no gradient."""
    state_ptr, cell_ptr = scopes.state_ptr, scopes.cell_ptr
    for f in range(cell_ptr.size):
        if scopes.scope_ptr[f + 1] - scopes.scope_ptr[f] == 1:
            v = scopes.scope_vars[scopes.scope_ptr[f]]
            for x in range(state_ptr[v + 1] - state_ptr[v]):
                if theta[cell_ptr[f] + x] > -math.inf:
                    grad[cell_ptr[f] + x] += variable[state_ptr[v] + x]


@kernel
def largest_adjoint(scopes: Scopes, model: Reweighted, messages: Floats, adjoints: Adjoints) -> float:
    """Return the largest adjoint of a message of a factor of two or more, ``abs(message + rho * variable)``.

    Entries where the message is ``-inf`` are left out.
    """
    scope_ptr, message_ptr = scopes.scope_ptr, model.message_ptr
    largest = 0.0
    for f in range(model.rho.size):
        if scope_ptr[f + 1] - scope_ptr[f] < 2:
            continue
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            s, m = scopes.state_ptr[scopes.scope_vars[e]], message_ptr[e]
            for x in range(message_ptr[e + 1] - m):
                if messages[m + x] > -math.inf:
                    largest = max(largest, abs(adjoints.message[m + x] + model.rho[f] * adjoints.variable[s + x]))
    return largest
