r"""Features of images as the studies of marginal-based learning use them ([domke2013] sections 8.3 and 8.4).

Pixels: with :math:`s` the channels and the vertical and horizontal position, all in [0, 1],

.. math:: \sin(c \cdot s), \; \cos(c \cdot s) \qquad \text{for all binary vectors } c

64 for a colour image; and the 36 numbers of a histogram of oriented gradients [dalal2005], by scikit-image. Edges: the
constant, and whether the difference between two pixels (and Sobel's response at the larger of the two ends) is above
each of ten thresholds, the middles of the deciles of the training data. Pixel features are float32, those of edges
one byte each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefs.errors import ModelError, UnsupportedError
from beliefs.model.variable import suggestion
from beliefs.options import check_integer, check_option, is_word
from beliefs.typing import Floats

__all__ = [
    "DIRECTIONS",
    "EdgeFeatures",
    "edge_features_named",
    "ends",
    "hog_features",
    "pixel_features_named",
    "sinusoidal_features",
    "sinusoidal_hog_features",
    "sobel_response",
]

DIRECTIONS = ("horizontal", "vertical", "down", "up")
"""Edges of a grid: to the right, below, and the diagonals from the upper left and from the upper right."""

_MOST_CHANNELS = 12  # the expansion doubles with each
_CELL = 8  # pixels
_ORIENTATIONS = 9
_MOST_THRESHOLDS = 10_000  # as many features has an edge
_SAMPLED = 10_000  # edges of one image that thresholds are taken from, evenly spread
_STRENGTHS = ("difference", "sobel")
Image = NDArray[Any]


def scaled(image: Image) -> NDArray[np.float32]:
    """Return an image as float32 ``(H, W, D)`` with integers brought to [0, 1]."""
    array = np.asarray(image)
    array = array[..., None] if array.ndim == 2 else array
    if array.ndim != 3 or array.dtype.kind not in "fiub":
        raise ModelError(f"an image must be real numbers of shape (H, W) or (H, W, D), found {array.shape}")
    most = np.iinfo(array.dtype).max if array.dtype.kind in "iu" else 1
    return (array / np.float32(most)).astype(np.float32, copy=False)


# -- pixels -------------------------------------------------------------------------------------------------------
def sinusoidal_features(image: Image) -> NDArray[np.float32]:
    """Return ``sin(c . s)`` and ``cos(c . s)`` for all binary c, ``(H, W, 2^(D+3))``: 64 for a colour image.

    ``s`` are the channels (integers are divided by their largest value, floats should be in [0, 1]) and the vertical
    and horizontal position, from 0 to 1.
    """
    pixels = scaled(image)
    height, width, depth = pixels.shape
    if depth > _MOST_CHANNELS:
        raise ModelError(
            f"the expansion of {depth} channels has {2.0 ** (depth + 3):.2g} features; choose fewer channels"
        )
    down = np.broadcast_to(np.linspace(0, 1, height, dtype=np.float32)[:, None, None], (height, width, 1))
    right = np.broadcast_to(np.linspace(0, 1, width, dtype=np.float32)[None, :, None], (height, width, 1))
    s = np.concatenate([pixels, down, right], axis=2)
    c = (np.arange(2 ** (depth + 2))[:, None] >> np.arange(depth + 2) & 1).astype(np.float32)
    phase = s @ c.T
    return np.concatenate([np.sin(phase), np.cos(phase)], axis=2)


def hog_features(image: Image) -> NDArray[np.float32]:
    """Return the histogram of oriented gradients around each pixel, ``(H, W, 36)``; needs scikit-image.

    Nine orientations in cells of 8 pixels, normalised in blocks of 2 x 2 cells; a pixel has the block whose centre is
    nearest. An image of fewer than 16 pixels in one direction has no block and is refused.
    """
    try:
        from skimage.feature import hog
    except ImportError:
        raise UnsupportedError("HOG features need scikit-image: install beliefs[image]") from None
    pixels = scaled(image)
    if min(pixels.shape[:2]) < 2 * _CELL:
        raise ModelError(f"HOG features need images of at least 16 x 16 pixels, found {pixels.shape[:2]}")
    blocks = hog(
        pixels,
        orientations=_ORIENTATIONS,
        pixels_per_cell=(_CELL, _CELL),
        cells_per_block=(2, 2),
        feature_vector=False,
        channel_axis=2,
    )
    rows, columns = (_nearest(n, m) for n, m in zip(pixels.shape[:2], blocks.shape[:2], strict=True))
    flat = blocks.reshape(*blocks.shape[:2], -1).astype(np.float32)
    return np.ascontiguousarray(flat[rows[:, None], columns[None, :]])


def _nearest(n_pixels: int, n_blocks: int) -> NDArray[np.int64]:
    """Return the block nearest to each pixel along one axis; block b is centred on the edge of cells b and b + 1."""
    return np.clip((np.arange(n_pixels) + _CELL // 2) // _CELL - 1, 0, n_blocks - 1)


def sinusoidal_hog_features(image: Image) -> NDArray[np.float32]:
    """Return both: 100 features for a colour image."""
    return np.concatenate([sinusoidal_features(image), hog_features(image)], axis=2)


_PIXEL_FEATURES: dict[str, Callable[[Image], NDArray[np.float32]]] = {
    "sinusoidal": sinusoidal_features,
    "hog": hog_features,
    "sinusoidal_hog": sinusoidal_hog_features,
}


def pixel_features_named(name: str) -> Callable[[Image], NDArray[np.float32]]:
    """Return the function that makes the pixel features of a name."""
    if name not in _PIXEL_FEATURES:
        known = ", ".join(_PIXEL_FEATURES)
        raise ModelError(f"no pixel features {name!r}{suggestion(name, _PIXEL_FEATURES)} (known: {known})")
    return _PIXEL_FEATURES[name]


# -- edges --------------------------------------------------------------------------------------------------------
def ends(values: NDArray[Any], direction: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what ``values (H, W, ...)`` hold at the first and at the second end of every edge of a direction."""
    return {
        "horizontal": (values[:, :-1], values[:, 1:]),
        "vertical": (values[:-1], values[1:]),
        "down": (values[:-1, :-1], values[1:, 1:]),
        "up": (values[:-1, 1:], values[1:, :-1]),
    }[direction]


def sobel_response(image: Image) -> NDArray[np.float32]:
    """Return the length of Sobel's gradient of the mean channel, ``(H, W)``."""
    from scipy.ndimage import sobel

    grey = scaled(image).mean(axis=2)
    response: NDArray[np.float32] = np.hypot(sobel(grey, axis=0), sobel(grey, axis=1)).astype(np.float32, copy=False)
    return response


@dataclass(frozen=True, kw_only=True)
class EdgeFeatures:
    """Edge features by thresholds: the constant, then for each strength whether it is above each threshold.

    Parameters
    ----------
    strengths : tuple of {"difference", "sobel"}
        The Euclidean norm of the difference between the two pixels; the larger of Sobel's responses at them.
    n_thresholds : int
    """

    strengths: tuple[str, ...] = ("difference",)
    n_thresholds: int = 10

    def __post_init__(self) -> None:
        check_option(
            len(self.strengths) > 0 and all(is_word(s, _STRENGTHS) for s in self.strengths),
            "strengths", f"some of {', '.join(_STRENGTHS)}", self.strengths,
        )  # fmt: skip
        check_integer("n_thresholds", self.n_thresholds, 1, _MOST_THRESHOLDS)

    @property
    def width(self) -> int:
        """Features of an edge."""
        return 1 + len(self.strengths) * self.n_thresholds

    def measured(self, image: Image, directions: Sequence[str]) -> list[list[NDArray[np.float32]]]:
        """Return each strength at the edges of each direction: ``[direction][strength]``."""
        pixels = scaled(image)
        response = sobel_response(pixels) if "sobel" in self.strengths else None
        found = []
        for direction in directions:
            a, b = ends(pixels, direction)
            difference = np.sqrt(((a - b) ** 2).sum(axis=2))
            edge = None if response is None else np.maximum(*ends(response, direction))
            found.append([difference if s == "difference" or edge is None else edge for s in self.strengths])
        return found

    def thresholds(self, images: Iterable[Image], directions: Sequence[str] = DIRECTIONS[:2]) -> Floats:
        """Return quantiles over training images, ``(n_strengths, n_thresholds)``; ten are at 0.05, 0.15, ..., 0.95."""
        pools: list[list[NDArray[np.float32]]] = [[] for _ in self.strengths]
        for image in images:
            for direction in self.measured(image, directions):
                for pool, values in zip(pools, direction, strict=True):
                    pool.append(values.ravel()[:: max(1, values.size // _SAMPLED)])
        levels = (np.arange(self.n_thresholds) + 0.5) / self.n_thresholds
        joined = [np.concatenate(pool) if pool else np.zeros(0, np.float32) for pool in pools]
        if not all(values.size for values in joined):
            raise ModelError("no image has an edge to take thresholds from; single pixels need no edge features")
        return np.stack([np.quantile(values, levels).astype(np.float64) for values in joined])

    def make(self, image: Image, directions: Sequence[str], thresholds: Floats) -> list[NDArray[np.uint8]]:
        """Return the features of every edge, one array ``(..., width)`` per direction, zeros and ones."""
        made = []
        for measured in self.measured(image, directions):
            above = [values[..., None] > cuts for values, cuts in zip(measured, thresholds, strict=True)]
            ones = np.ones((*measured[0].shape, 1), np.bool_)
            made.append(np.concatenate([ones, *above], axis=-1).view(np.uint8))
        return made


_EDGE_FEATURES = {
    "difference": EdgeFeatures(),
    "difference_sobel": EdgeFeatures(strengths=("difference", "sobel")),
}


def edge_features_named(name: str) -> EdgeFeatures:
    """Return the edge features of a name."""
    if name not in _EDGE_FEATURES:
        known = ", ".join(_EDGE_FEATURES)
        raise ModelError(f"no edge features {name!r}{suggestion(name, _EDGE_FEATURES)} (known: {known})")
    return _EDGE_FEATURES[name]
