r"""Parallel tempering: replicas of chains at several temperatures that swap states with their neighbours.

Rows are ordered by temperature, the coldest (:math:`\beta = 1`) first, then by chain. With the hidden layer summed out,

.. math:: \log p^*_\beta(v) = \beta\, b^T v + \sum_j c_j \log(1 + e^{\beta x_j(v)}),

rows k and l swap with odds :math:`p^*_k(v_l)\, p^*_l(v_k) / (p^*_k(v_k)\, p^*_l(v_l))`, which keeps the product of
their laws [hukushima1996]. Summed out is better than joint: more swaps. Cost: four softplus sums a pair.
"""

from __future__ import annotations

import numpy as np

from beliefs.inference.boltzmann.chains import BlockChains
from beliefs.kernels.primitives.random import stream
from beliefs.typing import Floats, Ints

__all__ = ["Ladder"]

_SWAP = 2**40  # streams of swaps, far from those of sweeps


class Ladder:
    """The temperatures of replicas, and how often neighbours have swapped."""

    def __init__(self, n_temperatures: int, n_chains: int) -> None:
        self.n_temperatures, self.n_chains = n_temperatures, n_chains
        levels = np.linspace(1.0, 0.0, n_temperatures) if n_temperatures > 1 else np.ones(1)
        self.betas: Floats = np.repeat(levels, n_chains)
        self.tried, self.swapped = np.zeros(n_temperatures - 1), np.zeros(n_temperatures - 1)

    @property
    def swap_rates(self) -> Floats:
        """The share of swaps that were made, from the coldest pair to the hottest; 0 where none was tried."""
        return self.swapped / np.maximum(self.tried, 1.0)

    def swap(self, chains: BlockChains) -> None:
        """Swap states between neighbours, even and odd pairs in turn; ``chains.x`` is that of the present states."""
        if self.n_temperatures == 1 or chains.n_sweeps == 0:
            return
        for level in range(chains.n_sweeps % 2, self.n_temperatures - 1, 2):
            cold = np.arange(self.n_chains) + level * self.n_chains
            hot = cold + self.n_chains
            log_odds = self._gain(chains, cold, hot) + self._gain(chains, hot, cold)
            rng = np.random.default_rng(int(stream(chains.key, _SWAP + chains.n_sweeps * self.n_temperatures + level)))
            swaps = np.log1p(-rng.random(self.n_chains)) < log_odds
            self.tried[level] += self.n_chains
            self.swapped[level] += swaps.sum()
            a, b = cold[swaps], hot[swaps]
            for states in (chains.visible, chains.x):
                states[a], states[b] = states[b], states[a]

    def _gain(self, chains: BlockChains, rows: Ints, others: Ints) -> Floats:
        """Return what each row's log weight gains at the other's temperature."""
        visible, x = chains.visible[rows], chains.x[rows]
        here, there = float(self.betas[rows[0]]), float(self.betas[others[0]])
        return chains.units.log_weights(visible, x, there) - chains.units.log_weights(visible, x, here)
