"""Machines that share their weights, as rows whose every number depends on no other row.

A library's matrix product adds in an order that depends on how many rows there are. Here a row's sum goes through the
units in their order, so that its bytes are the same in any company; some rows are taken together, so that a row of
weights is read from memory once for all of them, and four units together, so that a sum is read and written once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.kernels.primitives.elementary import fast_exp
from beliefs.kernels.primitives.random import stream, uniform
from beliefs.typing import Floats

__all__ = ["RowChains", "RowMachines", "RowSums", "draw_rows", "row_products", "sweep_rows"]

_ROWS = 64  # whose sums stay in the cache while all weights pass


class RowMachines(NamedTuple):
    """One matrix, either way round, and the biases of each row."""

    weights: Any  # (n_visible, n_hidden): float32 or float64
    turned: Any  # (n_hidden, n_visible): the same, its rows in one piece
    visible_bias: Floats  # (rows, n_visible)
    hidden_bias: Floats  # (rows, n_hidden)


class RowChains(NamedTuple):
    """States of a chain a row, the probabilities that they were drawn with, and the keys of the random numbers."""

    visible: Any  # (rows, n_visible): 0 or 1, in the weights' type
    hidden: Any  # (rows, n_hidden)
    y: Any  # (rows, n_visible)
    x: Any  # (rows, n_hidden)
    keys: Any  # (rows,) uint64


class RowSums(NamedTuple):
    """Sums of probabilities over rows and sweeps."""

    visible: Floats  # (n_visible,)
    hidden: Floats  # (n_hidden,)
    pairs: Floats  # (n_visible, n_hidden)


@kernel
def row_products(rows: Any, weights: Any, out: Any) -> None:
    """Multiply rows by a matrix, each as if it were alone.

    Equivalent to ``out[:] = rows @ weights``, added in the order of the units.
    Shapes: ``rows (N, n)``, ``weights (n, m)``, ``out (N, m)``, of one type.
    Cost: a multiplication a row and weight, none where the row has four zeros in turn.
    Numerics: plain sums.
    """
    n_units, n_out = rows.shape[1], out.shape[1]
    whole = n_units - n_units % 4
    for begin in range(0, rows.shape[0], _ROWS):
        end = min(begin + _ROWS, rows.shape[0])
        for r in range(begin, end):
            for j in range(n_out):
                out[r, j] = 0.0
        for i in range(0, whole, 4):
            for r in range(begin, end):
                a, b, c, d = rows[r, i], rows[r, i + 1], rows[r, i + 2], rows[r, i + 3]
                if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
                    for j in range(n_out):
                        total = out[r, j] + a * weights[i, j]
                        total += b * weights[i + 1, j]
                        total += c * weights[i + 2, j]
                        out[r, j] = total + d * weights[i + 3, j]
        for i in range(whole, n_units):
            for r in range(begin, end):
                value = rows[r, i]
                if value != 0.0:
                    for j in range(n_out):
                        out[r, j] += value * weights[i, j]


@kernel
def draw_rows(x: Any, bias: Floats, keys: Any, number: int, out: Any) -> None:
    """Draw a layer of each row given the product with the other one, which its probabilities replace.

    Equivalent to ``x[:] = expit(x + bias)`` and ``out[:] = u < x`` with the random numbers
    ``u[r, j] = uniform(stream(keys[r], number), j)``.
    Shapes: ``x``, ``bias``, ``out (rows, units)``, ``keys (rows,)``.
    Cost: an exponential and a random number a cell.
    Numerics: arguments beyond 708 count as 708; the comparison is made in float64.
    """
    for r in range(x.shape[0]):
        row = stream(keys[r], number)
        for j in range(x.shape[1]):
            p = 1.0 / (1.0 + fast_exp(-(x[r, j] + bias[r, j])))
            x[r, j] = p
            out[r, j] = uniform(row, j) < p


@kernel
def sweep_rows(machines: RowMachines, chains: RowChains, first: int, n_sweeps: int, keep: bool, sums: RowSums) -> None:
    """Redraw the hidden and then the visible layer of every row some times; with ``keep`` add up probabilities.

    Equivalent to, for every sweep s from ``first`` on, ``x = visible @ weights``, drawn as in :func:`draw_rows` with
    the number 2 s + 1; ``sums.hidden += x.sum(axis=0)``, ``sums.pairs += visible.T @ x``; ``y = hidden @ turned``,
    drawn with the number 2 s + 2; ``sums.visible += y.sum(axis=0)``.
    Shapes: as the tuples say; of sums that are not kept, anything.
    Cost: of a sweep and row a multiplication for every weight and unit that is on, twice; with sums, three times.
    Numerics: as in :func:`draw_rows`; sums are float64.
    """
    visible, hidden, y, x = chains.visible, chains.hidden, chains.y, chains.x
    for s in range(first, first + n_sweeps):
        row_products(visible, machines.weights, x)
        draw_rows(x, machines.hidden_bias, chains.keys, 2 * s + 1, hidden)
        if keep:
            add_rows(x, sums.hidden)
            add_pairs(visible, x, sums.pairs)
        row_products(hidden, machines.turned, y)
        draw_rows(y, machines.visible_bias, chains.keys, 2 * s + 2, visible)
        if keep:
            add_rows(y, sums.visible)


@kernel
def add_rows(x: Any, out: Floats) -> None:
    """Add all rows to a vector: ``out += x.sum(axis=0)``."""
    for r in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[j] += x[r, j]


@kernel
def add_pairs(visible: Any, x: Any, out: Floats) -> None:
    """Add the products of two layers: ``out += visible.T @ x``, where visible units are bits."""
    for i in range(visible.shape[1]):
        for r in range(visible.shape[0]):
            if visible[r, i] != 0.0:
                for j in range(x.shape[1]):
                    out[i, j] += x[r, j]
