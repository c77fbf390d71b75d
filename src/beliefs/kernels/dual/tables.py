r"""Power sums of one table along its axes, as generalised dual decomposition needs them.

Axes lie in the order of elimination, the first eliminated slowest, so every step reduces the leading axis: a table of
``card`` rows by ``inner`` columns becomes one row, and loops run over contiguous columns. With weights :math:`w_k`

.. math:: Z_k(x_{k+1:m}) = w_k \log \sum_{x_k} \exp (Z_{k-1} / w_k), \qquad
          \mu(x_k | x_{k+1:m}) = \exp ((Z_{k-1} - Z_k) / w_k)

and at weight 0 the maximum, with the uniform distribution over the maximisers (Theorem 3.4.1 [ping2016]). Entries of
``-inf`` are true zeros; a column of them gives ``-inf`` and conditionals 0.
"""

from __future__ import annotations

import math

from beliefs.kernels._jit import kernel
from beliefs.kernels.dual.structure import LOWEST, TINY, Axes, Chain
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.typing import Floats, Ints

__all__ = [
    "chain_entropies",
    "chain_marginals",
    "conditionals",
    "power_chain",
    "power_sum",
    "term_chain",
]


@kernel
def exp_or_zero(x: float) -> float:
    """Return ``exp(x)``, 0 for arguments below -708."""
    value = fast_exp(x)
    return value if x > -708.0 else 0.0


@kernel
def power_sum(z: Floats, at: int, card: int, inner: int, weight: float, out: Floats, to: int, total: Floats) -> None:
    """Reduce the leading axis: ``out[to:] = weight * logsumexp(z[at:].reshape(card, inner) / weight, axis=0)``.

    ``out`` may be ``z`` if the places do not overlap; ``total (inner,)`` is scratch.
    """
    for y in range(inner):
        out[to + y] = z[at + y]
    for x in range(1, card):
        row = at + x * inner
        for y in range(inner):
            out[to + y] = max(out[to + y], z[row + y])
    if weight == 0.0:
        return
    scale = 1.0 / weight
    for y in range(inner):
        total[y] = 0.0
    for x in range(card):
        row = at + x * inner
        for y in range(inner):
            total[y] += fast_exp((z[row + y] - max(out[to + y], LOWEST)) * scale)
    for y in range(inner):
        out[to + y] += weight * fast_log(total[y])


@kernel
def conditionals(z: Floats, at: int, card: int, inner: int, weight: float, p: Floats, total: Floats) -> None:
    """Reduce the leading axis of ``z[at:]`` to the row after the table, and write the conditionals to ``p[at:]``."""
    to = at + card * inner
    for y in range(inner):
        z[to + y] = z[at + y]
        total[y] = 0.0
    for x in range(1, card):
        row = at + x * inner
        for y in range(inner):
            z[to + y] = max(z[to + y], z[row + y])
    scale = 1.0 / weight if weight > 0.0 else 0.0
    for x in range(card):
        row = at + x * inner
        for y in range(inner):
            top = max(z[to + y], LOWEST)
            share = exp_or_zero((z[row + y] - top) * scale) if weight > 0.0 else (1.0 if z[row + y] == top else 0.0)
            p[row + y] = share
            total[y] += share
    for y in range(inner):
        total[y] = max(total[y], TINY)
    if weight > 0.0:
        for y in range(inner):
            z[to + y] += weight * fast_log(total[y])
    for x in range(card):
        row = at + x * inner
        for y in range(inner):
            p[row + y] /= total[y]


@kernel
def power_chain(size: int, card: Ints, weight: Floats, first: int, last: int, chain: Chain) -> float:
    """Eliminate the axes ``first..last`` of ``z[:size]`` and return the value; all steps stay in ``z`` and ``p``.

    Step ``k`` begins where the table before it ends; ``z`` has room for twice the table.
    """
    z, p, total, at = chain.z, chain.p, chain.total, 0
    for a in range(first, last):
        inner = size // card[a]
        conditionals(z, at, card[a], inner, weight[a], p, total)
        at += size
        size = inner
    return float(z[at])


@kernel
def term_chain(c: int, axes: Axes, weight: Floats, tables: Floats, chain: Chain) -> float:
    """Do what :func:`power_chain` does to table ``c``, which is left as it is."""
    start = axes.cell[c]
    size = axes.cell[c + 1] - start
    for k in range(size):
        chain.z[k] = tables[start + k]
    return power_chain(size, axes.card, weight, axes.ptr[c], axes.ptr[c + 1], chain)


@kernel
def chain_marginals(p: Floats, size: int, card: Ints, first: int, last: int) -> int:
    r"""Turn the conditionals of :func:`power_chain` to joint marginals :math:`\mu(x_{k:m})`; return where they end."""
    end, left = 0, size
    for a in range(first, last):
        end += left
        left //= card[a]
    at, inner = end, 1
    for a in range(last - 1, first - 1, -1):
        size = inner * card[a]
        at -= size
        if a < last - 1:
            for x in range(card[a]):
                row = at + x * inner
                for y in range(inner):
                    p[row + y] *= p[at + size + y]
        inner = size
    return end


@kernel
def chain_entropies(
    size: int, card: Ints, weight: Floats, first: int, last: int, chain: Chain, out: Floats, to: int
) -> None:
    r"""Write :math:`H(x_k | x_{k+1:m}) = -\sum \mu \log \mu(x_k | x_{k+1:m})` for each axis; 0 at weight 0.

    ``p`` holds the marginals of :func:`chain_marginals`.
    """
    z, p, at = chain.z, chain.p, 0
    for a in range(first, last):
        inner = size // card[a]
        value = 0.0
        if weight[a] > 0.0:
            for x in range(card[a]):
                row = at + x * inner
                for y in range(inner):
                    if p[row + y] > 0.0 and z[row + y] > -math.inf:
                        value += p[row + y] * (z[at + size + y] - z[row + y])
            value /= weight[a]
        out[to + a - first] = value
        at += size
        size = inner
