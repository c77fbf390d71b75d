r"""Messages of pairwise models whose variables all have K states: one read of a table serves both of its messages.

For edge e = (u, v) with table :math:`\psi_e` (K x K), cavities :math:`c_u = p_u / m_{e \to u}` and
:math:`c_v = p_v / m_{e \to v}`,

.. math:: m_{e \to v} \propto \psi_e^\top c_u, \qquad m_{e \to u} \propto \psi_e c_v, \qquad
          p_u \leftarrow p_u \, (m^{new}_{e \to u} / m^{old}_{e \to u})^{\rho_e}

and the same with (+, max) in the place of (x, +). Messages have mean one (sums) or maximum zero (maxima, in logs).
Tables lie in the order of the sweep, so memory is read forwards or backwards. Values must be finite and within the
range of a double: the caller sees to that.

The small sizes are compiled with K as a constant (short loops unroll completely), made on first use and kept on disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from beliefs.kernels._jit import finite_kernel, linear_kernel
from beliefs.kernels.elementary import fast_exp, fast_log
from beliefs.typing import Floats, Ints

__all__ = ["LARGEST_CONSTANT", "max_sweep", "sum_sweep"]

LARGEST_CONSTANT = 16
"""The largest K that is compiled as a constant; beyond it loops are long enough for one kernel to serve all K."""


@cache
def sum_sweep(states: int, powered: bool) -> Callable[..., None]:
    """Return the sum-product sweep for K = ``states``; ``powered`` if counting numbers or damping need powers."""
    constant = states if states <= LARGEST_CONSTANT else 0

    @linear_kernel
    def sweep(
        u: Ints,
        v: Ints,
        at: Ints,
        psi: Floats,
        rho: Floats,
        keep: float,
        begin: int,
        end: int,
        stride: int,
        product: Floats,
        messages: Floats,
    ) -> None:
        """Update edges ``begin, begin + stride, ...`` up to ``end``: ``product (n, K)`` and ``messages (m, 2, K)``.

        ``keep`` is one less the damping, in logs. Cost: 4 K^2 flops an edge, its table read once.
        """
        k = constant if constant > 0 else product.shape[1]
        cu, cv, to_u, to_v = np.empty(k), np.empty(k), np.empty(k), np.empty(k)
        for e in range(begin, end, stride):
            pu, pv, mu, mv = product[u[e]], product[v[e]], messages[e, 0], messages[e, 1]
            for x in range(k):
                cu[x] = pu[x] / mu[x]
                cv[x] = pv[x] / mv[x]
                to_v[x] = 0.0
            table = psi[at[e] : at[e] + k * k]
            x = 0
            while x + 4 <= k:  # four rows at a time: each vector of cavities is read for all four
                r0, r1 = table[x * k : x * k + k], table[x * k + k : x * k + 2 * k]
                r2, r3 = table[x * k + 2 * k : x * k + 3 * k], table[x * k + 3 * k : x * k + 4 * k]
                c0, c1, c2, c3 = cu[x], cu[x + 1], cu[x + 2], cu[x + 3]
                s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
                for y in range(k):
                    c = cv[y]
                    s0 += r0[y] * c
                    s1 += r1[y] * c
                    s2 += r2[y] * c
                    s3 += r3[y] * c
                for y in range(k):
                    to_v[y] += c0 * r0[y] + c1 * r1[y] + c2 * r2[y] + c3 * r3[y]
                to_u[x], to_u[x + 1], to_u[x + 2], to_u[x + 3] = s0, s1, s2, s3
                x += 4
            while x < k:
                r0, c0, s0 = table[x * k : x * k + k], cu[x], 0.0
                for y in range(k):
                    s0 += r0[y] * cv[y]
                for y in range(k):
                    to_v[y] += c0 * r0[y]
                to_u[x] = s0
                x += 1
            total_u, total_v = 0.0, 0.0
            for y in range(k):
                total_u += to_u[y]
                total_v += to_v[y]
            scale_u, scale_v = k / total_u, k / total_v
            if powered and rho[e] == 0.5 and keep == 1.0:
                for y in range(k):
                    new = to_u[y] * scale_u
                    pu[y] *= math.sqrt(new / mu[y])
                    mu[y] = new
                for y in range(k):
                    new = to_v[y] * scale_v
                    pv[y] *= math.sqrt(new / mv[y])
                    mv[y] = new
            elif powered:
                for y in range(k):
                    to_u[y] = keep * fast_log(to_u[y] * scale_u / mu[y])
                for y in range(k):
                    to_v[y] = keep * fast_log(to_v[y] * scale_v / mv[y])
                weight = rho[e]
                for y in range(k):
                    pu[y] *= fast_exp(weight * to_u[y])
                for y in range(k):
                    pv[y] *= fast_exp(weight * to_v[y])
                for y in range(k):
                    mu[y] *= fast_exp(to_u[y])
                for y in range(k):
                    mv[y] *= fast_exp(to_v[y])
            else:
                for y in range(k):
                    new = to_u[y] * scale_u
                    mu[y] = new
                    pu[y] = cu[y] * new
                for y in range(k):
                    new = to_v[y] * scale_v
                    mv[y] = new
                    pv[y] = cv[y] * new

    return sweep


@cache
def max_sweep(states: int) -> Callable[..., None]:
    """Return the max-product sweep, in logs, for K = ``states``."""
    constant = states if states <= LARGEST_CONSTANT else 0

    @finite_kernel
    def sweep(
        u: Ints,
        v: Ints,
        at: Ints,
        psi: Floats,
        rho: Floats,
        keep: float,
        begin: int,
        end: int,
        stride: int,
        product: Floats,
        messages: Floats,
    ) -> None:
        """Do what the sum-product sweep does with sums and maxima; ``psi`` is ``theta / rho``, ``product`` is beta."""
        k = constant if constant > 0 else product.shape[1]
        cu, cv, to_u, to_v = np.empty(k), np.empty(k), np.empty(k), np.empty(k)
        for e in range(begin, end, stride):
            pu, pv, mu, mv = product[u[e]], product[v[e]], messages[e, 0], messages[e, 1]
            for x in range(k):
                cu[x] = pu[x] - mu[x]
                cv[x] = pv[x] - mv[x]
                to_v[x] = -1e308
            table = psi[at[e] : at[e] + k * k]
            x = 0
            while x + 4 <= k:
                r0, r1 = table[x * k : x * k + k], table[x * k + k : x * k + 2 * k]
                r2, r3 = table[x * k + 2 * k : x * k + 3 * k], table[x * k + 3 * k : x * k + 4 * k]
                c0, c1, c2, c3 = cu[x], cu[x + 1], cu[x + 2], cu[x + 3]
                s0, s1, s2, s3 = -1e308, -1e308, -1e308, -1e308
                for y in range(k):
                    c = cv[y]
                    s0 = max(s0, r0[y] + c)
                    s1 = max(s1, r1[y] + c)
                    s2 = max(s2, r2[y] + c)
                    s3 = max(s3, r3[y] + c)
                for y in range(k):
                    to_v[y] = max(to_v[y], max(max(c0 + r0[y], c1 + r1[y]), max(c2 + r2[y], c3 + r3[y])))
                to_u[x], to_u[x + 1], to_u[x + 2], to_u[x + 3] = s0, s1, s2, s3
                x += 4
            while x < k:
                r0, c0, s0 = table[x * k : x * k + k], cu[x], -1e308
                for y in range(k):
                    s0 = max(s0, r0[y] + cv[y])
                for y in range(k):
                    to_v[y] = max(to_v[y], c0 + r0[y])
                to_u[x] = s0
                x += 1
            top_u, top_v = -1e308, -1e308
            for y in range(k):
                top_u = max(top_u, to_u[y])
                top_v = max(top_v, to_v[y])
            weight = rho[e]
            for y in range(k):
                change = keep * ((to_u[y] - top_u) - mu[y])
                mu[y] += change
                pu[y] += weight * change
            for y in range(k):
                change = keep * ((to_v[y] - top_v) - mv[y])
                mv[y] += change
                pv[y] += weight * change

    return sweep
