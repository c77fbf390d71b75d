"""Oracles for learners with a margin: Crammer and Singer's hinge on rows of features, and its optimum by LIBLINEAR."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from beliefs.inference.base import Bound
from beliefs.learning.fit_loss import Evaluation


class Hinge:
    """Mean over rows of ``max_k (w_k . x + [k != y]) - w_y . x``, with a ridge; instances are pairs ``(x, y)``."""

    name: ClassVar[str] = "hinge"

    def __init__(self, n_classes: int, width: int, l2: float, certified: bool = True) -> None:
        self.shape, self.l2, self.certified = (n_classes, width), l2, certified
        self.n_weights = n_classes * width

    def is_smooth(self, data: Any) -> bool:
        return False

    def is_convex(self, data: Any) -> bool:
        return True

    def evaluate(self, w: np.ndarray, data: Any) -> Evaluation:
        x, y = np.array([row for row, _ in data]), np.array([label for _, label in data])
        rows = np.arange(len(y))
        scores = x @ w.reshape(self.shape).T
        augmented = scores + 1.0
        augmented[rows, y] -= 1.0
        best = augmented.argmax(1)
        value = float((augmented[rows, best] - scores[rows, y]).mean()) + self.l2 * float(w @ w)
        errors = np.zeros(scores.shape)
        errors[rows, best] += 1.0
        errors[rows, y] -= 1.0
        grad = (errors.T @ x).ravel() / len(y) + 2.0 * self.l2 * w
        found = Evaluation(value, grad, len(y), delta=float((best != y).mean()))
        return replace(found, bound=Bound.EXACT, upper=value, minorant=True) if self.certified else found


def digits(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The first rows of scikit-learn's digits, pixels from 0 to 1."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return x[:n] / 16.0, y[:n]


def crammer_singer(x: np.ndarray, y: np.ndarray, c: float) -> np.ndarray:
    """The weights that minimise ``0.5 |w|^2 + c sum of hinges``, by LIBLINEAR."""
    from sklearn.svm import LinearSVC

    svm = LinearSVC(multi_class="crammer_singer", fit_intercept=False, C=c, tol=1e-12, max_iter=200_000, random_state=0)
    weights: np.ndarray = svm.fit(x, y).coef_.ravel()
    return weights
