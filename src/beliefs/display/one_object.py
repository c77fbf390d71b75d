"""Answers about many rows: they have a length and are indexed by variables, and are one object all the same."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["OneObject"]


class OneObject:
    """An object that NumPy keeps whole: it would take what has a length and an index for a sequence of entries."""

    __slots__ = ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return itself in an array without axes."""
        if dtype is not None and np.dtype(dtype) != object:
            raise TypeError(f"{type(self).__name__} is no array of numbers; its to_frame() is a table")
        whole = np.empty((), object)
        whole[()] = self
        return whole
