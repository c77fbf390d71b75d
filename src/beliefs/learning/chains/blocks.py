"""Chains as blocks of the dual: Frank-Wolfe steps over sequences with dense features, many in one compiled loop.

The dual holds the weights by feature, padded; see :mod:`beliefs.kernels.losses.chain_frank_wolfe`.
"""

from __future__ import annotations

import numpy as np

from beliefs.kernels.chains.linear import LOW
from beliefs.kernels.losses.chain_frank_wolfe import BlockShape, ChainBlockData, Room, chain_steps
from beliefs.learning.chains.template import ChainTemplate
from beliefs.learning.chains.tokens import DenseTokens
from beliefs.learning.chains.union import ChainUnion, width_for
from beliefs.learning.optimizers.blocks import Blocks, Dual
from beliefs.typing import Floats, Ints

__all__ = ["ChainBlocks"]

_VISIT = 4096  # tokens between two looks at the clock: a few milliseconds of work


class ChainBlocks(Blocks):
    """Sequences with dense features, side by side, with their labels, weights and costs.

    Parameters
    ----------
    costs, cost_row : ndarray (n_rows, K), ndarray of int (n_tokens,)
        What each label costs in the place of the true one, and the row that is a token's.
    scale : float
        ``1 / (2 l2 n)`` with n labels in all.
    """

    def __init__(
        self,
        template: ChainTemplate,
        union: ChainUnion,
        tokens: DenseTokens,
        labels: Ints,
        weight: Floats,
        costs: Floats,
        cost_row: Ints,
        scale: float,
    ) -> None:
        k, width = template.n_states, width_for(template.n_states)
        self.template, self.width, self.lengths = template, width, np.diff(union.starts)
        sizes = self.lengths * k + np.where(self.lengths > 1, k * k, 0) + 2 * k * template.boundaries
        ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        allowed, padded = np.zeros((k, width)), np.full((len(costs), width), LOW)
        allowed[template.cells // k, template.cells % k] = 1.0
        padded[:, :k] = costs
        self.values, self.starts = np.ascontiguousarray(tokens.values), union.starts
        self.data = ChainBlockData(
            union.starts, labels, self.values.reshape(-1), union.starts[:-1], cost_row, padded.reshape(-1), ptr,
            scale * weight, weight, allowed.reshape(-1),
        )  # fmt: skip
        self.shape = BlockShape(
            template.n_features, k, width, union.longest, tokens.intercept, template.boundaries
        )  # fmt: skip
        self.n_blocks, self.n_cells = union.n_chains, int(ptr[-1])
        self.n_weights = (template.n_features + k + 2 * template.boundaries) * width
        self._room: dict[int, Room] = {}

    def advance(self, dual: Dual, numbers: Ints, batch_size: int) -> int:
        """Visit whole batches, of some thousand tokens."""
        batch = min(batch_size, self.n_blocks)
        ends = np.cumsum(self.lengths[numbers[: _VISIT + batch]])
        order = np.ascontiguousarray(numbers[: batch * max(1, int(np.searchsorted(ends, _VISIT)) // batch)])
        if batch not in self._room:
            self._room[batch] = self._room_for(batch)
        chain_steps(dual.arrays, self._data_for(order), self.shape, order, batch, self._room[batch])
        return int(order.size)

    def _data_for(self, order: Ints) -> ChainBlockData:
        """Return the data with the features of some chains as doubles: a copy only where they are others."""
        if self.values.dtype == np.float64:
            return self.data
        lengths = self.lengths[order]
        local, begin = np.cumsum(lengths) - lengths, np.zeros(self.n_blocks, np.int64)
        begin[order] = local
        tokens = np.repeat(self.starts[order] - local, lengths) + np.arange(int(lengths.sum()))
        return self.data._replace(features=self.values[tokens].astype(np.float64).reshape(-1), feature_start=begin)

    def _room_for(self, batch: int) -> Room:
        d, k, width, n = self.shape[:4]
        ints, listed = (batch * n, batch * (n + 1)), batch * n * d + 1
        return Room(
            np.empty((2 * n + 1 + k + d) * width), np.empty(ints[0], np.int64), np.empty(2 * batch),
            np.empty(ints[1], np.int64), np.empty(listed, np.int64), np.empty(listed),
        )  # fmt: skip

    def template_weights(self, weights: Floats) -> Floats:
        """Return weights in the order of the template."""
        template, k, d = self.template, self.template.n_states, self.template.n_features
        rows = weights.reshape(-1, self.width)[:, :k]
        parts = [rows[:d].T.ravel(), rows[d : d + k].ravel()[template.cells]]
        return np.concatenate([*parts, rows[d + k :].ravel()] if template.boundaries else parts)
