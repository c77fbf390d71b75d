r"""Block Gibbs sampling of machines that share their weights: a block of rows through all sweeps before the next.

The law is that of :mod:`beliefs.inference.boltzmann.gibbs`: chains of whole layers from uniform starts, averages of
conditionals, and the best :math:`\log \sum_h e^{-E(v, h)}` (or sum over v, if that layer is larger) of a chain's last
state as a lower bound of log Z. Random numbers are functions of (seed, place in the batch, chain, sweep, unit), and a
row's sums go through the units in their order (:mod:`beliefs.kernels.boltzmann.row_chains`): what is drawn for the
k-th machine depends neither on how many others there are nor on threads.

Cost of a sweep and chain: a multiplication for every weight beside a unit that is on, twice, and once more where pairs
are added up. Memory: two matrices of the weights' size, and where marginals are asked for one of float64 for each of
four parts and each thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from beliefs.deadline import check_time
from beliefs.inference.boltzmann.chains import root_key
from beliefs.inference.boltzmann.machines import roundings_of
from beliefs.inference.parallel import in_chunks, parallel_chunks
from beliefs.inference.sampling.gibbs import SWEEPS, Gibbs
from beliefs.kernels.boltzmann.layers import softplus_sums
from beliefs.kernels.boltzmann.row_chains import RowChains, RowMachines, RowSums, draw_rows, row_products, sweep_rows
from beliefs.kernels.primitives.random import stream
from beliefs.model.rbm_batch import RBMBatch
from beliefs.typing import Bools, Floats, Ints

__all__ = ["BatchAverages", "chain_bytes_of", "drawn_rows", "gibbs_rows"]

_PARTS = 4  # of a batch, whatever the threads
_BLOCK = 8  # machines whose single chains are swept together


@dataclass(frozen=True, eq=False)
class BatchAverages:
    """Averages of conditionals by machine, the sum of those of pairs, lower bounds of log Z, and how long it took."""

    log_z: Floats
    visible: Floats
    hidden: Floats
    pair_sum: Floats
    n_iters: Ints
    converged: Bools


def chain_bytes_of(batch: RBMBatch, n_chains: int, threads: int) -> float:
    """Predict the memory of averages: weights either way and in float64, pairs, chains, and what is returned."""
    pairs, units = float(batch.weights.size), float(batch.n_visible + batch.n_hidden)
    width, workers = batch.dtype.itemsize, min(threads, _PARTS)
    matrices = width * pairs + 16.0 * pairs + 8.0 * pairs * (_PARTS + 2 * workers)
    return matrices + workers * n_chains * units * (2.0 * width + 16.0) + 8.0 * len(batch) * units


class _Block:
    """Rows of some machines, ``(first, end)``, with as many chains each, at their uniform start."""

    def __init__(self, batch: RBMBatch, turned: np.ndarray, seed: int, machines: range, n_chains: int) -> None:
        (n, m), rows, dtype = batch.weights.shape, len(machines) * n_chains, batch.dtype
        numbers = np.repeat(np.arange(machines.start, machines.stop), n_chains)
        biases = (bias[numbers].astype(np.float64) for bias in (batch.visible_bias, batch.hidden_bias))
        self.machines = RowMachines(batch.weights, turned, *biases)
        root = root_key(seed)
        keys = [stream(np.uint64(stream(root, k)), chain) for k in machines for chain in range(n_chains)]
        visible, hidden, y, x = (np.zeros((rows, width), dtype) for width in (n, m, n, m))
        self.chains = RowChains(visible, hidden, y, x, np.array(keys, np.uint64))
        draw_rows(y, np.zeros((rows, n)), self.chains.keys, 0, visible)
        self.n_sweeps = 0

    def sweep(self, n: int, sums: RowSums | None = None) -> None:
        """Do some sweeps; with ``sums``, add up what is averaged."""
        kept = _NOTHING if sums is None else sums
        sweep_rows(self.machines, self.chains, self.n_sweeps, n, sums is not None, kept)
        self.n_sweeps += n


_NOTHING = RowSums(np.zeros(0), np.zeros(0), np.zeros((0, 0)))


def drawn_rows(batch: RBMBatch, n_sweeps: int, seed: int, threads: int) -> np.ndarray:
    """Return the visible units of each machine after some sweeps of one chain, bits ``(N, n_visible)``."""
    out, turned = np.empty((len(batch), batch.n_visible), np.uint8), np.ascontiguousarray(batch.weights.T)

    def blocks(begin: int, end: int) -> int:
        for first in range(begin, end, _BLOCK):
            block = _Block(batch, turned, seed, range(first, min(first + _BLOCK, end)), 1)
            for done in range(0, n_sweeps, SWEEPS):
                check_time()
                block.sweep(min(SWEEPS, n_sweeps - done))
            out[first : min(first + _BLOCK, end)] = block.chains.visible
        return 0

    parallel_chunks(blocks, in_chunks(len(batch), _PARTS), threads)
    return out


def gibbs_rows(batch: RBMBatch, method: Gibbs, limits: tuple[int, float], seed: int, threads: int) -> BatchAverages:
    """Average over chains of every machine, for at most so many steps of ten sweeps, or until averages settle."""
    n_machines, (n, m) = len(batch), batch.weights.shape
    found = BatchAverages(
        np.empty(n_machines), np.empty((n_machines, n)), np.empty((n_machines, m)), np.zeros((n, m)),
        np.zeros(n_machines, np.int64), np.zeros(n_machines, np.bool_),
    )  # fmt: skip
    bounds = in_chunks(n_machines, _PARTS)
    totals = [np.zeros((n, m)) for _ in bounds[1:]]
    turned, bounded = np.ascontiguousarray(batch.weights.T), _bounds(batch)

    def parts(begin: int, end: int) -> int:
        sums = RowSums(np.zeros(n), np.zeros(m), np.zeros((n, m)))
        for part in range(begin, end):
            for k in range(int(bounds[part]), int(bounds[part + 1])):
                block = _Block(batch, turned, seed, range(k, k + 1), method.chains)
                found.n_iters[k], found.converged[k], n_kept = _run(block, method.burn_in, limits, sums)
                totals[part] += sums.pairs / n_kept
                found.visible[k], found.hidden[k] = (np.clip(s / n_kept, 0.0, 1.0) for s in sums[:2])
                found.log_z[k] = bounded(block)
        return 0

    parallel_chunks(parts, np.arange(len(totals) + 1), threads)
    for total in totals:
        found.pair_sum[:] += total
    found.log_z[:] -= 2.0 * roundings_of(batch)
    return found


def _run(block: _Block, burn_in: int, limits: tuple[int, float], sums: RowSums) -> tuple[int, bool, int]:
    """Run one machine's chains; return steps, whether averages have settled, and how many terms they have."""
    for array in sums:
        array[:] = 0.0
    (max_iters, tol), n_chains, n_kept = limits, len(block.chains.keys), 0
    means, n_done, settled = np.full(sum(array.size for array in sums[:2]), 0.5), 0, False
    while n_done < max_iters and not settled:
        check_time()
        burning = min(SWEEPS, max(0, burn_in - block.n_sweeps))
        block.sweep(burning)
        if burning < SWEEPS:
            block.sweep(SWEEPS - burning, sums)
            n_kept += n_chains * (SWEEPS - burning)
            before, means = means, np.concatenate(sums[:2]) / n_kept
            settled = max(float(np.abs(means - before).max()), 1.0 / n_kept) <= tol
        n_done += 1
    if n_kept == 0:  # all was burn-in
        block.sweep(1, sums)
        n_kept = n_chains
    return n_done, settled, n_kept


def _bounds(batch: RBMBatch) -> Callable[[_Block], float]:
    """Return what makes a lower bound of log Z of a machine's last states: the larger layer is summed out."""
    turn = batch.n_visible > batch.n_hidden > 0
    weights = np.ascontiguousarray((batch.weights.T if turn else batch.weights).astype(np.float64))
    none, ones = np.zeros(weights.shape[1]), np.ones(weights.shape[1])

    def bound(block: _Block) -> float:
        chains, machines = block.chains, block.machines
        states, own, other = chains.visible, machines.visible_bias, machines.hidden_bias
        if turn:
            states, own, other = chains.hidden, other, own
        rows = states.astype(np.float64)
        x, scores = np.empty((len(rows), weights.shape[1])), (rows * own).sum(axis=1)
        row_products(rows, weights, x)
        x += other
        softplus_sums(x, none, ones, 1.0, scores)
        return float(scores.max())

    return bound
