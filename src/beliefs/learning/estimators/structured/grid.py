r"""Conditional random fields on images: pixels are vertices row by row, neighbours are joined.

.. math:: \theta_i = F u_i, \qquad \theta_{ij} = G_t v_{ij}

Edges run from left to right and from top to bottom, and come direction after direction: horizontal, vertical, and with
eight neighbours the two diagonals. Each direction has weights of its own (what [domke2013] writes as features
duplicated by direction), or all share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.estimators.base import DataForm
from beliefs.learning.estimators.examples import Examples
from beliefs.learning.estimators.inputs import (
    FactorSpec,
    LazyFeatures,
    ParsedInput,
    as_array,
    checked_features,
    with_intercept,
)
from beliefs.learning.estimators.structured.crf import CRF
from beliefs.learning.image_features import DIRECTIONS, EdgeFeatures, edge_features_named, ends, pixel_features_named
from beliefs.model.features import Rows
from beliefs.options import check_option, is_number
from beliefs.typing import Ints

__all__ = ["GridCRF", "grid_scopes"]


@dataclass(kw_only=True, eq=False, repr=False)
class GridCRF(CRF):
    """A conditional random field on images; for the other options see :class:`CRF`.

    An input is an array ``(H, W, D)`` of features, or ``(H, W)`` for one feature, or a tuple of that and the features
    of the edges, one array per direction: horizontal ``(H, W-1, E)``, vertical ``(H-1, W, E)`` and, with eight
    neighbours, the diagonals down ``(H-1, W-1, E)`` and up ``(H-1, W-1, E)``. Labels are ``(H, W)`` integers, -1
    where hidden. Images may differ in size; those of one size share their structure and its plans.

    Parameters
    ----------
    connectivity : {4, 8}
        Neighbours of a pixel.
    separate_directions : bool
        Whether horizontal, vertical and diagonal edges have weights of their own.
    intercept : bool
        Whether the pixels have the constant 1 as a last feature.
    features : str or callable, optional
        Features to make from the input ``(H, W, D)``: ``"sinusoidal"``, ``"sinusoidal_hog"``, or a function that
        returns ``(H, W, D')``; see :mod:`beliefs.learning.image_features`.
    edge_features : str or callable, optional
        Features of edges to make from the input: ``"difference"`` (a constant, and whether the difference of the two
        pixels is above each decile of the training data), ``"difference_sobel"`` (Sobel's response as well), or a
        function that returns one array per direction. None: given with the input, or the constant alone, and then
        all edges of a direction share one table.
    on_the_fly : bool
        Whether made features are made anew at every evaluation instead of being kept (as float32).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = np.zeros((8, 8), int)
    >>> truth[2:6, 2:6] = 1
    >>> X = [truth + 0.6 * rng.normal(size=truth.shape) for _ in range(5)]
    >>> crf = GridCRF(n_sweeps=5).fit(X, [truth] * 5)
    >>> crf.predict(X)[0].shape, crf.score(X, [truth] * 5) > 0.9
    ((8, 8), True)
    """

    connectivity: int = 4
    separate_directions: bool = True
    intercept: bool = True
    features: Any = None
    edge_features: Any = None
    on_the_fly: bool = False

    data_form: ClassVar[DataForm] = DataForm(
        "`(H, W)` or `(H, W, D)`",
        "`(H, W)`",
        ("horizontal", "vertical", "down", "up"),
        "`horizontal (H, W-1, E)`, `vertical (H-1, W, E)`; `down`, `up` with `-O connectivity=8`",
        files="images",
    )
    _switches: ClassVar[tuple[str, ...]] = ("separate_directions", "intercept", "on_the_fly")
    _learned_names: ClassVar[tuple[str, ...]] = ("edge_thresholds_",)

    @classmethod
    def tiny_data(cls) -> tuple[list[Any], list[Any]]:
        """Return two pictures of six pixels."""
        labels = np.arange(6).reshape(2, 3) % 2
        return [labels + 0.5, labels - 0.5], [labels, labels]

    def _check_options(self) -> None:
        super()._check_options()
        check_option(
            is_number(self.connectivity) and self.connectivity in (4, 8), "connectivity", "4 or 8", self.connectivity
        )
        for name in ("features", "edge_features"):
            value = getattr(self, name)
            known = value is None or isinstance(value, str | EdgeFeatures) or callable(value)
            check_option(known, name, "a word or a function", value)
        self._pixel_maker, self._edge_maker  # noqa: B018  (unknown names are refused before any work)

    @property
    def _pixel_maker(self) -> Callable[[np.ndarray], np.ndarray] | None:
        return pixel_features_named(self.features) if isinstance(self.features, str) else self.features

    @property
    def _edge_maker(self) -> EdgeFeatures | Callable[[np.ndarray], Sequence[np.ndarray]] | None:
        named = isinstance(self.edge_features, str)
        return edge_features_named(self.edge_features) if named else self.edge_features

    @property
    def _directions(self) -> tuple[str, ...]:
        return DIRECTIONS[: 2 if self.connectivity == 4 else 4]

    def _prepare(self, examples: Examples) -> None:
        """Take the thresholds of edge features from the training data."""
        maker = self._edge_maker
        if isinstance(maker, EdgeFeatures):
            images = (_image(example.x, example.name)[0] for example in examples)
            self.edge_thresholds_ = maker.thresholds(images, self._directions)

    # -- reading ------------------------------------------------------------------------------------------------
    @property
    def _n_constants(self) -> int:
        return int(self.intercept)

    def _read(self, x: Any, name: str) -> ParsedInput:
        image, given = _image(x, name)
        shape = (int(image.shape[0]), int(image.shape[1]))
        unary = self._pixel_rows(image, name)
        edges = self._edge_rows(image, given, name)
        names = [f"{direction} edges" for direction in self._directions]
        counts = [h * w for h, w in _edge_shapes(shape, self._directions)]
        if not self.separate_directions:
            edges, names, counts = [_joined(edges)], ["edges"], [sum(counts)]
        return ParsedInput(
            shape,
            (Rows(shape[0] * shape[1], unary), *(Rows(n, e) for n, e in zip(counts, edges, strict=True))),
            (FactorSpec("pixels", 1, unary.shape[1]), *(_kind(what, e) for what, e in zip(names, edges, strict=True))),
            partial(grid_scopes, shape, self._directions, self.separate_directions),
            shape,
        )

    def _pixel_rows(self, image: np.ndarray, name: str) -> Any:
        """Return the features of the pixels, row by row."""
        n, maker = image.shape[0] * image.shape[1], self._pixel_maker
        if maker is None:
            rows: Any = checked_features(image.reshape(n, -1), n, name, "features of pixels")
        else:
            rows = self._made(lambda: _flat(maker(image), image.shape[:2], name, "pixels"), n, name, "pixels")
        return with_intercept(rows) if self.intercept else rows

    def _edge_rows(self, image: np.ndarray, given: Sequence[Any], name: str) -> list[Any]:
        """Return the features of the edges direction by direction, None where there is only the constant."""
        maker, directions = self._edge_maker, self._directions
        shapes = _edge_shapes(image.shape[:2], directions)
        if given and maker is not None:
            raise ModelError(f"{name} brings features of edges, and edge_features says how to make them; drop one")
        if given and len(given) != len(directions):
            raise ModelError(f"{name}: features of edges are {len(directions)} arrays ({', '.join(directions)})")
        if maker is None:
            each: Sequence[Any] = given or [None] * len(directions)
            return [
                None if e is None else checked_features(_flat(e, s, name, f"{d} edges"), None, name, f"{d} edges")
                for e, s, d in zip(each, shapes, directions, strict=True)
            ]

        def made(number: int) -> np.ndarray:
            if isinstance(maker, EdgeFeatures):
                array = maker.make(image, directions[number : number + 1], self.edge_thresholds_)[0]
            else:
                array = _direction(maker(image), number, len(directions), name)
            return _flat(array, shapes[number], name, f"{directions[number]} edges")

        return [self._made(partial(made, d), h * w, name, f"{directions[d]} edges") for d, (h, w) in enumerate(shapes)]

    def _made(self, make: Callable[[], np.ndarray], n: int, name: str, what: str) -> Any:
        """Make features once, to check and to keep, or to check and to be made again."""
        rows = checked_features(make(), n, name, f"features of {what}")
        rows = rows.astype(np.float32) if rows.dtype == np.float64 else rows
        return LazyFeatures(rows.shape, make) if self.on_the_fly else rows


def _image(x: Any, name: str) -> tuple[np.ndarray, Sequence[Any]]:
    """Return the array ``(H, W, D)`` of an input, and the features of its edges if it brings any."""
    values, given = (x[0], x[1:]) if isinstance(x, tuple) and x else (x, ())
    image = as_array(values, name, "features of pixels")
    image = image[..., None] if image.ndim == 2 else image
    if image.ndim != 3 or image.shape[0] * image.shape[1] == 0:
        raise ModelError(
            f"{name}: an input is an array (H, W, D) or (H, W), or a tuple of that and the features of edges; "
            f"found shape {image.shape}"
        )
    return image, given


def _flat(values: Any, shape: tuple[int, ...], name: str, what: str) -> np.ndarray:
    """Return features ``(H', W', E)`` or ``(H', W')`` of what has this shape as rows."""
    array = np.asarray(values)
    if array.ndim not in (2, 3) or array.shape[:2] != tuple(shape):
        raise ModelError(f"{name}: features of {what} must have shape {(*shape, 'E')}, found {array.shape}")
    return array.reshape(shape[0] * shape[1], -1 if array.size else array.shape[-1])


def _direction(arrays: Any, number: int, count: int, name: str) -> np.ndarray:
    """Return one of the arrays that a function has made."""
    if not (isinstance(arrays, Sequence) and len(arrays) == count):
        raise ModelError(f"{name}: edge_features must return {count} arrays, one per direction, in a tuple or list")
    return np.asarray(arrays[number])


def _joined(edges: Sequence[Any]) -> Any:
    """Return the features of all directions, one after the other."""
    if edges[0] is None:
        return None
    if not isinstance(edges[0], LazyFeatures):
        return np.concatenate(list(edges))
    n, width = sum(e.shape[0] for e in edges), edges[0].shape[1]
    return LazyFeatures((n, width), lambda: np.concatenate([e() for e in edges]))


def _kind(what: str, values: Any) -> FactorSpec:
    return FactorSpec(what, 2, 1, True) if values is None else FactorSpec(what, 2, int(values.shape[1]))


def _edge_shapes(shape: tuple[int, ...], directions: Sequence[str]) -> list[tuple[int, int]]:
    """Return how many rows and columns of edges there are in each direction."""
    height, width = shape[:2]
    less = {"horizontal": (0, 1), "vertical": (1, 0), "down": (1, 1), "up": (1, 1)}
    return [(max(0, height - less[d][0]), max(0, width - less[d][1])) for d in directions]


def grid_scopes(shape: tuple[int, int], directions: Sequence[str], separate: bool) -> list[Ints]:
    """Return the scopes of a grid: pixels row by row, then the edges ``(m, 2)`` direction by direction."""
    index = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape)
    edges = [np.stack(ends(index, direction), axis=-1).reshape(-1, 2) for direction in directions]
    return [index.reshape(-1, 1), *(edges if separate else [np.concatenate(edges)])]
