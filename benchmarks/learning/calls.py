"""Whole calls of learning beside their kernels: fits and predictions, as a user waits for them.

    python -m benchmarks.learning.calls [--quick] [--repeats N] [--json FILE] [--markdown FILE] [--from FILE]

Images of 100 x 100 pixels, sentences of CoNLL-2000 (read from the folder ``nlp`` of ``BELIEFS_DATA``, left out where
that is missing), and 2,000 graphs of ten vertices, each of another structure. One thread, kernels from the cache;
checking the input, making structures and the optimiser are included.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import beliefs as bl
from benchmarks.call_clock import timed
from benchmarks.frame import Options, Result, Run, Suite, say
from benchmarks.learning.chunking import data
from benchmarks.learning.image_pass import images
from benchmarks.tables import plain, seconds, times

Case = tuple[str, str, Callable[[], Any], int]
"""What is called, its options, the call, and for how many instances."""


def tiny_graphs(n: int, size: int = 10, chords: int = 4, seed: int = 0) -> tuple[list[Any], list[np.ndarray]]:
    """Return rings with random chords, three noisy features a vertex, and labels that come in pairs."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        extra: set[tuple[int, int]] = set()
        while len(extra) < chords:
            a, b = sorted(rng.choice(size, 2, replace=False).tolist())
            if 1 < b - a < size - 1:
                extra.add((a, b))
        y = np.repeat(rng.integers(2, size=size // 2), 2)
        ring = [(v, (v + 1) % size) for v in range(size)]
        X.append((y[:, None] + rng.normal(size=(size, 3)), np.array(ring + sorted(extra))))
        Y.append(y)
    return X, Y


def cases(quick: bool, estimators: Sequence[str]) -> Iterator[Case]:
    """Yield the calls of the estimators."""
    for name in estimators:
        yield from CASES[name](quick)


def grids(quick: bool) -> Iterator[Case]:
    """Yield the calls on images."""
    X, Y = images(*((2, 30, 30) if quick else (4, 100, 100)))
    for text, options in (
        ("univariate_logistic, 5 sweeps of trw", {"loss": "univariate_logistic", "n_sweeps": 5}),
        ("surrogate_likelihood, trw", {"loss": "surrogate_likelihood"}),
    ):
        yield from both(bl.GridCRF(max_iters=20, **options), "GridCRF", text, X, Y)


def chains(quick: bool) -> Iterator[Case]:
    """Yield the calls on sentences, where these are."""
    if data.folder() is not None:
        sentences = data.sentences("train", 50 if quick else 500)
        words, tags = [data.attributes(s) for s in sentences], [data.tags(s) for s in sentences]
        chain = bl.ChainCRF(max_iters=20, all_transitions=False)
        yield from both(chain, "ChainCRF", "likelihood, words", words, tags)


def graphs(quick: bool) -> Iterator[Case]:
    """Yield the calls on small graphs."""
    X, Y = tiny_graphs(100 if quick else 2000)
    for text, options in (
        ("likelihood, exact", {"loss": "likelihood"}),
        ("surrogate_likelihood, trw", {"loss": "surrogate_likelihood"}),
        ("clique_logistic, 10 sweeps of trw", {"loss": "clique_logistic"}),
    ):
        yield from both(bl.GraphCRF(max_iters=20, **options), "GraphCRF", text, X, Y)
    alike = [(unary, X[0][1]) for unary, _ in X]
    crf = bl.GraphCRF(max_iters=20, loss="clique_logistic")
    yield from both(crf, "GraphCRF", "the same, one structure for all", alike, Y)


CASES = {"GridCRF": grids, "ChainCRF": chains, "GraphCRF": graphs}


def both(crf: Any, name: str, text: str, X: list[Any], Y: list[Any]) -> Iterator[Case]:
    """Yield fitting and predicting."""
    yield f"{name}.fit", text, lambda: crf.fit(X, Y), len(X)
    yield f"{name}.predict", text, lambda: crf.predict(X), len(X)


def measure(run: Run) -> None:
    """Time all calls."""
    run.result["calls"] = []
    for name, text, call, n in cases(run.options.quick, run.options.parts):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.ConvergenceWarning)  # fits are cut short
            timing = timed(call, 1 if run.options.quick else run.options.repeats)
        row = {"call": name, "options": text, "instances": n, "seconds": timing.call, "kernels": timing.kernels}
        say(f"{name:18s} {text:40s} {seconds(timing.call):>9s} {times(timing.ratio):>6s}")
        run.result["calls"].append(row)


def page(result: Result, options: Options) -> str:
    """Return the measurements as a Markdown table."""
    rows = []
    for row in result["calls"]:
        each, ratio = row["seconds"] / row["instances"], row["seconds"] / row["kernels"]
        shown = [row["call"], row["options"], f"{row['instances']:,}", seconds(row["seconds"]), seconds(each)]
        rows.append([*shown, seconds(row["kernels"]), times(ratio)])
    columns = ["call", "with", "instances", "the call", "an instance", "its kernels", "call / kernels"]
    return "\n".join(plain(columns, rows, ["---"] * 2 + ["--:"] * 5))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add how often."""
    parser.add_argument("--repeats", type=int, default=3, help="calls of which the best counts")


SUITE = Suite(
    "learning.calls",
    __doc__,
    measure,
    page,
    parts=tuple(CASES),
    quick="small data, one run each",
    add_options=add_options,
)

if __name__ == "__main__":
    SUITE.main()
