r"""Back-propagation at convergence: the gradient of the fixed point, by the reverse sweeps with all messages held.

Forward, the method runs to a tolerance; no history is kept. Backward, the reverse of an iteration is repeated with the
messages held at their last values until nothing is left to hand on: this adds up the Neumann series
:math:`\sum_k (J^\top)^k \bar\lambda` of the implicit equations, where J is the derivative of an iteration
([domke2013] section 7.2). It converges if the iteration itself does, at the same rate.

The gradient is that of the fixed point only as far as it has been reached: an error of 1e-3 in marginals is harmless in
predictions and ruins gradients. If the tolerance is not met, forward or backward, ``converged`` is False.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Limits, Status, Value
from beliefs.driver import run as drive
from beliefs.errors import NotConvergedError
from beliefs.inference.base import observed_point_masses
from beliefs.inference.messages.propagation import MessageWarmStart
from beliefs.learning.gradients.base import Beliefs
from beliefs.learning.gradients.forms import message_run
from beliefs.learning.gradients.message_run import (
    MessageRun,
    RunBeliefs,
    ThroughSweeps,
    goes_back_by_marginals,
    goes_back_by_messages,
    reweighting_of,
    sweep_spec,
)
from beliefs.model.graph import FactorGraph
from beliefs.options import check_integer, check_number
from beliefs.typing import Floats

__all__ = ["AtConvergence"]


class ConvergedBeliefs(RunBeliefs):
    """Beliefs at a fixed point of message passing."""

    def __init__(self, run: MessageRun, limits: Limits, converged: bool, warm_state: MessageWarmStart) -> None:
        super().__init__(run, run.save(True))
        self.limits, self.converged, self.warm_state = limits, converged, warm_state

    def _pulled(self, bar_var: Floats, bar_factor: Floats | None) -> Floats:
        run, held = self.run, self.last.messages
        back = self.backward(bar_var, bar_factor)

        def step() -> float:
            for index in range(run.passes_an_iteration - 1, -1, -1):
                back.back_pass(index, held, held)
            return back.largest_adjoint(held)

        limits = Limits(tol=self.limits.tol, max_iters=self.limits.max_iters)  # its clock starts now
        done = drive(step, lambda: Value(0.0), limits, fixed_point=False)
        grad = back.gradient()
        if done.status is Status.DIVERGED or not np.isfinite(grad).all():
            raise NotConvergedError(
                "the adjoints of message passing diverge: its messages are not at a stable fixed point; lower tol, "
                "raise max_iters, or use truncated gradients"
            )
        self.converged = self.converged and done.status is Status.CONVERGED
        return grad


@dataclass(frozen=True, kw_only=True)
class AtConvergence(ThroughSweeps):
    """Back-propagation through a fixed point.

    Parameters
    ----------
    method : Method
        BP, TRW, FractionalBP or MeanField, without damping.
    tol : float
        Largest change of a marginal in the last iteration.
    back_tol : float
        Largest adjoint of a log message that may be left at the end of the way back.
    max_iters : int
        Iterations forward, and again backward.

    Examples
    --------
    >>> import beliefs as bl
    >>> grid = bl.datasets.make_ising_grid(4, seed=0)
    >>> beliefs = AtConvergence(method=bl.TRW()).run(grid)
    >>> beliefs.pullback(bar_var=beliefs.mu_var).shape == grid.theta.shape, beliefs.converged
    (True, True)
    """

    tol: float = 1e-9
    back_tol: float = 1e-8
    max_iters: int = 1000

    name: ClassVar[str] = "convergence"

    def __post_init__(self) -> None:
        for name in ("tol", "back_tol"):
            check_number(name, getattr(self, name))
        check_integer("max_iters", self.max_iters, 0)
        super().__post_init__()

    def run(self, graph: FactorGraph, warm: Any = None) -> Beliefs:
        """Run to the tolerance, from the messages of earlier beliefs on the same layout if they are given."""
        if goes_back_by_marginals(self.method):
            from beliefs.learning.gradients.mean_field import converge_mean_field

            return converge_mean_field(self.method, graph, self.tol, self.back_tol, self.max_iters, warm)
        assert goes_back_by_messages(self.method)
        spec = sweep_spec(self.method, graph)
        sent = warm.messages_for(spec) if isinstance(warm, MessageWarmStart) else None
        run = message_run(graph, spec, observed_point_masses(graph), sent)
        passes = 0

        def step() -> float:
            nonlocal passes
            for _ in range(run.passes_an_iteration):
                run.run_pass(passes)
                passes += 1
            return run.beliefs()

        limits = Limits(tol=self.tol, max_iters=self.max_iters)
        done = drive(step, lambda: Value(0.0), limits, fixed_point=False)
        warm_state = MessageWarmStart(run.tier.log_messages().copy(), graph.theta, reweighting_of(self.method, graph))
        back = Limits(tol=self.back_tol, max_iters=self.max_iters)
        return ConvergedBeliefs(run, back, done.status is Status.CONVERGED, warm_state)
