r"""Mean field on pairwise models of one cardinality, backwards: one vertex after the other, in memory order.

With :math:`N_u` the sum of all adjoints :math:`\nu_u` so far, a visit of ``v`` reads :math:`\sum_u T_{vu} N_u` just as
a forward update reads the neighbours' marginals; ``shift`` takes off what the last visit had read (see
:mod:`beliefs.kernels.adjoints.mean_field`). The gradients in the tables, outer products of adjoints and marginals, wait
until several sweeps are undone: then each table is fetched once, as a product of two thin matrices. Rows of four,
overlapping at the end, and kernels for three states are as in :mod:`beliefs.kernels.mean_field.pairwise`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from beliefs.kernels._jit import inlined_kernel, linear_kernel
from beliefs.kernels.mean_field.pairwise import LARGEST_STATES, Neighbours, add_neighbours, add_neighbours_ternary
from beliefs.kernels.primitives.memory import address, get, put, stack_memory
from beliefs.kernels.primitives.simd import (
    add4,
    fill4,
    load4,
    maximum4,
    multiply4,
    multiply_add4,
    peak4,
    store4,
    subtract4,
    total4,
)
from beliefs.typing import Bools, Floats, Ints

__all__ = ["SWEEPS_AT_ONCE", "add_pair_products", "add_ternary_products", "adjoint_ternary", "pairwise_adjoint"]

SWEEPS_AT_ONCE = 8
"""The most sweeps whose products are added to the tables at once."""

_ROOM = LARGEST_STATES + 40  # as in the forward sweep
_BLOCK = SWEEPS_AT_ONCE * _ROOM
_ONE, _TWO = np.uint64(1), np.uint64(2)
_AHEAD = 256  # cells


@inlined_kernel
def subtract_row4(n: int, width: int, own: int, a: Any, spare: Any, shift: Any) -> None:
    """Do ``shift[own:] -= a``: all is read before any is written, because the last four overlap the four before."""
    last = n - 4
    for x in range(0, width, 4):
        store4(spare, x, subtract4(load4(shift, own + min(x, last)), load4(a, x)))
    for x in range(0, width, 4):
        store4(shift, own + min(x, last), load4(spare, x))


@inlined_kernel
def adjoint_softmax4(n: int, width: int, own: int, mask: Any, after: Any, a: Any) -> None:
    """Turn the gradient ``a`` in one vertex's marginals into that in its log potentials: ``mu * (a - a @ mu)``."""
    last, mean = n - 4, fill4(0.0)
    for x in range(0, width, 4):
        part = multiply4(load4(a, x), load4(after, own + min(x, last)))
        mean = add4(mean, part if x < width - 4 else multiply4(part, load4(mask, 0)))
    shared = fill4(total4(mean))
    for x in range(0, width, 4):
        store4(a, x, multiply4(load4(after, own + min(x, last)), subtract4(load4(a, x), shared)))


@inlined_kernel
def add_adjoint4(
    n: int, width: int, own: int, held: bool, a: Any, spare: Any, totals: Any, steps: Any, change: Any
) -> Any:
    """Write the adjoint ``a`` to ``steps[own:]`` and, if ``held``, to ``totals[own:]``, else add it there.

    Returns the larger of ``change`` and the distances from ``totals``. All is read before any is written, as above.
    """
    last = n - 4
    for x in range(0, width, 4):
        nu, old = load4(a, x), load4(totals, own + min(x, last))
        change = maximum4(change, maximum4(subtract4(nu, old), subtract4(old, nu)))
        store4(spare, x, nu if held else add4(old, nu))
    for x in range(0, width, 4):
        store4(totals, own + min(x, last), load4(spare, x))
        store4(steps, own + min(x, last), load4(a, x))
    return change


@cache
def pairwise_adjoint(constant: int) -> Callable[..., float]:
    """Return the adjoint of a sweep for rows of ``constant`` entries, known to the compiler; 0 for any."""

    @linear_kernel
    def adjoint(
        order: Ints, held: bool, n: int, near: Neighbours, theta: Floats, after: Floats, shift: Floats, totals: Floats,
        steps: Floats,
    ) -> float:  # fmt: skip
        """Undo one sweep over vertices of ``n >= 4`` states, in ``order``; return the largest change if ``held``.

        Equivalent, for each ``v``, to ``a = shift[v] + sum of T @ N[u] or N[u] @ T; nu = mu * (a - a @ mu)`` with
        ``mu = after[v]``, and then ``shift[v] -= a; N[v] += nu``, or ``N[v] = nu`` if ``held``: a step of Gauss-Seidel
        on the adjoints at a fixed point; and ``steps[v] = nu``. ``N`` is ``totals``; all but the neighbours' arrays are
        laid out like ``mu``. Adjacent entries with one table and side are pooled. Cost: K^2 a table and side.
        """
        width = constant if constant > 0 else (n + 3) // 4 * 4
        last, ahead = n - 4, max(1, _AHEAD // (n * n))
        pool, a, spare, mask = stack_memory(_ROOM), stack_memory(_ROOM), stack_memory(_ROOM), stack_memory(4)
        for x in range(4):
            put(mask, x, 1.0 if x >= width - n else 0.0)
        tables, sums, shifts = address(theta), address(totals), address(shift)
        marginals, nus = address(after), address(steps)
        change = fill4(0.0)
        for t in range(order.size):
            v, u = order[t], order[min(t + ahead, order.size - 1)]
            own = near.state_ptr[v]
            for x in range(0, width, 4):
                store4(a, x, load4(shifts, own + min(x, last)))
            add_neighbours(n, width, v, u, near, mask, tables, sums, pool, a)
            if not held:
                subtract_row4(n, width, own, a, spare, shifts)
            adjoint_softmax4(n, width, own, mask, marginals, a)
            change = add_adjoint4(n, width, own, held, a, spare, sums, nus, change)
        return peak4(change)

    return adjoint


@linear_kernel
def adjoint_ternary(
    order: Ints, held: bool, n: int, near: Neighbours, theta: Floats, after: Floats, shift: Floats, totals: Floats,
    steps: Floats,
) -> float:  # fmt: skip
    """Do what :func:`pairwise_adjoint` does for ``n = 3``, in registers."""
    largest, three = 0.0, np.uint64(n)
    for t in range(order.size):
        v = np.uint64(order[t])
        m = np.uint64(near.state_ptr[v])
        a, b, c = add_neighbours_ternary(v, three, near, theta, totals, shift)
        p, q, r = after[m], after[m + _ONE], after[m + _TWO]
        mean = a * p + b * q + c * r
        p, q, r = p * (a - mean), q * (b - mean), r * (c - mean)
        if held:
            change = max(abs(p - totals[m]), abs(q - totals[m + _ONE]), abs(r - totals[m + _TWO]))
            largest = max(largest, change)
            totals[m], totals[m + _ONE], totals[m + _TWO] = p, q, r
        else:
            totals[m] += p
            totals[m + _ONE] += q
            totals[m + _TWO] += r
            shift[m] -= a
            shift[m + _ONE] -= b
            shift[m + _TWO] -= c
            steps[m], steps[m + _ONE], steps[m + _TWO] = p, q, r
    return largest


@inlined_kernel
def add_product4(n: int, width: int, sweeps: int, left: Any, right: Any, at: int, grad: Any) -> None:
    """Do ``G += left.T @ right`` for ``G = grad[at:].reshape(n, n)``, four rows and columns at a time.

    ``left`` and ``right`` have a row of ``width`` entries a sweep, zero where the last four overlap those before.
    """
    for x in range(0, width, 4):
        r0 = at + min(x, n - 4) * n
        r1, r2, r3 = r0 + n, r0 + 2 * n, r0 + 3 * n
        for y in range(0, width, 4):
            z = min(y, n - 4)
            s0, s1, s2, s3 = fill4(0.0), fill4(0.0), fill4(0.0), fill4(0.0)
            for s in range(0, sweeps * width, width):
                b = load4(right, s + y)
                s0 = multiply_add4(fill4(get(left, s + x)), b, s0)
                s1 = multiply_add4(fill4(get(left, s + x + 1)), b, s1)
                s2 = multiply_add4(fill4(get(left, s + x + 2)), b, s2)
                s3 = multiply_add4(fill4(get(left, s + x + 3)), b, s3)
            store4(grad, r0 + z, add4(load4(grad, r0 + z), s0))
            store4(grad, r1 + z, add4(load4(grad, r1 + z), s1))
            store4(grad, r2 + z, add4(load4(grad, r2 + z), s2))
            store4(grad, r3 + z, add4(load4(grad, r3 + z), s3))


@linear_kernel
def add_pair_products(
    order: Ints, n: int, near: Neighbours, early: Bools, along: Bools, marks: Floats, steps: Floats, grad: Floats
) -> None:
    """Add the gradients in the tables of pairs of ``n >= 4`` states, over up to ``SWEEPS_AT_ONCE`` sweeps.

    Equivalent, for each ``v`` in ``order``, entry and sweep ``s``, to ``G += np.outer(steps[s, v], mu[u])`` for the
    table's part ``G`` of ``grad (n_cells,)``, transposed where ``v`` is its second variable. ``mu[u]`` is what the
    update read: ``marks[s + 1]`` if ``u`` had its turn before ``v`` in that sweep, else ``marks[s]``. ``early`` says so
    for sweeps with ``along[s]``, the opposite is true for the others. ``marks`` and ``steps`` are flat, sweep after
    sweep. Cost: sweeps times K^2 a table and side.
    """
    state_ptr, nbr_ptr, nbr, cell, is_first = near
    sweeps, width, last = along.size, (n + 3) // 4 * 4, n - 4
    n_states = steps.size // max(1, sweeps)
    rows, pools, mask = stack_memory(_BLOCK), stack_memory(_BLOCK), stack_memory(4)
    for x in range(4):
        put(mask, x, 1.0 if x >= width - n else 0.0)
    read, nus, out = address(marks), address(steps), address(grad)
    for t in range(order.size):
        v = order[t]
        own, i, end = state_ptr[v], nbr_ptr[v], nbr_ptr[v + 1]
        for s in range(sweeps):
            for x in range(0, width, 4):
                store4(rows, s * width + x, load4(nus, s * n_states + own + min(x, last)))
            x = s * width + width - 4
            store4(rows, x, multiply4(load4(rows, x), load4(mask, 0)))
        while i < end:
            at, side, fresh = cell[i], is_first[i], True
            while i < end and cell[i] == at and is_first[i] == side:
                for s in range(sweeps):
                    mark = s + 1 if early[i] == along[s] else s
                    u = mark * n_states + nbr[i]
                    for x in range(0, width, 4):
                        here = load4(read, u + min(x, last))
                        store4(pools, s * width + x, here if fresh else add4(here, load4(pools, s * width + x)))
                i += 1
                fresh = False
            for s in range(sweeps):
                x = s * width + width - 4
                store4(pools, x, multiply4(load4(pools, x), load4(mask, 0)))
            if side:
                add_product4(n, width, sweeps, rows, pools, at, out)
            else:
                add_product4(n, width, sweeps, pools, rows, at, out)


@linear_kernel
def add_ternary_products(
    order: Ints, n: int, near: Neighbours, early: Bools, along: Bools, marks: Floats, steps: Floats, grad: Floats
) -> None:
    """Do what :func:`add_pair_products` does for ``n = 3``, in registers; ``marks, steps`` have one row a sweep."""
    state_ptr, nbr_ptr, nbr, cell, is_first = near
    sweeps, three = along.size, np.uint64(n)
    for t in range(order.size):
        v = order[t]
        own = np.uint64(state_ptr[v])
        for i in range(np.uint64(nbr_ptr[v]), np.uint64(nbr_ptr[v + 1])):
            u, at = np.uint64(nbr[i]), np.uint64(cell[i])
            row, column = (three, _ONE) if is_first[i] else (_ONE, three)
            a0, a1, a2, b0, b1, b2, c0, c1, c2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for s in range(sweeps):
                mark = s + 1 if early[i] == along[s] else s
                p, q, r = marks[mark, u], marks[mark, u + _ONE], marks[mark, u + _TWO]
                x, y, z = steps[s, own], steps[s, own + _ONE], steps[s, own + _TWO]
                a0, a1, a2 = a0 + x * p, a1 + x * q, a2 + x * r
                b0, b1, b2 = b0 + y * p, b1 + y * q, b2 + y * r
                c0, c1, c2 = c0 + z * p, c1 + z * q, c2 + z * r
            grad[at] += a0
            grad[at + column] += a1
            grad[at + _TWO * column] += a2
            at += row
            grad[at] += b0
            grad[at + column] += b1
            grad[at + _TWO * column] += b2
            at += row
            grad[at] += c0
            grad[at + column] += c1
            grad[at + _TWO * column] += c2
