"""Published inference problems: how far answers are from the reference answers, and whether bounds hold.

    python -m benchmarks.uai --task PR|MAR|MMAP [--limit SECONDS] [--processor] [--methods auto,bp] [--all] [--fresh]

The problems are those of ``uai_index.csv`` in the data folder (``BELIEFS_DATA`` or ``--data``): those marked ``core``,
or with ``--all`` every one. References known to be wrong are left out by :func:`beliefs.datasets.uai_instances`.
Results are written after every problem, and a run goes on where the last one ended; ``--fresh`` begins anew. PR and MAR
are one question to the library, so a run for one of them answers the other. ``--only`` takes problems whose key
contains one of the texts, ``--markdown`` the folder of ``uai_pr.inc`` and so on. What is asked and checked is in
``tasks.py``, how answers are scored in ``scores.py``, the tables are in ``tables.py``.
"""

from __future__ import annotations

import argparse
import json
import time

from beliefs.datasets import UaiInstance, uai_instances
from beliefs.errors import FormatError
from benchmarks.frame import Options, Result, Run, Suite, say, write_json
from benchmarks.uai import tables
from benchmarks.uai.scores import score
from benchmarks.uai.tasks import DOORS, asked, described, door_tasks

QUICK_LIMIT, QUICK_MOST = 2.0, 5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the question, the methods, the limit, and how much of the collection."""
    parser.add_argument("--task", default="PR,MAR", help="PR, MAR, MMAP, with commas between")
    parser.add_argument("--methods", default="auto", help="with commas between, as text")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="for one problem and method; 20")
    parser.add_argument("--processor", action="store_true", help="the limit is processor time: for a busy machine")
    parser.add_argument("--all", action="store_true", help="every problem with a reference, not the core alone")
    parser.add_argument("--most", type=int, metavar="N", help="at most so many problems")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")


def settle(options: Options) -> str | None:
    """Read tasks and methods."""
    options.tasks = options.task.split(",")
    options.methods = _split(options.methods)
    if options.quick:
        options.most = options.most or QUICK_MOST
    options.limit = options.limit or (QUICK_LIMIT if options.quick else 20.0)
    return None if set(options.tasks) <= DOORS.keys() else f"the tasks are {', '.join(DOORS)}"


def _split(text: str) -> list[str]:
    """Split at commas outside parentheses: options of a method have commas of their own."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def load(options: Options) -> Result:
    """Return the results so far, or none; those of one method at one door have one time limit."""
    if options.fresh or not options.json.is_file():
        return {"limit": options.limit, "limits": {}, "problems": {}, "runs": {}}
    stored: Result = json.loads(options.json.read_text())
    found = {name: stored[name] for name in ("limit", "machine", "problems", "runs")}
    found["limits"] = stored.get("limits", {})
    usual = {"seconds": found["limit"], "processor": False}
    for door in dict.fromkeys(DOORS[task] for task in options.tasks):
        limits = found["limits"].setdefault(door, {})
        for method in options.methods:
            if method not in found["runs"].get(door, {}):
                limits[method] = own_limit(options)
            elif limits.get(method, usual) != own_limit(options):
                raise SystemExit(
                    f"{options.json} has results of {method} for another limit: give another --json, or --fresh"
                )
    return found


def own_limit(options: Options) -> Result:
    """Return the limit of this run's methods: seconds, and whether the processor's are counted."""
    return {"seconds": options.limit, "processor": options.processor}


def measure(run: Run) -> None:
    """Ask every method about every problem that was not asked before."""
    options = run.options
    run.result |= load(options)
    if options.processor:
        time.perf_counter = time.process_time
    try:
        known = uai_instances(core=None if options.all else True)
    except FileNotFoundError as error:
        raise SystemExit(f"{error}; published problems are not part of the package") from None
    for door in dict.fromkeys(DOORS[task] for task in options.tasks):
        posed = [p for p in known if door_tasks(p, door)]
        chosen = [p for p in posed if any(text in p.key for text in options.only or [""])][: options.most]
        for number, problem in enumerate(chosen, 1):
            lines = _ask(run.result, problem, door, options)
            if lines:
                say(f"{number}/{len(chosen)} {problem.key}: {'; '.join(lines)}")
                write_json(options.json, run.result)


def _ask(result: Result, problem: UaiInstance, door: str, options: Options) -> list[str]:
    """Ask the methods that have not answered yet; return one piece of text each."""
    runs = result["runs"].setdefault(door, {})
    todo = [m for m in options.methods if problem.key not in runs.setdefault(m, {})]
    if not todo:
        return []
    try:
        graph = problem.conditioned()
    except FormatError as error:
        say(f"left out: {error}")
        return []
    known = result["problems"].setdefault(door, {})
    if problem.key not in known:
        known[problem.key] = described(problem, graph, door)
    for method in todo:
        runs[method][problem.key] = asked(problem, graph, known[problem.key], door, method, options.limit)
    return [f"{method} {_brief(runs[method][problem.key], known[problem.key])}" for method in todo]


def _brief(entry: Result, about: Result) -> str:
    if "failed" in entry:
        return f"{entry['failed']} ({entry['seconds']:.1f} s)"
    parts = []
    for task, error in entry["errors"].items():
        worth = score(task, error, about["trivial"].get(task))
        parts.append(f"{task} {'inf' if error is None else format(error, '+.3g')} (score {worth:.1f})")
    interval = f"[{_number(entry['lower'], '-inf')}, {_number(entry['upper'], 'inf')}]"
    wrong = f", WRONG SIDE: {', '.join(entry['wrong_side'])}" if entry["wrong_side"] else ""
    state = "exact" if entry["bound"] == "EXACT" and entry["lower"] == entry["upper"] else interval
    return f"{' '.join(parts)} {state} ({entry['status'].lower()}, {entry['seconds']:.1f} s){wrong}"


def _number(value: float | None, infinity: str) -> str:
    return infinity if value is None else f"{value:.6g}"


def pages(result: Result, options: Options) -> dict[str, str]:
    """Return the tables of each task."""
    return {
        f"uai_{task.lower()}.inc": tables.page(result, task, DOORS[task], options.methods) for task in options.tasks
    }


SUITE = Suite(
    "uai",
    __doc__,
    measure,
    pages,
    quick=f"{QUICK_MOST} problems, {QUICK_LIMIT:g} s each",
    add_options=add_options,
    settle=settle,
)
