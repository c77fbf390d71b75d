"""What the experiments share besides curves: the command line, claims beside findings, JSON and figures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from curves import Curve

from beliefs.datasets import data_home
from beliefs.plot.canvas import FAINT, INK, LINE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "Claim", "command_line", "draw_bounds", "draw_decodings", "legend_below", "report", "room_for", "save", "sized",
    "style", "tidy",
]  # fmt: skip

T = TypeVar("T")

HERE = Path(__file__).parent
_GREYS = {"MBE": (0, (1, 1.2)), "reordering": (0, (4, 1.5, 1, 1.5))}
_COLOURS = {
    "GDD": "#174a6e",
    "GDD (ours)": "#4fa3d8",
    "L-BFGS": "#6b4fa0",
    "WMB (ours)": "#2e8b57",
    "TRW free energy": "#c4541c",
}
_STEPS = ("#f2b134", "#e2783a", "#c0392b", "#7b1e3a")  # from small steps to large


# -- the command line -------------------------------------------------------------------------------------------------
def command_line(
    description: str | None, *, needs_data: bool, needs: str = "uai_index.csv", sizes: bool = False
) -> argparse.Namespace | None:
    """Read the options; None, after one line that says why, where the data (the file ``needs``) is not there.

    A quick run writes to ``experiments/local``, so that it does not replace the figures of a full one. Studies of
    several ``sizes`` also have ``--full`` and ``--only``.
    """
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--data", help="the data folder; by default that of BELIEFS_DATA")
    parser.add_argument("--quick", action="store_true", help="small models and few iterations")
    if sizes:
        parser.add_argument("--full", action="store_true", help="everything as in the paper: days")
        parser.add_argument("--only", nargs="+", help="run the jobs whose name contains one of these texts")
    parser.add_argument("--output", type=Path, help="where figures/ and results/ are made")
    options = parser.parse_args()
    options.output = options.output or (HERE / "local" if options.quick else HERE)
    if needs_data:
        options.data = data_home(options.data, missing_ok=True)
        if options.data is None or not (options.data / needs).is_file():
            print("Skipped: the data folder is not there; name it with --data or the variable BELIEFS_DATA.")
            return None
    return options


def sized(options: argparse.Namespace, quick: T, ordinary: T, full: T) -> tuple[T, str]:
    """Return the setting that the options ask for, and what names of its files end in."""
    return (quick, "_quick") if options.quick else (full, "_full") if options.full else (ordinary, "")


# -- findings ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, what we see, and whether that agrees."""

    paper: str
    ours: str
    holds: bool


def report(title: str, claims: list[Claim], differences: list[str]) -> None:
    """Print claims beside findings, and what differs from the paper's setting."""
    print(f"\n{title}")
    for claim in claims:
        print(_wrapped("paper", claim.paper))
        print(_wrapped("ours ", claim.ours))
        print(f"  -> {'holds' if claim.holds else 'DIFFERS'}\n")
    print("What differs from the paper's setting:")
    for line in differences:
        print(textwrap.fill(line, 116, initial_indent="  - ", subsequent_indent="    "))


def _wrapped(who: str, text: str) -> str:
    return textwrap.fill(text, 116, initial_indent=f"  {who}: ", subsequent_indent=" " * 9)


def machine() -> dict[str, Any]:
    """Return what the seconds depend on."""
    names = [line.split(":", 1)[1].strip() for line in _cpu_info() if line.startswith("model name")]
    versions = {name: metadata.version(name) for name in ("numpy", "numba")}
    return {"cpu": names[0] if names else platform.machine(), "cores": os.cpu_count(), **versions}


def _cpu_info() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.is_file() else []


def save(
    folder: Path, name: str, figures: Mapping[str, Figure], numbers: Mapping[str, Any], claims: list[Claim]
) -> None:
    """Write ``figures/*.png`` and ``results/NAME.json``, and say where."""
    for part in ("figures", "results"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    written = [folder / "results" / f"{name}.json"]
    document = {"machine": machine(), "claims": [asdict(claim) for claim in claims], **numbers}
    written[0].write_text(json.dumps(document, default=_plain) + "\n")
    for title, figure in figures.items():
        written.append(folder / "figures" / f"{title}.png")
        figure.savefig(written[-1], dpi=100)
    print("\nWritten: " + ", ".join(str(path) for path in written))


def _plain(value: Any) -> Any:
    if isinstance(value, Curve):
        return value.plain()
    if isinstance(value, np.ndarray):
        return np.round(value, 6).tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a JSON file")


# -- figures ----------------------------------------------------------------------------------------------------------
def style(label: str, labels: list[str]) -> dict[str, Any]:
    """Return a method's colour and line: one blue for GDD, warm colours from small fixed steps to large, greys."""
    if label in _GREYS:
        return {"color": LINE, "ls": _GREYS[label], "lw": 1.5, "zorder": 1}
    if label in _COLOURS:
        wide = {"lw": 2.4, "zorder": 5} if label == "GDD" else {"lw": 1.6, "zorder": 4}
        return {"color": _COLOURS[label], **wide}
    if "free weights" in label:
        return {"color": "#222222", "lw": 1.3, "ls": (0, (5, 1.5)), "zorder": 4}
    steps = [name for name in labels if name.startswith("WMB-") and "," not in name]
    place = steps.index(label) * (len(_STEPS) - 1) // max(1, len(steps) - 1)
    return {"color": _STEPS[place], "lw": 1.4, "zorder": 3}


def draw_bounds(ax: Axes, curves: Mapping[str, Curve], against: str = "iterations") -> None:
    """Draw the bound of each iterate (of our own methods the best so far); one pass is a level line."""
    labels = list(curves)
    for label, curve in curves.items():
        if len(curve.bound) == 1:
            ax.axhline(curve.bound[0], label=label, **style(label, labels))
        else:
            where = range(len(curve.bound)) if against == "iterations" else curve.seconds
            ax.plot(where, curve.best if "(ours)" in label else curve.bound, label=label, **style(label, labels))


def draw_decodings(ax: Axes, curves: Mapping[str, Curve], labels: list[str]) -> None:
    """Draw the value of each iterate's decoding, dashed, of some methods; impossible ones leave a gap."""
    later: list[float] = []
    for label in labels:
        values = np.array(curves[label].decoding)
        finite = np.where(np.isfinite(values), values, np.nan)
        ax.plot(finite, **style(label, list(curves)) | {"ls": (0, (3, 1.2)), "lw": 1.2, "marker": ".", "ms": 4})
        later.extend(finite[5:][np.isfinite(finite[5:])])
    if later:
        margin = max(0.08 * (max(later) - min(later)), 1.0)
        ax.set_ylim(min(later) - margin, max(later) + margin)
    else:
        ax.text(0.5, 0.5, "every decoding is impossible,\n$Q = -\\infty$", ha="center", transform=ax.transAxes)
        ax.set_yticks([])


def room_for(curves: Mapping[str, Curve]) -> tuple[float, float]:
    """Return limits that show all good bounds and those of one pass; what is looser leaves at the top."""
    lowest = min(curve.best[-1] for curve in curves.values())
    highest = max(curve.bound[0] for curve in curves.values() if len(curve.bound) == 1)
    return lowest - 0.06 * (highest - lowest), highest + 0.15 * (highest - lowest)


def tidy(ax: Axes) -> None:
    """Take away the frame's two idle sides and lay a faint grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=FAINT, lw=0.4, alpha=0.6)
    ax.tick_params(labelcolor=INK)


def legend_below(figure: Figure, ax: Axes, columns: int) -> None:
    """Put one legend for all panels under them, where it hides no curve."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, handlelength=2.6)
