"""Where boxes and lines of a network's picture go, in units of the letters' height (em); y points up.

Names are outlines in the picture's own coordinates rather than text, so that a name fits its box at every size, and
the room it needs is known before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from beliefs.display.layered import layered_drawing
from beliefs.errors import ModelError, UnsupportedError
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

if TYPE_CHECKING:
    from matplotlib.path import Path

__all__ = ["Picture", "distance_picture", "layered_picture"]

_HEIGHT, _PADDING = 2.0, 1.6  # of a box, and added to its name's width
_GAP, _RISE = 1.2, 4.2  # between boxes of one layer, and from layer to layer
_MARGIN = 0.8
_CAPITAL = 0.73  # height of a capital letter
_SPREAD = 0.8  # distance between arrow heads that meet at one box
_KAMADA_KAWAI_LIMIT = 150  # nodes: beyond, its cubic cost is felt, and springs do
_INCHES_PER_EM, _MOST_INCHES = 8.5 / 72, 30.0


@dataclass(frozen=True, eq=False)
class Picture:
    """Boxes ``centre (n, 2)`` and ``size (n, 2)`` with their labels; lines; squares for factors of three or more.

    A line is its points ``(k, 2)``. With ``arrows`` it ends in an arrow head, and is upright at every point.
    """

    outlines: Sequence[Path]
    centre: Floats
    size: Floats
    lines: tuple[Floats, ...]
    squares: Floats
    arrows: bool

    @property
    def corners(self) -> tuple[Floats, Floats]:
        """The lower left and the upper right corner of everything, with a margin."""
        low, high = self.centre - self.size / 2, self.centre + self.size / 2
        points = np.concatenate([low, high, self.squares, *self.lines])
        return points.min(axis=0) - _MARGIN, points.max(axis=0) + _MARGIN

    @property
    def inches(self) -> tuple[float, float]:
        """Size of a figure in which names are set in about 8.5 points, and room for a scale below."""
        low, high = self.corners
        width, height = (high - low) * _INCHES_PER_EM
        shrink = min(1.0, _MOST_INCHES / max(width, height))
        return max(3.0, shrink * width), max(1.0, shrink * height) + 0.7


def _outlines(labels: Sequence[str]) -> list[Path]:
    """Return the labels as paths around the origin, one em high."""
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    paths = [TextPath((0, 0), label, size=1) for label in labels]
    middles = [(_across(path).max() + _across(path).min()) / 2 for path in paths]
    return [Affine2D().translate(-x, -_CAPITAL / 2).transform_path(p) for x, p in zip(middles, paths, strict=True)]


def _across(path: Path) -> Floats:
    return np.asarray(path.vertices, float)[:, 0]


def _sizes(outlines: Sequence[Path]) -> Floats:
    return np.array([(np.ptp(_across(path)) + _PADDING, _HEIGHT) for path in outlines])


# -- Bayesian networks --------------------------------------------------------------------------------------------
def layered_picture(graph: FactorGraph, labels: Sequence[str]) -> Picture:
    """Draw a Bayesian network in layers, arcs pointing down."""
    assert graph.children is not None
    arcs = [(int(u), int(v)) for f, v in enumerate(graph.children) for u in graph.layout.scope(f) if v >= 0 and u != v]
    outlines = _outlines(labels)
    size = _sizes(outlines)
    drawing = layered_drawing(graph.n_vars, arcs, size[:, 0], _GAP)
    centre = np.stack([drawing.x, -_RISE * drawing.layer], axis=1)
    # A line passes a layer upright, from the height of the boxes' tops to that of their bottoms: it touches none.
    beside = np.array([(0.0, _HEIGHT / 2), (0.0, -_HEIGHT / 2)])
    bends = [(bend[:, None, :] * (1.0, -_RISE) + beside).reshape(-1, 2) for bend in drawing.bends]
    lines = tuple(_spread(arcs, bends, centre, size))
    return Picture(outlines, centre, size, lines, np.zeros((0, 2)), arrows=True)


def _spread(arcs: list[tuple[int, int]], bends: list[Floats], centre: Floats, size: Floats) -> list[Floats]:
    """Join boxes by lines; those that meet at one side of a box stand beside each other, in order of their origin."""
    half = np.array([0.0, _HEIGHT / 2])
    lines = [np.concatenate([[centre[u] - half], bend, [centre[v] + half]]) for (u, v), bend in zip(arcs, bends)]
    for end, beyond in ((0, 1), (1, -2)):  # the parents' lower sides, then the children's upper ones
        here = -end  # first point of a line, or its last
        meeting: dict[int, list[int]] = {}
        for a, arc in enumerate(arcs):
            meeting.setdefault(arc[end], []).append(a)
        for v, group in meeting.items():
            group.sort(key=lambda a: lines[a][beyond][0])
            step = min(_SPREAD, 0.7 * size[v, 0] / len(group))
            for k, a in enumerate(group):
                lines[a][here][0] += step * (k - (len(group) - 1) / 2)
    return lines


# -- other models -------------------------------------------------------------------------------------------------
def distance_picture(graph: FactorGraph, labels: Sequence[str], positions: ArrayLike | None = None) -> Picture:
    """Draw variables and factors so that boxes do not overlap; places are given, or found by networkx."""
    scopes = sorted({tuple(sorted(int(v) for v in graph.layout.scope(f))) for f in range(graph.n_factors)})
    pairs: list[tuple[int, ...]] = [s for s in scopes if len(s) == 2]
    larger = [s for s in scopes if len(s) > 2]
    outlines = _outlines(labels)
    size = _sizes(outlines)
    if positions is None:
        places = _places(graph.n_vars, pairs, larger)
    else:
        given = np.asarray(positions, float)
        if given.shape != (graph.n_vars, 2) or not np.isfinite(given).all():
            raise ModelError(f"positions must be finite with shape ({graph.n_vars}, 2), found shape {given.shape}")
        middles = [given[list(s)].mean(axis=0) for s in larger]
        places = np.concatenate([given, np.reshape(middles, (-1, 2))])
    places = places * _scale(places[: graph.n_vars], size)
    centre, squares = places[: graph.n_vars], places[graph.n_vars :]
    lines = [centre[list(s)] for s in pairs]
    lines += [np.stack([squares[k], centre[v]]) for k, s in enumerate(larger) for v in s]
    return Picture(outlines, centre, size, tuple(lines), squares, arrows=False)


def _places(n_vars: int, pairs: list[tuple[int, ...]], larger: list[tuple[int, ...]]) -> Floats:
    try:
        import networkx as nx
    except ImportError:
        raise UnsupportedError("networkx is not installed; try the extra beliefs[plot], or give positions") from None
    graph = nx.Graph()
    graph.add_nodes_from(range(n_vars + len(larger)))
    graph.add_edges_from(pairs)
    graph.add_edges_from((n_vars + k, v) for k, s in enumerate(larger) for v in s)
    places, right = np.zeros((len(graph), 2)), 0.0
    parts = sorted((sorted(part) for part in nx.connected_components(graph)), key=lambda part: (-len(part), part[0]))
    lonely = [part[0] for part in parts if len(part) == 1]
    for part in [part for part in parts if len(part) > 1] + [lonely] * bool(lonely):
        here = _square(len(part)) if part is lonely else _part_places(nx, graph.subgraph(part), part)
        here -= here.min(axis=0)
        places[part] = here + (right, -here[:, 1].max() / 2)
        right += here[:, 0].max() + 1.0
    return places


def _part_places(nx: Any, graph: Any, part: list[int]) -> Floats:
    """Place a connected part so that a line is about one long."""
    few = len(part) <= _KAMADA_KAWAI_LIMIT
    found = nx.kamada_kawai_layout(graph) if few else nx.spring_layout(graph, seed=0)
    lengths = [np.hypot(*(found[u] - found[v])) for u, v in graph.edges]
    places: Floats = np.array([found[v] for v in part]) / np.mean(lengths)
    return places


def _square(n: int) -> Floats:
    side = int(np.ceil(np.sqrt(n)))
    return np.stack([np.arange(n) % side, -(np.arange(n) // side)], axis=1).astype(float)


def _scale(centre: Floats, size: Floats) -> float:
    """Return the least factor by which the places must be spread so that no two boxes overlap."""
    factor = 1.0
    for v in range(len(centre) - 1):
        apart = np.abs(centre[v + 1 :] - centre[v])
        room = (size[v + 1 :] + size[v]) / 2 + _GAP / 2
        with np.errstate(divide="ignore"):
            needed = (room / apart).min(axis=1)
        if not np.isfinite(needed).all():
            raise ModelError("two variables have the same position")
        factor = max(factor, float(needed.max()))
    return factor
