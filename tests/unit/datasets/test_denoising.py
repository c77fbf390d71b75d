"""Noisy black and white pictures."""

from __future__ import annotations

import numpy as np
import pytest

from beliefs.datasets import black_and_white, load_pictures, make_noisy
from beliefs.errors import ModelError


@pytest.mark.parametrize(("exponent", "wanted"), [(1.25, 0.4257), (1.5, 0.3700), (5.0, 0.1294)])
@pytest.mark.parametrize("label", [0, 1])
def test_thresholding_errs_as_often_as_the_formula_says(exponent, wanted, label):
    noisy = make_noisy(np.full(100_000, label), exponent=exponent, seed=1)
    assert (0 <= noisy).all() and (noisy <= 1).all()
    assert abs(((noisy > 0.5) != label).mean() - wanted) < 5 * 0.5 / np.sqrt(100_000)
    assert wanted == pytest.approx(1 - 2 ** (-1 / exponent), abs=5e-5)


def test_pictures_are_reduced_by_means_of_blocks():
    picture = np.array([[0, 0, 9], [8, 8, 9], [1, 1, 9]])
    assert black_and_white(picture).tolist() == [[0, 0, 1], [1, 1, 1], [0, 0, 1]]
    assert black_and_white(np.repeat(np.repeat(picture, 2, 0), 2, 1), reduce=2).tolist() == [
        [0, 0, 1], [1, 1, 1], [0, 0, 1],
    ]  # fmt: skip


def test_the_bundled_pictures():
    found = load_pictures()
    assert sorted(found) == ["china", "flower"]
    assert all(abs(p.mean() - 0.5) < 0.01 for p in load_pictures(level="median").values())
    assert all(p.shape == (106, 160) and 0.1 < p.mean() < 0.9 for p in found.values())


def test_nonsense_is_refused():
    with pytest.raises(ModelError, match="0 and 1"):
        make_noisy([0, 2])
    with pytest.raises(ModelError, match="exponent must be positive"):
        make_noisy([0, 1], exponent=0)
    with pytest.raises(ModelError, match="level"):
        black_and_white(np.zeros((2, 2)), level="mode")
    with pytest.raises(ModelError, match="shape"):
        black_and_white(np.zeros(3))
