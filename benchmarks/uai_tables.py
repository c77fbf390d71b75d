"""Errors on published problems as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from tables import seconds, table

Result = dict[str, Any]

TITLES = {"PR": "absolute error of log10 Z", "MAR": "mean Hellinger distance of a marginal"}
CLOSE = {"PR": 0.01, "MAR": 0.01}
SETTLED = ("CONVERGED", "PROVED")
UNSETTLED = "\\*"
ABSURD = 1e6  # an error of a million decimal digits is no answer


def page(result: Result, task: str, door: str, methods: list[str]) -> str:
    """Return the tables of one task: by method, by category, by problem."""
    runs = {m: _of_task(result, task, door, m) for m in methods}
    runs = {m: found for m, found in runs.items() if found}
    keys = [key for key in result["problems"] if any(key in found for found in runs.values())]
    if not keys:
        return f"No results for {task} yet.\n"
    parts = [
        f"{len(keys)} problems, at most {result['limit']:g} s for each and method, one thread; "
        f"{', '.join(f'{n} {v}' for n, v in result['versions'].items())}; {result['date']}.",
        by_method(runs, task),
        by_category(runs, keys, task),
        by_problem(result, runs, keys, task),
    ]
    return "\n\n".join(parts) + "\n"


def _of_task(result: Result, task: str, door: str, method: str) -> dict[str, Result]:
    """Return a method's runs on the problems that have a reference for the task."""
    found = result["runs"].get(door, {}).get(method, {})
    return {key: entry for key, entry in found.items() if task in result["problems"][key]["tasks"]}


def _errors(entries: Iterator[Result], task: str) -> list[float]:
    """Return absolute scores, without the failed and the absurd (an upper bound may be as good as none)."""
    scores = (entry.get("scores", {}).get(task) for entry in entries)
    return [abs(score) for score in scores if score is not None and abs(score) < ABSURD]


def _mean(errors: list[float], n: int) -> str:
    if not errors:
        return "-"
    return f"{statistics.fmean(errors):.3g}" + ("" if len(errors) == n else f" ({len(errors)} of {n})")


def by_method(runs: dict[str, dict[str, Result]], task: str) -> str:
    """One row a method."""
    header = [
        "method", "problems", "answered", "settled", f"within {CLOSE[task]:g}", "median", "mean", "worst",
        "median time",
    ]  # fmt: skip
    rows = []
    for method, found in runs.items():
        errors = _errors(iter(found.values()), task)
        rows.append([
            f"`{method}`", str(len(found)), str(len(errors)),
            str(sum(entry.get("status") in SETTLED for entry in found.values())),
            str(sum(error <= CLOSE[task] for error in errors)),
            *([f"{f(errors):.3g}" for f in (statistics.median, statistics.fmean, max)] if errors else ["-"] * 3),
            seconds(statistics.median(entry["seconds"] for entry in found.values())),
        ])  # fmt: skip
    return table(header, rows)


def by_category(runs: dict[str, dict[str, Result]], keys: list[str], task: str) -> str:
    """The mean absolute error of each category."""
    rows = []
    for category in dict.fromkeys(key.rsplit("/", 1)[0] for key in keys):
        inside = [key for key in keys if key.rsplit("/", 1)[0] == category]
        cells = [
            _mean(_errors((found[key] for key in inside if key in found), task), len(inside)) for found in runs.values()
        ]
        rows.append([category, str(len(inside)), *cells])
    return f"Mean of the {TITLES[task]}, by category:\n\n" + table(
        ["category", "problems", *(f"`{m}`" for m in runs)], rows
    )


def by_problem(result: Result, runs: dict[str, dict[str, Result]], keys: list[str], task: str) -> str:
    """One row a problem."""
    reference = ["log10 Z"] if task == "PR" else []
    header = ["problem", "variables", "factors", "width", *reference, *(f"`{m}`" for m in runs)]
    rows = []
    for key in keys:
        about = result["problems"][key]
        shown = [f"{float(about['log10_z']):.6g}"] if reference else []
        cells = [_cell(found.get(key), task) for found in runs.values()]
        rows.append([key, str(about["n_vars"]), str(about["n_factors"]), str(about["width"]), *shown, *cells])
    title = "Signed error of log10 Z" if task == "PR" else "Mean Hellinger distance of a marginal"
    return f"{title}, by problem ({UNSETTLED} where the run had not settled):\n\n" + table(header, rows)


def _cell(entry: Result | None, task: str) -> str:
    """Return one score, signed for log Z, with a mark if the run had not settled."""
    if entry is None:
        return "-"
    if "failed" in entry:
        return entry["failed"].split(":")[0].removesuffix("Error").lower()
    score = entry["scores"].get(task)
    if score is None and entry["status"] == "PROVED":
        return "wrong: Z = 0"
    absurd = score is None or abs(score) >= ABSURD
    text = ">1e6" if absurd else "0" if score == 0.0 else f"{score:{'+' if task == 'PR' else ''}.3g}"
    return text if entry["status"] in SETTLED else f"{text}{UNSETTLED}"
