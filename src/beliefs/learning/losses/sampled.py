r"""Likelihood gradients from Markov chains: contrastive divergence and stochastic maximum likelihood.

.. math:: \frac{dL}{d\theta} = \mathrm{E}_{p_\theta} f - f(\hat x) \approx
          \frac1S \sum_{s=1}^S f(x^{(s)}) - f(\hat x)

The expectation under the model is replaced by an average over chains of Gibbs sampling, one set of chains per instance.
*Contrastive divergence* [hinton2002] starts them at the labels each time and does ``sweeps`` sweeps: biased, for any
number of chains, by what these sweeps leave of the start; the bias goes to 0 as they grow. *Stochastic maximum
likelihood* [younes1989], [tieleman2008] starts at the labels once and then goes on where the last evaluation stopped:
weights change little between evaluations, so the chains stay close to the model's law, and with decreasing steps the
weights converge to the maximum of the likelihood. Both cost sweeps rather than inference.

Statistics of factors of one variable are averages of conditionals in the last sweep instead of draws: unbiased alike,
of less variance. With hidden variables the data's statistics come from chains with the labels clamped, which are
persistent, and free chains start where these are.

The *value* is a monitor: the negative log pseudo-likelihood of the labels. It is not the integral of the gradient, so
no line search can be done with it; use a stochastic optimiser.

Random numbers depend on the seed, the instance (its name and labels), the number of evaluations of it so far, chain,
sweep and variable: the same for any number of threads. Chains are kept with the :class:`Instance`; instances that are
made anew for every pass over the data (generators) begin again at their labels every time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from zlib import crc32

import numpy as np

from beliefs.inference.sampling.chains import starting_states
from beliefs.inference.sampling.sweeps import Pairs, Schedule, Sweeper
from beliefs.kernels.gibbs.general import States, count_cells
from beliefs.learning.instances import Instance, Slot
from beliefs.learning.losses.base import InstanceLoss, Loss, Needs
from beliefs.learning.losses.pseudo_likelihood import conditional_part
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.options import MANY, check_integer
from beliefs.typing import Floats

__all__ = ["ContrastiveDivergence", "StochasticLikelihood", "moved_chains", "possible"]


@dataclass(eq=False)
class Memory:
    """What is kept with an instance: keys of its random numbers, sweeps so far, and where the chains are."""

    keys: tuple[np.uint64, np.uint64]
    n_sweeps: int = 0
    free: States | None = None
    clamped: States | None = None

    @classmethod
    def of(cls, seed: int, instance: Instance) -> Memory:
        """Begin: instances have numbers of their own."""
        who = [seed, crc32(instance.name.encode()), crc32(np.ascontiguousarray(instance.labels).tobytes())]
        first, second = np.random.SeedSequence(who).generate_state(2, np.uint64)
        return cls((first, second))


@dataclass(frozen=True, kw_only=True)
class SampledLoss(Loss):
    """What sampled gradients share.

    Parameters
    ----------
    sweeps : int
        Gibbs sweeps of every chain per evaluation.
    chains : int
        Chains per instance.
    seed : int
        Of all random numbers.
    """

    sweeps: int = 1
    chains: int = 1
    seed: int = 0

    hidden: ClassVar[bool] = True
    by_variable: ClassVar[bool] = False
    stochastic: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs.SAMPLES
    persistent: ClassVar[bool]
    """Whether free chains go on where they stopped, or start at the labels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("sweeps", self.sweeps, 1, MANY)
        check_integer("chains", self.chains, 1, MANY)
        check_integer("seed", self.seed, 0)

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return the monitor and the difference of the chains' and the data's statistics."""
        graph = instance.graph(theta)
        monitor = conditional_part(graph, instance).value
        slot = Slot[Memory]("chains", self.name)
        memory = instance.memory.get(slot)
        if memory is None or (memory.free is not None and memory.free.shape[1] != self.chains):
            memory = instance.memory.put(slot, Memory.of(self.seed, instance))
        data, start = self._data(graph, instance, memory)
        states = memory.free
        if states is None or not (self.persistent and possible(graph, states)):
            states = start.copy()
        model = moved_chains(graph, graph.layout, states, memory.keys[0], memory.n_sweeps, self.sweeps)
        memory.free, memory.n_sweeps = states, memory.n_sweeps + self.sweeps
        return InstanceLoss(monitor, model - data)

    def _data(self, graph: FactorGraph, instance: Instance, memory: Memory) -> tuple[Floats, States]:
        """Return the statistics of the labels, hidden variables drawn given them, and states that agree with them."""
        if instance.n_labelled == instance.labels.size:
            return instance.statistics, np.repeat(instance.labels[:, None].astype(np.int32), self.chains, axis=1)
        clamped = instance.clamped(graph.theta)
        states = memory.clamped
        if states is None or not possible(clamped, states):
            states = starting_states(clamped, self.chains, int(memory.keys[1] >> np.uint64(1)))
        data = moved_chains(clamped, graph.layout, states, memory.keys[1], memory.n_sweeps, self.sweeps)
        memory.clamped = states
        return data, states


@dataclass(frozen=True, kw_only=True)
class ContrastiveDivergence(SampledLoss):
    """CD-k: chains that start at the labels and do ``sweeps`` sweeps."""

    name: ClassVar[str] = "contrastive_divergence"
    persistent: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class StochasticLikelihood(SampledLoss):
    """Stochastic maximum likelihood, or persistent contrastive divergence: chains that go on."""

    sweeps: int = 5
    chains: int = 10

    name: ClassVar[str] = "stochastic_likelihood"
    persistent: ClassVar[bool] = True


def possible(graph: FactorGraph, states: States) -> bool:
    """Whether hard zeros, which may have come with new weights, exclude none of the states."""
    return bool(graph.theta.min(initial=0.0) > -np.inf or (graph.log_scores(states.T) > -np.inf).all())


def moved_chains(
    graph: FactorGraph, whole: Layout, states: States, key: np.uint64, first: int, n_sweeps: int
) -> Floats:
    """Sweep all chains in place and return their mean statistics ``(n_cells,)`` on the whole layout.

    ``graph`` may have evidence, with which the states agree; ``whole`` is the layout without it.
    """
    schedule = Schedule.of(graph.layout, "color")
    sweeper = Sweeper(graph, schedule, Pairs.of(graph.layout, schedule), key, threads=1)
    sums, counts = np.zeros(whole.n_states), np.zeros(int(whole.table_ptr[-1]))
    sweeper.sweep(first, n_sweeps - 1, False, states, sums)
    sweeper.sweep(first + n_sweeps - 1, 1, True, states, sums)
    seen = np.flatnonzero(graph.layout.observed)
    sums[whole.state_ptr[seen] + states[seen, 0]] = states.shape[1]
    count_cells(
        whole.scope_ptr, whole.scope_vars, whole.table_ptr, whole.edge_stride, 0, whole.n_factors, states, counts
    )
    unary = whole.unary_cells
    counts[unary.table_cells] = sums[unary.states]
    return whole.in_cells(counts / states.shape[1])
