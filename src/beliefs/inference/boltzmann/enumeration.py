r"""Enumeration of one layer: log Z, marginals and independent samples of a machine, exactly.

The other layer sums out in closed form: with s one of the :math:`2^k` states of the smaller layer,

.. math::
    Z = \sum_s e^{q(s)}, \qquad q(s) = s^T b + \sum_j c_j \log(1 + e^{x_j(s)}), \quad x(s) = W^T s + a,

and marginals are averages of s, of :math:`\sigma(x_j)` and of :math:`s_i \sigma(x_j)` with weights
:math:`e^{q(s)} / Z`. Of fractional machines only the hidden layer sums out, so the visible one is enumerated.

Exact. States come in blocks, each a matrix product, with a running maximum: memory is that of a block. Cost:
:math:`2^k` times the other layer's units, about 20 ns each; k is at most 30, and ``auto`` goes to 22. Samples keep
the scores, 8 bytes a state. Fails only by size: BudgetError.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from beliefs.deadline import check_time
from beliefs.driver import Value
from beliefs.errors import BudgetError
from beliefs.inference.base import Bound, Marginals, Method, Problem, Samples, Task
from beliefs.inference.boltzmann.machines import Form, Parameters
from beliefs.inference.budget import over_budget
from beliefs.inference.exact.enumeration import Enumeration
from beliefs.inference.parallel import one_thread_of_blas
from beliefs.inference.units import UnitMarginals
from beliefs.kernels.boltzmann.layers import probabilities, softplus_sums
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM
from beliefs.typing import Floats, Ints

__all__ = ["AUTOMATIC", "LayerEnumeration", "LayerStates", "enumerated_units", "state_bytes"]

AUTOMATIC = 22  # units that auto enumerates
_MOST = 30  # units that anybody can wait for
_CELLS = 2**19  # of a block


def enumerated_units(machine: BoltzmannMachine) -> int:
    """Return how many units are enumerated: the smaller layer, or the visible one of a fractional machine."""
    return min(machine.n_visible, machine.n_hidden) if isinstance(machine, RBM) else machine.n_visible


def state_bytes(k: int) -> float:
    """Predict the memory of the log weights of all states of a layer, and of drawing from them."""
    return 24.0 * 2.0**k


class LayerStates:
    """All states of one layer, block by block, with the other summed out.

    Attributes
    ----------
    weights : ndarray (k, n_others)
        From the enumerated layer to the other one.
    of_visible : bool
        Whether the enumerated layer is the visible one.
    """

    def __init__(self, machine: BoltzmannMachine) -> None:
        p = Parameters.of(machine)
        self.of_visible = not (isinstance(machine, RBM) and machine.n_hidden < machine.n_visible)
        if self.of_visible:
            self.weights, self.own_bias, self.other_bias = p.weights, p.visible_bias, p.hidden_bias
        else:
            self.weights, self.own_bias, self.other_bias = p.weights.T.copy(), p.hidden_bias, p.visible_bias
        self.counts = machine.counts.copy() if self.of_visible else np.ones(machine.n_visible)
        self.n_states = 2 ** self.weights.shape[0]

    def bits(self, states: Ints) -> Floats:
        """Return states as rows of units, the first unit slowest."""
        shifts = np.arange(self.weights.shape[0])[::-1]
        return (states[:, None] >> shifts & 1).astype(np.float64)

    def blocks(self) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Yield states as rows, their log weights, and the pre-activations of the other layer without its bias."""
        size = max(1, _CELLS // max(1, self.weights.shape[1]))
        for begin in range(0, self.n_states, size):
            check_time()
            rows = self.bits(np.arange(begin, min(begin + size, self.n_states)))
            x = rows @ self.weights
            scores = rows @ self.own_bias
            softplus_sums(x, self.other_bias, self.counts, 1.0, scores)
            yield rows, scores, x

    def log_weights(self) -> Floats:
        """Return the log weights of all states."""
        return np.concatenate([scores for _, scores, _ in self.blocks()])

    def drawn(self, n: int, log_weights: Floats, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return ``n`` independent draws of both layers, visible and hidden bits, ``(n, units)`` each."""
        cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
        states = np.searchsorted(cumulative, rng.random(n) * cumulative[-1], side="right")
        own = self.bits(np.minimum(states, self.n_states - 1))
        x = own @ self.weights
        probabilities(x, self.other_bias)
        other = rng.random(x.shape) < x
        return (own, other) if self.of_visible else (other, own)


@dataclass(eq=False)
class LayerState:
    """The question, the states of a layer, and what was found."""

    problem: Problem
    states: LayerStates
    log_z: float = -np.inf
    log_weights: Floats | None = None
    marginals: UnitMarginals | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class LayerEnumeration(Enumeration, Form):
    """Write out the states of one layer; the other is summed out."""

    stands_for: ClassVar[type[Method]] = Enumeration
    answers: ClassVar[tuple[Task, ...]] = (Task.INFER, Task.SAMPLE)
    takes_fractions: ClassVar[bool] = True

    def init(self, problem: Problem, warm: object = None) -> LayerState:  # type: ignore[override]
        """Check that the layer can be enumerated."""
        machine = problem.model
        assert isinstance(machine, BoltzmannMachine)
        k = enumerated_units(machine)
        if k > _MOST:
            raise BudgetError(
                f"enumeration would go through 2^{k} states of a layer, and 2^{_MOST} is the limit; try ais, gibbs or "
                "mean_field"
            )
        needed = 24.0 * _CELLS + 16.0 * machine.weights.size + (state_bytes(k) if problem.task is Task.SAMPLE else 0.0)
        if needed > problem.max_bytes:
            raise over_budget("enumeration needs", needed, problem.max_bytes, "Raise max_bytes", f" for {k} units")
        return LayerState(problem, LayerStates(machine))

    def step(self, state: LayerState) -> float:  # type: ignore[override]
        """Add up the weights of all states, and the averages with them."""
        with one_thread_of_blas():
            if state.problem.task is Task.INFER:
                self._infer(state)
            else:
                state.log_weights = state.states.log_weights()
                state.log_z = float(np.logaddexp.reduce(state.log_weights))
        return 0.0

    def _infer(self, state: LayerState) -> None:
        states = state.states
        k, n = states.weights.shape
        top, total, own, other, both = -np.inf, 0.0, np.zeros(k), np.zeros(n), np.zeros((k, n))
        is_rbm, softplus = isinstance(state.problem.model, RBM), np.zeros(n)
        for rows, scores, x in states.blocks():
            above = max(top, float(scores.max()))
            shrunk, p = np.exp(top - above), np.exp(scores - above)
            if not is_rbm:
                softplus = softplus * shrunk + p @ np.logaddexp(0.0, x + states.other_bias)
            probabilities(x, states.other_bias)
            total = total * shrunk + p.sum()
            own = own * shrunk + p @ rows
            other = other * shrunk + p @ x
            both = both * shrunk + (rows * p[:, None]).T @ x
            top = above
        state.log_z = top + float(np.log(total))
        own, other, both = (np.clip(a / total, 0.0, 1.0) for a in (own, other, both))
        layers = (own, other, both) if states.of_visible else (other, own, both.T)
        state.marginals = UnitMarginals(*layers, None if is_rbm else softplus / total)

    def value(self, state: LayerState) -> Value:  # type: ignore[override]
        """Return log Z."""
        return Value(state.log_z, state.log_z, state.log_z)

    def finish(self, state: LayerState) -> Marginals | Samples:  # type: ignore[override]
        """Return the averages, or draws."""
        problem = state.problem
        if problem.task is Task.INFER:
            assert state.marginals is not None
            units, log_z = state.marginals, state.log_z
            return Marginals(log_z, Bound.EXACT, units.mu_var, units, log_z, log_z)
        assert state.log_weights is not None
        drawn = state.states.drawn(problem.n_samples, state.log_weights, np.random.default_rng(problem.seed))
        return Samples(np.concatenate(drawn, axis=1).astype(np.int64), Bound.EXACT)
