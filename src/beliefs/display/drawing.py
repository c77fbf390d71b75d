"""A small drawing of a directed acyclic graph as SVG: names in layers, arcs pointing down, in the reader's own colour.

Arrow heads are drawn one by one, since a shared one would need an id. Cost: that of :mod:`beliefs.display.layered`,
so it is for graphs of a few dozen vertices.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from beliefs.display.description import shortened
from beliefs.display.html import Markup, as_html
from beliefs.display.layered import layered_drawing

__all__ = ["MOST_ARCS", "MOST_VERTICES", "drawn_network"]

MOST_VERTICES, MOST_ARCS = 60, 120
_LETTER, _PAD, _HIGH, _RISE, _GAP = 6.8, 12.0, 20.0, 50.0, 12.0  # pixels
_LETTERS = 16


def drawn_network(names: Sequence[str], arcs: Sequence[tuple[int, int]], marked: Collection[int] = ()) -> Markup:
    """Return the drawing; boxes of ``marked`` vertices have a thick border."""
    labels = [shortened(name, _LETTERS) for name in names]
    width = np.array([_LETTER * len(label) + _PAD for label in labels])
    drawing = layered_drawing(len(labels), arcs, width, _GAP)
    x = drawing.x - (drawing.x - width / 2).min() + 2
    y = _RISE * drawing.layer + _HIGH / 2 + 2
    shift = float(x[0] - drawing.x[0])
    lines = []
    for (u, v), bend in zip(arcs, drawing.bends, strict=True):
        points = [(x[u], y[u] + _HIGH / 2)]
        for bx, layer in bend:
            points += [(bx + shift, _RISE * layer + 2), (bx + shift, _RISE * layer + _HIGH + 2)]
        points.append((x[v], y[v] - _HIGH / 2))
        lines.append(_arrow(points))
    boxes = [_box(x[v], y[v], width[v], label, v in marked) for v, label in enumerate(labels)]
    wide = max(float((x + width / 2).max()), *(p[0] + shift for bend in drawing.bends for p in bend), 0.0) + 2
    high = float(y.max()) + _HIGH / 2 + 2
    style = "max-width:100%;height:auto;color:inherit"
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" '
        f'height="{high:.0f}" role="img" style="{style}" fill="none" stroke="currentColor" stroke-width="1" '
        f'font-family="sans-serif" font-size="12">\n{"".join(lines)}{"".join(boxes)}</svg>\n'
    )


def _arrow(points: list[tuple[float, float]]) -> str:
    path = " L".join(f"{a:.1f} {b:.1f}" for a, b in points)
    tip, before = np.array(points[-1]), np.array(points[-2])
    along = (tip - before) / np.hypot(*(tip - before))
    across = np.array([-along[1], along[0]])
    corners = [tip, tip - 6 * along + 2.5 * across, tip - 6 * along - 2.5 * across]
    head = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
    return f'<path d="M{path}" opacity=".6"/><polygon points="{head}" fill="currentColor" opacity=".6"/>\n'


def _box(x: float, y: float, width: float, label: str, marked: bool) -> str:
    size = f'width="{width:.1f}" height="{_HIGH:.0f}" rx="4"' + ' stroke-width="2.5"' * marked
    return (
        f'<rect x="{x - width / 2:.1f}" y="{y - _HIGH / 2:.1f}" {size}/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" fill="currentColor" stroke="none">'
        f"{as_html(label)}</text>\n"
    )
