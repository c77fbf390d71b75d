r"""Belief propagation in machines that share their weights: which form messages take, whose memory, which thread.

Sum-product is Algorithm 6.1 of [ping2016], max-product the same with maxima, mixed-product Algorithm 6.2. A machine's
answer depends on no other, so machines are cut into a fixed number of parts, whatever the threads; a part keeps its
sum of pair beliefs, and the sums are added in order. Memory, in matrices of the weights' size: one for couplings, two
for each thread (none for mixed-product), one for each part that adds up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from beliefs.deadline import check_time
from beliefs.inference.parallel import in_chunks, parallel_chunks
from beliefs.kernels.boltzmann.between_layers import Beliefs, Couplings, Rule, Workspace
from beliefs.kernels.boltzmann.log_messages import log_rows
from beliefs.kernels.boltzmann.mixed_messages import mixed_rows
from beliefs.kernels.boltzmann.ratio_messages import ratio_rows
from beliefs.typing import Bools, Floats, Ints

__all__ = ["LayerMessages", "Propagated"]

_PARTS = 4
_SHARED = 2**15  # machines times weights from which threads share them: some 100 us
_RANGE = {4: (27.0, 44.0), 8: (300.0, 350.0)}  # by width of a number: the largest weight of ratios, and of log odds
_EXPONENT = 600.0  # a product of float64 of that many nats is a number


@dataclass(frozen=True, eq=False)
class Propagated:
    """Beliefs of all machines.

    Attributes
    ----------
    visible, hidden : ndarray (N, units)
        P(v = 1), P(h = 1); of maxima, their sides of a half are the decoding.
    visible_log_odds, hidden_log_odds : ndarray (N, units)
    n_iters : ndarray (N,)
    converged : ndarray (N,)
    log_z : ndarray (N,)
        Bethe values; empty unless asked for.
    pair_sum : ndarray (n_visible, n_hidden)
        The sum over machines of P(v = 1, h = 1); empty unless asked for.
    """

    visible: Floats
    hidden: Floats
    visible_log_odds: Floats
    hidden_log_odds: Floats
    n_iters: Ints
    converged: Bools
    log_z: Floats
    pair_sum: np.ndarray


class LayerMessages:
    """Couplings between two layers in the form that suits them, ready for any number of machines.

    Parameters
    ----------
    weights : ndarray (n_visible, n_hidden)
        float32 or float64.
    damping : float
        The share of an old log message in a new one; messages are then logs, in float64.
    threads : int
    """

    def __init__(self, weights: np.ndarray, damping: float = 0.0, threads: int = 1) -> None:
        largest = float(np.abs(weights).max(initial=0.0))
        self.logs, self.most = damping > 0.0 or not _has_ratios(weights), _RANGE[weights.dtype.itemsize][1]
        self.damping, self.threads, self.shape = damping, threads, weights.shape
        self.between = weights.astype(np.float64) if self.logs else np.exp(weights)
        self.block = weights.size + 1 if self.logs else max(1, int(_EXPONENT / max(largest, 1e-3)))

    @staticmethod
    def width(weights: np.ndarray, damping: float = 0.0) -> int:
        """Return the bytes of a message."""
        return 8 if damping > 0 or not _has_ratios(weights) else int(weights.dtype.itemsize)

    @staticmethod
    def needed_bytes(weights: np.ndarray, n_machines: int, threads: int, damping: float = 0.0) -> float:
        """Predict the memory of sums with pair beliefs: couplings, messages, sums, and beliefs of units."""
        width = float(LayerMessages.width(weights, damping))
        parts = 0 if n_machines == 1 else min(_PARTS, n_machines) + 1
        matrices = 1 + 2 * min(threads, _PARTS, n_machines) + parts
        return width * weights.size * matrices + 64.0 * n_machines * sum(weights.shape)

    def workspace(self, rows_sent: int, rows_came: int) -> Workspace:
        """Return what one machine needs while it is worked on."""
        n, m = self.shape
        dtype = self.between.dtype
        sent, came, spare = (np.empty((rows, m), dtype) for rows in (rows_sent, rows_came, 1))
        odds, (change, before) = np.empty(n + m + 1, dtype), np.empty((2, n + m))
        return Workspace(sent, came, spare[0], odds, np.empty(m), change, before)

    def couplings(self, visible_bias: np.ndarray, hidden_bias: np.ndarray) -> Couplings:
        """Return the weights beside the biases of machines, ``(N, units)``."""
        biases = (np.array(b, np.float64, order="C") for b in (visible_bias, hidden_bias))  # of one kind for kernels
        return Couplings(self.between, *biases)

    def rule(self, max_iters: int, tol: float, maximise: bool = False) -> Rule:
        """Return how long to go on."""
        return Rule(max_iters, tol, maximise, self.damping, self.block, self.most)

    def beliefs(self, n_machines: int) -> Beliefs:
        """Return room for beliefs."""
        n, m = self.shape
        visible, hidden = np.empty((2, n_machines, n)), np.empty((2, n_machines, m))
        n_iters, change = np.zeros(n_machines, np.int64), np.full(n_machines, np.inf)
        return Beliefs(visible[0], hidden[0], visible[1], hidden[1], n_iters, change)

    def sums(self, visible_bias: np.ndarray, hidden_bias: np.ndarray, max_iters: int, tol: float) -> Propagated:
        """Sum-product, with Bethe values and pair beliefs."""
        n_machines, (n, m) = len(visible_bias), self.shape
        rows = log_rows if self.logs else ratio_rows
        bounds = in_chunks(n_machines, _PARTS)
        alone = n_machines == 1
        totals = [np.zeros((0, 0) if alone else (n, m), self.between.dtype) for _ in bounds[1:]]
        log_z = np.empty(n_machines)
        couplings, rule = self.couplings(visible_bias, hidden_bias), self.rule(max_iters, tol)
        beliefs, kept = self.beliefs(n_machines), []

        def part(work: Workspace, k: int) -> None:
            rows(couplings, rule, work, beliefs, int(bounds[k]), int(bounds[k + 1]), log_z, totals[k])
            if alone:
                kept.append(work.came)  # where pair beliefs have taken the place of messages

        self._run(part, len(visible_bias), len(bounds) - 1, partial(self.workspace, n, n))
        pair_sum = kept[0] if alone else totals[0] if totals else np.zeros((n, m), self.between.dtype)
        for total in totals[1:]:
            pair_sum += total
        return _propagated(beliefs, tol, log_z, pair_sum)

    def maxima(self, visible_bias: np.ndarray, hidden_bias: np.ndarray, max_iters: int, tol: float) -> Propagated:
        """Max-product: log odds whose signs are a decoding of both layers."""
        rows = log_rows if self.logs else ratio_rows
        couplings, rule = self.couplings(visible_bias, hidden_bias), self.rule(max_iters, tol, maximise=True)
        bounds, beliefs = in_chunks(len(visible_bias), _PARTS), self.beliefs(len(visible_bias))
        none = np.empty(0), np.empty((0, 0), self.between.dtype)

        def part(work: Workspace, k: int) -> None:
            rows(couplings, rule, work, beliefs, int(bounds[k]), int(bounds[k + 1]), *none)

        self._run(
            part,
            len(visible_bias),
            len(bounds) - 1,
            partial(self.workspace, self.shape[0], self.shape[0] if self.logs else 0),
        )
        return _propagated(beliefs, tol, *none)

    def mixed(self, visible_bias: np.ndarray, hidden_bias: np.ndarray, max_iters: int, tol: float) -> Propagated:
        """Mixed-product: signs of visible log odds are a decoding, hidden beliefs those given it."""
        couplings, rule = self.couplings(visible_bias, hidden_bias), self.rule(max_iters, tol)
        bounds, beliefs = in_chunks(len(visible_bias), _PARTS), self.beliefs(len(visible_bias))

        def part(work: Workspace, k: int) -> None:
            mixed_rows(couplings, rule, work, beliefs, int(bounds[k]), int(bounds[k + 1]), self.logs)

        self._run(part, len(visible_bias), len(bounds) - 1, partial(self.workspace, 1, 1))
        return _propagated(beliefs, tol, np.empty(0), np.empty((0, 0), self.between.dtype))

    def _run(
        self, part: Callable[[Workspace, int], None], n_machines: int, n_parts: int, workspace: Callable[[], Workspace]
    ) -> None:
        """Run all parts, those of a thread one after the other in the same memory."""

        def run(begin: int, end: int) -> int:
            work = workspace()
            for k in range(begin, end):
                check_time()
                part(work, k)
            return 0

        threads = self.threads if n_machines * self.between.size >= _SHARED else 1
        parallel_chunks(run, np.arange(n_parts + 1), threads)


def _has_ratios(weights: np.ndarray) -> bool:
    """Whether no weight is too large for ratios."""
    return float(np.abs(weights).max(initial=0.0)) <= _RANGE[weights.dtype.itemsize][0]


def _propagated(beliefs: Beliefs, tol: float, log_z: Floats, pair_sum: Any) -> Propagated:
    converged = beliefs.change <= tol
    logs = (beliefs.visible_log_odds, beliefs.hidden_log_odds)
    return Propagated(beliefs.visible, beliefs.hidden, *logs, beliefs.n_iters, converged, log_z, pair_sum)
