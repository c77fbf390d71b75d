"""Axes to draw on, and the colours that all pictures share. matplotlib is imported only when something is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beliefs.errors import UnsupportedError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

__all__ = [
    "ACCENT",
    "DARK",
    "FAINT",
    "INK",
    "LINE",
    "PAPER",
    "STRONG",
    "axes_or_new",
    "change_colours",
    "difference_colours",
    "entropy_colours",
    "plain",
    "require_matplotlib",
]

INK, DARK, LINE, FAINT, PAPER = "#1c2733", "#2b3a49", "#8a97a3", "#bccad6", "#f6f8fa"
STRONG, ACCENT = "#1f6391", "#c4541c"


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """Return ``ax``, or the axes of a new figure of that size in inches.

    The new figure is pyplot's: a notebook shows it at the end of the cell, ``plt.show()`` in a script, and
    ``ax.figure.savefig(path)`` writes it. Whoever draws many closes them, or passes ``ax``.
    """
    if ax is not None:
        return ax
    require_matplotlib()
    from matplotlib import pyplot

    return pyplot.figure(figsize=(width, height), layout="constrained").add_subplot()


def require_matplotlib() -> None:
    """Raise one clear line where matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise UnsupportedError("matplotlib is not installed; try the extra beliefs[plot]") from None


def plain(ax: Axes) -> None:
    """Take away what carries no data: two of the frame's sides, and black."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(LINE)
    ax.tick_params(color=LINE, labelcolor=INK)


def _from(name: str, *colours: str) -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(f"beliefs.{name}", colours)


def change_colours() -> Colormap:
    """Return the scale from paper to orange; dark text is legible on all of it."""
    return _from("change", PAPER, "#fbe3cf", "#f3a971", "#e2783a")


def entropy_colours() -> Colormap:
    """Return the scale from paper to blue; dark text is legible on all of it."""
    return _from("entropy", PAPER, "#d5e4ef", "#9cc3de", "#6aa3cb")


def difference_colours() -> Colormap:
    """Return the scale blue, paper, orange for signed differences."""
    return _from("difference", STRONG, "#8bb7d3", PAPER, "#eda878", ACCENT)
