"""A batch of labelled sequences: one union, laid out for the likelihood and evaluated chunk by chunk.

Scores, posteriors and residuals of a chunk share one buffer. Chunks run side by side; in the gradient the attributes
are shared out, so that every weight's sum runs over the tokens in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from beliefs.inference.base import Bound
from beliefs.kernels.chains.linear import LOW
from beliefs.learning.batches import Batch, Total
from beliefs.learning.chains.scores import StateScores, state_scores
from beliefs.learning.chains.template import ChainTemplate, Parameters
from beliefs.learning.chains.tokens import Tokens, joined
from beliefs.learning.chains.union import ChainUnion, Chunk, Pairs, rows_for
from beliefs.learning.instances import Instance
from beliefs.learning.parallel import Executor
from beliefs.model.layout import offsets
from beliefs.typing import Bools, Floats, Ints

__all__ = ["ChainBatch", "ChainRun", "Clamped"]


@dataclass(frozen=True, eq=False)
class Clamped:
    """The chains with hidden labels: a union of their own, in which only the known labels are possible.

    ``chains`` are their numbers in the batch, ``tokens`` those of their tokens; ``impossible (n, width)`` marks labels
    that contradict a known one; ``before[s]`` counts such chains before chain s of the batch.
    """

    union: ChainUnion
    chains: Ints
    tokens: Ints
    impossible: Bools
    before: Ints
    rows: Floats


@dataclass(frozen=True, eq=False)
class ChainBatch(Batch):
    """Sequences, their labels and weights, and memory to work in.

    Attributes
    ----------
    weight : ndarray (n_chains,)
    label_cell : ndarray of int (n_tokens,)
        Where the row of a token holds its label, -1 in chains with hidden labels.
    token_weight : ndarray (n_tokens,)
        Weight of its chain, 0 in chains with hidden labels.
    transitions : ndarray (K, K)
        Weighted counts of neighbouring labels in chains without hidden ones.
    n_labelled : float
        Weighted number of labels.
    """

    template: ChainTemplate
    union: ChainUnion
    scores: StateScores
    weight: Floats
    label_cell: Ints
    token_weight: Floats
    transitions: Floats
    n_labelled: float
    clamped: Clamped | None
    rows: Floats = field(repr=False)

    @classmethod
    def build(cls, template: ChainTemplate, instances: Sequence[Instance], tokens: Tokens | None = None) -> ChainBatch:
        """Join instances whose inputs are tokens; ``tokens`` are these joined, where they are known."""
        tokens = joined([instance.inputs for instance in instances]) if tokens is None else tokens
        k = template.n_states
        lengths = [instance.labels.size for instance in instances]
        union = ChainUnion(offsets(lengths), k)
        labels = np.concatenate([instance.labels for instance in instances])
        weight = np.array([instance.weight for instance in instances], np.float64)
        whole = np.array([instance.n_labelled == instance.labels.size for instance in instances])
        of_token = np.repeat(np.arange(union.n_chains), lengths)
        known = whole[of_token]
        rows = rows_for(union.n_tokens, k)
        return cls(
            template,
            union,
            state_scores(template, tokens, rows.shape[1]),
            weight,
            np.where(known, np.arange(union.n_tokens) * rows.shape[1] + labels, -1),
            np.where(known, weight[of_token], 0.0),
            _transitions(labels, of_token, np.where(known, weight[of_token], 0.0), k),
            float(np.sum(weight * [instance.n_labelled for instance in instances])),
            None if whole.all() else _clamped(union, labels, whole),
            rows,
        )

    @cached_property
    def all_known(self) -> bool:
        """Whether every token has a cell of its label."""
        return bool((self.label_cell >= 0).all())

    @cached_property
    def without_labels(self) -> ChainBatch:
        """The batch of the free term alone: nothing of the labels is subtracted; memory is shared."""
        nothing = np.full(self.label_cell.size, -1), np.zeros(self.token_weight.size), np.zeros(self.transitions.shape)
        label_cell, token_weight, transitions = nothing
        return replace(
            self, label_cell=label_cell, token_weight=token_weight, transitions=transitions, clamped=None
        )  # fmt: skip

    @cached_property
    def one_by_one(self) -> ChainBatch:
        """The same batch, evaluated chain by chain; memory is shared."""
        return replace(self, union=self.union.one_by_one)

    def add_to(self, total: Total, weights: Floats, executor: Executor) -> None:
        """Add loss and gradient; the total has overflowed where either is not finite."""
        value, _ = self.add_gradient(ChainRun(self, self.template.cut(weights)), total.grad, executor)
        total.value += value
        total.upper += value
        total.minorant &= self.clamped is None
        total.n_labelled += self.n_labelled
        total.n_instances += self.union.n_chains
        total.bounds.add(Bound.EXACT)
        total.overflowed |= not (np.isfinite(total.value) and np.isfinite(total.grad).all())

    def add_gradient(self, run: ChainRun, grad: Floats, executor: Executor) -> tuple[float, float]:
        """Add the gradient; return loss and expected cost. The loss is not finite where potentials overflow."""
        template, cut = self.template, run.cut
        self.union.each(self.union.chunks, run.chunk, executor)
        if not np.isfinite(run.value).all():
            return np.inf, 0.0
        residual, starts, k = self.rows, self.union.starts, template.n_states
        self.scores.add_gradient(residual, grad[: template.n_state_weights], executor)
        template.add_table(run.pairs.sum(axis=0) - self.transitions, grad)
        if template.boundaries:
            template.add_ends(residual[starts[:-1], :k].sum(axis=0), residual[starts[1:] - 1, :k].sum(axis=0), grad)
        return float(run.value.sum()) - float((self.transitions * cut.table).sum()), float(run.cost.sum())

    def each_gradient(self, run: ChainRun, instances: Sequence[Instance], executor: Executor) -> Iterator[Floats]:
        """Yield the gradient of each chain in the weights, given a run :attr:`one_by_one` and what was joined."""
        starts, k = self.union.starts.tolist(), self.template.n_states

        def of(s: int) -> Floats:
            rows, grad = self.rows[starts[s] : starts[s + 1], :k], np.zeros(self.template.n_weights)
            ends = (rows[0], rows[-1]) if self.template.boundaries else ()
            table = (run.pairs[s].ravel(),) if len(rows) > 1 else ()
            self.template.add_pullback(grad, instances[s].inputs, np.concatenate([rows.ravel(), *table, *ends]), grad)
            return grad

        self.union.each(self.union.chunks, run.chunk, executor)
        for s in range(self.union.n_chains):  # what the labels say of neighbours
            counts = _transitions(*self._labels_of(s), k)
            run.pairs[s] -= counts
            run.value[s] -= float((counts * run.cut.table).sum())
        yield from executor.windows(of, range(self.union.n_chains))

    def _labels_of(self, s: int) -> tuple[Ints, Ints, Floats]:
        """Return the labels of a chain, zeros for the chain of each, and their weights, as counting needs them."""
        tokens, width = slice(int(self.union.starts[s]), int(self.union.starts[s + 1])), self.rows.shape[1]
        labels = np.maximum(self.label_cell[tokens], 0) % width
        return labels, np.zeros(labels.size, np.int64), self.token_weight[tokens]


def _transitions(labels: Ints, of_token: Ints, weight: Floats, k: int) -> Floats:
    """Return weighted counts of neighbouring labels, ``(K, K)``."""
    within = np.flatnonzero((of_token[1:] == of_token[:-1]) & (weight[1:] > 0))
    counts = np.bincount(labels[within] * k + labels[within + 1], weight[within], k * k)
    return counts.reshape(k, k).astype(np.float64, copy=False)


def _clamped(union: ChainUnion, labels: Ints, whole: Bools) -> Clamped:
    chains = np.flatnonzero(~whole)
    lengths = np.diff(union.starts)
    tokens = np.flatnonzero(np.repeat(~whole, lengths))
    rows = rows_for(tokens.size, union.n_states)
    known = labels[tokens] >= 0
    impossible = known[:, None] & (np.arange(rows.shape[1]) != labels[tokens][:, None])
    starts = offsets(lengths[chains])
    before = offsets(~whole)
    return Clamped(ChainUnion(starts, union.n_states), chains, tokens, impossible, before, rows)


class ChainRun:
    """One evaluation: what the chunks share and what each of them finds.

    The answers for chunks are posteriors at temperature 1; others change what is added to the scores, and the answer.
    """

    def __init__(self, batch: ChainBatch, cut: Parameters) -> None:
        self.batch, self.cut = batch, cut
        self.prepared = batch.scores.prepare(cut.state)
        n, k, n_chunks = batch.union.n_chains, batch.union.n_states, len(batch.union.chunks)
        self.log_z, self.wide = np.zeros(n), np.zeros(n, np.bool_)
        self.value, self.cost, self.pairs = np.zeros(n_chunks), np.zeros(n_chunks), np.zeros((n_chunks, k, k))

    @cached_property
    def table(self) -> Pairs:
        """The transitions as posteriors need them."""
        return Pairs.build(self.cut.table)

    # -- what may differ --------------------------------------------------------------------------------------------
    def add_costs(self, chunk: Chunk) -> None:
        """Add what labels cost to their scores."""

    def paid(self, chunk: Chunk) -> float:
        """Return what the answers for a chunk cost."""
        return 0.0

    def look(self, chunk: Chunk) -> None:
        """Look at the potentials of a chunk before they are used."""
        self.batch.union.spans(chunk, self.batch.rows, self.table, self.wide)

    def answer(
        self, union: ChainUnion, chunk: Chunk, rows: Floats, weight: Floats, wide: Bools, scratch: Floats, log_z: Floats
    ) -> Floats:
        """Replace potentials by weighted expectations, and return those of neighbours, summed ``(K, K)``."""
        return union.posteriors(chunk, rows, self.table, weight, wide, scratch, log_z)

    def answer_given(
        self, union: ChainUnion, chunk: Chunk, rows: Floats, weight: Floats, wide: Bools, scratch: Floats, log_z: Floats
    ) -> Floats:
        """Do the same where the labels that are known are the only ones possible."""
        return self.answer(union, chunk, rows, weight, wide, scratch, log_z)

    # -- a chunk ----------------------------------------------------------------------------------------------------
    def chunk(self, number: int, chunk: Chunk, scratch: Floats) -> None:
        """Score the tokens of a chunk, and replace the scores by residuals."""
        with np.errstate(over="ignore", invalid="ignore"):  # said by a value that is not finite
            self._chunk(number, chunk, scratch)

    def _chunk(self, number: int, chunk: Chunk, scratch: Floats) -> None:
        batch, union, rows = self.batch, self.batch.union, self.batch.rows
        self._score(chunk, rows)
        self.add_costs(chunk)
        self.look(chunk)
        tokens, chains = slice(chunk.first, chunk.last), slice(chunk.begin, chunk.end)
        cell, weight, flat = batch.label_cell[tokens], batch.token_weight[tokens], rows.reshape(-1)
        known = slice(None) if batch.all_known else cell >= 0
        cell, weight = cell[known], weight[known]
        self.value[number] -= float(weight @ flat[cell])
        clamped = None if batch.clamped is None else self._clamped(number, chunk, batch.clamped, scratch)
        self.pairs[number] += self.answer(union, chunk, rows, batch.weight, self.wide, scratch, self.log_z)
        self.value[number] += float(batch.weight[chains] @ self.log_z[chains])
        self.cost[number] = self.paid(chunk)
        flat[cell] -= weight
        if clamped is not None:
            rows[clamped[0]] -= clamped[1]

    def _score(self, chunk: Chunk, rows: Floats) -> None:
        k, starts = self.batch.union.n_states, self.batch.union.starts
        rows[chunk.first : chunk.last, :k] = 0.0
        rows[chunk.first : chunk.last, k:] = LOW
        self.batch.scores.add(self.prepared, chunk.first, chunk.last, rows)
        if self.batch.template.boundaries:
            rows[starts[chunk.begin : chunk.end], :k] += self.cut.first
            rows[starts[chunk.begin + 1 : chunk.end + 1] - 1, :k] += self.cut.last

    def _clamped(self, number: int, chunk: Chunk, clamped: Clamped, scratch: Floats) -> Any:
        """Subtract what the known labels of chains with hidden ones say; return their tokens and posteriors."""
        begin, end = int(clamped.before[chunk.begin]), int(clamped.before[chunk.end])
        if begin == end:
            return None
        starts, chains = clamped.union.starts, clamped.chains
        here = Chunk(begin, end, int(starts[begin]), int(starts[end]))
        span = slice(here.first, here.last)
        clamped.rows[span] = self.batch.rows[clamped.tokens[span]]
        clamped.rows[span][clamped.impossible[span]] = LOW
        weight, wide, log_z = self.batch.weight[chains], self.wide[chains], np.zeros(chains.size)
        self.pairs[number] -= self.answer_given(clamped.union, here, clamped.rows, weight, wide, scratch, log_z)
        self.value[number] -= float(weight[begin:end] @ log_z[begin:end])
        return clamped.tokens[span], clamped.rows[span]
