"""Objects made of arrays that nobody can change."""

from __future__ import annotations

from typing import Any

import numpy as np

from beliefs.display.description import Described, Description
from beliefs.model.describing import describe_layers

__all__ = ["FrozenArrays", "TwoLayers"]


class FrozenArrays:
    """Keeps arrays as read-only attributes; what it is pickled by."""

    def _keep(self, name: str, array: np.ndarray) -> None:
        array.setflags(write=False)
        object.__setattr__(self, name, array)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} objects do not change: make another one, {name!r} stays")

    def _parameters(self) -> dict[str, np.ndarray]:
        """What the object was made of, by name; what it has computed since begins with an underscore."""
        return {name: array for name, array in self.__getstate__().items() if not name.startswith("_")}

    def __eq__(self, other: object) -> bool:
        """Whether the class, the types and all numbers are the same."""
        if type(self) is not type(other):
            return NotImplemented
        one, two = self._parameters(), other._parameters()
        return all(one[name].dtype == two[name].dtype and np.array_equal(one[name], two[name]) for name in one)

    def __hash__(self) -> int:
        arrays = self._parameters().values()
        return hash((type(self), *((array + 0.0).tobytes() for array in arrays)))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if isinstance(value, np.ndarray)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, array in state.items():
            self._keep(name, array)


class TwoLayers(FrozenArrays, Described):
    """Arrays of which one is the weights between two layers, ``(n_visible, n_hidden)``."""

    weights: np.ndarray

    @property
    def n_visible(self) -> int:
        """Number of visible units."""
        return int(self.weights.shape[0])

    @property
    def n_hidden(self) -> int:
        """Number of hidden units."""
        return int(self.weights.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the parameters."""
        return self.weights.dtype

    def _description(self) -> Description:
        return describe_layers(self)
