"""Features of images against their formulas, pixel by pixel."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from beliefs.errors import ModelError, UnsupportedError
from beliefs.learning.image_features import (
    DIRECTIONS,
    EdgeFeatures,
    edge_features_named,
    ends,
    hog_features,
    pixel_features_named,
    sinusoidal_features,
    sinusoidal_hog_features,
    sobel_response,
)


def image(shape: tuple[int, ...] = (20, 24, 3), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def test_the_expansion_pixel_by_pixel() -> None:
    picture = image((3, 4, 3))
    found = sinusoidal_features(picture)
    assert found.shape == (3, 4, 64)
    assert found.dtype == np.float32
    for r in range(3):
        for c in range(4):
            s = [*(picture[r, c] / 255.0), r / 2, c / 3]
            phases = [sum(s[b] for b in range(5) if code >> b & 1) for code in range(32)]
            assert found[r, c] == pytest.approx(np.concatenate([np.sin(phases), np.cos(phases)]), abs=1e-5)


def test_bytes_and_fractions_are_the_same_picture() -> None:
    picture = image((3, 4, 3))
    assert sinusoidal_features(picture) == pytest.approx(sinusoidal_features(picture / 255.0), abs=1e-6)


def test_a_single_pixel_and_a_grey_picture() -> None:
    assert sinusoidal_features(image((1, 1, 3))).shape == (1, 1, 64)
    assert sinusoidal_features(image((2, 2))).shape == (2, 2, 16)


def test_gradients_have_an_orientation() -> None:
    """A picture that grows to the right has all its gradients in one bin, and one that grows downwards in another."""
    right = np.broadcast_to(np.linspace(0, 1, 32)[None, :, None], (32, 32, 3))
    found, turned = hog_features(right), hog_features(right.transpose(1, 0, 2))
    assert found.shape == (32, 32, 36)
    assert found.dtype == np.float32
    bins = [np.flatnonzero(f[16, 16].reshape(4, 9).sum(0) > 1e-3) for f in (found, turned)]
    assert len(bins[0]) == len(bins[1]) == 1
    assert bins[0][0] != bins[1][0]
    assert found[16, 16] == pytest.approx(np.where(np.tile(np.arange(9) == bins[0][0], 4), 0.5, 0.0), abs=1e-3)


def test_a_pixel_has_the_nearest_block() -> None:
    from skimage.feature import hog

    picture = image((24, 40, 3))
    blocks = hog(picture / np.float32(255), 9, (8, 8), (2, 2), feature_vector=False, channel_axis=2)
    found = hog_features(picture)
    for r in range(24):
        for c in range(40):
            near = [np.argmin([abs(p - 8 * (b + 1)) for b in range(n)]) for p, n in ((r, 2), (c, 4))]
            if (r - 12) % 8 and (c - 12) % 8:  # in the middle between two centres either is nearest
                assert found[r, c] == pytest.approx(blocks[near[0], near[1]].ravel(), abs=1e-5)


def test_both_together() -> None:
    assert sinusoidal_hog_features(image()).shape == (20, 24, 100)


def test_ends_of_edges() -> None:
    index = np.arange(12).reshape(3, 4)
    pairs = {d: list(zip(*(e.ravel().tolist() for e in ends(index, d)), strict=True)) for d in DIRECTIONS}
    assert pairs["horizontal"][:3] == [(0, 1), (1, 2), (2, 3)]
    assert pairs["vertical"][:2] == [(0, 4), (1, 5)]
    assert pairs["down"][0] == (0, 5)
    assert pairs["up"][0] == (1, 4)


def test_sobel_on_a_step() -> None:
    """A step of height 1 between two columns: the response is 4 at both, 0 elsewhere."""
    step = np.zeros((5, 6))
    step[:, 3:] = 1
    assert sobel_response(step) == pytest.approx(np.where(np.isin(np.arange(6), [2, 3]), 4.0, 0.0)[None].repeat(5, 0))


def test_edge_features_are_indicators_of_strength() -> None:
    pictures = [image((9, 8, 3), seed) for seed in range(3)]
    recipe = EdgeFeatures(strengths=("difference", "sobel"))
    cuts = recipe.thresholds(pictures)
    assert cuts.shape == (2, 10)
    assert (np.diff(cuts, axis=1) > 0).all()
    made = recipe.make(pictures[0], DIRECTIONS[:2], cuts)
    assert [m.shape for m in made] == [(9, 7, 21), (8, 8, 21)]
    assert made[0].dtype == np.uint8
    response = sobel_response(pictures[0])
    scaled = pictures[0] / 255.0
    for r in range(9):
        for c in range(7):
            norm = np.linalg.norm(scaled[r, c] - scaled[r, c + 1])
            edge = max(response[r, c], response[r, c + 1])
            expected = [1, *(norm > cuts[0]).tolist(), *(edge > cuts[1]).tolist()]
            assert made[0][r, c].tolist() == expected
    shares = np.concatenate(
        [m[..., 1:11].reshape(-1, 10) for p in pictures for m in recipe.make(p, DIRECTIONS[:2], cuts)]
    )
    assert shares.mean(0) == pytest.approx(np.arange(0.95, 0, -0.1), abs=0.01)


def test_bad_images_and_names() -> None:
    with pytest.raises(ModelError, match=r"at least 16 x 16 pixels, found \(8, 30\)"):
        hog_features(image((8, 30, 3)))
    with pytest.raises(ModelError, match="20 channels"):
        sinusoidal_features(np.zeros((2, 2, 20)))
    with pytest.raises(ModelError, match="shape"):
        sinusoidal_features(np.zeros(3))
    with pytest.raises(ModelError, match=r"sinusodal.*did you mean 'sinusoidal'"):
        pixel_features_named("sinusodal")
    with pytest.raises(ModelError, match="known: difference, difference_sobel"):
        edge_features_named("x")
    with pytest.raises(ModelError, match="no image has an edge"):
        EdgeFeatures().thresholds([np.zeros((1, 1, 3))])


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skimage.feature", None)
    with pytest.raises(UnsupportedError, match=r"install beliefs\[image\]"):
        hog_features(image())
