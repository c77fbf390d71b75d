"""The state of Gibbs sampling: many chains side by side, where they start, and what is gathered from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beliefs.deadline import check_time
from beliefs.errors import UnsupportedError
from beliefs.inference.base import Bound, Problem, Task, observed_point_masses
from beliefs.inference.rounding import magnitude, rounding_error, widened
from beliefs.inference.sampling.sweeps import Schedule, Sweeper
from beliefs.inference.search.feasible import EFFORT, feasible_state, hard_factors
from beliefs.kernels.gibbs.general import PART, States, chain_scores, log_conditionals
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats, Ints

__all__ = ["Chains", "GibbsWarmStart", "resumed_states", "starting_states"]

_UNWATCHED = 1_000_000  # draws between two looks at the clock: hundredths of a second
_SEARCHES = 64  # states of positive weight that are searched for; further chains start where others do


@dataclass(frozen=True, eq=False)
class GibbsWarmStart:
    """What a warm start needs: where the chains are, and the averages so far of the potentials they belong to."""

    graph: FactorGraph
    states: States
    n_sweeps: int
    sums: Floats
    counts: Floats
    n_kept: int
    n_counted: int
    best: float


class Chains:
    """All chains, side by side, and what was gathered from them."""

    def __init__(self, problem: Problem, sweeper: Sweeper, states: States, burn_in: int) -> None:
        layout = problem.graph.layout
        self.problem, self.sweeper, self.states = problem, sweeper, states
        self.n_sweeps, self.burn_in = 0, burn_in
        inferring = problem.task is Task.INFER
        self.sums = np.zeros(layout.n_states)
        self.counts = np.zeros(int(layout.table_ptr[-1]) if inferring else 0)
        self.n_kept = self.n_counted = 0
        self.best = -math.inf
        self.samples = np.empty((problem.n_samples, problem.graph.n_vars), np.int64)
        self.n_drawn = 0
        self.mu_var = self.marginals() if inferring else np.zeros(0)

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return int(self.states.shape[1])

    def resume(self, start: GibbsWarmStart) -> None:
        """Go on where an earlier run stopped; averages are kept if they belong to the same potentials."""
        self.n_sweeps = start.n_sweeps
        if not np.array_equal(start.graph.theta, self.problem.graph.theta):
            self.burn_in += start.n_sweeps
            return
        self.burn_in = max(self.burn_in, start.n_sweeps)
        if start.n_kept and start.counts.size == self.counts.size:
            self.sums, self.counts = start.sums.copy(), start.counts.copy()
            self.n_kept, self.n_counted, self.best = start.n_kept, start.n_counted, start.best
            self.mu_var = self.marginals()

    def sweep(self, n: int, keep: bool = False) -> None:
        """Do ``n`` sweeps, or fewer when the time is over: OutOfTime."""
        at_once = max(1, _UNWATCHED // self.states.size)
        for done in range(0, n, at_once):
            check_time()
            now = min(at_once, n - done)
            self.sweeper.sweep(self.n_sweeps, now, keep, self.states, self.sums)
            self.n_sweeps += now
            self.n_kept += now * keep

    def count(self) -> None:
        """Count the cells that the chains are in."""
        self.sweeper.count(self.states, self.counts)
        self.n_counted += 1

    def draw(self) -> None:
        """Append the present states to the samples, one row a chain."""
        rows = self.samples[self.n_drawn : self.n_drawn + self.states.shape[1]]
        rows[:] = self.states.T[: len(rows)]
        self.n_drawn += len(rows)

    def marginals(self) -> Floats:
        """Return the averages of the conditionals, ``(n_states,)``; before the first, the shares of chains."""
        graph = self.problem.graph
        layout = graph.layout
        sums = self.sums
        if self.n_kept == 0:
            at = layout.state_ptr[:-1, None] + self.states
            sums = np.bincount(at.ravel(), minlength=layout.n_states).astype(float)
        totals = np.where(layout.observed, 1.0, np.add.reduceat(sums, layout.state_ptr[:-1]))
        fixed = np.repeat(layout.observed, layout.card)
        return np.where(fixed, observed_point_masses(graph), sums / np.repeat(totals, layout.card))

    def factor_marginals(self) -> Floats:
        """Return the shares of the factors' cells; a unary factor has its variable's marginal."""
        layout = self.problem.graph.layout
        mu: Floats = self.counts / (self.n_counted * self.states.shape[1])
        single = np.flatnonzero(layout.arity == 1)
        variables = layout.scope_vars[layout.scope_ptr[single]]
        sizes = layout.card[variables]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        mu[np.repeat(layout.table_ptr[single], sizes) + within] = self.mu_var[
            np.repeat(layout.state_ptr[variables], sizes) + within
        ]
        return mu

    def lower_bound(self) -> float:
        """Return the best lower bound of log Z so far, the present states included."""
        model, schedule = self.sweeper.model, Schedule.of(self.problem.graph.layout, "color")
        scores, gain = np.empty(self.states.shape[1]), np.zeros(self.states.shape[1])
        chain_scores(model, self.states, scores)
        log_conditionals(model, schedule.order, *schedule.largest, self.states, gain)
        self.best = max(self.best, widened(float((scores - gain).max()), self.rounding, Bound.LOWER))
        return self.best

    @cached_property
    def rounding(self) -> float:
        """The rounding error of a bound: all factors are added up, and some once more for every state of a variable."""
        graph = self.problem.graph
        layout = graph.layout
        logs = float(np.log(layout.card).sum())
        crowd = int(layout.degree.max(initial=1)) + int(layout.card.max(initial=1))
        n_terms = max(layout.n_factors, layout.n_vars)
        n_terms = min(n_terms, PART) + n_terms // PART + 2 * crowd + 16
        return rounding_error(3.0 * magnitude(graph) + 2.0 * logs, n_terms)


def resumed_states(graph: FactorGraph, warm: GibbsWarmStart | None, n_chains: int) -> States | None:
    """Return the states of an earlier run, if as many chains can go on from them."""
    if warm is None or warm.states.shape[1] != n_chains:
        return None
    given = graph.evidence_states[:, None]
    states = np.where(given >= 0, given, warm.states).astype(np.int32)
    return states if (graph.log_scores(states.T) > -np.inf).all() else None


def starting_states(graph: FactorGraph, n_chains: int, seed: int) -> States:
    """Return a random state of positive weight for each chain, ``(n_vars, n_chains)``.

    With hard zeros each is searched for; where a search fails, and beyond ``_SEARCHES`` chains, states are used again.
    """
    layout = graph.layout
    if not hard_factors(graph).any():
        drawn = np.random.default_rng(seed).integers(layout.card, size=(n_chains, layout.n_vars))
        given = graph.evidence_states
        return np.where(given >= 0, given, drawn).T.astype(np.int32, order="C")
    first = feasible_state(graph, seed)
    if first is None:
        raise UnsupportedError(
            "gibbs found no state of positive weight to start from, and no proof that there is none; "
            "the hard zeros of this model call for an exact method"
        )
    found: list[Ints] = [first]
    for child in np.random.SeedSequence(seed).spawn(min(n_chains, _SEARCHES) - 1):
        state = feasible_state(graph, int(child.generate_state(1, np.uint64)[0]), EFFORT // (10 * _SEARCHES))
        found.append(first if state is None else state)
    return np.stack([found[c % len(found)] for c in range(n_chains)], axis=1).astype(np.int32)
