r"""The log-likelihood of rows under a Boltzmann machine, and its gradient.

.. math::
    \log p(v) = -F(v) - \log Z, \qquad
    \frac{\partial \log p(v)}{\partial w_j} = c_j \big( v\, \sigma_j(v) - E[v\, \sigma_j(v)] \big)

Free energies are exact, so a likelihood is worth what log Z is, with the sides exchanged: an upper bound of log Z makes
it a lower bound. The gradient takes the model's averages from the marginals of the same inference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError, UnsupportedError
from beliefs.inference.base import Bound, Method
from beliefs.inference.batch_result import BatchMarginals
from beliefs.inference.conditional_likelihood import conditional_likelihood, worth
from beliefs.inference.doors import Options, infer
from beliefs.inference.machine_gradient import MachineGradient
from beliefs.inference.result import InferenceResult
from beliefs.model.crbm import CRBM
from beliefs.model.fractional_rbm import FractionalRBM
from beliefs.model.machine import BoltzmannMachine, bit_rows
from beliefs.typing import Floats

__all__ = ["LogLikelihood", "MachineGradient", "log_likelihood"]

_TURNED = {Bound.UPPER: Bound.LOWER, Bound.LOWER: Bound.UPPER}
_ROWS = 4096  # that are looked at together


@dataclass(frozen=True, kw_only=True, eq=False)
class LogLikelihood:
    """Log-likelihoods of rows, in nats.

    Attributes
    ----------
    per_row : ndarray (N,)
        log p(v) of each row.
    mean : float
        Their mean.
    bound : Bound
        What they are: EXACT, UPPER, LOWER or ESTIMATE, all alike.
    log_lower, log_upper : float
        Certified interval around the mean; -inf and inf where unknown.
    inference : InferenceResult or BatchMarginals
        Where log Z comes from; of ``ais`` it has error bars. Of a conditional machine every row has its own.
    gradient : MachineGradient or None
        Of the mean, in the machine's parameters, if it was asked for; EXACT where log Z is.
    """

    per_row: Floats
    mean: float
    bound: Bound
    log_lower: float
    log_upper: float
    inference: InferenceResult | BatchMarginals
    gradient: MachineGradient | None = None

    def __repr__(self) -> str:
        of = f"{len(self.per_row)} row{'' if len(self.per_row) == 1 else 's'}"
        return f"LogLikelihood(mean {self.bound.sign} {self.mean:.10g} ({self.bound}) of {of})"


def log_likelihood(
    model: BoltzmannMachine | CRBM,
    rows: ArrayLike,
    method: Method | str = "auto",
    gradient: bool = False,
    *,
    given: Any = None,
    **options: Unpack[Options],
) -> LogLikelihood:
    """Return the log-likelihood of each row of visible bits, ``(N, n_visible)``, and of all of them on average.

    Parameters
    ----------
    model : RBM, FractionalRBM or CRBM
    rows : array_like of 0 and 1
    method : Method or str
        For log Z: ``auto`` enumerates a layer of up to 22 units, and takes annealed importance sampling beyond.
    gradient : bool
        Also the gradient of the mean.
    given : array_like (N, n_inputs)
        Of a conditional machine: a row of inputs for each of the rows.
    **options
        As of :func:`beliefs.infer`.

    Examples
    --------
    >>> import beliefs as bl
    >>> rbm = bl.RBM([[1.0, -1.0], [0.5, 2.0]])
    >>> bl.log_likelihood(rbm, [[1, 1], [0, 0]])
    LogLikelihood(mean = -1.744758346 (EXACT) of 2 rows)
    """
    if isinstance(model, CRBM):
        return _conditional(model, rows, method, given, gradient, options)
    if not isinstance(model, BoltzmannMachine):
        raise ModelError(f"log_likelihood is of RBM, FractionalRBM and CRBM, found {type(model).__name__}")
    if given is not None:
        raise ModelError(f"given is for conditional machines; {type(model).__name__} takes no inputs")
    table = bit_rows(rows, model.n_visible, "visible units")
    asked = infer(model, method, **options)
    scores = -model.free_energy(table)
    mean = float(scores.mean())
    if gradient and not asked.method.has_marginals:
        raise UnsupportedError(f"{asked.method} has no marginals, so there is no gradient; use another method")
    return LogLikelihood(
        per_row=scores - asked.log_z,
        mean=mean - asked.log_z,
        bound=_TURNED.get(asked.bound, asked.bound),
        log_lower=mean - asked.log_upper,
        log_upper=mean - asked.log_lower,
        inference=asked,
        gradient=_gradient(model, table, asked) if gradient else None,
    )


def _conditional(
    model: CRBM, rows: ArrayLike, method: Method | str, given: Any, gradient: bool, options: Options
) -> LogLikelihood:
    scores, asked, slope = conditional_likelihood(model, rows, method, given, gradient, options)
    bound, lower, upper = worth(scores, asked)
    return LogLikelihood(
        per_row=scores, mean=float(scores.mean()), bound=bound, log_lower=lower, log_upper=upper, inference=asked,
        gradient=slope,
    )  # fmt: skip


def _gradient(machine: BoltzmannMachine, rows: np.ndarray, asked: InferenceResult) -> MachineGradient:
    """Return the rows' averages less the machine's."""
    n, m = machine.weights.shape
    fractional = isinstance(machine, FractionalRBM)
    visible, hidden, pairs, softplus = np.zeros(n), np.zeros(m), np.zeros((n, m)), np.zeros(m)
    for begin in range(0, len(rows), _ROWS):
        piece = rows[begin : begin + _ROWS].astype(np.float64)
        p = machine.hidden_probability(piece)
        visible += piece.sum(axis=0)
        hidden += p.sum(axis=0)
        pairs += piece.T @ p
        if fractional:
            softplus += machine.softplus(piece).sum(axis=0)
    share = 1.0 / len(rows)
    expected = asked.units.softplus
    return MachineGradient(
        weights=machine.counts * (share * pairs - asked.pairs),
        visible_bias=share * visible - asked.visible,
        hidden_bias=machine.counts * (share * hidden - asked.hidden),
        counts=None if expected is None else share * softplus - expected,
    )
