r"""The log-likelihood of rows under a model, and its gradient under a Boltzmann machine.

Of a network or a factor graph the cells of a row are variables, and those that are missing are summed out exactly
(:mod:`beliefs.inference.rows.sweep`); of a machine a row is its visible units:

.. math::
    \log p(v) = -F(v) - \log Z, \qquad
    \frac{\partial \log p(v)}{\partial w_j} = c_j \big( v\, \sigma_j(v) - E[v\, \sigma_j(v)] \big)

Free energies are exact, so a likelihood is worth what log Z is, with the sides exchanged: an upper bound of log Z makes
it a lower bound. Z of a network whose columns sum to one is one. The gradient takes the model's averages from the
marginals of the same inference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from beliefs.display.description import MOST_ROWS, Described, Description
from beliefs.display.frames import frame
from beliefs.errors import ModelError, UnsupportedError
from beliefs.inference.base import Bound, Method
from beliefs.inference.batch_result import BatchMarginals
from beliefs.inference.conditional_likelihood import conditional_likelihood, worth
from beliefs.inference.door_options import Options
from beliefs.inference.doors import infer
from beliefs.inference.machine_gradient import MachineGradient
from beliefs.inference.result import InferenceResult
from beliefs.inference.rows.likelihood import is_normalised, row_log_weights
from beliefs.inference.run import default_threads
from beliefs.model.crbm import CRBM
from beliefs.model.fractional_rbm import FractionalRBM
from beliefs.model.graph import as_factor_graph
from beliefs.model.machine import BoltzmannMachine, bit_rows, given_layer
from beliefs.options import check_option
from beliefs.typing import Floats

__all__ = ["LogLikelihood", "MachineGradient", "log_likelihood"]

_TURNED = {Bound.UPPER: Bound.LOWER, Bound.LOWER: Bound.UPPER}
_ROWS = 4096  # that are looked at together


@dataclass(frozen=True, kw_only=True, eq=False)
class LogLikelihood(Described):
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
    inference : InferenceResult, BatchMarginals or None
        Where log Z comes from; of ``ais`` it has error bars. Of a conditional machine every row has its own. None for a
        network, whose Z is one.
    gradient : MachineGradient, CRBM or None
        Of the mean, in the machine's parameters, if it was asked for; EXACT where log Z is.
    """

    per_row: Floats
    mean: float
    bound: Bound
    log_lower: float
    log_upper: float
    inference: InferenceResult | BatchMarginals | None
    gradient: Any = None

    def to_frame(self) -> Any:
        """Return a pandas frame of a row a row: ``log_likelihood``."""
        return frame({"log_likelihood": self.per_row})

    def _description(self) -> Description:
        facts = [("mean", f"{self.bound.sign} {self.mean:.10g}"), ("worth", self.bound.words)]
        rows = [(f"{k}", f"{value:.10g}") for k, value in enumerate(self.per_row[:MOST_ROWS])]
        return Description("LogLikelihood", facts, "", ("row", "log p"), rows, len(self.per_row))

    def __repr__(self) -> str:
        of = f"{len(self.per_row)} row{'' if len(self.per_row) == 1 else 's'}"
        return f"LogLikelihood(mean {self.bound.sign} {self.mean:.10g} ({self.bound}) of {of})"


def log_likelihood(
    model: Any,
    rows: Any,
    method: Method | str = "auto",
    gradient: bool = False,
    *,
    given: Any = None,
    **options: Unpack[Options],
) -> LogLikelihood:
    """Return the log-likelihood of each row, and of all of them on average; the model is normalised.

    Parameters
    ----------
    model : BayesianNetwork, FactorGraph, RBM, FractionalRBM or CRBM
    rows : table of rows
        Of a network or graph: codes ``(N, n_vars)`` (-1 missing), a pandas frame or a mapping of columns, in which
        variables may be left out. Of a machine: visible bits ``(N, n_visible)``.
    method : Method or str
        For log Z: ``auto`` takes exact inference where it fits; of a machine it enumerates a layer of up to 22 units,
        and takes annealed importance sampling beyond. A network's Z is one.
    gradient : bool
        Also the gradient of the mean, of machines.
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
    if options.get("evidence") is not None:
        raise UnsupportedError("the likelihood of rows takes no evidence; it is what the rows hold")
    check_option(isinstance(gradient, bool | np.bool_), "gradient", "True or False", gradient)
    if isinstance(model, CRBM):
        return _conditional(model, rows, method, given, gradient, options)
    if given is not None:
        raise ModelError(f"given is for conditional machines; {type(model).__name__} takes no inputs")
    if not isinstance(model, BoltzmannMachine):
        return _of_discrete(model, rows, method, gradient, options)
    table = bit_rows(rows, model.n_visible, "visible units")
    inference = infer(model, method, **options)
    scores = -model.free_energy(table)
    mean = float(scores.mean())
    if gradient and not inference.method.has_marginals:
        raise UnsupportedError(f"{inference.method} has no marginals, so there is no gradient; use another method")
    return LogLikelihood(
        per_row=scores - inference.log_z,
        mean=mean - inference.log_z,
        bound=_TURNED.get(inference.bound, inference.bound),
        log_lower=mean - inference.log_upper,
        log_upper=mean - inference.log_lower,
        inference=inference,
        gradient=_gradient(model, table, inference) if gradient else None,
    )


def _conditional(
    model: CRBM, rows: Any, method: Method | str, given: Any, gradient: bool, options: Options
) -> LogLikelihood:
    scores, inference, slope = conditional_likelihood(model, rows, method, given, gradient, options)
    bound, lower, upper = worth(scores, inference)
    return LogLikelihood(
        per_row=scores, mean=float(scores.mean()), bound=bound, log_lower=lower, log_upper=upper, inference=inference,
        gradient=slope,
    )  # fmt: skip


def _of_discrete(model: Any, rows: Any, method: Method | str, gradient: bool, options: Options) -> LogLikelihood:
    graph = as_factor_graph(model)
    if gradient:
        raise UnsupportedError("the gradient of rows is that of machines; of networks, see BNLearner")
    threads, max_bytes = options.get("threads"), options.get("max_bytes")
    weights = row_log_weights(graph, rows, threads=threads or default_threads(), max_bytes=max_bytes)
    inference = None if is_normalised(model) else infer(model, method, **options)
    log_z, lower, upper = (
        (0.0, 0.0, 0.0) if inference is None else (inference.log_z, inference.log_lower, inference.log_upper)
    )
    mean = float(weights.mean())
    bound = Bound.EXACT if inference is None else _TURNED.get(inference.bound, inference.bound)
    return LogLikelihood(
        per_row=weights - log_z,
        mean=mean - log_z,
        bound=bound,
        log_lower=mean - upper if mean > -np.inf else -np.inf,
        log_upper=mean - lower if mean > -np.inf else -np.inf,
        inference=inference,
    )


def _gradient(machine: BoltzmannMachine, rows: np.ndarray, inference: InferenceResult) -> MachineGradient:
    """Return the rows' averages less the machine's."""
    n, m = machine.weights.shape
    fractional = isinstance(machine, FractionalRBM)
    visible, hidden, pairs, softplus = np.zeros(n), np.zeros(m), np.zeros((n, m)), np.zeros(m)
    weights = machine.weights.astype(np.float64)
    for begin in range(0, len(rows), _ROWS):
        piece = rows[begin : begin + _ROWS].astype(np.float64)
        p = given_layer(piece, weights, machine.hidden_bias)
        visible += piece.sum(axis=0)
        hidden += p.sum(axis=0)
        pairs += piece.T @ p
        if fractional:
            softplus += machine.softplus(piece).sum(axis=0)
    share = 1.0 / len(rows)
    expected = inference.units.softplus
    return MachineGradient(
        weights=machine.counts * (share * pairs - inference.pairs),
        visible_bias=share * visible - inference.visible,
        hidden_bias=machine.counts * (share * hidden - inference.hidden),
        counts=None if expected is None else share * softplus - expected,
    )
