r"""The way back through :mod:`beliefs.kernels.messages.pairwise.binary`: adjoints of log ratios, one number a message.

With :math:`\ell_v = \log (b + d\, r_u) - \log (1 + c\, r_u)`, :math:`s_1 = d r_u / (b + d r_u)` and
:math:`s_0 = c r_u / (1 + c r_u)`,

.. math:: \frac{\partial \ell_v}{\partial \log r_u} = s_1 - s_0, \qquad
          \frac{\partial \ell_v}{\partial (\log b, \log c, \log d)} = (1 - s_1, -s_0, s_1),

and likewise for the other message with b and c exchanged. No exponential or logarithm is needed at counting numbers 1
and 0.5.
"""

from __future__ import annotations

import math

from beliefs.kernels._jit import linear_kernel
from beliefs.kernels.messages.pairwise.structures import PairTables
from beliefs.kernels.primitives.exponential import exp4, log4
from beliefs.kernels.primitives.simd import fill4, first4, multiply4, pair4, second4
from beliefs.typing import Floats

__all__ = ["binary_adjoint_sweep"]


@linear_kernel
def binary_adjoint_sweep(
    pairs: PairTables,
    rho: Floats,
    stride: int,
    old: Floats,
    new: Floats,
    ratio: Floats,
    variable: Floats,
    message: Floats,
    grad: Floats,
) -> None:
    """Go back over all edges, with ``stride`` 1 or -1: the opposite of the sweep's.

    ``old`` and ``new (2 m,)`` are the ratios before and after the pass, ``ratio (n,)`` becomes what it was before it,
    ``variable (n,)`` and ``message (2 m,)`` are adjoints of log ratios, ``grad`` (like ``psi``) gets those of the logs
    of ``psi``; ``rho`` may be empty: ones.
    """
    u, v, at, psi = pairs.u, pairs.v, pairs.at, pairs.psi
    begin, end = (0, u.size) if stride > 0 else (u.size - 1, -1)
    for e in range(begin, end, stride):
        i, j, k = u[e], v[e], at[e] if at.size > 0 else 3 * e
        b, c, d = psi[k], psi[k + 1], psi[k + 2]
        weight = rho[e] if rho.size > 0 else 1.0
        before_u, before_v, after_u, after_v = old[2 * e], old[2 * e + 1], new[2 * e], new[2 * e + 1]
        if weight == 0.5:
            ru, rv = ratio[i] / math.sqrt(after_u * before_u), ratio[j] / math.sqrt(after_v * before_v)
        elif weight == 1.0:
            ru, rv = ratio[i] / after_u, ratio[j] / after_v
        else:
            power = exp4(multiply4(fill4(weight), log4(pair4(before_u / after_u, before_v / after_v))))
            ru, rv = ratio[i] * first4(power) / before_u, ratio[j] * second4(power) / before_v
        ratio[i], ratio[j] = ru * before_u, rv * before_v
        total_u, total_v = variable[i], variable[j]
        to_u, to_v = message[2 * e] + weight * total_u, message[2 * e + 1] + weight * total_v
        s1, s0 = d * ru / (b + d * ru), c * ru / (1.0 + c * ru)
        t1, t0 = d * rv / (c + d * rv), b * rv / (1.0 + b * rv)
        back_u, back_v = to_v * (s1 - s0), to_u * (t1 - t0)
        message[2 * e], message[2 * e + 1] = -weight * total_u - back_u, -weight * total_v - back_v
        variable[i], variable[j] = total_u + back_u, total_v + back_v
        grad[k] += to_v * (1.0 - s1) - to_u * t0
        grad[k + 1] += to_u * (1.0 - t1) - to_v * s0
        grad[k + 2] += to_v * s1 + to_u * t1
