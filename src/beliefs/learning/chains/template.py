r"""Weights of a linear-chain conditional random field, and the potentials that follow from them ([lafferty2001]).

.. math:: \theta_t = \sum_{a \in t} v_{ta} W_{a \cdot}, \qquad \theta_{t,t+1} = A

=====================  ================================================================================
the vector of weights  part
=====================  ================================================================================
state weights          sparse: one per pair (attribute, label), by attribute; dense: ``(K, n_features)``
transition weights     one per entry of A that has a weight, row by row; the others are 0
boundary weights       optional: K for the label of the first token, K for that of the last
=====================  ================================================================================

Factors of an instance: one per token, one per pair of neighbours (a tied table), one for the first and one for the last
token if there are boundary weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from beliefs.kernels.chains.features import LabelPairs, Occurrences, add_pair_gradient, attribute_scores
from beliefs.learning.chains.tokens import DenseTokens, SparseTokens, Tokens
from beliefs.model.features import Template
from beliefs.model.layout import offsets
from beliefs.typing import Floats, Ints

__all__ = ["ChainTemplate", "Parameters", "StatePairs", "seen_pairs"]

_NO_INTS, _NO_FLOATS = np.zeros(0, np.int64), np.zeros(0)


@dataclass(frozen=True, eq=False)
class StatePairs:
    """The pairs (attribute, label) that have a weight: labels ``label[ptr[a]:ptr[a+1]]`` for attribute a, ascending."""

    ptr: Ints
    label: Ints

    @classmethod
    def every(cls, n_attributes: int, n_states: int) -> StatePairs:
        """Return all pairs."""
        return cls(n_states * np.arange(n_attributes + 1), np.tile(np.arange(n_states), n_attributes))

    @cached_property
    def arrays(self) -> LabelPairs:
        """The pairs as kernels take them."""
        return LabelPairs(self.ptr, self.label)

    @property
    def n_attributes(self) -> int:
        """Number of attributes."""
        return int(self.ptr.size) - 1

    @property
    def n_weights(self) -> int:
        """Number of pairs."""
        return int(self.label.size)


def seen_pairs(examples: Iterable[tuple[SparseTokens, Ints]], n_attributes: int, n_states: int) -> StatePairs:
    """Return the pairs that occur at tokens with a label; ``examples`` are (tokens, labels).

    Cost: the occurrences, and a byte for each pair that there could be.
    """
    seen = np.zeros(n_attributes * n_states, np.bool_)
    for tokens, labels in examples:
        label = np.repeat(labels, np.diff(tokens.ptr))
        known = label >= 0
        seen[(tokens.attribute * n_states + label)[known]] = True
    codes = np.flatnonzero(seen)
    counts = np.bincount(codes // n_states, minlength=n_attributes)
    return StatePairs(offsets(counts), codes % n_states)


class Parameters(NamedTuple):
    """The vector of weights, cut: those of the states (a view), the table ``(K, K)``, and the boundaries."""

    state: Floats
    table: Floats
    first: Floats
    last: Floats


@dataclass(frozen=True, eq=False)
class ChainTemplate(Template):
    """How weights become potentials of chains; see the module's table.

    Parameters
    ----------
    n_states : int
    n_features : int
        Features of dense tokens; 0 for sparse ones.
    pairs : StatePairs, optional
        Pairs with weights of sparse tokens.
    transitions : ndarray of int, optional
        Entries ``x * K + y`` of the table that have a weight, ascending; None: all.
    boundaries : bool
        Whether the first and the last token have weights of their own.
    """

    n_states: int
    n_features: int = 0
    pairs: StatePairs | None = None
    transitions: Ints | None = None
    boundaries: bool = False

    @property
    def n_state_weights(self) -> int:
        """Weights of states."""
        return self.n_states * self.n_features if self.pairs is None else self.pairs.n_weights

    @cached_property
    def cells(self) -> Ints:
        """Entries of the table that have a weight."""
        return np.arange(self.n_states**2) if self.transitions is None else self.transitions

    @property
    def n_weights(self) -> int:  # type: ignore[override]
        """Number of weights."""
        return self.n_state_weights + self.cells.size + 2 * self.n_states * self.boundaries

    def cut(self, weights: Floats) -> Parameters:
        """Return the parts of a vector of weights."""
        k, n = self.n_states, self.n_state_weights
        table = np.zeros(k * k)
        table[self.cells] = weights[n : n + self.cells.size]
        rest = weights[n + self.cells.size :]
        first, last = (rest[:k], rest[k:]) if self.boundaries else (np.zeros(k), np.zeros(k))
        return Parameters(weights[:n], table.reshape(k, k), first, last)

    def add_table(self, table: Floats, out: Floats) -> None:
        """Add a gradient in the table to the gradient in the weights."""
        n = self.n_state_weights
        out[n : n + self.cells.size] += table.ravel()[self.cells]

    def add_ends(self, first: Floats, last: Floats, out: Floats) -> None:
        """Add gradients in the boundaries, where there are such, to the gradient in the weights."""
        k = self.n_states
        out[-2 * k : -k] += first
        out[-k:] += last

    def theta(self, weights: Floats, inputs: Tokens) -> Floats:
        """Return the log potentials of one sequence, factor after factor."""
        n, k, cut = inputs.n_tokens, self.n_states, self.cut(weights)
        unary = np.zeros(n * k)
        if isinstance(inputs, DenseTokens):
            unary.reshape(n, k)[:] = inputs.rows(0, n) @ cut.state.reshape(k, self.n_features).T
        else:
            pairs, state = self._pairs, np.require(cut.state, requirements=["C", "W"])
            no_rows = Occurrences(np.zeros(n + 1, np.int64), _NO_INTS, _NO_FLOATS)
            attribute_scores(no_rows, _NO_FLOATS, inputs.occurrences, pairs.arrays, state, k, 0, n, unary)
        parts = [unary, cut.table.ravel()] if n > 1 else [unary]
        return np.concatenate([*parts, cut.first, cut.last] if self.boundaries else parts)

    def add_pullback(self, weights: Floats, inputs: Tokens, grad_theta: Floats, out: Floats) -> None:
        """Add the gradient in the weights of one sequence."""
        n, k, m = inputs.n_tokens, self.n_states, self.n_state_weights
        residual = np.require(grad_theta[: n * k], np.float64, ["C", "W"])
        if isinstance(inputs, DenseTokens):
            out[:m].reshape(k, -1)[:] += residual.reshape(n, k).T @ inputs.rows(0, n)
        else:
            ptr, attribute, value = inputs.occurrences
            add_pair_gradient(ptr[:-1], ptr[1:], attribute, value, self._pairs.arrays, k, residual, out)
        at = n * k + (k * k if n > 1 else 0)
        table = grad_theta[n * k : at] if n > 1 else np.zeros(k * k)
        self.add_table(table, out)
        if self.boundaries:
            self.add_ends(grad_theta[at : at + k], grad_theta[at + k : at + 2 * k], out)

    @property
    def _pairs(self) -> StatePairs:
        assert self.pairs is not None, "the weights are those of dense features"
        return self.pairs

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
