"""Published inference problems: how far approximate answers are from the reference answers.

    python benchmarks/uai.py [--task PR,MAR] [--methods bp,trw,mean_field] [--limit SECONDS] [--all] [--fresh]

The problems are those of ``uai_index.csv`` in the data folder (``BELIEFS_DATA`` or ``--data``): those marked ``core``,
or with ``--all`` every one. References known to be wrong are left out by :func:`beliefs.datasets.uai_instances`.
Results are written after every problem, and a run goes on where the last one ended; ``--fresh`` begins anew. How
answers are scored is in ``uai_scores.py``, the tables are in ``uai_tables.py``. A question is data (``DOORS``,
``TASKS``): a further one is a door that answers it and a score that compares it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
import numpy as np
import uai_tables
from uai_scores import log10_error, mean_hellinger, up_to_digits

import beliefs as bl
from beliefs.datasets import UaiInstance, uai_instances
from beliefs.errors import BeliefsError

RESULTS = Path(__file__).parent / "results" / "local" / "uai.json"
METHODS = ("bp", "trw", "mean_field")

Result = dict[str, Any]


# -- questions --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Task:
    """A question of the competitions: the door that answers it, and the score of the answer."""

    door: str
    score: Callable[[UaiInstance, bl.FactorGraph, Any], float]


def _score_log_z(problem: UaiInstance, graph: bl.FactorGraph, answer: bl.InferenceResult) -> float:
    assert problem.log_z is not None
    return up_to_digits(log10_error(answer.log_z, problem.log_z), problem.log_z_error / math.log(10.0))


def _score_marginals(problem: UaiInstance, graph: bl.FactorGraph, answer: bl.InferenceResult) -> float:
    reference = problem.marginals()
    assert reference is not None
    found = np.split(answer.mu_var, graph.layout.state_ptr[1:-1])
    return mean_hellinger(found, reference, graph.layout.observed.tolist())


DOORS: dict[str, Callable[[bl.FactorGraph, str, float], Any]] = {
    "infer": lambda graph, method, limit: bl.infer(graph, method, time_limit=limit, threads=1),
}
TASKS = {"PR": Task("infer", _score_log_z), "MAR": Task("infer", _score_marginals)}


# -- running ----------------------------------------------------------------------------------------------------------
def parsed(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="PR,MAR", help="with commas between")
    parser.add_argument("--methods", default=",".join(METHODS), help="with commas between, as text")
    parser.add_argument("--limit", type=float, default=20.0, metavar="SECONDS", help="for one problem and method")
    parser.add_argument("--all", action="store_true", help="every problem with a reference, not the core alone")
    parser.add_argument("--only", metavar="TEXT", help="problems whose key contains this")
    parser.add_argument("--most", type=int, metavar="N", help="at most so many problems")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--data", metavar="FOLDER", help="data sets; the environment's BELIEFS_DATA otherwise")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="where the results go")
    parser.add_argument("--markdown", type=Path, metavar="FOLDER", help="where the tables go: uai_pr.inc, uai_mar.inc")
    parser.add_argument("--from", dest="stored", type=Path, metavar="FILE", help="run nothing: show this JSON file")
    options = parser.parse_args(arguments)
    if options.data is not None:
        os.environ["BELIEFS_DATA"] = options.data
    options.tasks = options.task.split(",")
    if not set(options.tasks) <= TASKS.keys():
        parser.error(f"the tasks are {', '.join(TASKS)}")
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


def empty(options: argparse.Namespace) -> Result:
    """Return a result without runs."""
    return {"limit": options.limit, "machine": machine.description(), "problems": {}, "runs": {}}


def load(options: argparse.Namespace) -> Result:
    """Return the results so far, or none."""
    if options.fresh or not options.json.is_file():
        return empty(options)
    stored: Result = json.loads(options.json.read_text())
    return stored if stored["limit"] == options.limit else empty(options)


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
    known = [p for p in uai_instances(core=None if options.all else True) if p.tasks & set(options.tasks)]
    chosen = [p for p in known if options.only is None or options.only in p.key][: options.most]
    doors = list(dict.fromkeys(TASKS[task].door for task in options.tasks))
    for number, problem in enumerate(chosen, 1):
        todo = [
            (door, method)
            for door in doors
            for method in options.methods
            if problem.key not in result["runs"].setdefault(door, {}).setdefault(method, {})
        ]
        if not todo:
            continue
        graph = problem.conditioned()
        result["problems"][problem.key] = _described(problem)
        for door, method in todo:
            result["runs"][door][method][problem.key] = asked(problem, graph, door, method, options.limit)
        lines = [f"{m} {_brief(result['runs'][door][m][problem.key])}" for door, m in todo]
        say(f"{number}/{len(chosen)} {problem.key}: {'; '.join(lines)}")
        save(result, options.json)
    return result


def _described(problem: UaiInstance) -> Result:
    return {
        "n_vars": problem.n_vars,
        "n_factors": problem.n_factors,
        "width": problem.width,
        "log10_z": None if problem.log_z is None else str(problem.log_z / math.log(10.0)),  # may be -inf
        "tasks": sorted(problem.tasks),
    }


def asked(problem: UaiInstance, graph: bl.FactorGraph, door: str, method: str, limit: float) -> Result:
    """Ask once and score; a failure is a line. Scores that are infinite are written as null.

    A proof that Z is 0 is an answer, right where the reference says so.
    """
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.ConvergenceWarning)
            answer = DOORS[door](graph, method, limit)
    except bl.ZeroProbabilityError:
        scores = {"PR": log10_error(-math.inf, problem.log_z)} if problem.log_z is not None else {}
        return _entry("PROVED", "EXACT", 0, start, scores)
    except (BeliefsError, MemoryError) as error:
        return {"failed": f"{type(error).__name__}: {error}"[:200], "seconds": time.perf_counter() - start}
    scores = {
        name: task.score(problem, graph, answer)
        for name, task in TASKS.items()
        if task.door == door and name in problem.tasks
    }
    return _entry(answer.status.name, answer.bound.name, answer.n_iters, start, scores)


def _entry(status: str, bound: str, iterations: int, start: float, scores: dict[str, float]) -> Result:
    return {
        "status": status,
        "bound": bound,
        "iterations": iterations,
        "seconds": time.perf_counter() - start,
        "scores": {name: score if math.isfinite(score) else None for name, score in scores.items()},
    }


def _brief(entry: Result) -> str:
    if "failed" in entry:
        return entry["failed"]
    scores = [f"{task} {'inf' if s is None else format(s, '+.3g')}" for task, s in entry["scores"].items()]
    return f"{' '.join(scores)} ({entry['status'].lower()}, {entry['seconds']:.1f} s)"


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
        text = uai_tables.page(result, task, TASKS[task].door, options.methods)
        print(text)
        if options.markdown is not None:
            options.markdown.mkdir(parents=True, exist_ok=True)
            (options.markdown / f"uai_{task.lower()}.inc").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
