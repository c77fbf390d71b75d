"""The command ``uai``: the calling conventions of the UAI inference competitions.

2014: ``beliefs uai MODEL EVID QUERY TASK``, with INF_TIME (seconds) and INF_MEMORY (gigabytes) in the environment as
limits; the answer goes to ``<name of the model>.<TASK>`` in the present folder.

2022: ``beliefs uai`` with MODEL, EVID, QUERY, RESULT, TIMESEC and MEMKB in the environment, and TASK in the environment
or as the only argument; without either, the suffix of RESULT tells it.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass

import click

from beliefs.cli.documents import Answer
from beliefs.cli.files import solution_values
from beliefs.cli.names import load_graph
from beliefs.cli.options import MOST_BYTES
from beliefs.cli.shown import facts
from beliefs.cli.stopping import Stoppable
from beliefs.cli.table import show_facts
from beliefs.errors import ModelError
from beliefs.inference.door_options import Options
from beliefs.inference.doors import infer, marginal_map, maximize
from beliefs.io import read_query
from beliefs.io.files import plain_name
from beliefs.io.uai import write_solution
from beliefs.model.graph import FactorGraph

__all__ = ["Call", "uai_command"]

TASKS = ("PR", "MAR", "MAP", "MPE", "MMAP")
_TIME_KEPT = 0.05  # share of the time kept for writing the answer, at least half a second
_LEAST_KEPT = 0.5
_MOST_KEPT = 0.5  # share of a short limit that is kept at most, so that some is left for the answer
_MEMORY_USED = 0.8  # share of the memory for tables; the interpreter and copies need the rest


@dataclass(frozen=True)
class Call:
    """One call by either convention; None where there is no limit."""

    model: str
    evidence: str
    query: str
    task: str
    result: str
    seconds: float | None
    n_bytes: float | None

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ModelError(f"unknown task {self.task!r}; the tasks are {', '.join(TASKS)}")
        if self.task == "MMAP" and not self.query:
            raise ModelError("MMAP needs a query file")

    @classmethod
    def of_2014(cls, arguments: tuple[str, ...], environment: Mapping[str, str]) -> Call:
        """Read the arguments ``MODEL EVID QUERY TASK``."""
        model, evidence, query, task = arguments
        memory = _limit(environment, "INF_MEMORY")
        return cls(
            model,
            evidence,
            query,
            task.upper(),
            f"{_name(model)}.{task.upper()}",
            _limit(environment, "INF_TIME"),
            None if memory is None else 1e9 * memory,
        )

    @classmethod
    def of_2022(cls, arguments: tuple[str, ...], environment: Mapping[str, str]) -> Call:
        """Read the environment."""
        missing = [name for name in ("MODEL", "RESULT") if not environment.get(name)]
        if missing:
            raise ModelError(
                f"give MODEL EVID QUERY TASK, or set MODEL, EVID, QUERY, RESULT, TIMESEC, MEMKB and TASK in the "
                f"environment; missing: {', '.join(missing)}"
            )
        result = environment["RESULT"]
        task = arguments[0] if arguments else environment.get("TASK") or plain_name(result).rpartition(".")[2]
        memory = _limit(environment, "MEMKB")
        return cls(
            environment["MODEL"],
            environment.get("EVID", ""),
            environment.get("QUERY", ""),
            task.upper(),
            result,
            _limit(environment, "TIMESEC"),
            None if memory is None else 1e3 * memory,
        )

    def options(self, spent: float) -> Options:
        """Return the doors' keywords that keep the call within its limits, ``spent`` seconds being gone."""
        options: Options = {}
        if self.seconds is not None:
            kept = min(max(_LEAST_KEPT, _TIME_KEPT * self.seconds), _MOST_KEPT * self.seconds)
            options["time_limit"] = max(0.0, self.seconds - spent - kept)
        if self.n_bytes is not None:
            options["max_bytes"] = int(min(_MEMORY_USED * self.n_bytes, MOST_BYTES))
        return options


def _name(model: str) -> str:
    """Return the file's name without the suffix of its compression, in the user's own case."""
    return os.path.basename(model)[: len(plain_name(model))]


def _limit(environment: Mapping[str, str], name: str) -> float | None:
    """Return a limit, None where there is none: nothing given, or an infinite one."""
    text = environment.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value > 0:
        raise ModelError(f"{name} must be a positive number, found {text!r}")
    return value if value < math.inf else None


@click.command("uai")
@click.argument("arguments", nargs=-1, metavar="[MODEL EVID QUERY TASK]")
def uai_command(arguments: tuple[str, ...]) -> None:
    """Answer one problem as the UAI competitions ask it.

    TASK is PR, MAR, MAP, MPE or MMAP. INF_TIME (seconds) and INF_MEMORY (gigabytes) limit the run; the answer is
    written to <name of the model>.TASK in the present folder. Without arguments, MODEL, EVID, QUERY, RESULT, TIMESEC,
    MEMKB and TASK are taken from the environment. QUERY is read for MMAP only; an empty EVID is no evidence.
    """
    if len(arguments) not in (0, 1, 4):
        raise click.UsageError(f"expected MODEL EVID QUERY TASK, found {len(arguments)} arguments")
    entered = time.perf_counter()
    call = (Call.of_2014 if len(arguments) == 4 else Call.of_2022)(arguments, os.environ)
    graph = load_graph(call.model, [] if call.evidence in ("", os.devnull) else [_evidence(call.evidence)])
    options = call.options(time.perf_counter() - entered)
    run = Stoppable(lambda stop: _answer(graph, call, {**options, "callback": stop}), (signal.SIGINT, signal.SIGTERM))
    result = run.run()
    write_solution(call.result, call.task, solution_values(result, call.task))
    show_facts([*facts(result), ("written", call.result)])
    if run.received:
        raise click.exceptions.Exit(run.exit_code)


def _evidence(path: str) -> str:
    if not os.path.exists(path):
        raise ModelError(f"{path}: no such file")
    return path


def _answer(graph: FactorGraph, call: Call, options: Options) -> Answer:
    if call.task in ("PR", "MAR"):
        return infer(graph, **options)
    if call.task == "MMAP":
        return marginal_map(graph, read_query(call.query, graph), **options)
    return maximize(graph, **options)
