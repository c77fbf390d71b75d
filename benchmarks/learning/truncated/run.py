"""Back-propagation through sweeps of TRW: ours beside the same computation in torch autograd, in one run.

    python -m benchmarks.learning.truncated [--quick] [--peers-python FILE] [--json FILE] [--markdown FILE]

A sweep sends all messages once. Ours is ``ours.py``, torch's ``peers.py``; each has a process of its own with one
thread. torch (2.13, the CPU build is enough) may live in another environment; without it ours is measured alone.
``--only K=2,K=8`` takes the grids with so many states.
"""

from __future__ import annotations

import argparse

from benchmarks.frame import Options, Result, Run, Suite, say
from benchmarks.learning.truncated.ours import save_case
from benchmarks.messages.cases import Grid
from benchmarks.tables import plain

OURS = "benchmarks.learning.truncated.ours"
GRIDS = tuple(Grid(side, states) for states in (2, 8, 21) for side in (100, 300))
QUICK = (Grid(30, 2), Grid(30, 8))
AIMS = {2: 6.0, 8: 6.0, 21: 15.0}  # times faster than torch, forward and backward
BACK = 2.5  # most that a sweep backward may cost beside one forward
LARGE = 5e7  # cells of tables: torch keeps several copies of them a sweep


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add rounds."""
    parser.add_argument("--rounds", type=int, default=7, help="rounds of every measurement")


def measure(run: Run) -> None:
    """Measure every grid, ours and torch's in turn."""
    run.result["grids"] = {}
    for grid in QUICK if run.options.quick else GRIDS:
        if f"K={grid.states}" in run.options.parts:
            run.result["grids"][grid.name] = found = _grid(grid, run)
            say(f"{grid.name}: {found}")


def _grid(grid: Grid, run: Run) -> Result:
    large = grid.n_messages / 2 * grid.states**2 > LARGE
    case, gradient = str(run.folder / "case.npz"), str(run.folder / "gradient.npz")
    request = {"grid": vars(grid), "case": case, "gradient": gradient}
    ours = request | {"task": "sweeps", "passes": 6 if large else 20, "rounds": 3 if large else run.options.rounds}
    found: Result = {"ours": run.quietly(OURS, ours | {"threads": not large}), "torch": {}}
    if run.options.no_peers:
        return found
    save_case(grid, case)
    asked = request | {"task": "sweeps", "passes": 2, "rounds": 2 if grid.states > 8 else 3}
    found["torch"] = run.ask("benchmarks.learning.truncated.peers", asked, f"torch, {grid.name}", peer=True)
    if "failed" not in found["torch"]:
        found |= run.quietly(OURS, request | {"task": "compared", "passes": 2})
    return found


def page(result: Result, options: Options) -> str:
    """Write the measurements as Markdown."""
    head = [
        f"Measured {result['date']} on {result['machine']['cores']} cores, {result['machine']['processor']}"
        + (", while other programs were running." if result["busy"] else "."),
        "Milliseconds of processor time a sweep (all messages once), one thread, best of several; in brackets the aim.",
        "",
    ]
    columns = [
        "grid", "forward", "messages kept", "backward", "backward / forward", "torch", "times faster",
        "with tables and beliefs", "times faster", "gradients apart", "2 instances on 2 threads",
    ]  # fmt: skip
    rows = [_row(name, found) for name, found in result["grids"].items()]
    notes = [f"- {note}" for note in result["notes"]]
    return "\n".join([*head, *plain(columns, rows), "", *notes]) + "\n"


def _row(name: str, found: Result) -> list[str]:
    ours, theirs = found["ours"], found["torch"].get("whole")
    states = int(name.split("K=")[1])
    sweeps, kept = ours["recorded"] + ours["backward"], ours["recorded"] - ours["forward"]
    return [
        name,
        *(f"{1e3 * seconds:.3g}" for seconds in (ours["forward"], kept, ours["backward"])),
        f"{ours['backward'] / ours['forward']:.2f} ({BACK:g})",
        "-" if theirs is None else f"{1e3 * theirs:.3g}",
        "-" if theirs is None else f"{theirs / sweeps:.3g} ({AIMS[states]:g})",
        f"{1e3 * ours['whole']:.3g}",
        "-" if theirs is None else f"{theirs / ours['whole']:.3g}",
        f"{found['apart']:.0e}" if "apart" in found else "-",
        f"{ours['two_threads']:.2f}" if "two_threads" in ours else "-",
    ]


SUITE = Suite(
    "learning.truncated",
    __doc__,
    measure,
    page,
    parts=tuple(f"K={states}" for states in AIMS),
    quick="small grids: a few seconds",
    has_peers=True,
    add_options=add_options,
)
