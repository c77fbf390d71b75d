"""Threads meet where there is enough to share: two are never slower than one for the appointments they make.

What is enough is counted, so it depends on sizes alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference import parallel

LOSSES = (
    "stochastic_likelihood", "contrastive_divergence", "pseudo_likelihood", "ratio_matching",
    "minimum_probability_flow", "likelihood", "surrogate_likelihood",
)  # fmt: skip
LEARNERS: dict[str, dict[str, Any]] = {
    "LR": {"n_components": 0}, "CD-1": {"loss": "contrastive_divergence"}, "MLE-MF": {"inference": "mean_field"},
    "MLE-BP": {}, "LSSVM": {"loss": "max_margin(eps_h=0)"}, "MSSVM": {"loss": "max_margin"},
}  # fmt: skip
BITS = np.random.default_rng(0).random((40, 784)) < 0.5


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was given to another thread."""
    given: list[object] = []
    pool = parallel._pool(0)

    class Counting:
        def submit(self, *task: Any) -> Any:
            given.append(task)
            return pool.submit(*task)

    assert isinstance(pool, parallel.Pool)
    monkeypatch.setattr(parallel, "_pool", lambda process: Counting())
    return given


@pytest.mark.parametrize("loss", LOSSES)
def test_small_machines_are_fitted_by_one_thread(loss: str, met: list[object]) -> None:
    bl.BernoulliRBM(6, batch_size=10, n_iter=2, loss=loss, random_state=0, n_jobs=2).fit(BITS[:, :12])
    assert not met


@pytest.mark.parametrize("learner", LEARNERS)
def test_small_conditional_machines_are_fitted_and_asked_by_one_thread(learner: str, met: list[object]) -> None:
    V = BITS[:, :12]
    options = {"n_components": 8, "batch_size": 20, "n_iter": 2, "random_state": 0, "n_jobs": 2} | LEARNERS[learner]
    crbm = bl.ConditionalRBM(**options).fit(V, V)
    crbm.predict(V)
    assert not met


@pytest.mark.parametrize("loss", LOSSES[:2])
def test_mini_batches_of_ten_stay_on_one_thread_and_larger_ones_are_shared(loss: str, met: list[object]) -> None:
    """With 784 x 500 units: the weights lie in the cache of the thread that made the products with them."""
    ten, forty = (bl.BernoulliRBM(500, batch_size=n, n_iter=1, loss=loss, random_state=0, n_jobs=2) for n in (10, 40))
    ten.fit(BITS)
    assert not met
    forty.fit(BITS)
    assert met


def test_large_machines_are_shared(met: list[object]) -> None:
    bl.BernoulliRBM(100, batch_size=40, n_iter=1, loss="pseudo_likelihood", random_state=0, n_jobs=2).fit(BITS)
    assert met
    for learner in ("MLE-BP", "MSSVM", "MLE-MF"):
        options = LEARNERS[learner] | {"batch_size": 40, "n_iter": 1, "random_state": 0, "n_jobs": 2}
        crbm = bl.ConditionalRBM(256, **options).fit(BITS, BITS)
        met.clear()
        crbm.predict(BITS)
        assert met
