"""Message passing: ours beside a fixed reference loop, plain NumPy, pyGMs and the limit of the machine, in one run.

    python benchmarks/messages.py [--quick] [--only PARTS] [--json FILE] [--markdown FILE] [--from FILE] [--busy]

Parts: grids (every method, one thread and two), scaling (time and memory), factors (published problems of any arity),
start (the first call, compiling), peers. What is measured and how is in ``sweeps.py`` and ``scaling.py``, on what in
``message_cases.py``, against what in ``reference_kernel.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import machine
import message_tables
import numpy as np
from jobs import ask
from message_cases import GRIDS, QUICK, Grid

RESULTS = Path(__file__).parent / "results" / "local" / "messages.json"
PARTS = ("grids", "scaling", "factors", "start", "peers")
SIDES, QUICK_SIDES = (30, 100, 300, 1000), (30, 100)
BUSY = 0.5  # load before the run beyond which it is called busy

Result = dict[str, Any]


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="PARTS", help="with commas between")
    parser.add_argument("--quick", action="store_true", help="small grids, few rounds: half a minute")
    parser.add_argument("--data", metavar="FOLDER", help="data sets; the environment's BELIEFS_DATA otherwise")
    parser.add_argument("--busy", action="store_true", help="say in the results that the machine was busy")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of every measurement")
    parser.add_argument("--peers-python", default=sys.executable, metavar="FILE", help="interpreter that has the peers")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="where the measurements go")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="where the tables go, besides the terminal")
    parser.add_argument("--from", dest="stored", type=Path, metavar="FILE", help="measure nothing: show this JSON file")
    options = parser.parse_args(arguments)
    if options.data is not None:
        os.environ["BELIEFS_DATA"] = options.data
    options.parts = options.only or ([p for p in PARTS if p != "start"] if options.quick else list(PARTS))
    if not set(options.parts) <= set(PARTS):
        parser.error(f"the parts are {', '.join(PARTS)}")
    options.rounds = min(options.rounds, 2) if options.quick else options.rounds
    return options


def say(text: str) -> None:
    """Tell the one who waits."""
    print(text, file=sys.stderr, flush=True)


def measure(options: argparse.Namespace) -> Result:
    """Measure all parts asked for."""
    started, described = time.time(), machine.description()
    result: Result = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": described,
        "busy": options.busy or (described["load_before"] or 0.0) > BUSY,
        "versions": machine.versions(),
        "rounds": options.rounds,
        "grids": {},
        "notes": [],
    }
    parts = {"grids": _grids, "scaling": _scaling, "factors": _factors, "start": _start, "peers": _peers}
    with tempfile.TemporaryDirectory() as name:
        for part in options.parts:
            parts[part](options, Path(name), result)
    result["seconds"] = time.time() - started
    return result


def _asked(script: str, request: Result, folder: Path, result: Result, what: str) -> Result:
    """Ask a process; a failure is a note."""
    answer = ask(script, request, folder)
    if "failed" in answer:
        result["notes"].append(f"{what}: {answer['failed']}")
        say(result["notes"][-1])
    result["notes"] += [f"{what}: {note}" for note in answer.pop("notes", [])]
    return answer


def _grids(options: argparse.Namespace, folder: Path, result: Result) -> None:
    for grid in QUICK if options.quick else GRIDS:
        request = {"task": "grid", "rounds": options.rounds, **vars(grid)}
        answer = _asked("sweeps.py", request, folder, result, grid.name)
        result["grids"][grid.name] = vars(grid) | answer
        for name, rounds in answer.get("rules", {}).items():
            ours, plain = rounds["1 thread"]["ns"], rounds["reference"]["ns"]
            say(f"{grid.name}, {name}: {ours:.3g} ns, the reference {plain:.3g} ns")


def _scaling(options: argparse.Namespace, folder: Path, result: Result) -> None:
    sides = QUICK_SIDES if options.quick else SIDES
    request: Result = {"task": "sizes", "sides": sides, "rounds": options.rounds}
    answer = _asked("scaling.py", request, folder, result, "growing grids")
    answer["memory"] = {}
    grid = f"{sides[-1]}x{sides[-1]}"
    for name, whole in (("messages and 10 iterations", False), ("infer, 10 iterations", True)):
        request = {"task": "memory", "side": sides[-1], "whole": whole}
        found = {} if options.quick else _asked("scaling.py", request, folder, result, "memory")
        if "peak" in found:
            answer["memory"][f"{grid}: {name}"] = found
    result["scaling"] = answer
    shown = [f"{side}x{side} {e['ns']:.3g} ns" for side, e in answer.get("sizes", {}).items()]
    say(f"growing grids: {', '.join(shown)}")


def _factors(options: argparse.Namespace, folder: Path, result: Result) -> None:
    if not os.environ.get("BELIEFS_DATA"):
        result["notes"].append("factors of any arity: set BELIEFS_DATA or give --data to measure published problems")
        say(result["notes"][-1])
        return
    kinds, each = (2, 1) if options.quick else (6, 2)
    request = {"task": "factors", "kinds": kinds, "each": each, "rounds": min(options.rounds, 3)}
    result["factors"] = _asked("scaling.py", request, folder, result, "factors of any arity")
    for name, e in result["factors"].get("found", {}).items():
        say(f"{name}: {e['first_ns']:.3g} ns a message, later {e['ns']:.3g} ns, the limit {e['limit']:.3g} ns")


def _start(options: argparse.Namespace, folder: Path, result: Result) -> None:
    for _ in range(2):  # the first fills the cache, should it be empty
        warm = _asked("scaling.py", {"task": "first"}, folder, result, "the first call")
    warm["import"] = _import_seconds()
    with tempfile.TemporaryDirectory() as empty, mock.patch.dict(os.environ, {"NUMBA_CACHE_DIR": empty}):
        cold = _asked("scaling.py", {"task": "cold"}, folder, result, "compiling")
    result["start"] = {name: found for name, found in (("warm", warm), ("cold", cold)) if "failed" not in found}
    say(message_tables.starting(result))


def _import_seconds() -> float:
    """Return the best time of an import in a new process, without the interpreter's own start."""
    code = "import time; t = time.perf_counter(); import beliefs; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    return min(float(run.stdout) for run in runs)


def _peers(options: argparse.Namespace, folder: Path, result: Result) -> None:
    found: Result = {}
    for grid in (Grid(10, 2),) if options.quick else (Grid(10, 2), Grid(10, 8)):
        unary, edges, tables = grid.arrays()
        np.savez(folder / "case.npz", unary=unary, edges=edges, tables=tables)
        request = {"task": "sweeps", "case": str(folder / "case.npz")}
        theirs = ask("message_peers.py", request, folder, options.peers_python)
        if "failed" in theirs:
            result["notes"].append(f"pyGMs was not measured (extra `peers`): {theirs['failed']}")
            say(result["notes"][-1])
            return
        rules = _asked("sweeps.py", {"task": "rules", "rounds": 3, **vars(grid)}, folder, result, grid.name)["rules"]
        for name, rule, key in (("BP", "BP, sum", "bp"), ("mean field", "mean field", "mean_field")):
            if rule in rules:
                ours = rules[rule].get("1 thread, checked", rules[rule]["1 thread"])["ns"]
                found[f"{name}, K={grid.states}"] = {"grid": grid.name, "ns": theirs[key], "ours_ns": ours}
    result["peers"] = {"pygms": {"name": "pyGMs", "version": theirs["version"], "found": found}}


def main(arguments: list[str]) -> None:
    """Measure or load, then print and write."""
    options = parsed(arguments)
    if options.stored is not None:
        result: Result = json.loads(options.stored.read_text())
    else:
        result = measure(options)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
        say(f"measured in {result['seconds']:.0f} s; wrote {options.json}")
    text = message_tables.page(result)
    print(text)
    if options.markdown is not None:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
