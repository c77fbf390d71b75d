"""Published inference problems: how far answers are from the reference answers, and whether bounds hold.

    python benchmarks/uai.py --task PR|MAR|MMAP [--limit SECONDS] [--methods auto,bp,trw] [--all] [--fresh]

The problems are those of ``uai_index.csv`` in the data folder (``BELIEFS_DATA`` or ``--data``): those marked ``core``,
or with ``--all`` every one. References known to be wrong are left out by :func:`beliefs.datasets.uai_instances`.
Results are written after every problem, and a run goes on where the last one ended; ``--fresh`` begins anew. PR and MAR
are one question to the library, so a run for one of them answers the other. What is asked and checked is in
``uai_tasks.py``, how answers are scored in ``uai_scores.py``, the tables are in ``uai_tables.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import machine
import uai_tables
from uai_scores import score
from uai_tasks import DOORS, asked, described, door_tasks

from beliefs.datasets import UaiInstance, uai_instances
from beliefs.errors import FormatError

RESULTS = Path(__file__).parent / "results" / "local" / "uai.json"

Result = dict[str, Any]


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="PR,MAR", help="PR, MAR, MMAP, with commas between")
    parser.add_argument("--methods", default="auto", help="with commas between, as text")
    parser.add_argument("--limit", type=float, default=20.0, metavar="SECONDS", help="for one problem and method")
    parser.add_argument("--all", action="store_true", help="every problem with a reference, not the core alone")
    parser.add_argument("--only", metavar="TEXT", help="problems whose key contains this")
    parser.add_argument("--most", type=int, metavar="N", help="at most so many problems")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--data", metavar="FOLDER", help="data sets; the environment's BELIEFS_DATA otherwise")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="where the results go")
    parser.add_argument("--markdown", type=Path, metavar="FOLDER", help="where the tables go: uai_pr.inc and so on")
    parser.add_argument("--from", dest="stored", type=Path, metavar="FILE", help="run nothing: show this JSON file")
    options = parser.parse_args(arguments)
    if options.data is not None:
        os.environ["BELIEFS_DATA"] = options.data
    options.tasks = options.task.split(",")
    if not set(options.tasks) <= DOORS.keys():
        parser.error(f"the tasks are {', '.join(DOORS)}")
    options.methods = _split(options.methods)
    return options


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


def say(text: str) -> None:
    """Tell the one who waits."""
    print(text, file=sys.stderr, flush=True)


def load(options: argparse.Namespace) -> Result:
    """Return the results so far, or none; those of another time limit are not mixed in, nor overwritten."""
    if options.fresh or not options.json.is_file():
        return {"limit": options.limit, "machine": machine.description(), "problems": {}, "runs": {}}
    stored: Result = json.loads(options.json.read_text())
    if stored["limit"] != options.limit:
        raise SystemExit(f"{options.json} has results for {stored['limit']:g} s: give another --json, or --fresh")
    return stored


def save(result: Result, path: Path) -> None:
    """Write the results whole."""
    result |= {"date": time.strftime("%Y-%m-%d", time.gmtime()), "versions": machine.versions()}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1) + "\n")
    part.replace(path)


def run(options: argparse.Namespace) -> Result:
    """Ask every method about every problem that was not asked before."""
    result = load(options)
    for door in dict.fromkeys(DOORS[task] for task in options.tasks):
        known = [p for p in uai_instances(core=None if options.all else True) if door_tasks(p, door)]
        chosen = [p for p in known if options.only is None or options.only in p.key][: options.most]
        for number, problem in enumerate(chosen, 1):
            lines = _ask(result, problem, door, options)
            if lines:
                say(f"{number}/{len(chosen)} {problem.key}: {'; '.join(lines)}")
                save(result, options.json)
    return result


def _ask(result: Result, problem: UaiInstance, door: str, options: argparse.Namespace) -> list[str]:
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


def main(arguments: list[str]) -> None:
    """Run or load, then print and write."""
    options = parsed(arguments)
    if options.stored is not None:
        result: Result = json.loads(options.stored.read_text())
    else:
        try:
            result = run(options)
        except FileNotFoundError as error:
            raise SystemExit(f"{error}; published problems are not part of the package") from None
    for task in options.tasks:
        text = uai_tables.page(result, task, DOORS[task], options.methods)
        print(text)
        if options.markdown is not None:
            options.markdown.mkdir(parents=True, exist_ok=True)
            (options.markdown / f"uai_{task.lower()}.inc").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
