r"""Chains that walk from a base of independent units to a machine, or back, and the weights that they gather.

Forward, for every rise of the inverse temperature, the log weight gains

.. math::
    (\beta' - \beta)\,(b - o)^T v + \sum_j c_j \big( \log(1 + e^{\beta' x_j}) - \log(1 + e^{\beta x_j}) \big)

and a sweep at :math:`\beta'` moves the chain. Back, a sweep at :math:`\beta'` comes first, then the same with the
temperatures exchanged: a sweep from visible to visible units is its own reversal. Where all units are whole, one kernel
adds up the softplus sums and draws the hidden layer, at the new temperature, from the same exponentials; that is the
first half of the next sweep back.
"""

from __future__ import annotations

import numpy as np

from beliefs.deadline import check_time
from beliefs.inference.base import Problem
from beliefs.inference.boltzmann.chains import BlockChains, root_key
from beliefs.inference.boltzmann.enumeration import LayerStates
from beliefs.inference.parallel import one_thread_of_blas
from beliefs.inference.units import UnitMarginals
from beliefs.kernels.boltzmann.layers import anneal_units
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM
from beliefs.typing import Floats

__all__ = ["Annealer", "exact_start", "gibbs_start"]

_FORWARD, _BACK, _START = 1, 2, 3
_SWEEPS = 1000  # of Gibbs chains that stand in for exact samples


class Annealer(BlockChains):
    """Chains between a base and a machine."""

    def __init__(self, machine: BoltzmannMachine, n_chains: int, base: Floats, problem: Problem) -> None:
        super().__init__(machine, n_chains, root_key(problem.seed, _FORWARD), problem.threads)
        self.machine, self.base, self.seed = machine, base, problem.seed
        self.tilt = self.units.visible_bias - base
        self.tilted = bool(self.tilt.any())

    def forward(self, betas: Floats) -> Floats:
        """Draw from the base, walk to the machine, and return the log weights."""
        self.start(self.base)
        log_weights = np.zeros(len(self.visible))
        with one_thread_of_blas():
            for old, new in zip(betas[:-1].tolist(), betas[1:].tolist(), strict=True):
                check_time()
                self.in_pieces(lambda rows, old=old, new=new: self._rise(rows, old, new, log_weights))  # type: ignore[misc]
                self.n_sweeps += 1
        return log_weights

    def back(self, betas: Floats) -> Floats:
        """Walk from the present visible rows to the base, and return the log weights."""
        self.key, self.n_sweeps = root_key(self.seed, _BACK), 0
        self.beta[:] = betas[-1]
        log_weights = np.zeros(len(self.visible))
        with one_thread_of_blas():
            self.in_pieces(self.activate)
            self.in_pieces(self.draw_hidden)
            for old, new in zip(betas[:0:-1].tolist(), betas[-2::-1].tolist(), strict=True):
                check_time()
                self.n_sweeps += 1
                self.in_pieces(lambda rows, old=old, new=new: self._fall(rows, old, new, log_weights))  # type: ignore[misc]
        return log_weights

    def averages(self, log_weights: Floats) -> UnitMarginals:
        """Return the averages of the present states with the weights; hidden units by their conditionals."""
        w = np.exp(log_weights - log_weights.max())
        w /= w.sum()
        p = self.machine.hidden_probability(self.visible).astype(np.float64)
        v = self.visible.astype(np.float64)
        visible, hidden, pairs = (np.clip(a, 0.0, 1.0, out=a) for a in (w @ v, w @ p, (v * w[:, None]).T @ p))
        softplus = None if isinstance(self.machine, RBM) else w @ self.machine.softplus(self.visible)
        return UnitMarginals(visible, hidden, pairs, softplus)

    def _rise(self, rows: slice, old: float, new: float, log_weights: Floats) -> None:
        self.beta[rows] = new
        self.activate(rows)
        self._weigh(rows, old, new, log_weights)
        self.draw_visible(rows, (1.0 - new) * self.base)

    def _fall(self, rows: slice, old: float, new: float, log_weights: Floats) -> None:
        self.draw_visible(rows, (1.0 - old) * self.base)
        self.activate(rows)
        self.beta[rows] = new
        self._weigh(rows, old, new, log_weights)

    def _weigh(self, rows: slice, old: float, new: float, log_weights: Floats) -> None:
        """Add what a step from one temperature to another does to the weights, and draw the hidden layer at the new."""
        units, x = self.units, self.x[rows]
        if self.tilted:
            log_weights[rows] += (new - old) * (self.visible[rows] @ self.tilt)
        if units.fractions.size:
            gain = units.log_weights(self.visible[rows], x, new) - units.log_weights(self.visible[rows], x, old)
            log_weights[rows] += gain - (new - old) * (self.visible[rows] @ units.visible_bias)
            self.draw_hidden(rows)
        else:
            key = self.sweep_key(0)
            anneal_units(x, units.bias, old, new, key, rows.start, self.hidden[rows], log_weights[rows])


def exact_start(machine: BoltzmannMachine, chains: Annealer) -> np.ndarray:
    """Return independent visible rows of the machine, by enumeration."""
    states, rng = LayerStates(machine), np.random.default_rng([chains.seed, _START])
    with one_thread_of_blas():
        drawn = states.drawn(len(chains.visible), states.log_weights(), rng)
    return drawn[0].astype(machine.dtype)


def gibbs_start(machine: BoltzmannMachine, chains: Annealer) -> np.ndarray:
    """Return the ends of Gibbs chains that start where the forward chains have come to."""
    chains.key, chains.n_sweeps = root_key(chains.seed, _START), 0
    chains.beta[:] = 1.0
    with one_thread_of_blas():
        for _ in range(_SWEEPS):
            check_time()
            chains.sweep()
    return chains.visible
