"""The whole call, as somebody waits for it: set-up, sweeps, checks and answer, beside the sweeps or kernels alone.

    python benchmarks/calls.py [--quick] [--only PARTS] [--json FILE] [--markdown FILE] [--from FILE]

Parts: grids (``infer`` on pairwise grids), maxima (``maximize`` on them), factors (published problems of any arity),
others (junction trees, bounds). Every figure is processor time of one thread, the best of several calls to the
default tolerance. *Plan kept*: the same graph again. *Plan new*: a graph built anew, so that orders, schedules and
counting numbers are made in the call. *Sweeps*: as many iterations as the call took, nothing else. *Kernels*: what a
profiler books on compiled functions during the call.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import machine
import numpy as np
from message_cases import LIBDAI_CALLS, PLAIN
from reference_kernel import Reference
from scaling import largest_problems
from tables import seconds, table, times

import beliefs as bl
from beliefs.inference.base import Problem, Task
from beliefs.inference.messages.tiers import LogTier
from beliefs.inference.registry import METHODS
from beliefs.inference.text import parse_method
from beliefs.kernels.messages.linear import OUT_OF_RANGE

RESULTS = Path(__file__).parent / "results" / "local" / "calls.json"
GRIDS, QUICK = ((300, 2), (300, 8), (100, 21)), ((60, 2), (40, 8), (30, 21))
MESSAGES = ("bp", "trw", "fractional_bp", "mean_field")
NETWORKS = ("asia", "alarm", "hailfinder", "win95pts", "andes")
FEW, MANY, ENOUGH = 3, 40, 1.5  # calls at least and at most, and seconds of them that are enough
KERNELS = str(Path(bl.__file__).parent / "kernels")

Result = dict[str, Any]


# -- timing -----------------------------------------------------------------------------------------------------------
def best(run: Callable[[], Any], prepare: Callable[[], Any] = lambda: None) -> tuple[float, Any]:
    """Return the least processor time of several runs, and the last answer; ``prepare`` is not timed."""
    spent: list[float] = []
    while len(spent) < FEW or (sum(spent) < ENOUGH and len(spent) < MANY):
        prepare()
        start = time.process_time()
        answer = run()
        spent.append(time.process_time() - start)
    return min(spent), answer


def in_kernels(run: Callable[[], Any]) -> float:
    """Return the least share of a call's time that is spent in compiled functions, in seconds."""
    found = []
    for _ in range(FEW):
        profile = cProfile.Profile(time.process_time)
        profile.enable()
        run()
        profile.disable()
        stats: Any = pstats.Stats(profile)
        compiled = [
            row[2] for where, row in stats.stats.items() if where[0].startswith(KERNELS) and "_jit" not in where[0]
        ]
        found.append(sum(compiled))
    return min(found)


def sweeps_alone(graph: bl.FactorGraph, text: str, task: Task, n_iters: int) -> float:
    """Return the processor time of as many iterations and nothing else, in the form that the call ends in."""
    method: Any = parse_method(text, METHODS)
    held: dict[str, Any] = {}
    trial = method.init(Problem(graph, task, threads=1))
    in_logs = hasattr(trial, "iterate") and any(trial.iterate() == OUT_OF_RANGE for _ in range(n_iters))

    def begin() -> None:
        held["state"] = state = method.init(Problem(graph, task, threads=1))
        if in_logs:
            state.select_tier((LogTier,), state.spec, None)

    def sweep() -> None:
        state = held["state"]
        for _ in range(n_iters):
            if hasattr(state, "iterate"):
                state.iterate()
            else:
                method.step(state)

    return best(sweep, begin)[0]


def grid(side: int, states: int) -> bl.FactorGraph:
    """Return a random pairwise grid, fields and couplings 0.3 N(0, 1)."""
    rng = np.random.default_rng(states)
    edges = np.ascontiguousarray(bl.datasets.grid_edges(side, side), np.int64)
    unary, pairs = rng.normal(size=(side * side, states)), rng.normal(size=(len(edges), states, states))
    return bl.FactorGraph.pairwise(0.3 * unary, edges, 0.3 * pairs)


def anew(graph: bl.FactorGraph) -> bl.FactorGraph:
    """Return the same graph without its plans."""
    lay = graph.layout
    fresh = type(lay).build(lay.card, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, lay.observed)
    return replace(graph, layout=fresh)


# -- parts ------------------------------------------------------------------------------------------------------------
def whole_call(graph: bl.FactorGraph, text: str, task: Task = Task.INFER) -> Result:
    """Measure one question: plan kept, plan new, with factor marginals, and its sweeps."""
    door = bl.infer if task is Task.INFER else bl.maximize
    kept, answer = best(lambda: door(graph, text, threads=1))
    held: dict[str, bl.FactorGraph] = {}
    new, _ = best(lambda: door(held["graph"], text, threads=1), lambda: held.update(graph=anew(graph)))
    entry = {
        "kept": kept, "new": new, "iterations": answer.n_iters, "status": answer.status.name,
        "sweeps": sweeps_alone(graph, text, task, answer.n_iters),
    }  # fmt: skip
    if task is Task.INFER:
        entry["mu"] = best(lambda: door(graph, text, threads=1).mu)[0]
    else:
        entry["score"] = float(answer.log_score)
    return entry


def grids(quick: bool, found: Result) -> None:
    """Measure message passing on grids, and the reference loop that carries libDAI's figures over."""
    for side, states in QUICK if quick else GRIDS:
        graph = grid(side, states)
        loops = Reference(*_arrays(graph, side, states))
        loops.bp()
        plain = best(loops.bp)[0]
        for text in MESSAGES:
            entry = whole_call(graph, text) | {"side": side, "states": states, "plain": plain}
            found[f"{side}x{side}, K={states}, {text}"] = entry
            say(f"{side}x{side}, K={states}, {text}: {entry['kept'] / entry['sweeps']:.2f} sweeps")


def maxima(quick: bool, found: Result) -> None:
    """Measure the best state by max-product messages, with its decodings."""
    for side, states in QUICK if quick else GRIDS:
        entry = whole_call(grid(side, states), "bp", Task.MAXIMIZE)
        found[f"{side}x{side}, K={states}"] = entry
        say(f"maximize {side}x{side}, K={states}: {entry['kept'] / entry['sweeps']:.2f} sweeps")


def factors(quick: bool, found: Result) -> None:
    """Measure published problems of any arity."""
    for problem in largest_problems(2 if quick else 6, 1):
        graph = problem.conditioned()
        for text in ("bp", "trw"):
            found[f"{problem.key.split('/', 1)[1]}, {text}"] = whole_call(graph, text)


def others(quick: bool, found: Result) -> None:
    """Measure calls of other methods beside what they spend in kernels."""
    questions: dict[str, tuple[bl.FactorGraph, str, dict[str, int]]] = {}
    for name in NETWORKS[:2] if quick else NETWORKS:
        network = bl.datasets.load_bn(name).to_factor_graph()
        questions[f"{name}, junction_tree"] = network, "junction_tree", {}
    small, large = (12, 20) if quick else (30, 100)
    questions[f"{small}x{small}, wmb(ibound=8), 20 iterations"] = grid(small, 2), "wmb(ibound=8)", {"max_iters": 20}
    questions[f"{large}x{large}, gdd, 20 iterations"] = grid(large, 2), "gdd", {"max_iters": 20}
    questions[f"{small}x{small}, K=8, gdd, 20 iterations"] = grid(small, 8), "gdd", {"max_iters": 20}
    for name, (graph, text, options) in questions.items():
        call, _ = best(lambda: bl.infer(graph, text, threads=1, **options))  # noqa: B023
        found[name] = {"kept": call, "kernels": in_kernels(lambda: bl.infer(graph, text, threads=1, **options))}  # noqa: B023


def _arrays(graph: bl.FactorGraph, side: int, states: int) -> tuple[Any, Any, Any]:
    n = side * side
    theta = np.asarray(graph.theta)
    edges = np.ascontiguousarray(bl.datasets.grid_edges(side, side), np.int64)
    return theta[: n * states].reshape(n, states), edges, theta[n * states :].reshape(-1, states, states)


# -- tables -----------------------------------------------------------------------------------------------------------
def shown(result: Result) -> str:
    """Return all tables."""
    parts = []
    if result["grids"]:
        header = ["grid, method", "iterations", "plan kept", "plan new", "with mu", "sweeps", "call / sweeps", "libDAI"]
        rows = [
            [name, str(e["iterations"]), *(seconds(e[k]) for k in ("kept", "new", "mu", "sweeps")),
             f"{e['kept'] / e['sweeps']:.2f}", times(libdai(name, e))]
            for name, e in result["grids"].items()
        ]  # fmt: skip
        parts.append(table(header, rows))
    for part in ("maxima", "factors"):
        header = [f"{part}", "iterations", "status", "plan kept", "plan new", "sweeps", "call / sweeps"]
        rows = [[name, str(e["iterations"]), e["status"], *(seconds(e[k]) for k in ("kept", "new", "sweeps")),
                 f"{e['kept'] / e['sweeps']:.2f}"] for name, e in result[part].items()]  # fmt: skip
        if rows:
            parts.append(table(header, rows))
    if result["others"]:
        rows = [[name, seconds(e["kept"]), seconds(e["kernels"]), f"{e['kept'] / e['kernels']:.2f}"]
                for name, e in result["others"].items()]  # fmt: skip
        parts.append(table(["question", "call", "kernels", "call / kernels"], rows))
    return "\n\n".join(parts)


def libdai(name: str, entry: Result) -> float | None:
    """Return how many times longer libDAI takes to 1e-9, carried over by the reference loop of both runs."""
    size, loop = (entry["side"], entry["states"]), name.rsplit(", ", 1)[1]
    if loop not in LIBDAI_CALLS.get(size, {}):
        return None
    faster_loop = entry["plain"] / (1e-3 * PLAIN[size]["bp"])
    return float(1e-3 * LIBDAI_CALLS[size][loop] * faster_loop / entry["kept"])


def say(text: str) -> None:
    """Tell the one who waits."""
    print(text, file=sys.stderr, flush=True)


def main(arguments: list[str]) -> None:
    """Measure, store and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"grids": grids, "maxima": maxima, "factors": factors, "others": others}
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="PARTS", default=list(parts))
    parser.add_argument("--quick", action="store_true", help="small models: a minute")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="where the measurements go")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="where the tables go, besides the terminal")
    parser.add_argument("--from", dest="stored", type=Path, metavar="FILE", help="measure nothing: show this JSON file")
    options = parser.parse_args(arguments)
    if options.stored is not None:
        result = json.loads(options.stored.read_text())
    else:
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        result = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "machine": machine.description()}
        for name, part in parts.items():
            result[name] = {}
            if name in options.only:
                part(options.quick, result[name])
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1, allow_nan=False, default=float) + "\n")
    text = shown(result)
    print(text)
    if options.markdown is not None:
        options.markdown.write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
