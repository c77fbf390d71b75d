r"""Dense pairwise fields: the log-odds of all variables given all others as one product of matrices.

With K - 1 indicators a variable, :math:`x \in \{0, 1\}^D`, tables are an affine map away from couplings,

.. math:: a = x J + h, \qquad J_{ui,vj} = \theta_{uv}(i, j) - \theta_{uv}(0, j) - \theta_{uv}(i, 0) + \theta_{uv}(0, 0)

and :math:`a_{vj}` is the log-odds of state j of v against its first, given all others. The gradient goes back by the
transposed map, so tied tables and any number of factors on the same variables are the same.

Rows are taken in pieces of fixed size, each by one thread of BLAS, and added up in their order: the same bytes for any
number of threads. Cost: two products a row, :math:`4 D^2` operations, and an exponential a variable.
Memory: one byte a cell, and a few pieces.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from beliefs.learning.fields.blankets import Conditionals, Terms
from beliefs.learning.parallel import Executor
from beliefs.model.layout import Layout, offsets
from beliefs.model.rows.table import RowTable
from beliefs.typing import Floats, Ints

__all__ = ["PairMatrices"]

_ROWS = 512  # of a piece: products of as many factors of at most 2 stay finite


class PairMatrices(Conditionals):
    """Complete rows of a field whose factors have at most two variables."""

    def __init__(self, layout: Layout, table: RowTable) -> None:
        self.table, self.first = table, offsets(layout.card - 1)
        self.binary = bool((layout.card == 2).all())
        self.map = _couplings(layout, self.first)

    def add(self, terms: Terms, theta: Floats, grad: Floats, executor: Executor) -> float:
        """Return the sum of all terms, and add its gradient: pieces of rows in their order."""
        d = int(self.first[-1])
        numbers = self.map @ theta
        h, couplings = numbers[:d], numbers[d:].reshape(d, d)

        def task(begin: int) -> tuple[float, Floats, Floats]:
            x = self._indicators(begin)
            odds = x @ couplings
            odds += h
            value, slopes = self._terms(terms, odds, x, self._weights(begin))
            return value, slopes.sum(axis=0), x.T @ slopes

        total, sums, products = 0.0, np.zeros(d), np.zeros((d, d))
        for value, own, pairs in executor.windows(task, range(0, self.table.n_rows, _ROWS)):
            total += value
            sums += own
            products += pairs
        grad += self.map.T @ np.concatenate([sums, products.ravel()])
        return total

    def _weights(self, begin: int) -> Floats | None:
        weights = self.table.weights
        return None if weights is None else weights[begin : begin + _ROWS, None]

    def _indicators(self, begin: int) -> Floats:
        codes = self.table.codes[:, begin : begin + _ROWS].T
        if self.binary:
            return codes.astype(np.float64)
        found = np.zeros((codes.shape[0], int(self.first[-1])))
        for v, (start, end) in enumerate(pairwise(self.first.tolist())):
            found[:, start:end] = codes[:, v, None] == np.arange(1, end - start + 1)
        return found

    def _terms(self, terms: Terms, odds: Floats, x: Floats, weights: Floats | None) -> tuple[float, Floats]:
        if self.binary and weights is None:
            return terms.binary(odds, x)
        value, slopes, share = 0.0, np.empty_like(odds), 1.0 if weights is None else weights
        for start, end in pairwise(self.first.tolist()):
            logits = np.concatenate([np.zeros((len(x), 1)), odds[:, start:end]], axis=1)
            own = x[:, start:end]
            counts = np.concatenate([1.0 - own.sum(axis=1, keepdims=True), own], axis=1) * share
            found, back = terms.terms(logits, counts)
            value += found
            slopes[:, start:end] = back[:, 1:]
        return value, slopes


def _couplings(layout: Layout, first: Ints) -> Any:
    """Return the map from tables to biases and couplings, a sparse matrix ``(D + D * D, n_cells)``."""
    from scipy.sparse import csr_array

    d = int(first[-1])
    to, cells, signs = [], [], []

    def entry(row: Any, cell: Any, sign: float) -> None:
        row, cell = np.broadcast_arrays(row, cell)
        to.append(row.ravel())
        cells.append(cell.ravel())
        signs.append(np.full(row.size, sign))

    for f in np.flatnonzero(layout.arity > 0):
        table = layout.cell_ptr[f] + np.arange(layout.factor_size[f]).reshape(layout.shape(int(f)))
        own = [np.arange(first[v], first[v + 1]) for v in layout.scope(int(f))]
        alone = table if table.ndim == 1 else table[:, 0]
        entry(own[0], alone[1:], 1.0)
        entry(own[0], alone[0], -1.0)
        if table.ndim == 1:
            continue
        entry(own[1], table[0, 1:], 1.0)
        entry(own[1], table[0, 0], -1.0)
        for pair in (d + own[0][:, None] * d + own[1], d + own[1] * d + own[0][:, None]):
            for part, sign in ((table[1:, 1:], 1.0), (table[:1, 1:], -1.0), (table[1:, :1], -1.0), (table[0, 0], 1.0)):
                entry(pair, part, sign)
    where = np.concatenate([*to, np.zeros(0, np.int64)]), np.concatenate([*cells, np.zeros(0, np.int64)])
    return csr_array((np.concatenate([*signs, np.zeros(0)]), where), shape=(d + d * d, layout.n_cells))
