r"""Likelihood gradients of machines from Markov chains.

.. math:: \frac{\partial L}{\partial w_{ij}} \approx \frac1C \sum_c v_{ci}\, p(h_j = 1 \mid v_c)
          - \frac1B \sum_n v_{ni}\, p(h_j = 1 \mid v_n)

*Contrastive divergence* [hinton2002] starts a chain at each row of the mini-batch and does ``sweeps`` sweeps: biased by
what these leave of the start. *Stochastic maximum likelihood* [younes1989], [tieleman2008], or persistent contrastive
divergence, goes on with the chains of the last update; with decreasing steps it reaches the maximum of the likelihood.
``fast`` adds fast weights to those that the chains see, which decay by 1/20 an update and drive chains away from where
they are [tieleman2009]. ``temperatures`` above 1 runs every chain at several temperatures that swap
[desjardins2010]; only the coldest is counted.

The *value* is a monitor: an estimate of the negative log pseudo-likelihood per row without bias, from one unit of every
sixteenth row. It is not the integral of the gradient, so no line search can be done with it.

Cost of an update: 3 + 2 ``sweeps`` products with the weights. Random numbers are functions of the seed, the
number of updates, sweep, chain and unit: the same bytes for any number of threads, and in a fit that was resumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from beliefs.inference.boltzmann.chains import BlockChains, root_key
from beliefs.inference.boltzmann.machines import SampledUnits
from beliefs.inference.boltzmann.tempering import Ladder
from beliefs.kernels.boltzmann.flips import Units, unit_scores
from beliefs.kernels.primitives.random import stream_key
from beliefs.learning.boltzmann.layers import Layers
from beliefs.learning.boltzmann.loss import RowLoss, RowTotal
from beliefs.learning.boltzmann.parameters import Parts
from beliefs.learning.boltzmann.rows import BitRows
from beliefs.learning.fit_loss import GradientBlocks
from beliefs.options import MANY, check_integer, check_number, check_option
from beliefs.typing import Floats

__all__ = ["ContrastiveDivergence", "StochasticLikelihood"]

_MONITORED = 16  # rows for one whose pseudo-likelihood is looked at
_STRIDE = 7919  # between the units that are looked at: a prime
_ABSURD = 1e3  # nats a unit: the weights are beyond anything that was learned
_DECAY = 0.95  # of fast weights
_STEPS = 2**20  # streams of an update


_root = cache(root_key)


@dataclass(eq=False)
class Chains:
    """What the next update goes on from: how many there were, and arrays by name."""

    n_updates: int = 0
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SampledRowLoss(RowLoss):
    """What sampled gradients share.

    Parameters
    ----------
    sweeps : int
        Redraws of both layers of every chain per update.
    seed : int
        Of all random numbers.
    """

    sweeps: int = 1
    seed: int = 0
    _chains: Chains = field(default_factory=Chains, init=False, repr=False, compare=False)

    stochastic: ClassVar[bool] = True
    remembers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("sweeps", self.sweeps, 1, MANY)
        check_integer("seed", self.seed, 0)

    def remembered(self) -> dict[str, np.ndarray]:
        """Return the number of updates, and where the chains are."""
        return {"updates": np.array(self._chains.n_updates), **self._chains.arrays}

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        """Go on from there."""
        self._chains.n_updates = int(memory["updates"])
        self._chains.arrays = {name: array for name, array in memory.items() if name != "updates"}

    def key(self, step: int) -> np.uint64:
        """Return the key of a step of the present update's random numbers."""
        return stream_key(_root(self.seed), _STEPS * self._chains.n_updates + step)

    def gradient(self, total: RowTotal, layers: Layers, visible: np.ndarray, p: np.ndarray, n_rows: int) -> None:
        """Write the difference of the chains' averages and the data's, whose rows come first; p has the signs."""
        share, ones = _shares(n_rows, len(visible) - n_rows, visible.dtype)
        self._chains.n_updates += 1
        cuts = layers.cuts() if total.in_blocks else None
        if cuts is not None:
            total.blocks = _blocks(cuts, visible, p, share, ones)
            return
        parts = self.shape.parts(total.grad)
        layers.pairs(visible, p, parts.weights)
        np.dot(share, visible, out=parts.visible_bias)
        np.dot(ones, p, out=parts.hidden_bias)

    def monitor(self, layers: Layers, visible: np.ndarray, x: np.ndarray) -> float:
        """Return an estimate of the negative log pseudo-likelihood a row, from products of every sixteenth."""
        n = self.shape.n_visible
        units = Units(int(self.key(0)) % n, _STRIDE, _MONITORED)
        value = unit_scores(x, visible, layers.weights, units, layers.hidden_bias, layers.visible_bias)
        return n * value if value < _ABSURD else math.inf

    def looked_at(self, n_rows: int) -> np.ndarray:
        """Return memory for the products of the rows that the monitor looks at."""
        return self.array("looked at", len(range(0, n_rows, _MONITORED)), self.shape.n_hidden)

    def read(self, rows: BitRows, n_chains: int) -> tuple[np.ndarray, np.ndarray]:
        """Return memory for the visible and hidden units of rows and chains, the rows being read."""
        n_rows = len(rows)
        visible = self.array("visible", n_rows + n_chains, self.shape.n_visible)
        rows.into(visible[:n_rows])
        return visible, self.array("probabilities", n_rows + n_chains, self.shape.n_hidden)

    def sweep(self, layers: Layers, hidden: np.ndarray, visible: np.ndarray, x: np.ndarray) -> None:
        """Redraw the visible layer given the hidden one, and go on until the last visible one is drawn."""
        y = self.array("visible probabilities", len(hidden), self.shape.n_visible)
        for k in range(self.sweeps):
            if k:
                layers.to_hidden(visible, x, partial(layers.draw_hidden, x, self.key(2 * k), hidden))
            layers.to_visible(hidden, y, partial(layers.draw_visible, y, self.key(2 * k + 1), visible))


@lru_cache(maxsize=8)
def _shares(n_rows: int, n_chains: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return how rows and chains count in the gradient, and ones; neither is to be written to."""
    share = np.repeat([-1.0 / n_rows, 1.0 / n_chains], [n_rows, n_chains]).astype(dtype)
    return share, np.ones_like(share)


def _blocks(cuts: list[int], visible: np.ndarray, p: np.ndarray, share: np.ndarray, ones: np.ndarray) -> GradientBlocks:
    """Return the gradient by visible units, as weights are cut, and at last that in the biases."""
    n, m = visible.shape[1], p.shape[1]

    def write(k: int, out: np.ndarray) -> None:
        if k == len(cuts) - 1:
            np.dot(share, visible, out=out[:n])
            np.dot(ones, p, out=out[n:])
        else:
            np.matmul(visible[:, cuts[k] : cuts[k + 1]].T, p, out=out.reshape(-1, m))

    return GradientBlocks((*(m * cut for cut in cuts[1:]), n * m + n + m), write)


@dataclass(frozen=True, kw_only=True)
class ContrastiveDivergence(SampledRowLoss):
    """CD-k: chains that start at the rows and do ``sweeps`` sweeps."""

    name: ClassVar[str] = "contrastive_divergence"

    def add_rows(self, total: RowTotal, layers: Layers, data: BitRows) -> None:
        """Write the monitor, and the difference of the rows' and the chains' averages."""
        n_rows = len(data)
        visible, p = self.read(data, n_rows)
        hidden = self.array("hidden", n_rows, self.shape.n_hidden)
        rows, chains, x, key = p[:n_rows], p[n_rows:], self.looked_at(n_rows), self.key(2 * self.sweeps)

        def start(units: slice) -> None:
            x[:, units] = rows[::_MONITORED, units]
            layers.draw_hidden(rows, key, hidden, units, -1.0 / n_rows)

        layers.to_hidden(visible[:n_rows], rows, start)
        total.value = self.monitor(layers, visible, x)
        self.sweep(layers, hidden, visible[n_rows:], chains)
        layers.to_hidden(
            visible[n_rows:], chains, lambda units: layers.hidden_probabilities(chains, units, 1.0 / n_rows)
        )
        self.gradient(total, layers, visible, p, n_rows)


@dataclass(frozen=True, kw_only=True)
class StochasticLikelihood(SampledRowLoss):
    """Stochastic maximum likelihood, or persistent contrastive divergence: chains that go on.

    Parameters
    ----------
    chains : int, optional
        Number of chains; None: as many as the first mini-batch has rows.
    fast : bool
        Whether chains see fast weights.
    fast_rate : float
        The rate of those.
    temperatures : int
        At which every chain runs, evenly spaced from 1 to 0.
    """

    chains: int | None = None
    fast: bool = False
    fast_rate: float = 0.05
    temperatures: int = 1

    name: ClassVar[str] = "stochastic_likelihood"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("chains", self.chains, 1, MANY, none=True)
        check_integer("temperatures", self.temperatures, 1, 10**4)
        check_option(isinstance(self.fast, bool), "fast", "True or False", self.fast)
        check_number("fast_rate", self.fast_rate, positive=True)

    def add_rows(self, total: RowTotal, layers: Layers, rows: BitRows) -> None:
        """Write the monitor, and the difference of the rows' and the chains' averages."""
        n_rows, arrays = len(rows), self._chains.arrays
        total.in_blocks &= not self.fast  # which needs the gradient, too
        start = arrays.get("visible" if self.temperatures > 1 else "hidden")
        n_chains = (self.chains or n_rows) if start is None else len(start) // self.temperatures
        visible, p = self.read(rows, n_chains)
        if start is None:
            self._begin(layers, visible[:n_rows], n_chains)
        seen = self._seen(layers)
        if self.temperatures > 1:
            self._temper(seen, n_chains, visible[n_rows:])
        else:
            self.sweep(seen, arrays["hidden"], visible[n_rows:], p[n_rows:])
        total.value = self._hidden(layers, seen, visible, p, n_rows)
        self.gradient(total, layers, visible, p, n_rows)
        if self.fast:
            arrays["fast"] *= _DECAY
            arrays["fast"] -= self.fast_rate * total.grad

    def _hidden(self, layers: Layers, seen: Layers, visible: np.ndarray, p: np.ndarray, n_rows: int) -> float:
        """Write the hidden probabilities as they count in the gradient, draw the chains', and return the monitor."""
        rows, chains, x, key = p[:n_rows], p[n_rows:], self.looked_at(n_rows), self.key(2 * self.sweeps)
        hidden, share = self._chains.arrays.get("hidden"), 1.0 / len(chains)

        def of_rows(units: slice) -> None:
            x[:, units] = rows[::_MONITORED, units]
            layers.hidden_probabilities(rows, units, -1.0 / n_rows)

        def of_chains(units: slice) -> None:
            if hidden is None:
                seen.hidden_probabilities(chains, units, share)
            else:
                seen.draw_hidden(chains, key, hidden, units, share)

        def of_both(units: slice) -> None:
            of_rows(units)
            of_chains(units)

        if seen is layers:
            layers.to_hidden(visible, p, of_both)
        else:
            layers.to_hidden(visible[:n_rows], rows, of_rows)
            seen.to_hidden(visible[n_rows:], chains, of_chains)
        return self.monitor(layers, visible, x)

    def _begin(self, layers: Layers, visible: np.ndarray, n_chains: int) -> None:
        """Start the chains at the rows of the first mini-batch, over and over if there are more of them."""
        arrays = self._chains.arrays
        starts = visible[np.arange(n_chains) % len(visible)]
        if self.fast:
            arrays["fast"] = np.zeros(self.n_weights, self.weight_type)
        if self.temperatures > 1:
            arrays["visible"] = np.tile(starts, (self.temperatures, 1))
            arrays["sweeps"] = np.zeros((), np.int64)
            return
        x = np.empty((n_chains, self.shape.n_hidden), self.weight_type)
        arrays["hidden"] = np.empty_like(x)
        layers.to_hidden(starts, x)
        layers.draw_hidden(x, self.key(2 * self.sweeps + 1), arrays["hidden"])

    def _seen(self, layers: Layers) -> Layers:
        """Return the machine that the chains see."""
        if not self.fast:
            return layers
        parts = self.shape.parts(self._chains.arrays["fast"])
        biases = (layers.visible_bias + parts.visible_bias, layers.hidden_bias + parts.hidden_bias)
        return Layers(Parts(layers.weights + parts.weights, *biases), layers.executor, layers.buffers)

    def _temper(self, seen: Layers, n_chains: int, out: np.ndarray) -> None:
        """Sweep all replicas, with swaps between, and write the visible units of the coldest."""
        arrays = self._chains.arrays
        units = SampledUnits(np.ascontiguousarray(seen.weights), seen.hidden_bias, seen.visible_bias, np.zeros(0))
        chains = BlockChains(units, len(arrays["visible"]), _root(self.seed), seen.executor.n_workers)
        ladder = Ladder(self.temperatures, n_chains)
        chains.beta[:] = ladder.betas
        chains.visible[:], chains.n_sweeps = arrays["visible"], int(arrays["sweeps"])
        for _ in range(self.sweeps):
            chains.in_pieces(chains.activate)
            ladder.swap(chains)
            chains.in_pieces(chains.draw_hidden)
            chains.in_pieces(chains.draw_visible)
            chains.n_sweeps += 1
        arrays["visible"][:] = chains.visible
        arrays["sweeps"][...] = chains.n_sweeps
        out[:] = chains.visible[:n_chains]

    @property
    def hidden_states(self) -> Floats | None:
        """The hidden units of the chains, ``(chains, n_hidden)``; None before the first update, or with replicas."""
        return self._chains.arrays.get("hidden")
