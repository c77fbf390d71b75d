r"""Block Gibbs sampling of a machine, with or without parallel tempering.

Chains are rows of two matrices (:mod:`beliefs.inference.boltzmann.chains`): a sweep redraws the whole hidden layer,
then the whole visible one. Single marginals are averages of the conditionals, and pairs of
:math:`v_i\, p(h_j = 1 \mid v)` [gelfand1990].

With ``temperatures`` above 1 every chain has as many replicas, at :math:`\beta = 1, \dots, 0` evenly spaced
[hukushima1996; desjardins2010]. Before each sweep neighbours in temperature may swap states
(:mod:`beliefs.inference.boltzmann.tempering`), even and odd pairs in turn; only :math:`\beta = 1` is counted.
``swap_rates`` says how often each pair swapped: near 0, a temperature is missing between the two.

Like every chain these approach the machine's law, nobody knows how fast: ESTIMATES. As on factor graphs ``log_z`` is a
certified lower bound, the best :math:`\log \sum_h e^{-E(v, h)}` (or sum over v, if that layer is larger) of a chain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.deadline import check_time
from beliefs.inference.base import Bound, Marginals, Method, Problem, Samples, Task
from beliefs.inference.boltzmann.chains import BlockChains, chain_bytes, root_key
from beliefs.inference.boltzmann.machines import Form, rounding_of
from beliefs.inference.boltzmann.tempering import Ladder
from beliefs.inference.budget import over_budget
from beliefs.inference.parallel import one_thread_of_blas
from beliefs.inference.result import InferenceResult
from beliefs.inference.rounding import widened
from beliefs.inference.sampling.gibbs import SWEEPS, Gibbs
from beliefs.inference.units import UnitMarginals, keep_possible
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM
from beliefs.typing import Floats

__all__ = ["BlockGibbs", "ChainResult"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ChainResult(InferenceResult):
    """Answer to ``infer`` by chains on a machine.

    Attributes
    ----------
    swap_rates : ndarray (temperatures - 1,)
        How often each pair of neighbours in temperature swapped, of the times it tried; from the coldest.
    acceptance_rate : float
        How often a proposal was accepted; 1 where every unit is whole.
    """

    swap_rates: Floats
    acceptance_rate: float


@dataclass(frozen=True, eq=False)
class Start:
    """What a warm start needs: the visible and hidden rows, and the averages so far of the machine they belong to."""

    machine: BoltzmannMachine
    visible: np.ndarray
    hidden: np.ndarray
    n_sweeps: int
    averages: Averages


@dataclass(eq=False)
class Averages:
    """Sums of conditionals over chains and sweeps."""

    visible: Floats
    hidden: Floats
    pairs: Floats
    softplus: Floats
    n_kept: int = 0
    best: float = -math.inf

    def copy(self) -> Averages:
        """Return sums of one's own."""
        visible, hidden, pairs, softplus = (a.copy() for a in (self.visible, self.hidden, self.pairs, self.softplus))
        return Averages(visible, hidden, pairs, softplus, self.n_kept, self.best)


class MachineChains:
    """A question about a machine, its chains, and what was gathered from them; the first rows are at temperature 1."""

    def __init__(self, problem: Problem, chains: BlockChains, ladder: Ladder, burn_in: int) -> None:
        machine = problem.model
        assert isinstance(machine, BoltzmannMachine)
        self.problem, self.machine, self.chains, self.ladder = problem, machine, chains, ladder
        self.cold, self.burn_in = slice(0, ladder.n_chains), burn_in
        n, m = machine.weights.shape
        self.averages = Averages(np.zeros(n), np.zeros(m), np.zeros((n, m)), np.zeros(m))
        self.samples = np.empty((problem.n_samples, n + m), np.int64)
        self.n_drawn = 0
        self.means = np.full(n + m, 0.5)
        self.rounding = rounding_of(machine)

    @property
    def n_chains(self) -> int:
        """Number of chains at temperature 1."""
        return self.ladder.n_chains

    @property
    def n_sweeps(self) -> int:
        """Sweeps done, those of earlier runs included."""
        return self.chains.n_sweeps

    def sweep(self, n: int, keep: bool = False) -> None:
        """Do ``n`` sweeps of all chains; with ``keep``, add up what is averaged."""
        chains = self.chains
        with one_thread_of_blas():
            for _ in range(n):
                check_time()
                chains.in_pieces(chains.activate)
                self.ladder.swap(chains)
                chains.in_pieces(chains.draw_hidden)
                if keep:
                    self._keep_hidden(chains.x[self.cold], self.averages)
                chains.in_pieces(chains.draw_visible)
                if keep:
                    self.averages.visible += self._visible_probabilities().sum(axis=0, dtype=np.float64)
                chains.n_sweeps += 1

    def _keep_hidden(self, p: np.ndarray, averages: Averages) -> None:
        """Add up probabilities of hidden units given the present visible ones; copies and fractions have none here."""
        visible = self.chains.visible[self.cold]
        if not isinstance(self.machine, RBM):
            p = self.machine.hidden_probability(visible)
            averages.softplus += self.machine.softplus(visible).sum(axis=0)
        averages.hidden += p.sum(axis=0, dtype=np.float64)
        averages.pairs += visible.T @ p
        averages.n_kept += len(p)

    def _visible_probabilities(self) -> np.ndarray:
        """Return the probabilities of the last draw; where proposals may be refused, the units themselves."""
        return self.chains.visible[self.cold] if self.chains.units.fractions.size else self.chains.y[self.cold]

    def marginals(self) -> UnitMarginals:
        """Return the averages; before the first, those of the present states."""
        a = self.averages if self.averages.n_kept else self.averages.copy()
        if a.n_kept == 0:
            visible = self.chains.visible[self.cold]
            self._keep_hidden(self.machine.hidden_probability(visible), a)
            a.visible += visible.sum(axis=0, dtype=np.float64)
        visible, hidden, pairs = (array / a.n_kept for array in (a.visible, a.hidden, a.pairs))
        for array in (visible, hidden, pairs):
            np.clip(array, 0.0, 1.0, out=array)
        keep_possible(visible, hidden, pairs)
        softplus = None if isinstance(self.machine, RBM) else a.softplus / a.n_kept
        return UnitMarginals(visible, hidden, pairs, softplus)

    def draw(self) -> None:
        """Append the present states to the samples, one row a chain."""
        rows = self.samples[self.n_drawn : self.n_drawn + self.n_chains]
        n, count = self.machine.n_visible, len(rows)
        rows[:, :n] = self.chains.visible[:count]
        if isinstance(self.machine, RBM):
            rows[:, n:] = self.chains.hidden[:count]
        else:  # units of their own, given the visible ones
            p = self.machine.hidden_probability(self.chains.visible[:count])
            rows[:, n:] = np.random.default_rng([self.problem.seed, self.n_drawn]).random(p.shape) < p
        self.n_drawn += count

    def lower_bound(self) -> float:
        """Return the best lower bound of log Z so far, the present states included."""
        machine = self.machine
        if isinstance(machine, RBM) and machine.n_visible > machine.n_hidden and self.chains.n_sweeps:
            turned = RBM(machine.weights.T, machine.hidden_bias, machine.visible_bias) if machine.n_hidden else machine
            rows = self.chains.hidden if machine.n_hidden else self.chains.visible
            scores = -turned.free_energy(rows[self.cold])
        else:
            scores = -machine.free_energy(self.chains.visible[self.cold])
        bound = widened(float(scores.max()), self.rounding, Bound.LOWER)
        self.averages.best = max(self.averages.best, bound)
        return self.averages.best


@dataclass(frozen=True, kw_only=True, repr=False)
class BlockGibbs(Gibbs, Form):
    """Gibbs sampling of whole layers."""

    stands_for: ClassVar[type[Method]] = Gibbs
    answers: ClassVar[tuple[Task, ...]] = (Task.INFER, Task.SAMPLE)
    warm_kind: ClassVar[type] = Start
    takes_fractions: ClassVar[bool] = True

    def init(self, problem: Problem, warm: Start | None = None) -> MachineChains:  # type: ignore[override]
        """Check the budget and draw a random start for each chain, or go on from earlier ones."""
        machine = problem.model
        assert isinstance(machine, BoltzmannMachine)
        n_chains = self.chains if problem.task is Task.INFER else max(1, min(self.chains, problem.n_samples))
        n_rows = n_chains * self.temperatures
        needed = chain_bytes(machine, n_rows) + 24.0 * machine.weights.size
        if needed > problem.max_bytes:
            advice = "Raise max_bytes, or run fewer chains"
            raise over_budget(f"{self.name} needs", needed, problem.max_bytes, advice, f" for {n_rows} chains")
        chains = BlockChains(machine, n_rows, root_key(problem.seed), problem.threads)
        ladder = Ladder(self.temperatures, n_chains)
        chains.beta[:] = ladder.betas
        chains.start(np.zeros(machine.n_visible))
        state = MachineChains(problem, chains, ladder, self.burn_in)
        if warm is not None and warm.hidden.shape == chains.hidden.shape:
            _resume(state, warm)
        return state

    def _infer(self, state: MachineChains) -> float:  # type: ignore[override]
        burning = min(SWEEPS, max(0, state.burn_in - state.n_sweeps))
        state.sweep(burning)
        state.sweep(SWEEPS - burning, keep=True)
        if burning == SWEEPS:
            return 1.0
        before, units = state.means, state.marginals()
        state.means = np.concatenate([units.visible, units.hidden])
        return max(float(np.abs(state.means - before).max()), 1.0 / state.averages.n_kept)

    def finish(self, state: MachineChains) -> Marginals | Samples:  # type: ignore[override]
        """Return averages, or the draws so far."""
        if state.problem.task is Task.SAMPLE:
            return Samples(state.samples[: state.n_drawn], Bound.ESTIMATE)
        bound, units = state.lower_bound(), state.marginals()
        extras = {"swap_rates": state.ladder.swap_rates, "acceptance_rate": state.chains.acceptance_rate}
        return Marginals(bound, Bound.LOWER, units.mu_var, units, bound, kind=ChainResult, extras=extras)

    def warm_state(self, state: MachineChains) -> Any:  # type: ignore[override]
        """Return the chains and their averages."""
        chains = state.chains
        return Start(state.machine, chains.visible, chains.hidden, state.n_sweeps, state.averages)


def _resume(state: MachineChains, start: Start) -> None:
    """Go on where an earlier run stopped; averages are kept if they belong to the same machine."""
    chains, old, new = state.chains, start.machine, state.machine
    chains.visible[:], chains.hidden[:], chains.n_sweeps = start.visible, start.hidden, start.n_sweeps
    same = all(
        np.array_equal(getattr(old, name), getattr(new, name))
        for name in ("weights", "visible_bias", "hidden_bias", "counts")
    )
    state.burn_in = max(state.burn_in, start.n_sweeps) if same else state.burn_in + start.n_sweeps
    if same and state.problem.task is Task.INFER:
        state.averages = start.averages.copy()
