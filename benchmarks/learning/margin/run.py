"""Max-margin learning: ours beside CRFsuite, LIBLINEAR and dlib, two threads beside one, and memory, in one run.

    python -m benchmarks.learning.margin [--quick] [--only PARTS] [--turns N] [--peers-python FILE] [--json FILE]

=========  ========================================  =================================================================
part       ours                                      beside
=========  ========================================  =================================================================
pass       a pass of ``bcfw`` over all words         an iteration of CRFsuite's ``pa``: both make a Viterbi search and
                                                     an update a word
gap        ``bcfw`` on fold 1, until the gap is 1 %  LIBLINEAR's Crammer-Singer machine on the same letters, whose
           of the objective                          problem has no chain
planes     ``one_slack`` on 600 digits, until the    dlib's cutting planes, with the search in Python, to a gap of the
           gap is 1e-3 of the objective              same size
threads    matrix products alone, an evaluation,     the same on one thread, by the wall clock
           ``one_slack``, ``cccp`` on two threads
hidden     an evaluation at temperatures (0, 1),     one of the likelihood of the same words
           three labels of ten hidden
memory     what ``bcfw`` allocates in a fit          8 bytes a cell of ``theta``; 8 bytes a weight for each word, which
                                                     it does without
=========  ========================================  =================================================================

The time of a pass is the difference of two fits with different numbers of passes. Sides take turns, each in a process
of its own; the turn with the least processor time counts. The data are read from the folder ``structured`` of
``BELIEFS_DATA``. A further part is a task in ``ours.py`` and ``peers.py``, and a row in ``PARTS``.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

from benchmarks.frame import Options, Result, Run, Suite, say
from benchmarks.learning.margin import data
from benchmarks.tables import plain, seconds, size, times

_RISK = 0.065  # the objective of the digits divided by C and their number, which dlib's tolerance is relative to


class Part(NamedTuple):
    """A comparison: what is timed on either side, and the ratio of their times that is hoped for."""

    ours: str
    peer: str
    target: str


PARTS = {
    "pass": Part("a pass of bcfw", "an iteration of CRFsuite's pa", "at most 0.5"),
    "gap": Part("bcfw, fold 1, to a gap of 1 %", "LinearSVC, crammer_singer", "at most 3"),
    "planes": Part("one_slack, 600 digits, to 1e-3", "dlib, solve_structural_svm_problem", "at most 0.05"),
}


# -- the run ----------------------------------------------------------------------------------------------------------
def add_options(parser: argparse.ArgumentParser) -> None:
    """Add how often, and the price of errors."""
    parser.add_argument("--turns", type=int, default=3, help="runs of each side")
    parser.add_argument("--c", type=float, default=0.1, help="C of all machines")


def settle(options: Options) -> None:
    """Shorten a quick run."""
    options.limit = 1000 if options.quick else None
    options.iterations = [2, 12]
    options.turns = 1 if options.quick else options.turns


def measure(run: Run) -> None:
    """Let all sides work in turns."""
    options = run.options
    request = {"c": options.c, "limit": options.limit, "iterations": options.iterations, "gap": 0.01}
    request |= {"digits": 100 if options.quick else 600, "digits_c": 1.0, "excess": 1e-3, "digits_risk": _RISK}
    run.result |= {"c": options.c, "limit": options.limit, "sides": {}}
    for part in options.parts:
        if part not in PARTS:
            found = run.ask("benchmarks.learning.margin.ours", request | {"task": part}, part)
            run.result[part] = found if "failed" not in found else None
            continue
        for turn in range(options.turns):
            for side in ("ours", "peers"):
                if side == "peers" and options.no_peers:
                    continue
                say(f"turn {turn + 1}: {PARTS[part].ours if side == 'ours' else PARTS[part].peer}")
                module = f"benchmarks.learning.margin.{side}"
                found = run.ask(module, request | {"task": part}, f"{part}, {side}", side == "peers")
                if "failed" not in found:
                    run.result["sides"].setdefault(part, {}).setdefault(side, []).append(found)


# -- tables -----------------------------------------------------------------------------------------------------------
def page(result: Result, options: Options | None = None) -> str:
    """Return the measurements as Markdown."""
    head = ["", "wall", "processor", "an item", "of the peer's", "hoped for", "passes", "objective", "gap"]
    rows = []
    for part, sides in result["sides"].items():
        best = {side: min(runs, key=lambda run: run["processor"]) for side, runs in sides.items()}
        for side, name in (("ours", PARTS[part].ours), ("peers", PARTS[part].peer)):
            if side in best:
                found = best[side]
                ratio = found["processor"] / best["peers"]["processor"] if side == "ours" and "peers" in best else None
                row = [name, seconds(found["wall"]), seconds(found["processor"])]
                row += [seconds(found["processor"] / found["words"]), "" if ratio is None else times(ratio)]
                row += [PARTS[part].target if side == "ours" else "", str(found.get("passes", ""))]
                rows.append(row + [f"{found[key]:.4g}" if key in found else "" for key in ("objective", "gap")])
    lines = [f"C = {result['c']:g}; load before the run {result['machine']['load_before']}", "", *plain(head, rows)]
    if result.get("threads"):
        found = result["threads"]["seconds"]
        lines += [
            "",
            *(f"{name}: {one / two:.2f} times as fast on two threads as on one" for name, (one, two) in found.items()),
        ]
    if result.get("hidden"):
        found = result["hidden"]["seconds"]
        each = (f"{times(ours / theirs)} at {name} weights" for name, (ours, theirs) in found.items())
        lines += ["", f"Hidden labels, marginal machine beside the likelihood: {', '.join(each)}; hoped for: at most 2"]
    if result.get("memory"):
        found = result["memory"]
        lines += [
            "",
            f"Memory, {found['words']} words: {size(found['peak'])} allocated at the peak of a fit; cells of theta "
            f"{size(found['cells'])}, weights for each word would be {size(found['weights'])}",
        ]
    return "\n".join([*lines, *(["", *(f"- left out: {note}" for note in result["notes"])] if result["notes"] else [])])


def missing() -> str:
    """Return a line where the data are not here."""
    return (
        ""
        if data.folder()
        else f"scanned words are not here: set BELIEFS_DATA to a folder with structured/{data.FILES[0]}"
    )


SUITE = Suite(
    "learning.margin",
    __doc__,
    measure,
    page,
    parts=(*PARTS, "threads", "hidden", "memory"),
    quick="1000 words, one turn",
    has_peers=True,
    add_options=add_options,
    settle=settle,
    missing=missing,
)
