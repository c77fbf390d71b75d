"""Digits and silhouettes of 28 x 28 pixels as rows of bits, divided as in section 5.5 of [ping2016]."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["SHAPE", "Bits", "caltech", "mnist"]

SHAPE = (28, 28)


@dataclass(frozen=True, eq=False)
class Bits:
    """Rows and classes to learn from, to choose by, and to be tried on."""

    name: str
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    train_labels: np.ndarray
    test_labels: np.ndarray


def mnist(folder: Path, n_train: int = 50_000, n_others: int = 10_000) -> Bits:
    """Return digits with pixels above 127: 50,000 (or fewer), 10,000 others of the training file, the test file."""
    home = folder / "images" / "mnist"
    rows, labels = _idx(home / "train-images-idx3-ubyte.gz", 16), _idx(home / "train-labels-idx1-ubyte.gz", 8)
    test, test_labels = _idx(home / "t10k-images-idx3-ubyte.gz", 16), _idx(home / "t10k-labels-idx1-ubyte.gz", 8)
    rows, test = ((a.reshape(-1, 784) > 127).astype(np.uint8) for a in (rows, test))
    order = np.random.default_rng(0).permutation(len(rows))
    chosen, held = order[:n_train], order[50_000 : 50_000 + n_others]
    some = np.random.default_rng(1).permutation(len(test))[:n_others]
    return Bits("MNIST", rows[chosen], rows[held], test[some], labels[chosen], test_labels[some])


def caltech(folder: Path) -> Bits:
    """Return silhouettes: 4,100, 2,264 and 2,307 of all, shuffled."""
    from scipy.io import loadmat

    found = loadmat(folder / "images" / "caltech101_silhouettes_28.mat")
    rows, labels = found["X"].astype(np.uint8), found["Y"].ravel()
    order = np.random.default_rng(0).permutation(len(rows))
    train, held, test = order[:4100], order[4100:6364], order[6364:]
    return Bits("Caltech", rows[train], rows[held], rows[test], labels[train], labels[test])


def _idx(path: Path, header: int) -> np.ndarray:
    return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=header)
