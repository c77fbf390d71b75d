"""Charts of results: marginals as bars, traces, two results against each other, marginals of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.inference.result import InferenceResult
from beliefs.inference.states_result import MapResult, MarginalMapResult
from beliefs.plot.canvas import ACCENT, FAINT, INK, LINE, STRONG, axes_or_new, plain
from beliefs.typing import VariableRef

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_grid", "plot_marginals", "plot_scatter", "plot_trace"]


def plot_marginals(
    result: InferenceResult,
    variables: Sequence[VariableRef] | None = None,
    *,
    prior: InferenceResult | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw marginals as bars, one group of bars a variable and one bar a state.

    Parameters
    ----------
    result : InferenceResult
    variables : sequence of variables, optional
        Which to draw, from top to bottom; all by default.
    prior : InferenceResult, optional
        Its marginals are drawn as a pale bar beside each.
    ax : matplotlib Axes, optional
    """
    graph = result.graph
    chosen = range(graph.n_vars) if variables is None else [graph.index(v) for v in variables]
    if not len(chosen):
        raise ModelError("there are no variables to draw")
    n_rows = sum(int(graph.layout.card[v]) for v in chosen) + 0.8 * len(chosen)
    ax = axes_or_new(ax, 5.0, 0.5 + 0.24 * n_rows)
    row = 0.0
    ticks: list[float] = []
    labels: list[str] = []
    for v in chosen:
        ax.text(0.0, row, graph.naming.name(v), va="center", weight="bold", color=INK, size=9)
        p = result.marginal(v)
        rows = row + 0.9 + np.arange(p.size)
        _draw_bars(ax, rows, p, None if prior is None else prior.marginal(prior.graph.index(v)))
        ticks.extend(rows)
        labels.extend(graph.naming.states(v))
        row = rows[-1] + 1.1
    ax.set_yticks(ticks, labels, size=8)
    ax.set(xlim=(0, 1.12), ylim=(row - 0.4, -0.6), xticks=[0, 0.25, 0.5, 0.75, 1], xlabel="probability")
    ax.tick_params(axis="y", length=0)
    plain(ax)
    if prior is not None:
        ax.legend(loc="lower right", frameon=False, fontsize=8)
    return ax


def _draw_bars(ax: Axes, rows: Any, p: Any, before: Any | None) -> None:
    first = not ax.patches  # one entry of the legend is enough
    if before is None:
        ax.barh(rows, p, height=0.7, color=STRONG)
    else:
        ax.barh(rows - 0.2, before, height=0.34, color=FAINT, label="before" if first else None)
        ax.barh(rows + 0.2, p, height=0.42, color=STRONG, label="after" if first else None)
    ends = p if before is None else np.maximum(p, before)
    for y, end, value in zip(rows, ends, p, strict=True):
        ax.text(end + 0.012, y, f"{value:.3f}", va="center", size=8, color=INK)


def plot_trace(
    result: InferenceResult | MapResult | MarginalMapResult,
    *,
    against: Literal["iteration", "seconds"] = "iteration",
    exact: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the value over the run, certified bounds as a band where they are known.

    Parameters
    ----------
    result : InferenceResult, MapResult or MarginalMapResult
        Run with ``trace_every=1`` to see every step.
    against : {"iteration", "seconds"}
    exact : float, optional
        The true value, drawn as a line across.
    ax : matplotlib Axes, optional
    """
    if against not in ("iteration", "seconds"):
        raise ModelError(f"against must be 'iteration' or 'seconds', found {against!r}")
    trace = result.trace
    ax = axes_or_new(ax, 5.0, 3.0)
    steps = trace.iteration if against == "iteration" else trace.seconds
    lower = np.where(np.isfinite(trace.lower), trace.lower, np.nan)
    upper = np.where(np.isfinite(trace.upper), trace.upper, np.nan)
    if np.isfinite(lower + upper).any() and not np.array_equal(lower, upper):
        ax.fill_between(steps, lower, upper, color=FAINT, alpha=0.5, linewidth=0, label="certified interval")
    for bound, word in ((lower, "lower bound"), (upper, "upper bound")):
        if np.isfinite(bound).any() and not np.array_equal(lower, upper):
            ax.plot(steps, bound, color=LINE, linewidth=1, label=word)
    dots = "o" if len(trace) <= 50 else ""
    ax.plot(steps, trace.log_z, color=STRONG, marker=dots, markersize=3, linewidth=1.2, label=str(result.method))
    if exact is not None:
        ax.axhline(exact, color=INK, linewidth=1, linestyle=(0, (4, 3)), label="exact")
    ax.set(xlabel=against, ylabel="log Z" if isinstance(result, InferenceResult) else "log value")
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.legend(frameon=False, fontsize=8)
    plain(ax)
    return ax


def plot_scatter(result: InferenceResult, reference: InferenceResult, *, ax: Axes | None = None) -> Axes:
    """Draw every marginal probability of ``result`` against that of ``reference``; on the diagonal they agree.

    Of each variable all states but the first are drawn, since they determine it.
    """
    layout = reference.graph.layout
    if not np.array_equal(layout.card, result.graph.layout.card):
        raise ModelError("the two results are of models with different variables")
    free = np.ones(layout.n_states, np.bool_)
    free[layout.state_ptr[:-1]] = False
    ax = axes_or_new(ax, 3.4, 3.4)
    ax.plot([0, 1], [0, 1], color=LINE, linewidth=0.8, zorder=1)
    ax.scatter(reference.mu_var[free], result.mu_var[free], s=12, color=ACCENT, alpha=0.7, linewidths=0, zorder=2)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", xlabel=_named(reference), ylabel=_named(result))
    ax.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    plain(ax)
    return ax


def _named(result: InferenceResult) -> str:
    return f"{result.method}, exact" if result.exact_marginals else str(result.method)


def plot_grid(
    shown: InferenceResult | ArrayLike,
    shape: tuple[int, int],
    *,
    state: int = -1,
    limits: tuple[float, float] = (0.0, 1.0),
    colours: Any = "Blues",
    scale: bool = True,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a grid model's marginals, or any number a variable, as an image; variables are numbered row by row.

    Parameters
    ----------
    shown : InferenceResult, or array_like (rows * cols,)
        Of a result, the probability of ``state`` (by index; -1 is the last) of every variable.
    shape : (rows, cols)
    limits : (float, float)
        Numbers at the two ends of the colour scale.
    colours : str or matplotlib Colormap
    scale : bool
        Draw the scale of colours.
    label : str, optional
        What the numbers are.
    ax : matplotlib Axes, optional
    """
    rows, cols = shape
    if isinstance(shown, InferenceResult):
        values = np.array([shown.marginal(v)[state] for v in range(shown.graph.n_vars)])
        label = label or "probability of " + ("the last state" if state == -1 else f"state {state}")
    else:
        values = np.asarray(shown, float).ravel()
    if values.size != rows * cols:
        raise ModelError(f"a grid of {rows} x {cols} has {rows * cols} variables, found {values.size}")
    ax = axes_or_new(ax, 3.4, 3.4)
    image = ax.imshow(values.reshape(rows, cols), cmap=colours, vmin=limits[0], vmax=limits[1], interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set_color(LINE)
    if scale:
        bar = ax.figure.colorbar(image, ax=ax, shrink=0.8, aspect=24, pad=0.03, label=label or "")
        bar.outline.set_visible(False)
    return ax
