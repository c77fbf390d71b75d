r"""What a loss of a conditional machine is: a mean over rows of inputs and bits, and a ridge on the matrices.

Given inputs a conditional machine is an RBM with biases of its own,

.. math:: b = b^v + W^{vx} x, \qquad a = b^h + W^{hx} x,

and every loss here has a gradient of one form ([ping2016] section 6.2 and after): averages of the model, whatever these
are, less averages of the data,

.. math::
    \nabla W^{vh} = E[v h^T] - v \mu^T, \quad \nabla W^{vx} = (E[v] - v) x^T, \quad
    \nabla W^{hx} = (E[h] - \mu) x^T, \quad \nabla b^v = E[v] - v, \quad \nabla b^h = E[h] - \mu .

A loss says what the averages are (:class:`Averages`); the products are made here. Rows become floats a piece at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.base import Bound
from beliefs.kernels.boltzmann.layers import scores
from beliefs.learning.batches import Batch
from beliefs.learning.boltzmann.conditional.parameters import ConditionalParts, ConditionalShape
from beliefs.learning.boltzmann.conditional.rows import PairedRows
from beliefs.learning.boltzmann.layers import Layers
from beliefs.learning.boltzmann.loss import RowBatch, RowLoss, RowTotal
from beliefs.learning.boltzmann.parameters import Parts
from beliefs.learning.boltzmann.rows import BitRows
from beliefs.learning.parallel import Executor
from beliefs.typing import Floats

__all__ = ["Averages", "ConditionalLoss", "Given"]

_PIECE = 512  # rows that are worked on together


class Given(NamedTuple):
    """A piece of rows, and the machines that they make of the inputs."""

    inputs: np.ndarray  # (rows, n_inputs)
    bits: np.ndarray  # (rows, n_visible): 0, 1, or -1 where hidden
    visible_bias: np.ndarray  # (rows, n_visible)
    hidden_bias: np.ndarray  # (rows, n_hidden)
    layers: Layers
    n_pass: int

    @property
    def weights(self) -> np.ndarray:
        """The weights between the layers."""
        return self.layers.weights

    def hidden(self, visible: np.ndarray) -> np.ndarray:
        """Return P(h = 1) given visible rows, ``(rows, n_hidden)``."""
        x = self.activation(visible)
        self.layers.probabilities(x, np.zeros(x.shape[1]))
        return x

    def activation(self, visible: np.ndarray) -> np.ndarray:
        """Return the log odds of hidden units given visible rows."""
        x = np.empty_like(self.hidden_bias)
        self.layers.to_hidden(visible, x)
        x += self.hidden_bias
        return x

    def scores(self, visible: np.ndarray, x: np.ndarray) -> Floats:
        """Return the negative free energy of visible rows from the log odds that they give hidden units."""
        out: Floats = np.zeros(len(visible))
        scores(visible, self.visible_bias, x, out)
        return out


class Averages(NamedTuple):
    """What a loss found on a piece: values a row, and what the model and the data have on average.

    ``pairs`` is the difference of the sums over rows of E[v h], ``(n_visible, n_hidden)``. Differences are in memory
    that whoever adds them up may write to.
    """

    values: Floats
    visible: np.ndarray  # (rows, n_visible): the model's less the data's
    hidden: np.ndarray  # (rows, n_hidden)
    pairs: np.ndarray
    bound: Bound | None = None
    n_not_converged: int = 0


@dataclass(eq=False)
class PassRecord:
    """Of every pass: how many rows inference settled for, of how many; and the pass of the last update."""

    counts: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    n_pass: int = 0

    def add(self, n_pass: int, settled: int, rows: int) -> None:
        """Count rows of a mini-batch."""
        if n_pass >= len(self.counts):
            more = np.zeros((n_pass + 1 - len(self.counts), 2))
            self.counts = np.concatenate([self.counts, more])
        self.counts[n_pass] += settled, rows
        self.n_pass = n_pass


@dataclass(frozen=True, eq=False)
class PairedBatch(RowBatch):
    """Rows of inputs and bits for one loss, evaluated piece by piece."""

    loss: ConditionalLoss
    rows: PairedRows  # type: ignore[assignment]

    def _add_mean(self, total: RowTotal, weights: Floats, executor: Executor) -> None:
        loss, n_rows = self.loss, len(self.rows)
        for begin in range(0, n_rows, _PIECE):
            given = loss.given(weights, self.rows, slice(begin, min(begin + _PIECE, n_rows)), executor)
            self._add(total, given, loss.averages(given), begin == 0, executor)

    def _add(self, total: RowTotal, given: Given, found: Averages, first: bool, executor: Executor) -> None:
        """Add what a piece has; the first one writes to memory that holds anything."""
        loss, grad, share = self.loss, self.loss.parts(total.grad), 1.0 / len(self.rows)
        total.value += share * float(found.values.sum())
        total.upper += share * float(found.values.sum()) if found.bound in (Bound.EXACT, Bound.UPPER) else np.inf
        total.bounds.add(found.bound)
        total.n_not_converged += found.n_not_converged
        loss.record.add(given.n_pass, len(given.bits) - found.n_not_converged, len(given.bits))
        pieces = [(grad.weights, np.multiply(found.pairs, share, out=grad.weights if first else found.pairs))]
        for difference, into, bias in (
            (found.visible, grad.visible_input, grad.visible_bias),
            (found.hidden, grad.hidden_input, grad.hidden_bias),
        ):
            scaled = np.multiply(difference, share, out=difference).astype(into.dtype, copy=False)
            if into.size:
                product = into if first else loss.array("inputs by units", *into.shape)
                loss.alone(into, executor).pairs(scaled, given.inputs, product)
                pieces.append((into, product))
            pieces.append((bias, scaled.sum(axis=0)))
        for sums, piece in pieces:
            if first and sums is not piece:
                sums[:] = piece
            elif not first:
                sums += piece


@dataclass(frozen=True, kw_only=True)
class ConditionalLoss(RowLoss):
    """Base of the losses of conditional machines; parameters as for :class:`RowLoss`."""

    shape: ConditionalShape  # type: ignore[assignment]
    record: PassRecord = field(default_factory=PassRecord, init=False, repr=False, compare=False)

    remembers: ClassVar[bool] = True
    sums_out: ClassVar[bool] = False
    """Whether bits may be hidden."""

    predicts_by: ClassVar[str] = "mean_field"
    """The inference whose marginals or states are predicted, one of ``PREDICTORS``."""

    def parts(self, vector: np.ndarray) -> ConditionalParts:
        """Return views of a vector."""
        return self.shape.parts(vector)

    def batches(self, data: Any) -> Iterable[Batch]:
        """Return the rows as one batch."""
        if not isinstance(data, PairedRows):
            raise ModelError(
                f"a loss of conditional machines takes rows of inputs and bits, found {type(data).__name__}"
            )
        return (PairedBatch(self, data),)

    def add_rows(self, total: RowTotal, layers: Layers, rows: BitRows) -> None:
        """Refuse rows without inputs."""
        raise NotImplementedError

    @abstractmethod
    def averages(self, given: Given) -> Averages:
        """Return values and averages of a piece of rows."""

    def given(self, weights: Floats, rows: PairedRows, where: slice, executor: Executor) -> Given:
        """Return a piece of rows as floats, and the biases that their inputs make."""
        parts, count = self.parts(weights), where.stop - where.start
        n, m, d = self.shape
        inputs, bits = self.array("inputs", count, d), self.array("bits", count, n)
        rows.into(inputs, bits, where)
        layers = Layers(Parts(parts.weights, parts.visible_bias, parts.hidden_bias), executor, self._buffers)
        visible, hidden = self.array("visible bias", count, n), self.array("hidden bias", count, m)
        for made, into, bias in (
            (visible, parts.visible_input, parts.visible_bias),
            (hidden, parts.hidden_input, parts.hidden_bias),
        ):
            self.alone(into, executor).to_visible(inputs, made)
            made += bias
        return Given(inputs, bits, visible, hidden, layers, rows.n_pass)

    def alone(self, weights: np.ndarray, executor: Executor) -> Layers:
        """Return the products with one matrix."""
        none = np.zeros(0)
        return Layers(Parts(weights, none, none), executor, self._buffers)

    def n_sweeps_of(self, n_pass: int) -> int:
        """Return how many sweeps of inference a pass takes; 0: it takes none."""
        return 0

    def remembered(self) -> dict[str, np.ndarray]:
        """Return what was counted in every pass."""
        return {**super().remembered(), "passes": self.record.counts, "pass": np.array(self.record.n_pass)}

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        """Go on counting from there."""
        self.record.counts, self.record.n_pass = memory["passes"].copy(), int(memory["pass"])
        rest = {name: array for name, array in memory.items() if name not in ("passes", "pass")}
        if rest:
            super().recall(rest)
