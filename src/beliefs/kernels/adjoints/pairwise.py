r"""The way back through :mod:`beliefs.kernels.messages.pairwise.sweep`: one read of a table for both adjoints.

Let :math:`c` be the cavities an edge's messages were sent from, :math:`m` the new messages (mean one),
:math:`s_u m_u = \psi c_v` before scaling, and :math:`g` the adjoints of log messages, which sum to zero because a
common factor of a message says nothing. With :math:`q = g / (s\, m)` the cavities get

.. math:: R_u = c_u \, (\psi\, q_v), \qquad R_v = c_v \, (\psi^\top q_u), \qquad
          \bar\psi \mathrel{+}= c_u q_v^\top + q_u c_v^\top,

the gradient in :math:`\theta_e` being :math:`\psi_e \bar\psi_e / \rho_e` at the end. The scales s are not known, and to
find them by a product of their own would double the work. So the product is taken of :math:`g_v / m_v + \kappa c_v`:
its second part is :math:`\kappa s_u m_u`, and since :math:`c_u \cdot \psi (g_v / m_v) = 0`, a dot product with
:math:`c_u` tells the parts, and the scale, apart. That also keeps :math:`\sum R_u = 0` from drifting. :math:`\kappa` is
of the size of g, and g is made to sum to zero first (by a multiple of m): where it is all rounding, as at variables
without a label between zero tables, what is left of its sum would otherwise pass for the scale.

Rows are as in the forward kernels; adjoints (of variables and of messages, see
:mod:`beliefs.kernels.adjoints.messages`) have zero in their padding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from beliefs.kernels._jit import inlined_kernel, linear_kernel
from beliefs.kernels.adjoints.structures import Ranks
from beliefs.kernels.messages.pairwise.structures import PairTables
from beliefs.kernels.messages.pairwise.sweep import (
    AHEAD,
    LARGEST_STATES,
    fill_mask,
    logs_and_powers,
    plain_products,
    prefetch_row,
)
from beliefs.kernels.primitives.memory import address, get, onward, prefetch, put, stack_memory
from beliefs.kernels.primitives.simd import (
    add4,
    divide4,
    fill4,
    load4,
    maximum4,
    multiply4,
    multiply_add4,
    root4,
    store4,
    subtract4,
    total4,
)
from beliefs.typing import Floats

__all__ = ["add_waiting", "adjoint_sweep"]

_ROOM = LARGEST_STATES + 40
_BOTH = 2 * _ROOM
_LEAST = 1e-30  # so that kappa is not zero


@inlined_kernel
def add_outer(states: int, width: int, at: int, grad: Any, cu: Any, qv: Any, qu: Any, cv: Any) -> None:
    """Add ``outer(cu, qv) + outer(qu, cv)`` to ``grad[at:].reshape(K, K)``.

    Vectors are zero in their padding, so what is read and written beyond the end of a row, and in up to three rows
    beyond the last, stays what it is; after the last table there is room for it.
    """
    for x in range(0, width, 4):
        a0, a1, a2, a3 = fill4(get(cu, x)), fill4(get(cu, x + 1)), fill4(get(cu, x + 2)), fill4(get(cu, x + 3))
        b0, b1, b2, b3 = fill4(get(qu, x)), fill4(get(qu, x + 1)), fill4(get(qu, x + 2)), fill4(get(qu, x + 3))
        r0 = at + x * states
        r1, r2, r3 = r0 + states, r0 + 2 * states, r0 + 3 * states
        for y in range(0, width, 4):
            q, c = load4(qv, y), load4(cv, y)
            store4(grad, r0 + y, multiply_add4(b0, c, multiply_add4(a0, q, load4(grad, r0 + y))))
            store4(grad, r1 + y, multiply_add4(b1, c, multiply_add4(a1, q, load4(grad, r1 + y))))
            store4(grad, r2 + y, multiply_add4(b2, c, multiply_add4(a2, q, load4(grad, r2 + y))))
            store4(grad, r3 + y, multiply_add4(b3, c, multiply_add4(a3, q, load4(grad, r3 + y))))


@inlined_kernel
def add_outers(
    states: int, width: int, at: int, grad: Any, soon: int, count: int, ranks: Any, place: int, apart: int
) -> None:
    """Do :func:`add_outer` for ``count`` times four vectors, at ``place``, ``place + apart``, ...; table read once.

    The table at ``soon`` is prefetched meanwhile; -1: none.
    """
    for x in range(0, width, 4):
        if soon >= 0:
            for line in range(soon + x * states, soon + (x + 4) * states, 8):
                prefetch(grad, line)
        r0 = at + x * states
        r1, r2, r3 = r0 + states, r0 + 2 * states, r0 + 3 * states
        for y in range(0, width, 4):
            g0, g1, g2, g3 = load4(grad, r0 + y), load4(grad, r1 + y), load4(grad, r2 + y), load4(grad, r3 + y)
            for k in range(count):
                a = place + k * apart
                b = a + 2 * width
                q, c = load4(ranks, a + width + y), load4(ranks, b + width + y)
                g0 = multiply_add4(fill4(get(ranks, a + x)), q, g0)
                g1 = multiply_add4(fill4(get(ranks, a + x + 1)), q, g1)
                g2 = multiply_add4(fill4(get(ranks, a + x + 2)), q, g2)
                g3 = multiply_add4(fill4(get(ranks, a + x + 3)), q, g3)
                g0 = multiply_add4(fill4(get(ranks, b + x)), c, g0)
                g1 = multiply_add4(fill4(get(ranks, b + x + 1)), c, g1)
                g2 = multiply_add4(fill4(get(ranks, b + x + 2)), c, g2)
                g3 = multiply_add4(fill4(get(ranks, b + x + 3)), c, g3)
            store4(grad, r0 + y, g0)
            store4(grad, r1 + y, g1)
            store4(grad, r2 + y, g2)
            store4(grad, r3 + y, g3)


@linear_kernel
def add_waiting(n_edges: int, states: int, ranks: Ranks, grad: Floats) -> None:
    """Add what ``slot`` passes of :func:`adjoint_sweep` have put aside to the adjoints of tables."""
    width = (states + 3) // 4 * 4
    stored, out = address(ranks.vectors), address(grad)
    for e in range(n_edges):
        add_outers(states, width, e * states * states, out, -1, ranks.slot, stored, e * 4 * width, n_edges * 4 * width)


@cache
def adjoint_sweep(constant: int) -> Callable[..., None]:
    """Return the way back for rows of ``constant`` entries, known to the compiler; 0 for any."""

    @linear_kernel
    def sweep(
        pairs: PairTables,
        rho: Floats,
        stride: int,
        old: Floats,
        new: Floats,
        product: Floats,
        variable: Floats,
        message: Floats,
        grad: Floats,
        ranks: Ranks,
    ) -> None:
        """Go back over all edges, with ``stride`` 1 or -1: the opposite of the sweep's.

        ``old`` and ``new`` are the messages before and after the pass; ``product`` becomes what it was before it;
        ``rho`` may be empty: ones. The adjoint of ``psi`` is added to ``grad`` (like it). With ``depth > 0`` (tables of
        their own only) the vectors it is made of wait in ``ranks``, those of this pass at ``slot``, and are added in
        the last of ``depth`` passes: large tables are not read and written so often. Cost: 8 K^2 flops an edge, twice
        those of the way forward; ``psi`` is read once.
        """
        states, u, v, at = pairs.states, pairs.u, pairs.v, pairs.at
        slot, depth = ranks.slot, ranks.depth
        width = constant if constant > 0 else (states + 3) // 4 * 4
        padded = (2 * width + 15) // 16 * 16
        cu, cv = stack_memory(_ROOM), stack_memory(_ROOM)
        qu, qv = stack_memory(_ROOM), stack_memory(_ROOM)
        lu, lv = stack_memory(_ROOM), stack_memory(_ROOM)
        yu, yv = stack_memory(_ROOM), stack_memory(_ROOM)
        mask = stack_memory(_ROOM)
        fill_mask(states, width, mask)
        ratios, logs, powers = stack_memory(_BOTH), stack_memory(_BOTH), stack_memory(_BOTH)
        for x in range(padded):
            put(ratios, x, 1.0)
        tables, beliefs, before, after = address(pairs.psi), address(product), address(old), address(new)
        sums, own = address(variable), address(message)
        out, stored = address(grad), address(ranks.vectors)
        apart, adding = u.size * 4 * width, slot == depth - 1 or depth == 0
        own_tables, plain = at.size == 0, rho.size == 0
        ahead = max(1, AHEAD // (states * states)) * stride
        zero, one = fill4(0.0), fill4(1.0)
        begin, end = (0, u.size) if stride > 0 else (u.size - 1, -1)
        for e in range(begin, end, stride):
            pu, pv, mu = u[e] * width, v[e] * width, 2 * e * width
            mv = mu + width
            table = e * states * states if own_tables else at[e]
            for array in (before, after, own):
                prefetch_row(array, e + ahead, u.size, 2 * width)
            if own_tables:
                if depth == 0:
                    prefetch_row(out, e + ahead, u.size, states * states)
                if depth > 0:
                    for d in range(0 if adding else slot, slot + 1):
                        prefetch_row(onward(stored, d * apart), e + ahead, u.size, 4 * width)
            power = 1.0 if plain else rho[e]
            weight = fill4(power)
            # cavities, and the reciprocals of new messages in qu and qv; one division serves both
            if power == 1.0:
                for x in range(0, width, 4):
                    over_u, over_v = divide4(one, load4(after, mu + x)), divide4(one, load4(after, mv + x))
                    store4(qu, x, over_u)
                    store4(qv, x, over_v)
                    store4(cu, x, multiply4(load4(beliefs, pu + x), over_u))
                    store4(cv, x, multiply4(load4(beliefs, pv + x), over_v))
            elif power == 0.5:  # p / new^(1/2) = c old^(1/2)
                for x in range(0, width, 4):
                    new_u, new_v = load4(after, mu + x), load4(after, mv + x)
                    root_u = root4(multiply4(new_u, load4(before, mu + x)))
                    root_v = root4(multiply4(new_v, load4(before, mv + x)))
                    over_u = divide4(one, multiply4(new_u, root_u))
                    over_v = divide4(one, multiply4(new_v, root_v))
                    store4(qu, x, multiply4(over_u, root_u))
                    store4(qv, x, multiply4(over_v, root_v))
                    store4(cu, x, multiply4(load4(beliefs, pu + x), multiply4(over_u, new_u)))
                    store4(cv, x, multiply4(load4(beliefs, pv + x), multiply4(over_v, new_v)))
            else:
                for x in range(0, width, 4):
                    over_u, over_v = divide4(one, load4(after, mu + x)), divide4(one, load4(after, mv + x))
                    store4(qu, x, over_u)
                    store4(qv, x, over_v)
                    store4(ratios, x, multiply4(load4(before, mu + x), over_u))
                    store4(ratios, width + x, multiply4(load4(before, mv + x), over_v))
                logs_and_powers(padded, power, 1.0, ratios, logs, powers, powers)
                for x in range(0, width, 4):
                    back_u = multiply4(load4(beliefs, pu + x), load4(powers, x))
                    back_v = multiply4(load4(beliefs, pv + x), load4(powers, width + x))
                    store4(cu, x, divide4(back_u, load4(before, mu + x)))
                    store4(cv, x, divide4(back_v, load4(before, mv + x)))
            mass_u, mass_v, size_u, size_v, sum_u, sum_v = zero, zero, zero, zero, zero, zero
            for x in range(0, width, 4):
                c, d, m, n = load4(cu, x), load4(cv, x), load4(after, mu + x), load4(after, mv + x)
                store4(beliefs, pu + x, multiply4(c, load4(before, mu + x)))
                store4(beliefs, pv + x, multiply4(d, load4(before, mv + x)))
                g = multiply_add4(weight, load4(sums, pu + x), load4(own, mu + x))
                h = multiply_add4(weight, load4(sums, pv + x), load4(own, mv + x))
                mass_u, mass_v = multiply_add4(c, m, mass_u), multiply_add4(d, n, mass_v)
                sum_u, sum_v = add4(sum_u, g), add4(sum_v, h)
                size_u = add4(size_u, maximum4(g, subtract4(zero, g)))
                size_v = add4(size_v, maximum4(h, subtract4(zero, h)))
                store4(qu, x, multiply4(g, load4(qu, x)))
                store4(qv, x, multiply4(h, load4(qv, x)))
            all_u, all_v = total4(mass_u), total4(mass_v)
            kappa_u = (total4(size_u) + _LEAST) / all_u
            kappa_v = (total4(size_v) + _LEAST) / all_v
            share_u, share_v = fill4(kappa_u), fill4(kappa_v)
            rest_u, rest_v = fill4(total4(sum_u) / states), fill4(total4(sum_v) / states)
            for x in range(0, width, 4):
                inside = load4(mask, x)
                q, r = (
                    subtract4(load4(qu, x), multiply4(rest_u, inside)),
                    subtract4(load4(qv, x), multiply4(rest_v, inside)),
                )
                store4(qu, x, q)
                store4(qv, x, r)
                store4(lu, x, multiply_add4(share_u, load4(cu, x), q))
                store4(lv, x, multiply_add4(share_v, load4(cv, x), r))
            soon = (e + ahead) * states * states if own_tables and 0 <= e + ahead < u.size else -1
            plain_products(states, width, table, tables, soon, lu, lv, yu, yv)
            mass_u, mass_v = zero, zero
            for x in range(0, width, 4):
                mass_u = multiply_add4(load4(cu, x), load4(yu, x), mass_u)
                mass_v = multiply_add4(load4(cv, x), load4(yv, x), mass_v)
            part_u, part_v = total4(mass_u) / all_u, total4(mass_v) / all_v
            over_u, over_v = fill4(kappa_v / part_u), fill4(kappa_u / part_v)  # one over the scale s
            shift_u, shift_v = fill4(part_u), fill4(part_v)
            for x in range(0, width, 4):
                c, d = load4(cu, x), load4(cv, x)
                y = subtract4(load4(yu, x), multiply4(shift_u, load4(after, mu + x)))
                z = subtract4(load4(yv, x), multiply4(shift_v, load4(after, mv + x)))
                r, t = multiply4(multiply4(c, y), over_v), multiply4(multiply4(d, z), over_u)
                a, b = load4(sums, pu + x), load4(sums, pv + x)
                store4(own, mu + x, subtract4(zero, multiply_add4(weight, a, r)))
                store4(own, mv + x, subtract4(zero, multiply_add4(weight, b, t)))
                store4(sums, pu + x, add4(a, r))
                store4(sums, pv + x, add4(b, t))
                store4(qu, x, multiply4(load4(qu, x), over_u))
                store4(qv, x, multiply4(load4(qv, x), over_v))
            if depth == 0:
                add_outer(states, width, table, out, cu, qv, qu, cv)
                continue
            place = slot * apart + e * 4 * width
            for x in range(0, width, 4):
                store4(stored, place + x, load4(cu, x))
                store4(stored, place + width + x, load4(qv, x))
                store4(stored, place + 2 * width + x, load4(qu, x))
                store4(stored, place + 3 * width + x, load4(cv, x))
            if adding:
                add_outers(states, width, table, out, soon, depth, stored, e * 4 * width, apart)

    return sweep
