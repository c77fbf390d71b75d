r"""The way back through message passing, in logs, for factors of any arity and with hard zeros.

Forward, a factor c sends from cavities :math:`\kappa_j = \beta_j - \lambda_{cj}`, and :math:`\beta` follows:

.. math::
    u_i(x_i) = \log \sum_{x_{c \setminus i}} \exp \Big[\theta_c / \rho_c + \sum_{j \ne i} \kappa_j \Big], \qquad
    \lambda_{ci}' = u_i - \log \sum e^{u_i}, \qquad \beta_i' = \beta_i + \rho_c (\lambda_{ci}' - \lambda_{ci}).

All influence on a variable passes through :math:`\beta_j`, so one running adjoint ``total`` :math:`B_j` a variable is
enough [domke2013]: the adjoint of a message is :math:`g_{ci} = k_{ci} + \rho_c B_i` with an array ``kept`` for what is
the message's own. Backward, with :math:`\bar u_i = g_i - m_i \sum g_i`,
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
from beliefs.kernels.adjoints.scaled import scaled_back
from beliefs.kernels.messages.damping import turns_of
from beliefs.kernels.messages.log import cavity, replace_message
from beliefs.typing import Floats, Ints

__all__ = ["add_unary", "back_beliefs", "back_sweep_log", "largest_adjoint"]


@kernel
def back_beliefs(
    card: Ints,
    scope_ptr: Ints,
    scope_vars: Ints,
    cell_ptr: Ints,
    table_ptr: Ints,
    state_ptr: Ints,
    msg_ptr: Ints,
    rho: Floats,
    mu_var: Floats,
    mu_factor: Floats,
    bar_var: Floats,
    bar_factor: Floats,
    total: Floats,
    kept: Floats,
    grad: Floats,
) -> None:
    """Go back through ``mu = softmax(T)``: ``nu = mu * (bar - mu @ bar)``, for variables and factors of two or more.

    Adds ``nu / rho`` to ``grad (n_cells,)``, marginals of ``nu`` to ``total (n_states,)``, minus these to ``kept``
    (like messages). ``bar_factor`` may be empty: zero. Where ``mu`` is 0, ``bar`` may be infinite. Cost: cells x arity.
    """
    for v in range(card.size):
        mean = 0.0
        for s in range(state_ptr[v], state_ptr[v + 1]):
            if mu_var[s] > 0.0:
                mean += mu_var[s] * bar_var[s]
        for s in range(state_ptr[v], state_ptr[v + 1]):
            if mu_var[s] > 0.0:
                total[s] += mu_var[s] * (bar_var[s] - mean)
    if bar_factor.size == 0:
        return
    for f in range(cell_ptr.size):
        first, end = scope_ptr[f], scope_ptr[f + 1]
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
                grad[cell_ptr[f] + k] += nu / rho[f]
                rest = k
                for e in range(end - 1, first - 1, -1):
                    n = card[scope_vars[e]]
                    total[state_ptr[scope_vars[e]] + rest % n] += nu
                    kept[msg_ptr[e] + rest % n] -= nu
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
            a = arity - 1
            while a >= 0:
                digit[a] += 1
                if digit[a] < sizes[a]:
                    break
                digit[a] = 0
                a -= 1


@kernel
def spread_back(
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
        a = arity - 1
        while a >= 0:
            digit[a] += 1
            if digit[a] < sizes[a]:
                break
            digit[a] = 0
            a -= 1


@kernel
def message_adjoint(
    new: Floats, floor: float, weight: float, total: Floats, kept: Floats, said: Floats, bar: Floats
) -> None:
    """Write ``said = exp(new)`` and ``bar = g - said * g.sum()`` for ``g = kept + weight * total``.

    Then set ``kept = -weight * total``. Entries that are zero, or that were raised to ``floor``, do not move and have
    no adjoint.
    """
    sum_g = 0.0
    for x in range(new.size):
        g = kept[x] + weight * total[x] if new[x] > floor else 0.0
        bar[x] = g
        sum_g += g
        kept[x] = -weight * total[x]
    for x in range(new.size):
        said[x] = math.exp(new[x])
        if new[x] > floor:
            bar[x] -= said[x] * sum_g


@kernel
def only(target: int, sizes: Ints, said: Floats, bar: Floats) -> None:
    """Make messages other than the one to ``target`` count as not sent."""
    for a in range(sizes.size):
        if a != target:
            for x in range(sizes[a]):
                said[a, x], bar[a, x] = 1.0, 0.0


@kernel
def back_sweep_log(
    card: Ints,
    scope_ptr: Ints,
    scope_vars: Ints,
    cell_ptr: Ints,
    state_ptr: Ints,
    msg_ptr: Ints,
    theta: Floats,
    rho: Floats,
    extent: Ints,
    order: Ints,
    floor: float,
    old: Floats,
    messages: Floats,
    finite: Floats,
    zeros: Ints,
    total: Floats,
    kept: Floats,
    grad: Floats,
    psi_ptr: Ints,
    psi: Floats,
    log_least: float,
) -> None:
    """Go back through a pass of :func:`beliefs.kernels.messages.log.sweep_log` over ``order`` (all sums, no damping).

    ``messages`` with their sums ``finite``, ``zeros`` are those after the pass and become ``old``, those before it;
    ``total (n_states,)`` and ``kept`` (like messages) are the adjoints, ``grad (n_cells,)`` gets the tables' part.
    ``psi`` has scaled potentials for :mod:`beliefs.kernels.adjoints.scaled`. Cost: two passes over the cells; where
    their range is too large, cells x arity^2, and cells x arity exponentials.
    """
    widest, largest = extent[0], extent[1]
    incoming, bar, back = np.empty((widest, largest)), np.empty((widest, largest)), np.empty((widest, largest))
    said, linear, q = np.empty((widest, largest)), np.empty((widest, largest)), np.empty((widest, largest))
    parts = np.empty(widest)
    out, table = np.empty((2, largest)), np.empty(extent[2])
    size_of, digit = np.empty(widest, np.int64), np.empty(widest, np.int64)
    for k in range(order.size - 1, -1, -1):
        f = order[k]
        first, arity = scope_ptr[f], scope_ptr[f + 1] - scope_ptr[f]
        if arity < 2:
            continue
        n_cells = 1
        for a in range(arity):
            size_of[a] = card[scope_vars[first + a]]
            n_cells *= size_of[a]
        sizes, cells = size_of[:arity], theta[cell_ptr[f] : cell_ptr[f] + n_cells]
        turns = turns_of(arity, rho[f])
        for turn in range(turns - 1, -1, -1):
            begin, end = (turn, turn + 1) if turns > 1 else (0, arity)
            for a in range(begin, end):
                v, m = scope_vars[first + a], msg_ptr[first + a]
                new, was = messages[m : m + sizes[a]], old[m : m + sizes[a]]
                message_adjoint(
                    new, floor, rho[f], total[state_ptr[v] : state_ptr[v + 1]], kept[m : m + sizes[a]], said[a], bar[a]
                )
                replace_message(v, new, was, rho[f], state_ptr, finite, zeros)
                for x in range(sizes[a]):
                    new[x] = was[x]
            for a in range(arity):
                s, m = state_ptr[scope_vars[first + a]], msg_ptr[first + a]
                for x in range(sizes[a]):
                    incoming[a, x] = cavity(finite[s + x], zeros[s + x], messages[m + x])
                    back[a, x] = 0.0
            out_cells = grad[cell_ptr[f] : cell_ptr[f] + n_cells]
            if turns > 1:
                only(turn, sizes, said, bar)
            if not scaled_back(
                psi, psi_ptr[f], log_least, rho[f], sizes, incoming, said, bar, linear, q, parts, digit, back, out_cells
            ):
                for a in range(begin, end):
                    conditionals(a, sizes, cells, rho[f], incoming, digit, table[:n_cells], out)
                    spread_back(a, sizes, bar[a], rho[f], table, digit, back, out_cells)
            for a in range(arity):
                s, m = state_ptr[scope_vars[first + a]], msg_ptr[first + a]
                for x in range(sizes[a]):
                    total[s + x] += back[a, x]
                    kept[m + x] -= back[a, x]


@twofold_kernel
def add_unary(
    scope_ptr: Ints, scope_vars: Ints, cell_ptr: Ints, state_ptr: Ints, theta: Floats, total: Floats, grad: Floats
) -> None:
    """Add each variable's adjoint to the cells of its factors of one variable; hard zeros have no gradient."""
    for f in range(cell_ptr.size):
        if scope_ptr[f + 1] - scope_ptr[f] == 1:
            v = scope_vars[scope_ptr[f]]
            for x in range(state_ptr[v + 1] - state_ptr[v]):
                if theta[cell_ptr[f] + x] > -math.inf:
                    grad[cell_ptr[f] + x] += total[state_ptr[v] + x]


@kernel
def largest_adjoint(
    scope_ptr: Ints,
    scope_vars: Ints,
    state_ptr: Ints,
    msg_ptr: Ints,
    rho: Floats,
    messages: Floats,
    total: Floats,
    kept: Floats,
) -> float:
    """Return the largest ``abs(kept + rho * total)`` of a message of a factor of two or more, zeros left out."""
    largest = 0.0
    for f in range(rho.size):
        if scope_ptr[f + 1] - scope_ptr[f] < 2:
            continue
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            s, m = state_ptr[scope_vars[e]], msg_ptr[e]
            for x in range(msg_ptr[e + 1] - m):
                if messages[m + x] > -math.inf:
                    largest = max(largest, abs(kept[m + x] + rho[f] * total[s + x]))
    return largest
