"""Annealed importance sampling: a step beside its two matrix products, memory, and enumeration of a layer.

    python -m benchmarks.boltzmann.ais [--quick] [--json FILE] [--markdown FILE] [--from FILE]
                                       [--no-peers] [--peers-python FILE]

A machine of 784 visible and 500 hidden units, 500 chains, float32 and float64, one thread and two. A step is a
temperature of ``infer(rbm, "ais")``: the longer of two runs less the shorter, over the temperatures between them. The
products are those of all chains at once with the weights, there and back, on one thread. Processor time is measured
beside time, since a machine that has other work to do distorts both alike. rbms, where the interpreter named by
``--peers-python`` has it, is asked for the same step in float32.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import beliefs as bl
from beliefs.inference.parallel import one_thread_of_blas
from benchmarks.clock import least
from benchmarks.frame import Options, Result, Run, Suite
from benchmarks.tables import table

SHAPE, CHAINS, SHORT, LONG = (784, 500), 500, 3, 33
REPEATS = 5
ENUMERATED = 16  # units beside the visible layer


def machine(dtype: Any, shape: tuple[int, int]) -> bl.RBM:
    """Return a machine with weak random weights."""
    return bl.RBM((0.05 * np.random.default_rng(0).standard_normal(shape)).astype(dtype))


def products(rbm: bl.RBM, chains: int, now: Callable[[], float]) -> float:
    """Return the seconds of the two matrix products of a step."""
    rng = np.random.default_rng(1)
    v, h = ((rng.random((chains, n)) < 0.5).astype(rbm.dtype) for n in rbm.weights.shape)
    x, y = np.empty((chains, rbm.n_hidden), rbm.dtype), np.empty((chains, rbm.n_visible), rbm.dtype)

    def both() -> None:
        np.dot(v, rbm.weights, out=x)
        np.dot(h, rbm.weights.T, out=y)

    with one_thread_of_blas():
        return least(both, 4 * REPEATS, now)


def step(rbm: bl.RBM, chains: int, threads: int, now: Callable[[], float]) -> float:
    """Return the seconds of a temperature."""

    def asked(temperatures: int) -> float:
        method = bl.AIS(chains=chains, temperatures=temperatures)
        return least(lambda: bl.infer(rbm, method, threads=threads), REPEATS, now)

    return (asked(LONG) - asked(SHORT)) / (LONG - SHORT)


def memory(rbm: bl.RBM, chains: int) -> float:
    """Return the bytes a unit and chain at the peak."""
    method = bl.AIS(chains=chains, temperatures=SHORT)
    bl.infer(rbm, method)
    tracemalloc.start()
    bl.infer(rbm, method)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / (chains * rbm.n_vars)


def measure(run: Run) -> None:
    """Measure steps, memory and enumeration."""
    shape, chains = ((40, 30), 50) if run.options.quick else (SHAPE, CHAINS)
    rows: list[Result] = []
    for dtype in (np.float32, np.float64):
        rbm = machine(dtype, shape)
        rows.append(
            {
                "dtype": str(rbm.dtype),
                "products": products(rbm, chains, time.perf_counter),
                "step": step(rbm, chains, 1, time.perf_counter),
                "products, processor": products(rbm, chains, time.process_time),
                "step, processor": step(rbm, chains, 1, time.process_time),
                "step, two threads": step(rbm, chains, 2, time.perf_counter),
                "bytes": memory(rbm, chains),
            }
        )
    run.result["steps"] = rows
    small = machine(np.float64, (shape[0], 8 if run.options.quick else ENUMERATED))
    run.result["enumerated"] = least(lambda: bl.infer(small, "enumeration"), 2)
    run.result["cells"] = 2**small.n_hidden * small.n_visible
    asked = {"task": "rbms", "rows": 100, "visible": shape[0], "hidden": shape[1], "batch": 100, "rounds": 1}
    run.result["rbms"] = (
        {}
        if run.options.no_peers
        else run.ask("benchmarks.boltzmann.peers", {**asked, "chains": chains}, "rbms", peer=True)
    )


def page(result: Result, options: Options) -> str:
    """Return the measurements as tables."""
    head = ["", "two products", "step", "ratio", "ratio of processor time", "two threads", "bytes a unit and chain"]
    rows = [
        [
            row["dtype"],
            f"{1e3 * row['products']:.2f} ms",
            f"{1e3 * row['step']:.2f} ms",
            f"{row['step'] / row['products']:.2f}",
            f"{row['step, processor'] / row['products, processor']:.2f}",
            f"{row['step'] / row['step, two threads']:.2f}x",
            f"{row['bytes']:.1f}",
        ]
        for row in result["steps"]
    ]
    each = f"Enumeration: {1e9 * result['enumerated'] / result['cells']:.1f} ns a state and unit."
    peer = ""
    if "annealing" in result["rbms"]:
        theirs, ours = result["rbms"]["annealing"], result["steps"][0]
        times = f"{theirs['time'] / ours['step']:.2f} of time, {theirs['processor'] / ours['step, processor']:.2f} of"
        peer = f"A step of rbms {result['rbms']['version']} beside ours: {times} processor time.\n"
    return f"{table(head, rows)}\n{each}\n{peer}"


SUITE = Suite("boltzmann.ais", __doc__, measure, page, quick="a small machine", has_peers=True)

if __name__ == "__main__":
    SUITE.main()
