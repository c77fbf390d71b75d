r"""Markov chains on the two layers of a machine, all of them at once as rows of matrices.

A sweep at inverse temperatures :math:`\beta_r` redraws the hidden layer given the visible one, then the visible layer:

.. math::
    h_{rj} \sim \sigma(\beta_r (v_r^T w_j + a_j)), \qquad v_{ri} \sim \sigma(\beta_r (w_i h_r + b_i) + o_i)

(:math:`o` is the part of an annealing base). Where units are fractional the visible row is a proposal that is accepted
with probability :math:`\min(1, r(v') / r(v))` [hastings1970], see
:class:`beliefs.inference.boltzmann.machines.SampledUnits`; with counts :math:`c_j \le 1` that is at least
:math:`\prod_j 2^{-(1 - c_j)}` ([ping2016] proposition 5.4.2).

Rows are cut into pieces of 256, whatever the number of threads, and random numbers are functions of (key, sweep, layer,
row, unit): the same bytes for any number of threads. Matrices have the machine's type. Cost of a sweep and row: two
products with the weights.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from beliefs.inference.boltzmann.machines import SampledUnits
from beliefs.inference.parallel import parallel_chunks
from beliefs.kernels.boltzmann.layers import draw_units
from beliefs.kernels.primitives.random import stream
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM
from beliefs.typing import Floats

__all__ = ["BlockChains", "chain_bytes", "root_key"]

_PIECE = 256  # rows of a matrix product: fewer cost its speed, more leave threads without work
_HIDDEN, _VISIBLE, _ACCEPT, _START, _STREAMS = range(5)


def root_key(seed: int, purpose: int = 0) -> np.uint64:
    """Return the key of a question's random numbers."""
    return np.uint64(np.random.SeedSequence([seed, purpose]).generate_state(1, np.uint64)[0])


def chain_bytes(machine: BoltzmannMachine, n_rows: int) -> float:
    """Predict the memory of chains: states, pre-activations and a proposal; weights once more where they are copied."""
    n_units = float(np.ceil(machine.counts).sum())
    width = machine.dtype.itemsize
    copied = 0.0 if isinstance(machine, RBM) else width * machine.n_visible * n_units
    return n_rows * (3.0 * width * (machine.n_visible + n_units) + 64) + copied


class BlockChains:
    """Rows of visible and hidden units, and what is needed to redraw them.

    Attributes
    ----------
    visible : ndarray (rows, n_visible)
    hidden : ndarray (rows, n_units)
    x : ndarray (rows, n_units)
        After :meth:`activate` the product of the visible rows with the weights, after :meth:`draw_hidden` the
        probabilities of the hidden units.
    y : ndarray (rows, n_visible)
        After :meth:`draw_visible` the probabilities of the visible units.
    beta : ndarray (rows,)
        Inverse temperatures.
    n_accepted, n_proposed : ndarray (rows,)
        How often a row's proposal was taken, of how many; whole units need none.
    """

    def __init__(self, machine: BoltzmannMachine | SampledUnits, n_rows: int, key: np.uint64, threads: int) -> None:
        self.units = units = machine if isinstance(machine, SampledUnits) else SampledUnits.of(machine)
        self.key, self.threads, self.n_sweeps = key, threads, 0
        (n, m), dtype = units.weights.shape, units.weights.dtype
        self.visible, self.y = np.zeros((n_rows, n), dtype), np.zeros((n_rows, n), dtype)
        self.hidden, self.x = np.zeros((n_rows, m), dtype), np.zeros((n_rows, m), dtype)
        self.proposed = np.zeros_like(self.visible) if units.fractions.size else self.visible
        self.log_ratio = np.zeros(n_rows)
        self.beta, self.n_accepted, self.n_proposed = np.ones(n_rows), np.zeros(n_rows), np.zeros(n_rows)
        self.no_offset = np.zeros(n)

    def start(self, log_odds: Floats) -> None:
        """Draw every visible unit independently with these log-odds, ``(n_visible,)``."""
        zeros = np.zeros(len(self.visible))
        draw_units(self.y, zeros, self.no_offset, log_odds, np.uint64(stream(self.key, _START)), 0, self.visible)

    def in_pieces(self, task: Callable[[slice], None]) -> None:
        """Run a task on every piece of rows."""
        n_rows = len(self.visible)

        def run(begin: int, end: int) -> int:
            for k in range(begin, end):
                task(slice(k * _PIECE, min((k + 1) * _PIECE, n_rows)))
            return 0

        parallel_chunks(run, np.arange(-(-n_rows // _PIECE) + 1), self.threads)

    def sweep_key(self, layer: int) -> np.uint64:
        """Return the key of the present sweep's random numbers for a layer."""
        return np.uint64(stream(self.key, _STREAMS + _STREAMS * self.n_sweeps + layer))

    def activate(self, rows: slice) -> None:
        """Compute the product with the weights that the hidden layer needs."""
        np.dot(self.visible[rows], self.units.weights, out=self.x[rows])

    def draw_hidden(self, rows: slice) -> None:
        """Redraw the hidden layer from ``x``."""
        units, key = self.units, self.sweep_key(_HIDDEN)
        if units.fractions.size:
            self.log_ratio[rows] = units.log_ratio(self.x[rows], self.beta[rows])
        draw_units(
            self.x[rows], self.beta[rows], units.bias, np.zeros(units.bias.size), key, rows.start, self.hidden[rows]
        )

    def draw_visible(self, rows: slice, offset: Floats | None = None) -> None:
        """Redraw the visible layer from the hidden one, and accept or refuse what was drawn."""
        units, key = self.units, self.sweep_key(_VISIBLE)
        np.dot(self.hidden[rows], units.weights.T, out=self.y[rows])
        offset = self.no_offset if offset is None else offset
        draw_units(self.y[rows], self.beta[rows], units.visible_bias, offset, key, rows.start, self.proposed[rows])
        if units.fractions.size:
            self._accept(rows)

    def _accept(self, rows: slice) -> None:
        fresh = self.units.log_ratio(self.proposed[rows] @ self.units.weights, self.beta[rows])
        uniform = np.random.default_rng([int(self.sweep_key(_ACCEPT)), rows.start]).random(len(fresh))
        taken = np.log1p(-uniform) < fresh - self.log_ratio[rows]
        self.visible[rows][taken] = self.proposed[rows][taken]
        self.n_accepted[rows] += taken
        self.n_proposed[rows] += 1.0

    @property
    def acceptance_rate(self) -> float:
        """The share of proposals that were taken; 1 where there were none."""
        proposed = float(self.n_proposed.sum())
        return float(self.n_accepted.sum()) / proposed if proposed else 1.0

    def redraw(self, rows: slice) -> None:
        """Redraw both layers of some rows."""
        self.activate(rows)
        self.draw_hidden(rows)
        self.draw_visible(rows)

    def sweep(self, n: int = 1) -> None:
        """Redraw both layers of all rows ``n`` times."""
        for _ in range(n):
            self.in_pieces(self.redraw)
            self.n_sweeps += 1
