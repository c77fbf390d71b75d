r"""Gradients through naive mean field: after a number of sweeps from the uniform start, and at convergence.

The beliefs are :math:`\mu_v` after exactly N sweeps and :math:`\mu_f = \prod_{v \in f} \mu_v`. They are a smooth
function of the potentials whether or not the sweeps have converged, and its gradient is exact: the updates are undone
one by one (Algorithm 2 [domke2013]). For that the marginals after each sweep are kept (an update's old value is that of
the sweep before), N + 1 times the states in all, or fewer with ``checkpoints``: then sweeps are run again from what was
kept.

At convergence no history is needed: the adjoints solve linear equations with the marginals held, iterated in the same
order until they settle. Cost of a sweep back: about that of two sweeps.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from beliefs.driver import Limits, Status, Value
from beliefs.driver import run as drive
from beliefs.errors import NotConvergedError, UnsupportedError
from beliefs.inference.base import Problem
from beliefs.inference.variational.field import Run
from beliefs.inference.variational.mean_field import MeanField, MeanFieldWarmStart
from beliefs.inference.variational.naive import NaiveField
from beliefs.kernels.adjoints.mean_field import add_table_adjoints
from beliefs.learning.gradients.base import Beliefs
from beliefs.learning.gradients.checkpoints import Recording, Replayed, State
from beliefs.learning.gradients.mean_field_adjoints import Adjoints, adjoints, room
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import read_only
from beliefs.options import MANY, check_integer
from beliefs.typing import Floats

__all__ = ["MeanFieldBeliefs", "converge_mean_field", "run_mean_field"]


def run_mean_field(method: MeanField, n_sweeps: int, graph: FactorGraph, checkpoints: int | None = None) -> Beliefs:
    """Run ``n_sweeps`` sweeps of naive mean field from the uniform start and keep what the way back needs.

    The beliefs are those of ``infer(graph, method, max_iters=n_sweeps)``, to rounding. With hard zeros the start is a
    possible state, as there, and counts as a constant.

    Parameters
    ----------
    method : MeanField
        With ``structure="none"`` and ``restarts=0``, else UnsupportedError.
    checkpoints : int, optional
        The most copies of the marginals ``(n_states,)`` kept at a time beside the last; None keeps one for each sweep.
        With fewer, sweeps are run again; see :mod:`beliefs.learning.gradients.checkpoints`.
    """
    check_integer("n_sweeps", n_sweeps, 0, MANY)
    check_integer("checkpoints", checkpoints, 1, MANY, none=True)
    field, run = _started(method, graph, None)
    recording = Recording(Sweeps(field, run), n_sweeps, max(1, n_sweeps if checkpoints is None else checkpoints))
    return TruncatedMeanField(field, recording)


def converge_mean_field(
    method: MeanField, graph: FactorGraph, tol: float, back_tol: float, max_iters: int, warm: Any = None
) -> Beliefs:
    """Run naive mean field until no marginal changes by more than ``tol``; go back until no adjoint by ``back_tol``.

    ``max_iters`` bounds both. Beliefs short of ``tol`` have ``converged`` False, as have those whose adjoints did not
    settle, once they have been pulled back. ``warm`` is the ``warm_state`` of earlier beliefs of mean
    field; anything else is ignored.
    """
    warm = warm if isinstance(warm, MeanFieldWarmStart) else None
    field, run = _started(method, graph, warm)
    forward, change = warm is None or warm.forward, 0.0

    def step() -> float:
        nonlocal forward, change
        now = field.sweep(run, forward=forward, threads=1)
        residual, change, forward = max(now, change), now, not forward
        return residual

    limits = Limits(tol=tol, max_iters=max_iters)
    done = drive(step, lambda: Value(0.0), limits, fixed_point=False)
    beliefs = ConvergedMeanField(field, run, Limits(tol=back_tol, max_iters=max_iters))
    beliefs.converged = done.status is Status.CONVERGED
    beliefs.warm_state = MeanFieldWarmStart(run.mu[None].copy(), forward)
    return beliefs


def _started(method: MeanField, graph: FactorGraph, warm: MeanFieldWarmStart | None) -> tuple[NaiveField, Run]:
    """Return the updates and the start that ``infer`` would take."""
    if method.structure != "none":
        raise UnsupportedError(
            f"{method}: gradients are those of the naive mean field; use mean_field without a structure, or "
            "the perturbation gradient"
        )
    if method.restarts:
        raise UnsupportedError(f"{method}: gradients follow one run from one start; use restarts=0")
    state = method.init(Problem(graph), warm)
    field, run = state.field, state.runs[0]
    assert isinstance(field, NaiveField)
    if not run.feasible:
        raise UnsupportedError(f"{method}: no state of positive weight was found to start from; check the hard zeros")
    return field, run


class Sweeps(Replayed):
    """Numbered sweeps of one run, forward and backward in turn."""

    def __init__(self, field: NaiveField, run: Run) -> None:
        self.field, self.run = field, run

    def run_pass(self, t: int) -> None:
        """Update every variable once."""
        self.field.sweep(self.run, forward=t % 2 == 0, threads=1)

    def save(self, whole: bool) -> State:
        """Copy the marginals: nothing else is needed."""
        return State(self.run.mu.copy())

    def load(self, state: State) -> None:
        """Go on from earlier marginals."""
        self.run = self.field.begin(state.messages)


class MeanFieldBeliefs(Beliefs):
    """Products of marginals: tables, the bound and the first step back are the same however they were reached."""

    def __init__(self, field: NaiveField, run: Run) -> None:
        self.layout, self.field, self.last = field.graph.layout, field, run
        self.mu_var = read_only(run.mu.view())

    @property
    def mu_factor(self) -> Floats:
        """Return products of marginals."""
        return self.field.tables(self.last)

    @cached_property
    def log_z(self) -> float:
        """The lower bound on log Z that these marginals give."""
        return self.field.value(self.last)

    def _began(self, bar_var: Floats, bar_factor: Floats | None) -> Adjoints:
        """Send gradients in tables on to the marginals they are products of, and begin the way back."""
        lay = self.layout
        mu, bar = np.array(self.mu_var), bar_var.copy()
        if bar_factor is not None:
            tables = bar_factor.copy()
            factors = read_only(np.arange(lay.n_factors))
            add_table_adjoints(factors, lay.scopes, lay.table_ptr, read_only(tables), mu, np.empty(room(lay)), bar)
        return adjoints(self.field, mu, bar)


class TruncatedMeanField(MeanFieldBeliefs):
    """Beliefs after a number of sweeps."""

    def __init__(self, field: NaiveField, recording: Recording) -> None:
        self.recording, self.final = recording, recording.forward()
        super().__init__(field, field.begin(self.final.messages))

    def _pulled(self, bar_var: Floats, bar_factor: Floats | None) -> Floats:
        back = self._began(bar_var, bar_factor)
        for t, before, after in self.recording.backward(self.final):
            back.undo(t, before, after)
        return back.gradient(held=False)


class ConvergedMeanField(MeanFieldBeliefs):
    """Beliefs at a fixed point."""

    def __init__(self, field: NaiveField, run: Run, limits: Limits) -> None:
        super().__init__(field, run)
        self.limits = limits

    def _pulled(self, bar_var: Floats, bar_factor: Floats | None) -> Floats:
        back = self._began(bar_var, bar_factor)
        limits = Limits(tol=self.limits.tol, max_iters=self.limits.max_iters)
        done = drive(back.settle, lambda: Value(0.0), limits, fixed_point=False)
        if done.status is Status.DIVERGED:
            raise NotConvergedError(
                "the adjoints of mean field diverge: its marginals are not at a stable fixed point; lower tol, raise "
                "max_iters, or use truncated gradients"
            )
        self.converged = self.converged and done.status is Status.CONVERGED
        return back.gradient(held=True)
