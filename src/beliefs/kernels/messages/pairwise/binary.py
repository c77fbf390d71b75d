r"""Messages of pairwise binary models: a message is one number, the ratio of its two entries (or the log of it).

With the table scaled to :math:`\psi = \begin{pmatrix} 1 & b \\ c & d \end{pmatrix}` and cavity ratios
:math:`r_u = p_u / m_{e \to u}`, :math:`r_v = p_v / m_{e \to v}`,

.. math:: m_{e \to v} = \frac{b + d\, r_u}{1 + c\, r_u}, \qquad m_{e \to u} = \frac{c + d\, r_v}{1 + b\, r_v},

in logs with maxima :math:`m_{e \to v} = \max(b, d + r_u) - \max(0, c + r_u)`. An edge is three numbers of table and two
of messages, read from ``messages`` and written to ``fresh``, which may be the same array. Values must be finite and
within the range of a double: the caller sees to that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from beliefs.kernels._jit import kernel, linear_kernel
from beliefs.kernels.messages.pairwise.structures import PairTables
from beliefs.kernels.primitives.exponential import NEAR_ONE, binomials, exp4, exponentials16, log4, power_near_one4
from beliefs.kernels.primitives.memory import get, put, stack_memory
from beliefs.kernels.primitives.simd import add4, divide4, fill4, first4, load4, multiply4, pair4, second4, store4
from beliefs.typing import Bools, Floats

__all__ = ["binary_linear_sweep", "binary_max_sweep", "log_ratio_beliefs", "ratio_beliefs"]

_SATURATED = 700.0  # nats: farther on, exponentials leave the range of a double


@cache
def binary_linear_sweep(powered: bool) -> Callable[..., None]:
    """Return the sweep of sums; unless ``powered``, counting numbers are 1 and nothing is damped."""

    @linear_kernel
    def sweep(
        pairs: PairTables,
        rho: Floats,
        keep: float,
        begin: int,
        end: int,
        stride: int,
        ratio: Floats,
        messages: Floats,
        fresh: Floats,
    ) -> None:
        """Update edges ``begin, begin + stride, ...`` up to ``end``: ``ratio (n,)``, ``messages (2 m,)``.

        If powered, with counting numbers ``rho (m,)`` and log damping ``1 - keep``; else neither is read.
        """
        u, v, at, psi = pairs.u, pairs.v, pairs.at, pairs.psi
        if powered:
            for_power, for_move, prepared = stack_memory(8), stack_memory(8), -1.0
            binomials(keep, for_move)
        for e in range(begin, end, stride):
            i, j, k = u[e], v[e], at[e] if at.size > 0 else 3 * e
            b, c, d = psi[k], psi[k + 1], psi[k + 2]
            mu, mv = messages[2 * e], messages[2 * e + 1]
            ru, rv = ratio[i] / mu, ratio[j] / mv
            to_v = (b + d * ru) / (1.0 + c * ru)
            to_u = (c + d * rv) / (1.0 + b * rv)
            if powered:
                if rho[e] == 1.0 and keep == 0.5:
                    moved_u, moved_v = math.sqrt(to_u * mu), math.sqrt(to_v * mv)
                    fresh[2 * e], fresh[2 * e + 1] = moved_u, moved_v
                    ratio[i], ratio[j] = ru * moved_u, rv * moved_v
                    continue
                if rho[e] == 0.5 and keep == 1.0:
                    fresh[2 * e], fresh[2 * e + 1] = to_u, to_v
                    ratio[i], ratio[j] = ru * math.sqrt(to_u * mu), rv * math.sqrt(to_v * mv)
                    continue
                by_u, by_v = to_u / mu, to_v / mv
                steps = pair4(by_u, by_v)  # both powers at once
                if max(abs(by_u - 1.0), abs(by_v - 1.0)) < NEAR_ONE and 0.0 <= rho[e] <= 1.0:
                    if rho[e] != prepared:
                        prepared = rho[e]
                        binomials(keep * prepared, for_power)
                    power = power_near_one4(steps, for_power)
                    moved = power_near_one4(steps, for_move) if keep < 1.0 and rho[e] != 1.0 else power
                else:
                    change = multiply4(fill4(keep), log4(steps))
                    power = exp4(multiply4(fill4(rho[e]), change))
                    moved = exp4(change) if keep < 1.0 and rho[e] != 1.0 else power
                ratio[i] *= first4(power)
                ratio[j] *= second4(power)
                if keep < 1.0:
                    to_u, to_v = mu * first4(moved), mv * second4(moved)
                fresh[2 * e], fresh[2 * e + 1] = to_u, to_v
                continue
            fresh[2 * e], fresh[2 * e + 1] = to_u, to_v
            ratio[i], ratio[j] = ru * to_u, rv * to_v

    return sweep


@linear_kernel
def binary_max_sweep(
    pairs: PairTables,
    rho: Floats,
    keep: float,
    begin: int,
    end: int,
    stride: int,
    ratio: Floats,
    messages: Floats,
    fresh: Floats,
) -> None:
    """Update edges by maxima, in logs; ``psi`` is ``(theta - theta_00) / rho`` without its first entry."""
    u, v, at, psi = pairs.u, pairs.v, pairs.at, pairs.psi
    for e in range(begin, end, stride):
        i, j, k = u[e], v[e], at[e] if at.size > 0 else 3 * e
        b, c, d = psi[k], psi[k + 1], psi[k + 2]
        mu, mv = messages[2 * e], messages[2 * e + 1]
        ru, rv = ratio[i] - mu, ratio[j] - mv
        change_v = keep * (max(b, d + ru) - max(0.0, c + ru) - mv)
        change_u = keep * (max(c, d + rv) - max(0.0, b + rv) - mu)
        fresh[2 * e], fresh[2 * e + 1] = mu + change_u, mv + change_v
        ratio[i] += rho[e] * change_u
        ratio[j] += rho[e] * change_v


@linear_kernel
def ratio_beliefs(ratio: Floats, observed: Bools, mu_var: Floats) -> float:
    """Write ``(1, r) / (1 + r)`` for each unobserved variable; return the largest change."""
    change = 0.0
    for v in range(ratio.size):
        r = ratio[v]
        zero, one = 1.0 / (1.0 + r), r / (1.0 + r)
        if not observed[v]:
            change = max(change, max(abs(zero - mu_var[2 * v]), abs(one - mu_var[2 * v + 1])))
            mu_var[2 * v], mu_var[2 * v + 1] = zero, one
    return change


@kernel
def log_ratio_beliefs(log_ratio: Floats, observed: Bools, mu_var: Floats) -> float:
    """Do the same from logarithms, sixteen at a time; those beyond 700 count as 700."""
    change = 0.0
    r, zeros, ones = stack_memory(16), stack_memory(16), stack_memory(16)
    for k in range(16):
        put(r, k, 0.0)
    for begin in range(0, log_ratio.size, 16):
        n = min(16, log_ratio.size - begin)
        for k in range(n):
            put(r, k, min(max(log_ratio[begin + k], -_SATURATED), _SATURATED))
        exponentials16(r, 0, 0.0, 1.0, r, 0)
        for k in range(0, 16, 4):
            some = load4(r, k)
            inverse = divide4(fill4(1.0), add4(some, fill4(1.0)))
            store4(zeros, k, inverse)
            store4(ones, k, multiply4(some, inverse))
        for k in range(n):
            at = 2 * (begin + k)
            if not observed[begin + k]:
                change = max(change, abs(get(zeros, k) - mu_var[at]))  # the other state changes by as much
                mu_var[at], mu_var[at + 1] = get(zeros, k), get(ones, k)
    return change
