r"""Beliefs of the edges of a pairwise model from products of messages, and the way back through them.

:math:`b_e \propto \psi_e \, c_u c_v^\top` with cavities :math:`c = p / m`; no exponential. Arrays are held as in
:mod:`beliefs.kernels.messages.pairwise.setup`: ratios if ``width`` is 1, else rows of K entries and padding.
"""

from __future__ import annotations

from typing import Any

from beliefs.kernels._jit import inlined_kernel, kernel, linear_kernel, twofold_kernel
from beliefs.kernels.adjoints.structures import Adjoints
from beliefs.kernels.messages.pairwise.structures import PairTables
from beliefs.kernels.messages.pairwise.sweep import LARGEST_STATES
from beliefs.kernels.primitives.memory import address, get, put, stack_memory
from beliefs.typing import Floats, Ints

__all__ = [
    "adjoint_pair_beliefs",
    "adjoint_row_beliefs",
    "largest_held_adjoint",
    "pair_beliefs",
    "single_beliefs",
    "table_gradients",
]

_ROOM = LARGEST_STATES + 40


@inlined_kernel
def scaled_cavity(states: int, width: int, p: Any, v: int, m: Any, e: int, c: Any) -> None:
    """Write ``p[v] / m[e]``, divided by its sum."""
    total = 0.0
    for x in range(states):
        put(c, x, get(p, v * width + x) / get(m, e * width + x))
    for x in range(states):
        total += get(c, x)
    share = 1.0 / total
    for x in range(states):
        put(c, x, get(c, x) * share)


@kernel  # not linear: where a sum is taken while memory is written, its rounding would depend on who lies beside whom
def write_belief(states: int, share: float, cu: Any, cv: Any, tables: Any, k: int, out: Any, to: int) -> None:
    """Write ``share * tables[k:] * np.outer(cu, cv)`` to ``out[to:]``."""
    for x in range(states):
        c, row = share * get(cu, x), x * states
        for y in range(states):
            put(out, to + row + y, c * get(tables, k + row + y) * get(cv, y))


@twofold_kernel
def binary_pair_beliefs(
    pairs: PairTables, factors: Ints, table_ptr: Ints, ratio: Floats, messages: Floats, mu_factor: Floats
) -> None:
    """Do what :func:`pair_beliefs` does for two states."""
    u, v, at, psi = pairs.u, pairs.v, pairs.at, pairs.psi
    for e in range(u.size):
        ru, rv = ratio[u[e]] / messages[2 * e], ratio[v[e]] / messages[2 * e + 1]
        u0, v0 = 1.0 / (1.0 + ru), 1.0 / (1.0 + rv)
        u1, v1 = ru * u0, rv * v0
        k, to = at[e] if at.size > 0 else 3 * e, table_ptr[factors[e]]
        m0, m1, m2, m3 = u0 * v0, psi[k] * u0 * v1, psi[k + 1] * u1 * v0, psi[k + 2] * u1 * v1
        share = 1.0 / (m0 + m1 + m2 + m3)
        mu_factor[to], mu_factor[to + 1] = m0 * share, m1 * share
        mu_factor[to + 2], mu_factor[to + 3] = m2 * share, m3 * share


@linear_kernel
def wide_pair_beliefs(
    pairs: PairTables,
    width: int,
    factors: Ints,
    table_ptr: Ints,
    product: Floats,
    messages: Floats,
    mu_factor: Floats,
) -> None:
    """Do what :func:`pair_beliefs` does for more than two states."""
    states, u, v, at, psi = pairs.states, pairs.u, pairs.v, pairs.at, pairs.psi
    cu, cv = stack_memory(_ROOM), stack_memory(_ROOM)
    beliefs, sent, tables, out = address(product), address(messages), address(psi), address(mu_factor)
    for e in range(u.size):
        scaled_cavity(states, width, beliefs, u[e], sent, 2 * e, cu)
        scaled_cavity(states, width, beliefs, v[e], sent, 2 * e + 1, cv)
        k, total = at[e] if at.size > 0 else e * states * states, 0.0
        for x in range(states):
            row = 0.0
            for y in range(states):
                row += get(tables, k + x * states + y) * get(cv, y)
            total += get(cu, x) * row
        write_belief(states, 1.0 / total, cu, cv, tables, k, out, table_ptr[factors[e]])


def pair_beliefs(
    pairs: PairTables,
    width: int,
    factors: Ints,
    table_ptr: Ints,
    product: Floats,
    messages: Floats,
    mu_factor: Floats,
) -> None:
    """Write the belief of each edge to its factor's place in ``mu_factor``. Cost: three passes over the table.

    No kernel, so that who has binary models does not wait for the other half to be compiled.
    """
    if width == 1:
        binary_pair_beliefs(pairs, factors, table_ptr, product, messages, mu_factor)
    else:
        wide_pair_beliefs(pairs, width, factors, table_ptr, product, messages, mu_factor)


@twofold_kernel
def single_beliefs(
    scope_ptr: Ints, scope_vars: Ints, table_ptr: Ints, states: int, mu_var: Floats, mu_factor: Floats
) -> None:
    """Write the beliefs of factors of one variable, which are the variable's, and of none, which are 1."""
    for f in range(scope_ptr.size - 1):
        if scope_ptr[f + 1] - scope_ptr[f] == 0:
            mu_factor[table_ptr[f]] = 1.0
        elif scope_ptr[f + 1] - scope_ptr[f] == 1:
            v = scope_vars[scope_ptr[f]]
            for x in range(states):
                mu_factor[table_ptr[f] + x] = mu_var[v * states + x]


@twofold_kernel
def adjoint_row_beliefs(states: int, width: int, mu_var: Floats, bar_var: Floats, variable: Floats) -> None:
    """Add ``mu * (bar - mu @ bar)`` of each variable to its row of ``variable``; of the log ratio if ``width`` is 1.

    Where ``mu`` is 0, ``bar`` may be infinite.
    """
    for v in range(mu_var.size // states):
        mean = 0.0
        for s in range(v * states, (v + 1) * states):
            if mu_var[s] > 0.0:
                mean += mu_var[s] * bar_var[s]
        for x in range(states):
            s = v * states + x
            if mu_var[s] > 0.0 and (width > 1 or x == 1):
                variable[v if width == 1 else v * width + x] += mu_var[s] * (bar_var[s] - mean)


@linear_kernel
def adjoint_pair_beliefs(
    pairs: PairTables,
    width: int,
    rho: Floats,
    factors: Ints,
    table_ptr: Ints,
    cell_ptr: Ints,
    mu_factor: Floats,
    bar_factor: Floats,
    adjoints: Adjoints,
    grad: Floats,
) -> None:
    """Go back through the beliefs of edges: see :func:`beliefs.kernels.adjoints.messages.adjoint_beliefs`.

    ``rho`` has one number an edge, or is empty: ones. ``grad (n_cells,)`` gets ``nu / rho``.
    """
    states, u, v = pairs.states, pairs.u, pairs.v
    of_variable, of_message = adjoints.variable, adjoints.message
    across, down = stack_memory(_ROOM), stack_memory(_ROOM)
    mu, bar, out = address(mu_factor), address(bar_factor), address(grad)
    for e in range(u.size):
        begin, cells, mean = table_ptr[factors[e]], cell_ptr[factors[e]], 0.0
        for k in range(states * states):
            if get(mu, begin + k) > 0.0:
                mean += get(mu, begin + k) * get(bar, begin + k)
        for x in range(states):
            put(down, x, 0.0)
        over = 1.0 / rho[e] if rho.size > 0 else 1.0
        for x in range(states):
            row = 0.0
            for y in range(states):
                k = begin + x * states + y
                nu = get(mu, k) * (get(bar, k) - mean) if get(mu, k) > 0.0 else 0.0
                to = cells + x * states + y
                put(out, to, get(out, to) + over * nu)
                put(down, y, get(down, y) + nu)
                row += nu
            put(across, x, row)
        for x in range(states):
            if width > 1 or x == 1:
                place = 0 if width == 1 else x
                of_variable[u[e] * width + place] += get(across, x)
                of_variable[v[e] * width + place] += get(down, x)
                of_message[2 * e * width + place] -= get(across, x)
                of_message[(2 * e + 1) * width + place] -= get(down, x)


@twofold_kernel
def table_gradients(cells: Ints, states: int, psi: Floats, rho: Floats, bar: Floats, grad: Floats) -> None:
    """Add ``psi * bar / rho`` of each distinct table to ``grad[cells[d]:]``; binary ``bar`` is of the logs already."""
    for d in range(cells.size):
        over = 1.0 / rho[d]
        if states == 2:
            b, c, e = bar[3 * d] * over, bar[3 * d + 1] * over, bar[3 * d + 2] * over
            k = cells[d]
            grad[k] -= b + c + e
            grad[k + 1] += b
            grad[k + 2] += c
            grad[k + 3] += e
            continue
        size = states * states
        for k in range(size):
            grad[cells[d] + k] += psi[d * size + k] * bar[d * size + k] * over


@linear_kernel
def largest_held_adjoint(pairs: PairTables, width: int, rho: Floats, adjoints: Adjoints) -> float:
    """Return the largest adjoint of a message, ``abs(message + rho * variable)``; ``rho`` may be empty: ones."""
    u, v, of_variable, of_message = pairs.u, pairs.v, adjoints.variable, adjoints.message
    largest = 0.0
    for e in range(u.size):
        weight = rho[e] if rho.size > 0 else 1.0
        for x in range(width):
            largest = max(largest, abs(of_message[2 * e * width + x] + weight * of_variable[u[e] * width + x]))
            largest = max(largest, abs(of_message[(2 * e + 1) * width + x] + weight * of_variable[v[e] * width + x]))
    return largest
