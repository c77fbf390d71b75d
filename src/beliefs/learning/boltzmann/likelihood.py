r"""The likelihood of a machine, exact, or with the log Z of another method in the place of the true one.

.. math:: L = \frac1N \sum_n F(v_n) + \log Z, \qquad
          \frac{\partial L}{\partial w_{ij}} = \mathrm{E}[v_i h_j] - \frac1N \sum_n v_{ni}\, p(h_j = 1 \mid v_n)

``likelihood`` enumerates the smaller layer, so it is for machines with a layer of up to about 22 units; the
gradient is exact. ``surrogate_likelihood`` asks any method that has marginals; where those are the gradient of the
method's log Z (``mean_field``, ``mean_field(order=2)`` at convergence) it can be minimised by L-BFGS, else by
mini-batches. What the value is worth of the exact one is said (``bound``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Status
from beliefs.errors import BudgetError, UnsupportedError
from beliefs.inference.base import Method, Task
from beliefs.inference.doors import infer
from beliefs.inference.quiet import quietly
from beliefs.inference.variational.mean_field import MeanField
from beliefs.kernels.boltzmann.layers import probabilities, softplus_sums
from beliefs.learning.boltzmann.layers import Layers
from beliefs.learning.boltzmann.loss import RowLoss, RowTotal
from beliefs.learning.boltzmann.rows import BitRows
from beliefs.model.rbm import RBM
from beliefs.options import check_integer, check_option

__all__ = ["Likelihood", "SurrogateLikelihood"]


@dataclass(frozen=True, kw_only=True)
class Likelihood(RowLoss):
    """The negative log-likelihood, exact."""

    name: ClassVar[str] = "likelihood"

    def asked(self, machine: RBM, threads: int) -> Any:
        """Return log Z and marginals."""
        try:
            return infer(machine, "enumeration", threads=threads)
        except BudgetError as error:
            raise BudgetError(f"the machine is too large for the exact likelihood: {error}") from None

    def add_rows(self, total: RowTotal, layers: Layers, rows: BitRows) -> None:
        """Write the mean over all rows and its gradient."""
        shape, share = self.shape, 1.0 / len(rows)
        weights = layers.weights.astype(np.float64)
        found = self.asked(RBM(weights, layers.visible_bias, layers.hidden_bias), layers.executor.n_workers)
        grad = np.zeros(shape.n_weights)
        parts = shape.parts(grad)
        energy = np.zeros(len(rows))
        for where, visible in rows.pieces(np.float64):
            x = visible @ weights
            here = energy[where]
            here += visible @ layers.visible_bias
            softplus_sums(x, layers.hidden_bias, np.ones(shape.n_hidden), 1.0, here)
            probabilities(x, layers.hidden_bias)
            parts.weights[:] -= visible.T @ x
            parts.visible_bias[:] -= visible.sum(axis=0)
            parts.hidden_bias[:] -= x.sum(axis=0)
        grad *= share
        for part, mean in zip(parts, (found.pairs, found.visible, found.hidden), strict=True):
            part += mean
        total.grad[:] = grad
        mean_energy = -float(energy.mean())
        total.value, total.upper = mean_energy + found.log_z, mean_energy + found.log_upper
        total.bounds.add(found.bound)
        total.n_not_converged += int(found.status not in (Status.CONVERGED, Status.MAX_ITERS))


@dataclass(frozen=True, kw_only=True)
class SurrogateLikelihood(Likelihood):
    """The likelihood with another log Z.

    Parameters
    ----------
    method : Method
        Anything that answers ``infer`` with marginals.
    max_iters : int, optional
        When inference stops; None: the method's own.
    """

    method: Method = MeanField()
    max_iters: int | None = None

    name: ClassVar[str] = "surrogate_likelihood"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(isinstance(self.method, Method), "method", "a method, such as MeanField()", self.method)
        check_integer("max_iters", self.max_iters, 1, none=True)
        if not (self.method.has_marginals and Task.INFER in self.method.tasks):
            raise UnsupportedError(f"{self.method} has no marginals, so the loss has no gradient; use another method")

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        """Whether the method's answers are estimates that a line search cannot use."""
        return not self.method.deterministic

    def asked(self, machine: RBM, threads: int) -> Any:
        """Ask the method; it judges the fit that ends, not every step of it."""
        with quietly():
            return infer(machine, self.method, threads=threads, max_iters=self.max_iters)
