"""Back-propagation through sweeps of TRW: ours beside the same computation in torch autograd, in one run.

    python benchmarks/truncated.py [--quick] [--torch-python FILE] [--json FILE] [--markdown FILE] [--from FILE]

A sweep sends all messages once. Ours is ``truncated_runs.py``, torch's ``truncated_torch.py``; each has a process of
its own with one thread. torch (2.13, the CPU build is enough) may live in another environment; without it ours is
measured alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
from jobs import ask
from message_cases import Grid
from truncated_runs import save_case

RESULTS = Path(__file__).parent / "results" / "local" / "truncated.json"
GRIDS = tuple(Grid(side, states) for states in (2, 8, 21) for side in (100, 300))
QUICK = (Grid(30, 2), Grid(30, 8))
AIMS = {2: 6.0, 8: 6.0, 21: 15.0}  # times faster than torch, forward and backward
BACK = 2.5  # most that a sweep backward may cost beside one forward
LARGE = 5e7  # cells of tables: torch keeps several copies of them a sweep
BUSY = 0.5

Result = dict[str, Any]


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small grids: a few seconds")
    parser.add_argument("--states", type=int, help="only the grids with so many states")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of every measurement")
    parser.add_argument("--torch-python", default=sys.executable, metavar="FILE", help="interpreter that has torch")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="where the measurements go")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="where the table goes, besides the terminal")
    parser.add_argument("--from", dest="stored", type=Path, metavar="FILE", help="measure nothing: show this JSON file")
    return parser.parse_args(arguments)


def say(text: str) -> None:
    """Tell the one who waits."""
    print(text, file=sys.stderr, flush=True)


def measure(options: argparse.Namespace) -> Result:
    """Measure every grid, ours and torch's in turn."""
    started, described = time.time(), machine.description()
    result: Result = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": described,
        "busy": (described["load_before"] or 0.0) > BUSY,
        "versions": machine.versions(),
        "grids": {},
        "notes": [],
    }
    with tempfile.TemporaryDirectory() as name:
        for grid in QUICK if options.quick else GRIDS:
            if options.states not in (None, grid.states):
                continue
            result["grids"][grid.name] = found = _grid(grid, options, Path(name), result)
            say(f"{grid.name}: {found}")
    result["seconds"] = time.time() - started
    return result


def _grid(grid: Grid, options: argparse.Namespace, folder: Path, result: Result) -> Result:
    large = grid.n_messages / 2 * grid.states**2 > LARGE
    case, gradient = str(folder / "case.npz"), str(folder / "gradient.npz")
    request = {"grid": vars(grid), "case": case, "gradient": gradient}
    ours = request | {"task": "sweeps", "passes": 6 if large else 20, "rounds": 3 if large else options.rounds}
    found: Result = {"ours": ask("truncated_runs.py", ours | {"threads": not large}, folder)}
    save_case(grid, case)
    asked = request | {"task": "sweeps", "passes": 2, "rounds": 2 if grid.states > 8 else 3}
    found["torch"] = ask("truncated_torch.py", asked, folder, options.torch_python)
    if "failed" in found["torch"]:
        result["notes"].append(f"torch, {grid.name}: {found['torch']['failed']}")
    else:
        found |= ask("truncated_runs.py", request | {"task": "compared", "passes": 2}, folder)
    return found


def page(result: Result) -> str:
    """Write the measurements as Markdown."""
    lines = [
        f"Measured {result['date']} on {result['machine']['cores']} cores, {result['machine']['processor']}"
        + (", while other programs were running." if result["busy"] else "."),
        "Milliseconds of processor time a sweep (all messages once), one thread, best of several; in brackets the aim.",
        "",
        "| grid | forward | messages kept | backward | backward / forward | torch | times faster "
        "| with tables and beliefs | times faster | gradients apart | 2 instances on 2 threads |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in result["grids"].items():
        ours, torch = found["ours"], found["torch"]
        states = int(name.split("K=")[1])
        sweeps, kept = ours["recorded"] + ours["backward"], ours["recorded"] - ours["forward"]
        theirs = torch.get("whole")
        cells = [name, *(f"{1e3 * seconds:.3g}" for seconds in (ours["forward"], kept, ours["backward"]))]
        cells.append(f"{ours['backward'] / ours['forward']:.2f} ({BACK:g})")
        cells.append("-" if theirs is None else f"{1e3 * theirs:.3g}")
        cells.append("-" if theirs is None else f"{theirs / sweeps:.3g} ({AIMS[states]:g})")
        cells.append(f"{1e3 * ours['whole']:.3g}")
        cells.append("-" if theirs is None else f"{theirs / ours['whole']:.3g}")
        cells.append(f"{found['apart']:.0e}" if "apart" in found else "-")
        cells.append(f"{ours['two_threads']:.2f}" if "two_threads" in ours else "-")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines + ["", *(f"- {note}" for note in result["notes"])]) + "\n"


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
    text = page(result)
    print(text)
    if options.markdown is not None:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
