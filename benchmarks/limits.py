"""Time limits on published problems: by how much each answer is late.

    python benchmarks/limits.py [--limit SECONDS] [--tasks infer,maximize,marginal_map] [--only TEXT] [--processor]

Every problem of the data folder (``BELIEFS_DATA`` or ``--data``) is asked with a short limit, one thread, and the worst
are printed; marginal MAP where the problem has a query. Kernels are loaded by small models first, for compiling does
not count. On a busy machine give ``--processor``: the library's clock is then processor time, and what other programs
do is not measured with it.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from typing import Any

_parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
_parser.add_argument("--limit", type=float, default=2.0, metavar="SECONDS")
_parser.add_argument("--tasks", default="infer,maximize,marginal_map", help="with commas between")
_parser.add_argument("--method", default="auto")
_parser.add_argument("--only", default="", metavar="TEXT", help="problems whose key contains one of these")
_parser.add_argument("--most", type=int, metavar="N", help="at most so many problems")
_parser.add_argument("--processor", action="store_true", help="limits in processor time")
_parser.add_argument("--data", metavar="FOLDER", help="data sets; the environment's BELIEFS_DATA otherwise")

ALLOWED = 0.1, 1.0  # share of the limit, and seconds, that an answer may be late


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


def main(options: argparse.Namespace) -> None:
    """Ask everything and print the latest."""
    import beliefs as bl

    tasks, late = options.tasks.split(","), []
    warnings.simplefilter("ignore", bl.ConvergenceWarning)
    load_kernels(tasks, options.method)
    problems = [p for p in bl.datasets.uai_instances() if any(text in p.key for text in options.only.split(","))]
    for problem in problems[: options.most]:
        graph = problem.conditioned()
        query = [v for v in problem.query() or () if not graph.layout.observed[v]]
        for task in tasks:
            if task == "marginal_map" and not query:
                continue
            began = time.perf_counter()
            ending = asked(task, graph, query, options.method, options.limit)
            late.append((time.perf_counter() - began - options.limit, f"{problem.key} {task}: {ending}"))
            print(f"{late[-1][0]:+7.2f} s  {late[-1][1]}", flush=True)
    allowed = ALLOWED[0] * options.limit + ALLOWED[1]
    print(f"\n{len(late)} questions, {sum(by > allowed for by, _ in late)} later than {allowed:g} s. The latest:")
    for by, what in sorted(late, reverse=True)[:10]:
        print(f"{by:+7.2f} s  {what}")


if __name__ == "__main__":
    given = _parser.parse_args()
    if given.data is not None:
        os.environ["BELIEFS_DATA"] = given.data
    if given.processor:
        time.perf_counter = time.process_time  # type: ignore[assignment]
    main(given)
