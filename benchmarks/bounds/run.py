"""Certified bounds: passes, sweeps and memory measured beside a peer and a reference; bounds against seconds.

    python -m benchmarks.bounds [--quick] [--only PARTS] [--json FILE] [--markdown FILE] [--figure FILE] [--from FILE]

Parts: passes (weighted mini-bucket beside pyGMs), sweeps (GDD beside tree-reweighted messages), memory, curves. Each
measurement has a process of its own: ``ours.py`` is ours, ``peers.py`` the peer's.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from beliefs.inference.base import Problem
from beliefs.inference.orders.planned import planned_order
from benchmarks import machine
from benchmarks.bounds import tables
from benchmarks.bounds.ours import grid
from benchmarks.frame import Options, Result, Run, Suite, say

OURS = "benchmarks.bounds.ours"
IBOUNDS = (1, 5, 10, 15)
GRIDS = ((300, 2), (300, 8), (100, 21))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add rounds, the time of a curve, and where the curves are drawn."""
    parser.add_argument("--limit", type=float, default=20.0, metavar="SECONDS", help="of each curve")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of every sweep")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="where the curves are drawn")


def measure(run: Run) -> None:
    """Measure all parts asked for."""
    run.result["speed"] = machine.speed()
    for part in run.options.parts:
        PARTS[part](run)


def _passes(run: Run) -> None:
    side = 20 if run.options.quick else 50
    graph = grid(side, 2)
    layout = graph.layout
    pairs = np.flatnonzero(np.diff(layout.scope_ptr) == 2)
    case = {
        "unary": graph.theta[: 2 * graph.n_vars].reshape(-1, 2),
        "edges": np.array([layout.scope(int(f)) for f in pairs]),
        "tables": graph.theta[2 * graph.n_vars :].reshape(-1, 2, 2),
        "order": planned_order(Problem(graph), "auto").order,
    }
    path = run.folder / "case.npz"
    np.savez(path, **case)
    found: Result = {}
    for ibound in IBOUNDS:
        request: Result = {"task": "passes", "side": side, "ibound": ibound, "case": str(path)}
        ours = run.ask(OURS, request, "our passes")
        theirs: Result = {}
        if not (run.options.quick or run.options.no_peers) and ibound <= 10:
            theirs = run.ask("benchmarks.bounds.peers", request, "pyGMs' passes", peer=True)
        found[str(ibound)] = {"ours": ours, "pygms": theirs}
        if "down" in ours:
            say(f"i-bound {ibound}: {1e3 * (ours['up'] + ours['down']):.3g} ms, pyGMs {theirs.get('up', 0):.3g} s up")
    run.result["passes"] = {"side": side, "found": found}


def _sweeps(run: Run) -> None:
    run.result["sweeps"] = {}
    for side, states in ((50, 2), (50, 8)) if run.options.quick else GRIDS:
        request = {"task": "sweeps", "side": side, "states": states, "rounds": run.options.rounds}
        answer = run.ask(OURS, request, "sweeps")
        run.result["sweeps"][f"{side}x{side}, K={states}"] = answer.get("found", {})
        say(f"{side}x{side}, K={states}: {answer.get('found')}")


def _memory(run: Run) -> None:
    if not run.options.quick:
        run.result["memory"] = run.ask(OURS, {"task": "memory"}, "memory").get("found", {})


def _curves(run: Run) -> None:
    side, limit = (12, 1.0) if run.options.quick else (40, run.options.limit)
    answer = run.ask(OURS, {"task": "curves", "side": side, "limit": limit}, "curves")
    if "found" in answer:
        run.result["curves"] = tables.thinned(answer) | {"side": side}


def page(result: Result, options: Options) -> str:
    """Return the tables, and draw the curves where that is wanted."""
    if options.figure is not None:
        tables.draw(result, options.figure)
    return tables.page(result)


PARTS = {"passes": _passes, "sweeps": _sweeps, "memory": _memory, "curves": _curves}
SUITE = Suite(
    "bounds",
    __doc__,
    measure,
    page,
    parts=tuple(PARTS),
    quick="small grids, no peer: half a minute",
    has_peers=True,
    add_options=add_options,
)
