"""Conditional random fields on images: structure, features and fits against graphs given edge by edge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from beliefs.learning.estimators.examples import Examples
from beliefs.learning.estimators.structured.graph import GraphCRF
from beliefs.learning.estimators.structured.grid import GridCRF, grid_scopes
from beliefs.learning.image_features import DIRECTIONS, EdgeFeatures

STEPS = {"horizontal": (0, 1), "vertical": (1, 0), "down": (1, 1), "up": (1, -1)}


def edges_by_hand(shape: tuple[int, int], direction: str) -> list[tuple[int, int]]:
    height, width = shape
    down, right = STEPS[direction]
    found = []
    for r in range(height):
        for c in range(width):
            if 0 <= r + down < height and 0 <= c + right < width:
                found.append((r * width + c, (r + down) * width + c + right))
    return found


@pytest.mark.parametrize("shape", [(3, 4), (1, 3), (4, 1), (1, 1)])
def test_pixels_row_by_row_and_edges_direction_by_direction(shape: tuple[int, int]) -> None:
    pixels, *edges = grid_scopes(shape, DIRECTIONS, True)
    assert pixels[:, 0].tolist() == list(range(shape[0] * shape[1]))
    for direction, found in zip(DIRECTIONS, edges, strict=True):
        assert sorted(map(tuple, found.tolist())) == sorted(edges_by_hand(shape, direction))
        assert [tuple(e) for e in found.tolist()] == sorted(map(tuple, found.tolist()), key=min)
    assert np.array_equal(np.concatenate(edges), grid_scopes(shape, DIRECTIONS, False)[1])


def images(n: int = 4, shape: tuple[int, ...] = (4, 5), depth: int = 2, states: int = 2) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(*shape, depth)) for _ in range(n)], [rng.integers(0, states, shape) for _ in range(n)]


def as_graph(x: np.ndarray, connectivity: int, separate: bool, values: Any = None) -> Any:
    height, width = x.shape[:2]
    names = DIRECTIONS[: connectivity // 2]
    edges = [np.array(edges_by_hand((height, width), name)) for name in names]
    edges = [e[np.argsort(e.min(1), kind="stable")] for e in edges]
    rows = None if values is None else [v.reshape(-1, v.shape[-1]) for v in values]
    if separate:
        return x.reshape(height * width, -1), edges, rows
    return x.reshape(height * width, -1), np.concatenate(edges), None if rows is None else np.concatenate(rows)


@pytest.mark.parametrize("connectivity", [4, 8])
@pytest.mark.parametrize("separate", [True, False])
@pytest.mark.parametrize("given", [True, False])
def test_a_grid_is_a_graph(connectivity: int, separate: bool, given: bool) -> None:
    X, Y = images(2)
    rng = np.random.default_rng(1)
    shapes = [(4, 4), (3, 5), (3, 4), (3, 4)][: connectivity // 2]
    values = [[rng.normal(size=(*s, 2)) for s in shapes] if given else None for _ in X]
    grids: list[Any] = [x if v is None else (x, *v) for x, v in zip(X, values, strict=True)]
    graphs = [as_graph(x, connectivity, separate, v) for x, v in zip(X, values, strict=True)]
    options: dict[str, Any] = {"max_iters": 3, "n_sweeps": 2}
    grid = GridCRF(connectivity=connectivity, separate_directions=separate, **options).fit(grids, Y)
    graph = GraphCRF(**options).fit(graphs, [y.ravel() for y in Y])
    assert grid.weights_.tobytes() == graph.weights_.tobytes()
    n_types = connectivity // 2 if separate else 1
    assert grid.weights_.size == 2 * 3 + n_types * 4 * (2 if given else 1)
    assert grid.predict_marginals(grids)[1].tobytes() == graph.predict_marginals(graphs)[1].tobytes()
    assert grid.predict(grids)[0].shape == (4, 5)


def test_the_papers_count_of_weights() -> None:
    """Denoising: F 2x2 (value and constant), G 4x2 (two directions); the horses' edges: 21 features a direction."""
    X, Y = images(2, depth=1)
    assert GridCRF(max_iters=0, init="zeros").fit([x[..., 0] for x in X], Y).weights_.size == 2 * 2 + 4 * 2
    X, Y = images(2, depth=3)
    horses = GridCRF(max_iters=0, init="zeros", edge_features="difference_sobel").fit(X, Y)
    assert horses.weights_.size == 2 * 4 + 4 * 42


def test_images_of_one_size_share_their_structure() -> None:
    X, Y = images(3)
    X.append(X[0][:2])
    Y.append(Y[0][:2])
    instances: Any = GridCRF()._instances(Examples(X, Y))
    assert len({id(instance.layout) for instance in instances}) == 2
    assert instances[0].layout is instances[2].layout


def test_features_are_kept_as_they_are() -> None:
    """Float32 stays float32, and no table of edges is stored: memory is that of the input."""
    X, Y = images(1, (30, 40), depth=6)
    x = X[0].astype(np.float32)
    instances: Any = GridCRF(intercept=False)._instances(Examples([x], Y))
    rows = instances[0].inputs
    assert rows[0].values.dtype == np.float32
    assert np.shares_memory(rows[0].values, x)
    assert [r.values for r in rows[1:]] == [None, None]


@pytest.mark.parametrize("separate", [True, False])
def test_made_features_are_the_same_kept_or_on_the_fly(separate: bool) -> None:
    X, Y = images(2, (5, 6), depth=3)
    X = [np.clip(np.abs(x), 0, 1) for x in X]
    fits = [
        GridCRF(
            features="sinusoidal", edge_features="difference", separate_directions=separate, on_the_fly=fly,
            max_iters=3, n_sweeps=2, init="zeros",
        ).fit(X, Y)
        for fly in (False, True)
    ]  # fmt: skip
    assert fits[0].weights_ == pytest.approx(fits[1].weights_, abs=1e-12)
    assert fits[0].weights_.size == 2 * 65 + 4 * 11 * (2 if separate else 1)
    instances: Any = fits[1]._instances(Examples(X, Y))
    assert all(callable(r.values) for r in instances[0].inputs)


def test_thresholds_are_those_of_the_training_data() -> None:
    X, Y = images(3, (8, 8), depth=3)
    crf = GridCRF(edge_features="difference", max_iters=0, init="zeros").fit(X, Y)
    differences = np.concatenate(
        [np.linalg.norm(np.diff(x, axis=a), axis=2).ravel() for x in X for a in (1, 0)]
    )  # fmt: skip
    assert crf.edge_thresholds_[0] == pytest.approx(np.quantile(differences, np.arange(0.05, 1, 0.1)), rel=1e-5)
    other = [10 * x for x in X]
    rows = crf._read(other[0], "it").inputs
    assert rows[1].values.mean() > crf._read(X[0], "it").inputs[1].values.mean()


def test_functions_make_features() -> None:
    X, Y = images(2)

    def squares(x: np.ndarray) -> np.ndarray:
        return x**2

    def products(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x[:, :-1] * x[:, 1:], x[:-1] * x[1:]

    options: dict[str, Any] = {"max_iters": 3, "n_sweeps": 2}
    made = GridCRF(features=squares, edge_features=products, **options).fit(X, Y)
    given = GridCRF(**options).fit(
        [(squares(x).astype(np.float32), *(p.astype(np.float32) for p in products(x))) for x in X], Y
    )
    assert made.weights_.tobytes() == given.weights_.tobytes()


def test_a_picture_is_cleaned() -> None:
    """The error of noisy pixels alone is Phi(-1/1.6) = 0.27; neighbours bring it far down, on images not seen."""
    rng = np.random.default_rng(0)
    row, column = np.mgrid[:24, :24]
    truth = [((row - a) ** 2 + (column - b) ** 2 < 60).astype(int) for a, b in [(8, 9), (14, 12), (12, 16), (10, 10)]]
    X = [2.0 * t - 1 + 1.6 * rng.normal(size=t.shape) for t in truth]
    crf = GridCRF(n_sweeps=5, l2=1e-4, max_iters=30).fit(X[:2], truth[:2])
    pixels = np.mean([(x > 0) == t for x, t in zip(X[2:], truth[2:], strict=True)])
    assert pixels < 0.77
    assert crf.score(X[2:], truth[2:]) > 0.9


def test_hidden_labels_are_predicted_and_not_scored() -> None:
    X, Y = images(2)
    hidden = [np.where(np.arange(5) < 2, -1, y) for y in Y]
    crf = GridCRF(max_iters=3, n_sweeps=2).fit(X, hidden)
    found = crf.predict(X)
    assert set(np.unique(np.concatenate(found))) <= {0, 1}
    right = np.mean([f[:, 2:] == y[:, 2:] for f, y in zip(found, Y, strict=True)])
    assert crf.score(X, hidden) == pytest.approx(right)


def test_threads_change_nothing() -> None:
    X, Y = images(4)
    one, two = (GridCRF(max_iters=4, n_sweeps=3, n_jobs=n).fit(X, Y) for n in (1, 2))
    assert one.weights_.tobytes() == two.weights_.tobytes()
    pairs = zip(one.predict_marginals(X), two.predict_marginals(X), strict=True)
    assert all(a.tobytes() == b.tobytes() for a, b in pairs)


def test_edge_features_by_hand() -> None:
    image = np.array([[0.0, 0.5, 1.0]])
    made = EdgeFeatures(n_thresholds=2).make(image, ("horizontal", "vertical"), np.array([[0.4, 0.6]]))
    assert made[0].tolist() == [[[1, 1, 0], [1, 1, 0]]]
    assert made[1].shape == (0, 3, 3)
