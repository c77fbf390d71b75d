"""Belief propagation between the layers of a machine: a message beside NumPy, the general kernels and a division.

    python -m benchmarks.boltzmann.matrix_bp [--quick] [--json FILE] [--markdown FILE] [--from FILE]

Ten sweeps of 20 machines of 784 x 256 units that share their weights, pair beliefs and values included, one thread.
NumPy is Algorithm 6.1 of [ping2016] written down as it is printed, in the same type; the general kernels are those of
``infer(rbm.to_factor_graph(), "bp")``; a division is that of two arrays in cache. Then a large random machine to 1e-3,
and an epoch of a fit beside its kernel and its matrix products. All is processor time, which other work on the machine
distorts least, but for two threads, which are beside one by the clock.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

import beliefs as bl
from beliefs.inference.boltzmann.matrix_bp import LayerMessages
from beliefs.inference.parallel import one_thread_of_blas
from benchmarks.clock import least as least_by
from benchmarks.frame import Options, Result, Run, Suite
from benchmarks.tables import table

SHAPE, MACHINES, SWEEPS = (784, 256), 20, 10
LARGE = (10_000, 2_000)
IMAGES, BATCH = 10_000, 20

least = partial(least_by, now=time.process_time)


def machines(dtype: Any, n: int, shape: tuple[int, int], scale: float = 0.1) -> bl.RBMBatch:
    """Return machines with random weights and biases of their own."""
    rng = np.random.default_rng(0)
    arrays = scale * rng.standard_normal(shape), rng.normal(size=(n, shape[0])), rng.normal(size=(n, shape[1]))
    return bl.RBMBatch(*(array.astype(dtype) for array in arrays))


def algorithm_6_1(weights: Any, b: Any, a: Any, n_sweeps: int, tol: float = 0.0) -> int:
    """Run Algorithm 6.1 as it is printed, pair beliefs included, and return the sweeps."""

    def sigmoid(x: Any) -> Any:
        return 1.0 / (1.0 + np.exp(-x))

    e = np.exp(weights)
    to_hidden = np.full_like(weights.T, 0.5)
    visible, hidden = sigmoid(b), sigmoid(a)
    n_done = 0
    while n_done < n_sweeps:
        before, n_done = visible, n_done + 1
        one, two = (1 - to_hidden.T) * hidden, to_hidden.T * (1 - hidden)
        to_visible = sigmoid(np.log((e * one + two) / (one + two)))
        visible = sigmoid(b + np.log(to_visible / (1 - to_visible)).sum(axis=1))
        one, two = (1 - to_visible).T * visible, to_visible.T * (1 - visible)
        to_hidden = sigmoid(np.log((e.T * one + two) / (one + two)))
        hidden = sigmoid(a + np.log(to_hidden / (1 - to_hidden)).sum(axis=1))
        if np.abs(visible - before).max() <= tol:
            break
    u, w = to_visible, to_hidden.T
    both = e * np.outer(visible, hidden) * (1 - u) * (1 - w)
    total = both + np.outer(1 - visible, hidden) * u * (1 - w) + np.outer(visible, 1 - hidden) * (1 - u) * w
    total += np.outer(1 - visible, 1 - hidden) * u * w
    both /= total
    return n_done


def a_message(dtype: Any, quick: bool) -> dict[str, float]:
    """Return nanoseconds a message of each."""
    shape, count = ((64, 32), 4) if quick else (SHAPE, MACHINES)
    batch = machines(dtype, count, shape)
    n_messages = 2.0 * shape[0] * shape[1] * SWEEPS

    def ours(threads: int, now: Any = time.process_time) -> float:
        messages = LayerMessages(batch.weights, threads=threads)
        return least_by(lambda: messages.sums(batch.visible_bias, batch.hidden_bias, SWEEPS, 0.0), 9, now) / count

    one = batch[0]
    with one_thread_of_blas():
        theirs = least(lambda: algorithm_6_1(one.weights, one.visible_bias, one.hidden_bias, SWEEPS), 3)
    graph = one.to_factor_graph()

    def general(n_iters: int) -> float:
        return least(lambda: quiet(graph, n_iters), 3)

    x, y = np.full(4096, 1.5, dtype), np.full(4096, 3.1, dtype)
    out = np.empty_like(x)
    division = least(lambda: [np.divide(x, y, out=out) for _ in range(100)], 9) / (100 * x.size)
    a_sweep = (general(12) - general(2)) / 10
    clock = time.perf_counter
    found = {"ours": ours(1), "one thread": ours(1, clock), "two threads": ours(2, clock), "NumPy": theirs}
    return {name: 1e9 * seconds / n_messages for name, seconds in found.items()} | {
        "general": 1e9 * a_sweep / (4.0 * shape[0] * shape[1]),
        "division": 1e9 * division,
    }


def quiet(graph: Any, n_iters: int) -> Any:
    """Ask the general kernels for some iterations, which send each message twice."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bl.infer(graph, "bp", max_iters=n_iters, tol=0.0, threads=1)


def a_large_machine(quick: bool) -> dict[str, float]:
    """Return the seconds to 1e-3 of a large random machine."""
    shape = (200, 100) if quick else LARGE
    batch = machines(np.float32, 1, shape, 0.5 / np.sqrt(shape[0]))
    one = batch[0]
    ours = least(lambda: bl.infer(batch, "bp", tol=1e-3, max_iters=30, threads=1), 2)
    with one_thread_of_blas():
        theirs = least(lambda: algorithm_6_1(one.weights, one.visible_bias, one.hidden_bias, 30, 1e-3), 1)
    return {"ours": ours, "NumPy": theirs}


def an_epoch(quick: bool) -> dict[str, float]:
    """Return the seconds of a first epoch of a fit through belief propagation, of its kernel and of its products."""
    n_rows, (n, m) = (400, (64, 32)) if quick else (IMAGES, SHAPE)
    rng = np.random.default_rng(0)
    V = (rng.random((n_rows, n)) < 0.3).astype(np.uint8)
    X = bl.datasets.flip_pixels(V, 0.1)
    fitted = bl.ConditionalRBM(m, n_iter=1, batch_size=BATCH, inference_tol=0.0)
    whole = least(lambda: fitted.fit(X, V), 2)
    batch = fitted.model_.given(X[:BATCH].astype(np.float32))
    messages = LayerMessages(batch.weights)
    kernel = least(lambda: messages.sums(batch.visible_bias, batch.hidden_bias, 7, 0.0), 5)
    x, v = X[:BATCH].astype(np.float32), V[:BATCH].astype(np.float32)
    h = np.ones((BATCH, m), np.float32)
    into, between = fitted.model_.visible_input.copy(), fitted.model_.weights.copy()
    hidden_into = fitted.model_.hidden_input.copy()

    def products() -> None:
        """Make those of an update: biases from inputs, hidden given visible, and three gradients."""
        x @ into.T
        x @ hidden_into.T
        v @ between
        np.dot(v.T, h, out=between)
        np.dot(v.T, x, out=into)
        np.dot(h.T, x, out=hidden_into)

    with one_thread_of_blas():
        alone = least(products, 5)
    n_updates = n_rows / BATCH
    return {"epoch": whole, "kernel": n_updates * kernel, "products": n_updates * alone}


def measure(run: Run) -> None:
    """Measure all."""
    quick = run.options.quick
    run.result["messages"] = {np.dtype(d).name: a_message(d, quick) for d in (np.float32, np.float64)}
    run.result["large"] = a_large_machine(quick)
    run.result["epoch"] = an_epoch(quick)
    run.result["date"] = time.strftime("%Y-%m-%d")


def page(result: Result, options: Options) -> str:
    """Return the measurements as tables."""
    head = ["ns a message", "ours", "NumPy", "general", "division in cache", "two threads", "beside", ""]
    rows = [
        [
            dtype, *(f"{row[name]:.2f}" for name in ("ours", "NumPy", "general", "division")),
            f"{row['one thread'] / row['two threads']:.2f}x",
            f"{row['NumPy'] / row['ours']:.0f}x NumPy, {row['general'] / row['ours']:.0f}x general",
            f"{row['ours'] / row['division']:.1f} divisions",
        ]
        for dtype, row in result["messages"].items()
    ]  # fmt: skip
    large, epoch = result["large"], result["epoch"]
    parts = epoch["kernel"] + epoch["products"]
    return (
        f"{table(head, rows)}\n"
        f"A large machine to 1e-3: {large['ours']:.2f} s, NumPy {large['NumPy'] / large['ours']:.0f} times as long.\n"
        f"An epoch of a fit: {epoch['epoch']:.2f} s, its kernel {epoch['kernel']:.2f} and its products "
        f"{epoch['products']:.2f}: {epoch['epoch'] / parts:.2f} of both.\n"
    )


SUITE = Suite("boltzmann.matrix_bp", __doc__, measure, page, quick="small machines")

if __name__ == "__main__":
    SUITE.main()
