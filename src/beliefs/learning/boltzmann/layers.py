"""The matrix products and draws of a mini-batch, side by side and in place.

A product is cut by the units that it is for, into pieces that depend on the sizes alone; draws are cut by rows, whose
random numbers are functions of (key, row, unit). So every number of threads gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from beliefs.kernels.boltzmann.layers import draw_units, probabilities, residuals
from beliefs.kernels.boltzmann.single import draw_single, single_probabilities, single_residuals
from beliefs.learning.boltzmann.parameters import Parts
from beliefs.learning.parallel import WORTH_SHARING, Executor
from beliefs.typing import Floats

__all__ = ["Buffers", "Layers"]

_UNITS = 192  # of a piece, about
_LANES = 32  # whole blocks of units are quicker than others
_DRAWN = {4: 2**18, 8: 2**16}  # units, by the bytes of a number, from which threads share their draws: some 60 us


class Buffers:
    """Memory that one evaluation after the other uses again, by name; a copy begins without any."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return an array with anything in it: the first rows of one that is large enough."""
        found = self._arrays.get(name)
        fits = found is not None and found.shape[1:] == shape[1:] and found.dtype == dtype and len(found) >= shape[0]
        if found is None or not fits:
            found = self._arrays[name] = np.empty(shape, dtype)
        return found[: shape[0]]

    def __reduce__(self) -> Any:
        return Buffers, ()

    def __repr__(self) -> str:
        return "buffers"


class Layers:
    """What is done with a machine's weights: products with either layer, and draws of it."""

    def __init__(self, parts: Parts, executor: Executor, buffers: Buffers) -> None:
        self.weights, self.executor, self.buffers = parts.weights, executor, buffers
        self.visible_bias, self.hidden_bias = (bias.astype(np.float64) for bias in parts[1:])

    # -- products -------------------------------------------------------------------------------------------------
    def to_hidden(self, visible: np.ndarray, out: np.ndarray) -> None:
        """Write the product of visible rows with the weights."""
        w = self.weights
        self._cut(w.shape[1], visible.size * w.shape[1], lambda j: np.matmul(visible, w[:, j], out=out[:, j]))

    def to_visible(self, hidden: np.ndarray, out: np.ndarray) -> None:
        """Write the product of hidden rows with the weights.

        In single precision libraries are slow to read the second factor by columns, so the product is made turned.
        """
        w = self.weights
        turned = self.buffers.array("turned", (w.shape[0], len(hidden)), w.dtype)

        def product(i: slice) -> None:
            if w.dtype == np.float32:
                np.matmul(w[i], hidden.T, out=turned[i])
                out[:, i] = turned[i].T
            else:
                np.matmul(hidden, w[i].T, out=out[:, i])

        self._cut(w.shape[0], hidden.size * w.shape[0], product)

    def pairs(self, visible: np.ndarray, hidden: np.ndarray, out: np.ndarray) -> None:
        """Write the sum over rows of products of visible and hidden units."""
        n = visible.shape[1]
        self._cut(n, visible.size * hidden.shape[1], lambda i: np.matmul(visible[:, i].T, hidden, out=out[i]))

    def _cut(self, n_units: int, work: int, task: Callable[[slice], Any]) -> None:
        if work < WORTH_SHARING or n_units < 2 * _UNITS:
            task(slice(None))
            return
        n_pieces = 1 << ((n_units // _UNITS).bit_length() - 1)
        cuts = [round(k * n_units / n_pieces / _LANES) * _LANES for k in range(n_pieces)] + [n_units]

        def run(begin: int, end: int) -> None:
            for k in range(begin, end):
                task(slice(cuts[k], cuts[k + 1]))

        self.executor.chunks(run, n_pieces)

    # -- draws ----------------------------------------------------------------------------------------------------
    def hidden_probabilities(self, x: np.ndarray) -> None:
        """Replace products by probabilities of hidden units."""
        self.probabilities(x, self.hidden_bias)

    def probabilities(self, x: np.ndarray, bias: Floats) -> None:
        """Replace pre-activations without their bias by probabilities."""
        if x.dtype == np.float32:
            narrow = bias.astype(np.float32)
            self._rows(x, lambda rows: single_probabilities(x[rows], narrow))
        else:
            self._rows(x, lambda rows: probabilities(x[rows], bias))

    def residuals(self, x: np.ndarray, bits: np.ndarray, out: Floats) -> None:
        """Replace log odds of units by probabilities less bits, and add each row's negative log-likelihood."""
        ask = single_residuals if x.dtype == np.float32 else residuals
        self._rows(x, lambda rows: ask(x[rows], bits[rows], out[rows]))

    def draw_hidden(self, x: np.ndarray, key: np.uint64, out: np.ndarray) -> None:
        """Replace products by probabilities of hidden units, and draw them."""
        self.draw(x, self.hidden_bias, key, out)

    def draw_visible(self, y: np.ndarray, key: np.uint64, out: np.ndarray) -> None:
        """Replace products by probabilities of visible units, and draw them."""
        self.draw(y, self.visible_bias, key, out)

    def draw(self, x: np.ndarray, bias: Floats, key: np.uint64, out: np.ndarray) -> None:
        """Replace pre-activations without their bias by probabilities, and draw units with these."""
        if x.dtype == np.float32:
            narrow = bias.astype(np.float32)
            self._rows(x, lambda rows: draw_single(x[rows], narrow, key, rows.start, out[rows]))
            return
        ones, none = np.ones(len(x)), np.zeros(len(bias))
        self._rows(x, lambda rows: draw_units(x[rows], ones[rows], bias, none, key, rows.start, out[rows]))

    def _rows(self, x: np.ndarray, task: Callable[[slice], Any]) -> None:
        n_rows = len(x)
        lots = 1 if x.size < _DRAWN[x.itemsize] else min(self.executor.n_workers, n_rows)

        def run(begin: int, end: int) -> None:
            task(slice(begin * n_rows // lots, end * n_rows // lots))

        self.executor.chunks(run, lots)
