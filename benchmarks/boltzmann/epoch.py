"""An epoch of contrastive divergence: beside its matrix products alone, beside peers, and on two threads.

    python -m benchmarks.boltzmann.epoch [--quick] [--only PARTS] [--json FILE] [--markdown FILE] [--from FILE]
                                         [--no-peers] [--peers-python FILE]

10,000 random rows of 784 bits, 500 hidden units, mini-batches of 100 and of 10, one sweep: persistent chains and plain
contrastive divergence. An epoch is a fit of three passes less one of one, halved; the products are the
five of a mini-batch in their order, for all mini-batches, on one thread. scikit-learn has float32 rows for the same
type, and float64 as it makes of integers. Everything is the least of several rounds in which all take turns, in time
and in processor time of the same runs, since a machine that has other work to do distorts both alike. Memory is that of
a fit at its peak, above the rows. Peers that the interpreter named by ``--peers-python`` has are asked for epochs of
mini-batches of 100: rbms and PyTorch for persistent chains, learnergy for contrastive divergence.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.neural_network import BernoulliRBM as Reference

import beliefs as bl
from beliefs.inference.parallel import one_thread_of_blas
from benchmarks.frame import Options, Result, Run, Suite
from benchmarks.tables import table

SHAPE, ROWS, ROUNDS = (784, 500), 10_000, 3
LOSSES = ("stochastic_likelihood", "contrastive_divergence")
PEERS = {"torch": LOSSES[0], "rbms": LOSSES[0], "learnergy": LOSSES[1]}
CLOCKS = {"time": time.perf_counter, "processor": time.process_time}
BATCHES = {"batch100": 100, "batch10": 10}
Seconds = dict[str, float]


def seconds(work: Callable[[], object]) -> Seconds:
    """Return what a call takes by each clock."""
    begin = {clock: now() for clock, now in CLOCKS.items()}
    work()
    return {clock: now() - begin[clock] for clock, now in CLOCKS.items()}


def products(shape: tuple[int, int], n_rows: int, batch: int, dtype: Any) -> Seconds:
    """Return the seconds of the five products of every mini-batch."""
    rng = np.random.default_rng(1)
    weights = (0.05 * rng.standard_normal(shape)).astype(dtype)
    v, w = ((rng.random((batch, shape[0])) < 0.5).astype(dtype) for _ in range(2))
    h, k = ((rng.random((batch, shape[1])) < 0.5).astype(dtype) for _ in range(2))
    x, y = np.empty((2, batch, shape[1]), dtype), np.empty((batch, shape[0]), dtype)
    pairs = np.empty((2, *shape), dtype)

    def all_batches() -> None:
        for _ in range(n_rows // batch):
            np.dot(v, weights, out=x[0])
            np.dot(h, weights.T, out=y)
            np.dot(w, weights, out=x[1])
            np.dot(v.T, h, out=pairs[0])
            np.dot(w.T, k, out=pairs[1])

    with one_thread_of_blas():
        return seconds(all_batches)


def fit_of(rows: np.ndarray, n_iter: int, **options: Any) -> Seconds:
    """Return the seconds of our fit."""
    machine = bl.BernoulliRBM(n_iter=n_iter, learning_rate=0.01, random_state=0, **options)
    return seconds(lambda: machine.fit(rows))


def reference(rows: np.ndarray, n_iter: int, n_hidden: int, batch: int) -> Seconds:
    """Return the seconds of scikit-learn's fit."""
    machine = Reference(n_hidden, batch_size=batch, learning_rate=0.01, n_iter=n_iter, random_state=0)
    with one_thread_of_blas():
        return seconds(lambda: machine.fit(rows))


def memory(rows: np.ndarray, n_hidden: int) -> float:
    """Return the bytes of a fit at its peak."""
    machine = bl.BernoulliRBM(n_hidden, batch_size=100, n_iter=2, validation=0.1)
    machine.fit(rows)
    tracemalloc.start()
    machine.fit(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak)


def measure(run: Run) -> None:
    """Measure epochs, two threads and memory."""
    quick, parts = run.options.quick, run.options.parts
    shape, n_rows, rounds = ((40, 30), 400, 2) if quick else (SHAPE, ROWS, ROUNDS)
    bits = np.random.default_rng(0).random((n_rows, shape[0])) < 0.5
    for loss in LOSSES:
        bl.BernoulliRBM(shape[1], batch_size=100, n_iter=1, loss=loss).fit(bits[:200])  # compiles
    run.result["epochs"] = []
    for part in [p for p in BATCHES if p in parts]:
        run.result["epochs"] += epochs(bits, shape, BATCHES[part], rounds)
    if "memory" in parts:
        run.result["memory"] = memory(bits, shape[1])
    sizes = {"rows": n_rows, "visible": shape[0], "hidden": shape[1], "batch": 100, "rounds": rounds, "chains": 100}
    run.result["peers"] = {
        peer: run.ask("benchmarks.boltzmann.peers", {"task": peer, **sizes}, peer, peer=True)
        for peer in (PEERS if "peers" in parts and not run.options.no_peers else {})
    }


def epochs(bits: np.ndarray, shape: tuple[int, int], batch: int, rounds: int) -> list[Result]:
    """Return by clock the seconds of everybody's epoch: a fit of three passes less one of one, the least of rounds."""
    fits: dict[str, Callable[[int], Seconds]] = {
        "scikit-learn": partial(reference, bits.astype(np.float32), n_hidden=shape[1], batch=batch),
        "scikit-learn, integers": partial(reference, bits.astype(np.float64), n_hidden=shape[1], batch=batch),
    }
    for loss in LOSSES:
        for threads, name in ((1, loss), (2, f"{loss}, two threads")):
            options = {"n_components": shape[1], "batch_size": batch, "loss": loss, "n_jobs": threads}
            fits[name] = partial(fit_of, bits, **options)
    alone, rounded = [], []
    for _ in range(rounds):
        alone.append(products(shape, len(bits), batch, np.float32))
        rounded.append({name: (fit(1), fit(3)) for name, fit in fits.items()})
    found = []
    for clock in CLOCKS:
        one, three = ({name: min(turn[name][k][clock] for turn in rounded) for name in fits} for k in (0, 1))
        row = {"batch": batch, "clock": clock, "products": min(taken[clock] for taken in alone)}
        found.append(row | {name: (three[name] - one[name]) / 2.0 for name in fits})
    return found


def page(result: Result, options: Options) -> str:
    """Return the measurements as tables."""
    head = ["batch", "clock", "loss", "epoch", "five products", "ratio", "scikit-learn", "as integers", "two threads"]
    rows = []
    for row in result["epochs"]:
        for loss in LOSSES:
            ours, two = row[loss], row[f"{loss}, two threads"] if row["clock"] == "time" else None
            rows.append(
                [
                    str(row["batch"]), row["clock"], loss, f"{ours:.3f} s", f"{row['products']:.3f} s",
                    f"{ours / row['products']:.2f}", f"{row['scikit-learn'] / ours:.2f}x",
                    f"{row['scikit-learn, integers'] / ours:.2f}x", "" if two is None else f"{ours / two:.2f}x",
                ]
            )  # fmt: skip
    ours = {row["clock"]: row for row in result["epochs"] if row["batch"] == 100}
    peers = [
        [f"{peer} {found['version']}", PEERS[peer], *(f"{found['epoch'][clock]:.3f} s" for clock in CLOCKS)]
        + [f"{found['epoch'][clock] / ours[clock][PEERS[peer]]:.2f}x" for clock in CLOCKS]
        for peer, found in result["peers"].items()
        if "epoch" in found and ours
    ]
    beside = table(["peer", "loss", *(f"epoch, {c}" for c in CLOCKS), *(f"beside ours, {c}" for c in CLOCKS)], peers)
    text = f"{table(head, rows)}\n" if rows else ""
    if "memory" in result:
        text += f"Memory of a fit above its rows: {result['memory'] / 1e6:.1f} MB.\n"
    return text + (f"\n{beside}" if peers else "")


SUITE = Suite(
    "boltzmann.epoch", __doc__, measure, page, parts=(*BATCHES, "memory", "peers"), quick="a small machine",
    has_peers=True,
)  # fmt: skip

if __name__ == "__main__":
    SUITE.main()
