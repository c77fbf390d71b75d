r"""Dense pairwise fields: the log-odds of all variables given all others as one product of matrices.

With K - 1 indicators a variable, :math:`x \in \{0, 1\}^D`, tables are an affine map away from couplings,

.. math:: a = x J + h, \qquad J_{ui,vj} = \theta_{uv}(i, j) - \theta_{uv}(0, j) - \theta_{uv}(i, 0) + \theta_{uv}(0, 0)

and :math:`a_{vj}` is the log-odds of state j of v against its first, given all others. J is symmetric, so each coupling
is one number. The gradient goes back by the transposed map, so tied tables and any number of factors on the same
variables are the same.

Rows are taken in pieces of fixed size, each by one thread of BLAS, and added up in their order: the same bytes for any
number of threads. Cost: two products a row, :math:`4 D^2` operations, and an exponential a variable.
Memory: one byte a cell, and a few pieces.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from beliefs.learning.fields.blankets import Conditionals, Terms
from beliefs.learning.fields.coordinates import Centred
from beliefs.learning.fields.pair_map import PairMap
from beliefs.learning.parallel import Executor
from beliefs.model.layout import Layout, offsets
from beliefs.model.rows.table import RowTable
from beliefs.typing import Floats

__all__ = ["PairMatrices"]

_ROWS = 512  # of a product: what it reads and writes stays in the second cache
_PIECE = 8 * _ROWS  # rows that a thread takes at a time


class PairMatrices(Conditionals):
    """Complete rows of a field whose factors have at most two variables."""

    def __init__(self, layout: Layout, table: RowTable) -> None:
        self.layout, self.table, self.first = layout, table, offsets(layout.card - 1)
        self.binary = bool((layout.card == 2).all())
        self.map = PairMap.of(layout, self.first)

    def add(self, terms: Terms, theta: Floats, grad: Floats, executor: Executor) -> float:
        """Return the sum of all terms, and add its gradient: pieces of rows in their order."""
        d = int(self.first[-1])
        h, couplings = self.map.biases_and_couplings(theta)
        n_rows = self.table.n_rows

        def task(begin: int) -> tuple[float, Floats, Floats]:
            value, sums, products = 0.0, np.zeros(d), np.zeros((d, d))
            for start in range(begin, min(begin + _PIECE, n_rows), _ROWS):
                x = self._indicators(start)
                slopes = couplings @ x
                value += self._terms(terms, slopes, h, x, self._weights(start))
                sums += slopes.sum(axis=1)
                products += x @ slopes.T
            return value, sums, products

        total, sums, products = 0.0, np.zeros(d), np.zeros((d, d))
        for value, own, pairs in executor.windows(task, range(0, n_rows, _PIECE)):
            total += value
            sums += own
            products += pairs
        self.map.add_slopes(sums, products, grad)
        return total

    def coordinates(self) -> Centred | None:
        """Return coordinates that are centred at the means of the rows; None of tied tables, which have none."""
        if self.layout.tied:
            return None
        weights, total = self.table.weights, self.table.total
        codes, card = self.table.codes, self.layout.card.tolist()
        counts = [np.bincount(column, weights, k)[1:] for column, k in zip(codes, card, strict=True)]
        return Centred(self.map, self.layout, np.concatenate([*counts, np.zeros(0)]) / total)

    def _weights(self, begin: int) -> Floats:
        weights = self.table.weights
        return np.zeros(0) if weights is None else weights[begin : begin + _ROWS]

    def _indicators(self, begin: int) -> Floats:
        """Return the indicators of some rows ``(D, rows)``."""
        codes = self.table.codes[:, begin : begin + _ROWS]
        if self.binary:
            return codes.astype(np.float64)
        found = np.zeros((int(self.first[-1]), codes.shape[1]))
        for v, (start, end) in enumerate(pairwise(self.first.tolist())):
            found[start:end] = codes[v] == np.arange(1, end - start + 1)[:, None]
        return found

    def _terms(self, terms: Terms, odds: Floats, h: Floats, x: Floats, weights: Floats) -> float:
        """Return the sum of the terms; their slopes replace the products ``odds (D, rows)``."""
        if self.binary:
            return terms.binary(odds, h, x, weights)
        odds += h[:, None]
        value, share = 0.0, weights if weights.size else 1.0
        for start, end in pairwise(self.first.tolist()):
            logits = np.concatenate([np.zeros((1, x.shape[1])), odds[start:end]])
            own = x[start:end]
            counts = np.concatenate([1.0 - own.sum(axis=0, keepdims=True), own]) * share
            found, back = terms.terms(logits.T, counts.T)
            value += found
            odds[start:end] = back[:, 1:].T
        return value
