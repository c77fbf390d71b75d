r"""Mean field, of the first and the second order, in machines that share their weights: rows of one matrix product.

The updates are those of :mod:`beliefs.inference.boltzmann.mean_field` and :mod:`beliefs.inference.boltzmann.tap` with
biases of each row's own. A row leaves the product when it has settled.

A library's product (the default, for mini-batches and predictions) is the quickest, and rounds a row by the number of
rows beside it; :func:`each_alone` makes one for questions whose answers may not depend on their company.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from beliefs.deadline import check_time
from beliefs.inference.boltzmann.tap import STEP, spread
from beliefs.inference.parallel import in_chunks, one_thread_of_blas, parallel_chunks
from beliefs.kernels.boltzmann.layers import entropy_sums, probabilities, scores
from beliefs.kernels.boltzmann.row_chains import row_products
from beliefs.kernels.boltzmann.single import single_means, single_shares
from beliefs.typing import Bools, Floats, Ints

__all__ = ["BatchMeans", "each_alone", "mean_field_rows", "row_values"]

Product = Callable[[np.ndarray, np.ndarray], np.ndarray]
_LOTS = 16  # of rows that threads share
_SHARED = 2**22  # multiplications from which threads share them: some 150 us


def each_alone(threads: int) -> Product:
    """Return a product of rows with a matrix in which every row has the bytes that it would have alone."""

    def product(rows: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), matrix.shape[1]), matrix.dtype)

        def run(begin: int, end: int) -> int:
            row_products(rows[begin:end], matrix, out[begin:end])
            return 0

        parallel_chunks(run, in_chunks(len(rows), _LOTS), threads if len(rows) * matrix.size >= _SHARED else 1)
        return out

    return product


@dataclass(frozen=True, eq=False)
class BatchMeans:
    """Means of both layers a row, the product of the visible ones with weights, steps taken, and if they sufficed."""

    visible: np.ndarray
    hidden: np.ndarray
    to_hidden: np.ndarray
    n_iters: Ints
    converged: Bools


def mean_field_rows(
    weights: np.ndarray,
    visible_bias: np.ndarray,
    hidden_bias: np.ndarray,
    max_iters: int,
    tol: float,
    order: int = 1,
    product: Product = np.matmul,
) -> BatchMeans:
    """Alternate between the layers from means of a half, visible first, until no mean moves more than ``tol``.

    Parameters
    ----------
    weights : ndarray (n_visible, n_hidden)
        In the type of all arithmetic, as both biases, ``(N, units)``.
    order : {1, 2}
    product : callable
        Of rows with a matrix.
    """
    n_rows = len(visible_bias)
    visible, hidden = np.full_like(visible_bias, 0.5), np.full_like(hidden_bias, 0.5)
    to_hidden = np.empty_like(hidden) if max_iters else product(visible, weights)
    n_iters, converged = np.zeros(n_rows, np.int64), np.zeros(n_rows, np.bool_)
    update = _first_order(weights, product) if order == 1 else _second_order(weights, product)
    active = np.arange(n_rows)
    with one_thread_of_blas():
        for _ in range(max_iters):
            check_time()
            rows = slice(None) if active.size == n_rows else active
            v, h, x, change = update(visible[rows], hidden[rows], visible_bias[rows], hidden_bias[rows])
            if active.size == n_rows:
                visible, hidden, to_hidden = v, h, x
            else:
                visible[rows], hidden[rows], to_hidden[rows] = v, h, x
            n_iters[active] += 1
            settled = change <= tol
            converged[active[settled]] = True
            active = active[~settled]
            if not active.size:
                break
    return BatchMeans(visible, hidden, to_hidden, n_iters, converged)


Update = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray, Floats]]


def _first_order(weights: np.ndarray, product: Product) -> Update:
    turned = np.ascontiguousarray(weights.T)

    def update(
        v: np.ndarray, h: np.ndarray, visible_bias: np.ndarray, hidden_bias: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Floats]:
        change = np.zeros(len(v), v.dtype)
        new_v = product(h, turned)
        _move(new_v, visible_bias, v, change)
        new_h = product(new_v, weights)
        x = new_h.copy()
        _move(new_h, hidden_bias, h, change)
        return new_v, new_h, x, change

    return update


def _second_order(weights: np.ndarray, product: Product) -> Update:
    squares = weights**2
    turned, turned_squares = np.ascontiguousarray(weights.T), np.ascontiguousarray(squares.T)

    def update(
        v: np.ndarray, h: np.ndarray, visible_bias: np.ndarray, hidden_bias: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Floats]:
        target = _means(product(h, turned) + visible_bias - (v - 0.5) * product(spread(h), turned_squares))
        change = _largest(target - v)
        v = v + STEP * (target - v)
        x = product(v, weights)
        target = _means(x + hidden_bias - (h - 0.5) * product(spread(v), squares))
        change = np.maximum(change, _largest(target - h))
        return v, h + STEP * (target - h), x, change

    return update


def _move(x: np.ndarray, bias: np.ndarray, old: np.ndarray, change: Floats) -> None:
    """Replace log odds without their bias by means, and raise ``change`` to how far those of a row moved."""
    if x.dtype == np.float32:
        single_means(x, bias, old, change)
        return
    x += bias
    np.maximum(change, _largest(_means(x) - old), out=change)


def _means(x: np.ndarray) -> np.ndarray:
    if x.dtype == np.float32:
        single_shares(x, np.zeros(x.shape[1], np.float32), 0, x.shape[1], np.float32(1.0))
    else:
        probabilities(x, np.zeros(x.shape[1]))
    return x


def _largest(difference: np.ndarray) -> Floats:
    result: Floats = np.maximum(difference.max(axis=1, initial=0.0), -difference.min(axis=1, initial=0.0))
    return result


def row_values(
    weights: np.ndarray,
    visible_bias: np.ndarray,
    hidden_bias: np.ndarray,
    means: BatchMeans,
    order: int,
    product: Product = np.matmul,
) -> Floats:
    """Return the mean-field value of each row, of the order asked for.

    Of the first order it is that of the best hidden means given the visible ones, which the last update has made:
    ``b v + H(v) + sum_j log(1 + exp(x_j))`` for the log odds x of hidden units.
    """
    v, x = means.visible, means.to_hidden
    values: Floats = np.zeros(len(v))
    entropy_sums(v, values)
    if order == 1:
        scores(v, visible_bias, x + hidden_bias, values)
        return values
    h = means.hidden
    entropy_sums(h, values)
    values += np.einsum("ri,ri->r", v, visible_bias, dtype=np.float64)
    values += (h * hidden_bias).sum(axis=1, dtype=np.float64) + (x * h).sum(axis=1, dtype=np.float64)
    values += 0.5 * (product(spread(v), weights**2) * spread(h)).sum(axis=1, dtype=np.float64)
    return values
