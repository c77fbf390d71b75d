"""Learning through belief propagation pays: digits of which nine pixels are covered, completed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import beliefs as bl

LEARNERS: dict[str, dict[str, Any]] = {
    "LR": {"n_components": 0},
    "CD-1": {"n_components": 32, "loss": "contrastive_divergence"},
    "MLE-BP": {"n_components": 32},
}


def error_of(learner: str, seed: int) -> float:
    """Return % of wrong pixels, of the rate that is best on validation."""
    clean = (load_digits().data > 7).astype(np.uint8)
    parts = np.split(clean[np.random.default_rng(seed).permutation(len(clean))], (1000, 1300))
    covered = [bl.datasets.occlude(part, (8, 8), 3, 0, 10 * seed + k) for k, part in enumerate(parts)]
    options: dict[str, Any] = {"n_iter": 80, "patience": 80, "validation": (covered[1], parts[1]), "random_state": seed}
    fits = [
        bl.ConditionalRBM(**LEARNERS[learner], **options, learning_rate=rate).fit(covered[0], parts[0])
        for rate in (0.15, 0.3)
    ]
    best = min(fits, key=lambda fit: float(fit.result_.validation))
    return 100.0 * bl.metrics.error_rate(parts[2], best.predict(covered[2]))


@pytest.mark.long
def test_learning_through_messages_is_ahead_of_contrastive_divergence_and_of_no_hidden_units() -> None:
    error = {learner: float(np.mean([error_of(learner, seed) for seed in range(4)])) for learner in LEARNERS}
    assert error["MLE-BP"] < error["CD-1"] < error["LR"], error
    assert error["MLE-BP"] < 0.93 * error["LR"], error
