"""A machine's numbers as the one vector that optimisers move: weights row by row, visible bias, hidden bias."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM

__all__ = ["MachineShape", "Parts"]


class Parts(NamedTuple):
    """Views of a vector; what is written to them is written to it."""

    weights: np.ndarray
    visible_bias: np.ndarray
    hidden_bias: np.ndarray


class MachineShape(NamedTuple):
    """Sizes of the two layers."""

    n_visible: int
    n_hidden: int

    @property
    def n_couplings(self) -> int:
        """How many of the numbers are weights: the first ones."""
        return self.n_visible * self.n_hidden

    @property
    def n_weights(self) -> int:
        """How many numbers there are."""
        return self.n_couplings + self.n_visible + self.n_hidden

    def parts(self, vector: np.ndarray) -> Parts:
        """Return views of a vector ``(n_weights,)``."""
        n, first = self.n_visible, self.n_couplings
        return Parts(vector[:first].reshape(n, self.n_hidden), vector[first : first + n], vector[first + n :])

    def machine(self, vector: np.ndarray) -> RBM:
        """Return the machine with these numbers, a copy in their type."""
        return RBM(*self.parts(vector))

    @staticmethod
    def vector(machine: BoltzmannMachine, dtype: Any = None) -> np.ndarray:
        """Return the numbers of a machine, a copy."""
        arrays = (machine.weights.ravel(), machine.visible_bias, machine.hidden_bias)
        return np.concatenate(arrays).astype(dtype or machine.dtype)
