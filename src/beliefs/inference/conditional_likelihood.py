r"""The log-likelihood of rows under a conditional machine, and its gradient.

.. math::
    \log p(v \mid x) = -F(v, x) - \log Z(x), \qquad
    \frac{\partial}{\partial W^{vh}} = v \mu^T - E[v h^T], \quad
    \frac{\partial}{\partial W^{vx}} = (v - E[v]) x^T, \quad \frac{\partial}{\partial W^{hx}} = (\mu - E[h]) x^T

with :math:`\mu = P(h = 1 \mid v, x)` ([ping2016] Eq. (6.2) and after).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError, UnsupportedError
from beliefs.inference.base import Bound, Method
from beliefs.inference.batch_result import BatchMarginals
from beliefs.inference.doors import infer
from beliefs.model.crbm import CRBM, checked_inputs
from beliefs.model.machine import bit_rows
from beliefs.model.rbm_batch import RBMBatch
from beliefs.typing import Floats

__all__ = ["conditional_likelihood", "worth"]


def conditional_likelihood(
    model: CRBM, rows: ArrayLike, method: Method | str, given: Any, gradient: bool, options: Any
) -> tuple[Floats, BatchMarginals, CRBM | None]:
    """Return log p(v | x) of each row, the inference behind it, and the gradient of their mean if it is asked for."""
    if given is None:
        raise ModelError("the log-likelihood of a CRBM is given inputs; pass given=X, a row for each of the rows")
    table = bit_rows(rows, model.n_visible, "visible units")
    inputs = checked_inputs(given, model.n_inputs)
    if inputs.ndim != 2 or inputs.shape[0] != len(table):
        raise ModelError(f"there are {len(table)} rows of visible units and inputs of shape {inputs.shape}")
    batch = model.given(inputs)
    inference = infer(batch, method, **options)
    if gradient and not inference.method.has_marginals:
        raise UnsupportedError(f"{inference.method} has no marginals, so there is no gradient; use another method")
    scores = -batch.free_energy(table) - inference.log_z
    return scores, inference, _gradient(batch, table, inputs, inference) if gradient else None


def _gradient(batch: RBMBatch, rows: np.ndarray, inputs: Any, inference: BatchMarginals) -> CRBM:
    """Return the rows' averages less the machine's."""
    v = rows.astype(np.float64)
    x = v @ batch.weights.astype(np.float64) + batch.hidden_bias
    mu = 1.0 / (1.0 + np.exp(-np.clip(x, -708.0, 708.0)))
    share, visible, hidden = 1.0 / len(rows), v - inference.visible, mu - inference.hidden
    by_visible, by_hidden = (np.asarray((inputs.T @ part).T) for part in (visible, hidden))
    return CRBM(
        weights=share * (v.T @ mu - inference.pair_sum),
        visible_input=share * by_visible,
        hidden_input=share * by_hidden,
        visible_bias=visible.mean(axis=0),
        hidden_bias=hidden.mean(axis=0),
    )


def worth(scores: Floats, inference: BatchMarginals) -> tuple[Bound, float, float]:
    """Return what likelihoods are, and a certified interval around their mean."""
    mean = float(scores.mean())
    if inference.bound is Bound.EXACT:
        return Bound.EXACT, mean, mean
    if inference.bound is Bound.LOWER:
        return Bound.UPPER, -np.inf, mean
    return (Bound.LOWER, mean, np.inf) if inference.bound is Bound.UPPER else (Bound.ESTIMATE, -np.inf, np.inf)
