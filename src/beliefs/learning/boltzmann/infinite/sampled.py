r"""Expectations by persistent chains, for machines of any size.

Chains go on from unit to unit: ``sweeps`` block Gibbs sweeps before each new unit make the samples
:math:`\{v^s\}` of Algorithm 5.1 [ping2016], which are used for all evaluations of J. Then the bias follows the printed
rule, with one sweep a step and the average over the chains' conditionals in place of that over states:

.. math:: b \leftarrow b + \eta \big( \tfrac1N \sum_n v^n - \tfrac1S \sum_s p(v = 1 \mid h^s) \big)

log Z is carried on from unit to unit. With d the change of the log weights in a step, samples before and after give
an estimate each, :math:`\log \tfrac1S \sum_s e^{d(v^s)}`, too low on average, and
:math:`-\log \tfrac1S \sum_s e^{-d(v^s)}`, too high; their mean is taken. It is an ESTIMATE whose errors add up.

Random numbers are functions of seed, sweep, chain and unit; a run that goes on makes the very draws of one that was not
interrupted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from beliefs.driver import Status
from beliefs.inference.boltzmann.chains import BlockChains, root_key
from beliefs.learning.boltzmann.infinite.averages import RowAverages
from beliefs.learning.boltzmann.infinite.expectations import Expectations
from beliefs.learning.boltzmann.infinite.measure import Measure
from beliefs.learning.boltzmann.infinite.subproblem import Inner
from beliefs.learning.boltzmann.rows import BitRows
from beliefs.learning.optimizers.base import Stop

__all__ = ["SampledExpectations", "Sampling"]


_LARGEST = 1e4  # a visible bias; far beyond what decides a unit


@dataclass(frozen=True)
class Sampling:
    """How much to sample: chains, sweeps before a unit, steps of the bias after it and their rate."""

    chains: int = 1500
    sweeps: int = 10
    bias_steps: int = 20
    learning_rate: float = 0.2


class SampledExpectations(Expectations):
    """Persistent chains."""

    tol = 1e-5
    least_share = 0.1

    def __init__(self, start: Measure, plain: bool, options: Sampling, data: RowAverages, seed: int) -> None:
        self.options, self.plain, self.dtype, self.executor = options, plain, data.dtype, data.executor
        self.key = root_key(seed)
        self.chains = BlockChains(start.machine(self.dtype, plain), options.chains, self.key, self.executor.n_workers)
        if start.n_units:
            chosen = np.random.default_rng([seed, 0]).integers(data.n_rows, size=options.chains)
            data.rows.take(chosen).into(self.chains.visible)
        else:
            self.chains.start(start.bias)  # independent units: exact draws

    def _onto(self, measure: Measure) -> None:
        """Let the chains go on under the machine of a measure."""
        visible, n_sweeps = self.chains.visible, self.chains.n_sweeps
        del self.chains  # the new ones take its place in memory
        machine = measure.machine(self.dtype, self.plain)
        self.chains = BlockChains(machine, self.options.chains, self.key, self.executor.n_workers)
        self.chains.visible[:], self.chains.n_sweeps = visible, n_sweeps

    def law(self, measure: Measure) -> RowAverages:
        """Return averages over new samples of a measure's machine."""
        self._onto(measure)
        self.chains.sweep(self.options.sweeps)
        return RowAverages(self._bits(), self.dtype, self.executor)

    def _bits(self) -> BitRows:
        """Return the present rows, a copy."""
        return BitRows(self.chains.visible.astype(np.uint8))

    def settled(self, before: Measure, after: Measure, data: RowAverages, inner: Inner) -> Measure:
        """Return the measure with a bias that has followed the difference of rates, and log Z as estimated."""
        old = self._bits()
        self._onto(after)
        bias, units = after.bias.copy(), self.chains.units
        for _ in range(self.options.bias_steps):
            inner.check_time()
            self.chains.sweep()
            bias += self.options.learning_rate * (data.mean - self.chains.y.mean(axis=0, dtype=np.float64))
            if not np.abs(bias).max() < _LARGEST:
                raise Stop(Status.DIVERGED, "the visible bias grows without end; use a smaller learning_rate")
            units.visible_bias[:] = bias.astype(self.dtype)
        after = replace(after, bias=bias)
        rise = self._log_ratio(before, after, old), -self._log_ratio(after, before, self._bits())
        return replace(after, log_z=before.log_z + 0.5 * (rise[0] + rise[1]))

    def _log_ratio(self, of: Measure, to: Measure, rows: BitRows) -> float:
        """Return the estimate of log Z(to) - log Z(of) by samples of the first."""
        averages = RowAverages(rows, self.dtype, self.executor)
        d = averages.softplus_sums(to.atoms, to.counts) - averages.softplus_sums(of.atoms, of.counts)
        return averages.log_average_exp(d + averages.products(to.bias - of.bias))

    def memory(self) -> dict[str, np.ndarray]:
        """Return the chains' rows, as bits, and how many sweeps they have made."""
        bits = np.packbits(self.chains.visible.astype(np.bool_), axis=1)
        return {"chains": bits, "n_sweeps": np.array(float(self.chains.n_sweeps))}

    def resume(self, memory: dict[str, np.ndarray]) -> None:
        """Put the chains where they were."""
        n = self.chains.visible.shape[1]
        self.chains.visible[:] = np.unpackbits(memory["chains"], axis=1, count=n)
        self.chains.n_sweeps = int(memory["n_sweeps"])
