r"""Tree-reweighted message passing: an upper bound on log Z, on the MAP score, and on marginal MAP.

For counting numbers :math:`\rho` that are a mixture of forests, :math:`\rho_c = \Pr(c \in \mathcal T)`
[wainwright2005]:

.. math::
    \Phi(\rho) = \max_{\mu \in L} \; \theta \cdot \mu + \sum_i H(\mu_i) - \sum_c \rho_c I(\mu_c) \;\ge\; \log Z

is concave in :math:`\mu`; the messages of :mod:`beliefs.kernels.messages` have its maximiser as their only fixed point.
:math:`\Phi` is a bound only at the maximum. Before it, and at every iterate, the decomposed form
(:mod:`beliefs.kernels.decomposed_bound`) is one: the value returned is that, and the two agree once the messages have
settled. Where the counting numbers have no certificate (given by the user for factors of more than two variables, say)
the value is :math:`\Phi` at the present beliefs and only an ESTIMATE.

Convergence is not guaranteed by the default schedule (it nearly always happens; ``schedule="chains"`` with
``rho="grid"`` is a descent method, and damping helps). ``rho="optimized"`` also moves :math:`\rho` by conditional
gradient: :math:`\partial \Phi / \partial \rho_c = -I(\mu_c)`, towards the forest of greatest mutual information.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from beliefs.inference.base import Decoding, Marginals, Problem, Task, check_option, is_number, observed_point_masses
from beliefs.inference.messages.propagation import MessagePassing, MessageState
from beliefs.inference.messages.rho import Reweighting, choose_rho, improved
from beliefs.inference.messages.tiers import message_offsets
from beliefs.kernels.decomposed_bound import decomposed_bound
from beliefs.typing import Floats

__all__ = ["TRW"]

_SETTLED = 1e-5  # change of a marginal below which mutual informations are good enough for a step on rho


@dataclass(frozen=True, kw_only=True, repr=False)
class TRW(MessagePassing):
    """Tree-reweighted belief propagation; for the other options see :class:`MessagePassing`.

    Parameters
    ----------
    rho : str, float or array (n_factors,), optional
        ``"grid"``, ``"uniform"``, ``"sampled"`` or ``"optimized"``, one number for all factors of several variables, or
        one for each factor; see :mod:`beliefs.inference.messages.rho`. None chooses.
    rho_steps : int
        Steps of conditional gradient of ``rho="optimized"``.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.datasets.make_ising_grid(4, seed=0)
    >>> bound, truth = bl.infer(g, "trw"), bl.infer(g)
    >>> bound.bound.name, bool(bound.log_z >= truth.log_z)
    ('UPPER', True)
    """

    rho: Any = None
    rho_steps: int = 20

    name: ClassVar[str] = "trw"
    guarantee: ClassVar[str] = "upper bound"
    reference: ClassVar[str] = "wainwright2005, kolmogorov2006, meltzer2009"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(is_number(self.rho_steps, whole=True) and self.rho_steps >= 0, "rho_steps", ">= 0", self.rho_steps)

    def counting_numbers(self, problem: Problem) -> Reweighting:
        """Choose or check the counting numbers."""
        chosen = None if isinstance(self.rho, str) and self.rho == "optimized" else self.rho
        return choose_rho(problem.graph.layout, chosen, problem.seed, problem.graph.naming.name)

    def upper_bound(self, state: MessageState) -> float:
        """Return the decomposed bound at the present messages."""
        if state.reweighting.parent is None:
            return np.inf
        logs, now, lay = state.logs, state.setting, state.setting.layout
        graph = state.problem.graph
        seen = np.repeat(lay.observed, lay.card)
        beta = np.where(seen, np.where(observed_point_masses(graph) > 0, 0.0, -np.inf), logs.beta)
        return float(
            decomposed_bound(
                lay.card,
                lay.scope_ptr,
                lay.scope_vars,
                lay.cell_ptr,
                lay.state_ptr,
                message_offsets(lay),
                now.theta,
                state.problem.tau,
                now.rho,
                state.reweighting.parent,
                logs.messages,
                logs.beta,
            )  # fmt: skip
        )

    # -- counting numbers that move ---------------------------------------------------------------------------------
    def step(self, state: MessageState) -> float:
        """Sweep; with ``rho="optimized"``, once the marginals have settled, take a step on rho instead of stopping."""
        residual = super().step(state)
        taken = state.memory.get("taken", 0)
        moving = isinstance(self.rho, str) and self.rho == "optimized" and state.problem.task is Task.INFER
        if not moving or residual > _SETTLED or taken >= self.rho_steps or state.setting.schedule.forest:
            return residual
        self._keep_best(state)
        state.memory["taken"] = taken + 1
        answer = super().marginals(state)
        state.reweighting = improved(
            state.setting.layout, state.reweighting, _information(state, answer), 1.0 / (taken + 3.0)
        )
        state.hold(self.tiers, replace(state.setting, rho=state.reweighting.rho), state.logs.messages)
        return 1.0

    def _keep_best(self, state: MessageState) -> None:
        bound = self.upper_bound(state)
        if bound < state.memory.get("bound", np.inf):
            state.memory |= {"bound": bound, "messages": state.logs.messages.copy(), "reweighting": state.reweighting}

    def finish(self, state: MessageState) -> Marginals | Decoding:
        """Return to the best counting numbers met, if they have moved."""
        if state.memory.get("bound", np.inf) < self.upper_bound(state):
            state.reweighting = state.memory["reweighting"]
            state.hold(self.tiers, replace(state.setting, rho=state.reweighting.rho), state.memory["messages"])
        return super().finish(state)


def _information(state: MessageState, beliefs: Marginals) -> Floats:
    r"""Return :math:`I(\mu_c) = \sum_{i \in c} H(\mu_i) - H(\mu_c)` for each factor."""
    lay = state.setting.layout

    def entropies(flat: Floats, starts: Any) -> Floats:
        terms = np.where(flat > 0, -flat * np.log(np.where(flat > 0, flat, 1.0)), 0.0)
        return np.add.reduceat(terms, starts)

    of_variables = entropies(beliefs.mu_var, lay.state_ptr[:-1])
    together = np.bincount(lay.edge_factor, weights=of_variables[lay.scope_vars], minlength=lay.n_factors)
    return np.maximum(together - entropies(beliefs.mu_factor, lay.table_ptr[:-1]), 0.0)
