"""The measurements of exact inference as Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.tables import seconds, size, table, times

Result = dict[str, Any]
Case = dict[str, Any]

PASSES = 4  # the least traffic: collect reads and writes each cell, distribute reads and writes it again
COUNTED = 0.02  # seconds of pyAgrum's: below that, a ratio compares the overhead of calls
LARGE = 1e6  # cells: below that, tables live in caches and the bandwidth of memory limits nothing
PEER_NAMES = {"pyagrum": "pyAgrum", "pgmpy": "pgmpy"}


def brief(reason: str) -> str:
    """Return why there is no figure, if that fits into a table."""
    return reason if len(reason) <= 16 else "failed"


def count(value: float | None) -> str:
    """Return a number of cells."""
    return "-" if value is None else f"{value:.2e}" if value >= 1e5 else f"{value:.0f}"


def limit(cells: float, result: Result) -> float:
    """Return the seconds that moving all cells through memory takes at the measured copy bandwidth."""
    return 8.0 * PASSES * cells / (1e9 * float(result["speed"]["copy_gb_per_s"]))


def peer_seconds(case: Case, peer: str, phase: str) -> float | None:
    """Return a peer's best time; None where it has none."""
    found = case.get(peer, {}).get(phase)
    return None if found is None else float(found["best"])


def ratio(case: Case, peer: str, phase: str) -> float | None:
    """Return the peer's time over ours."""
    theirs, ours = peer_seconds(case, peer, phase), case["ours"].get(phase)
    return None if theirs is None or ours is None else theirs / float(ours["best"])


def _peer_cells(case: Case, peer: str, phase: str) -> list[str]:
    """Return a peer's time, its ratio to ours and the largest difference of a marginal, or why there is none."""
    answer = case[peer]
    if phase not in answer:
        failed = answer.get("failed")
        over = failed is not None and failed.startswith("over ")
        ours = case["ours"].get(phase)
        least = f"> {times(float(answer['cap']) / ours['best'])}" if over and ours is not None else "-"
        return [brief(failed or "not asked"), least, "-"]
    difference = answer.get("difference", {}).get(phase)
    return [
        seconds(answer[phase]["best"]),
        times(ratio(case, peer, phase)),
        "-" if difference is None else f"{difference:.0e}",
    ]


def _peer_header(result: Result) -> list[str]:
    return [cell for peer in result["peers"] for cell in (PEER_NAMES[peer], "ratio", "differ")]


# -- tables -------------------------------------------------------------------------------------------------------
def _rows(result: Result, row: Callable[[Case], list[str]]) -> list[list[str]]:
    cases = result["cases"]
    return [row(case) if "marginals" in case["ours"] else _failed(case, row) for case in cases.values()]


def _failed(case: Case, row: Callable[[Case], list[str]]) -> list[str]:
    return [case["name"], brief(case["ours"].get("failed", "not measured"))]


def _padded(header: Sequence[str], rows: list[list[str]]) -> str:
    return table(header, [[*row, *["-"] * (len(header) - len(row))] for row in rows])


def marginals(result: Result) -> str:
    """All marginals, planning included."""
    header = ["model", "variables", "width", "cells", "ours", "plan", *_peer_header(result)]

    def row(case: Case) -> list[str]:
        ours = case["ours"]
        return [
            case["name"], str(ours["n_vars"]), str(ours["width"]), count(ours["cells"]),
            seconds(ours["marginals"]["best"]), seconds(ours.get("plan", {}).get("best")),
            *(cell for peer in result["peers"] for cell in _peer_cells(case, peer, "marginals")),
        ]  # fmt: skip

    return _padded(header, _rows(result, row))


def evidence(result: Result) -> str:
    """New evidence on a kept plan, against the limit of memory and against the peers."""
    header = ["model", "cells", "memory", "ours", "ns/cell", "limit", "ours/limit", *_peer_header(result)]

    def row(case: Case) -> list[str]:
        if "evidence" not in case["ours"]:
            return _failed(case, row)
        again = case["ours"]["evidence"]
        least = limit(again["cells"], result)
        above = times(again["best"] / least) if again["cells"] > LARGE else "-"
        return [
            case["name"], count(again["cells"]), size(again["bytes"]), seconds(again["best"]),
            f"{1e9 * again['best'] / again['cells']:.2f}" if again["cells"] > LARGE else "-", seconds(least), above,
            *(cell for peer in result["peers"] for cell in _peer_cells(case, peer, "evidence")),
        ]  # fmt: skip

    return _padded(header, _rows(result, row))


def parts(result: Result, phase: str) -> str:
    """Where our time goes, of all marginals (``"marginals"``) or of new evidence (``"evidence"``)."""
    names = ["plan", "symbolic", "factor copy", "collect", "distribute", "read off", "rest", "total"]
    kept = names if phase == "marginals" else names[2:]

    def row(case: Case) -> list[str]:
        found = case["ours"].get("split") if phase == "marginals" else case["ours"].get("evidence", {}).get("split")
        if found is None:
            return _failed(case, row)
        return [case["name"], *(seconds(found[name]) if found[name] else "0" for name in kept)]

    return _padded(["model", *kept], _rows(result, row))


def first_calls(result: Result) -> str:
    """The first call in a new process beside the best of the next: fresh memory and cold caches."""

    def row(case: Case) -> list[str]:
        timing = case["ours"]["marginals"]
        return [
            case["name"], size(case["ours"]["bytes"]), seconds(case["ours"]["build"]["best"]),
            seconds(timing["first"]), seconds(timing["best"]), str(timing["repeats"]),
        ]  # fmt: skip

    return _padded(["model", "memory", "build graph", "first", "best", "of"], _rows(result, row))


def reading(result: Result) -> str:
    """Files, ours beside the peers'."""
    header = ["file", "size", "ours", "MB/s", *(h for peer in result["peers"] for h in (PEER_NAMES[peer], "ratio"))]
    rows = []
    for name, case in result["files"].items():
        n_bytes = float(case["bytes"])
        if "read" not in case["ours"]:
            rows.append([name, size(n_bytes), brief(case["ours"].get("failed", ""))])
            continue
        best = float(case["ours"]["read"]["best"])
        peers = [cell for peer in result["peers"] for cell in _peer_cells(case, peer, "read")[:2]]
        rows.append([name, size(n_bytes), seconds(best), f"{n_bytes / best / 1e6:.3g}", *peers])
    return _padded(header, rows)


# -- the findings in one place --------------------------------------------------------------------------------------
def counted_ratios(result: Result, *, directed_only: bool) -> dict[str, float]:
    """Return pyAgrum's time over ours where it counts; where pyAgrum was stopped, the cap over ours."""
    found = {}
    for name, case in result["cases"].items():
        if directed_only and not case["directed"] or "marginals" not in case["ours"]:
            continue
        theirs = peer_seconds(case, "pyagrum", "marginals")
        if theirs is None and str(case.get("pyagrum", {}).get("failed", "")).startswith("over "):
            theirs = float(case["pyagrum"]["cap"])
        if theirs is not None and theirs > COUNTED:
            found[name] = theirs / float(case["ours"]["marginals"]["best"])
    return found


def summary(result: Result) -> str:
    """The figures that the tables are there for."""
    lines = []
    for directed_only, what in ((True, "networks"), (False, "networks and grids")):
        ratios = counted_ratios(result, directed_only=directed_only)
        if ratios:
            mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            least = min(ratios, key=lambda name: ratios[name])
            lines.append(
                f"- All marginals, {what} that take pyAgrum over {1e3 * COUNTED:.0f} ms ({len(ratios)}): "
                f"{times(mean)} faster in the geometric mean, at least {times(ratios[least])} ({least})."
            )
    above = {
        name: case["ours"]["evidence"]["best"] / limit(case["ours"]["evidence"]["cells"], result)
        for name, case in result["cases"].items()
        if case["ours"].get("evidence", {}).get("cells", 0) > LARGE
    }
    if above:
        worst = max(above, key=lambda name: above[name])
        lines.append(
            f"- New evidence on a kept plan, models of more than {LARGE:.0e} cells ({len(above)}): "
            f"{times(min(above.values()))} to {times(above[worst])} ({worst}) of the bandwidth limit."
        )
    for kind, peer in (("uai", "pgmpy"), ("bif", "pyagrum")):
        faster = [ratio(c, peer, "read") for name, c in result["files"].items() if name.endswith(f".{kind}")]
        known = [r for r in faster if r is not None]
        if known:
            lines.append(
                f"- Reading {kind.upper()} files ({len(known)}): {PEER_NAMES[peer]} takes {times(min(known))} to "
                f"{times(max(known))} our time."
            )
    worst_difference = max(
        (d for c in result["cases"].values() for p in PEER_NAMES for d in c.get(p, {}).get("difference", {}).values()),
        default=None,
    )
    if worst_difference is not None:
        lines.append(f"- The largest difference between a marginal of ours and a peer's: {worst_difference:.1e}.")
    return "\n".join(lines)


def setting(result: Result) -> str:
    """The machine and the versions."""
    machine, speed, peers = result["machine"], result["speed"], result["peers"]
    libraries = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    theirs = ", ".join(f"{PEER_NAMES[peer]} {text}" for peer, text in peers.items())
    theirs = f"Peers: {theirs}; stopped after {result['cap']:g} s." if peers else "No peers."
    return "\n".join(
        [
            f"- Machine: {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
            f"{machine['system']}; load before the run {machine['load_before']}.",
            f"- Memory, one thread: read {speed['read_gb_per_s']:.1f} GB/s, copy {speed['copy_gb_per_s']:.1f} GB/s; "
            f"a cell of 8 bytes is written in {speed['write_ns_per_cell']:.2f} ns, "
            f"in {speed['first_write_ns_per_cell']:.1f} ns when its page is touched for the first time.",
            f"- `exp`: {speed['exp_ns']:.1f} ns in a compiled loop, {speed['numpy_exp_ns']:.1f} ns in NumPy.",
            f"- Ours: {libraries}; method `{result['method']}`. {theirs}",
        ]
    )


def page(result: Result) -> str:
    """Everything, as one piece of Markdown."""
    sections = [("Setting", setting(result)), ("Findings", summary(result))]
    if result["cases"]:
        sections += [
            ("All marginals, planning included", marginals(result)),
            ("New evidence on a kept plan", evidence(result)),
            ("Where the time goes: all marginals, planning included", parts(result, "marginals")),
            ("Where the time goes: new evidence on a kept plan", parts(result, "evidence")),
            ("The first call in a new process", first_calls(result)),
        ]
    if result["files"]:
        sections.append(("Reading files", reading(result)))
    notes = [f"- {note}" for note in result["notes"]]
    text = "\n\n".join(f"### {title}\n\n{body}" for title, body in sections if body)
    return text + ("\n\n### Left out\n\n" + "\n".join(notes) if notes else "") + "\n"
