r"""Tree-reweighted message passing: an upper bound on log Z, on the MAP score, and on marginal MAP.

For counting numbers :math:`\rho` that are a mixture of forests, :math:`\rho_c = \Pr(c \in \mathcal T)`
[wainwright2005]:

.. math::
    \Phi(\rho) = \max_{\mu \in L} \; \theta \cdot \mu + \sum_i H(\mu_i) - \sum_c \rho_c I(\mu_c) \;\ge\; \log Z

is concave in :math:`\mu` (Eqs. (2.32)-(2.33) [ping2016], (13)-(17) [domke2013]); the messages of
:mod:`beliefs.kernels.messages.log` have its maximiser as their only fixed point. :math:`\Phi` is a bound only at the
maximum. Before it, and at every iterate, the decomposed form (:mod:`beliefs.kernels.messages.decomposed_bound`) is one:
the value returned is that, and the two agree once the messages have settled. Where the counting numbers have no
certificate (given by the user for factors of more than two variables, say) the value is :math:`\Phi` at the present
beliefs and only an ESTIMATE.

Convergence is not guaranteed by the default schedule (it nearly always happens; ``schedule="chains"`` with
``rho="grid"`` is a descent method, and damping helps). ``rho="optimized"`` also moves :math:`\rho` by conditional
gradient: :math:`\partial \Phi / \partial \rho_c = -I(\mu_c)`, towards the forest of greatest mutual information.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Limits, Value, run
from beliefs.inference.base import Bound, Guarantee, Problem, Task
from beliefs.inference.messages.propagation import MessagePassing, MessageState, MessageWarmStart
from beliefs.inference.messages.rho import WORDS, Reweighting, choose_rho, improved, join_rho
from beliefs.model.layout import Layout
from beliefs.options import MANY, check_integer, check_option, is_number
from beliefs.typing import Floats

__all__ = ["TRW"]

_BOUND_WORK = 5e7  # cells read for a bound on log Z beside that on marginal MAP, in 5 to 100 iterations
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
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.UPPER)
    price: ClassVar[float] = 4.0
    variants: ClassVar[Mapping[Task, tuple[str, ...]]] = {
        Task.INFER: (
            "",
            "rho=0.6",
            "rho=sampled",
            "rho=uniform",
            "rho=optimized, rho_steps=1",
        ),
        Task.MARGINAL_MAP: ("",),
    }
    certifies: ClassVar[bool] = True
    reference: ClassVar[str] = "wainwright2005, kolmogorov2006, meltzer2009"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.rho, str):
            words = (*WORDS, "optimized")
            check_option(self.rho in words, "rho", f"one of {', '.join(words)}, a number or an array", self.rho)
        check_integer("rho_steps", self.rho_steps, 0, MANY)

    @property
    def optimizes_rho(self) -> bool:
        """Whether the counting numbers are optimized."""
        return isinstance(self.rho, str) and self.rho == "optimized"

    @property
    def chooses_by_part(self) -> bool:
        """Whether they are chosen by structure, and stay; a word or a number is."""
        return not self.optimizes_rho and (self.rho is None or isinstance(self.rho, str) or is_number(self.rho))

    def share_plans(self, union: Layout, parts: Sequence[Layout]) -> None:
        """Give a union the counting numbers of its parts: two grids side by side are no grid."""
        if self.chooses_by_part and not is_number(self.rho):
            join_rho(union, parts, self.rho)

    def irreversible(self) -> str:
        """Refuse counting numbers that move, too."""
        moves = "rho='optimized' moves with the potentials; give fixed counting numbers, or none"
        return super().irreversible() or (moves if self.optimizes_rho else "")

    def counting_numbers(self, problem: Problem, warm: MessageWarmStart | None) -> Reweighting:
        """Choose or check the counting numbers; optimized ones are kept by a warm start."""
        if self.optimizes_rho and warm is not None and warm.frank_wolfe_steps > 0:
            return warm.reweighting
        return choose_rho(
            problem.graph.layout, None if self.optimizes_rho else self.rho, problem.seed, problem.graph.naming.name
        )

    def upper_bound(self, state: MessageState) -> float:
        """Return the best decomposed bound met so far; any messages give one, so the least counts."""
        best = min(self._bound_here(state), state.least_upper)
        if state.problem.task is Task.MARGINAL_MAP and state.log_z_upper is None:
            state.log_z_upper = self._log_z_bound(state.problem)
            best = min(best, state.log_z_upper)
        state.least_upper = best
        return best

    def _log_z_bound(self, problem: Problem) -> float:
        """Return a bound on log Z after some iterations of sum-product."""
        state = self.init(replace(problem, task=Task.INFER, query=np.zeros(0, np.int64)))
        steps = int(np.clip(_BOUND_WORK / max(1, int(problem.graph.layout.table_ptr[-1])), 5, 100))

        def step() -> float:
            residual = self.step(state)
            return residual if residual > _SETTLED else max(residual, self.verify(state))

        limits = Limits(tol=_SETTLED, max_iters=steps)
        done = run(step, lambda: Value(0.0, upper=self._bound_here(state)), limits, fixed_point=False)
        return float(done.trace.upper[-1])

    def _bound_here(self, state: MessageState) -> float:
        if state.reweighting.parent is None:
            return np.inf
        if state.problem.task is Task.INFER:
            return state.assessment.upper
        bound, state.rounding = state.logs.upper_bound(state.problem.tau, state.reweighting.parent)
        return bound

    def distance(self, state: MessageState) -> float:
        """Add how far the bound is from the value of the beliefs: at the maximum they are equal."""
        apart = super().distance(state)
        if state.problem.task is not Task.INFER or state.reweighting.parent is None:
            return apart
        energy, upper = state.assessment.energy, state.assessment.upper
        return max(apart, (upper - energy) / max(1.0, abs(energy))) if upper < np.inf else apart

    # -- counting numbers that move ---------------------------------------------------------------------------------
    def init(self, problem: Problem, warm: MessageWarmStart | None = None) -> MessageState:
        """Start as all message passing does; counting numbers that have been optimized are kept."""
        state = super().init(problem, warm)
        state.least_upper = self._bound_here(state)  # messages that do not settle may end up worse than they began
        if self.optimizes_rho and problem.task is Task.INFER and not state.spec.schedule.forest:
            state.frank_wolfe.left = self.rho_steps - (warm.frank_wolfe_steps if warm else 0)
        return state

    def step(self, state: MessageState) -> float:
        """Sweep; with ``rho="optimized"``, once the marginals have settled, take a step on rho instead of stopping."""
        residual = super().step(state)
        best = state.frank_wolfe
        if best.left <= 0:
            return residual
        if residual > _SETTLED or self.verify(state) > _SETTLED:
            return max(residual, 1.0)  # the counting numbers still have steps to take
        bound = self._bound_here(state)
        if bound < best.bound:
            best.bound, best.reweighting, best.messages = bound, state.reweighting, state.logs.messages.copy()
            state.least_upper = min(bound, state.least_upper)
        best.left -= 1
        if best.left > 0:
            size = 1.0 / (self.rho_steps - best.left + 2.0)
            better = improved(state.spec.layout, state.reweighting, _information(state), size)
            self._change_rho(state, better, state.logs.messages)
        elif best.reweighting is not None and best.reweighting is not state.reweighting:
            self._change_rho(state, best.reweighting, best.messages)
        return max(residual, 1.0)

    def _change_rho(self, state: MessageState, reweighting: Reweighting, messages: Floats | None) -> None:
        state.reweighting, state.start = reweighting, messages
        state.select_tier(self.tiers, replace(state.spec, rho=reweighting.rho), messages)

    def warm_state(self, state: MessageState) -> MessageWarmStart:
        """Return messages and counting numbers, and how many steps these have taken."""
        return replace(super().warm_state(state), frank_wolfe_steps=self.rho_steps - max(state.frank_wolfe.left, 0))


def _information(state: MessageState) -> Floats:
    r"""Return :math:`I(\mu_c) = \sum_{i \in c} H(\mu_i) - H(\mu_c)` for each factor."""
    lay = state.spec.layout

    def entropies(flat: Floats, starts: Any) -> Floats:
        terms = np.where(flat > 0, -flat * np.log(np.where(flat > 0, flat, 1.0)), 0.0)
        return np.add.reduceat(terms, starts)

    of_variables = entropies(state.mu_var, lay.state_ptr[:-1])
    together = np.bincount(lay.edge_factor, weights=of_variables[lay.scope_vars], minlength=lay.n_factors)
    return np.maximum(together - entropies(state.tier.tables(state.mu_var), lay.table_ptr[:-1]), 0.0)
