"""Chains as blocks of the dual: Frank-Wolfe steps over sequences, many in one compiled loop.

The dual holds the weights as the steps read them (:mod:`beliefs.kernels.losses.chain_blocks`): those of states by
feature, padded, where features are dense, and as the template has them where they are sparse; then the table, padded,
and the boundaries.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from beliefs.kernels.chains.linear import LOW
from beliefs.kernels.losses.chain_blocks import BlockShape, ChainBlockData, Room
from beliefs.kernels.losses.dense_chain_steps import DenseFeatures, dense_steps
from beliefs.kernels.losses.sparse_chain_steps import SparseFeatures, sparse_steps
from beliefs.learning.chains.template import ChainTemplate
from beliefs.learning.chains.tokens import DenseTokens, SparseTokens, Tokens
from beliefs.learning.chains.union import ChainUnion, width_for
from beliefs.learning.optimizers.blocks import Blocks, Dual
from beliefs.model.layout import offsets
from beliefs.typing import Floats, Ints

__all__ = ["ChainBlocks", "ChainProblem", "chain_blocks"]

_VISIT = 4096  # tokens between two looks at the clock: a few milliseconds of work


@dataclass(frozen=True, eq=False)
class ChainProblem:
    """Sequences side by side, their labels and weights, and what labels cost.

    ``costs (n_rows, K)`` says what each label costs in the place of the true one, ``cost_row`` which row is a token's;
    ``scale`` is ``1 / (2 l2 n)`` with n labels in all.
    """

    template: ChainTemplate
    union: ChainUnion
    tokens: Tokens
    labels: Ints
    weight: Floats
    costs: Floats
    cost_row: Ints
    scale: float


class ChainBlocks(Blocks):
    """Sequences of one kind of features."""

    def __init__(self, problem: ChainProblem, state_weights: int) -> None:
        template, union = problem.template, problem.union
        k, width = template.n_states, width_for(template.n_states)
        self.template, self.lengths = template, np.diff(union.starts)
        sizes = self.lengths * k + np.where(self.lengths > 1, k * k, 0) + 2 * k * template.boundaries
        ptr = offsets(sizes)
        allowed, costs = np.zeros((k, width)), np.full((len(problem.costs), width), LOW)
        allowed[template.cells // k, template.cells % k] = 1.0
        costs[:, :k] = problem.costs
        self.data = ChainBlockData(
            union.starts, problem.labels, problem.cost_row, costs.reshape(-1), ptr, problem.scale * problem.weight,
            problem.weight, allowed.reshape(-1),
        )  # fmt: skip
        self.shape = BlockShape(k, width, union.longest, state_weights, template.boundaries)
        self.n_blocks, self.n_cells = union.n_chains, int(ptr[-1])
        self.n_weights = state_weights + (k + 2 * template.boundaries) * width
        self._batch, self._room = 0, self._room_for(0)

    def advance(self, dual: Dual, numbers: Ints, batch_size: int) -> int:
        """Visit whole batches, of some thousand tokens."""
        batch = min(batch_size, self.n_blocks)
        ends = np.cumsum(self.lengths[numbers[: _VISIT + batch]])
        order = np.ascontiguousarray(numbers[: batch * max(1, int(np.searchsorted(ends, _VISIT)) // batch)])
        if batch != self._batch:
            self._batch, self._room = batch, self._room_for(batch)
        self._steps(dual, order, batch, self._room)
        return int(order.size)

    @abstractmethod
    def _steps(self, dual: Dual, order: Ints, batch: int, room: Room) -> None:
        """Make a step for each of these chains."""

    def _room_for(self, batch: int) -> Room:
        shape = self.shape
        rows = np.empty((2 * shape.longest + 1 + shape.states) * shape.width)
        path = np.empty(batch * shape.longest, np.int64)
        return Room(rows, path, np.empty(2 * batch), np.empty(self._pulled))

    @property
    @abstractmethod
    def _pulled(self) -> int:
        """Numbers that the direction of a step has in the weights of states."""

    def template_weights(self, weights: Floats) -> Floats:
        """Return weights in the order of the template."""
        template, k, n = self.template, self.template.n_states, self.shape.state_weights
        rows = weights[n:].reshape(-1, self.shape.width)[:, :k]
        parts = [self._states(weights[:n]), rows[:k].ravel()[template.cells]]
        return np.concatenate([*parts, rows[k:].ravel()] if template.boundaries else parts)

    @abstractmethod
    def _states(self, weights: Floats) -> Floats:
        """Return the weights of states in the order of the template."""


class _DenseBlocks(ChainBlocks):
    """Sequences with arrays of features, as doubles; others are copied, for some chains at a time."""

    def __init__(self, problem: ChainProblem, tokens: DenseTokens) -> None:
        self.tokens, self.values, self.starts = tokens, np.ascontiguousarray(tokens.values), problem.union.starts
        super().__init__(problem, problem.template.n_features * width_for(problem.template.n_states))

    @property
    def _pulled(self) -> int:
        return self.shape.state_weights

    def _room_for(self, batch: int) -> Room:
        n, d = self.shape.longest, self.values.shape[1]
        lists, room = np.empty(batch * (n + 1), np.int64), batch * n * (d + 1) + 1
        self._features = DenseFeatures(
            self.values.reshape(-1), self.starts[:-1], d, self.tokens.intercept, lists, np.empty(room, np.int64),
            np.empty(room),
        )  # fmt: skip
        return super()._room_for(batch)

    def _steps(self, dual: Dual, order: Ints, batch: int, room: Room) -> None:
        dense_steps(dual.arrays, self.data, self.shape, self._features_for(order), order, batch, room)

    def _features_for(self, order: Ints) -> DenseFeatures:
        if self.values.dtype == np.float64:
            return self._features
        lengths = self.lengths[order]
        local, begin = np.cumsum(lengths) - lengths, np.zeros(self.n_blocks, np.int64)
        begin[order] = local
        tokens = np.repeat(self.starts[order] - local, lengths) + np.arange(int(lengths.sum()))
        return self._features._replace(values=self.values[tokens].astype(np.float64).reshape(-1), start=begin)

    def _states(self, weights: Floats) -> Floats:
        return weights.reshape(-1, self.shape.width)[:, : self.shape.states].T.ravel()


class _SparseBlocks(ChainBlocks):
    """Sequences with attributes; steps know those of their chain alone."""

    def __init__(self, problem: ChainProblem, tokens: SparseTokens) -> None:
        pairs = problem.template.pairs
        assert pairs is not None
        ends = tokens.ptr[problem.union.starts]
        before = offsets(np.diff(pairs.ptr)[tokens.attribute])
        self._most = int(np.diff(before[ends]).max(initial=0))
        slot, touched = np.full(pairs.n_attributes, -1), np.empty(int(np.diff(ends).max(initial=0)), np.int64)
        self._features = SparseFeatures(tokens.occurrences, not tokens.value.size, pairs.arrays, slot, touched)
        self.n_pairs = pairs.n_weights
        super().__init__(problem, -(-pairs.n_weights // 4) * 4)

    @property
    def _pulled(self) -> int:
        return self._most

    def _steps(self, dual: Dual, order: Ints, batch: int, room: Room) -> None:
        sparse_steps(dual.arrays, self.data, self.shape, self._features, order, batch, room)

    def _states(self, weights: Floats) -> Floats:
        return weights[: self.n_pairs]


def chain_blocks(problem: ChainProblem) -> ChainBlocks:
    """Return the blocks of sequences with features of either kind."""
    tokens = problem.tokens
    return _DenseBlocks(problem, tokens) if isinstance(tokens, DenseTokens) else _SparseBlocks(problem, tokens)
