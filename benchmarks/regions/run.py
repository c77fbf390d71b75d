"""Region graphs: sweeps beside iterations of belief propagation, plain NumPy with full tables, and mbi, in one run.

    python -m benchmarks.regions [--quick] [--only PARTS] [--json FILE] [--markdown FILE] [--from FILE]

Parts: sweeps (depth first on faces, growing grids, one long loop), references (NumPy), join_graph (beside weighted
mini-bucket), basis (Algorithm 3.1), memory, peers. One thread, processor time. libDAI's HAK, Merlin's IJGP and the
program of [gelfand2014] (14 microseconds a face and sweep of binary variables) are in no registry: nanoseconds of a
message stand beside an iteration of belief propagation, so that ratios can be taken.
"""

from __future__ import annotations

import numpy as np

from benchmarks.frame import Options, Result, Run, Suite, say
from benchmarks.regions.tables import page

OURS, PEERS = "benchmarks.regions.ours", "benchmarks.regions.peers"


def measure(run: Run) -> None:
    """Measure all parts asked for."""
    for part in run.options.parts:
        run.result[part] = PARTS[part](run)


def _sweeps(run: Run) -> Result:
    quick = run.options.quick
    found: Result = {}
    for side, states in ((20, 2), (10, 8)) if quick else ((30, 2), (100, 2), (300, 2), (100, 8)):
        request = {"task": "sweep", "side": side, "states": states, "rounds": 2 if quick else 5}
        answer = run.ask(OURS, request, f"{side}x{side}, K={states}")
        if "failed" not in answer:
            found[f"{side}x{side}, K={states}"] = answer
            say(f"{side}x{side}, K={states}: a sweep is {answer['ratio']:.0f} iterations of belief propagation")
    lengths = (50, 200) if quick else (50, 100, 200, 400, 800)
    loops = {n: run.ask(OURS, {"task": "loop", "length": n, "states": 8}, f"a loop of {n}") for n in lengths}
    return {"grids": found, "loops": {str(n): answer for n, answer in loops.items() if "failed" not in answer}}


def _references(run: Run) -> Result:
    return run.ask(OURS, {"task": "references", "side": 5 if run.options.quick else 10}, "full tables in NumPy")


def _join_graph(run: Run) -> Result:
    quick = run.options.quick
    found = {}
    for ibound in (2,) if quick else (2, 5, 8):
        request = {"task": "join_graph", "side": 10 if quick else 30, "ibound": ibound, "rounds": 2 if quick else 5}
        answer = run.ask(OURS, request, f"join graph, i-bound {ibound}")
        if "failed" not in answer:
            found[str(ibound)] = answer
    return found


def _basis(run: Run) -> Result:
    side, extra = (30, 20) if run.options.quick else (300, 1000)
    answer = run.ask(OURS, {"task": "basis", "side": side, "extra": extra}, "Algorithm 3.1")
    return answer | {"side": side, "extra": extra}


def _memory(run: Run) -> Result:
    found = {}
    for side, states in ((20, 2),) if run.options.quick else ((80, 2), (40, 8)):
        name = f"{side}x{side}, K={states}"
        found[name] = run.ask(OURS, {"task": "memory", "side": side, "states": states}, f"memory, {name}")
    return found


def _peers(run: Run) -> Result:
    if run.options.no_peers:
        return {}
    rng = np.random.default_rng(0)
    side = 4 if run.options.quick else 8
    at = np.arange(side * side).reshape(side, side)
    across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    edges = np.concatenate([across, np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)])
    arrays = {"unary": rng.normal(size=(side * side, 2)), "edges": edges, "tables": rng.normal(size=(len(edges), 2, 2))}
    case = str(run.folder / "case.npz")
    np.savez(case, **arrays)
    theirs = run.quietly(PEERS, {"task": "convex", "case": case}, peer=True)
    if "failed" in theirs:
        run.note(f"mbi was not measured (extra `peers`): {theirs['failed']}")
        return {}
    ours = run.ask(OURS, {"task": "convex", "case": case}, "convex_gbp")
    return {"mbi": theirs, "ours": ours, "side": side, "date": run.result["date"]}


def _page(result: Result, options: Options) -> str:
    return page(result)


PARTS = {
    "sweeps": _sweeps, "references": _references, "join_graph": _join_graph, "basis": _basis, "memory": _memory,
    "peers": _peers,
}  # fmt: skip
SUITE = Suite(
    "regions",
    __doc__,
    measure,
    _page,
    parts=tuple(PARTS),
    quick="small grids: half a minute",
    has_peers=True,
)
