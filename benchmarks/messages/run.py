"""Message passing: ours beside a fixed reference loop, plain NumPy, pyGMs and the limit of the machine, in one run.

    python -m benchmarks.messages [--quick] [--only PARTS] [--json FILE] [--markdown FILE] [--from FILE] [--busy]

Parts: grids (every method, one thread and two), scaling (time and memory), factors (published problems of any arity),
start (the first call, compiling), peers. What is measured and how is in ``sweeps.py`` and ``scaling.py``, on what in
``cases.py``, against what in ``reference_kernel.py``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from unittest import mock

import numpy as np

from benchmarks.frame import Options, Result, Run, Suite, say
from benchmarks.messages import tables
from benchmarks.messages.cases import GRIDS, QUICK, Grid

SWEEPS, SCALING = "benchmarks.messages.sweeps", "benchmarks.messages.scaling"
SIDES, QUICK_SIDES = (30, 100, 300, 1000), (30, 100)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add rounds, and a word on the machine."""
    parser.add_argument("--busy", action="store_true", help="say in the results that the machine was busy")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of every measurement")


def settle(options: Options) -> None:
    """Shorten a quick run."""
    options.rounds = min(options.rounds, 2) if options.quick else options.rounds


def measure(run: Run) -> None:
    """Measure all parts asked for."""
    run.result |= {"busy": run.options.busy or run.result["busy"], "rounds": run.options.rounds, "grids": {}}
    for part in run.options.parts:
        PARTS[part](run)


def _grids(run: Run) -> None:
    for grid in QUICK if run.options.quick else GRIDS:
        request = {"task": "grid", "rounds": run.options.rounds, **vars(grid)}
        answer = run.ask(SWEEPS, request, grid.name)
        run.result["grids"][grid.name] = vars(grid) | answer
        for name, rounds in answer.get("rules", {}).items():
            ours, plain = rounds["1 thread"]["ns"], rounds["reference"]["ns"]
            say(f"{grid.name}, {name}: {ours:.3g} ns, the reference {plain:.3g} ns")


def _scaling(run: Run) -> None:
    sides = QUICK_SIDES if run.options.quick else SIDES
    request: Result = {"task": "sizes", "sides": sides, "rounds": run.options.rounds}
    answer = run.ask(SCALING, request, "growing grids")
    answer["memory"] = {}
    grid = f"{sides[-1]}x{sides[-1]}"
    for name, whole in (("messages and 10 iterations", False), ("infer, 10 iterations", True)):
        request = {"task": "memory", "side": sides[-1], "whole": whole}
        found = {} if run.options.quick else run.ask(SCALING, request, "memory")
        if "peak" in found:
            answer["memory"][f"{grid}: {name}"] = found
    run.result["scaling"] = answer
    shown = [f"{side}x{side} {e['ns']:.3g} ns" for side, e in answer.get("sizes", {}).items()]
    say(f"growing grids: {', '.join(shown)}")


def _factors(run: Run) -> None:
    if not os.environ.get("BELIEFS_DATA"):
        run.note("factors of any arity: set BELIEFS_DATA or give --data to measure published problems")
        return
    kinds, each = (2, 1) if run.options.quick else (6, 2)
    request = {"task": "factors", "kinds": kinds, "each": each, "rounds": min(run.options.rounds, 3)}
    run.result["factors"] = run.ask(SCALING, request, "factors of any arity")
    for name, e in run.result["factors"].get("found", {}).items():
        say(f"{name}: {e['first_ns']:.3g} ns a message, later {e['ns']:.3g} ns, the limit {e['limit']:.3g} ns")


def _start(run: Run) -> None:
    for _ in range(2):  # the first fills the cache, should it be empty
        warm = run.ask(SCALING, {"task": "first"}, "the first call")
    warm["import"] = _import_seconds()
    with tempfile.TemporaryDirectory() as empty, mock.patch.dict(os.environ, {"NUMBA_CACHE_DIR": empty}):
        cold = run.ask(SCALING, {"task": "cold"}, "compiling")
    run.result["start"] = {name: found for name, found in (("warm", warm), ("cold", cold)) if "failed" not in found}
    say(tables.starting(run.result))


def _import_seconds() -> float:
    """Return the best time of an import in a new process, without the interpreter's own start."""
    code = "import time; t = time.perf_counter(); import beliefs; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    return min(float(run.stdout) for run in runs)


def _peers(run: Run) -> None:
    found: Result = {}
    if run.options.no_peers:
        return
    for grid in (Grid(10, 2),) if run.options.quick else (Grid(10, 2), Grid(10, 8)):
        unary, edges, pairs = grid.arrays()
        np.savez(run.folder / "case.npz", unary=unary, edges=edges, tables=pairs)
        request = {"task": "sweeps", "case": str(run.folder / "case.npz")}
        theirs = run.quietly("benchmarks.messages.peers", request, peer=True)
        if "failed" in theirs:
            run.note(f"pyGMs was not measured (extra `peers`): {theirs['failed']}")
            return
        rules = run.ask(SWEEPS, {"task": "rules", "rounds": 3, **vars(grid)}, grid.name)["rules"]
        for name, rule, key in (("BP", "BP, sum", "bp"), ("mean field", "mean field", "mean_field")):
            if rule in rules:
                ours = rules[rule].get("1 thread, checked", rules[rule]["1 thread"])["ns"]
                found[f"{name}, K={grid.states}"] = {"grid": grid.name, "ns": theirs[key], "ours_ns": ours}
    run.result["peers"] = {"pygms": {"name": "pyGMs", "version": theirs["version"], "found": found}}


PARTS = {"grids": _grids, "scaling": _scaling, "factors": _factors, "start": _start, "peers": _peers}
SUITE = Suite(
    "messages",
    __doc__,
    measure,
    lambda result, options: tables.page(result),
    parts=tuple(PARTS),
    quick_parts=tuple(part for part in PARTS if part != "start"),
    quick="small grids, few rounds: half a minute",
    has_peers=True,
    add_options=add_options,
    settle=settle,
)
