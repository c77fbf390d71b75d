r"""Truncated fitting: the loss is a function of the beliefs after a given number of sweeps, and so is its gradient.

:math:`L(\theta) = Q(\mu^N(\theta))`, where :math:`\mu^N` are the beliefs of belief propagation, tree-reweighted or
fractional message passing, or mean field, after exactly N iterations from a uniform start [domke2013]. The gradient is
that of this function, by reverse-mode differentiation with kernels written by hand
(:mod:`beliefs.kernels.adjoints.messages`): converged or not, it is exact to rounding, and agrees with what will be used
later, if predictions also run N iterations. Messages are Eq. (18) [domke2013], and their way back Algorithm 3, in logs.

Cost: the way back takes about twice the time of the way forward. Memory: the messages before every pass (an iteration
of the schedules ``sequential``, ``color`` and ``tree`` has two passes, one of ``forward`` has one). With
``checkpoints`` no more than that many are held, and passes in between are run again: same gradient to the last byte,
more time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from beliefs.inference.base import observed_point_masses
from beliefs.inference.budget import default_budget, over_budget
from beliefs.inference.messages.pairwise_edges import has_pairwise_form
from beliefs.inference.messages.schedule import make_schedule
from beliefs.learning.gradients.base import Beliefs
from beliefs.learning.gradients.checkpoints import Recording, State
from beliefs.learning.gradients.forms import message_run
from beliefs.learning.gradients.message_run import (
    MessageRun,
    RunBeliefs,
    ThroughSweeps,
    goes_back_by_marginals,
    goes_back_by_messages,
    sweep_spec,
)
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.options import MANY, check_integer
from beliefs.typing import Floats

__all__ = ["Truncated"]

_TRIFLE = 50_000_000  # bytes that are always there


class MessageBeliefs(RunBeliefs):
    """Beliefs after a number of passes of message passing."""

    def __init__(self, run: MessageRun, recording: Recording, last: State) -> None:
        super().__init__(run, last)
        self.recording = recording

    def _pulled(self, bar_var: Floats, bar_factor: Floats | None) -> Floats:
        back = self.backward(bar_var, bar_factor)
        for t, old, new in self.recording.backward(self.last):
            back.back_pass(t, old, new)
        return back.gradient()


@dataclass(frozen=True, kw_only=True)
class Truncated(ThroughSweeps):
    """Back-propagation through a fixed number of iterations from a uniform start.

    Parameters
    ----------
    method : Method
        BP, TRW, FractionalBP or MeanField, without damping; the schedule is replayed backwards.
    n_sweeps : int
        Iterations of the method, as in ``infer(graph, method, max_iters=n_sweeps)``; 0 is allowed.
    checkpoints : int, optional
        How many copies of the messages are held at most; None: one for each pass.

    Examples
    --------
    >>> import beliefs as bl
    >>> grid = bl.datasets.make_ising_grid(4, seed=0)
    >>> beliefs = Truncated(method=bl.TRW(), n_sweeps=3).run(grid)
    >>> beliefs.pullback(bar_var=beliefs.mu_var).shape == grid.theta.shape
    True
    """

    n_sweeps: int = 10
    checkpoints: int | None = None

    name: ClassVar[str] = "truncated"
    until_tol: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_integer("n_sweeps", self.n_sweeps, 0, MANY)
        check_integer("checkpoints", self.checkpoints, 1, MANY, none=True)
        super().__post_init__()

    def run(self, graph: FactorGraph, warm: Any = None) -> Beliefs:
        """Run ``n_sweeps`` iterations from the uniform start, whatever came before."""
        if goes_back_by_marginals(self.method):
            from beliefs.learning.gradients.mean_field import run_mean_field

            return run_mean_field(self.method, self.n_sweeps, graph, self.checkpoints)
        assert goes_back_by_messages(self.method)
        self._check_budget(graph.layout)
        run = message_run(graph, sweep_spec(self.method, graph), observed_point_masses(graph))
        n_passes = self.n_sweeps * run.passes_an_iteration
        recording = Recording(run, n_passes, self._held(n_passes))
        last = recording.forward()
        run.beliefs()
        return MessageBeliefs(run, recording, last)

    def marginals(self, graph: FactorGraph) -> Floats:
        """Run ``n_sweeps`` iterations and keep nothing on the way."""
        if goes_back_by_marginals(self.method):
            return super().marginals(graph)
        assert goes_back_by_messages(self.method)
        run = message_run(graph, sweep_spec(self.method, graph), observed_point_masses(graph))
        for t in range(self.n_sweeps * run.passes_an_iteration):
            run.run_pass(t)
        run.beliefs()
        return run.mu_var

    def _held(self, n_passes: int) -> int:
        return max(1, n_passes if self.checkpoints is None else min(self.checkpoints, n_passes))

    def n_bytes(self, layout: Layout) -> int:
        """Return the memory that copies of messages take for a graph of this layout; tables come on top of it."""
        if not goes_back_by_messages(self.method):  # marginals, one pass an iteration
            return 8 * (self._held(self.n_sweeps) + 2) * layout.n_states
        schedule = make_schedule(layout, self.method.schedule, self.method.order)
        n_passes = self.n_sweeps * len(schedule.passes)
        return 8 * (self._held(n_passes) + 2) * _message_entries(layout)

    def _check_budget(self, layout: Layout) -> None:
        needed = self.n_bytes(layout)
        if needed > _TRIFLE and needed > default_budget():
            demand, advice = f"{self.n_sweeps} sweeps need", "Use fewer sweeps, or checkpoints"
            raise over_budget(demand, needed, default_budget(), advice, " for copies of messages")


def _message_entries(layout: Layout) -> int:
    """Return the length of the array of messages: pairs of one cardinality are padded, or ratios if binary."""
    arity, card = layout.arity, layout.card
    if layout.n_edges and has_pairwise_form(layout):
        return int(2 * (arity == 2).sum() * (1 if card[0] == 2 else (card[0] + 3) // 4 * 4))
    return int(card[layout.scope_vars].sum())
