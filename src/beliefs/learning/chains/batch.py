"""A batch of labelled sequences: one union, laid out for the likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from beliefs.learning.chains.scores import StateScores, state_scores
from beliefs.learning.chains.template import ChainTemplate
from beliefs.learning.chains.tokens import joined
from beliefs.learning.chains.union import ChainUnion, rows_for
from beliefs.learning.instances import Instance
from beliefs.typing import Bools, Floats, Ints

__all__ = ["ChainBatch", "Clamped"]


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
class ChainBatch:
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
    def build(cls, template: ChainTemplate, instances: Sequence[Instance]) -> ChainBatch:
        """Join instances whose inputs are tokens."""
        k = template.n_states
        lengths = [instance.labels.size for instance in instances]
        union = ChainUnion(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), k)
        labels = np.concatenate([instance.labels for instance in instances])
        weight = np.array([instance.weight for instance in instances], np.float64)
        whole = np.array([instance.n_labelled == instance.labels.size for instance in instances])
        of_token = np.repeat(np.arange(union.n_chains), lengths)
        known = whole[of_token]
        rows = rows_for(union.n_tokens, k)
        return cls(
            union,
            state_scores(template, joined([instance.inputs for instance in instances]), rows.shape[1]),
            weight,
            np.where(known, np.arange(union.n_tokens) * rows.shape[1] + labels, -1),
            np.where(known, weight[of_token], 0.0),
            _transitions(labels, of_token, np.where(known, weight[of_token], 0.0), k),
            float(np.sum(weight * [instance.n_labelled for instance in instances])),
            None if whole.all() else _clamped(union, labels, whole),
            rows,
        )


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
    starts = np.concatenate([[0], np.cumsum(lengths[chains])]).astype(np.int64)
    before = np.concatenate([[0], np.cumsum(~whole)]).astype(np.int64)
    return Clamped(ChainUnion(starts, union.n_states), chains, tokens, impossible, before, rows)
