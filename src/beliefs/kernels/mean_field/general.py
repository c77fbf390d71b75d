r"""Mean field on factors of any arity: expected log potentials and coordinate updates.

Tables are finite (``theta`` with 0 in the place of ``-inf``); hard zeros are a second table, ``forbidden``, of ones and
zeros, contracted with the supports of the marginals instead of the marginals themselves. So no product underflows and
0 times infinity never occurs: a state is forbidden exactly if some forbidden cell would then have positive weight.

Offsets are unsigned: Numba then leaves out its test for negative indices, and the inner loops become SIMD. Residuals
are the bits of non-negative numbers: as integers these have the same order, and their maximum is SIMD as well.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import kernel, linear_kernel
from beliefs.kernels.layout import Adjacency, Scopes
from beliefs.kernels.primitives.elementary import fast_exp
from beliefs.typing import Bools, Floats, Ints

__all__ = [
    "SMALL",
    "Axes",
    "Potentials",
    "Product",
    "Scratch",
    "expected_score",
    "product_tables",
    "small_score",
    "softmax",
    "sweep_variables",
]

_ONE = np.uint64(1)
SMALL = 80  # cells
_LEAST = -700.0  # nats below the best state: probabilities beyond are 0, and cannot forbid anything


class Axes(NamedTuple):
    """What a contraction reads of the scopes; a call costs by the arrays it hands on."""

    card: Ints
    state_ptr: Ints
    scope_vars: Ints


class Potentials(NamedTuple):
    """Log potentials without infinities, and the hard zeros apart."""

    theta: Floats  # (n_cells,) 0 in the place of -inf
    forbidden: Floats  # (n_cells,) 1 in the place of -inf, else 0; empty if there are none
    hard: Bools  # (n_factors,) which factors have forbidden cells


class Product(NamedTuple):
    """A product of marginals, updated in place."""

    mu: Floats  # (n_states,)
    support: Floats  # (n_states,) 1 where mu > 0, else 0; empty without hard zeros


class Scratch(NamedTuple):
    """Room to contract one factor in; a thread's own."""

    buffer: Floats  # the largest table of three variables or more
    row: Floats  # the largest cardinality


@linear_kernel
def _contract_table(
    table: Floats, cell: np.uint64, outer: np.uint64, k: np.uint64, rest: np.uint64, mu: Floats, m: np.uint64,
    buffer: Floats,
) -> None:  # fmt: skip
    """Write ``buffer = np.einsum("oyr,y->or", T, mu[m:m+k])`` for ``T = table[cell:]`` of shape (outer, k, rest)."""
    for o in range(outer):
        if rest == _ONE:
            total = 0.0
            for y in range(k):
                total += table[cell + y] * mu[m + y]
            buffer[o] = total
        else:
            into = np.uint64(o) * rest
            w = mu[m]
            for r in range(rest):
                buffer[into + r] = w * table[cell + r]
            for y in range(_ONE, k):
                w, row = mu[m + y], cell + np.uint64(y) * rest
                for r in range(rest):
                    buffer[into + r] += w * table[row + r]
        cell += k * rest


@linear_kernel
def _contract_buffer(outer: np.uint64, k: np.uint64, rest: np.uint64, mu: Floats, m: np.uint64, buffer: Floats) -> None:
    """Do what :func:`_contract_table` does to the buffer itself: each place is written after it was last read."""
    for o in range(outer):
        cell, into = np.uint64(o) * k * rest, np.uint64(o) * rest
        for r in range(rest):
            total = 0.0
            for y in range(k):
                total += buffer[cell + np.uint64(y) * rest + r] * mu[m + y]
            buffer[into + r] = total


@linear_kernel
def add_expectation(
    begin: int, end: int, edge: int, start: int, axes: Axes, table: Floats, mu: Floats, buffer: Floats, into: int,
    a: Floats,
) -> None:  # fmt: skip
    """Add one factor's expected table, for each state of its variable at ``edge``, to ``a[into:]``.

    Equivalent to ``a[into : into + K] += np.einsum(T, scope, mu[u], [u], mu[w], [w], ..., [v])`` over the other
    variables ``u, w, ...`` of the scope, for the table ``T`` at ``table[start:]`` of the factor with edges
    ``begin..end``. Axes before the variable are contracted first, by whole rows. Shapes: ``buffer`` at least the
    table's size if it has three variables or more. Cost: the table's cells, and a K-th part of them for each further
    axis.
    """
    card, state_ptr, scope_vars = axes
    cell, n, own = np.uint64(start), np.uint64(card[scope_vars[edge]]), np.uint64(into)
    if end - begin == 1:
        for x in range(n):
            a[own + x] += table[cell + x]
        return
    if end - begin == 2:
        other = scope_vars[begin + end - 1 - edge]
        k, m = np.uint64(card[other]), np.uint64(state_ptr[other])
        if edge == begin:
            for x in range(n):
                total = 0.0
                for y in range(k):
                    total += table[cell + y] * mu[m + y]
                a[own + x] += total
                cell += k
        else:
            for y in range(k):
                w = mu[m + y]
                for x in range(n):
                    a[own + x] += w * table[cell + x]
                cell += n
        return
    outer, rest, fresh = _ONE, _ONE, True
    for e in range(begin, end):
        rest *= np.uint64(card[scope_vars[e]])
    for e in range(begin, end):
        u = scope_vars[e]
        k, m = np.uint64(card[u]), np.uint64(state_ptr[u])
        rest //= k
        if e == edge:
            outer = n
        elif fresh:
            _contract_table(table, cell, outer, k, rest, mu, m, buffer)
            fresh = False
        else:
            _contract_buffer(outer, k, rest, mu, m, buffer)
    for x in range(n):
        a[own + x] += buffer[x]


@kernel
def forbid(
    v: int, scopes: Scopes, adjacency: Adjacency, potentials: Potentials, support: Floats, scratch: Scratch, into: int,
    logs: Floats,
) -> None:  # fmt: skip
    """Write ``-inf`` to ``logs[into:]`` for those states of ``v`` for which a forbidden cell would have weight."""
    n, weight, axes = scopes.card[v], scratch.row, Axes(scopes.card, scopes.state_ptr, scopes.scope_vars)
    for x in range(n):
        weight[x] = 0.0
    for i in range(adjacency.var_ptr[v], adjacency.var_ptr[v + 1]):
        e = adjacency.var_edges[i]
        f = adjacency.edge_factor[e]
        if potentials.hard[f]:
            add_expectation(
                scopes.scope_ptr[f], scopes.scope_ptr[f + 1], e, scopes.cell_ptr[f], axes, potentials.forbidden,
                support, scratch.buffer, 0, weight,
            )  # fmt: skip
    for x in range(n):
        if weight[x] > 0.0:
            logs[into + x] = -math.inf


@linear_kernel
def _total(a: Floats, start: np.uint64, n: np.uint64) -> float:
    """Return ``a[start : start + n].sum()``."""
    total = 0.0
    for x in range(n):
        total += a[start + x]
    return total


@kernel
def softmax(at: int, logs: Floats, start: int, card: int, mu: Floats) -> int:
    """Write ``mu[start:] = exp(l - LSE(l))`` for ``l = logs[at : at + card]``; return the bits of the largest change.

    ``l`` is overwritten. ``-inf`` gives 0, as does anything 700 nats below the best; if all are ``-inf``, nothing
    changes. Cost: one exponential a state.
    """
    n, own, here = np.uint64(card), np.uint64(start), np.uint64(at)
    top = -math.inf
    for x in range(n):
        if logs[here + x] > top:
            top = logs[here + x]
    if top == -math.inf:
        return 0
    for x in range(n):
        below = logs[here + x] - top
        weight = fast_exp(below)
        logs[here + x] = weight if below > _LEAST else 0.0
    scale = 1.0 / _total(logs, here, n)
    largest = np.int64(0)
    for x in range(n):
        new = logs[here + x] * scale
        change = np.float64(abs(new - mu[own + x])).view(np.int64)
        largest = max(largest, change)
        mu[own + x] = new
    return int(largest)


@kernel
def sweep_variables(
    order: Ints, update: bool, scopes: Scopes, adjacency: Adjacency, potentials: Potentials, scratch: Scratch,
    logs: Floats, product: Product,
) -> int:  # fmt: skip
    r"""Write the expected log potentials of the variables in ``order``; with ``update``, their marginals too.

    ``logs(x_v) = sum over the factors f of v of E[theta_f | x_v]`` under the product of the other marginals, ``-inf``
    where a forbidden cell would have weight; then ``mu_v = softmax(logs_v)``, before the next variable. Returns the
    bits of the largest absolute change. ``logs`` is as long as ``mu``, or scratch for one variable if that is updated.
    Small tables of up to three variables are done here, one cell after the other: SIMD, or a call, would cost more than
    it saves. Cost: arity times cells.
    """
    card, state_ptr, scope_vars = scopes.card, scopes.state_ptr, scopes.scope_vars
    scope_ptr, cell_ptr = scopes.scope_ptr, scopes.cell_ptr
    var_ptr, var_edges, edge_factor = adjacency.var_ptr, adjacency.var_edges, adjacency.edge_factor
    theta, hard, axes = potentials.theta, potentials.hard, Axes(card, state_ptr, scope_vars)
    mu, support = product.mu, product.support
    largest = 0
    for t in range(order.size):
        v, zeros = order[t], False
        n, own = np.uint64(card[v]), np.uint64(state_ptr[v])
        into = 0 if update else state_ptr[v]
        here = np.uint64(into)
        for x in range(n):
            logs[here + x] = 0.0
        for i in range(np.uint64(var_ptr[v]), np.uint64(var_ptr[v + 1])):
            edge = var_edges[i]
            f = edge_factor[edge]
            zeros = zeros or hard[f]
            begin, arity, cell = scope_ptr[f], scope_ptr[f + 1] - scope_ptr[f], np.uint64(cell_ptr[f])
            if arity == 1:
                for x in range(n):
                    logs[here + x] += theta[cell + x]
                continue
            other = scope_vars[begin + 1 if edge == begin else begin]
            k, m = np.uint64(card[other]), np.uint64(state_ptr[other])
            if arity == 2 and n * k <= SMALL:
                row, column = (k, _ONE) if edge == begin else (_ONE, n)
                for x in range(n):
                    total, at = 0.0, cell
                    for y in range(k):
                        total += theta[at] * mu[m + y]
                        at += column
                    logs[here + x] += total
                    cell += row
                continue
            third = scope_vars[begin + arity - 1 if edge < begin + arity - 1 else begin + 1]
            j, far = np.uint64(card[third]), np.uint64(state_ptr[third])
            if arity == 3 and n * k * j <= SMALL // 2:
                # steps in the table for one state more: of the variable, of the other, of the third
                row, column, deep = k * j, j, _ONE
                if edge == begin + 1:
                    row, column = j, n * j
                elif edge == begin + 2:
                    row, column, deep = _ONE, j * n, n
                for x in range(n):
                    total, line = 0.0, cell
                    for y in range(k):
                        part, at = 0.0, line
                        for z in range(j):
                            part += theta[at] * mu[far + z]
                            at += deep
                        total += part * mu[m + y]
                        line += column
                    logs[here + x] += total
                    cell += row
            else:
                add_expectation(
                    begin, begin + arity, edge, cell_ptr[f], axes, theta, mu, scratch.buffer, into, logs
                )  # fmt: skip
        if zeros:
            forbid(v, scopes, adjacency, potentials, support, scratch, into, logs)
        if update:
            largest = max(largest, softmax(0, logs, state_ptr[v], card[v], mu))
            if support.size > 0:
                for x in range(n):
                    support[own + x] = 1.0 if mu[own + x] > 0.0 else 0.0
    return largest


@kernel
def _expectation(
    begin: int, end: int, start: int, axes: Axes, table: Floats, mu: Floats, buffer: Floats, row: Floats
) -> float:
    """Return ``np.vdot(T, product of mu over the scope)`` for ``T = table[start:]`` over the edges ``begin..end``."""
    v = axes.scope_vars[begin]
    n, own = axes.card[v], axes.state_ptr[v]
    for x in range(n):
        row[x] = 0.0
    add_expectation(begin, end, begin, start, axes, table, mu, buffer, 0, row)
    total = 0.0
    for x in range(n):
        total += row[x] * mu[own + x]
    return total


@kernel
def small_expectation(f: int, scopes: Scopes, theta: Floats, mu: Floats) -> float:
    """Return ``np.vdot(theta_f, product of mu over its scope)`` for up to two variables, one cell after the other."""
    card, state_ptr, scope_ptr, scope_vars, cell_ptr = scopes
    begin, arity, cell = scope_ptr[f], scope_ptr[f + 1] - scope_ptr[f], np.uint64(cell_ptr[f])
    if arity == 0:
        return float(theta[cell])
    score = 0.0
    n, own = np.uint64(card[scope_vars[begin]]), np.uint64(state_ptr[scope_vars[begin]])
    if arity == 1:
        for x in range(n):
            score += theta[cell + x] * mu[own + x]
        return score
    k, m = np.uint64(card[scope_vars[begin + 1]]), np.uint64(state_ptr[scope_vars[begin + 1]])
    for x in range(n):
        total = 0.0
        for y in range(k):
            total += theta[cell + y] * mu[m + y]
        score += total * mu[own + x]
        cell += k
    return score


@kernel
def compensated(total: float, lost: float, term: float) -> tuple[float, float]:
    """Return the sum with one more term, and all that additions have lost so far, to be added at the end."""
    larger = total + term
    if abs(total) >= abs(term):
        return larger, lost + ((total - larger) + term)
    return larger, lost + ((term - larger) + total)


@kernel
def small_score(factors: Ints, scopes: Scopes, theta: Floats, mu: Floats) -> float:
    """Return what :func:`expected_score` would, for small tables of up to two variables and without hard zeros."""
    total, lost = 0.0, 0.0
    for i in range(factors.size):
        total, lost = compensated(total, lost, small_expectation(factors[i], scopes, theta, mu))
    return total + lost


@kernel
def expected_score(factors: Ints, scopes: Scopes, potentials: Potentials, product: Product, scratch: Scratch) -> float:
    """Return the expectation of the sum of some factors' tables under a product of marginals.

    Equivalent to ``sum(np.vdot(theta_f, product of mu over its scope) for f in factors)``; ``-inf`` if a forbidden
    cell has weight. What an addition of one factor's part loses is kept and added at the end, so that the error does
    not grow with the number of factors. Cost: the factors' cells.
    """
    card, state_ptr, scope_ptr, scope_vars, cell_ptr = scopes
    theta, forbidden, hard = potentials
    mu, support = product
    buffer, row = scratch
    axes = Axes(card, state_ptr, scope_vars)
    total, lost = 0.0, 0.0
    for i in range(factors.size):
        f = factors[i]
        begin, arity = scope_ptr[f], scope_ptr[f + 1] - scope_ptr[f]
        if arity < 2 or (arity == 2 and card[scope_vars[begin]] * card[scope_vars[begin + 1]] <= SMALL):
            score = small_expectation(f, scopes, theta, mu)
        else:
            score = _expectation(begin, begin + arity, cell_ptr[f], axes, theta, mu, buffer, row)
        if hard[f] and (
            arity == 0 or _expectation(begin, begin + arity, cell_ptr[f], axes, forbidden, support, buffer, row) > 0.0
        ):
            return -math.inf
        total, lost = compensated(total, lost, score)
    return total + lost


@kernel
def product_tables(factors: Ints, scopes: Scopes, table_ptr: Ints, mu: Floats, tables: Floats) -> None:
    """Write the tables ``tables[table_ptr[f]:] = outer product of mu over f's scope`` of some factors.

    Each axis widens the table in place, from its end. Cost: the factors' cells.
    """
    card, state_ptr, scope_ptr, scope_vars = scopes.card, scopes.state_ptr, scopes.scope_ptr, scopes.scope_vars
    for f in factors:
        start, size = table_ptr[f], 1
        tables[start] = 1.0
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            k, m = card[scope_vars[e]], state_ptr[scope_vars[e]]
            for row in range(size - 1, -1, -1):
                w = tables[start + row]
                for x in range(k):
                    tables[start + row * k + x] = w * mu[m + x]
            size *= k
