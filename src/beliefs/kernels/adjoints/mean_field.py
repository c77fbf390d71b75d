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

from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import kernel, linear_kernel
from beliefs.kernels.layout import Adjacency, Scopes
from beliefs.kernels.mean_field.general import Axes, add_expectation
from beliefs.kernels.mean_field.pairwise import Couplings, Neighbours
from beliefs.typing import Floats, Ints

__all__ = [
    "ProductAdjoint",
    "add_outer_products",
    "add_single_tables",
    "add_table_adjoints",
    "adjoint_binary",
    "adjoint_variables",
    "spread_binary",
]

_ONE = np.uint64(1)
_SMALL = 80  # cells: SIMD, or a call, would cost more than it saves


class ProductAdjoint(NamedTuple):
    """Where the way back through a product of marginals stands; all change in place."""

    mu: Floats  # (n_states,) the marginals right after the update that is undone next
    bar: Floats  # (n_states,) the gradient in them
    totals: Floats  # (n_states,) the sum of all nu so far
    grad: Floats  # (n_cells,) the gradient in theta so far


@kernel
def adjoint_binary(
    order: Ints, held: bool, couplings: Couplings, after: Floats, before: Floats, shift: Floats, totals: Floats,
    slope: Floats,
) -> float:  # fmt: skip
    r"""Undo one sweep over binary vertices, ``order`` being that of the sweep backwards; return the largest change.

    Equivalent, for each ``v``, to ``a = shift[v] + coupling @ N[neighbours]; nu = a * q[v] * (1 - q[v]); N[v] += nu;
    slope[entries of v] += nu * q[neighbours]; shift[v] -= a; q[v] = before[v]``, where ``q`` and ``N`` lie side by side
    in ``totals (n_states,)`` as ``(N, q)`` and ``after (n_states,)`` has the probabilities right after the sweep. If
    ``held``, probabilities stay, ``N[v] = nu`` and ``shift`` and ``slope`` are left alone: a step of Gauss-Seidel on
    the adjoints at a fixed point. Cost: twice the entries, no exponentials.
    """
    state_ptr, nbr_ptr, nbr, coupling = couplings.state_ptr, couplings.ptr, couplings.second, couplings.coupling
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


@kernel
def spread_binary(near: Neighbours, slope: Floats, totals: Floats, grad: Floats) -> None:
    """Add what belongs to log-odds to the tables of binary pairs.

    Equivalent, for each entry ``i`` of ``v`` with table ``G`` (transposed where ``v`` is second), to
    ``G += [[-(N - w), -w], [N - w, w]]`` for ``w = slope[i]`` and ``N = totals[first state of v]``. Cost: four cells an
    entry.
    """
    for v in range(near.ptr.size - 1):
        for i in range(near.ptr[v], near.ptr[v + 1]):
            at, second, rest = near.cell[i], slope[i], totals[near.state_ptr[v]] - slope[i]
            own, other = (2, 1) if near.is_first[i] else (1, 2)
            grad[at] -= rest
            grad[at + other] -= second
            grad[at + own] += rest
            grad[at + 3] += second


@kernel
def add_single_tables(scopes: Scopes, totals: Floats, grad: Floats) -> None:
    """Add ``G_f += totals[v]`` for every factor f of one variable v. Cost: their cells."""
    card, state_ptr, scope_ptr, scope_vars, cell_ptr = scopes
    for f in range(cell_ptr.size):
        if scope_ptr[f + 1] - scope_ptr[f] == 1:
            v = scope_vars[scope_ptr[f]]
            at, own = np.uint64(cell_ptr[f]), np.uint64(state_ptr[v])
            for x in range(np.uint64(card[v])):
                grad[at + x] += totals[own + x]


@linear_kernel
def _add_outer(begin: int, end: int, start: int, axes: Axes, mu: Floats, buffer: Floats, grad: Floats) -> None:
    """Add the outer product of ``mu`` over the scope ``begin..end`` of two variables or more to ``grad[start:]``."""
    card, state_ptr, scope_vars = axes
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
def _adjoint_small(
    edge: int, begin: int, end: int, held: bool, start: int, axes: Axes, theta: Floats, mu: Floats, bar: Floats,
    grad: Floats,
) -> bool:  # fmt: skip
    """Do for a small factor of two or three variables what calls would do: all in one pass; return whether it is one.

    ``mu`` holds the adjoint at the variable of ``edge``. Cost: the cells.
    """
    card, state_ptr, scope_vars = axes
    v, other = scope_vars[edge], scope_vars[begin + 1 if edge == begin else begin]
    n, own = np.uint64(card[v]), np.uint64(state_ptr[v])
    k, m, at = np.uint64(card[other]), np.uint64(state_ptr[other]), np.uint64(start)
    if end - begin == 2 and n * k <= _SMALL:
        row, column = (k, _ONE) if edge == begin else (_ONE, n)
        for x in range(n):
            nu, cell = mu[own + x], at
            for y in range(k):
                bar[m + y] += nu * theta[cell]
                if not held:
                    grad[cell] += nu * mu[m + y]
                cell += column
            at += row
        return True
    third = scope_vars[end - 1 if edge < end - 1 else begin + 1]
    j, far = np.uint64(card[third]), np.uint64(state_ptr[third])
    if end - begin != 3 or n * k * j > _SMALL:
        return False
    row, column, deep = k * j, j, _ONE  # steps in the table for one state more: of the variable, the other, the third
    if edge == begin + 1:
        row, column = j, n * j
    elif edge == begin + 2:
        row, column, deep = _ONE, j * n, n
    for x in range(n):
        nu, line = mu[own + x], at
        for y in range(k):
            weight, total, cell = nu * mu[m + y], 0.0, line
            for z in range(j):
                total += theta[cell] * mu[far + z]
                bar[far + z] += weight * theta[cell]
                if not held:
                    grad[cell] += weight * mu[far + z]
                cell += deep
            bar[m + y] += nu * total
            line += column
        at += row
    return True


@kernel
def add_outer_products(
    order: Ints, scopes: Scopes, adjacency: Adjacency, buffer: Floats, adjoint: ProductAdjoint
) -> None:
    """Add ``G_f += outer(totals[v], mu of f's other variables)``, axes as in its scope, for each ``v`` and its factors.

    Factors of one variable are left out. ``mu`` is used as scratch and put back; ``buffer`` is at least the largest
    table. Cost: cells times arity.
    """
    mu, totals, axes = adjoint.mu, adjoint.totals, Axes(scopes.card, scopes.state_ptr, scopes.scope_vars)
    for t in range(order.size):
        v = order[t]
        own, n = scopes.state_ptr[v], scopes.card[v]
        kept = buffer[buffer.size - n :]
        for x in range(n):
            kept[x] = mu[own + x]
            mu[own + x] = totals[own + x]
        for i in range(adjacency.var_ptr[v], adjacency.var_ptr[v + 1]):
            f = adjacency.edge_factor[adjacency.var_edges[i]]
            if scopes.scope_ptr[f + 1] - scopes.scope_ptr[f] > 1:
                _add_outer(
                    scopes.scope_ptr[f], scopes.scope_ptr[f + 1], scopes.cell_ptr[f], axes, mu, buffer, adjoint.grad
                )  # fmt: skip
        for x in range(n):
            mu[own + x] = kept[x]


@kernel
def adjoint_variables(
    order: Ints, held: bool, scopes: Scopes, adjacency: Adjacency, theta: Floats, before: Floats, buffer: Floats,
    adjoint: ProductAdjoint,
) -> float:  # fmt: skip
    r"""Undo one sweep over variables of any factors; return the largest adjoint.

    Equivalent, for each ``v``, to ``nu = mu[v] * (bar[v] - bar[v] @ mu[v]); bar[v] = 0; totals[v] += nu``, then for
    each factor with others ``u``, ``bar[u] += einsum(T, nu, mu of the rest)`` and, unless ``held``, ``G += outer(nu, mu
    of the others)``; and ``mu[v] = before[v]`` (equal to ``mu[v]`` if ``held``). ``theta`` is finite: cells that are
    forbidden have no weight. Shapes: ``before (n_states,)``, ``buffer`` as for :func:`add_outer_products`. Cost: cells
    times arity squared.
    """
    state_ptr, scope_ptr, scope_vars = scopes.state_ptr, scopes.scope_ptr, scopes.scope_vars
    mu, bar, totals, grad = adjoint
    axes = Axes(scopes.card, state_ptr, scope_vars)
    largest = 0.0
    for t in range(order.size):
        v = order[t]
        own, n = state_ptr[v], scopes.card[v]
        mean = 0.0
        for x in range(own, own + n):
            mean += bar[x] * mu[x]
        for x in range(own, own + n):
            nu = mu[x] * (bar[x] - mean)
            bar[x] = 0.0
            totals[x] += nu
            mu[x] = nu  # stands for v's own axis in every product below
            largest = max(largest, abs(nu))
        for i in range(adjacency.var_ptr[v], adjacency.var_ptr[v + 1]):
            edge = adjacency.var_edges[i]
            f = adjacency.edge_factor[edge]
            begin, end = scope_ptr[f], scope_ptr[f + 1]
            if end - begin == 1:
                continue
            if not _adjoint_small(edge, begin, end, held, scopes.cell_ptr[f], axes, theta, mu, bar, grad):
                for e in range(begin, end):
                    if e != edge:
                        into = state_ptr[scope_vars[e]]
                        add_expectation(
                            begin, end, e, scopes.cell_ptr[f], axes, theta, mu, buffer, into, bar
                        )  # fmt: skip
                if not held:
                    _add_outer(begin, end, scopes.cell_ptr[f], axes, mu, buffer, grad)
        for x in range(own, own + n):
            mu[x] = before[x]
    return largest


@kernel
def add_table_adjoints(
    factors: Ints, scopes: Scopes, table_ptr: Ints, tables: Floats, mu: Floats, buffer: Floats, bar: Floats
) -> None:
    """Add ``bar[u] += einsum(B_f, mu of f's others)`` for each factor of two variables or more and each ``u`` in it.

    ``B_f = tables[table_ptr[f]:]`` is the gradient in the outer product of marginals. Cost: cells times arity.
    """
    axes = Axes(scopes.card, scopes.state_ptr, scopes.scope_vars)
    for f in factors:
        begin, end = scopes.scope_ptr[f], scopes.scope_ptr[f + 1]
        if end - begin < 2:
            continue
        for e in range(begin, end):
            into = scopes.state_ptr[scopes.scope_vars[e]]
            add_expectation(begin, end, e, table_ptr[f], axes, tables, mu, buffer, into, bar)
