"""Two checkouts compared: is anything slower after a change, and are the answers the same?

    python benchmarks/compare.py --before PATH [--after PATH] [--quick] [--only TEXTS] [--json FILE] [--from FILE]

The calls of ``compare_calls.py`` are timed in fresh processes of the two trees in alternation, and so are first
imports and first answers with an empty cache of kernels, with the number of signatures that these compile. What counts
is the least processor time over all rounds: other programs can only add to it. A row is measured again as long as one
of its two figures still falls, and longer where they differ; the rest of the time is not used. Times of the two trees
are comparable; those of two runs are not.

``PATH`` is a checkout (or its ``src``); after is this one unless another is named. Kernels that are not in the trees'
caches are compiled in the first round, outside of the clock; two rounds are made however long that takes.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.compare_calls import rows
from benchmarks.first_answer import QUESTIONS
from benchmarks.frame import Options, Result, Run, Suite, say
from benchmarks.jobs import ONE_THREAD, ROOT, ProcessError, processor_seconds
from benchmarks.tables import seconds, table

CALLS = Path(__file__).parent / "compare_calls.py"
TREES = ("before", "after")
MOVED = 0.01  # a figure that has fallen by less has not moved
QUIET, CLOSELY = 2, 4  # rounds without a move that are enough: of rows that are alike, of rows that differ
ALIKE = 0.02  # ratios that are nearer to one are alike
LIMIT, QUICK_LIMIT = 840.0, 150.0  # seconds of a run: no round begins that would end later
FEWEST = 2  # rounds
TURNS, ENOUGH = 5, 1.0  # short processes in a round, at most; processor seconds of them that are enough
WORST = 5  # rows
COMPILATIONS = 2  # rounds of what is compiled: those are slow, and steadier than the rest
UNLIKE = "one of the trees interprets kernels in young processes and cannot be told otherwise"

PROCESSES = {
    "import": "import beliefs",
    "import, estimators": "from beliefs import ChainCRF, GraphCRF, GridCRF",
    "first answer, alarm": QUESTIONS["exact"],
}
COMPILED = {
    "compiling, bp": QUESTIONS["bp"],
    "compiling, ChainCRF.fit": QUESTIONS["chain fit"],
    "compiling, mean_field": "import beliefs as bl; bl.infer(bl.datasets.make_ising_grid(30, seed=0), 'mean_field')",
}
QUICK_LARGE = (
    "bp, 100x100", "trw, 100x100", "mean_field, 100x100", "gdd, 40x40", "junction_tree, andes", "junction_tree, 12x12",
    "GridCRF.fit, 50x50", "ChainCRF.fit, 200 of 30", "GraphCRF.fit, 200 rings",
)  # fmt: skip


# -- processes --------------------------------------------------------------------------------------------------------
def sources(path: Path) -> Path:
    """Return the folder of a checkout that Python imports from."""
    for folder in (path / "src", path):
        if (folder / "beliefs" / "__init__.py").is_file():
            return folder.resolve()
    raise SystemExit(f"{path} has no package beliefs, neither in src nor in itself")


def process(tree: Path, arguments: list[str], **variables: str) -> tuple[float, str]:
    """Run Python with the package of a tree; return its processor seconds and what it printed."""
    variables |= ONE_THREAD | {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    return processor_seconds(["-P", *arguments], **variables)


def calls(tree: Path, names: Iterable[str], each: float) -> list[Result]:
    """Time calls in one process of a tree, about ``each`` seconds a call."""
    try:
        _, printed = process(tree, [str(CALLS), str(each), *names])
    except ProcessError as error:
        raise SystemExit(f"{tree}: {error}") from None
    return [json.loads(line) for line in printed.splitlines()]


def compiling(tree: Path, code: str) -> Result:
    """Return the processor seconds of a process with an empty cache of kernels, and how many signatures it leaves."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            spent, _ = process(tree, ["-c", code], NUMBA_CACHE_DIR=folder)
        except ProcessError as error:
            return {"failed": str(error)}
        return {"seconds": spent, "signatures": sum(1 for _ in Path(folder).rglob("*.nbc"))}


# -- rows -------------------------------------------------------------------------------------------------------------
@dataclass
class Row:
    """What was found about one row: the least seconds, the digests of answers and the signatures of each tree."""

    name: str
    most: float = math.inf
    """Rounds at most."""

    rounds: int = 0
    quiet: int = 0
    failed: str = ""
    least: dict[str, float] = field(default_factory=dict)
    digests: dict[str, set[str]] = field(default_factory=lambda: {tree: set() for tree in TREES})
    signatures: dict[str, int] = field(default_factory=dict)

    def add(self, found: dict[str, Result]) -> None:
        """Add a round: what both trees have found."""
        self.failed = "; ".join(f"{tree}: {f['failed']}" for tree, f in found.items() if "failed" in f)
        if self.failed:
            return
        moved = False
        for tree, figures in found.items():
            known, new = self.least.get(tree, math.inf), figures["seconds"]
            moved |= new < (1.0 - MOVED) * known
            self.least[tree] = min(known, new)
            if "digest" in figures:
                self.digests[tree].add(figures["digest"])
            if "signatures" in figures:
                self.signatures[tree] = figures["signatures"]
        self.rounds, self.quiet = self.rounds + 1, 0 if moved else self.quiet + 1

    @property
    def ratio(self) -> float:
        """After over before."""
        return self.least["after"] / self.least["before"]

    @property
    def is_done(self) -> bool:
        """Whether its figures have come to rest, or there is nothing more to do about it."""
        if self.failed or self.rounds >= self.most:
            return True
        return bool(self.least) and self.quiet >= (QUIET if abs(self.ratio - 1.0) < ALIKE else CLOSELY)

    @property
    def answers(self) -> str:
        """Whether the answers are the same bytes; those that vary between two runs of one tree say nothing."""
        before, after = (self.digests[tree] for tree in TREES)
        if not before:
            return ""
        return "vary" if len(before) > 1 or len(after) > 1 else "same" if before == after else "DIFFER"

    def entry(self) -> Result:
        """Return it for a file."""
        found = {"name": self.name, "answers": self.answers, "at_rest": self.is_done, "rounds": self.rounds}
        return found | {"failed": self.failed, "signatures": self.signatures, **self.least}


def chosen(options: Options) -> list[str]:
    """Return the names of the rows to be measured: calls, processes, and what they compile."""
    known = [*rows(), *PROCESSES, *COMPILED]
    if options.only is not None:
        return [name for name in known if any(text in name for text in options.only)]
    if options.quick:
        small = [name for name in rows() if name.endswith("small")]
        return [*small, *QUICK_LARGE, *PROCESSES, next(iter(COMPILED))]
    return known


# -- the run ----------------------------------------------------------------------------------------------------------
def measure(run: Run) -> None:
    """Take rounds until all figures are at rest or the time is over."""
    options = run.options
    trees = {tree: sources(getattr(options, tree)) for tree in TREES}
    found = [Row(name, COMPILATIONS if name in COMPILED else math.inf) for name in chosen(options)]
    began, rounds, longest = time.time(), 0, 0.0
    while rounds < FEWEST or time.time() - began + longest < options.limit:
        started = time.time()
        active = [row for row in found if not row.is_done]
        if not active:
            break
        for row, figures in _round(run, trees, active, began + options.limit):
            row.add(figures)
        rounds, longest = rounds + 1, time.time() - started
        say(f"round {rounds}: {len(active)} rows, {longest:.0f} s")
    run.result |= {"rounds": rounds, "rows": [row.entry() for row in found]}
    for row in found:
        if row.failed:
            run.note(f"{row.name}: {row.failed}")


def _round(
    run: Run, trees: dict[str, Path], active: list[Row], until: float
) -> Iterator[tuple[Row, dict[str, Result]]]:
    """Measure rows once, in one tree after the other; yield what was found. Late, what has a figure is left out."""
    timed = [row.name for row in active if row.name not in PROCESSES and row.name not in COMPILED]
    heads, answers = {}, {}
    for tree, path in trees.items() if timed else ():
        heads[tree], *rest = calls(path, timed, run.options.each)
        answers[tree] = {answer["name"]: answer for answer in rest}
    if timed and heads["before"] != heads["after"] and UNLIKE not in run.result["notes"]:
        run.note(UNLIKE)
    for row in active:
        if row.rounds and time.time() > until and row.name not in timed:
            continue
        if row.name in PROCESSES:
            yield row, _processes(trees, PROCESSES[row.name])
        elif row.name in COMPILED:
            yield row, {tree: compiling(path, COMPILED[row.name]) for tree, path in trees.items()}
        else:
            yield row, {tree: found[row.name] for tree, found in answers.items()}


def _processes(trees: dict[str, Path], code: str) -> dict[str, Result]:
    """Run short processes in alternation; return the best of each tree."""
    turns: list[dict[str, float]] = []
    while len(turns) < TURNS and sum(sum(turn.values()) for turn in turns) < ENOUGH:
        try:
            turns.append({tree: process(path, ["-c", code])[0] for tree, path in trees.items()})
        except ProcessError as error:
            return {tree: {"failed": str(error)} for tree in trees}
    return {tree: {"seconds": min(turn[tree] for turn in turns)} for tree in trees}


# -- tables -----------------------------------------------------------------------------------------------------------
def page(result: Result, options: Options) -> str:
    """Return all rows, the geometric mean of their ratios, and the worst."""
    measured = [row for row in result["rows"] if "after" in row]
    ratios = {row["name"]: row["after"] / row["before"] for row in measured}
    shown = [
        [row["name"], *(seconds(row[tree]) for tree in TREES), f"{ratios[row['name']]:.3f}", row["answers"],
         *(str(row["signatures"].get(tree, "")) for tree in TREES), "" if row["at_rest"] else "not at rest"]
        for row in measured
    ]  # fmt: skip
    lines = [table(["row", *TREES, "after / before", "answers", "signatures", "after", ""], shown), ""]
    if ratios:
        mean, worst = statistics.geometric_mean(ratios.values()), sorted(ratios, key=lambda name: -ratios[name])
        lines.append(f"Geometric mean of {len(ratios)} ratios: {mean:.3f}, after {result['rounds']} rounds.")
        lines.append(f"The worst: {', '.join(f'{name} {ratios[name]:.3f}' for name in worst[:WORST])}.")
    differ = [row["name"] for row in measured if row["answers"] == "DIFFER"]
    lines.append(f"Answers that differ: {', '.join(differ) or 'none'}.")
    return "\n".join([*lines, *(f"- {note}" for note in result["notes"])])


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the two trees and the time."""
    parser.add_argument("--before", type=Path, metavar="PATH", help="the checkout to compare with")
    parser.add_argument("--after", type=Path, default=ROOT, metavar="PATH", help="the checkout that is compared")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help=f"of the run; {LIMIT:g}, quick {QUICK_LIMIT:g}")


def settle(options: Options) -> str | None:
    """Choose times."""
    options.limit = options.limit or (QUICK_LIMIT if options.quick else LIMIT)
    options.each = 0.1 if options.quick else 0.2
    return None if options.stored or options.before else "name a checkout to compare with: --before PATH"


SUITE = Suite(
    "compare",
    __doc__,
    measure,
    page,
    quick="small models and some large ones: three minutes",
    add_options=add_options,
    settle=settle,
)

if __name__ == "__main__":
    SUITE.main()
