"""An epoch of a conditional machine: contrastive divergence, mean field and logistic regression beside their products.

    python -m benchmarks.boltzmann.conditional [--quick] [--only LEARNERS] [--json FILE] [--markdown FILE] [--from FILE]

5,000 rows of 784 random inputs and bits, 256 hidden units (none for logistic regression), mini-batches of 100, float32,
one thread; mean field makes seven sweeps. An epoch is a fit of three passes less one of one, halved; the products are
those of a mini-batch in their order, for all mini-batches, on one thread. Everything is the least of several rounds in
which all take turns, in time and in processor time of the same runs, since a machine that has other work to do distorts
both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import beliefs as bl
from beliefs.inference.parallel import one_thread_of_blas
from benchmarks.boltzmann.epoch import CLOCKS, Seconds, seconds
from benchmarks.frame import Options, Result, Run, Suite
from benchmarks.tables import table

SHAPE, ROWS, BATCH, SWEEPS, ROUNDS = (784, 256, 784), 5_000, 100, 7, 4
LEARNERS: dict[str, dict[str, Any]] = {
    "LR": {"n_components": 0},
    "CD-1": {"loss": "contrastive_divergence"},
    "MLE-MF": {"inference": "mean_field", "inference_tol": 0.0, "n_sweeps": SWEEPS, "sweep_growth": 0},
}


def products(learner: str, shape: tuple[int, int, int], n_rows: int) -> Seconds:
    """Return the seconds of the matrix products of every mini-batch."""
    n, m, d = shape
    rng = np.random.default_rng(1)
    x, v, w = ((rng.random((BATCH, k)) < 0.5).astype(np.float32) for k in (d, n, n))
    h, k = (rng.random((BATCH, m)).astype(np.float32) for _ in range(2))
    weights, into, hidden_into = (rng.normal(size=size).astype(np.float32) for size in ((n, m), (n, d), (m, d)))
    a, b = np.empty_like(h), np.empty_like(v)
    pairs, grad, hidden_grad = np.empty_like(weights), np.empty_like(into), np.empty_like(hidden_into)
    sweeps = {"LR": 0, "CD-1": 1, "MLE-MF": SWEEPS}[learner]

    def all_batches() -> None:
        for _ in range(n_rows // BATCH):
            np.dot(x, into.T, out=b)  # biases
            if sweeps:
                np.dot(x, hidden_into.T, out=a)
                np.dot(v, weights, out=a)  # hidden units given the bits
                for _ in range(sweeps):
                    np.dot(h, weights.T, out=b)
                    np.dot(w, weights, out=a)
                np.dot(v.T, h, out=pairs)
                np.dot(w.T, k, out=pairs)
                np.dot(h.T, x, out=hidden_grad)
            np.dot(v.T, x, out=grad)

    with one_thread_of_blas():
        return seconds(all_batches)


def fitted(learner: str, X: np.ndarray, V: np.ndarray, m: int, n_iter: int) -> Seconds:
    """Return the seconds of a fit."""
    options = {"n_components": m, **LEARNERS[learner]}
    machine = bl.ConditionalRBM(**options, batch_size=BATCH, n_iter=n_iter, learning_rate=0.01, random_state=0)
    return seconds(lambda: machine.fit(X, V))


def measure(run: Run) -> None:
    """Measure all, in turn."""
    shape, n_rows, rounds = ((40, 20, 30), 400, 2) if run.options.quick else (SHAPE, ROWS, ROUNDS)
    rng = np.random.default_rng(0)
    V, X = ((rng.random((n_rows, k)) < 0.5).astype(np.uint8) for k in (shape[0], shape[2]))
    found: list[Result] = []
    for learner in run.options.parts:
        fitted(learner, X[:200], V[:200], shape[1], 1)  # compiles
        turns = [
            (products(learner, shape, n_rows), *(fitted(learner, X, V, shape[1], k) for k in (1, 3)))
            for _ in range(rounds)
        ]
        for clock in CLOCKS:
            alone, one, three = (min(taken[clock] for taken in column) for column in zip(*turns, strict=True))
            found.append({"learner": learner, "clock": clock, "products": alone, "epoch": (three - one) / 2.0})
    run.result["epochs"] = found


def page(result: Result, options: Options) -> str:
    """Return the measurements as a table."""
    rows = [
        [row["learner"], row["clock"], f"{row['epoch']:.3f} s", f"{row['products']:.3f} s"]
        + [f"{row['epoch'] / row['products']:.2f}"]
        for row in result["epochs"]
    ]
    return table(["learner", "clock", "epoch", "products", "ratio"], rows) + "\n"


SUITE = Suite("boltzmann.conditional", __doc__, measure, page, parts=tuple(LEARNERS), quick="a small machine")

if __name__ == "__main__":
    SUITE.main()
