"""Whole calls of learning beside their kernels: fits and predictions, as a user waits for them.

    python benchmarks/calls_learning.py [--quick] [--repeats N] [--json FILE] [--markdown FILE]

Images of 100 x 100 pixels, sentences of CoNLL-2000 (read from the folder ``nlp`` of ``BELIEFS_DATA``, left out where
that is missing), and 2,000 graphs of ten vertices, each of another structure. One thread, kernels from the cache;
checking the input, making structures and the optimiser are included.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chunking_data
import machine
import numpy as np
from call_clock import timed
from learning_pass import images
from tables import seconds, times

import beliefs as bl

Case = tuple[str, str, Callable[[], Any], int]
"""What is called, its options, the call, and for how many instances."""

Row = dict[str, Any]


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


def cases(quick: bool) -> Iterator[Case]:
    """Yield the calls."""
    X, Y = images(*((2, 30, 30) if quick else (4, 100, 100)))
    for text, options in (
        ("univariate_logistic, 5 sweeps of trw", {"loss": "univariate_logistic", "n_sweeps": 5}),
        ("surrogate_likelihood, trw", {"loss": "surrogate_likelihood"}),
    ):
        yield from both(bl.GridCRF(max_iters=20, **options), "GridCRF", text, X, Y)
    if chunking_data.folder() is not None:
        sentences = chunking_data.sentences("train", 50 if quick else 500)
        words, tags = [chunking_data.attributes(s) for s in sentences], [chunking_data.tags(s) for s in sentences]
        chain = bl.ChainCRF(max_iters=20, all_transitions=False)
        yield from both(chain, "ChainCRF", "likelihood, words", words, tags)
    graphs, labels = tiny_graphs(100 if quick else 2000)
    for text, options in (
        ("likelihood, exact", {"loss": "likelihood"}),
        ("surrogate_likelihood, trw", {"loss": "surrogate_likelihood"}),
        ("clique_logistic, 10 sweeps of trw", {"loss": "clique_logistic"}),
    ):
        yield from both(bl.GraphCRF(max_iters=20, **options), "GraphCRF", text, graphs, labels)
    alike = [(unary, graphs[0][1]) for unary, _ in graphs]
    crf = bl.GraphCRF(max_iters=20, loss="clique_logistic")
    yield from both(crf, "GraphCRF", "the same, one structure for all", alike, labels)


def both(crf: Any, name: str, text: str, X: list[Any], Y: list[Any]) -> Iterator[Case]:
    """Yield fitting and predicting."""
    yield f"{name}.fit", text, lambda: crf.fit(X, Y), len(X)
    yield f"{name}.predict", text, lambda: crf.predict(X), len(X)


def measured(quick: bool = False, repeats: int = 3) -> list[Row]:
    """Time all calls."""
    found = []
    for name, text, run, n in cases(quick):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.ConvergenceWarning)  # fits are cut short
            timing = timed(run, repeats)
        row = {"call": name, "options": text, "instances": n, "seconds": timing.call, "kernels": timing.kernels}
        print(f"{name:18s} {text:40s} {seconds(timing.call):>9s} {times(timing.ratio):>6s}", file=sys.stderr)
        found.append(row)
    return found


def table(rows: list[Row]) -> str:
    """Return the measurements as a Markdown table."""
    lines = ["| call | with | instances | the call | an instance | its kernels | call / kernels |"]
    lines.append("| --- | --- | --: | --: | --: | --: | --: |")
    for row in rows:
        each, ratio = row["seconds"] / row["instances"], row["seconds"] / row["kernels"]
        shown = [row["call"], row["options"], f"{row['instances']:,}", seconds(row["seconds"]), seconds(each)]
        lines.append("| " + " | ".join([*shown, seconds(row["kernels"]), times(ratio)]) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small data, one run each")
    parser.add_argument("--repeats", type=int, default=3, help="calls of which the best counts")
    parser.add_argument("--json", type=Path, help="write the measurements")
    parser.add_argument("--markdown", type=Path, help="write the table")
    options = parser.parse_args(arguments)
    rows = measured(options.quick, 1 if options.quick else options.repeats)
    print(table(rows))
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": machine.description(), "calls": rows}, indent=1) + "\n")
    if options.markdown is not None:
        options.markdown.write_text(table(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
