r"""The sweeps of mean field, backwards: adjoints of marginals through coordinate updates [domke2013].

An update is :math:`\mu_v = \mathrm{softmax}(a_v)`, with :math:`a_v` the expected log potentials. If :math:`\bar\mu_v`
is the gradient of the loss in :math:`\mu_v`, that in :math:`a_v` is
:math:`\nu_v = \mu_v (\bar\mu_v - \bar\mu_v \cdot \mu_v)`, and with it

.. math::
    \bar\theta_f(x_f) \mathrel{+}= \nu_v(x_v) \prod_{u \ne v} \mu_u(x_u), \qquad
    \bar\mu_u(x_u) \mathrel{+}= \sum_{x_{f \setminus u}} \nu_v(x_v)\, \theta_f(x_f) \prod_{w \ne u, v} \mu_w(x_w).

Updates are undone one by one, last first. In pairwise models the second sum is linear in :math:`\nu` alone, so it is
taken lazily: with :math:`N_u` the sum of all :math:`\nu_u` so far, a vertex that is visited reads
:math:`\sum_u T_{vu} N_u` like a forward update, and subtracts what it had read the last time (``shift``). Then nothing
is scattered, and :math:`N` is the gradient in the unary potentials in the end.
"""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import kernel, linear_kernel
from beliefs.kernels.mean_field import add_expectation
from beliefs.typing import Bools, Floats, Ints

__all__ = [
    "add_outer_products",
    "add_pair_products",
    "add_table_adjoints",
    "back_binary",
    "back_pairwise",
    "back_variables",
]

_ONE = np.uint64(1)


@kernel
def back_binary(
    order: Ints, held: bool, state_ptr: Ints, nbr_ptr: Ints, nbr: Ints, coupling: Floats, after: Floats,
    before: Floats, shift: Floats, totals: Floats, slope: Floats,
) -> float:  # fmt: skip
    r"""Undo one sweep over binary vertices, ``order`` being that of the sweep backwards; return the largest change.

    Equivalent, for each ``v``, to ``a = shift[v] + coupling @ N[neighbours]; nu = a * q[v] * (1 - q[v]); N[v] += nu;
    slope[entries of v] += nu * q[neighbours]; shift[v] -= a; q[v] = before[v]``, where ``q`` and ``N`` lie side by side
    in ``totals (n_states,)`` as ``(N, q)`` and ``after (n_states,)`` has the probabilities right after the sweep. If
    ``held``, probabilities stay, ``N[v] = nu`` and ``shift`` and ``slope`` are left alone: a step of Gauss-Seidel on
    the adjoints at a fixed point. Cost: twice the entries, no exponentials.
    """
    largest = 0.0
    for t in range(order.size):
        v = np.uint64(order[t])
        m = np.uint64(state_ptr[v])
        begin, end = np.uint64(nbr_ptr[v]), np.uint64(nbr_ptr[v + _ONE])
        a = shift[v]
        for i in range(begin, end):
            a += coupling[i] * totals[np.uint64(nbr[i]) - _ONE]
        nu = a * after[m] * after[m + _ONE]
        if held:
            largest = max(largest, abs(nu - totals[m]))
            totals[m] = nu
        else:
            shift[v] -= a
            totals[m] += nu
            for i in range(begin, end):
                slope[i] += nu * totals[np.uint64(nbr[i])]
            totals[m + _ONE] = before[m + _ONE]
    return largest


@linear_kernel
def back_pairwise(
    order: Ints, held: bool, n: int, state_ptr: Ints, nbr_ptr: Ints, nbr: Ints, cell: Ints, is_first: Bools,
    theta: Floats, after: Floats, shift: Floats, totals: Floats, steps: Floats, pool: Floats, a: Floats,
) -> float:  # fmt: skip
    """Undo one sweep over vertices of ``n`` states; return the largest change of ``totals`` if ``held``.

    Equivalent, for each ``v``, to ``a = shift[v] + sum of T @ N[u] or N[u] @ T; nu = mu * (a - a @ mu)`` with
    ``mu = after[v]``, and then ``shift[v] -= a; N[v] += nu; steps[v] = nu``, or ``N[v] = nu`` if ``held``. All but
    ``pool`` and ``a`` (scratch, ``n``) are laid out like ``mu``. Entries with one table and side are pooled.
    Cost: K^2 a table and side.
    """
    largest, size = 0.0, np.uint64(n)
    for t in range(order.size):
        v = order[t]
        own, i, end = np.uint64(state_ptr[v]), nbr_ptr[v], nbr_ptr[v + 1]
        for x in range(size):
            a[x] = shift[own + x]
        while i < end:
            at, side, u = cell[i], is_first[i], np.uint64(nbr[i])
            for y in range(size):
                pool[y] = totals[u + y]
            i += 1
            while i < end and cell[i] == at and is_first[i] == side:
                u = np.uint64(nbr[i])
                for y in range(size):
                    pool[y] += totals[u + y]
                i += 1
            row = np.uint64(at)
            for x in range(size):
                if side:
                    total = 0.0
                    for y in range(size):
                        total += theta[row + y] * pool[y]
                    a[x] += total
                else:
                    w = pool[x]
                    for y in range(size):
                        a[y] += w * theta[row + y]
                row += size
        mean = 0.0
        for x in range(size):
            mean += a[x] * after[own + x]
        for x in range(size):
            nu = after[own + x] * (a[x] - mean)
            if held:
                largest = max(largest, abs(nu - totals[own + x]))
                totals[own + x] = nu
            else:
                totals[own + x] += nu
                shift[own + x] -= a[x]
                steps[own + x] = nu
    return largest


@linear_kernel
def add_pair_products(
    order: Ints, n: int, state_ptr: Ints, nbr_ptr: Ints, nbr: Ints, cell: Ints, is_first: Bools, early: Bools,
    along: Bools, marks: Floats, steps: Floats, rows: Floats, pools: Floats, grad: Floats,
) -> None:  # fmt: skip
    """Add the gradients in the tables of pairs, over several sweeps at once: each table is then fetched once.

    Equivalent, for each ``v`` in ``order``, entry and sweep ``s``, to ``G += np.outer(steps[s, v], mu[u])`` for the
    table's part ``G`` of ``grad (n_cells,)``, transposed where ``v`` is its second variable. ``mu[u]`` is what the
    update read: ``marks[s + 1]`` if ``u`` had its turn before ``v`` in that sweep, else ``marks[s]``. ``early`` says so
    for sweeps with ``along[s]``, the opposite is true for the others. ``rows, pools (sweeps, n)`` are scratch. Cost:
    sweeps times K^2 a table and side.
    """
    sweeps, size = steps.shape[0], np.uint64(n)
    for t in range(order.size):
        v = order[t]
        own, i, end = np.uint64(state_ptr[v]), nbr_ptr[v], nbr_ptr[v + 1]
        for s in range(sweeps):
            for x in range(size):
                rows[s, x] = steps[s, own + x]
        while i < end:
            at, side = cell[i], is_first[i]
            for s in range(sweeps):
                mark = s + 1 if early[i] == along[s] else s
                u = np.uint64(nbr[i])
                for x in range(size):
                    pools[s, x] = marks[mark, u + x]
            i += 1
            while i < end and cell[i] == at and is_first[i] == side:
                for s in range(sweeps):
                    mark = s + 1 if early[i] == along[s] else s
                    u = np.uint64(nbr[i])
                    for x in range(size):
                        pools[s, x] += marks[mark, u + x]
                i += 1
            row = np.uint64(at)
            for x in range(size):
                for s in range(sweeps):
                    if side:
                        w = rows[s, x]
                        for y in range(size):
                            grad[row + y] += w * pools[s, y]
                    else:
                        w = pools[s, x]
                        for y in range(size):
                            grad[row + y] += w * rows[s, y]
                row += size


@linear_kernel
def _add_outer(
    begin: int, end: int, start: int, card: Ints, state_ptr: Ints, scope_vars: Ints, mu: Floats, buffer: Floats,
    grad: Floats,
) -> None:  # fmt: skip
    """Add the outer product of ``mu`` over the scope ``begin..end`` of two variables or more to ``grad[start:]``."""
    size = 1
    buffer[0] = 1.0
    for e in range(begin, end - 1):  # each axis widens the product in place, from its end
        k, m = card[scope_vars[e]], state_ptr[scope_vars[e]]
        for row in range(size - 1, -1, -1):
            w = buffer[row]
            for x in range(k):
                buffer[row * k + x] = w * mu[m + x]
        size *= k
    k, m, cell = np.uint64(card[scope_vars[end - 1]]), np.uint64(state_ptr[scope_vars[end - 1]]), np.uint64(start)
    for row in range(size):
        w = buffer[row]
        for x in range(k):
            grad[cell + x] += w * mu[m + x]
        cell += k


@kernel
def add_outer_products(
    order: Ints, card: Ints, state_ptr: Ints, scope_ptr: Ints, scope_vars: Ints, cell_ptr: Ints, var_ptr: Ints,
    var_edges: Ints, edge_factor: Ints, totals: Floats, mu: Floats, buffer: Floats, grad: Floats,
) -> None:  # fmt: skip
    """Add ``G_f += outer(totals[v], mu of f's other variables)``, axes as in its scope, for each ``v`` and its factors.

    Factors of one variable are left out. ``mu`` is used as scratch and put back; ``buffer`` is at least the largest
    table. Cost: cells times arity.
    """
    for t in range(order.size):
        v = order[t]
        own, n = state_ptr[v], card[v]
        kept = buffer[buffer.size - n :]
        for x in range(n):
            kept[x] = mu[own + x]
            mu[own + x] = totals[own + x]
        for i in range(var_ptr[v], var_ptr[v + 1]):
            f = edge_factor[var_edges[i]]
            if scope_ptr[f + 1] - scope_ptr[f] > 1:
                _add_outer(
                    scope_ptr[f], scope_ptr[f + 1], cell_ptr[f], card, state_ptr, scope_vars, mu, buffer, grad
                )  # fmt: skip
        for x in range(n):
            mu[own + x] = kept[x]


@kernel
def back_variables(
    order: Ints, held: bool, card: Ints, state_ptr: Ints, scope_ptr: Ints, scope_vars: Ints, cell_ptr: Ints,
    var_ptr: Ints, var_edges: Ints, edge_factor: Ints, theta: Floats, before: Floats, mu: Floats, buffer: Floats,
    bar: Floats, totals: Floats, grad: Floats,
) -> float:  # fmt: skip
    r"""Undo one sweep over variables of any factors; return the largest adjoint.

    Equivalent, for each ``v``, to ``nu = mu[v] * (bar[v] - bar[v] @ mu[v]); bar[v] = 0; totals[v] += nu``, then for
    each factor with others ``u``, ``bar[u] += einsum(T, nu, mu of the rest)`` and, unless ``held``, ``G += outer(nu, mu
    of the others)``; and ``mu[v] = before[v]`` (equal to ``mu[v]`` if ``held``). ``theta`` is finite: cells that are
    forbidden have no weight. Shapes: ``mu, before, bar, totals (n_states,)``, ``grad (n_cells,)``, ``buffer`` as
    for :func:`add_outer_products`. Cost: cells times arity squared.
    """
    largest = 0.0
    for t in range(order.size):
        v = order[t]
        own, n = state_ptr[v], card[v]
        mean = 0.0
        for x in range(own, own + n):
            mean += bar[x] * mu[x]
        for x in range(own, own + n):
            nu = mu[x] * (bar[x] - mean)
            bar[x] = 0.0
            totals[x] += nu
            mu[x] = nu  # stands for v's own axis in every product below
            largest = max(largest, abs(nu))
        for i in range(var_ptr[v], var_ptr[v + 1]):
            edge = var_edges[i]
            f = edge_factor[edge]
            begin, end = scope_ptr[f], scope_ptr[f + 1]
            if end - begin == 1:
                continue
            for e in range(begin, end):
                if e != edge:
                    add_expectation(
                        begin, end, e, cell_ptr[f], card, state_ptr, scope_vars, theta, mu, buffer,
                        state_ptr[scope_vars[e]], bar,
                    )  # fmt: skip
            if not held:
                _add_outer(begin, end, cell_ptr[f], card, state_ptr, scope_vars, mu, buffer, grad)
        for x in range(own, own + n):
            mu[x] = before[x]
    return largest


@kernel
def add_table_adjoints(
    factors: Ints, card: Ints, state_ptr: Ints, scope_ptr: Ints, scope_vars: Ints, table_ptr: Ints, tables: Floats,
    mu: Floats, buffer: Floats, bar: Floats,
) -> None:  # fmt: skip
    """Add ``bar[u] += einsum(B_f, mu of f's others)`` for each factor of two variables or more and each ``u`` in it.

    ``B_f = tables[table_ptr[f]:]`` is the gradient in the outer product of marginals. Cost: cells times arity.
    """
    for f in factors:
        begin, end = scope_ptr[f], scope_ptr[f + 1]
        if end - begin < 2:
            continue
        for e in range(begin, end):
            add_expectation(
                begin, end, e, table_ptr[f], card, state_ptr, scope_vars, tables, mu, buffer,
                state_ptr[scope_vars[e]], bar,
            )  # fmt: skip
