"""Networks as pictures: Bayesian networks in layers, other models by their distances.

A variable is a box with its name. Observed variables are dark and carry their state; the others are coloured by a
number of each: how uncertain it is, or how much it has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.inference.result import InferenceResult
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.plot.canvas import DARK, INK, LINE, PAPER, axes_or_new, change_colours, entropy_colours, require_matplotlib
from beliefs.plot.picture import Picture, distance_picture, layered_picture
from beliefs.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Colormap
    from matplotlib.path import Path

__all__ = ["marginal_change", "marginal_entropy", "plot_network"]

_ARROW_HEAD = np.array([(0.0, 0.0), (-0.24, 0.6), (0.24, 0.6)])
_SQUARE = np.array([(-0.35, -0.35), (0.35, -0.35), (0.35, 0.35), (-0.35, 0.35)])


def marginal_entropy(result: InferenceResult) -> Floats:
    r"""Return the entropy of every variable's marginal in nats, ``(n_vars,)``.

    .. math:: -\sum_x \mu_v(x) \log \mu_v(x)
    """
    p = result.mu_var
    terms = -p * np.log(np.where(p > 0, p, 1.0))
    return np.maximum(0.0, np.add.reduceat(terms, result.graph.layout.state_ptr[:-1]))


def marginal_change(before: InferenceResult, after: InferenceResult) -> Floats:
    r"""Return the total variation between two results' marginals, ``(n_vars,)``, each in [0, 1].

    .. math:: \tfrac12 \sum_x |\mu_v(x) - \mu'_v(x)|

    It is the largest change of the probability of any event about the variable.
    """
    if not np.array_equal(before.graph.layout.card, after.graph.layout.card):
        raise ModelError("the two results are of models with different variables")
    return 0.5 * np.add.reduceat(np.abs(before.mu_var - after.mu_var), after.graph.layout.state_ptr[:-1])


def plot_network(
    model: Model | InferenceResult,
    result: InferenceResult | None = None,
    *,
    prior: InferenceResult | None = None,
    values: ArrayLike | None = None,
    label: str | None = None,
    positions: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a model's variables and what connects them.

    A Bayesian network is drawn in layers with its arcs pointing down. Of other models a factor over two variables is
    a line, a larger one a small square joined to its variables; they are placed by networkx so that distances in the
    picture follow distances in the graph.

    Parameters
    ----------
    model : BayesianNetwork, FactorGraph or InferenceResult
        The structure. Observed variables leave the scopes of a conditioned graph, so pass the network *before*
        conditioning here and the answer as ``result``.
    result : InferenceResult, optional
        Says which variables are observed; the others are coloured by the entropy of their marginals.
    prior : InferenceResult, optional
        Colour by the change from these marginals instead (total variation).
    values : array_like (n_vars,), optional
        Colour by these numbers instead; ``label`` says what they are.
    positions : array_like (n_vars, 2), optional
        Where the centres shall be, instead of a layout.
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes
        Each box carries its variable's name as its ``gid``, and ``"observed:"`` before it if it is observed.
    """
    require_matplotlib()
    if isinstance(model, InferenceResult):
        result = model if result is None else result
        model = model.graph
    graph = as_factor_graph(model)
    if graph.n_vars == 0:
        raise ModelError("the model has no variables")
    for other in (result, prior):
        if other is not None and not np.array_equal(other.graph.layout.card, graph.layout.card):
            raise ModelError("the result is of a model with other variables than the one to draw")
    evidence = (graph if result is None else result.graph).evidence
    labels = [_label(graph, v, evidence) for v in range(graph.n_vars)]
    if positions is None and graph.children is not None and not graph.evidence:
        picture = layered_picture(graph, labels)
    else:
        picture = distance_picture(graph, labels, positions)
    shading = _shading(graph, result, prior, values, label)
    shades: Sequence[Any] = [PAPER] * graph.n_vars if shading is None else shading.shades()
    ax = axes_or_new(ax, *picture.inches)
    _draw_lines(ax, picture)
    for v in range(graph.n_vars):
        _draw_box(ax, picture, v, graph.naming.name(v), None if v in evidence else shades[v])
    _draw_names(ax, picture, evidence)
    _frame(ax, picture)
    if shading is not None:
        shading.draw_scale(ax)
    return ax


def _label(graph: FactorGraph, v: int, evidence: Mapping[int, int]) -> str:
    name = graph.naming.name(v)
    return f"{name} = {graph.naming.label(v, evidence[v])}" if v in evidence else name


# -- colours ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class _Shading:
    """A number for each variable, what it is, and the colours from ``low`` to ``high``."""

    numbers: Floats
    label: str
    low: float
    high: float
    colours: Colormap

    def mappable(self) -> ScalarMappable:
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        return ScalarMappable(Normalize(self.low, self.high if self.high > self.low else self.low + 1.0), self.colours)

    def shades(self) -> Sequence[Any]:
        return list(self.mappable().to_rgba(self.numbers))

    def draw_scale(self, ax: Axes) -> None:
        bar = ax.figure.colorbar(
            self.mappable(), ax=ax, orientation="horizontal", shrink=0.4, aspect=36, pad=0.01, label=self.label
        )
        bar.outline.set_visible(False)
        bar.ax.tick_params(color=LINE, labelcolor=INK)


def _shading(
    graph: FactorGraph,
    result: InferenceResult | None,
    prior: InferenceResult | None,
    values: ArrayLike | None,
    label: str | None,
) -> _Shading | None:
    if values is not None:
        numbers = np.asarray(values, float)
        if numbers.shape != (graph.n_vars,) or not np.isfinite(numbers).all():
            raise ModelError(f"values must be finite with shape ({graph.n_vars},), found shape {numbers.shape}")
        return _Shading(numbers, label or "", float(numbers.min()), float(numbers.max()), change_colours())
    if result is None:
        return None
    if prior is not None:
        what = label or "change of the marginal (total variation)"
        return _Shading(marginal_change(prior, result), what, 0.0, 1.0, change_colours())
    most = float(np.log(graph.layout.card.max()))
    return _Shading(marginal_entropy(result), label or "entropy of the marginal (nats)", 0.0, most, entropy_colours())


# -- shapes -------------------------------------------------------------------------------------------------------
def _draw_lines(ax: Axes, picture: Picture) -> None:
    from matplotlib.collections import PathCollection, PolyCollection
    from matplotlib.path import Path

    paths = [_upright_curve(points) if picture.arrows else Path(points) for points in picture.lines]
    lines = PathCollection(paths, facecolors="none", edgecolors=LINE, linewidths=0.8, zorder=1)
    ax.add_collection(lines, autolim=False)
    if picture.arrows:
        shapes = [points[-1] + _ARROW_HEAD for points in picture.lines]
    else:
        shapes = [centre + _SQUARE for centre in picture.squares]
    ax.add_collection(PolyCollection(shapes, facecolors=LINE, linewidths=0, zorder=1.5), autolim=False)


def _upright_curve(points: Floats) -> Path:
    """Return a smooth path through all points that is upright at each."""
    from matplotlib.path import Path

    lift = np.stack([np.zeros(len(points) - 1), np.diff(points[:, 1]) / 2], axis=1)
    pieces = np.stack([points[:-1] + lift, points[1:] - lift, points[1:]], axis=1)
    vertices = np.concatenate([points[:1], pieces.reshape(-1, 2)])
    return Path(vertices, [Path.MOVETO] + [Path.CURVE4] * (len(vertices) - 1))


def _draw_box(ax: Axes, picture: Picture, v: int, name: str, colour: Any | None) -> None:
    """Draw one variable's box; ``colour=None`` marks it as observed."""
    from matplotlib.patches import FancyBboxPatch

    observed = colour is None
    (left, bottom), (width, height) = picture.centre[v] - picture.size[v] / 2, picture.size[v]
    box = FancyBboxPatch(
        (left, bottom),
        width,
        height,
        boxstyle="round,pad=0,rounding_size=0.5",
        facecolor=DARK if observed else colour,
        edgecolor=DARK if observed else LINE,
        linewidth=0.8,
        zorder=2,
    )
    box.set_gid(f"observed:{name}" if observed else name)
    ax.add_artist(box)  # the limits are set once, in the end


def _draw_names(ax: Axes, picture: Picture, evidence: Mapping[int, int]) -> None:
    from matplotlib.collections import PathCollection
    from matplotlib.transforms import Affine2D

    moved = [Affine2D().translate(x, y).transform_path(p) for (x, y), p in zip(picture.centre, picture.outlines)]
    inks = ["white" if v in evidence else INK for v in range(len(moved))]
    ax.add_collection(PathCollection(moved, facecolors=inks, linewidths=0, zorder=3), autolim=False)


def _frame(ax: Axes, picture: Picture) -> None:
    low, high = picture.corners
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    ax.set_axis_off()
