"""Certified bounds: passes, sweeps and memory measured beside a peer and a reference; bounds against seconds.

    python benchmarks/bounds.py [--quick] [--only PARTS] [--json FILE] [--markdown FILE] [--figure FILE] [--from FILE]

Parts: passes (weighted mini-bucket beside pyGMs), sweeps (GDD beside tree-reweighted messages), memory, curves. Each
measurement has a process of its own: ``bound_runs.py`` is ours, ``bound_peers.py`` the peer's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import bound_tables
import machine
import numpy as np
from bound_runs import grid
from jobs import ask

from beliefs.inference.base import Problem
from beliefs.inference.orders.planned import planned_order

RESULTS = Path(__file__).parent / "results" / "local" / "bounds.json"
PARTS = ("passes", "sweeps", "memory", "curves")
IBOUNDS = (1, 5, 10, 15)
GRIDS = ((300, 2), (300, 8), (100, 21))

Result = dict[str, Any]


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="PARTS", help="with commas between")
    parser.add_argument("--quick", action="store_true", help="small grids, no peer: half a minute")
    parser.add_argument("--limit", type=float, default=20.0, metavar="SECONDS", help="of each curve")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of every sweep")
    parser.add_argument("--peers-python", default=sys.executable, metavar="FILE", help="interpreter that has the peer")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="where the measurements go")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="where the tables go, besides the terminal")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="where the curves are drawn")
    parser.add_argument("--from", dest="stored", type=Path, metavar="FILE", help="measure nothing: show this JSON file")
    options = parser.parse_args(arguments)
    options.parts = options.only or list(PARTS)
    if not set(options.parts) <= set(PARTS):
        parser.error(f"the parts are {', '.join(PARTS)}")
    return options


def say(text: str) -> None:
    """Tell the one who waits."""
    print(text, file=sys.stderr, flush=True)


def measure(options: argparse.Namespace) -> Result:
    """Measure all parts asked for."""
    started = time.time()
    result: Result = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine.description(),
        "versions": machine.versions(),
        "speed": machine.speed(),
        "notes": [],
    }
    parts = {"passes": _passes, "sweeps": _sweeps, "memory": _memory, "curves": _curves}
    with tempfile.TemporaryDirectory() as name:
        for part in options.parts:
            parts[part](options, Path(name), result)
    result["seconds"] = time.time() - started
    return result


def _asked(script: str, request: Result, folder: Path, result: Result, python: str = sys.executable) -> Result:
    """Ask a process; a failure is a note."""
    answer = ask(script, request, folder, python)
    if "failed" in answer:
        result["notes"].append(f"{script}, {request['task']}: {answer['failed']}")
        say(result["notes"][-1])
    return answer


def _passes(options: argparse.Namespace, folder: Path, result: Result) -> None:
    side = 20 if options.quick else 50
    graph = grid(side, 2)
    layout = graph.layout
    pairs = np.flatnonzero(np.diff(layout.scope_ptr) == 2)
    case = {
        "unary": graph.theta[: 2 * graph.n_vars].reshape(-1, 2),
        "edges": np.array([layout.scope(int(f)) for f in pairs]),
        "tables": graph.theta[2 * graph.n_vars :].reshape(-1, 2, 2),
        "order": planned_order(Problem(graph), "auto").order,
    }
    np.savez(folder / "case.npz", **case)
    found: Result = {}
    for ibound in IBOUNDS:
        request: Result = {"task": "passes", "side": side, "ibound": ibound, "case": str(folder / "case.npz")}
        ours = _asked("bound_runs.py", request, folder, result)
        theirs: Result = {}
        if not options.quick and ibound <= 10:
            theirs = _asked("bound_peers.py", request, folder, result, options.peers_python)
        found[str(ibound)] = {"ours": ours, "pygms": theirs}
        say(f"i-bound {ibound}: {1e3 * (ours['up'] + ours['down']):.3g} ms, pyGMs {theirs.get('up', 0):.3g} s up")
    result["passes"] = {"side": side, "found": found}


def _sweeps(options: argparse.Namespace, folder: Path, result: Result) -> None:
    result["sweeps"] = {}
    for side, states in ((50, 2), (50, 8)) if options.quick else GRIDS:
        request = {"task": "sweeps", "side": side, "states": states, "rounds": options.rounds}
        answer = _asked("bound_runs.py", request, folder, result)
        result["sweeps"][f"{side}x{side}, K={states}"] = answer.get("found", {})
        say(f"{side}x{side}, K={states}: {answer.get('found')}")


def _memory(options: argparse.Namespace, folder: Path, result: Result) -> None:
    if not options.quick:
        result["memory"] = _asked("bound_runs.py", {"task": "memory"}, folder, result).get("found", {})


def _curves(options: argparse.Namespace, folder: Path, result: Result) -> None:
    side, limit = (12, 1.0) if options.quick else (40, options.limit)
    result["curves"] = _asked("bound_runs.py", {"task": "curves", "side": side, "limit": limit}, folder, result)
    result["curves"]["side"] = side


def main(arguments: list[str]) -> None:
    """Measure or load, then print, write and draw."""
    options = parsed(arguments)
    if options.stored is not None:
        result: Result = json.loads(options.stored.read_text())
    else:
        result = measure(options)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(bound_tables.thinned(result), indent=1) + "\n")
        say(f"measured in {result['seconds']:.0f} s; wrote {options.json}")
    text = bound_tables.page(result)
    print(text)
    if options.markdown is not None:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(text)
    if options.figure is not None:
        bound_tables.draw(result, options.figure)


if __name__ == "__main__":
    main(sys.argv[1:])
