"""The command ``info``: what a model is made of, and what exact inference on it would cost, before anyone pays."""

from __future__ import annotations

import math
from typing import Any

import click
import numpy as np

from beliefs.cli.names import load_graph, parse_query
from beliefs.cli.options import evidence_option, json_flag, limit_option, max_bytes_option, model_argument
from beliefs.cli.table import Table, show_facts, show_table
from beliefs.display.documents import json_text
from beliefs.errors import BudgetError
from beliefs.inference.base import Bound, Problem, Task
from beliefs.inference.budget import default_budget, readable_bytes
from beliefs.inference.doors import checked_query
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.messages.schedule import is_forest
from beliefs.inference.orders.orders import CostReport
from beliefs.inference.portfolio.auto import choose
from beliefs.model.graph import FactorGraph
from beliefs.typing import Ints

__all__ = ["info_command"]


@click.command("info")
@model_argument
@evidence_option
@click.option("--query", "-q", metavar="FILE|NAME,...", help="Tell the cost of marginal MAP over these variables.")
@max_bytes_option
@click.option("--states", is_flag=True, help="List the variables and their states.")
@limit_option
@json_flag
def info_command(
    model: str,
    evidence: tuple[str, ...],
    query: str | None,
    max_bytes: int | None,
    states: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Tell the size of MODEL and the cost of exact inference."""
    graph = load_graph(model, evidence)
    asked = np.sort(checked_query(graph, parse_query(graph, query) if query else []))
    budget = default_budget() if max_bytes is None else max_bytes
    problem = Problem(graph, Task.MARGINAL_MAP if asked.size else Task.INFER, query=asked, max_bytes=budget)
    report = JunctionTree().report(problem)
    found = {"model": model, **_contents(graph), "exact": _cost(report, budget, _fits(problem))}
    if as_json:
        listed = {"variables": {v.name: list(v.states) for v in graph.variables}} if states else {}
        click.echo(json_text(found | listed), nl=False)
        return
    show_facts(_facts(found))
    _show_cost(report, found["exact"], "marginal MAP" if asked.size else "inference")
    if states:
        _show_states(graph, limit)


def _contents(graph: FactorGraph) -> dict[str, Any]:
    layout = graph.layout
    return {
        "kind": "Bayesian network" if graph.children is not None else "factor graph",
        "n_vars": layout.n_vars,
        "n_states": layout.n_states,
        "n_observed": int(layout.observed.sum()),
        "n_factors": layout.n_factors,
        "n_cells": layout.n_cells,
        "n_zeros": int((graph.theta == -np.inf).sum()),
        "tied": layout.tied,
        "cardinalities": _counts(layout.card),
        "arities": _counts(layout.arity),
        "forest": is_forest(layout),
    }


def _counts(values: Ints) -> dict[int, int]:
    """Return how often each value occurs."""
    return {int(value): int(count) for value, count in zip(*np.unique(values, return_counts=True), strict=True)}


def _fits(problem: Problem) -> bool:
    """Tell whether auto would run exact inference."""
    try:
        return choose(problem)[0].guarantee.bound is Bound.EXACT
    except BudgetError:
        return False


def _cost(report: CostReport, budget: int, fits: bool) -> dict[str, Any]:
    order = report.plan
    return {
        "order": order.method,
        "width": order.width,
        "cells": _finite(order.total_cells),
        "largest_cells": _finite(order.largest_cells),
        "bytes": report.n_bytes,
        "seconds": _finite(report.seconds),
        "budget_bytes": budget,
        "fits": fits,
    }


def _finite(value: float) -> float | None:
    return value if value < math.inf else None


def _facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    observed = f", {found['n_observed']} of them observed" if found["n_observed"] else ""
    zeros = f", {found['n_zeros']} of them zero" if found["n_zeros"] else ""
    tied = ", some share a table" if found["tied"] else ""
    return [
        ("model", f"{found['model']} ({found['kind']})"),
        ("variables", f"{found['n_vars']}{observed}"),
        ("states", f"{found['n_states']}: {_histogram(found['cardinalities'], 'of')}"),
        ("factors", f"{found['n_factors']}{tied}: {_histogram(found['arities'], 'over')}"),
        ("cells", f"{found['n_cells']}{zeros}"),
        ("graph", "a forest, so bp is exact" if found["forest"] else "has loops, so bp gives estimates"),
    ]


def _show_cost(report: CostReport, cost: dict[str, Any], asked: str) -> None:
    click.echo(f"\n{click.style(f'Exact {asked} would take', bold=True)}\n{report}")
    verdict = "it fits" if cost["fits"] else "it does not fit"
    click.echo(f"budget         {readable_bytes(cost['budget_bytes'])}: {verdict}")


def _histogram(counts: dict[int, int], word: str) -> str:
    """Return ``13 of 2, 17 of 3`` for ``{2: 13, 3: 17}``; a long one is cut in the middle."""
    parts = [f"{count} {word} {value}" for value, count in counts.items()]
    return ", ".join(parts if len(parts) <= 8 else [*parts[:5], "...", *parts[-2:]])


def _show_states(graph: FactorGraph, limit: int) -> None:
    n_rows = min(limit, graph.n_vars) if limit else graph.n_vars
    rows = [(str(v), graph.naming.name(v), ", ".join(graph.naming.states(v))) for v in range(n_rows)]
    show_table(Table(("", "variable", "states"), rows, frozenset({0})))
    if n_rows < graph.n_vars:
        click.echo(f"... and {graph.n_vars - n_rows} more variables; --limit 0 shows all")
