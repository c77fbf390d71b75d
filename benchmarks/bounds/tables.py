"""Measurements of bounds to Markdown, and their curves to a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Result = dict[str, Any]

_POINTS = 60  # of a curve that are kept


def thinned(curves: Result) -> Result:
    """Return every curve at about as many points as the eye can tell."""
    found = {}
    for name, curve in curves["found"].items():
        seconds = np.array(curve["seconds"])
        wanted = np.geomspace(seconds[0], seconds[-1], _POINTS) if len(seconds) > 1 else seconds
        keep = np.unique(np.searchsorted(seconds, wanted).clip(0, len(seconds) - 1))
        found[name] = {key: np.round(np.array(curve[key])[keep], 6).tolist() for key in ("seconds", "upper")}
    return curves | {"found": found}


def passes(result: Result) -> str:
    """Weighted mini-bucket: an iteration, beside the peer and the cost of its exponentials."""
    measured = result["passes"]
    side = measured["side"]
    lines = [
        f"One iteration of `wmb` on a binary grid of {side}x{side}, one thread: up with matching, and down.",
        "",
        "| i-bound | cells | up, ms | down, ms | ns a cell | exponentials alone, ns a cell | pyGMs, ms | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for ibound, both in measured["found"].items():
        ours, theirs = both["ours"], both["pygms"]
        if "up" not in ours:
            continue
        total = ours["up"] + ours["down"]
        per_cell = 1e9 * total / ours["cells"]
        peer = f"{1e3 * (theirs['up'] + theirs['down']):,.0f}" if "down" in theirs else "-"
        ratio = f"{(theirs['up'] + theirs['down']) / total:,.0f}x" if "down" in theirs else "-"
        lines.append(
            f"| {ibound} | {ours['cells']:,.0f} | {1e3 * ours['up']:.3g} | {1e3 * ours['down']:.3g} | {per_cell:.3g} "
            f"| {3 * ours['exp_ns']:.2g} | {peer} | {ratio} |"
        )
    return "\n".join(lines)


def sweeps(result: Result) -> str:
    """GDD's sweeps beside the iterations of tree-reweighted messages."""
    lines = [
        "A sweep of `gdd` (every variable once, fixed weights) beside an iteration of `trw` (all messages, forward and "
        "backward, and the beliefs) on the same grid, one thread, milliseconds; and, in nanoseconds, the value and "
        "gradient of one cluster at a summed variable beside one `trw` message of the iteration.",
        "",
        "| grid | `trw`, max | `gdd`, max | ratio | `trw`, sum | `gdd`, sum | ratio | value and gradient | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in result["sweeps"].items():
        side = int(name.split("x")[0])
        messages = 4 * side * (side - 1)
        cells = [name]
        for task in ("maximize", "infer"):
            trw, gdd = found.get(f"trw, {task}"), found.get(f"gdd(weights=False), {task}")
            if trw is None or gdd is None:
                cells += ["-", "-", "-"]
                continue
            cells += [f"{1e-6 * messages * trw:.3g}", f"{1e-6 * messages * gdd:.3g}", f"{gdd / trw:.1f}x"]
        if "value and gradient" in found and "trw, infer" in found:
            local, message = found["value and gradient"], found["trw, infer"] / 2
            cells += [f"{local:.3g}", f"{local / message:.1f}x"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def memory(result: Result) -> str:
    """Predicted memory beside what was taken."""
    lines = [
        "Memory of `wmb`, bytes.",
        "",
        "| model | predicted | taken, at most | ratio |",
        "| --- | --- | --- | --- |",
    ]
    for name, found in result["memory"].items():
        lines.append(
            f"| {name} | {found['predicted']:,.0f} | {found['peak']:,.0f} | {found['predicted'] / found['peak']:.2f} |"
        )
    return "\n".join(lines)


def curves(result: Result) -> str:
    """Upper bounds after some times."""
    found, side = result["curves"]["found"], result["curves"]["side"]
    times = (0.1, 1.0, 5.0, 20.0)
    lines = [
        f"Upper bounds on log Z of a hard binary grid of {side}x{side}, minus the best of them, after so many seconds.",
        "",
        f"| method | {' | '.join(f'{t:g} s' for t in times)} |",
        "| --- | " + " | ".join("---" for _ in times) + " |",
    ]
    best = min(curve["upper"][-1] for curve in found.values())
    for name, curve in found.items():
        shown = []
        for t in times:
            past = [u for s, u in zip(curve["seconds"], curve["upper"], strict=True) if s <= t]
            shown.append(f"{min(past) - best:.4g}" if past else "-")
        lines.append(f"| `{name}` | {' | '.join(shown)} |")
    if "lower" in result["curves"]:
        lines += [
            "",
            f"The lower bound of mean field over trees is {best - result['curves']['lower']:.4g} below the best.",
        ]
    return "\n".join(lines)


def page(result: Result) -> str:
    """All tables that were measured."""
    parts = {"passes": passes, "sweeps": sweeps, "memory": memory, "curves": curves}
    texts = [make(result) for name, make in parts.items() if result.get(name)]
    notes = [f"- {note}" for note in result["notes"]]
    machine = result["machine"]
    setting = f"Measured on {result['date']}, {machine['processor']}; load before {machine['load_before']}."
    return "\n\n".join([*texts, setting, *notes]) + "\n"


def draw(result: Result, path: Path) -> None:
    """Draw the upper bounds against time."""
    import matplotlib.pyplot as plt

    found = result["curves"]["found"]
    best = min(curve["upper"][-1] for curve in found.values())
    figure, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    colours = {"trw": "#7a7a7a", "gdd": "#c4541c", "gdd(ibound=5)": "#e89a6c"}
    blues = iter(["#a9c7dd", "#6fa1c4", "#3b7cab", "#123f5e"])
    for name, curve in found.items():
        colour = colours.get(name) or next(blues)
        distance = np.maximum(np.array(curve["upper"]) - best, 1e-6)
        ax.plot(curve["seconds"], distance, color=colour, lw=2, label=name)
    side = result["curves"]["side"]
    ax.set(
        xscale="log", yscale="log", xlabel="seconds", ylabel="bound minus the best of all, nats",
        title=f"Upper bounds on log Z of a {side}x{side} grid",
    )  # fmt: skip
    ax.set_ylim(bottom=0.1)  # below, the best curve falls to itself
    ax.legend(frameon=False, fontsize="small", loc="lower left")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
