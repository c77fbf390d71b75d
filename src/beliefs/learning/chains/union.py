r"""Exact answers about many chains at once: the disjoint union of all sequences, in fixed chunks on threads.

A union has ``starts (n_chains+1,)``: chain s is tokens ``starts[s]:starts[s+1]``; unary log potentials are rows
``(n_tokens, width)``, K of their entries used (:func:`rows_for`); all chains share one table ``(K, K)``. Every answer
is the same to the last bit for any number of threads. Cost: K^2 a token. Potentials must be finite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from beliefs.kernels.chains.linear import LOW, WIDEST, Chains, chain_posteriors, chain_spans
from beliefs.kernels.chains.log import log_posteriors, sample_labels
from beliefs.kernels.chains.marginal_map import Summed, marginal_map, n_room_of_maps
from beliefs.kernels.chains.margins import label_indicators
from beliefs.kernels.chains.two_temperatures import Power, Powers, n_room, two_temperatures
from beliefs.kernels.chains.viterbi import best_labels
from beliefs.kernels.primitives.random import stream
from beliefs.learning.parallel import Executor
from beliefs.typing import Bools, Floats, Ints

__all__ = ["ChainUnion", "Chunk", "Pairs", "padded_table", "power_of", "rows_for", "summed_table", "width_for"]

_CHUNK = 2048  # tokens, at most: few enough to stay in the second cache from scores to posteriors
_LEAST_CHUNK = 512  # tokens; below, calls would count
_CHUNKS = 16  # at least in a sum, where there are tokens enough: so many are shared out evenly


def width_for(n_states: int) -> int:
    """Return the number of states rounded up to a multiple of four."""
    return -(-n_states // 4) * 4


def rows_for(n_tokens: int, n_states: int) -> Floats:
    """Return rows of zeros ``(n_tokens, width)``, padded so that the padding adds nothing."""
    rows = np.zeros((n_tokens, width_for(n_states)))
    rows[:, n_states:] = LOW
    return rows


def padded_table(table: Floats) -> Floats:
    """Return a table ``(K, K)`` with its rows padded like those of tokens, flat."""
    k = len(table)
    padded = np.zeros((k, width_for(k)))
    padded[:, :k] = table
    return padded.reshape(-1)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The shared table in the forms that kernels read: logs, and exponentials with largest entry one, both ways."""

    table: Floats
    top: float
    span: float
    forward: Floats
    backward: Floats

    @classmethod
    def build(cls, table: Floats) -> Pairs:
        """Return the forms of a table ``(K, K)``."""
        k, top = len(table), float(table.max())
        forward, backward = np.zeros((k, width_for(k))), np.zeros((k, width_for(k)))
        with np.errstate(invalid="ignore", over="ignore"):  # a table that is not finite gives a log Z that is not
            forward[:, :k] = np.exp(table - top)
            span = float(np.ptp(table))
        backward[:, :k] = forward[:, :k].T
        return cls(np.ascontiguousarray(table).reshape(-1), top, span, forward.reshape(-1), backward.reshape(-1))


def power_of(table: Floats, eps: float) -> Power:
    """Return a temperature and the table ``(K, K)`` as power sums read them."""
    flat, top = np.ascontiguousarray(table).reshape(-1), float(table.max())
    with np.errstate(invalid="ignore", over="ignore"):  # a table that is not finite gives a sum that is not
        exponentials = np.exp((flat - top) / eps) if eps else flat
    return Power(len(table), flat, exponentials, top, eps)


def summed_table(table: Floats, pairs: Pairs, eps: float) -> Summed:
    """Return a table ``(K, K)`` as best outputs need it, given the forms of ``table / eps``."""
    k = len(table)
    lead = np.zeros((k, width_for(k)))
    for y in range(k):
        lead[y, :k] = (table[y] - table).min(axis=1)
    return Summed(padded_table(table), pairs.forward, pairs.backward, lead.reshape(-1), eps * pairs.top, eps)


@dataclass(frozen=True, eq=False)
class Chunk:
    """Neighbouring chains ``begin`` to ``end``, tokens ``first`` to ``last``."""

    begin: int
    end: int
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class ChainUnion:
    """The structure of a union of chains."""

    starts: Ints
    n_states: int

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return int(self.starts.size) - 1

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return int(self.starts[-1])

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest chain."""
        return int(np.diff(self.starts).max(initial=0))

    @cached_property
    def chunks(self) -> list[Chunk]:
        """Chains cut into chunks of about equal size, for sums over all; they depend on the data alone."""
        return self._cut(min(max(self.n_tokens // _CHUNKS, _LEAST_CHUNK), _CHUNK))

    @cached_property
    def pieces(self) -> list[Chunk]:
        """The same in fewer, for answers to each chain: of a call on tokens by the thousand, calls are a share."""
        return self._cut(_CHUNK)

    def _cut(self, size: int) -> list[Chunk]:
        inner = np.searchsorted(self.starts, np.arange(size, self.n_tokens, size))
        bounds = np.unique(np.concatenate([[0], inner, [self.n_chains]]))
        return [
            Chunk(int(a), int(b), int(self.starts[a]), int(self.starts[b]))
            for a, b in zip(bounds[:-1], bounds[1:], strict=True)
        ]

    @cached_property
    def one_by_one(self) -> ChainUnion:
        """The same chains, each a chunk of its own."""
        return OneByOne(self.starts, self.n_states)

    def each(self, chunks: list[Chunk], task: Callable[[int, Chunk, Floats], None], executor: Executor) -> None:
        """Run ``task(number, chunk, scratch)`` for all chunks; scratch is a thread's own."""
        width = width_for(self.n_states)
        room = (2 * self.longest + 2) * width + self.longest + 4 * width

        def some(begin: int, end: int) -> None:
            scratch = np.empty(room)
            for number in range(begin, end):
                task(number, chunks[number], scratch)

        executor.chunks(some, len(chunks))

    def chains(self, chunk: Chunk) -> Chains:
        """Return the chains of a chunk as kernels take them."""
        return Chains(self.starts, chunk.begin, chunk.end, self.n_states, width_for(self.n_states))

    # -- answers --------------------------------------------------------------------------------------------------
    def spans(
        self, chunk: Chunk, rows: Floats, pairs: Pairs, wide: Bools, widest: float = WIDEST, eps: float = 1.0
    ) -> None:
        """Mark the chains of a chunk whose potentials span too much for the linear domain at a temperature."""
        span = np.empty(self.n_chains) if chunk.end > chunk.begin else np.empty(0)
        chain_spans(self.chains(chunk), rows.reshape(-1), span)
        here = slice(chunk.begin, chunk.end)
        wide[here] = ~((span[here] <= widest * eps) & (pairs.span <= widest))  # nan counts as wide

    def posteriors(
        self, chunk: Chunk, rows: Floats, pairs: Pairs, weight: Floats, wide: Bools, scratch: Floats, log_z: Floats
    ) -> Floats:
        """Replace the potentials of a chunk by weighted posteriors; return those of neighbours, summed ``(K, K)``."""
        k, width, flat = self.n_states, rows.shape[1], rows.reshape(-1)
        outer, total = np.zeros(k * width), np.zeros(k * width)
        chains = self.chains(chunk)
        chain_posteriors(chains, pairs.forward, pairs.backward, weight, wide, flat, scratch, log_z, outer)
        here = slice(chunk.begin, chunk.end)
        log_z[here] += pairs.top * (np.diff(self.starts[chunk.begin : chunk.end + 1]) - 1)
        total += outer * pairs.forward
        if wide[here].any():
            log_posteriors(chains, pairs.table, weight, wide, flat, scratch, log_z, total)
        return total.reshape(k, width)[:, :k]

    def maximisers(
        self, chunk: Chunk, rows: Floats, table: Floats, weight: Floats, scratch: Floats, score: Floats
    ) -> Floats:
        """Replace the potentials of a chunk by weighted indicators of the best labels; ``table`` is padded.

        Returns those of neighbours, summed ``(K, K)``, and writes each chain's score.
        """
        k, chains, flat = self.n_states, self.chains(chunk), rows.reshape(-1)
        labels, pairs = np.empty(self.n_tokens, np.int64), np.zeros(k * k)
        best_labels(chains, table, flat, scratch, labels, score)
        label_indicators(chains, labels, weight, flat, pairs)
        return pairs.reshape(k, k)

    def power_sums(
        self, chunk: Chunk, rows: Floats, powers: Powers, hidden: Bools, weight: Floats, wide: Bools, value: Floats
    ) -> Floats:
        """Replace the potentials of the ``wide`` chains of a chunk by weighted gradients of power sums.

        Returns the gradient in the table ``(K, K)``, and writes each such chain's power sum.
        """
        k, width, flat = self.n_states, rows.shape[1], rows.reshape(-1)
        room, choice = np.empty(n_room(self.longest, k)), np.empty(self.longest * k, np.int64)
        pairs = np.zeros(k * width)
        two_temperatures(self.chains(chunk), powers, hidden, weight, wide, flat, room, choice, value, pairs)
        return pairs.reshape(k, width)[:, :k]

    def marginal_maps(
        self, chunk: Chunk, rows: Floats, summed: Summed, hidden: Bools, weight: Floats, wide: Bools, value: Floats
    ) -> Floats:
        """Do the same for the others, with outputs maximised."""
        k, width, flat = self.n_states, rows.shape[1], rows.reshape(-1)
        room = np.empty(n_room_of_maps(self.longest, width))
        pairs, outer = np.zeros(k * width), np.zeros(k * width)
        marginal_map(self.chains(chunk), summed, hidden, weight, wide, flat, room, value, pairs, outer)
        pairs += outer * summed.forward
        return pairs.reshape(k, width)[:, :k]

    def marginals(self, rows: Floats, table: Floats, executor: Executor) -> tuple[Floats, Floats, Floats]:
        """Replace ``rows`` by posteriors; return log Z of each chain, its posteriors and the sum of those of pairs."""
        pairs, log_z = Pairs.build(table), np.zeros(self.n_chains)
        weight, wide = np.ones(self.n_chains), np.zeros(self.n_chains, np.bool_)
        sums = np.zeros((len(self.pieces), self.n_states, self.n_states))

        def task(number: int, chunk: Chunk, scratch: Floats) -> None:
            self.spans(chunk, rows, pairs, wide)
            sums[number] = self.posteriors(chunk, rows, pairs, weight, wide, scratch, log_z)

        self.each(self.pieces, task, executor)
        return log_z, rows[:, : self.n_states], sums.sum(axis=0)

    def best(self, rows: Floats, table: Floats, executor: Executor) -> tuple[Ints, Floats]:
        """Return the best labels of all tokens, and each chain's score."""
        labels, score = np.zeros(self.n_tokens, np.int64), np.zeros(self.n_chains)
        flat, padded = rows.reshape(-1), padded_table(table)

        def task(number: int, chunk: Chunk, scratch: Floats) -> None:
            best_labels(self.chains(chunk), padded, flat, scratch, labels, score)

        self.each(self.pieces, task, executor)
        return labels, score

    def samples(self, rows: Floats, table: Floats, n: int, seed: int, executor: Executor) -> Ints:
        """Return ``n`` labellings of all tokens, ``(n, n_tokens)``, drawn from the posterior."""
        labels = np.zeros((n, self.n_tokens), np.int64)
        flat, table = rows.reshape(-1), np.array(table, order="C").reshape(-1)
        keys = np.array([stream(np.uint64(seed), s) for s in range(self.n_chains)], np.uint64)

        def task(number: int, chunk: Chunk, scratch: Floats) -> None:
            sample_labels(self.chains(chunk), table, flat, keys, scratch, labels)

        self.each(self.pieces, task, executor)
        return labels


class OneByOne(ChainUnion):
    """A union whose chunks are single chains, for what is asked of each of them."""

    @cached_property
    def chunks(self) -> list[Chunk]:
        """A chunk a chain."""
        starts = self.starts.tolist()
        return [Chunk(s, s + 1, first, last) for s, (first, last) in enumerate(pairwise(starts))]
