r"""What the messages of a pairwise model are worth: their free energy, an upper bound, and how well beliefs agree.

All three follow from the two products that a sweep makes of an edge's table, so they cost about as much as one sweep in
one direction. With cavities :math:`c_u = p_u / m_{e \to u}`, :math:`n_u = \psi_e c_v`, :math:`n_v = \psi_e^\top c_u`,
:math:`Z_e = \langle c_u, n_u \rangle`, :math:`Z_i = \sum_x p_i(x)` and :math:`\rho_i = \sum_{e \ni i} \rho_e`:

.. math::
    \tilde A &= s + \sum_e \rho_e \log Z_e + \sum_i (1 - \rho_i) \log Z_i

    L &= s + \sum_e \sum_{j \in e} a_{e,j} \log \max_x \frac{n_j(x)}{m_{e \to j}(x)} + \sum_i w_i \log Z_i

where :math:`s` adds up what tables and unary potentials were scaled by; how messages are normalised cancels out.
:math:`\tilde A` is the value of the Lagrangian of which messages are the multipliers: at a fixed point it is the free
energy of the beliefs, and near one its error is of second order [yedidia2005]. :math:`L` is the bound of
:mod:`beliefs.kernels.messages.decomposed_bound`. Beliefs agree if :math:`c_u n_u / Z_e = p_u / Z_u` and likewise for v.

Messages, products and tables are held as in :mod:`beliefs.kernels.messages.pairwise.setup`. Logarithms are taken of
blocks of edges at a time, which is SIMD, and blocks are added up apart, which keeps rounding small.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from beliefs.kernels._jit import inlined_kernel, linear_kernel
from beliefs.kernels.messages.pairwise.structures import PairTables
from beliefs.kernels.messages.pairwise.sweep import (
    AHEAD,
    LARGEST_STATES,
    cavity,
    fill_mask,
    plain_products,
    prefetch_row,
)
from beliefs.kernels.primitives.elementary import fast_log
from beliefs.kernels.primitives.memory import address, get, put, stack_memory
from beliefs.kernels.primitives.simd import (
    add4,
    divide4,
    fill4,
    load4,
    maximum4,
    multiply4,
    multiply_add4,
    peak4,
    subtract4,
    total4,
)
from beliefs.typing import Floats

__all__ = ["AGREEMENT", "BLOCK", "BOUND", "ENERGY", "SIZE", "binary_edge_value", "edge_value", "variable_value"]

ENERGY, BOUND, SIZE, AGREEMENT = 0, 1, 2, 3
"""Entries of the answers: sums of the terms above, of those of the bound without their signs, and the largest
difference of two beliefs of one variable."""

BLOCK = 128
"""Edges or variables whose terms are added up by themselves."""
_ROOM = LARGEST_STATES + 40


@inlined_kernel
def weighted_logs(n: int, weights: Any, begin: int, stride: int, values: Any) -> tuple[float, float]:
    """Return the sum of ``weights[begin + k * stride] * log(values[k])`` for ``k < n``, with and without signs."""
    total, size = 0.0, 0.0
    for k in range(n):
        term = weights[begin + k * stride] * fast_log(get(values, k))
        total += term
        size += abs(term)
    return total, size


@linear_kernel
def variable_value(width: int, product: Floats, rest: Floats, root: Floats, share: Floats) -> Any:
    """Write ``share[i] = 1 / Z_i``; return the sums of ``rest * log Z``, ``root * log Z`` and ``root * |log Z|``.

    A binary row is a ratio r that stands for (1, r). ``rest`` is 1 minus the counting numbers around a variable, both
    are zero for observed ones; ``root`` may be empty.
    """
    mass = stack_memory(BLOCK)
    energy, bound, size = 0.0, 0.0, 0.0
    for begin in range(0, share.size, BLOCK):
        n = min(BLOCK, share.size - begin)
        for i in range(n):
            v = begin + i
            if width == 1:
                put(mass, i, 1.0 + product[v])
            else:
                total = fill4(0.0)
                for x in range(v * width, (v + 1) * width, 4):  # the padding is zero
                    total = add4(total, load4(product, x))
                put(mass, i, total4(total))
            share[v] = 1.0 / get(mass, i)
        part_energy, _ = weighted_logs(n, rest, begin, 1, mass)
        part_bound, part_size = 0.0, 0.0
        if root.size > 0:
            part_bound, part_size = weighted_logs(n, root, begin, 1, mass)
        energy += part_energy
        bound += part_bound
        size += part_size
    return energy, bound, size


@inlined_kernel
def add_block(n: int, rho: Any, parent: Any, begin: int, totals: Any, best_u: Any, best_v: Any, out: Any) -> None:
    """Add the terms of ``n`` edges from ``begin`` on to the sums."""
    part, _ = weighted_logs(n, rho, begin, 1, totals)
    out[ENERGY] += part
    if parent.size > 0:
        of_u, size_u = weighted_logs(n, parent, 2 * begin, 2, best_u)
        of_v, size_v = weighted_logs(n, parent, 2 * begin + 1, 2, best_v)
        out[BOUND] += of_u + of_v
        out[SIZE] += size_u + size_v


@linear_kernel
def binary_edge_value(
    pairs: PairTables, rho: Floats, parent: Floats, ratio: Floats, share: Floats, messages: Floats, out: Floats
) -> None:
    """Write the sums over edges, and the largest disagreement, to ``out (4,)``, for two states.

    ``rho (n_edges,)`` and ``parent (2 n_edges,)`` are in the order of the sweep; ``parent`` may be empty: no bound.
    """
    u, v, at, psi = pairs.u, pairs.v, pairs.at, pairs.psi
    totals, best_u, best_v = stack_memory(BLOCK), stack_memory(BLOCK), stack_memory(BLOCK)
    out[:] = 0.0
    apart = 0.0
    for begin in range(0, u.size, BLOCK):
        n = min(BLOCK, u.size - begin)
        for i in range(n):
            e = begin + i
            k = at[e] if at.size > 0 else 3 * e
            b, c, d = psi[k], psi[k + 1], psi[k + 2]
            pu, pv, mu, mv = ratio[u[e]], ratio[v[e]], messages[2 * e], messages[2 * e + 1]
            ru, rv = pu / mu, pv / mv
            u0, u1, v0, v1 = 1.0 + b * rv, c + d * rv, 1.0 + c * ru, b + d * ru
            total = u0 + ru * u1
            put(totals, i, total)
            over = 1.0 / total
            apart = max(apart, abs(ru * u1 * over - pu * share[u[e]]))
            apart = max(apart, abs(rv * v1 * over - pv * share[v[e]]))
            if parent.size > 0:
                put(best_u, i, max(u0, u1 / mu))
                put(best_v, i, max(v0, v1 / mv))
        add_block(n, rho, parent, begin, totals, best_u, best_v, out)
    out[AGREEMENT] = apart


@inlined_kernel
def disagreement(width: int, c: Any, n: Any, over: float, p: Any, at: int, share: float, worst: Any) -> Any:
    """Return ``worst``, or ``|c n over - p share|`` of one row where that is larger, in each of four places."""
    of_edge, of_variable = fill4(over), fill4(share)
    for x in range(0, width, 4):
        here = multiply4(multiply4(load4(c, x), load4(n, x)), of_edge)
        there = multiply4(load4(p, at + x), of_variable)
        worst = maximum4(worst, maximum4(subtract4(here, there), subtract4(there, here)))
    return worst


@inlined_kernel
def best_ratio(width: int, mask: Any, n: Any, m: Any, at: int) -> float:
    """Return ``max n / m`` of one row without its padding."""
    best = fill4(0.0)
    for x in range(0, width, 4):
        best = maximum4(best, multiply4(divide4(load4(n, x), load4(m, at + x)), load4(mask, x)))
    return peak4(best)


@cache
def edge_value(constant: int) -> Callable[..., None]:
    """Return the kernel for rows of ``constant`` entries, known to the compiler; 0 for any."""

    @linear_kernel
    def value(
        pairs: PairTables, rho: Floats, parent: Floats, product: Floats, share: Floats, messages: Floats, out: Floats
    ) -> None:
        """Do what :func:`binary_edge_value` does for any number of states. Cost: 4 K^2 flops an edge."""
        states, u, v, at = pairs.states, pairs.u, pairs.v, pairs.at
        width = constant if constant > 0 else (states + 3) // 4 * 4
        cu, cv, mask = stack_memory(_ROOM), stack_memory(_ROOM), stack_memory(_ROOM)
        to_u, to_v = stack_memory(_ROOM), stack_memory(_ROOM)
        totals, best_u, best_v = stack_memory(BLOCK), stack_memory(BLOCK), stack_memory(BLOCK)
        fill_mask(states, width, mask)
        tables, beliefs, sent, own_tables = address(pairs.psi), address(product), address(messages), at.size == 0
        ahead = max(1, AHEAD // (states * states))
        out[:] = 0.0
        worst = fill4(0.0)
        for begin in range(0, u.size, BLOCK):
            n = min(BLOCK, u.size - begin)
            for i in range(n):
                e = begin + i
                pu, pv, mu = u[e] * width, v[e] * width, 2 * e * width
                mv = mu + width
                prefetch_row(sent, e + ahead, u.size, 2 * width)
                soon = (e + ahead) * states * states if own_tables and e + ahead < u.size else -1
                summed = fill4(0.0)
                cavity(width, beliefs, pu, sent, mu, cu)
                cavity(width, beliefs, pv, sent, mv, cv)
                table = e * states * states if own_tables else at[e]
                plain_products(states, width, table, tables, soon, cu, cv, to_u, to_v)
                for x in range(0, width, 4):
                    summed = multiply_add4(load4(cu, x), load4(to_u, x), summed)
                total = total4(summed)
                put(totals, i, total)
                over = 1.0 / total
                worst = disagreement(width, cu, to_u, over, beliefs, pu, share[u[e]], worst)
                worst = disagreement(width, cv, to_v, over, beliefs, pv, share[v[e]], worst)
                if parent.size > 0:
                    put(best_u, i, best_ratio(width, mask, to_u, sent, mu))
                    put(best_v, i, best_ratio(width, mask, to_v, sent, mv))
            add_block(n, rho, parent, begin, totals, best_u, best_v, out)
        out[AGREEMENT] = peak4(worst)

    return value
