r"""Annealed importance sampling: an estimate of log Z with error bars, and an interval that holds at any variance.

Between a base of independent units :math:`p_0(v) \propto e^{o^T v}` and the machine lie

.. math::
    \log p^*_\beta(v) = ((1 - \beta)\, o + \beta\, b)^T v + \sum_j c_j \log(1 + e^{\beta x_j(v)}), \qquad
    \log Z_0 = \sum_i \log(1 + e^{o_i}) + \log 2 \sum_j c_j .

A chain starts from the base. For every rise :math:`\beta_{k-1} \to \beta_k` its log weight gains
:math:`\log p^*_{\beta_k}(v) - \log p^*_{\beta_{k-1}}(v)`, then a sweep of Gibbs sampling at :math:`\beta_k` moves it
[neal2001; salakhutdinov2008]. Weights are unbiased, :math:`E\,w = Z / Z_0`, so

.. math:: \log \hat Z = \log Z_0 + \log \tfrac1R \sum_r w_r

is too low on average, and much too low where no chain found the mass. Chains that start from *exact samples* of the
machine and go back to the base give :math:`E\,w^{-} = Z_0 / Z` and an estimate that is too high
[burda2015; grosse2015]. By Markov's inequality :math:`P(w_r \ge e^t Z / Z_0) \le e^{-t}` for any t, and alike for the
reverse: that gives an interval without a word on variances, :meth:`AISResult.interval`. Neither end is certain, so
neither is in ``log_lower`` or ``log_upper``.

==================  ============================================================================
:math:`o`           ``base``: the machine's visible bias, zeros (``uniform``), or log-odds of rates
:math:`\beta_k`     ``schedule``: evenly from 0 to 1 (``linear``); ``standard``: 500 evenly in
                    [0, 0.5), 4,000 in [0.5, 0.9), 10,000 in [0.9, 1]; or an array
==================  ============================================================================

Log weights are float64 whatever the machine's type, and so are products where float32 knows no
thousandths of a nat. Marginals are averages of the last states with the weights. Cost:
two matrix products a temperature and chain; memory 40 bytes a unit and chain at most. Fails by uneven weights: read
``effective_sample_size``, and raise ``temperatures`` before ``chains``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Value
from beliefs.errors import ModelError
from beliefs.inference.base import Bound, Derivative, Guarantee, Marginals, Problem, Task
from beliefs.inference.boltzmann.ais_result import AISResult, Weights
from beliefs.inference.boltzmann.annealing import Annealer, exact_start, gibbs_start
from beliefs.inference.boltzmann.enumeration import AUTOMATIC, enumerated_units, state_bytes
from beliefs.inference.boltzmann.machines import Form, machine_of, magnitudes, rounding_of
from beliefs.inference.budget import over_budget
from beliefs.inference.rounding import rounding_error
from beliefs.inference.units import UnitMarginals
from beliefs.model.fractional_rbm import FractionalRBM
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM
from beliefs.options import MANY, check_integer, check_option
from beliefs.typing import Bools, Floats

__all__ = ["AIS"]

_STANDARD = ((0.0, 0.5, 500), (0.5, 0.9, 4000), (0.9, 1.0, 10000))
_LEAST_RATE = 1e-3  # of data: a unit that was never on may be
_BYTES = 40.0  # a unit and chain
_FINE = 2.0**11  # of absolute weights to a hidden unit, whose sums float32 knows to 2^-13


@dataclass(eq=False)
class Annealing:
    """The machine, the path from the base to it, and the weights that were found."""

    problem: Problem
    machine: BoltzmannMachine
    betas: Floats
    base: Floats
    log_z_base: float
    rounding: float
    forward: Weights | None = None
    reverse: Weights | None = None
    reverse_start: str = ""
    marginals: UnitMarginals | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class AIS(Form):
    """Annealed importance sampling of a restricted Boltzmann machine's log Z.

    Parameters
    ----------
    chains : int
        Independent runs.
    temperatures : int
        Of the linear schedule, 0 and 1 included.
    schedule : {"linear", "standard"} or array_like
        ``standard`` has 14,500 temperatures, most of them near 1. An array rises from 0 to 1.
    base : {"visible_bias", "uniform"} or array_like (n_visible,)
        Where chains start: independent units with the machine's biases, none, or those of rates of the data.
    reverse : bool
        Also from samples of the machine back to the base, for an upper end.

    Examples
    --------
    >>> import beliefs as bl
    >>> r = bl.infer(bl.RBM([[1.0, -1.0], [0.5, 2.0]]), "ais(reverse=True)", seed=1)
    >>> low, high = r.interval(0.99)
    >>> r.bound.name, bool(low < bl.infer(r.model).log_z < high)
    ('ESTIMATE', True)
    """

    chains: int = 100
    temperatures: int = 1000
    schedule: Any = "linear"
    base: Any = "visible_bias"
    reverse: bool = False

    name: ClassVar[str] = "ais"
    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER,)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.ESTIMATE, "with standard error and interval (RBMs only)")
    derivative: ClassVar[Derivative] = Derivative.NONE
    deterministic: ClassVar[bool] = False
    general: ClassVar[bool] = False
    cost: ClassVar[str] = "two matrix products a temperature"
    reference: ClassVar[str] = "neal2001, salakhutdinov2008, burda2015"

    answers: ClassVar[tuple[Task, ...]] = (Task.INFER,)
    takes_fractions: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_integer("chains", self.chains, 1, MANY)
        check_integer("temperatures", self.temperatures, 2, MANY)
        check_option(isinstance(self.reverse, (bool, np.bool_)), "reverse", "True or False", self.reverse)
        _schedule(self.schedule, 2)
        if isinstance(self.base, str):
            check_option(self.base in ("visible_bias", "uniform"), "base", "visible_bias, uniform or rates", self.base)
        else:
            _rates(self.base)

    def init(self, problem: Problem, warm: Any = None) -> Annealing:
        """Check the budget, the schedule and the base."""
        machine = _fine_enough(machine_of(problem.model, self.name))
        n_hidden = float(np.ceil(machine.counts).sum())
        copied = 0.0 if isinstance(machine, RBM) else machine.dtype.itemsize * machine.n_visible * n_hidden
        needed = _BYTES * (machine.n_visible + n_hidden) * self.chains + 8.0 * machine.weights.size + copied
        if needed > problem.max_bytes:
            advice = "Raise max_bytes, or run fewer chains"
            raise over_budget(f"{self.name} needs", needed, problem.max_bytes, advice, f" for {self.chains} chains")
        base = self._log_odds(machine)
        log_z_base = float(np.logaddexp(0.0, base).sum() + np.log(2.0) * machine.counts.sum())
        betas = _schedule(self.schedule, self.temperatures)
        return Annealing(problem, machine, betas, base, log_z_base, _rounding(machine, base, betas.size))

    def about(self, visible: Bools) -> AIS:
        """Return the same with the rates of some visible units."""
        if isinstance(self.base, str):
            return self
        rates = self._unit_rates(visible.size)[visible]
        return replace(self, base=rates if rates.size else "visible_bias")

    def _unit_rates(self, n_visible: int) -> Floats:
        rates = _rates(self.base)
        if rates.shape != (n_visible,):
            raise ModelError(f"base must have a rate for each visible unit, {n_visible}, found {rates.shape}")
        return rates

    def _log_odds(self, machine: BoltzmannMachine) -> Floats:
        if isinstance(self.base, str):
            bias = machine.visible_bias.astype(np.float64)
            return bias if self.base == "visible_bias" else np.zeros(machine.n_visible)
        rates = self._unit_rates(machine.n_visible)
        kept = np.clip(rates, _LEAST_RATE, 1.0 - _LEAST_RATE)
        odds: Floats = np.log(kept) - np.log1p(-kept)
        return odds

    def step(self, state: Annealing) -> float:
        """Anneal all chains, forward and, if asked for, back."""
        annealer = Annealer(state.machine, self.chains, state.base, state.problem)
        log_weights = annealer.forward(state.betas)
        state.forward = Weights(log_weights, state.log_z_base)
        state.marginals = annealer.averages(log_weights)
        if self.reverse:
            state.reverse_start = _reverse_start(state)
            start = exact_start if state.reverse_start == "exact" else gibbs_start
            annealer.visible[:] = start(state.machine, annealer)
            state.reverse = Weights(annealer.back(state.betas), state.log_z_base)
        return 0.0

    def value(self, state: Annealing) -> Value:
        """Return the estimate; nothing is certain about it."""
        assert state.forward is not None
        return Value(state.forward.log_z)

    def finish(self, state: Annealing) -> Marginals:
        """Return the estimate, its weights, and averages with them."""
        assert state.forward is not None and state.marginals is not None
        units = state.marginals
        extras = AISResult.fields_of(state.forward, state.reverse, state.reverse_start, state.rounding)
        return Marginals(state.forward.log_z, Bound.ESTIMATE, units.mu_var, units, kind=AISResult, extras=extras)


AIS.stands_for = AIS


def _fine_enough(machine: BoltzmannMachine) -> BoltzmannMachine:
    """Return the machine in float64 where the pre-activations of float32 would be too coarse."""
    if machine.dtype == np.float64 or float(magnitudes(machine.weights).max(initial=0.0)) <= _FINE:
        return machine
    w, b, a = (x.astype(np.float64) for x in (machine.weights, machine.visible_bias, machine.hidden_bias))
    return RBM(w, b, a) if isinstance(machine, RBM) else FractionalRBM(w, b, a, machine.counts)


def _rounding(machine: BoltzmannMachine, base: Floats, n_betas: int) -> float:
    """Return how wrong log weights may be.

    Gains are made of products in the machine's type, whose single errors are taken to be independent; all else is
    float64, where the worst is counted. A gain is that of whole scores where units are fractional.
    """
    terms = n_betas * (4.0 if isinstance(machine, RBM) else 2.0 * (machine.n_vars + 32))
    unit = 0.5 * float(np.finfo(machine.dtype).eps)
    products = unit * math.sqrt(machine.n_visible) * float(np.linalg.norm(machine.counts * magnitudes(machine.weights)))
    biases = rounding_error(3.0 * float(np.abs(base).sum()), machine.n_visible + 32 + terms)
    return products + biases + rounding_of(machine, terms)


def _reverse_start(state: Annealing) -> str:
    """Return where reverse chains start: from exact samples if a layer can be enumerated, in time and memory."""
    k, needed = enumerated_units(state.machine), _BYTES * state.machine.n_vars
    return "exact" if k <= AUTOMATIC and state_bytes(k) + needed <= state.problem.max_bytes else "gibbs"


def _schedule(schedule: Any, temperatures: int) -> Floats:
    """Return inverse temperatures that rise from 0 to 1."""
    if isinstance(schedule, str):
        check_option(schedule in ("linear", "standard"), "schedule", "linear, standard or an array", schedule)
        if schedule == "linear":
            return np.linspace(0.0, 1.0, temperatures)
        return np.concatenate([np.linspace(a, b, k, endpoint=b == 1.0) for a, b, k in _STANDARD])
    try:
        betas = np.asarray(schedule, np.float64)
    except (TypeError, ValueError):
        raise ModelError("schedule must be linear, standard or an array of numbers") from None
    rising = betas.ndim == 1 and betas.size > 1 and betas[0] == 0.0 and betas[-1] == 1.0
    if not (rising and (np.diff(betas) > 0).all()):
        raise ModelError("schedule must rise from 0 to 1, without a value twice")
    return betas


def _rates(base: Any) -> Floats:
    try:
        rates = np.asarray(base, np.float64)
    except (TypeError, ValueError):
        raise ModelError("base must be visible_bias, uniform or an array of rates") from None
    if rates.ndim != 1 or not ((rates >= 0) & (rates <= 1)).all():
        raise ModelError("base must be visible_bias, uniform or an array of rates from 0 to 1")
    return rates
