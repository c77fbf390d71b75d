"""Flipped and covered pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.datasets import flip_pixels, occlude


def test_each_bit_is_flipped_with_the_share() -> None:
    bits = np.random.default_rng(0).integers(0, 2, size=(400, 50)).astype(np.uint8)
    assert (flip_pixels(bits, 0.0) == bits).all() and (flip_pixels(bits, 1.0) != bits).all()
    changed = flip_pixels(bits, 0.2, seed=3) != bits
    assert changed.mean() == pytest.approx(0.2, abs=0.02)
    assert (flip_pixels(bits, 0.2, seed=3) == flip_pixels(bits, 0.2, seed=3)).all()


@pytest.mark.parametrize("value", [0, 1])
def test_a_patch_inside_every_picture(value: int) -> None:
    pictures = np.full((200, 30), 1 - value, np.uint8)
    found = (occlude(pictures, (5, 6), (2, 3), value, seed=1) == value).reshape(-1, 5, 6)
    assert (found.sum(axis=(1, 2)) == 6).all()
    assert (found.any(axis=2).sum(axis=1) == 2).all() and (found.any(axis=1).sum(axis=1) == 3).all()
    assert found.any(axis=0).all()  # every pixel is covered in some picture


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda: flip_pixels([[0, 2]], 0.1), "V must be 0 and 1"),
        (lambda: flip_pixels([[0.5]], 0.1), "rows of bits"),
        (lambda: flip_pixels([[0]], 1.5), "share"),
        (lambda: occlude([[0] * 9], (3, 3), 4), "does not fit"),
        (lambda: occlude([[0] * 8], (3, 3), 2), "9 pixels, found rows of 8"),
        (lambda: occlude([[0] * 9], (3, 3), 2, value=2), "value must be 0 or 1"),
        (lambda: occlude([[0] * 9], (3, 3, 1), 2), "height, width"),
    ],
)
def test_bad_input(question: Any, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        question()
