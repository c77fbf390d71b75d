"""A conditional machine's numbers as the one vector that optimisers move: three matrices, then two biases."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from beliefs.model.crbm import CRBM

__all__ = ["ConditionalParts", "ConditionalShape"]


class ConditionalParts(NamedTuple):
    """Views of a vector; what is written to them is written to it."""

    weights: np.ndarray
    visible_input: np.ndarray
    hidden_input: np.ndarray
    visible_bias: np.ndarray
    hidden_bias: np.ndarray


class ConditionalShape(NamedTuple):
    """Sizes of the layers and of the input."""

    n_visible: int
    n_hidden: int
    n_inputs: int

    @property
    def n_couplings(self) -> int:
        """How many of the numbers are weights: the first ones."""
        n, m, d = self
        return n * m + (n + m) * d

    @property
    def n_weights(self) -> int:
        """How many numbers there are."""
        return self.n_couplings + self.n_visible + self.n_hidden

    def parts(self, vector: np.ndarray) -> ConditionalParts:
        """Return views of a vector ``(n_weights,)``."""
        n, m, d = self
        first, second, third = n * m, n * (m + d), n * (m + d) + m * d
        return ConditionalParts(
            vector[:first].reshape(n, m),
            vector[first:second].reshape(n, d),
            vector[second:third].reshape(m, d),
            vector[third : third + n],
            vector[third + n :],
        )

    def machine(self, vector: np.ndarray) -> CRBM:
        """Return the machine with these numbers, a copy in their type."""
        return CRBM(*self.parts(vector))

    @staticmethod
    def vector(machine: CRBM, dtype: Any = None) -> np.ndarray:
        """Return the numbers of a machine, a copy."""
        names = ("weights", "visible_input", "hidden_input", "visible_bias", "hidden_bias")
        return np.concatenate([getattr(machine, name).ravel() for name in names]).astype(dtype or machine.dtype)
