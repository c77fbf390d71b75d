r"""Mean field of a machine, a layer at a time: the same iterates as on its factor graph, as matrix products.

.. math:: \mu^v = \sigma(b + W \mu^h), \qquad \mu^h = \sigma(a + W^T \mu^v)

The units of a layer share no factor, so updating them together is updating them one after the other, and

.. math:: \log Z \ge b^T \mu^v + a^T \mu^h + \mu^{v T} W \mu^h + H(\mu^v) + H(\mu^h)

never falls ([jordan1999]; see :mod:`beliefs.inference.variational.mean_field`). A step goes forward (visible, hidden)
or back in turn. Certified at every iterate, for whatever marginals. All runs of ``restarts`` are rows of one product.
Cost of a step: two products with the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Value
from beliefs.inference.base import Bound, Marginals, Method, Problem, Task
from beliefs.inference.boltzmann.machines import Form, Parameters, magnitudes, rounding_of
from beliefs.inference.budget import over_budget
from beliefs.inference.parallel import one_thread_of_blas
from beliefs.inference.rounding import UNIT, certified
from beliefs.inference.units import UnitMarginals
from beliefs.inference.variational.mean_field import MeanField
from beliefs.kernels.boltzmann.layers import probabilities
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM
from beliefs.typing import Floats

__all__ = ["LayerMeanField", "LayerMeans", "entropies", "given"]


@dataclass(frozen=True, eq=False)
class Start:
    """What a warm start needs: the means of both layers, and whether the next step goes forward."""

    visible: Floats
    hidden: Floats
    forward: bool


@dataclass(eq=False)
class LayerMeans:
    """The machine, the means of all runs ``(runs, units)``, and where the schedule stands."""

    machine: RBM
    parameters: Parameters
    visible: Floats
    hidden: Floats
    forward: bool = True
    change: float = 0.0
    moved: bool = False

    @cached_property
    def rounding(self) -> float:
        """How wrong the bound may be: its sums, and means that add up to one but for rounding."""
        p, n_units = self.parameters, self.machine.n_vars
        size = sum(float(np.abs(a).sum()) for a in (magnitudes(p.weights), p.visible_bias, p.hidden_bias))
        return rounding_of(self.machine) + 4.0 * UNIT * (size + n_units)


@dataclass(frozen=True, kw_only=True, repr=False)
class LayerMeanField(MeanField, Form):
    """Coordinate ascent on the means of one layer after the other."""

    stands_for: ClassVar[type[Method]] = MeanField
    answers: ClassVar[tuple[Task, ...]] = (Task.INFER,)
    warm_kind: ClassVar[type] = Start

    @classmethod
    def serves(cls, method: Any, machine: BoltzmannMachine) -> bool:
        """Whether units are independent and updated in their order."""
        plain = method.order == 1 and method.structure == "none" and method.schedule == "sequential"
        return plain and isinstance(machine, RBM)

    def init(self, problem: Problem, warm: Start | None = None) -> LayerMeans:  # type: ignore[override]
        """Start from ``warm`` means, from a half each, and from random ones."""
        machine = problem.model
        assert isinstance(machine, RBM)
        n, m = machine.weights.shape
        matrices = self.order + (machine.dtype != np.float64)  # of pairs, squares and limits; and a copy
        needed = 8.0 * (matrices * machine.weights.size + 6 * (self.restarts + 1) * (n + m))
        if needed > problem.max_bytes:
            raise over_budget(f"{self} needs", needed, problem.max_bytes, "Raise max_bytes", " for means and weights")
        means = np.full((self.restarts + 1, n + m), 0.5)
        for r in range(1, self.restarts + 1):
            random = np.random.default_rng([problem.seed, r]).exponential(size=2 * (n + m)).reshape(-1, 2)
            means[r] = random[:, 1] / random.sum(axis=1)
        state = LayerMeans(machine, Parameters.of(machine), means[:, :n].copy(), means[:, n:].copy())
        if warm is not None:
            runs = min(len(warm.visible), len(means))
            state.visible[:runs], state.hidden[:runs] = warm.visible[:runs], warm.hidden[:runs]
            state.forward = warm.forward
        return state

    def step(self, state: LayerMeans) -> float:  # type: ignore[override]
        """Update both layers once; the residual is the largest change in this step or the one before."""
        p, change = state.parameters, 0.0
        with one_thread_of_blas():
            for to_visible in (state.forward, not state.forward):
                if to_visible:
                    new = given(state.hidden, p.weights.T, p.visible_bias)
                    change = max(change, float(np.abs(new - state.visible).max(initial=0.0)))
                    state.visible = new
                else:
                    new = given(state.visible, p.weights, p.hidden_bias)
                    change = max(change, float(np.abs(new - state.hidden).max(initial=0.0)))
                    state.hidden = new
        residual, state.change = max(change, state.change), change
        state.forward, state.moved = not state.forward, True
        return residual

    def value(self, state: LayerMeans) -> Value:  # type: ignore[override]
        """Return the best run's bound, certified; on both sides where there are no pairs."""
        return _valued(state, float(_bounds(state).max()))

    def finish(self, state: LayerMeans) -> Marginals:  # type: ignore[override]
        """Return the best run's means and bound."""
        bounds = _bounds(state)
        r = int(np.argmax(bounds))
        value = _valued(state, float(bounds[r]))
        bound = Bound.EXACT if value.lower == value.upper else Bound.LOWER
        units = UnitMarginals(state.visible[r], state.hidden[r], np.outer(state.visible[r], state.hidden[r]))
        return Marginals(value.log_z, bound, units.mu_var, units, value.lower, value.upper)

    def warm_state(self, state: LayerMeans) -> Any:  # type: ignore[override]
        """Return the means of all runs."""
        return Start(state.visible, state.hidden, state.forward)


def given(rows: Floats, weights: Floats, bias: Floats) -> Floats:
    """Return the means of a layer given those of the other, ``(runs, units)``."""
    x: Floats = rows @ weights
    probabilities(x, bias)
    return x


def entropies(means: Floats) -> Floats:
    """Return the entropy of independent units, a number a row."""
    both = np.stack([means, 1.0 - means])
    terms = both * np.log(both, out=np.zeros_like(both), where=both > 0)
    result: Floats = -(terms[0] + terms[1]).sum(axis=1)  # in an order that depends on no other row
    return result


def _bounds(state: LayerMeans) -> Floats:
    p, v, h = state.parameters, state.visible, state.hidden
    with one_thread_of_blas():
        coupled: Floats = ((v @ p.weights) * h).sum(axis=1) + v @ p.visible_bias + h @ p.hidden_bias
    return coupled + entropies(v) + entropies(h)


def _valued(state: LayerMeans, log_z: float) -> Value:
    if state.machine.n_hidden == 0 and state.moved:
        return Value(log_z, log_z, log_z)
    return certified(Value(log_z, log_z), state.rounding)
