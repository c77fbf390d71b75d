"""Two states each, given all others: what log-odds cost, and their slopes, beside products of matrices."""

from __future__ import annotations

from beliefs.kernels._jit import kernel
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.kernels.primitives.lanes import lane_product, lane_sum
from beliefs.typing import Floats

__all__ = ["cross_entropies"]


@kernel
def cross_entropies(
    odds: Floats, bias: Floats, bits: Floats, weights: Floats, room: Floats, values: Floats
) -> None:  # fmt: skip
    """Add the cross-entropy of every bit to its variable's, and replace products by derivatives in the log-odds.

    Equivalent to, with ``a = odds + bias[:, None]`` and ``w`` the weights, or ones where there are none,
    ``values += (w * (np.logaddexp(0, a) - a * bits)).sum(axis=1)`` and ``odds[:] = w * (expit(a) - bits)``.
    Shapes: ``odds``, ``bits (n_vars, rows)`` with at most 1,000 rows, ``bias``, ``values (n_vars,)``,
    ``weights (rows,)`` or empty, ``room (2, rows)``.
    Cost: an exponential a cell, and a logarithm a variable; with weights one a cell.
    Numerics: ``max(a, 0) + log(1 + exp(-|a|))``, so nothing overflows; without weights the logarithms of a variable are
    one, of a product of factors of at most 2.
    """
    n = odds.shape[1]
    factors, terms = room[0], room[1]
    for v in range(odds.shape[0]):
        row, own, b = odds[v], bits[v], bias[v]
        for r in range(n):
            a = row[r] + b
            e = fast_exp(-abs(a))
            q = 1.0 / (1.0 + e)
            factors[r] = 1.0 + e
            terms[r] = max(a, 0.0) - a * own[r]
            row[r] = (q if a >= 0.0 else e * q) - own[r]
        if weights.size:
            for r in range(n):
                terms[r] = weights[r] * (terms[r] + fast_log(factors[r]))
            for r in range(n):
                row[r] *= weights[r]
            values[v] += lane_sum(terms, n)
        else:
            values[v] += lane_sum(terms, n) + fast_log(lane_product(factors, 0, n))
