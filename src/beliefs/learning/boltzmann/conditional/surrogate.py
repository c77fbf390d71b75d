r"""The likelihood of bits given inputs, with log Z by belief propagation or mean field, cut off after some sweeps.

.. math:: L = \frac1N \sum_n F(v_n, x_n) + \log \tilde Z(x_n)

MLE-BP and MLE-MF of [ping2016] section 6.5: the gradient takes the beliefs of as many sweeps as
``n_sweeps + sweep_growth * pass`` for true averages. At converged messages it is the gradient of the Bethe likelihood;
before, an approximation that works as long as predictions are made with the same inference. With mean field
:math:`\tilde Z \le Z`, so the loss is a lower bound of the true one.

Bits of -1 are summed out: the free energy is then :math:`-\log \tilde Z` of the machine in which known bits have a bias
beyond everything else. Cost of a row: a sweep is a division for every weight (``bp``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from beliefs.errors import UnsupportedError
from beliefs.inference.base import Bound, Method, Task
from beliefs.inference.messages.bp import BP
from beliefs.learning.boltzmann.conditional.inference import Marginals, Sweeps, marginals
from beliefs.learning.boltzmann.conditional.loss import Averages, ConditionalLoss, Given
from beliefs.options import MANY, check_integer, check_number, check_option
from beliefs.typing import Floats

__all__ = ["ConditionalSurrogate", "SweptLoss"]

_CERTAIN = 1e4  # log odds of a known bit: more than all messages together say


@dataclass(frozen=True, kw_only=True)
class SweptLoss(ConditionalLoss):
    """What losses with iterative inference share.

    Parameters
    ----------
    n_sweeps : int
        Sweeps in the first pass.
    sweep_growth : int
        How many more there are in every further one.
    tol : float
        Rows whose beliefs move no more are done before.
    """

    n_sweeps: int = 7
    sweep_growth: int = 1
    tol: float = 1e-3

    stochastic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("n_sweeps", self.n_sweeps, 1, MANY)
        check_integer("sweep_growth", self.sweep_growth, 0, MANY)
        check_number("inference_tol", self.tol)

    def n_sweeps_of(self, n_pass: int) -> int:
        """Return the sweeps of a pass."""
        return self.n_sweeps + self.sweep_growth * n_pass

    def sweeps(self, given: Given, damping: float = 0.0) -> Sweeps:
        """Return how long inference goes on for these rows."""
        return Sweeps(self.n_sweeps_of(given.n_pass), self.tol, damping, given.layers.executor.n_workers)


@dataclass(frozen=True, kw_only=True)
class ConditionalSurrogate(SweptLoss):
    """The likelihood with the log Z of a method.

    Parameters
    ----------
    method : Method
        ``BP()``, ``MeanField()``, ``MeanField(order=2)``, or anything that answers ``infer`` with marginals, one row
        after the other.
    """

    method: Method = BP()

    name: ClassVar[str] = "surrogate_likelihood"
    sums_out: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(isinstance(self.method, Method), "inference", "a method, such as BP()", self.method)
        if not (self.method.has_marginals and Task.INFER in self.method.tasks):
            raise UnsupportedError(f"{self.method} has no marginals, so the loss has no gradient; use another method")

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        """Whether the value depends on when it is asked for: sweeps are counted, unless there are none."""
        return self.shape.n_hidden > 0 and self.method.iterative

    @property
    def predicts_by(self) -> str:  # type: ignore[override]
        """The same inference, or mean field where it has no form for rows."""
        return "sum_product" if isinstance(self.method, BP) or not self.shape.n_hidden else "mean_field"

    def averages(self, given: Given) -> Averages:
        """Return the averages of the method, and of the rows; without hidden units there is no need of a method."""
        if not self.shape.n_hidden:
            values: Floats = np.zeros(len(given.bits))
            given.layers.residuals(given.visible_bias, given.bits, values)
            return Averages(values, given.visible_bias, given.hidden_bias, np.zeros(self.shape[:2]), Bound.EXACT)
        sweeps = self.sweeps(given)
        found = marginals(self.method, given.weights, given.visible_bias, given.hidden_bias, sweeps)
        unknown = given.bits < 0
        if unknown.any():
            return self._summed_out(given, found, unknown, sweeps)
        x = given.activation(given.bits)
        values = found.log_z - given.scores(given.bits, x)
        given.layers.probabilities(x, np.zeros(x.shape[1]))
        pairs = self.array("pairs", *self.shape[:2])
        given.layers.pairs(given.bits, x, pairs)
        np.subtract(found.pair_sum, pairs, out=pairs)
        return Averages(
            values, found.visible - given.bits, found.hidden - x, pairs, found.bound, int((~found.converged).sum())
        )

    def _summed_out(self, given: Given, found: Marginals, unknown: np.ndarray, sweeps: Sweeps) -> Averages:
        """Return averages where some bits are hidden: of the machine with known bits less the free one."""
        certain = _CERTAIN * (2.0 * given.bits - 1.0)
        bias = np.where(unknown, given.visible_bias, certain).astype(given.visible_bias.dtype)
        known = marginals(self.method, given.weights, bias, given.hidden_bias, sweeps)
        bits = np.where(unknown, 0.0, given.bits)
        own: Floats = (bits * given.visible_bias - np.where(unknown, 0.0, np.maximum(certain, 0.0))).sum(axis=1)
        values = found.log_z - (known.log_z + own)
        settled = found.converged & known.converged
        return Averages(
            values, found.visible - known.visible, found.hidden - known.hidden, found.pair_sum - known.pair_sum,
            Bound.ESTIMATE, int((~settled).sum()),
        )  # fmt: skip
