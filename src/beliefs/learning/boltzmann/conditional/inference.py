"""Inference for rows of a conditional machine, as losses and predictions ask for it: a given number of sweeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.base import Bound, Method
from beliefs.inference.boltzmann.batch_mean_field import each_alone, mean_field_rows, row_values
from beliefs.inference.boltzmann.matrix_bp import LayerMessages
from beliefs.inference.doors import infer
from beliefs.inference.messages.bp import BP
from beliefs.inference.parallel import one_thread_of_blas
from beliefs.inference.quiet import quietly
from beliefs.inference.variational.mean_field import MeanField
from beliefs.model.crbm import CRBM, checked_inputs
from beliefs.model.rbm_batch import RBMBatch
from beliefs.typing import Bools, Floats

__all__ = ["PREDICTORS", "Marginals", "Sweeps", "input_rows", "marginals", "predicted_rows"]

_PIECE = 512  # rows that are predicted together


@dataclass(frozen=True)
class Sweeps:
    """How long inference goes on, and whether rows are answered as if each were alone, to the last bit."""

    n: int
    tol: float
    damping: float = 0.0
    threads: int = 1
    alone: bool = False


@dataclass(frozen=True, eq=False)
class Marginals:
    """Of every row log Z, P(v = 1), P(h = 1) and whether they settled; of all rows the sum of P(v = 1, h = 1)."""

    log_z: Floats
    visible: np.ndarray
    hidden: np.ndarray
    pair_sum: np.ndarray
    converged: Bools
    bound: Bound


def marginals(
    method: Method, weights: np.ndarray, visible_bias: np.ndarray, hidden_bias: np.ndarray, sweeps: Sweeps
) -> Marginals:
    """Ask a method about the machines of some rows."""
    if isinstance(method, BP):
        found = LayerMessages(weights, method.damping, sweeps.threads).sums(
            visible_bias, hidden_bias, sweeps.n, sweeps.tol
        )
        return Marginals(found.log_z, found.visible, found.hidden, found.pair_sum, found.converged, Bound.ESTIMATE)
    if isinstance(method, MeanField):
        means = mean_field_rows(weights, visible_bias, hidden_bias, sweeps.n, sweeps.tol, method.order)
        log_z = row_values(weights, visible_bias, hidden_bias, means, method.order)
        v, h = means.visible, means.hidden
        pair_sum = v.T @ h
        if method.order == 2:
            pair_sum += weights * ((v * (1.0 - v)).T @ (h * (1.0 - h)))
        bound = Bound.LOWER if method.order == 1 else Bound.ESTIMATE
        return Marginals(log_z, v, h, pair_sum, means.converged, bound)
    with quietly():
        batch = RBMBatch(weights, visible_bias, hidden_bias)
        limits: dict[str, Any] = {"max_iters": sweeps.n, "tol": sweeps.tol} if method.iterative else {}
        asked = infer(batch, method, threads=sweeps.threads, **limits)
    return Marginals(asked.log_z, asked.visible, asked.hidden, asked.pair_sum, asked.converged, asked.bound)


Predictor = Callable[[np.ndarray, np.ndarray, np.ndarray, Sweeps], tuple[Floats, Floats]]


def _sum_product(weights: np.ndarray, b: np.ndarray, a: np.ndarray, s: Sweeps) -> tuple[Floats, Floats]:
    found = LayerMessages(weights, s.damping, s.threads).sums(b, a, s.n, s.tol)
    return found.visible, found.hidden


def _max_product(weights: np.ndarray, b: np.ndarray, a: np.ndarray, s: Sweeps) -> tuple[Floats, Floats]:
    found = LayerMessages(weights, s.damping, s.threads).maxima(b, a, s.n, s.tol)
    return found.visible, found.hidden


def _mixed_product(weights: np.ndarray, b: np.ndarray, a: np.ndarray, s: Sweeps) -> tuple[Floats, Floats]:
    found = LayerMessages(weights, 0.0, s.threads).mixed(b, a, s.n, s.tol)
    return found.visible, found.hidden


def _mean_field(weights: np.ndarray, b: np.ndarray, a: np.ndarray, s: Sweeps) -> tuple[Floats, Floats]:
    weights, b, a = (np.array(array) for array in (weights, b, a))  # of one kind for kernels: machines do not change
    found = mean_field_rows(weights, b, a, s.n, s.tol, product=each_alone(s.threads) if s.alone else np.matmul)
    return found.visible, found.hidden


PREDICTORS: dict[str, Predictor] = {
    "sum_product": _sum_product,
    "max_product": _max_product,
    "mixed_product": _mixed_product,
    "mean_field": _mean_field,
}
"""How visible and hidden units are predicted: P(v = 1), P(h = 1), or max-beliefs whose sides of a half are states."""


def predicted_rows(model: CRBM, X: Any, how: str, sweeps: Sweeps) -> tuple[Floats, Floats]:
    """Return beliefs of both layers for rows of inputs, some rows at a time."""
    inputs = input_rows(X, model.n_inputs)
    n_rows = inputs.shape[0]
    visible, hidden = np.empty((n_rows, model.n_visible)), np.empty((n_rows, model.n_hidden))
    with one_thread_of_blas():
        for begin in range(0, n_rows, _PIECE):
            where = slice(begin, begin + _PIECE)
            batch = model.given(inputs[where])
            visible[where], hidden[where] = PREDICTORS[how](
                batch.weights, batch.visible_bias, batch.hidden_bias, sweeps
            )
    return visible, hidden


def input_rows(X: Any, width: int) -> Any:
    """Return checked rows of inputs."""
    inputs = checked_inputs(X, width, "X")
    if inputs.ndim != 2:
        raise ModelError(f"X must have shape (rows, {width}), found {inputs.shape}; pass a list of rows")
    return inputs
