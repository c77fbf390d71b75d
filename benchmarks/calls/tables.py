"""Whole calls as Markdown, and libDAI's times carried over to this machine."""

from __future__ import annotations

from typing import Any

from benchmarks.messages.cases import LIBDAI_CALLS, PLAIN
from benchmarks.tables import seconds, table, times

Result = dict[str, Any]


def page(result: Result) -> str:
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
