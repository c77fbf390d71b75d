r"""Many restricted Boltzmann machines at once: one matrix of weights, and biases of each one's own.

That is what a conditional machine is given rows of inputs. No machine of a batch is made unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.kernels.boltzmann.layers import softplus_sums
from beliefs.kernels.boltzmann.row_chains import row_products
from beliefs.model.frozen import TwoLayers
from beliefs.model.machine import bit_rows, finite_numbers, weight_table
from beliefs.model.rbm import RBM
from beliefs.typing import Floats

__all__ = ["RBMBatch"]


class RBMBatch(TwoLayers):
    """Machines that share their weights; ``batch[k]`` is one of them.

    Parameters
    ----------
    weights : array_like (n_visible, n_hidden)
    visible_bias : array_like (N, n_visible)
    hidden_bias : array_like (N, n_hidden)

    Examples
    --------
    >>> batch = RBMBatch([[1.0]], [[0.0], [2.0]], [[0.0], [0.0]])
    >>> len(batch), batch[1].visible_bias
    (2, array([2.]))
    """

    weights: np.ndarray
    visible_bias: np.ndarray
    hidden_bias: np.ndarray

    def __init__(self, weights: ArrayLike, visible_bias: ArrayLike, hidden_bias: ArrayLike) -> None:
        table = weight_table(weights)
        arrays = {"weights": table}
        for name, values, width in (
            ("visible_bias", visible_bias, table.shape[0]),
            ("hidden_bias", hidden_bias, table.shape[1]),
        ):
            bias = finite_numbers(values, name)
            if bias.ndim != 2 or bias.shape[1] != width:
                raise ModelError(f"{name} must have shape (N, {width}), found {bias.shape}")
            arrays[name] = bias
        n_visible, n_hidden = len(arrays["visible_bias"]), len(arrays["hidden_bias"])
        if n_visible != n_hidden:
            raise ModelError(f"there are {n_visible} rows of visible biases and {n_hidden} of hidden ones")
        for name, array in arrays.items():
            self._keep(name, np.array(array, dtype=table.dtype, order="C"))

    def __len__(self) -> int:
        return len(self.visible_bias)

    def __getitem__(self, k: int) -> RBM:
        return RBM(self.weights, self.visible_bias[k], self.hidden_bias[k])

    def __iter__(self) -> Iterator[RBM]:
        return (self[k] for k in range(len(self)))

    def free_energy(self, visible: ArrayLike) -> Floats:
        """Return F of a row of visible bits for each machine, ``(N, n_visible)`` in and ``(N,)`` out."""
        rows = bit_rows(visible, self.n_visible, "visible units") if len(self) else np.zeros((0, self.n_visible))
        if len(rows) != len(self):
            raise ModelError(f"there are {len(self)} machines and {len(rows)} rows of visible units")
        v = rows.astype(np.float64)
        out: Floats = (v * self.visible_bias).sum(axis=1)
        x = np.empty((len(self), self.n_hidden))
        row_products(v, self.weights.astype(np.float64), x)
        x += self.hidden_bias
        softplus_sums(x, np.zeros(self.n_hidden), np.ones(self.n_hidden), 1.0, out)
        return -out

    def __repr__(self) -> str:
        units = f"{self.n_visible} visible, {self.n_hidden} hidden units"
        return f"RBMBatch({len(self)} machines of {units}, {self.dtype})"
