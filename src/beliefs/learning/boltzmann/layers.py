"""The matrix products and draws of a mini-batch, side by side and in place.

A product is cut by the units that it is for, into pieces that depend on the sizes alone. What makes draws of a product
follows it piece by piece, on the same thread, while the piece is in the cache; draws by themselves are cut by rows.
Random numbers are functions of (key, row, unit). So every number of threads gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from beliefs.kernels.boltzmann.layers import draw_units, probabilities, residuals
from beliefs.kernels.boltzmann.single import draw_single, single_residuals, single_shares
from beliefs.learning.boltzmann.parameters import Parts
from beliefs.learning.parallel import WORTH_SHARING, Executor
from beliefs.typing import Floats

__all__ = ["ALL", "Buffers", "Followed", "Layers"]

Followed: TypeAlias = Callable[[slice], Any]
"""What is done with some units of a product once it is there."""

ALL = slice(None)
_UNITS = 192  # of a piece, about
_LANES = 32  # whole blocks of units are quicker than others
_DRAWN = {4: 2**18, 8: 2**16}  # units, by the bytes of a number, from which threads share their draws: some 60 us


@cache
def _cuts(n_units: int) -> list[int]:
    """Return the bounds of pieces: whole blocks of units, and a power of two of them."""
    n_pieces = 1 << ((n_units // _UNITS).bit_length() - 1)
    return [round(k * n_units / n_pieces / _LANES) * _LANES for k in range(n_pieces)] + [n_units]


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
    def to_hidden(self, visible: np.ndarray, out: np.ndarray, after: Followed | None = None) -> None:
        """Write the product of visible rows with the weights, and do what follows with the units of each piece."""
        w = self.weights
        work = visible.size * w.shape[1]
        self._cut(w.shape[1], work, lambda j: np.matmul(visible, w[:, j], out=out[:, j]), after)

    def to_visible(self, hidden: np.ndarray, out: np.ndarray, after: Followed | None = None) -> None:
        """Write the product of hidden rows with the weights, and do what follows with the units of each piece.

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

        self._cut(w.shape[0], hidden.size * w.shape[0], product, after)

    def pairs(self, visible: np.ndarray, hidden: np.ndarray, out: np.ndarray) -> None:
        """Write the sum over rows of products of visible and hidden units."""
        n = visible.shape[1]
        self._cut(n, visible.size * hidden.shape[1], lambda i: np.matmul(visible[:, i].T, hidden, out=out[i]))

    def cuts(self) -> list[int] | None:
        """Return where the weights are cut by visible units, whatever the work is; None: nowhere."""
        n = self.weights.shape[0]
        return _cuts(n) if n >= 2 * _UNITS else None

    def _cut(self, n_units: int, work: int, task: Callable[[slice], Any], after: Followed | None = None) -> None:
        if work < WORTH_SHARING or n_units < 2 * _UNITS:
            task(ALL)
            if after:
                after(ALL)
            return
        at_once = after if self.weights.dtype == np.float32 else None  # the other kernels draw whole rows
        cuts = _cuts(n_units)

        def run(begin: int, end: int) -> None:
            for k in range(begin, end):
                units = slice(cuts[k], cuts[k + 1])
                task(units)
                if at_once:
                    at_once(units)

        self.executor.chunks(run, len(cuts) - 1)
        if after and not at_once:
            after(ALL)

    # -- draws ----------------------------------------------------------------------------------------------------
    def hidden_probabilities(self, x: np.ndarray, units: slice = ALL, share: float = 1.0) -> None:
        """Replace products by a multiple of probabilities of hidden units."""
        self.probabilities(x, self.hidden_bias, units, share)

    def probabilities(self, x: np.ndarray, bias: Floats, units: slice = ALL, share: float = 1.0) -> None:
        """Replace pre-activations without their bias by a multiple of probabilities."""
        if x.dtype == np.float32:
            begin, end, _ = units.indices(len(bias))
            narrow, factor = bias.astype(np.float32), np.float32(share)
            self._rows(x, units, lambda rows: single_shares(x[rows], narrow, begin, end, factor))
            return
        self._rows(x, units, lambda rows: probabilities(x[rows], bias))
        if share != 1.0:
            x *= share

    def residuals(self, x: np.ndarray, bits: np.ndarray, out: Floats) -> None:
        """Replace log odds of units by probabilities less bits, and add each row's negative log-likelihood."""
        ask = single_residuals if x.dtype == np.float32 else residuals
        self._rows(x, ALL, lambda rows: ask(x[rows], bits[rows], out[rows]))

    def draw_hidden(
        self, x: np.ndarray, key: np.uint64, out: np.ndarray, units: slice = ALL, share: float = 1.0
    ) -> None:
        """Replace products by a multiple of probabilities of hidden units, and draw them."""
        self.draw(x, self.hidden_bias, key, out, units, share)

    def draw_visible(self, y: np.ndarray, key: np.uint64, out: np.ndarray, units: slice = ALL) -> None:
        """Replace products by probabilities of visible units, and draw them."""
        self.draw(y, self.visible_bias, key, out, units)

    def draw(
        self, x: np.ndarray, bias: Floats, key: np.uint64, out: np.ndarray, units: slice = ALL, share: float = 1.0
    ) -> None:
        """Draw units with the probabilities that belong to pre-activations without their bias, and leave a multiple."""
        if x.dtype == np.float32:
            begin, end, _ = units.indices(len(bias))
            narrow, factor = bias.astype(np.float32), np.float32(share)
            self._rows(
                x, units, lambda rows: draw_single(x[rows], narrow, key, rows.start, begin, end, factor, out[rows])
            )
            return
        ones, none = np.ones(len(x)), np.zeros(len(bias))
        self._rows(x, units, lambda rows: draw_units(x[rows], ones[rows], bias, none, key, rows.start, out[rows]))
        if share != 1.0:
            x *= share

    def _rows(self, x: np.ndarray, units: slice, task: Callable[[slice], Any]) -> None:
        n_rows = len(x)
        if units is not ALL or x.size < _DRAWN[x.itemsize]:  # some units: those of this thread
            task(slice(0, n_rows))
            return
        lots = min(self.executor.n_workers, n_rows)

        def run(begin: int, end: int) -> None:
            task(slice(begin * n_rows // lots, end * n_rows // lots))

        self.executor.chunks(run, lots)
