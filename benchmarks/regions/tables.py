"""Measurements of region graphs as Markdown."""

from __future__ import annotations

from benchmarks.frame import Result

MICRO, NANO = 1e6, 1e9


def page(result: Result) -> str:
    """Everything, as one piece of Markdown."""
    machine = result["machine"]
    head = (
        f"One thread of {machine['processor']}, load before the run {machine['load_before']}"
        f"{', **a busy run**' if result['busy'] else ''}; {result['date']}."
    )
    parts = [head, sweeps(result), loops(result), references(result), others(result)]
    parts += ["\n".join(f"- Left out: {note}" for note in result["notes"])]
    return "\n\n".join(part for part in parts if part) + "\n"


def sweeps(result: Result) -> str:
    """A row a grid."""
    grids = result.get("sweeps", {}).get("grids", {})
    if not grids:
        return ""
    rows = [
        "| faces of a grid | BP iteration, ms | depth-first sweep, ms | ratio | µs a face | ns a message | regions, s "
        "| plan, s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, e in grids.items():
        a_face, a_message = MICRO * e["sweep"] / e["faces"], NANO * e["sweep"] / e["messages"]
        rows.append(
            f"| {name} | {1e3 * e['bp']:.3g} | {1e3 * e['sweep']:.3g} | {e['ratio']:.0f} | {a_face:.2f} "
            f"| {a_message:.0f} | {e['regions']:.2g} | {e['plan']:.2g} |"
        )
    return "\n".join(rows)


def loops(result: Result) -> str:
    """What one loop costs, by its length."""
    found = result.get("sweeps", {}).get("loops", {})
    if not found:
        return ""
    rows = [
        "| a loop, K=8, µs a vertex | cells | beliefs | sweep of `gbp` | of the inner loop of `double_loop` |",
        "| --- | --- | --- | --- | --- |",
    ]
    for n, e in found.items():
        each = " | ".join(f"{MICRO * e[name] / int(n):.2f}" for name in ("refresh", "gbp", "double_loop"))
        rows.append(f"| {n} vertices | {e['cells']} | {each} |")
    return "\n".join(rows)


def references(result: Result) -> str:
    """Our sweeps beside NumPy."""
    found = {name: e for name, e in result.get("references", {}).items() if isinstance(e, dict)}
    if not found:
        return ""
    rows = ["| sweep of | ours, µs | NumPy with full tables, µs | ratio |", "| --- | --- | --- | --- |"]
    rows += [
        f"| `{name}` | {MICRO * e['ours']:.0f} | {MICRO * e['numpy']:.0f} | {e['ratio']:.0f} |"
        for name, e in found.items()
    ]
    return "\n".join(rows)


def others(result: Result) -> str:
    """Join graphs, cycle bases, memory and the peer."""
    lines = []
    for ibound, e in result.get("join_graph", {}).items():
        lines.append(
            f"- `ijgp(ibound={ibound})`: {1e3 * e['ijgp']:.2f} ms an iteration, {e['ratio']:.2f} of a pass of `wmb`."
        )
    basis = result.get("basis", {})
    if "ratio" in basis:
        where = f"a {basis['side']}x{basis['side']} grid with {basis['extra']} more edges"
        lines.append(
            f"- A partially tree-robust basis of {where}: {basis['cycles']} cycles in {basis['seconds']:.2f} s, "
            f"{basis['ratio']:.0f} iterations of belief propagation."
        )
    for name, e in result.get("memory", {}).items():
        if "grown" in e:
            predicted, grown = e["predicted"] / 1e6, e["grown"] / 1e6
            lines.append(
                f"- Memory on faces of {name}: {predicted:.1f} MB predicted, {grown:.1f} MB allocated at most."
            )
    peers = result.get("peers", {})
    if "seconds" in peers.get("mbi", {}) and "seconds" in peers.get("ours", {}):
        mbi, ours = peers["mbi"], peers["ours"]
        lines.append(
            f"- `convex_gbp`, counting numbers one, {peers['side']}x{peers['side']} grid: optimum {ours['log_z']:.6f} "
            f"in {1e3 * ours['seconds']:.1f} ms; mbi {mbi['version']}: {mbi['log_z']:.6f} in "
            f"{1e3 * mbi['seconds']:.1f} ms, "
            f"{mbi['seconds'] / ours['seconds']:.0f} times as long ({peers['date']})."
        )
    return "\n".join(lines)
