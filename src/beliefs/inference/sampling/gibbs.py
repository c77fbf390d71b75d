r"""Gibbs sampling: many Markov chains that redraw one variable at a time given all others.

.. math:: x_v \sim p(x_v \mid x_{-v}) \propto \exp \sum_{f \ni v} \theta_f(x_v, x_{f \setminus v})

[geman1984]. Every sweep leaves the model's distribution unchanged. If every state can be reached from every other one
variable at a time, the chains approach it; how fast nobody knows, and near-deterministic factors make it slow. With
hard zeros some states may be out of reach, and then averages differ from the model's for ever. So samples and marginals
are ESTIMATES. Chains start from random states of positive weight (:mod:`beliefs.inference.search.feasible`).

Marginals are averages of the conditionals themselves rather than of draws [gelfand1990]: unbiased alike, and of less
variance. Factors of two and more variables are counted.

There is no estimate of log Z in a chain of states, but a certified lower bound: for a set A of variables without a
common factor (the largest colour) and any state x,

.. math:: \log Z \ge \log \sum_{x_A} e^{\theta(x_A, x_{-A})}
    = \theta(x) - \sum_{v \in A} \log p(x_v \mid x_{-v}).

``log_z`` is the best such value over the chains wherever it was computed. It is far below log Z in large models.

Random numbers are a function of (seed, chain, sweep, variable), so the draws are the same for any number of threads.
Cost of a sweep and chain: per edge the states of its variable; variables of one colour are redrawn side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from beliefs.driver import Value
from beliefs.errors import UnsupportedError
from beliefs.inference.base import Bound, Derivative, Guarantee, Marginals, Method, Problem, Samples, Task
from beliefs.inference.budget import over_budget
from beliefs.inference.sampling.chains import Chains, GibbsWarmStart, resumed_states, starting_states
from beliefs.inference.sampling.sweeps import Pairs, Schedule, Sweeper
from beliefs.options import MANY, check_integer, check_option, is_word

__all__ = ["SWEEPS", "Gibbs"]

SWEEPS = 10  # sweeps in a step of ``infer``
_BETWEEN_COUNTS = 2  # sweeps from one count of the factors' cells to the next: a count costs about as much as a sweep
_STEPS = 100  # steps in which ``sample`` does its work


@dataclass(frozen=True, kw_only=True, repr=False)
class Gibbs(Method):
    """Gibbs sampling: samples, and marginals as averages over chains.

    A step of ``infer`` is ten sweeps of all chains. Its residual is the largest change of an average, but at least one
    over the number of terms in it, and 1 while burning in: chains that are stuck do not count as settled, and with the
    default ``tol`` of 0 all ``max_iters`` steps are done. ``sample`` does its work in at most a hundred steps; stopped
    before the end it returns the draws that it has.

    Parameters
    ----------
    chains : int
        Independent chains, each from its own random start. Sample ``i`` is of chain ``i % chains``.
    burn_in : int
        Sweeps before anything is kept.
    thin : int
        Sweeps from one draw of a chain to its next (``sample`` only).
    schedule : str
        ``"color"``: variables of one colour together, on several threads if there are many; ``"sequential"``: in the
        order of their indices.
    temperatures : int
        Parallel tempering of a restricted Boltzmann machine: replicas of each chain, from the model's own temperature
        to an infinite one, that swap states. Other models take 1.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
    >>> bl.infer(g, "gibbs(chains=20)").marginal("x0").round(2)
    array([0.3, 0.7])
    """

    chains: int = 8
    burn_in: int = 100
    thin: int = 10
    schedule: Literal["color", "sequential"] = "color"
    temperatures: int = 1

    name: ClassVar[str] = "gibbs"
    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER, Task.SAMPLE)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.ESTIMATE, "lower bound of log Z", also=(Bound.LOWER,))
    derivative: ClassVar[Derivative] = Derivative.NONE
    deterministic: ClassVar[bool] = False
    ends_by_itself: ClassVar[bool] = False
    warm_startable: ClassVar[bool] = True
    warm_kind: ClassVar[type] = GibbsWarmStart
    variants: ClassVar[Mapping[Task, tuple[str, ...]]] = {
        Task.INFER: (
            "",
            "schedule=sequential",
        ),
        Task.SAMPLE: ("",),
    }
    cost: ClassVar[str] = "edges x states a sweep and chain"
    reference: ClassVar[str] = "geman1984, gelfand1990"
    iterative: ClassVar[bool] = True
    value_is_free: ClassVar[bool] = False
    default_tol: ClassVar[float] = 0.0
    default_max_iters: ClassVar[int] = 200

    def __post_init__(self) -> None:
        for name, least in (("chains", 1), ("burn_in", 0), ("thin", 1), ("temperatures", 1)):
            check_integer(name, getattr(self, name), least, MANY)
            object.__setattr__(self, name, int(getattr(self, name)))
        check_option(is_word(self.schedule, ("color", "sequential")), "schedule", "color or sequential", self.schedule)

    @property
    def needs_machine(self) -> bool:
        """Whether there are several temperatures."""
        return self.temperatures > 1

    def init(self, problem: Problem, warm: GibbsWarmStart | None = None) -> Chains:
        """Choose the tier that fits the budget, and find a state of positive weight for each chain."""
        if self.needs_machine:
            raise UnsupportedError(f"{self} is for restricted Boltzmann machines; other models have one temperature")
        graph = problem.graph
        layout = graph.layout
        n_chains = self.chains if problem.task is Task.INFER else max(1, min(self.chains, problem.n_samples))
        schedule = Schedule.of(layout, self.schedule)
        needed = layout.n_vars * (12 * n_chains + 48) + 32 * layout.n_edges + 48 * layout.n_states
        needed += 16 * int(layout.table_ptr[-1]) if problem.task is Task.INFER else 0
        if needed > problem.max_bytes:
            advice = "Raise max_bytes, or run fewer chains"
            raise over_budget(f"{self.name} needs", needed, problem.max_bytes, advice, f" for {n_chains} chains")
        pairs = None
        if needed + Pairs.n_bytes(layout) <= problem.max_bytes:
            pairs = Pairs.of(layout, schedule)
        key = np.random.SeedSequence(problem.seed).generate_state(1, np.uint64)[0]
        states = resumed_states(graph, warm, n_chains)
        fresh = states is None
        if states is None:
            states = starting_states(graph, n_chains, problem.seed)
        threads = 1 if self.schedule == "sequential" else problem.threads
        chains = Chains(problem, Sweeper(graph, schedule, pairs, key, threads), states, self.burn_in)
        if warm is not None and not fresh:
            chains.resume(warm)
        return chains

    def step(self, state: Chains) -> float:
        """Do some sweeps of all chains and gather what is to be kept."""
        return self._infer(state) if state.problem.task is Task.INFER else self._sample(state)

    def _infer(self, state: Chains) -> float:
        burning = min(SWEEPS, max(0, state.burn_in - state.n_sweeps))
        state.sweep(burning)
        started = state.n_kept > 0
        for done in range(burning, SWEEPS, _BETWEEN_COUNTS):
            state.sweep(min(_BETWEEN_COUNTS, SWEEPS - done), keep=True)
            state.count()
        if burning == SWEEPS:
            return 1.0
        before, state.mu_var = state.mu_var, state.marginals()
        change = float(np.abs(state.mu_var - before).max(initial=0.0)) if started else 1.0
        n_terms: int = state.n_kept * state.n_chains
        return max(change, 1.0 / n_terms)

    def _sample(self, state: Chains) -> float:
        n_samples, n_chains = state.problem.n_samples, state.n_chains
        draws = -(-n_samples // n_chains)
        todo = -(-(self.burn_in + self.thin * draws) // _STEPS)
        while todo > 0 and state.n_drawn < n_samples:
            due = state.burn_in + self.thin * (state.n_drawn // n_chains + 1) - state.n_sweeps
            now = min(todo, due)
            state.sweep(now)
            todo -= now
            if now == due:
                state.draw()
        return 0.0 if state.n_drawn == n_samples else 1.0

    def value(self, state: Chains) -> Value:
        """Return the lower bound of log Z."""
        bound = state.lower_bound()
        return Value(bound, bound, rounding=state.rounding)

    def finish(self, state: Chains) -> Marginals | Samples:
        """Return averages, or the draws so far."""
        if state.problem.task is Task.SAMPLE:
            return Samples(state.samples[: state.n_drawn], Bound.ESTIMATE)
        if state.n_counted == 0:
            state.count()
        bound = state.lower_bound()
        return Marginals(bound, Bound.LOWER, state.mu_var, state.factor_marginals(), bound)

    def warm_state(self, state: Chains) -> GibbsWarmStart:
        """Return the chains and their averages."""
        return GibbsWarmStart(
            state.problem.graph, state.states, state.n_sweeps, state.sums, state.counts, state.n_kept,
            state.n_counted, state.best,
        )  # fmt: skip
