r"""Stepwise EM: rows with missing cells that come batch by batch and are not kept.

What rows observe whole is counted and never forgotten. The expected statistics of an incomplete row on average,
:math:`s`, follow the batches with falling steps [cappe2009] [liang2009]:

.. math:: s \leftarrow (1 - \eta) s + \eta \, \bar s_{batch}, \qquad \eta = (1 + W / w)^{-\alpha}

where :math:`\bar s_{batch}` is taken under the tables of now, :math:`w` is the weight of the batch's incomplete rows
and :math:`W` that of all earlier ones: with batches of one size the steps are :math:`1, 2^{-\alpha}, 3^{-\alpha},
...` The tables are those of counts plus :math:`(W + w) s`.

Guarantee: with :math:`1/2 < \alpha \le 1` steps meet the conditions of stochastic approximation, whose limits are
stationary points of the likelihood; a single step may lower it. :math:`\alpha = 1` averages over all batches and is
slow to forget the first, bad tables. Cost: one E-step over the batch; memory: two numbers a cell.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from beliefs.driver import Status
from beliefs.inference.rows.sweep import scored_rows
from beliefs.learning.networks.em import MissingRows, NetworkLikelihood, impossible
from beliefs.learning.networks.result import JointFit
from beliefs.typing import Floats

__all__ = ["Stream", "stepped"]


@dataclass(frozen=True, eq=False)
class Stream:
    """The expected statistics of an incomplete row on average, and how many rows had a say."""

    mean: Floats
    weight: float = 0.0

    def step(self, weight: float, power: float) -> float:
        """Return the size of the step of a batch with this weight."""
        return float((1.0 + self.weight / weight) ** -power)


def stepped(
    loss: NetworkLikelihood, counts: Floats, batch: MissingRows, weights: Floats, stream: Stream, power: float
) -> tuple[Floats, Floats, Stream, JointFit]:
    """Return the tables after a batch, the statistics they follow from, the stream, and what was done.

    ``counts`` are the whole statistics of all rows so far, this batch's included; ``batch`` has none of its own.
    """
    began, rows = time.perf_counter(), batch.rows.total
    found, expected = loss.log_likelihood(weights, batch)
    if not np.isfinite(found):
        raise impossible(batch, weights[: loss.n_cells])
    size = stream.step(rows, power)
    mean = (1.0 - size) * stream.mean + size * expected / rows
    after = replace(stream, mean=mean, weight=stream.weight + rows)
    total = counts + after.weight * mean
    value = (found + _observed(loss, batch, weights)) / rows
    result = JointFit(
        status=Status.MAX_ITERS,
        reason=f"one step of stepwise EM, of size {size:.3g}; the log-likelihood is of its incomplete rows before it",
        n_parameters=loss.estimate.structure.n_parameters + (0 if loss.leaves is None else loss.leaves.n_parameters),
        bound=batch.sweep.bound,
        log_likelihood=value,
        objective=value,
        n_iters=1,
        seconds=time.perf_counter() - began,
    )
    return loss.maximised(total), total, after, result


def _observed(loss: NetworkLikelihood, batch: MissingRows, weights: Floats) -> float:
    """Return what families and leaves that the incomplete rows observe whole add to their log-likelihood."""
    with np.errstate(divide="ignore"):
        scores = scored_rows(batch.sweep.layout, np.log(weights[: loss.n_cells]), batch.rows)
    if batch.columns is not None:
        numbers = weights[loss.n_cells :]
        both = [batch.columns.evidence(numbers, count_seen=seen)[1] for seen in (True, False)]
        scores = scores + both[0] - both[1]
    if batch.rows.weights is None:
        return float(scores.sum())
    counting = batch.rows.weights > 0.0
    return float(batch.rows.weights[counting] @ scores[counting])
