r"""Gradients through naive mean field: after a number of sweeps from the uniform start, and at convergence.

The beliefs are :math:`\mu_v` after exactly N sweeps and :math:`\mu_f = \prod_{v \in f} \mu_v`. They are a smooth
function of the potentials whether or not the sweeps have converged, and its gradient is exact: the updates are undone
one by one [domke2013] section 7.1. For that the marginals after each sweep are kept (an update's old value is that of
the sweep before), N + 1 times the states in all, or fewer with ``checkpoints``: then sweeps are run again from what was
kept.

At convergence no history is needed: the adjoints solve linear equations with the marginals held, iterated in the same
order until they settle. Cost of a sweep back: about that of two sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beliefs.driver import Limits, Status, Value
from beliefs.driver import run as drive
from beliefs.errors import NotConvergedError, UnsupportedError
from beliefs.inference.base import Problem, check_option, is_number
from beliefs.inference.variational.field import Run, read_only
from beliefs.inference.variational.mean_field import MeanField, Start
from beliefs.inference.variational.naive import NaiveField
from beliefs.kernels.back_mean_field import add_table_adjoints
from beliefs.learning.gradients.base import Beliefs
from beliefs.learning.gradients.mean_field_adjoints import Adjoints, adjoints, room
from beliefs.model.graph import FactorGraph
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
        The most marginals ``(n_states,)`` kept at a time beside the first and the last; None keeps all. With fewer,
        sweeps are run again: once if there are twice the square root of ``n_sweeps``.
    """
    check_option(is_number(n_sweeps, whole=True) and n_sweeps >= 0, "n_sweeps", "an integer >= 0", n_sweeps)
    ok = checkpoints is None or (is_number(checkpoints, whole=True) and checkpoints >= 1)
    check_option(ok, "checkpoints", "None or an integer >= 1", checkpoints)
    field, run = _started(method, graph, None)
    history = History(field, run.mu.copy(), int(n_sweeps), n_sweeps if checkpoints is None else int(checkpoints))
    return TruncatedMeanField(field, history.sweep_all(run), history)


def converge_mean_field(
    method: MeanField, graph: FactorGraph, tol: float, back_tol: float, max_iters: int, warm: Start | None = None
) -> Beliefs:
    """Run naive mean field until no marginal changes by more than ``tol``; go back until no adjoint by ``back_tol``.

    ``max_iters`` bounds both. Beliefs short of ``tol`` have ``converged`` False, as have those whose adjoints did not
    settle, once they have been pulled back. ``warm`` is the ``kept`` of earlier beliefs.
    """
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
    beliefs.kept = Start(run.mu[None].copy(), forward)
    return beliefs


def _started(method: MeanField, graph: FactorGraph, warm: Start | None) -> tuple[NaiveField, Run]:
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


@dataclass(eq=False)
class History:
    """The marginals along a run, kept or made again: ``start`` is before the first of ``n_sweeps`` sweeps."""

    field: NaiveField
    start: Floats
    n_sweeps: int
    checkpoints: int

    def __post_init__(self) -> None:
        self.marks: dict[int, Floats] = {0: self.start}

    def sweep_all(self, run: Run) -> Run:
        """Do all sweeps, keeping marginals: all if there is room, else every so many sweeps, half of the room."""
        inside = self.n_sweeps - 1
        kept = inside if inside <= self.checkpoints else self.checkpoints // 2
        self.left = self.checkpoints - kept
        places = {round((k + 1) * self.n_sweeps / (kept + 1)) for k in range(kept)}
        for s in range(self.n_sweeps):
            if s in places:
                self.marks[s] = run.mu.copy()
            self.field.sweep(run, forward=s % 2 == 0, threads=1)
        return run

    def undo_all(self, back: Adjoints, mu: Floats) -> None:
        """Undo all sweeps, from stretch to stretch between the marginals kept."""
        after, end, stretch = mu, self.n_sweeps, [mu]
        for begin in sorted(self.marks, reverse=True):
            if begin == end - 1:  # neighbours are undone together
                stretch.insert(0, self.marks[begin])
            else:
                back.undo(stretch, end)
                self._undo(back, begin, self.marks[begin], end, after, self.left)
                stretch = [self.marks[begin]]
            after, end = self.marks[begin], begin
        back.undo(stretch, end)

    def _undo(self, back: Adjoints, begin: int, first: Floats, end: int, last: Floats, free: int) -> None:
        """Undo the sweeps ``begin..end`` with room for ``free`` marginals between the ``first`` and the ``last``."""
        if end - begin - 1 <= free:
            back.undo([first, *self._sweeps(begin, first, end), last], begin)
        elif free == 0:
            for s in range(end - 1, begin - 1, -1):
                before = self._sweep_to(begin, first, s)
                back.undo([before, last], s)
                last = before
        else:
            middle = (begin + end) // 2
            between = self._sweep_to(begin, first, middle)
            self._undo(back, middle, between, end, last, free - 1)
            self._undo(back, begin, first, middle, between, free - 1)

    def _sweeps(self, begin: int, first: Floats, end: int) -> list[Floats]:
        """Return the marginals after sweeps ``begin + 1 .. end - 1``."""
        run, marks = self.field.begin(first.copy()), []
        for s in range(begin, end - 1):
            self.field.sweep(run, forward=s % 2 == 0, threads=1)
            marks.append(run.mu.copy())
        return marks

    def _sweep_to(self, begin: int, first: Floats, end: int) -> Floats:
        run = self.field.begin(first.copy())
        for s in range(begin, end):
            self.field.sweep(run, forward=s % 2 == 0, threads=1)
        return run.mu


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
            add_table_adjoints(
                read_only(np.arange(lay.n_factors)), lay.card, lay.state_ptr, lay.scope_ptr, lay.scope_vars,
                lay.table_ptr, read_only(tables), mu, np.empty(room(lay)), bar,
            )  # fmt: skip
        return adjoints(self.field, mu, bar)


class TruncatedMeanField(MeanFieldBeliefs):
    """Beliefs after a number of sweeps."""

    def __init__(self, field: NaiveField, run: Run, history: History) -> None:
        super().__init__(field, run)
        self.history = history

    def _pulled(self, bar_var: Floats, bar_factor: Floats | None) -> Floats:
        back = self._began(bar_var, bar_factor)
        if self.history.n_sweeps:
            self.history.undo_all(back, back.mu)
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
