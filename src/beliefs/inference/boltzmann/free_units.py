r"""Questions about a machine with observed units, put to the machine of those that are left.

.. math:: \log Z = c + \log Z_\text{free}

with c the score of the observed units among themselves (:mod:`beliefs.model.clamped_rbm`). A form answers for the free
units; observed ones are certain, and :math:`P(v = 1, h = 1)` is a product where one of the two is. Bounds stay bounds,
moved by what the constant and the biases may have been rounded. Iterates, laws of samples and costs are those of the
smaller machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from beliefs.driver import Value
from beliefs.inference.base import Decoding, Marginals, Method, Problem, Samples, Task
from beliefs.inference.boltzmann.machines import Form, rounding_of
from beliefs.inference.result import InferenceResult
from beliefs.inference.rounding import certified
from beliefs.inference.units import UnitMarginals
from beliefs.model.clamped_rbm import ClampedRBM
from beliefs.typing import Floats, Ints

__all__ = ["ClampedMarginals", "FreeUnits"]

_SAID = (
    "name", "iterative", "value_is_free", "fixed_point", "residual_of", "default_tol", "default_max_iters", "warm_kind",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ClampedMarginals(UnitMarginals):
    """Marginals of all units, some of them observed; called, the tables of the factor graph with that evidence."""

    machine: ClampedRBM = field(kw_only=True)

    def __call__(self) -> Floats:
        """Return the marginals of the factors in order, each of the units in it that are not observed."""
        tables: Floats = super().__call__()[self.machine.to_factor_graph().parent_cells]
        return tables


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FreeUnits(Method):
    """A form about the units of a machine that are not observed, whose answers are about all of them."""

    form: Form
    machine: ClampedRBM
    task: Task

    def __post_init__(self) -> None:
        for name in _SAID:  # what the driver and the doors read of a method
            object.__setattr__(self, name, getattr(self.form, name))

    def init(self, problem: Problem, warm: Any = None) -> Any:
        """Start on the free units."""
        return self.form.init(problem, warm)

    def step(self, state: Any) -> float:
        """Take a step of the form."""
        return self.form.step(state)

    def verify(self, state: Any) -> float:
        """Return what the form says."""
        return self.form.verify(state)

    def value(self, state: Any) -> Value:
        """Return the form's value and interval with the constant."""
        return self._moved(self.form.value(state))

    def _moved(self, value: Value) -> Value:
        c = self.machine.constant
        moved = Value(value.log_z + c, value.lower + c, value.upper + c, value.rounding)
        if value.lower == value.upper:
            return replace(moved, lower=moved.log_z, upper=moved.log_z)
        error = rounding_of(self.machine.machine)
        return replace(certified(moved, error), rounding=value.rounding + error)

    def finish(self, state: Any) -> Marginals | Decoding | Samples:
        """Return the form's answer, for all units."""
        answer = self.form.finish(state)
        if isinstance(answer, Samples):
            return replace(answer, samples=self._whole(answer.samples))
        if isinstance(answer, Decoding):
            found = self._moved(Value(answer.log_value, answer.lower, answer.upper))
            states = answer.assignment if self.task is Task.MARGINAL_MAP else self._whole(answer.assignment[None])[0]
            return replace(answer, assignment=states, log_value=found.log_z, lower=found.lower, upper=found.upper)
        return self._marginals(answer)

    def _whole(self, free: Ints) -> Ints:
        """Return rows of states of all units from those of free units."""
        rows = np.repeat(self.machine.evidence_states[None], len(free), axis=0)
        rows[:, self.machine.free_units] = free
        return rows

    def _marginals(self, answer: Marginals) -> Marginals:
        units, machine = answer.tables, self.machine
        assert isinstance(units, UnitMarginals)
        states, n = machine.evidence_states, machine.machine.n_visible
        ones = np.maximum(states, 0).astype(np.float64)
        ones[machine.free_units] = np.concatenate([units.visible, units.hidden])
        pairs = np.outer(ones[:n], ones[n:])
        if (states[:n] < 0).any():
            pairs[np.ix_(states[:n] < 0, states[n:] < 0)] = units.pairs
        whole = ClampedMarginals(ones[:n], ones[n:], pairs, machine=machine)
        value = self._moved(Value(answer.log_z, answer.lower, answer.upper))
        kind: type[InferenceResult] = answer.kind or InferenceResult
        moved = dict.fromkeys(kind.of_log_z, machine.constant) | {"rounding": rounding_of(machine.machine)}
        extras = {k: x + moved[k] if k in moved and x is not None else x for k, x in answer.extras.items()}
        return replace(
            answer, log_z=value.log_z, lower=value.lower, upper=value.upper, mu_var=whole.mu_var, tables=whole,
            extras=extras,
        )  # fmt: skip

    def warm_state(self, state: Any) -> Any:
        """Return what the form needs."""
        return self.form.warm_state(state)

    def __repr__(self) -> str:
        return repr(self.form)
