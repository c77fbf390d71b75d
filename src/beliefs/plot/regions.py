"""Region graphs as Hasse diagrams: outer regions on top, each with its counting number, lines from parent to child."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beliefs.display.layered import layered_drawing
from beliefs.errors import ModelError
from beliefs.inference.clusters.region_graph import RegionGraph
from beliefs.model.graph import Model, as_factor_graph
from beliefs.plot.canvas import INK, LINE, PAPER, STRONG, axes_or_new, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_regions"]

_LETTER = 0.62  # width of a letter, in its height
_INCHES, _MOST = 0.12, 30.0  # a letter's height, and the longest side of a figure


def plot_regions(regions: RegionGraph, model: Model | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw a region graph; loops have a coloured frame.

    Parameters
    ----------
    regions : RegionGraph
    model : optional
        Whose names the variables have; without it they are shown as indices.
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes
        Each region's text carries its position as its ``gid``.
    """
    require_matplotlib()
    if not regions.n_regions:
        raise ModelError("there are no regions to draw")
    naming = None if model is None else as_factor_graph(model).naming
    labels = [
        f"{' '.join(str(v) if naming is None else naming.name(v) for v in scope)}\n{number:+g}"
        for scope, number in zip(regions.scopes, regions.counting, strict=True)
    ]
    width = np.array([_LETTER * max(map(len, label.split("\n"))) + 1.0 for label in labels])
    arcs: Any = [tuple(edge) for edge in regions.edges.tolist()]
    drawing = layered_drawing(len(labels), arcs, width, 0.8)
    y = -4.5 * drawing.layer
    ax = axes_or_new(ax, *_size(drawing.x, width, y))
    for (parent, child), bends in zip(arcs, drawing.bends, strict=True):
        between = [(x, -4.5 * at) for x, at in bends]
        path = np.array([(drawing.x[parent], y[parent]), *between, (drawing.x[child], y[child])])
        ax.plot(path[:, 0], path[:, 1], color=LINE, linewidth=0.8, zorder=1)
    for r, label in enumerate(labels):
        frame = {"boxstyle": "round", "facecolor": PAPER, "edgecolor": STRONG if regions.is_loop[r] else LINE}
        ax.text(drawing.x[r], y[r], label, ha="center", va="center", fontsize=7, color=INK, bbox=frame, gid=str(r))
    ax.set_xlim(float((drawing.x - width).min()), float((drawing.x + width).max()))
    ax.set_ylim(float(y.min()) - 2.0, 2.0)
    ax.set_axis_off()
    return ax


def _size(x: Any, width: Any, y: Any) -> tuple[float, float]:
    across, down = float((x + width).max() - (x - width).min()), float(4.0 - y.min())
    shrink = min(1.0, _MOST / (_INCHES * max(across, down)))
    return max(2.0, shrink * _INCHES * across), max(1.0, shrink * _INCHES * down)
