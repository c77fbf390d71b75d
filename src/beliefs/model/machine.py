r"""What restricted Boltzmann machines share: two layers of binary units, and the law of one with the other summed out.

.. math::
    p(v) \propto e^{-F(v)}, \qquad -F(v) = v^T b + \sum_j c_j \log(1 + e^{w_j^T v + a_j})

=====================  =======================================
:math:`w_j`            column j of ``weights``
:math:`b, a`           ``visible_bias``, ``hidden_bias``
:math:`c_j`            ``counts``: how often unit j is there
=====================  =======================================

An ordinary machine has every unit once. Parameters keep the type they come in, float32 or float64; free energies are
float64 whatever that is. Rows of bits are read a piece at a time, so memory does not grow with their number.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.kernels.boltzmann.layers import probabilities, softplus_sums
from beliefs.model.factor import LARGEST_LOG
from beliefs.model.frozen import TwoLayers
from beliefs.model.graph import FactorGraph
from beliefs.model.views import Variables
from beliefs.options import shown
from beliefs.typing import Evidence, Floats

if TYPE_CHECKING:
    from beliefs.model.clamped_rbm import ClampedRBM

__all__ = [
    "BoltzmannMachine",
    "bias_of",
    "bit_rows",
    "checked_bits",
    "finite_numbers",
    "given_layer",
    "number_array",
    "weight_table",
]

_PIECE = 2**21  # cells of a piece of rows
_ROWS = 4096  # of a piece, where rows are short
_NARROW = 1e30  # the largest number of a float32 machine: sums over all units of a layer stay finite


class BoltzmannMachine(TwoLayers):
    """Two layers of binary units; see :class:`beliefs.RBM` and :class:`beliefs.FractionalRBM`.

    Attributes
    ----------
    weights : ndarray (n_visible, n_hidden)
    visible_bias : ndarray (n_visible,)
    hidden_bias : ndarray (n_hidden,)
        All read-only and of one type, float32 or float64.
    counts : ndarray (n_hidden,)
        How often each hidden unit is there, float64.
    """

    weights: np.ndarray
    visible_bias: np.ndarray
    hidden_bias: np.ndarray
    counts: Floats

    def _set(self, weights: ArrayLike, visible_bias: ArrayLike | None, hidden_bias: ArrayLike | None) -> None:
        """Check the parameters and keep copies that nobody can change."""
        table = weight_table(weights)
        n_visible, n_hidden = table.shape
        arrays = {
            "weights": table,
            "visible_bias": bias_of(visible_bias, "visible_bias", n_visible),
            "hidden_bias": bias_of(hidden_bias, "hidden_bias", n_hidden),
        }
        dtype = np.result_type(*(array.dtype for array in arrays.values() if array.size))
        for name, array in arrays.items():
            self._keep(name, np.array(array, dtype=dtype, order="C"))

    @property
    def n_vars(self) -> int:
        """Number of units."""
        return self.n_visible + self.n_hidden

    def free_energy(self, visible: ArrayLike) -> Floats:
        """Return F of each row of visible bits, ``(N, n_visible)`` in and ``(N,)`` out: log p(v) = -F(v) - log Z."""
        rows = checked_bits(visible, self.n_visible, "visible units")
        weights, bias, counts = (a.astype(np.float64) for a in (self.weights, self.hidden_bias, self.counts))
        out = np.zeros(len(rows))
        for begin, piece in _pieces(rows, self.n_vars):
            here = out[begin : begin + len(piece)]
            here += piece @ self.visible_bias.astype(np.float64)
            softplus_sums(piece @ weights, bias, counts, 1.0, here)
        return -out

    def hidden_probability(self, visible: ArrayLike) -> np.ndarray:
        """Return P(h = 1) of every hidden unit given each row of visible bits, ``(N, n_hidden)``."""
        rows = checked_bits(visible, self.n_visible, "visible units")
        return given_layer(rows, self.weights, self.hidden_bias)

    def softplus(self, visible: ArrayLike) -> Floats:
        """Return log(1 + exp(x)) of every hidden unit given each row of visible bits, ``(N, n_hidden)``."""
        rows = checked_bits(visible, self.n_visible, "visible units")
        x = rows.astype(np.float64) @ self.weights.astype(np.float64) + self.hidden_bias
        result: Floats = np.logaddexp(0.0, x)
        return result

    @abstractmethod
    def to_factor_graph(self) -> FactorGraph:
        """Return the equivalent factor graph, where there is one."""

    @property
    def variables(self) -> Variables:
        """The units as variables of the factor graph."""
        return self.to_factor_graph().variables

    @abstractmethod
    def condition(self, evidence: Evidence) -> ClampedRBM:
        """Return the machine with some units observed, ``{"v0": 1}``."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_visible} visible, {self.n_hidden} hidden units, {self.dtype})"


def given_layer(rows: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the probabilities of a layer's units given rows of the other, ``(N, units)``, in the weights' type."""
    x: np.ndarray = rows.astype(weights.dtype) @ weights
    probabilities(x, bias.astype(np.float64))
    return x


def number_array(values: Any, what: str, kind: str) -> np.ndarray:
    """Return an array of the type it has; a ModelError says that it must be of this ``kind``, numbers or bits."""
    try:
        found = np.asarray(values)
    except ValueError as error:  # rows of different length
        raise ModelError(f"{what} must be an array of {kind} ({' '.join(str(error).split())})") from None
    if found.dtype.kind not in "biuf":
        raise ModelError(f"{what} must be {kind}, found an array of {found.dtype}")
    return found


def checked_bits(rows: ArrayLike, width: int, what: str) -> np.ndarray:
    """Return rows of zeros and ones as they are stored, ``(N, width)``, or raise a ModelError that names the cell."""
    table = number_array(rows, what, "bits")
    if table.ndim != 2 or table.shape[1] != width:
        raise ModelError(f"{what} must have shape (N, {width}), found {table.shape}")
    if table.dtype.kind != "b":
        for begin in range(0, len(table), _ROWS):
            piece = table[begin : begin + _ROWS]
            wrong = ~((piece == 0) | (piece == 1))
            if wrong.any():
                r, i = np.argwhere(wrong)[0]
                found = shown(piece[r, i].item())
                raise ModelError(f"{what} must be 0 or 1, found {found} in row {begin + r}, unit {i}")
    return table


def bit_rows(rows: ArrayLike, width: int, what: str) -> np.ndarray:
    """Return rows of bits, of which there must be one at least."""
    table = checked_bits(rows, width, what)
    if not len(table):
        raise ModelError(f"expected rows of {what}, found none")
    return table


def _pieces(rows: np.ndarray, width: int) -> Iterator[tuple[int, Floats]]:
    """Yield the rows piece by piece in float64, each with the number of its first."""
    size = max(1, min(_ROWS, _PIECE // max(width, 1)))
    for begin in range(0, len(rows), size):
        yield begin, rows[begin : begin + size].astype(np.float64)


def finite_numbers(values: ArrayLike, what: str) -> np.ndarray:
    """Return an array of finite numbers, of float32 if that is what it comes in, else of float64."""
    try:
        given = np.asarray(values)
        if given.dtype.kind == "c":
            raise TypeError("they are complex")
        array = given if given.dtype in (np.float32, np.float64) else np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{what} must be an array of numbers ({error})") from None
    most = _NARROW if array.dtype == np.float32 else LARGEST_LOG
    fine = np.abs(array, dtype=np.float64) <= most  # False for nan as well
    if not fine.all():
        raise ModelError(f"{what} must be finite (up to {most:g}), found {array[~fine].flat[0]}")
    return array


def weight_table(weights: ArrayLike) -> np.ndarray:
    """Return weights between two layers, of which the first has units."""
    table = finite_numbers(weights, "weights")
    if table.ndim != 2 or table.shape[0] < 1:
        raise ModelError(f"weights must have shape (n_visible, n_hidden) with n_visible > 0, found {table.shape}")
    return table


def bias_of(values: ArrayLike | None, what: str, length: int) -> np.ndarray:
    """Return a bias, zeros where none is given (of the narrow type, so that they widen nothing)."""
    if values is None:
        return np.zeros(length, np.float32)
    array = finite_numbers(values, what)
    if array.shape != (length,):
        raise ModelError(f"{what} must have shape ({length},), found {array.shape}")
    return array
