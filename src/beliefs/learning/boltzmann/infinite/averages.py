r"""Averages over rows of bits, a piece at a time: what a hidden unit with weights w means to data and to a model.

.. math:: E[\log(1 + e^{w^T v})], \qquad \nabla_w = E[\sigma(w^T v)\, v]

with v ending in a unit that is always 1. Rows stay as they are stored; only a piece of them is ever in floats. Pieces
are added in their order, so any number of threads gives the same bytes. Cost: two products of the rows with a vector.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from beliefs.learning.boltzmann.rows import BitRows
from beliefs.learning.parallel import Executor
from beliefs.typing import Floats

__all__ = ["RowAverages"]

_CELLS = 2**18  # of a piece: it stays in the cache between its two products


class RowAverages:
    """Rows of bits, each with its share of the average.

    Parameters
    ----------
    rows : BitRows
    dtype : float32 or float64
        Of matrix products; sums over rows are float64.
    shares : ndarray (N,), optional
        Non-negative, summing to one; all alike unless given.
    """

    def __init__(self, rows: BitRows, dtype: Any, executor: Executor, shares: Floats | None = None) -> None:
        self.rows, self.dtype, self.executor, self.shares = rows, np.dtype(dtype), executor, shares
        self.n_rows, self.n_visible = len(rows), rows.width
        self._known: dict[bytes, tuple[float, float]] = {}

    def _pieces(self) -> list[slice]:
        size = max(1, _CELLS // self.n_visible)
        return [slice(begin, min(begin + size, self.n_rows)) for begin in range(0, self.n_rows, size)]

    def _floats(self, piece: slice) -> np.ndarray:
        return self.rows.into(np.empty((piece.stop - piece.start, self.n_visible), self.dtype), piece)

    def _weighted(self, piece: slice, values: Floats) -> Floats:
        return values / self.n_rows if self.shares is None else values * self.shares[piece]

    @cached_property
    def mean(self) -> Floats:
        """The average row, ``(n_visible,)``."""

        def one(piece: slice) -> np.ndarray:
            rows = self._floats(piece)
            total: np.ndarray = self._weighted(piece, np.ones(len(rows))).astype(self.dtype) @ rows
            return total

        result: Floats = np.sum(self.executor.map(one, self._pieces()), axis=0, dtype=np.float64)
        return result

    def softplus(self, atom: Floats, excess: Floats | None = None) -> tuple[float, Floats]:
        r"""Return the average of log(1 + exp(w v)) for a unit with these weights, and its gradient in them.

        With ``excess`` :math:`\Delta`, ``(n_visible,)``, both of :math:`E[\log(1 + e^{w^T v})] - E[\sigma(w^T v)]\,
        w^T \Delta`: what is left of a unit when the visible bias makes up for its mean effect.
        """
        weights, bias = atom[:-1].astype(self.dtype), atom[-1]
        pull = 0.0 if excess is None else float(atom[:-1] @ excess)

        def one(piece: slice) -> tuple[float, float, Floats]:
            rows = self._floats(piece)
            x = (rows @ weights).astype(np.float64) + bias
            small = np.exp(-np.abs(x))
            value = self._weighted(piece, np.maximum(x, 0.0) + np.log1p(small)).sum()
            p = np.where(x > 0, 1.0, small) / (1.0 + small)
            activity = self._weighted(piece, p).sum()
            slope = self._weighted(piece, p * (1.0 - pull * (1.0 - p)))
            grad = np.append((slope.astype(self.dtype) @ rows).astype(np.float64), slope.sum())
            return float(value), float(activity), grad

        found = self.executor.map(one, self._pieces())
        value, activity = (float(sum(part[k] for part in found)) for k in range(2))
        grad: Floats = np.sum([part[2] for part in found], axis=0)
        if excess is not None:
            grad[:-1] -= activity * excess
        return value - pull * activity, grad

    def units(self, atoms: Floats) -> tuple[Floats, Floats]:
        """Return the averages of log(1 + exp(w v)) and of P(h = 1) of many units, ``(n_units,)`` each.

        A column is looked at once and remembered.
        """
        found = []
        for column in atoms.T:
            key = np.ascontiguousarray(column).tobytes()
            if key not in self._known:
                value, grad = self.softplus(column)
                self._known[key] = value, float(grad[-1])  # the unit that is always 1 has the activity itself
            found.append(self._known[key])
        both = np.array(found).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def softplus_means(self, atoms: Floats) -> Floats:
        """Return the averages of log(1 + exp(w v)) of many units at once, ``(n_units,)``."""
        weights = atoms[:-1].astype(self.dtype)

        def one(piece: slice) -> Floats:
            x = (self._floats(piece) @ weights).astype(np.float64) + atoms[-1]
            total: Floats = self._weighted(piece, np.ones(len(x))) @ np.logaddexp(0.0, x)
            return total

        result: Floats = np.sum(self.executor.map(one, self._pieces()), axis=0)
        return result

    def softplus_sums(self, atoms: Floats, counts: Floats) -> Floats:
        """Return for each row the sum of log(1 + exp(w v)) over units, weighted by their counts, ``(N,)``."""
        weights, out = atoms[:-1].astype(self.dtype), np.zeros(self.n_rows)

        def one(piece: slice) -> None:
            x = (self._floats(piece) @ weights).astype(np.float64) + atoms[-1]
            out[piece] = np.logaddexp(0.0, x) @ counts

        self.executor.map(one, self._pieces())
        return out

    def products(self, vector: Floats) -> Floats:
        """Return the product of each row with a vector ``(n_visible,)``, in float64."""
        out = np.zeros(self.n_rows)

        def one(piece: slice) -> None:
            out[piece] = self._floats(piece).astype(np.float64) @ vector

        self.executor.map(one, self._pieces())
        return out

    def average(self, values: Floats) -> float:
        """Return the average of one number a row."""
        return float(values.mean() if self.shares is None else values @ self.shares)

    def log_average_exp(self, values: Floats) -> float:
        """Return the logarithm of the average of exponentials."""
        top = float(values.max())
        return top + float(np.log(self.average(np.exp(values - top))))
