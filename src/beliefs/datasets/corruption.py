"""Pictures of bits spoiled in a known way: pixels flipped, or a patch covered (section 6.6 of [ping2016])."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from beliefs.datasets.arguments import check_count, check_share, generator
from beliefs.errors import ModelError

__all__ = ["flip_pixels", "occlude"]


def flip_pixels(V: ArrayLike, share: float, seed: int | np.random.Generator = 0) -> np.ndarray:
    """Return a copy of rows of bits in which each bit is flipped with a probability, independently.

    Examples
    --------
    >>> bits = np.zeros((500, 100), np.uint8)
    >>> bool(abs(flip_pixels(bits, 0.1).mean() - 0.1) < 0.01)
    True
    """
    bits = _bits(V)
    flipped = generator(seed).random(bits.shape) < check_share("share", share)
    return np.where(flipped, 1 - bits, bits).astype(bits.dtype)


def occlude(
    V: ArrayLike,
    shape: Sequence[int],
    size: int | Sequence[int],
    value: int = 0,
    seed: int | np.random.Generator = 0,
) -> np.ndarray:
    """Return a copy of pictures with a patch of each set to a value, at a place drawn uniformly, wholly inside.

    Parameters
    ----------
    V : array_like (N, height * width)
        Rows of bits, pixel by pixel.
    shape : (height, width)
    size : int or (height, width)
        Of the patch.
    value : {0, 1}

    Examples
    --------
    >>> occlude(np.ones((1, 9), np.uint8), (3, 3), 2, seed=1).reshape(3, 3)
    array([[1, 0, 0],
           [1, 0, 0],
           [1, 1, 1]], dtype=uint8)
    """
    bits = _bits(V)
    height, width = _sides("shape", shape)
    rows, columns = _sides("size", size)
    if bits.shape[1] != height * width:
        raise ModelError(f"pictures of {height} x {width} have {height * width} pixels, found rows of {bits.shape[1]}")
    if rows > height or columns > width:
        raise ModelError(f"a patch of {rows} x {columns} does not fit into pictures of {height} x {width}")
    if value not in (0, 1):
        raise ModelError(f"value must be 0 or 1, found {value!r}")
    rng = generator(seed)
    top = rng.integers(0, height - rows + 1, size=len(bits))
    left = rng.integers(0, width - columns + 1, size=len(bits))
    pictures = bits.reshape(-1, height, width).copy()
    across = np.arange(columns)
    for k in range(rows):  # a row of all patches at once
        pictures[np.arange(len(bits))[:, None], (top + k)[:, None], left[:, None] + across] = value
    return pictures.reshape(bits.shape)


def _bits(V: ArrayLike) -> np.ndarray:
    bits = np.asarray(V)
    if bits.ndim != 2 or bits.dtype.kind not in "biu":
        raise ModelError(f"V must be rows of bits, found an array of {bits.dtype} with shape {bits.shape}")
    if bits.size and (bits.min() < 0 or bits.max() > 1):
        raise ModelError("V must be 0 and 1")
    return bits.astype(np.uint8) if bits.dtype.kind == "b" else bits


def _sides(name: str, value: int | Sequence[int]) -> tuple[int, int]:
    both = value if isinstance(value, Sequence | np.ndarray) else (value, value)
    if len(both) != 2:
        raise ModelError(f"{name} must be (height, width), found {value!r}")
    return check_count(name, both[0]), check_count(name, both[1])
