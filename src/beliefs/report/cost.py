"""What exact inference costs: predicted before any work, and measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beliefs.datasets import bn_names, load_bn
from beliefs.inference.base import Problem
from beliefs.inference.budget import default_budget, readable_bytes
from beliefs.inference.doors import infer
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.orders.orders import CostReport
from beliefs.plot.canvas import ACCENT, INK, LINE, STRONG, plain
from beliefs.report.page import Markup, Section, code, paragraph, picture, seconds, significant, table

__all__ = ["NETWORKS", "Measured", "cost_section", "measure"]

NETWORKS = (
    "hailfinder", "insurance", "win95pts", "andes", "pigs", "water",
    "mildew", "munin", "diabetes", "link", "munin1",
)  # fmt: skip
"""In this order; those that are neither bundled nor beside other data are left out."""

_LONGEST = 10.0  # seconds predicted: beyond, a network is only predicted
_REPEATS = 3
_LARGE = 1e6  # cells


@dataclass(frozen=True)
class Measured:
    """One network: its size, what was predicted, and what it took (None: not run)."""

    name: str
    n_vars: int
    cost: CostReport
    first: float | None
    again: float | None


def measure(name: str) -> Measured:
    """Predict the cost of all marginals of a network, then compute them: once with planning, then on the kept plan."""
    graph = load_bn(name).to_factor_graph()
    other = load_bn(name).to_factor_graph()  # plans are kept with the layout, and the first run shall make its own
    cost = JunctionTree().report(Problem(other))
    if cost.plan.seconds > _LONGEST or cost.n_bytes is None or cost.n_bytes > default_budget():
        return Measured(name, graph.n_vars, cost, None, None)
    first = infer(graph).seconds
    again = [infer(graph).seconds for _ in range(_REPEATS)]
    return Measured(name, graph.n_vars, cost, first, float(np.median(again)))


def cost_section() -> Section:
    """Print the cost report of the largest network at hand, and the prediction beside the time for all."""
    known = bn_names()
    rows = sorted((measure(name) for name in NETWORKS if name in known), key=lambda m: m.cost.plan.total_cells)
    ran = [m for m in rows if m.again is not None]
    shown = (ran or rows)[-1]
    took = "they were not run" if shown.again is None else f"they took {seconds(shown.again)} on a kept plan"
    return Section(
        "The cost, before it is paid",
        Markup(
            f"All marginals of {shown.name}, {shown.n_vars} variables and width {shown.cost.plan.width}, were "
            f"predicted to take {_memory(shown)} and {seconds(shown.cost.plan.seconds)}; {took}."
        ),
        Markup(
            paragraph(
                "The planner looks for an elimination order and adds up what it needs; no work starts "
                f"before that fits the budget, by default half the memory available. For {shown.name}, ",
                code("print(JunctionTree().report(Problem(graph)))"),
                " says:",
            )
            + code(str(shown.cost))
            + _table(rows)
            + (_picture(ran) if ran else "")
        ),
    )


def _memory(measured: Measured) -> str:
    return "no end" if measured.cost.n_bytes is None else readable_bytes(measured.cost.n_bytes)


def _table(rows: list[Measured]) -> Markup:
    head = ("network", "variables", "width", "cells", "largest table", "memory", "predicted", "first", "again")
    lines = [
        (
            m.name,
            str(m.n_vars),
            str(m.cost.plan.width),
            significant(m.cost.plan.total_cells, 3),
            significant(m.cost.plan.largest_cells, 3),
            _memory(m),
            seconds(m.cost.plan.seconds),
            "not run" if m.first is None else seconds(m.first),
            "not run" if m.again is None else seconds(m.again),
        )
        for m in rows
    ]
    note = paragraph(
        "Cells are those of all clique tables, which are never kept; memory is for factors, messages and the plan. ",
        Markup("<i>Predicted</i> is the time to collect and distribute once; <i>first</i> includes planning; "),
        Markup(f"<i>again</i> is the median of {_REPEATS} further runs on the kept plan. "),
        _ratios(rows),
    )
    return Markup(table(head, lines, numeric=range(1, 9)) + note)


def _ratios(rows: list[Measured]) -> Markup:
    """Say how far the prediction was off where the fixed cost of a call does not matter."""
    large = [m.again / m.cost.plan.seconds for m in rows if m.again is not None and m.cost.plan.total_cells > _LARGE]
    if not large:
        return Markup("")
    span = " to ".join(sorted({significant(min(large)), significant(max(large))}, key=float))
    return Markup(f'Above a million cells, it took <span class="timing">{span}</span> times the prediction.')


def _picture(ran: list[Measured]) -> Markup:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.2), layout="constrained")
    ax = figure.add_subplot()
    cells = [m.cost.plan.total_cells for m in ran]
    ax.plot(cells, [m.cost.plan.seconds for m in ran], color=LINE, linewidth=1, label="predicted")
    ax.scatter(cells, [m.first or 0.0 for m in ran], s=26, facecolors="none", edgecolors=ACCENT, label="first")
    ax.scatter(cells, [m.again or 0.0 for m in ran], s=26, color=STRONG, label="again, on the kept plan")
    clear = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # the line does not run through a name
    for k, m in enumerate(ran):  # names above and below in turn, clear of the points of all networks close by
        close = [o for o in ran if abs(np.log(o.cost.plan.total_cells / m.cost.plan.total_cells)) < 0.5]
        points = [t for o in close for t in (o.first, o.again) if t is not None]
        height, shift = (max(points), 6) if k % 2 else (min(points), -13)
        at = (m.cost.plan.total_cells, height)
        ax.annotate(m.name, at, (0, shift), textcoords="offset points", ha="center", color=INK, bbox=clear)
    ax.set(xscale="log", yscale="log", xlabel="cells of all clique tables", ylabel="seconds")
    ax.margins(x=0.08, y=0.12)
    ax.legend(frameon=False, loc="upper left")
    plain(ax)
    return picture(
        figure,
        "Seconds against cells, on logarithmic scales",
        "Time for log Z and all marginals against the cells that the plan predicted. Small networks are dominated by "
        "the fixed cost of a call.",
        pixels=760,
    )
