"""Scores of all tokens of a union, and the gradient in the weights of states, by threads.

Sparse tokens are rearranged once: attributes with weights for several labels go to rows of their own, the rest stay
lists of pairs; see :mod:`beliefs.kernels.chains.features`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from beliefs.kernels.chains.features import (
    add_pair_gradient,
    add_row_gradient,
    attribute_scores,
    cut_positions,
    gather_rows,
    scatter_rows,
    sort_within_tokens,
)
from beliefs.learning.chains.template import ChainTemplate, StatePairs
from beliefs.learning.chains.tokens import DenseTokens, SparseTokens, Tokens
from beliefs.learning.parallel import Executor
from beliefs.model.layout import offsets
from beliefs.typing import Bools, Floats, Ints

__all__ = ["StateScores", "state_scores"]

_ROW = 3  # labels from which an attribute has a row; measured on text, 2 and 4 are about as fast
_INSERTION = 64  # attributes of a token up to which insertion sort is fast
Cuts: TypeAlias = tuple[list[Ints], list[Ints]]
_DENSE_CHUNK = 2048  # tokens whose features are made float64 at a time
_PIECES, _LARGEST_PIECE = 16, 16384  # of the gradient: so many are shared out evenly; tokens of one, at most
_SMALL_PRODUCT = 10**6  # multiplications up to which BLAS has quicker products, where it has such
_FEWEST = 64  # tokens of a small product


class StateScores(ABC):
    """How the rows ``(n_tokens, width)`` of unary potentials follow from the weights of states, and back."""

    @abstractmethod
    def prepare(self, weights: Floats) -> Any:
        """Return the weights of states in the form in which scoring reads them."""

    @abstractmethod
    def add(self, prepared: Any, begin: int, end: int, out: Floats) -> None:
        """Add the scores of some tokens to their rows ``out (n_tokens, width)``."""

    @abstractmethod
    def add_gradient(self, residual: Floats, out: Floats, executor: Executor) -> None:
        """Add the gradient for residuals ``(n_tokens, width)`` to that in the weights of states."""


def state_scores(template: ChainTemplate, tokens: Tokens, width: int) -> StateScores:
    """Return the scores of tokens of either kind."""
    if isinstance(tokens, DenseTokens):
        return _DenseScores(template.n_states, tokens)
    assert template.pairs is not None
    return _SparseScores.build(template.pairs, tokens, width)


@dataclass(frozen=True, eq=False)
class _DenseScores(StateScores):
    n_states: int
    tokens: DenseTokens

    @cached_property
    def _step(self) -> int:
        """How many tokens are multiplied at a time; it depends on the sizes alone."""
        step = _SMALL_PRODUCT // (self.n_states * self.tokens.n_features) // _FEWEST * _FEWEST
        return step if 0 < step < _DENSE_CHUNK else _DENSE_CHUNK

    def prepare(self, weights: Floats) -> Floats:
        return np.ascontiguousarray(weights.reshape(self.n_states, -1).T)

    def add(self, prepared: Floats, begin: int, end: int, out: Floats) -> None:
        for first in range(begin, end, self._step):
            last = min(first + self._step, end)
            out[first:last, : self.n_states] += self.tokens.rows(first, last) @ prepared

    def add_gradient(self, residual: Floats, out: Floats, executor: Executor) -> None:
        """Pieces of tokens are multiplied side by side, and added in their order."""
        onto, k = out.reshape(self.n_states, -1), self.n_states

        size = min(max(-(-self.tokens.n_tokens // _PIECES), _DENSE_CHUNK), _LARGEST_PIECE)

        def piece(begin: int) -> Floats:
            end, total = min(begin + size, self.tokens.n_tokens), np.zeros(onto.shape)
            for first in range(begin, end, self._step):
                last = min(first + self._step, end)
                total += residual[first:last, :k].T @ self.tokens.rows(first, last)
            return total

        for part in executor.windows(piece, range(0, self.tokens.n_tokens, size)):
            onto += part


@dataclass(frozen=True, eq=False)
class _SparseScores(StateScores):
    """Occurrences of attributes with a row, and of the others, each sorted within the tokens."""

    pairs: StatePairs
    owner: Ints
    rowed: SparseTokens
    others: SparseTokens
    width: int
    _cuts: dict[int, Cuts] = field(default_factory=dict, repr=False)

    @classmethod
    def build(cls, pairs: StatePairs, tokens: SparseTokens, width: int) -> _SparseScores:
        labels = np.diff(pairs.ptr)
        row = np.where(labels >= _ROW, np.cumsum(labels >= _ROW) - 1, -1)[tokens.attribute]
        rowed = _sorted(_chosen(tokens, row >= 0, row))
        others = _sorted(_chosen(tokens, (row < 0) & (labels[tokens.attribute] > 0), tokens.attribute))
        return cls(pairs, np.flatnonzero(labels >= _ROW), rowed, others, width)

    def prepare(self, weights: Floats) -> tuple[Floats, Floats]:
        weights, rows = np.array(weights), np.zeros(self.owner.size * self.width)
        scatter_rows(self.owner, self.pairs.arrays, self.width, weights, rows)
        return weights, rows

    def add(self, prepared: tuple[Floats, Floats], begin: int, end: int, out: Floats) -> None:
        weights, rows = prepared
        attribute_scores(
            self.rowed.occurrences, rows, self.others.occurrences, self.pairs.arrays, weights, self.width, begin, end,
            out.reshape(-1),
        )  # fmt: skip

    def add_gradient(self, residual: Floats, out: Floats, executor: Executor) -> None:
        """Each thread has its attributes, and adds up the tokens in order: no weight's sum depends on the number."""
        given, rows = residual.reshape(-1), np.zeros(self.owner.size * self.width)
        rowed_cuts, other_cuts = self._cut(executor.n_workers)
        pairs, width = self.pairs.arrays, self.width

        def some(begin: int, end: int) -> None:
            rowed, others = self.rowed, self.others
            first, last = rowed_cuts[begin], rowed_cuts[end]
            add_row_gradient(first, last, rowed.attribute, rowed.value, width, given, rows)
            first, last = other_cuts[begin], other_cuts[end]
            add_pair_gradient(first, last, others.attribute, others.value, pairs, width, given, out)

        executor.chunks(some, executor.n_workers)
        gather_rows(self.owner, pairs, width, rows, out)

    def _cut(self, n_parts: int) -> Cuts:
        """Return where the parts of the attributes begin and end within each token; about equal work each."""
        if n_parts not in self._cuts:
            self._cuts[n_parts] = (_cut(self.rowed, n_parts), _cut(self.others, n_parts))
        return self._cuts[n_parts]


def _chosen(tokens: SparseTokens, mask: Bools, names: Ints) -> SparseTokens:
    counts = np.bincount(tokens.token[mask], minlength=tokens.n_tokens)
    ptr = offsets(counts)
    return SparseTokens(ptr, names[mask], tokens.value[mask] if tokens.value.size else np.zeros(0))


def _sorted(tokens: SparseTokens) -> SparseTokens:
    """Sort the attributes within each token, in place where tokens have few."""
    if int(np.diff(tokens.ptr).max(initial=0)) <= _INSERTION:
        sort_within_tokens(tokens.ptr, tokens.attribute, tokens.value)
        return tokens
    order = np.lexsort((tokens.attribute, tokens.token))
    value = tokens.value[order] if tokens.value.size else tokens.value
    return SparseTokens(tokens.ptr, tokens.attribute[order], value)


def _cut(tokens: SparseTokens, n_parts: int) -> list[Ints]:
    bounds = [tokens.ptr[:-1].copy()]
    if n_parts > 1:
        many = np.cumsum(np.bincount(tokens.attribute, minlength=1))
        for part in range(1, n_parts):
            bound = int(np.searchsorted(many, many[-1] * part / n_parts)) + 1
            bounds.append(np.empty(tokens.n_tokens, np.int64))
            cut_positions(tokens.ptr, tokens.attribute, bound, bounds[-1])
    return [*bounds, tokens.ptr[1:].copy()]
