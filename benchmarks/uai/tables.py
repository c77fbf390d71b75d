"""Errors and scores on published problems as Markdown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Any

from benchmarks.tables import seconds, table
from benchmarks.uai.scores import PUBLISHED, score

Result = dict[str, Any]
Runs = dict[str, dict[str, Result]]

WHAT = {
    "PR": "error of ln Z",
    "MAR": "Hellinger distance of the marginals",
    "MMAP": "shortfall of the value from the best known one, in natural logs",
}
CLOSE = {"PR": 0.1, "MAR": 0.01, "MMAP": 1e-6}
SETTLED = ("CONVERGED", "PROVED")
UNSETTLED = "\\*"
ABSURD = 1e6  # an error of a million nats is no answer
LATE = 1.1, 0.5  # times the limit, plus seconds: later than that is late


def page(result: Result, task: str, door: str, methods: list[str]) -> str:
    """Return the tables of one task: targets, by method, by category, by problem."""
    problems = {k: p for k, p in result["problems"].get(door, {}).items() if task in p["tasks"]}
    runs: Runs = {
        m: {k: e for k, e in result["runs"].get(door, {}).get(m, {}).items() if k in problems} for m in methods
    }
    runs = {m: found for m, found in runs.items() if found}
    keys = [key for key in problems if any(key in found for found in runs.values())]
    if not keys:
        return f"No results for {task} yet.\n"
    first, found = next(iter(runs.items()))
    parts = [
        f"{len(keys)} problems, {stated_limits(result, door, runs)}, one thread; "
        f"{', '.join(f'{n} {v}' for n, v in result['versions'].items())}; {result['date']}.",
        *(f"- {line}" for line in targets(problems, found, task)),
        by_method(problems, runs, task, {m: limit_of(result, door, m)[0] for m in runs}),
        *late_answers(runs, {m: limit_of(result, door, m)[0] for m in runs}),
        by_category(problems, runs, keys, task),
        f"Published scores of 2022, over the problems of that competition:\n\n{published(task)}",
        f"`{first}`, by problem ({UNSETTLED} where the run had not settled):\n\n{by_problem(problems, found, task)}",
    ]
    if len(runs) > 1:
        parts.append(f"All methods, {WHAT[task]}, by problem:\n\n{side_by_side(problems, runs, keys, task)}")
    return "\n\n".join(parts).replace("\n\n- ", "\n- ").replace(".\n- ", ".\n\n- ", 1) + "\n"


def limit_of(result: Result, door: str, method: str) -> tuple[float, bool]:
    """Return the seconds that a method had for each problem, and whether they are the processor's."""
    found = result.get("limits", {}).get(door, {}).get(method, {"seconds": result["limit"], "processor": False})
    return float(found["seconds"]), bool(found["processor"])


def stated_limits(result: Result, door: str, runs: Runs) -> str:
    """Return the time limits in words."""
    groups: dict[str, list[str]] = {}
    for method in runs:
        limit, processor = limit_of(result, door, method)
        groups.setdefault(f"{limit:g} s{' of the processor' if processor else ''}", []).append(method)
    first, *rest = groups.items()
    others = [f"{', '.join(f'`{m}`' for m in methods)}: {limit}" for limit, methods in rest]
    return f"at most {first[0]} for each and method" + (f" ({'; '.join(others)})" if others else "")


# -- targets ----------------------------------------------------------------------------------------------------------
def targets(problems: Result, found: dict[str, Result], task: str) -> list[str]:
    """Return one line a target: how many of how many."""
    if task == "MAR":
        return []
    if task == "PR":
        errors = [_error(entry, task) for entry in found.values()]
        return [f"ln Z within 0.1 of the reference: {_of([e is not None and abs(e) <= 0.1 for e in errors])}."]
    exact = [_reaches(found[k], p, "exact") for k, p in problems.items() if k in found and _finite(p["exact"])]
    merlin = [_reaches(found[k], p, "merlin") for k, p in problems.items() if k in found and p["merlin"] is not None]
    nothing = sum(p["merlin"] is not None and not _finite(p["merlin"]) for k, p in problems.items() if k in found)
    gaps = [_width(found[k]) for k, p in problems.items() if k in found and p["exact"] is None]
    closed = sum(gap <= 1e-6 for gap in gaps)
    known = [gap for gap in gaps if math.isfinite(gap)]
    middle = f", the median interval is {statistics.median(known):.3g} wide" if known else ""
    return [
        f"the optimum, where it is known and not 0, to 1e-6: {_of(exact)}.",
        f"at least the value of the assignment that Merlin found: {_of(merlin)}; {nothing} of its values are 0.",
        f"where no optimum is known: {closed} of {len(gaps)} proved optimal{middle}.",
    ]


def _of(hits: list[bool]) -> str:
    return f"{sum(hits)} of {len(hits)}" + (f" ({100 * sum(hits) / len(hits):.0f} %)" if hits else "")


def _finite(text: str | None) -> bool:
    return text is not None and math.isfinite(float(text))


def _reaches(entry: Result, about: Result, name: str) -> bool:
    value = entry.get("value")
    return value is not None and value >= float(about[name]) - 1e-6


def _width(entry: Result) -> float:
    lower, upper = entry.get("lower"), entry.get("upper")
    return math.inf if lower is None or upper is None else upper - lower


# -- tables -----------------------------------------------------------------------------------------------------------
def _error(entry: Result, task: str) -> float | None:
    """Return the signed error; None for the failed and the absurd (an upper bound may be as good as none)."""
    error: float | None = entry.get("errors", {}).get(task)
    return None if error is None or abs(error) >= ABSURD else error


def _distances(entries: Iterable[Result], task: str) -> list[float]:
    errors = [_error(entry, task) for entry in entries]
    return [max(0.0, -e) if task == "MMAP" else abs(e) for e in errors if e is not None]


def _scores(problems: Result, found: dict[str, Result], task: str) -> list[float]:
    """Return the scores where there is something to compare with."""
    return [
        score(task, _error(entry, task), problems[key]["trivial"].get(task))
        for key, entry in found.items()
        if task != "MMAP" or problems[key]["best"] is not None or "MMAP" in entry.get("errors", {})
    ]


def is_exact(entry: Result) -> bool:
    """Whether the answer is a proof: both ends of its interval are one number, or Z is 0."""
    return entry.get("status") == "PROVED" or (entry.get("bound") == "EXACT" and _width(entry) <= 1e-9)


def by_method(problems: Result, runs: Runs, task: str, limits: dict[str, float]) -> str:
    """One row a method."""
    header = [
        "method", "problems", "exact", f"within {CLOSE[task]:g}", "score", "median", "mean", "worst", "failed",
        "wrong side", "late", "median time",
    ]  # fmt: skip
    rows = []
    for method, found in runs.items():
        entries, far = list(found.values()), _distances(found.values(), task)
        rows.append([
            f"`{method}`", str(len(found)), str(sum(map(is_exact, entries))),
            str(sum(distance <= CLOSE[task] for distance in far)),
            _mean(_scores(problems, found, task)),
            *([f"{f(far):.3g}" for f in (statistics.median, statistics.fmean, max)] if far else ["-"] * 3),
            str(sum("failed" in entry for entry in entries)),
            str(sum(bool(entry.get("wrong_side")) for entry in entries)),
            str(sum(is_late(entry, limits[method]) for entry in entries)),
            seconds(statistics.median(entry["seconds"] for entry in entries)),
        ])  # fmt: skip
    return f"Columns median, mean and worst: the {WHAT[task]}.\n\n{table(header, rows)}"


def is_late(entry: Result, limit: float) -> bool:
    """Whether an answer came noticeably after its time."""
    return bool(entry["seconds"] > LATE[0] * limit + LATE[1])


def late_answers(runs: Runs, limits: dict[str, float]) -> list[str]:
    """One line that names the late, if there are any."""
    late = [
        f"{key} by `{method}` ({seconds(entry['seconds'])}, processor {seconds(entry.get('cpu_seconds'))})"
        for method, found in runs.items()
        for key, entry in found.items()
        if is_late(entry, limits[method])
    ]
    return [f"Late: {'; '.join(late)}."] if late else []


def _mean(values: list[float]) -> str:
    return f"{statistics.fmean(values):.1f}" if values else "-"


def by_category(problems: Result, runs: Runs, keys: list[str], task: str) -> str:
    """The mean score and the mean distance of each category, and of all."""
    rows = []
    for category in [*dict.fromkeys(key.rsplit("/", 1)[0] for key in keys), "all"]:
        inside = [key for key in keys if category in ("all", key.rsplit("/", 1)[0])]
        cells = []
        for found in runs.values():
            here = {key: found[key] for key in inside if key in found}
            far = _distances(here.values(), task)
            cells += [_mean(_scores(problems, here, task)), f"{statistics.fmean(far):.3g}" if far else "-"]
        rows.append([category, str(len(inside)), *cells])
    header = ["category", "problems"]
    for method in runs:
        header += [f"`{method}` score", f"`{method}` error"]
    return f"Mean score and mean {WHAT[task]}, by category:\n\n{table(header, rows)}"


def published(task: str) -> str:
    """The scores of 2022."""
    rows = [[solver, *(f"{figure:.1f}" for figure in figures)] for solver, figures in PUBLISHED[task].items()]
    return table(["solver", "20 s", "20 min", "1 h"], rows)


def by_problem(problems: Result, found: dict[str, Result], task: str) -> str:
    """One row a problem: reference, error, interval relative to the reference, score, time."""
    own = {"PR": ["ln Z"], "MAR": [], "MMAP": ["optimum", "Merlin", "2022", "value"]}[task]
    ends = [] if task == "MAR" else ["lower", "upper"]
    header = ["problem", "variables", "width", *own, "error", *ends, "answer", "score", "time", "wrong side"]
    rows = []
    for key, entry in found.items():
        about = problems[key]
        texts = {
            "ln Z": _number(about.get("log_z")),
            "optimum": _number(about.get("exact")),
            "Merlin": _number(about.get("merlin")),
            "2022": _number(about.get("published"), ".4g"),
            "value": _number(entry.get("value")),
            "lower": _number(entry.get("lower")),
            "upper": _number(entry.get("upper")),
        }
        worth = _scores(problems, {key: entry}, task)
        rows.append([
            key, str(about["n_vars"]), str(about["width"]), *(texts[name] for name in own), _cell(entry, task),
            *(texts[name] for name in ends), _kind(entry), _mean(worth), seconds(entry["seconds"]),
            ", ".join(entry.get("wrong_side", [])),
        ])  # fmt: skip
    return table(header, rows)


def side_by_side(problems: Result, runs: Runs, keys: list[str], task: str) -> str:
    """One row a problem, one column a method."""
    rows = [
        [key, str(problems[key]["width"]), *(_cell(found.get(key), task) for found in runs.values())] for key in keys
    ]
    return table(["problem", "width", *(f"`{m}`" for m in runs)], rows)


def _number(value: float | str | None, form: str = ".8g") -> str:
    return "-" if value is None else format(float(value), form)


def _kind(entry: Result) -> str:
    if "failed" in entry:
        return "-"
    return "exact" if is_exact(entry) else "interval" if math.isfinite(_width(entry)) else "half open"


def _cell(entry: Result | None, task: str) -> str:
    """Return one error, signed unless it is a distance, with a mark if the run had not settled."""
    if entry is None:
        return "-"
    if "failed" in entry:
        return " ".join(part.strip() for part in entry["failed"].split(":")[:2]).removesuffix("Error").lower()
    if task not in entry["errors"]:
        return "-"
    error = entry["errors"][task]
    if error is None and entry["status"] == "PROVED":
        return "wrong: Z = 0"
    absurd = error is None or abs(error) >= ABSURD
    text = ">1e6" if absurd else "0" if error == 0.0 else f"{error:{'' if task == 'MAR' else '+'}.3g}"
    return text if entry["status"] in SETTLED else f"{text}{UNSETTLED}"
