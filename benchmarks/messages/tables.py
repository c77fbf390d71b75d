"""The measurements of message passing as Markdown."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.messages.cases import AIMS, LIBDAI, PLAIN, RULES, Grid, Rule, limit_ns, page_loop
from benchmarks.tables import seconds, size, table, times

Result = dict[str, Any]
FREE = "reference, a table per edge"


def _grids(result: Result) -> list[tuple[Grid, Result]]:
    return [(Grid(g["side"], g["states"], g["tied"]), g) for g in result["grids"].values() if "rules" in g]


def _ns(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def sweep_ms(grid: Grid, rule: Rule, ns: float) -> float:
    """Return the milliseconds of a sweep from the nanoseconds of a message or vertex."""
    return 1e-6 * ns * (grid.side**2 if rule.per_vertex else grid.n_messages)


def machine_factor(grid: Grid, measured: Result, loop: str) -> float | None:
    """Return how much slower this run's reference is than the one that libDAI was measured beside.

    Where no such loop was measured then (Gibbs), the geometric mean of the others on the same grid stands in.
    """
    plain = PLAIN.get((grid.side, grid.states), {})
    found = {}
    for rule in RULES:
        rounds, name = measured["rules"].get(rule.name), page_loop(rule.loop)
        if rounds is not None and name in plain and rule.loop == name and rule.task == "infer":
            here = rounds.get(FREE, rounds["reference"])["ns"]
            found[name] = sweep_ms(grid, rule, here) / plain[name]
    if not found:
        return None
    return found.get(loop, math.exp(sum(map(math.log, found.values())) / len(found)))


def libdai_ratio(grid: Grid, measured: Result, rule: Rule) -> float | None:
    """Return libDAI's sweep over ours, carried over through the reference loop."""
    loop = page_loop(rule.loop)
    theirs = LIBDAI.get((grid.side, grid.states), {}).get(loop)
    factor = machine_factor(grid, measured, loop)
    if theirs is None or factor is None:
        return None
    return theirs * factor / sweep_ms(grid, rule, measured["rules"][rule.name]["1 thread"]["ns"])


def _limit(grid: Grid, measured: Result, rule: Rule) -> float | None:
    if rule.loop == "gibbs":
        return None
    speed = measured["speed"]
    bandwidth, flops = speed["copy_gb_per_s"], speed["gemm_gflop_per_s"]
    return limit_ns(grid.states, grid.tied, rule.per_vertex, bandwidth, flops)


def verdict(grid: Grid, measured: Result, rule: Rule) -> str:
    """Return the aim, and whether it is met."""
    aim = AIMS.get((page_loop(rule.loop), grid.states, grid.tied)) if rule.aimed else None
    ratio, limit = libdai_ratio(grid, measured, rule), _limit(grid, measured, rule)
    if aim is None or ratio is None:
        return "-"
    near = aim[1] is not None and limit is not None
    close = near and measured["rules"][rule.name]["1 thread"]["ns"] <= aim[1] * limit
    text = f"{aim[0]:.0f}x" + (f" or {aim[1]:g} limits" if near else "")
    return f"{text}: {'met' if ratio >= aim[0] or close else 'not met'}"


def main_table(result: Result) -> str:
    """One row for every grid and method, one thread."""
    header = [
        "grid, method", "ns", "checked", "reference", "ratio", "limit", "ours/limit", "NumPy", "libDAI", "aim",
    ]  # fmt: skip
    rows = []
    for grid, measured in _grids(result):
        for rule in RULES:
            if rule.name not in measured["rules"]:
                continue
            rounds, limit = measured["rules"][rule.name], _limit(grid, measured, rule)
            ns, plain = rounds["1 thread"]["ns"], rounds["reference"]["ns"]
            numpy_ns = measured.get("numpy", {}).get(rule.loop) if rule.task == "infer" else None
            ratio = libdai_ratio(grid, measured, rule)
            rows.append([
                f"{grid.name}: {rule.name}", _ns(ns), _ns(rounds.get("1 thread, checked", {}).get("ns")), _ns(plain),
                times(plain / ns), _ns(limit), times(ns / limit if limit else None),
                times(numpy_ns / ns if numpy_ns else None), times(ratio), verdict(grid, measured, rule),
            ])  # fmt: skip
    return table(header, rows)


def threads_table(result: Result) -> str:
    """Two threads beside one, and beside what two threads can copy."""
    header = ["grid, method", "1 thread", "2 threads", "speed-up", "copy, 1 thread", "2 threads", "rise", "share"]
    rows = []
    for grid, measured in _grids(result):
        speed = measured["speed"]
        one, two = speed["copy_gb_per_s"], speed["copy_2_threads_gb_per_s"]
        for name, rounds in measured["rules"].items():
            a, b = rounds["1 thread"]["ns"], rounds["2 threads"]["ns"]
            rows.append([
                f"{grid.name}: {name}", f"{a:.3g} ns", f"{b:.3g} ns", times(a / b), f"{one:.1f} GB/s",
                f"{two:.1f} GB/s", times(two / one), f"{a / b / (two / one):.2f}",
            ])  # fmt: skip
    return table(header, rows)


def carried(result: Result) -> str:
    """The times through which libDAI's are carried over."""
    header = ["grid", "sweep of", "libDAI then", "reference then", "reference now", "now/then", "ours"]
    rows = []
    for grid, measured in _grids(result):
        for rule in RULES:
            plain = PLAIN.get((grid.side, grid.states), {}).get(rule.loop)
            if grid.tied or plain is None or rule.task != "infer" or rule.name not in measured["rules"]:
                continue
            rounds = measured["rules"][rule.name]
            here = sweep_ms(grid, rule, rounds["reference"]["ns"])
            rows.append([
                grid.name, rule.name, f"{LIBDAI[grid.side, grid.states][rule.loop]:g} ms", f"{plain:g} ms",
                f"{here:.3g} ms", f"{here / plain:.2f}", f"{sweep_ms(grid, rule, rounds['1 thread']['ns']):.3g} ms",
            ])  # fmt: skip
    return table(header, rows) if rows else ""


def peers_table(result: Result) -> str:
    """Libraries beside ours, on small grids."""
    header = ["library, method", "grid", "theirs", "ours", "ratio"]
    rows = []
    for entry in result.get("peers", {}).values():
        for name, found in entry.get("found", {}).items():
            rows.append([
                f"{entry['name']} {entry['version']}, {name}", found["grid"], f"{found['ns'] / 1e3:.3g} µs",
                f"{found['ours_ns'] / 1e3:.3g} µs", times(found["ns"] / found["ours_ns"]),
            ])  # fmt: skip
    return table(header, rows) if rows else ""


def scaling_table(result: Result) -> str:
    """Time and memory as the grid grows."""
    header = ["grid, K=2", "messages", "ns a message", "against the quickest", "50 sweeps"]
    found = result.get("scaling", {}).get("sizes", {})
    best = min((entry["ns"] for entry in found.values()), default=1.0)
    rows = [
        [f"{side}x{side}", f"{e['messages']:.3g}", _ns(e["ns"]), times(e["ns"] / best), seconds(e.get("fifty"))]
        for side, e in found.items()
    ]
    return table(header, rows) if rows else ""


def memory_table(result: Result) -> str:
    """Peak memory above the built graph."""
    header = ["question", "messages + potentials", "mu", "peak above the graph", "without mu", "ratio"]
    rows = []
    for name, entry in result.get("scaling", {}).get("memory", {}).items():
        rest = entry["peak"] - entry["mu"]
        rows.append([
            name, size(entry["base"]), size(entry["mu"]) if entry["mu"] else "-", size(entry["peak"]), size(rest),
            times(rest / entry["base"]),
        ])  # fmt: skip
    return table(header, rows) if rows else ""


def factors_table(result: Result) -> str:
    """Factors of any arity."""
    header = [
        "problem", "variables", "factors", "arity", "states", "messages", "at first", "later", "form", "limit",
        "first/limit", "later/limit", "NumPy",
    ]  # fmt: skip
    rows = [
        [
            name, str(e["n_vars"]), str(e["n_factors"]), str(e["arity"]), str(e["states"]), str(e["messages"]),
            _ns(e["first_ns"]), _ns(e["ns"]), e["tier"], _ns(e["limit"]), times(e["first_ns"] / e["limit"]),
            times(e["ns"] / e["limit"]), times(e["numpy_ns"] / e["ns"]),
        ]
        for name, e in result.get("factors", {}).get("found", {}).items()
    ]  # fmt: skip
    return f"{table(header, rows)}\n\n{FACTORS}" if rows else ""


def starting(result: Result) -> str:
    """The first call of a process, and compiling from nothing."""
    found = result.get("start", {})
    lines = []
    if "warm" in found:
        warm = found["warm"]
        lines.append(
            f"- First call of a new process, kernels on disk: `import beliefs` {seconds(warm['import'])}, then "
            f"belief propagation on a 5x5 grid {seconds(warm['call'])}, the same again {seconds(warm['again'])}."
        )
    if "cold" in found:
        cold = found["cold"]
        lines.append(
            f"- Nothing on disk: everything message passing needs ({cold['jobs']} questions, {cold['kernels']} "
            f"kernels) compiles in {seconds(cold['seconds'])}."
        )
    return "\n".join(lines)


def findings(result: Result) -> str:
    """The figures that the tables are there for."""
    grids, lines = _grids(result), []
    met = [verdict(g, m, r) for g, m in grids for r in RULES if r.name in m["rules"]]
    kept = [text.endswith(": met") for text in met if text != "-"]
    if kept:
        lines.append(f"- One thread: {sum(kept)} of {len(kept)} aims are met.")
    for grid, measured in grids:
        rules = measured["rules"]
        if {"BP, sum", "BP, max"} <= rules.keys():
            cost = rules["BP, max"]["1 thread"]["ns"] / rules["BP, sum"]["1 thread"]["ns"]
            lines.append(f"- {grid.name}: a maximum costs {cost:.2f} of a sum.")
    sizes = [entry["ns"] for entry in result.get("scaling", {}).get("sizes", {}).values()]
    if sizes:
        flat = max(sizes) / min(sizes)
        lines.append(f"- From the smallest grid to the largest the time of a message is flat within {flat:.2f}x.")
    return "\n".join(lines)


def setting(result: Result) -> str:
    """The machine and the versions."""
    machine, speeds = result["machine"], [m["speed"] for _, m in _grids(result)]
    libraries = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    lines = [
        f"- Machine: {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}; "
        f"load before the run {machine['load_before']}{', **a busy run**' if result['busy'] else ''}.",
    ]
    if speeds:
        best = {name: (max if name.endswith("_per_s") else min)(s[name] for s in speeds) for name in speeds[0]}
        lines.append(
            f"- Copy {best['copy_gb_per_s']:.1f} GB/s with one thread, {best['copy_2_threads_gb_per_s']:.1f} GB/s with "
            f"two; matrix product {best['gemm_gflop_per_s']:.1f} GFLOP/s; in a compiled loop `exp` "
            f"{best['exp_ns']:.1f} ns and `log` {best['log_ns']:.1f} ns."
        )
    return "\n".join([*lines, f"- Versions: {libraries}."])


CAPTION = """\
*ns* is the best time of one message (of one vertex for mean field, of one draw for Gibbs) in a sweep, *checked* the
same with the beliefs and the residual that a step of `infer` also computes (mean field's has them always).
*reference* is the plain compiled loop of `benchmarks/reference_kernel.py` and *ratio* its time over ours, both from
the same minute. *limit* is the least traffic of a message at the copy bandwidth of this run, or its arithmetic at the
speed of a matrix product if that is more. *NumPy* is how many times slower the loops of the tests are, on a small
grid. *libDAI* is not measured here, because no package registry has it: it was once measured beside the first form of
the reference loop, and the column is its milliseconds then, times this run's reference over the reference then, over
our milliseconds now. (For a tied table the reference with a table per edge carries it over, for maxima that of sums,
for Gibbs the mean of the other loops.)"""


FACTORS = """\
Nanoseconds a message in the first two iterations and later in the run, when some have gone over to logs (*form*). The
limit: every table once a sweep, messages read and written, beliefs read and written, at the copy bandwidth. (These
problems fit into the caches, so it is a yardstick and no more.)"""


def page(result: Result) -> str:
    """Everything, as one piece of Markdown."""
    grids = bool(_grids(result))
    sections = [
        ("Setting of the message passing run", setting(result)),
        ("Findings on message passing", findings(result)),
        ("One thread", f"{main_table(result)}\n\n{CAPTION}" if grids else ""),
        ("Two threads", threads_table(result) if grids else ""),
        ("How libDAI's times are carried over", carried(result)),
        ("Beside other libraries", peers_table(result)),
        ("Growing grids", scaling_table(result)),
        ("Memory", memory_table(result)),
        ("Factors of any arity", factors_table(result)),
        ("Starting", starting(result)),
        ("Left out of the message passing run", "\n".join(f"- {note}" for note in result["notes"])),
    ]
    return "\n\n".join(f"### {title}\n\n{body}" for title, body in sections if body) + "\n"
