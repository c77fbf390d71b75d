"""Numbers and tables as Markdown, which read well on a terminal too."""

from __future__ import annotations

from collections.abc import Sequence


# -- numbers ----------------------------------------------------------------------------------------------------------
def seconds(value: float | None) -> str:
    """Return a duration in three digits."""
    if value is None:
        return "-"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def times(value: float | None) -> str:
    """Return a ratio."""
    if value is None:
        return "-"
    return f"{value:.0f}x" if value >= 100 else f"{value:.2g}x" if value < 10 else f"{value:.1f}x"


def size(n_bytes: float) -> str:
    """Return a number of bytes."""
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n_bytes >= scale:
            return f"{n_bytes / scale:.3g} {unit}"
    return f"{n_bytes:.0f} B"


# -- tables -----------------------------------------------------------------------------------------------------------
def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with aligned columns: names to the left, numbers to the right."""
    widths = [max(3, *(len(row[k]) for row in [header, *rows])) for k in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        return "| " + " | ".join(cells) + " |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(header), "| " + " | ".join(rule) + " |", *map(line, rows)])


def plain(header: Sequence[str], rows: Sequence[Sequence[str]], rules: Sequence[str] = ()) -> list[str]:
    """Return the lines of a Markdown table whose columns are not aligned, with ``---`` below the names or ``rules``."""
    return [f"| {' | '.join(cells)} |" for cells in (header, rules or ["---"] * len(header), *rows)]
