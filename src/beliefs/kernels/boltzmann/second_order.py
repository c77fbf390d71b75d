"""Pair beliefs of the second order of mean field, of many machines with the same weights."""

from __future__ import annotations

from typing import Any

from beliefs.kernels._jit import kernel
from beliefs.typing import Floats

__all__ = ["add_pairs"]


@kernel
def add_pairs(weights: Any, visible: Floats, hidden: Floats, out: Floats) -> None:
    """Add P(v = 1, h = 1) of every row: its gradient of the second-order value, within what its means allow.

    Equivalent to, for means p and q of each row, ``out += clip(p q + w p (1 - p) q (1 - q), max(p + q - 1, 0),
    min(p, q))``: the expansion alone leaves these ends where weights are large.
    Shapes: ``weights``, ``out (n_visible, n_hidden)``, ``visible (rows, n_visible)``, ``hidden (rows, n_hidden)``.
    Cost: a few operations a row and pair.
    Numerics: plain sums, in the order of the rows.
    """
    n, m = weights.shape
    for i in range(n):
        for r in range(visible.shape[0]):
            p = visible[r, i]
            variance = p * (1.0 - p)
            for j in range(m):
                q = hidden[r, j]
                pair = p * q + weights[i, j] * (variance * (q * (1.0 - q)))
                out[i, j] += min(max(pair, max(p + q - 1.0, 0.0)), min(p, q))
