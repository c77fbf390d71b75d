"""A grid far too wide for exact inference: log Z between certified bounds, sweep by sweep."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from beliefs.datasets import make_ising_grid
from beliefs.inference.base import Bound, Problem
from beliefs.inference.doors import infer
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.orders.orders import duration
from beliefs.inference.result import InferenceResult
from beliefs.model.graph import FactorGraph
from beliefs.plot import plot_grid
from beliefs.plot.canvas import ACCENT, FAINT, INK, LINE, STRONG, plain
from beliefs.report.page import Markup, Section, code, number, paragraph, picture, seconds, table
from beliefs.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BOUNDED", "METHODS", "WIDE_SIDE", "bounds_section", "fenced"]

WIDE_SIDE = 50
METHODS = (
    "trw", "trw(rho=optimized)", "wmb(ibound=10)", "bp", "wmb(ibound=10, side=lower)", "mean_field(structure=tree)",
    "mean_field",
)  # fmt: skip
"""From the loosest upper bound down to the loosest lower one."""

BOUNDED = {"field": 0.3, "coupling": 0.5, "seed": 1}
"""Options of the grid."""

_COLOURS = {Bound.UPPER: ACCENT, Bound.LOWER: STRONG, Bound.ESTIMATE: INK}
_BEST = ("wmb(ibound=10)", "bp", "wmb(ibound=10, side=lower)")


def fenced() -> dict[str, InferenceResult]:
    """Answer the grid by every method, with the value of every iteration."""
    grid = make_ising_grid(WIDE_SIDE, **BOUNDED)  # type: ignore[arg-type]
    return {method: infer(grid, method, trace_every=1) for method in METHODS}


def bounds_section() -> Section:
    """Show a certified interval, an estimate inside it, and how both came about."""
    results = fenced()
    upper, middle, lower = (results[method] for method in _BEST)
    grid = middle.graph
    exact = Markup(f'<span class="timing">{duration(JunctionTree().seconds(Problem(grid)))}</span>')
    spent = sum(r.seconds for r in results.values())
    return Section(
        "Bounds where exact is out of reach",
        Markup(
            f"On a {WIDE_SIDE} x {WIDE_SIDE} spin glass, where exact inference would take {exact}, log Z is proved to "
            f"lie between {number(lower.log_lower, 1)} and {number(upper.log_upper, 1)}; belief propagation puts it at "
            f"{number(middle.log_z, 1)}. All seven runs together took {seconds(spent)}."
        ),
        Markup(
            paragraph(
                f"Fields: N(0, {BOUNDED['field']}²), couplings: N(0, {BOUNDED['coupling']}²). Mean field is "
                "a lower bound at every iteration and tree-reweighted message passing an upper one, settled or not; "
                "each has a simple and a tighter form. Weighted mini-buckets give both sides, the tighter the larger "
                "their i-bound. Belief propagation promises nothing.",
            )
            + _left_to_itself(grid)
            + _table(results, middle)
            + _pictures(results)
        ),
    )


def _left_to_itself(grid: FactorGraph) -> Markup:
    """Say what runs if nobody names a method, and why."""
    chosen = infer(grid, time_limit=5.0)
    ends = f"{number(chosen.log_lower, 1)} to {number(chosen.log_upper, 1)}"
    interval, reason = (
        Markup(f'<span class="timing">{text}</span>') for text in (ends, escape(chosen.reason.replace("\n", "; ")))
    )
    call, method = code("infer(grid, time_limit=5)"), code(str(chosen.method))
    return paragraph("Without a method's name ", call, " finds ", interval, ", values by ", method, ": ", reason, ".")


def _table(results: dict[str, InferenceResult], middle: InferenceResult) -> Markup:
    head = ("method", "log Z", "worth", "less bp, a spin", "status", "iterations", "time")
    rows = [
        (
            code(method),
            f"{r.bound.sign} {number(r.log_z, 2)}",
            str(r.bound),
            "" if r is middle else number((r.log_z - middle.log_z) / r.graph.n_vars, 4),
            str(r.status),
            str(r.n_iters),
            seconds(r.seconds),
        )
        for method, r in results.items()
    ]
    marked = [k for k, method in enumerate(results) if method in _BEST and results[method] is not middle]
    return table(head, rows, numeric=(1, 3, 5, 6), marked=marked)


def _pictures(results: dict[str, InferenceResult]) -> Markup:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1.55, 1]})
    _draw_traces(left, results)
    plot_grid(results["bp"], (WIDE_SIDE, WIDE_SIDE), label="probability of +1 by belief propagation", ax=right)
    return picture(
        figure,
        "Lower and upper bounds on log Z by iteration, and the marginals of belief propagation",
        "Left: the value after every iteration, dotted once a run has settled. The truth is somewhere in the band; "
        "every point of an orange line is above it and every point of a blue line below. Right: what belief "
        "propagation believes of each spin.",
    )


def _draw_traces(ax: Axes, results: dict[str, InferenceResult]) -> None:
    last = max(r.n_iters for r in results.values())
    upper, lower = (results[_BEST[k]] for k in (0, 2))
    ax.axhspan(lower.log_lower, upper.log_upper, color=FAINT, alpha=0.35, linewidth=0)
    values = np.array([r.log_z for r in results.values()])
    places = _spaced(values, 0.08 * float(np.ptp(values)))
    for (method, r), place in zip(results.items(), places, strict=True):
        colour, strong = _COLOURS[r.bound], method in _BEST
        ax.plot(r.trace.iteration, r.trace.log_z, color=colour, linewidth=1.6 if strong else 0.9)
        ax.plot([r.n_iters, last], [r.log_z, r.log_z], color=colour, linewidth=0.9, linestyle=(0, (1, 2)))
        ax.annotate(
            method, (last, place), (4, 0), textcoords="offset points", va="center", size=8, color=colour,
            annotation_clip=False,
        )  # fmt: skip
    ax.set(xscale="log", xlim=(1, last), xlabel="iteration", ylabel="log Z")
    ax.set_xticks([1, 10, 100], ["1", "10", "100"])
    plain(ax)
    ax.tick_params(which="minor", color=LINE)


def _spaced(values: Floats, least: float) -> Floats:
    """Return places for labels, as near to ``values`` as may be and ``least`` apart."""
    order = np.argsort(values)
    steps = least * np.arange(values.size)
    level = values[order] - steps  # neighbours that are too close fall here; groups of them are levelled
    groups: list[list[float]] = []
    for value in level:
        groups.append([float(value)])
        while len(groups) > 1 and np.mean(groups[-1]) < np.mean(groups[-2]):
            last = groups.pop()
            groups[-1] += last
    places = np.empty(values.size)
    places[order] = np.concatenate([np.full(len(group), np.mean(group)) for group in groups]) + steps
    return places
