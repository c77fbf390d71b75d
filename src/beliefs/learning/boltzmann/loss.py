r"""What a loss of a machine on rows is: a mean over rows, and a ridge on the weights alone.

.. math:: R(W, b, a) = \frac1N \sum_n L(v_n; W, b, a) + \lambda \sum_{ij} w_{ij}^2

Weights and gradients are vectors of the machine's type (:mod:`beliefs.learning.boltzmann.parameters`). Rows become
floats a mini-batch at a time; the gradient is written to memory that the next evaluation uses again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import get_blas_funcs

from beliefs.learning.batches import Batch, BatchLoss, Total
from beliefs.learning.boltzmann.layers import Buffers, Layers
from beliefs.learning.boltzmann.parameters import MachineShape
from beliefs.learning.boltzmann.rows import BitRows, joined
from beliefs.learning.fit_loss import Evaluation, GradientBlocks
from beliefs.learning.parallel import Executor, executor_of
from beliefs.options import check_option, is_word
from beliefs.typing import Floats

__all__ = ["RowBatch", "RowLoss", "RowTotal"]


@dataclass(eq=False)
class RowTotal(Total):
    """Means over rows under way, and the ridge; ``grad`` is lent.

    ``bounds`` and ``upper`` are as in the base, of the mean. With ``in_blocks`` a loss may leave the gradient to
    ``blocks``.
    """

    n_ridged: int = 0
    in_blocks: bool = False
    blocks: GradientBlocks | None = None

    def evaluation(self, weights: Floats, l2: float) -> Evaluation:
        """Return the mean with its ridge."""
        value, upper, blocks = self.value, self.upper, self.blocks
        if l2:
            w = weights[: self.n_ridged]
            ridge = l2 * float(w @ w)
            value, upper = value + ridge, upper + ridge
            if blocks is None:
                _add(2.0 * l2, w, self.grad[: self.n_ridged])
            else:
                blocks = _with_ridge(blocks, w, 2.0 * l2)
        bound = next(iter(self.bounds)) if len(self.bounds) == 1 else None
        return Evaluation(
            value, self.grad if blocks is None else self.grad[:0], self.n_instances,
            n_not_converged=self.n_not_converged, bound=bound, upper=upper, blocks=blocks,
        )  # fmt: skip


def _add(factor: float, w: Floats, out: Floats) -> None:
    get_blas_funcs("axpy", (w,))(w, out, a=factor)


def _with_ridge(blocks: GradientBlocks, w: Floats, factor: float) -> GradientBlocks:
    """Return the blocks with the gradient of the ridge on the first weights, ``w``."""
    begins = (0, *blocks.ends)

    def write(k: int, out: Floats) -> None:
        blocks.write(k, out)
        some = w[begins[k] : begins[k + 1]]
        if some.size:
            _add(factor, some, out[: some.size])

    return GradientBlocks(blocks.ends, write)


@dataclass(frozen=True, eq=False)
class RowBatch(Batch):
    """Rows for one loss."""

    loss: RowLoss
    rows: BitRows

    def add_to(self, total: Total, weights: Floats, executor: Executor) -> None:
        """Have the loss evaluated on the rows."""
        assert isinstance(total, RowTotal)
        total.n_instances += len(self.rows)
        total.n_labelled += len(self.rows)
        with np.errstate(over="ignore", invalid="ignore"):
            self._add_mean(total, weights, executor)

    def _add_mean(self, total: RowTotal, weights: Floats, executor: Executor) -> None:
        self.loss.add_rows(total, Layers(self.loss.shape.parts(weights), executor, self.loss._buffers), self.rows)


@dataclass(frozen=True, kw_only=True)
class RowLoss(BatchLoss):
    """Base of the losses of machines.

    Parameters
    ----------
    shape : MachineShape
        Sizes of the layers.
    dtype : "float32" or "float64"
        Of weights, products and gradients.
    l2 : float
        The ridge on the weights, relative to the loss per row; biases have none.
    threads : int, optional
        It changes no byte of the answer.
    """

    shape: MachineShape
    dtype: str = "float32"
    _buffers: Buffers = field(default_factory=Buffers, init=False, repr=False, compare=False)

    by_row: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(is_word(self.dtype, ("float32", "float64")), "dtype", "'float32' or 'float64'", self.dtype)

    @property
    def n_weights(self) -> int:
        """All numbers of the machine."""
        return self.shape.n_weights

    @property
    def weight_type(self) -> Any:
        """The type of the weights and of gradients."""
        return np.dtype(self.dtype)

    def ridge(self, weights: Floats) -> float:
        """Return the ridge: of weights, not of biases."""
        w = weights[: self.shape.n_couplings]
        return self.l2 * float(w @ w)

    def total(self) -> RowTotal:
        """Return a sum without any terms, whose gradient is written by the first of them."""
        grad = self._buffers.array("gradient", (self.n_weights,), self.weight_type)
        return RowTotal(grad, n_ridged=self.shape.n_couplings)

    def batches(self, data: Any) -> Iterable[Batch]:
        """Return the rows as one batch."""
        return (RowBatch(self, joined(data)),)

    def evaluate_in_blocks(self, weights: Floats, data: Any) -> Evaluation:
        """Return what ``evaluate`` does, with the gradient in blocks where the loss has them."""
        weights, total = np.asarray(weights, self.weight_type), self.total()
        total.in_blocks = True
        for batch in self.batches(data):
            batch.add_to(total, weights, executor_of(self.threads))
        return total.evaluation(weights, self.l2)

    @abstractmethod
    def add_rows(self, total: RowTotal, layers: Layers, rows: BitRows) -> None:
        """Write the mean over rows to ``total.value``, and its gradient to ``total.grad``."""

    def array(self, name: str, *shape: int, dtype: Any = None) -> np.ndarray:
        """Return memory of the weights' type for one purpose."""
        return self._buffers.array(name, shape, self.weight_type if dtype is None else dtype)
