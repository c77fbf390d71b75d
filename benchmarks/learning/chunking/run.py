"""Linear chains: training on CoNLL-2000 chunking with CRFsuite's features, ours beside CRFsuite, in one run.

    python -m benchmarks.learning.chunking [--quick] [--iterations N] [--peers-python FILE] [--json FILE] [--from FILE]

Both minimise the same function, ``sum of -log p(y | x) + c2 * |w|^2`` over the pairs (attribute, label) and transitions
seen in training, by L-BFGS; ours is divided by the number of tokens, so ``l2 = c2 / n``. Both stop when ten iterations
have lowered it by less than 1e-5 of its value. The time of an iteration is the median over all but the first few, by
the wall clock and by the processor's (all threads together), in turns, each in a process of its own; the smallest of
the turns counts. Held-out sentences are tagged by Viterbi. The data are read from the folder ``nlp`` of
``BELIEFS_DATA``.
"""

from __future__ import annotations

import argparse
import statistics

from benchmarks.frame import Options, Result, Run, Suite, say
from benchmarks.jobs import Answer
from benchmarks.learning.chunking import data
from benchmarks.tables import plain

FIRST = 3  # iterations that are not counted: their line searches are longer
SIDES = {"ours_1": "beliefs, 1 thread", "peer": "CRFsuite", "ours_2": "beliefs, 2 threads"}


# -- the run ----------------------------------------------------------------------------------------------------------
def add_options(parser: argparse.ArgumentParser) -> None:
    """Add how long, how often, and the ridge."""
    parser.add_argument("--iterations", type=int, default=400, help="iterations at most")
    parser.add_argument("--turns", type=int, default=2, help="runs of each side")
    parser.add_argument("--c2", type=float, default=1.0, help="the ridge, in CRFsuite's scale")


def settle(options: Options) -> None:
    """Shorten a quick run."""
    options.limit = 1000 if options.quick else None
    if options.quick:
        options.iterations, options.turns = min(options.iterations, 30), 1


def measure(run: Run) -> None:
    """Let all sides train in turns."""
    options = run.options
    run.result |= {"sides": {}, "c2": options.c2, "limit": options.limit}
    request = {"task": "train", "c2": options.c2, "iterations": options.iterations, "limit": options.limit}
    for turn in range(options.turns):
        for side in options.parts:
            peer = side == "peer"
            if peer and options.no_peers:
                continue
            say(f"turn {turn + 1}: {SIDES[side]}")
            module = f"benchmarks.learning.chunking.{'peers' if peer else 'ours'}"
            found = run.ask(module, request | {"threads": 2 if side == "ours_2" else 1}, SIDES[side], peer)
            if "failed" not in found:
                run.result["sides"].setdefault(side, []).append(_summary(found))


def _summary(found: Answer) -> Answer:
    """Return a run with the medians of its iterations in the place of all its marks."""
    marks = found.pop("marks")
    each = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(marks[:-1], marks[1:], strict=True)][FIRST:]
    return found | {
        "iterations": len(marks),
        "loss": marks[-1][2],
        "wall": statistics.median(wall for wall, _ in each),
        "processor": statistics.median(processor for _, processor in each),
    }


# -- tables -----------------------------------------------------------------------------------------------------------
def page(result: Result, options: Options | None = None) -> str:
    """Return the measurements as Markdown."""
    head = ["", "ms an iteration", "of CRFsuite's", "processor ms", "iterations", "evaluations", "loss", "F1",
            "reading s", "training s", "tagging s"]  # fmt: skip
    peer = result["sides"].get("peer")
    rows = []
    for side, runs in result["sides"].items():
        best = min(runs, key=lambda run: run["wall"])
        ratio = f"{best['wall'] / min(run['wall'] for run in peer):.2f}" if peer else ""
        row = [SIDES[side], f"{1e3 * best['wall']:.0f}", ratio]
        row += [f"{1e3 * min(run['processor'] for run in runs):.0f}", str(best["iterations"])]
        row += [str(best["evaluations"]), f"{best['loss']:.1f}", f"{best['f1']:.2f}"]
        rows.append(row + [f"{best[name]:.1f}" for name in ("read", "seconds", "tagging")])
    ours = next((runs[0] for side, runs in result["sides"].items() if side != "peer"), None)
    about = f"load before the run {result['machine']['load_before']}, {result['machine']['cores']} cores"
    if ours is not None:
        about = (
            f"{ours['n_tokens']} tokens, {ours['n_weights']} weights, c2 = {result['c2']:g}; attributes of all tokens "
            f"made in {ours['extracting']:.1f} s; {about}"
        )
    lines = [about, "", *plain(head, rows)]
    return "\n".join([*lines, *(["", *(f"- left out: {note}" for note in result["notes"])] if result["notes"] else [])])


def missing() -> str:
    """Return a line where the data are not here."""
    return (
        ""
        if data.folder()
        else ("CoNLL-2000 is not here: set BELIEFS_DATA to a folder with nlp/conll2000_train.txt.gz")
    )


SUITE = Suite(
    "learning.chunking",
    __doc__,
    measure,
    page,
    parts=tuple(SIDES),
    quick="1000 sentences, 30 iterations, one turn",
    has_peers=True,
    add_options=add_options,
    settle=settle,
    missing=missing,
)
