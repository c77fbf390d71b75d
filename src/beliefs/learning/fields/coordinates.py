r"""Coordinates in which dense pairwise fields are round: biases and couplings about the means of the rows.

In tables the bias of a variable stands in every factor on it, so that its curvature grows with their number, and a
coupling moves the biases of both ends. With indicators :math:`x`, their means :math:`m` and log-odds
:math:`a = x J + h = (x - m) J + (h + m J)`, slopes in :math:`J` and in :math:`h + m J` are nearly uncorrelated. So
coordinates are a number an indicator and one a coupling, in units of evenly spread states,

.. math:: J = U j\, U^T, \qquad h + m J = U \beta, \qquad U U^T = \tfrac12 \operatorname{Cov}(x)^{-1}
          = \tfrac K2 (I + \mathbb 1 \mathbb 1^T),

with a block of U a variable, and all curvatures are of one size. Tables are the shortest with this J and h: couplings
in zero-sum tables, shared evenly by factors on one pair, and :math:`b = h + c J`, :math:`c = 1 / K`, spread evenly over
the factors of a variable. These are what gradients in the tables span, so from tables of zero, with a ridge or without,
nothing else would ever move: the minimum is that of the tables.

Cost: products with sparse matrices of :math:`O(n\_cells)` entries. The search has a quarter of the numbers that bits
have in tables, and takes a quarter of the iterations where 100 are all joined. Failure: tied tables have no such form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from beliefs.learning.fields.pair_map import PairMap
from beliefs.model.layout import Layout
from beliefs.typing import Floats

__all__ = ["Centred"]


class Centred:
    """The map from coordinates to tables, and of gradients back.

    Parameters
    ----------
    map : PairMap
    layout : Layout
        Without tied tables.
    means : ndarray (D,)
        Of the indicators.
    """

    def __init__(self, map: PairMap, layout: Layout, means: Floats) -> None:
        even = np.repeat(1.0 / layout.card, layout.card - 1)
        self.map, self.off_centre = map, means - even
        self.bias = (map.bias + map.between(even) @ map.coupling).tocsr()
        self.spread = np.linalg.pinv((self.bias @ self.bias.T).toarray())
        self.n_shared = map.coupling.multiply(map.coupling).sum(axis=1) / 4.0  # factors on each pair
        self.units, self.duals = _units(layout.card.tolist())
        self.n_biases, self.size = means.size, means.size + map.low.size

    def weights(self, z: Floats) -> Floats:
        """Return the tables at some coordinates."""
        low, high, n = self.map.low, self.map.high, self.n_biases
        j = np.zeros((n, n))
        j[low, high] = j[high, low] = z[n:]
        pairs = _turned(self.duals, j)[low, high] / self.n_shared
        b = self.units @ z[:n] - self.off_centre @ _turned(self.units, j)
        found: Floats = self.map.coupling.T @ pairs + self.bias.T @ (self.spread @ b)
        return found

    def slopes(self, grad: Floats) -> Floats:
        """Return the gradient in the coordinates, given that in the tables."""
        low, high, n = self.map.low, self.map.high, self.n_biases
        own = self.spread @ (self.bias @ grad)
        pairs, moved = np.zeros((n, n)), np.zeros((n, n))
        pairs[low, high] = (self.map.coupling @ grad) / self.n_shared
        moved[low, high] = self.off_centre[low] * own[high] + self.off_centre[high] * own[low]
        found = _turned(self.duals.T, pairs) - _turned(self.units.T, moved)
        return np.concatenate([self.units.T @ own, found[low, high]])


def _turned(blocks: Any, matrix: Floats) -> Floats:
    """Return ``blocks @ matrix @ blocks.T``."""
    found: Floats = (blocks @ (blocks @ matrix).T).T
    return found


def _units(card: list[int]) -> tuple[Any, Any]:
    r"""Return U and :math:`(I + \mathbb 1 \mathbb 1^T)^{-1} U`, block by block."""
    from scipy.sparse import block_diag

    blocks: tuple[list[Any], list[Any]] = [], []
    for k in card:
        for part, power in zip(blocks, (0.5, -0.5), strict=True):
            ones = (k**power - 1.0) / max(k - 1, 1)
            part.append(np.sqrt(k / 2.0) * (np.eye(k - 1) + ones))
    first, second = (block_diag([np.zeros((0, 0)), *part], format="csr") for part in blocks)
    return first, second
