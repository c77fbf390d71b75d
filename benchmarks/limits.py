"""Time limits on published problems: by how much each answer is late.

    python -m benchmarks.limits [--limit SECONDS] [--tasks infer,maximize,marginal_map] [--only TEXTS] [--processor]
    python -m benchmarks.limits --limit 20 --sample 30 --processor     # ten minutes of a processor

Every problem of the data folder (``BELIEFS_DATA`` or ``--data``) is asked with a short limit, one thread, and the worst
are printed; marginal MAP where the problem has a query. ``--only`` takes problems whose key contains one of the texts;
``--sample`` draws so many questions (from a seed), no folder's and no task's second one before every other's first.
Kernels are loaded by small models first, for compiling does not count. On a busy machine give ``--processor``: the
library's clock is then processor time, and what other programs do is not measured with it.
"""

from __future__ import annotations

import argparse
import os
import random
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

from benchmarks.frame import Options, Result, Run, Suite, names, say

ALLOWED = 0.1, 1.0  # share of the limit, and seconds, that an answer may be late
SHOWN = 10
QUICK_MOST = 5

Question = tuple[Any, str]  # a problem and a task


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the question, the limit and its clock."""
    parser.add_argument("--limit", type=float, default=2.0, metavar="SECONDS")
    parser.add_argument("--tasks", type=names, default="infer,maximize,marginal_map", help="with commas between")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--most", type=int, metavar="N", help="at most so many problems")
    parser.add_argument("--sample", type=int, metavar="N", help="so many questions, of all folders and tasks in turn")
    parser.add_argument("--processor", action="store_true", help="limits in processor time")


def asked(task: str, graph: Any, query: Any, method: str, limit: float) -> str:
    """Ask one question; return how it ended."""
    import beliefs as bl

    options: dict[str, Any] = {"time_limit": limit, "threads": 1, "max_bytes": 4 * 10**9}
    arguments = (graph, query) if task == "marginal_map" else (graph,)
    try:
        result = getattr(bl, task)(*arguments, method, **options)
    except bl.BeliefsError as error:
        return f"{type(error).__name__}: {error}"[:100]
    return f"{result.status}, {result.method}"


def load_kernels(tasks: list[str], method: str) -> None:
    """Ask about small models of every kind."""
    import beliefs as bl

    for graph in (bl.datasets.make_ising_grid(22, seed=0), bl.datasets.load_bn("alarm")):
        for task in tasks:
            asked(task, graph, list(range(0, graph.n_vars, 2)), method, 4.0)


def measure(run: Run) -> None:
    """Ask everything; the library is imported after its clock was chosen."""
    options = run.options
    if options.processor:
        time.perf_counter = time.process_time  # type: ignore[assignment]
    import beliefs as bl

    run.result |= {"limit": options.limit, "late": []}
    warnings.simplefilter("ignore", bl.ConvergenceWarning)
    load_kernels(options.tasks, options.method)
    wanted, most = options.only or [""], options.most or (QUICK_MOST if options.quick else None)
    problems = [p for p in bl.datasets.uai_instances() if any(text in p.key for text in wanted)]
    questions = [(p, task) for p in problems[:most] for task in options.tasks if task != "marginal_map" or p.n_query]
    for problem, task in questions if options.sample is None else sample(questions, options.sample):
        graph = problem.conditioned()
        query = [v for v in problem.query() or () if not graph.layout.observed[v]]
        if task == "marginal_map" and not query:
            continue
        began = time.perf_counter()
        ending = asked(task, graph, query, options.method, options.limit)
        late = {"by": time.perf_counter() - began - options.limit, "what": f"{problem.key} {task}: {ending}"}
        run.result["late"].append(late)
        say(_line(late))


def sample(questions: list[Question], n: int) -> list[Question]:
    """Draw questions: one of each folder, then another of each, with its tasks in turn."""
    drawn = random.Random(0).sample(questions, len(questions))
    by_task = _in_turn(drawn, lambda problem, task: (_folder(problem), task))
    return _in_turn(by_task, lambda problem, task: _folder(problem))[:n]


def _in_turn(questions: list[Question], of: Callable[[Any, str], Any]) -> list[Question]:
    """Return the first questions of all kinds, then the second ones, and so on."""
    seen: Counter[Any] = Counter()
    turns = []
    for question in questions:
        turns.append(seen[of(*question)])
        seen[of(*question)] += 1
    return [questions[k] for k in sorted(range(len(questions)), key=turns.__getitem__)]


def _folder(problem: Any) -> str:
    return str(problem.key.rpartition("/")[0])


def _line(late: Result) -> str:
    return f"{late['by']:+7.2f} s  {late['what']}"


def page(result: Result, options: Options) -> str:
    """Return how many answers were late, and the latest of all."""
    late, allowed = result["late"], ALLOWED[0] * result["limit"] + ALLOWED[1]
    count = sum(answer["by"] > allowed for answer in late)
    latest = sorted(late, key=lambda answer: -answer["by"])[:SHOWN]
    head = f"{len(late)} questions, {count} later than {allowed:g} s. The latest:"
    return "\n".join([head, "", *(f"    {_line(answer)}" for answer in latest)])


def missing() -> str:
    """Return a line where no data folder is named."""
    return "" if os.environ.get("BELIEFS_DATA") else "Published problems are not here: set BELIEFS_DATA or give --data"


SUITE = Suite(
    "limits", __doc__, measure, page, quick=f"{QUICK_MOST} problems", add_options=add_options, missing=missing
)

if __name__ == "__main__":
    SUITE.main()
