"""Machines as methods see them: from a factor graph, in float64, with copies and fractions of units written out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import ModelError, UnsupportedError
from beliefs.inference.base import Method, Problem, Task
from beliefs.inference.rounding import rounding_error
from beliefs.kernels.boltzmann.layers import softplus_sums
from beliefs.model.clamped_rbm import AskedModel
from beliefs.model.fractional_rbm import FractionalRBM
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM
from beliefs.model.rbm_batch import RBMBatch
from beliefs.typing import Bools, Floats

__all__ = ["Form", "Parameters", "SampledUnits", "machine_of", "magnitudes", "rounding_of", "roundings_of"]

_ROWS = 64  # of a matrix that are looked at together


class Form(Method):
    """What the form of a method for machines states besides; see :mod:`beliefs.inference.boltzmann.native`."""

    stands_for: ClassVar[type[Method]]
    """The method whose question it answers."""

    answers: ClassVar[tuple[Task, ...]]
    takes_fractions: ClassVar[bool] = False

    @classmethod
    def takes(cls, problem: Problem) -> bool:
        """Whether it answers this question."""
        return problem.task in cls.answers

    @classmethod
    def serves(cls, method: Any, machine: BoltzmannMachine) -> bool:
        """Whether it stands for a method with these options on this machine."""
        return cls.takes_fractions or isinstance(machine, RBM)

    def about(self, visible: Bools) -> Form:
        """Return the form for the machine of some visible units alone; options with a number a unit are cut."""
        return self


def machine_of(model: AskedModel, asked: str) -> BoltzmannMachine:
    """Return the machine that a model is, or an UnsupportedError that says why it is none."""
    if isinstance(model, BoltzmannMachine):
        return model
    try:
        return RBM.from_factor_graph(model)
    except ModelError as error:
        raise UnsupportedError(f"{asked} is for restricted Boltzmann machines; {error}") from None


@dataclass(frozen=True, eq=False)
class Parameters:
    """A machine's numbers in float64."""

    weights: Floats
    visible_bias: Floats
    hidden_bias: Floats

    @classmethod
    def of(cls, machine: BoltzmannMachine) -> Parameters:
        """Return its own weights where they have that type, and copies of the biases, which kernels may write to."""
        biases = (bias.astype(np.float64) for bias in (machine.visible_bias, machine.hidden_bias))
        return cls(machine.weights.astype(np.float64, copy=False), *biases)


def magnitudes(weights: np.ndarray) -> Floats:
    """Return what the absolute weights of each hidden unit add up to, in float64, without another such matrix."""
    parts = (weights[begin : begin + _ROWS] for begin in range(0, len(weights), _ROWS))
    return sum((np.abs(part.astype(np.float64)).sum(axis=0) for part in parts), start=np.zeros(weights.shape[1]))


def rounding_of(machine: BoltzmannMachine, n_terms: float = 0.0) -> float:
    """Return how wrong a score of the machine with a layer summed out may be, in float64."""
    visible, hidden = (np.abs(bias.astype(np.float64)) for bias in (machine.visible_bias, machine.hidden_bias))
    sizes = magnitudes(machine.weights) + hidden + np.log(2.0)
    size = float((machine.counts * sizes).sum() + visible.sum() + machine.n_visible * np.log(2.0))
    return rounding_error(3.0 * size, machine.n_vars + 32 + n_terms)


def roundings_of(batch: RBMBatch) -> Floats:
    """Return the same of each machine of a batch, ``(N,)``."""
    n_units = batch.n_visible + batch.n_hidden
    shared = float(magnitudes(batch.weights).sum()) + n_units * np.log(2.0)
    visible, hidden = (np.abs(b.astype(np.float64)).sum(axis=1) for b in (batch.visible_bias, batch.hidden_bias))
    return np.array([rounding_error(3.0 * (shared + size), n_units + 32) for size in visible + hidden])


@dataclass(frozen=True, eq=False)
class SampledUnits:
    r"""The machine that chains run on: whole copies of the hidden units, and one scaled unit for each fraction.

    A count :math:`c` is its whole part in copies and a unit with weights :math:`f w`, bias :math:`f a` for the fraction
    f. The machine so made is the law of proposals; what it lacks is

    .. math:: \log r_\beta(v) = \sum_{j: f_j > 0} f_j \log(1 + e^{\beta x_j}) - \log(1 + e^{\beta f_j x_j})

    ([ping2016] section 5.4.3).

    Attributes
    ----------
    weights : ndarray (n_visible, n_units)
        In the machine's type.
    bias : ndarray (n_units,)
        Of hidden units.
    visible_bias : ndarray (n_visible,)
    fractions : ndarray (n_fractions,)
        Of the last units.
    """

    weights: np.ndarray
    bias: Floats
    visible_bias: Floats
    fractions: Floats

    @classmethod
    def of(cls, machine: BoltzmannMachine) -> SampledUnits:
        """Write the units of a machine out."""
        weights, bias = machine.weights, machine.hidden_bias.astype(np.float64)
        fractions = np.zeros(0)
        if isinstance(machine, FractionalRBM):
            whole = np.floor(machine.counts).astype(np.int64)
            part = machine.counts - whole
            places = np.flatnonzero(part > 0)
            fractions = part[places]
            units = np.concatenate([np.repeat(np.arange(machine.n_hidden), whole), places])
            scale = np.concatenate([np.ones(int(whole.sum())), fractions])
            weights, bias = weights[:, units] * scale.astype(machine.dtype), bias[units] * scale
        return cls(np.ascontiguousarray(weights), bias, machine.visible_bias.astype(np.float64), fractions)

    def log_weights(self, visible: np.ndarray, x: np.ndarray, beta: float) -> Floats:
        """Return the log weight of each visible row at an inverse temperature; ``x`` is its product with weights."""
        out: Floats = beta * (visible @ self.visible_bias)
        softplus_sums(x, self.bias, np.ones(self.bias.size), beta, out)
        return out + self.log_ratio(x, np.full(len(x), beta))

    def log_ratio(self, x: np.ndarray, beta: Floats) -> Floats:
        """Return log r of each row from the pre-activations of all units without bias, ``(rows, n_units)``."""
        if not self.fractions.size:
            return np.zeros(len(x))
        scaled = beta[:, None] * (x[:, -self.fractions.size :] + self.bias[-self.fractions.size :])
        result: Floats = np.logaddexp(0.0, scaled / self.fractions) @ self.fractions
        result -= np.logaddexp(0.0, scaled).sum(axis=1)
        return result
