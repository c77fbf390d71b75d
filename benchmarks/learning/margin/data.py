"""Scanned words [taskar2003]: 6,877 of them in ten folds, a letter is 16 x 8 pixels of 0 or 1 and one of 26 labels.

NumPy only, because the processes that run the peers import it too. The two files are read from the folder
``structured`` of ``BELIEFS_DATA``.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

FILES = ("ocr_letters_folds0-4.npz", "ocr_letters_folds5-9.npz")
FOLD = 1  # the one that is trained on where not all are


def folder() -> Path | None:
    """Return where the files are, if they are anywhere."""
    home = os.environ.get("BELIEFS_DATA")
    here = None if home is None else Path(home) / "structured"
    return here if here is not None and all((here / name).exists() for name in FILES) else None


def digits(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first n of scikit-learn's digits: 8 x 8 pixels from 0 to 1, and labels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return found.data[:n] / 16.0, found.target[:n].astype(np.int64)


def words(fold: int | None = None, limit: int | None = None) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the pixels ``(letters, 128)`` and the labels of the words of a fold, or of all, or the first few."""
    where = folder()
    assert where is not None
    X, Y = [], []
    for name in FILES:
        with np.load(where / name) as stored:
            pixels = np.unpackbits(stored["X"], axis=1).astype(np.float64)
            labels, lengths, folds = stored["y"].astype(np.int64), stored["word_lengths"], stored["word_fold"]
        ends = np.cumsum(lengths)
        for begin, end, of in zip(ends - lengths, ends, folds, strict=True):
            if fold is None or of == fold:
                X.append(pixels[begin:end])
                Y.append(labels[begin:end])
    return X[:limit], Y[:limit]
