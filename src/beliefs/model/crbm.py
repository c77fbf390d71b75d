r"""Conditional restricted Boltzmann machines: an RBM whose biases depend on inputs.

.. math::
    p(v, h \mid x) \propto \exp(v^T W^{vh} h + v^T W^{vx} x + h^T W^{hx} x + v^T b^v + h^T b^h)

([mnih2011]; [ping2016] Eqs. (2.11)-(2.13)). Given x it is the RBM with weights :math:`W^{vh}` and biases
:math:`b^v + W^{vx} x`, :math:`b^h + W^{hx} x`; without hidden units, a logistic regression for each visible one.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.kernels.boltzmann.row_chains import row_products
from beliefs.model.frozen import TwoLayers
from beliefs.model.machine import bias_of, finite_numbers, number_array, weight_table
from beliefs.model.rbm import RBM
from beliefs.model.rbm_batch import RBMBatch
from beliefs.typing import Floats

__all__ = ["CRBM", "checked_inputs"]

_ROWS = 4096  # that are looked at together


class CRBM(TwoLayers):
    """A conditional restricted Boltzmann machine. It does not change.

    Parameters
    ----------
    weights : array_like (n_visible, n_hidden)
        :math:`W^{vh}`. There may be no hidden units.
    visible_input : array_like (n_visible, n_inputs)
        :math:`W^{vx}`.
    hidden_input : array_like (n_hidden, n_inputs)
        :math:`W^{hx}`.
    visible_bias, hidden_bias : array_like, optional
        Zeros unless given.

    Examples
    --------
    >>> crbm = CRBM([[1.0]], visible_input=[[2.0, 0.0]], hidden_input=[[0.0, -1.0]])
    >>> crbm.given([1.0, 3.0]).visible_bias, crbm.given([1.0, 3.0]).hidden_bias
    (array([2.]), array([-3.]))
    >>> crbm.given([[1.0, 3.0], [0.0, 0.0]])
    RBMBatch(2 machines of 1 visible, 1 hidden units, float64)
    """

    weights: np.ndarray
    visible_input: np.ndarray
    hidden_input: np.ndarray
    visible_bias: np.ndarray
    hidden_bias: np.ndarray

    def __init__(
        self,
        weights: ArrayLike,
        visible_input: ArrayLike,
        hidden_input: ArrayLike,
        visible_bias: ArrayLike | None = None,
        hidden_bias: ArrayLike | None = None,
    ) -> None:
        table = weight_table(weights)
        n, m = table.shape
        inputs = {"visible_input": finite_numbers(visible_input, "visible_input")}
        inputs["hidden_input"] = finite_numbers(hidden_input, "hidden_input")
        width = inputs["visible_input"].shape[-1] if inputs["visible_input"].ndim == 2 else 0
        for (name, array), units in zip(inputs.items(), (n, m), strict=True):
            if array.shape != (units, width):
                raise ModelError(f"{name} must have shape ({units}, n_inputs), found {array.shape}")
        arrays = {"weights": table, **inputs}
        arrays["visible_bias"] = bias_of(visible_bias, "visible_bias", n)
        arrays["hidden_bias"] = bias_of(hidden_bias, "hidden_bias", m)
        dtype = np.result_type(*(array.dtype for array in arrays.values() if array.size))
        for name, array in arrays.items():
            self._keep(name, np.array(array, dtype=dtype, order="C"))

    @property
    def n_inputs(self) -> int:
        """Number of inputs."""
        return int(self.visible_input.shape[1])

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        arrays = (self.weights, self.visible_input, self.hidden_input, self.visible_bias, self.hidden_bias)
        return sum(array.size for array in arrays)

    def given(self, inputs: Any) -> Any:
        """Return the machine given an input ``(n_inputs,)``, or the machines given rows of them ``(N, n_inputs)``.

        Rows may be a sparse matrix. A row makes the same machine, to the last bit, in any company.
        """
        x = checked_inputs(inputs, self.n_inputs)
        rows = (x[None] if x.ndim == 1 else x).astype(self.dtype)
        visible = _alone(rows, self._turned_inputs[0]) + self.visible_bias
        hidden = _alone(rows, self._turned_inputs[1]) + self.hidden_bias
        if x.ndim == 1:
            return RBM(self.weights, visible[0], hidden[0])
        return RBMBatch(self.weights, visible, hidden)

    @cached_property
    def _turned_inputs(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.visible_input.T, order="C"), np.array(self.hidden_input.T, order="C")

    def to_factor_graph(self) -> NoReturn:
        """Raise a ModelError: without inputs there is no one model to ask."""
        raise ModelError("expected a model (FactorGraph, BayesianNetwork, ...), found CRBM; ask the machine given(x)")

    def free_energy(self, visible: ArrayLike, given: Any) -> Floats:
        """Return F of each row of visible bits with its row of inputs: log p(v | x) = -F(v, x) - log Z(x)."""
        batch: RBM | RBMBatch = self.given(given)
        if isinstance(batch, RBM):
            raise ModelError("given must be rows of inputs, as many as there are rows of visible units")
        return batch.free_energy(visible)

    def __repr__(self) -> str:
        units = f"{self.n_visible} visible, {self.n_hidden} hidden units, {self.n_inputs} inputs"
        return f"CRBM({units}, {self.dtype})"


def _alone(rows: Any, weights: np.ndarray) -> np.ndarray:
    """Return the product of rows with a matrix, each row as if it were the only one."""
    if hasattr(rows, "tocsr"):
        return np.asarray(rows @ weights)  # goes through the numbers that a row has stored
    out = np.empty((len(rows), weights.shape[1]), weights.dtype)
    row_products(np.ascontiguousarray(rows), weights, out)
    return out


def checked_inputs(inputs: Any, width: int | None, what: str = "inputs") -> Any:
    """Return inputs as an array or a sparse matrix of so many columns, or raise a ModelError that names the cell.

    ``what`` is what messages call them.
    """
    if hasattr(inputs, "tocsr"):
        x = inputs.tocsr()
        values = x.data
    else:
        x = values = number_array(inputs, what, "numbers")
    wanted = x.shape[-1] if width is None and x.ndim else width
    if x.ndim not in (1, 2) or x.shape[-1] != wanted:
        raise ModelError(f"{what} must have shape (N, {wanted}) or ({wanted},), found {x.shape}")
    if x.dtype.kind == "f":
        _check_finite(x, values, what)
    return x


def _check_finite(x: Any, values: np.ndarray, what: str) -> None:
    """Raise for the first number that is none, looking at some rows at a time; ``values`` are those that are stored."""
    for begin in range(0, len(values), _ROWS):
        piece = values[begin : begin + _ROWS]
        if not np.isfinite(piece).all():
            first, *column = (int(k) for k in np.argwhere(~np.isfinite(piece))[0])
            at = begin + first
            if hasattr(x, "indptr"):
                place = f" in row {np.searchsorted(x.indptr, at, side='right') - 1}, column {x.indices[at]}"
            else:
                place = f" in row {at}, column {column[0]}" if column else ""
            raise ModelError(f"{what} must be finite, found {piece[(first, *column)]}{place}")
