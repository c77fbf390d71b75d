"""Models in words: counts, the first variables and factors, and a drawing of networks that are not too large."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beliefs.display.description import MOST_ROWS, Cell, Description
from beliefs.display.html import Markup

if TYPE_CHECKING:
    from beliefs.model.bayes_net import BayesianNetwork
    from beliefs.model.frozen import TwoLayers
    from beliefs.model.graph import FactorGraph

__all__ = ["describe_graph", "describe_layers", "describe_network"]

_FEW = 6  # states or parents that are listed


def describe_graph(graph: FactorGraph) -> Description:
    """Return counts, and the first variables with their states and evidence."""
    seen = int(graph.layout.observed.sum())
    facts = [
        ("variables", f"{graph.n_vars}, {seen} of them observed" if seen else f"{graph.n_vars}"),
        ("factors", f"{graph.n_factors} with {graph.layout.n_cells} cells"),
    ]
    rows: list[list[Cell]] = []
    for v in range(min(graph.n_vars, MOST_ROWS)):
        x = int(graph.evidence_states[v])
        degree = int(graph.layout.var_ptr[v + 1] - graph.layout.var_ptr[v])
        row: list[Cell] = [graph.naming.name(v), _states(graph, v), f"{degree}"]
        rows.append([*row, graph.naming.label(v, x) if x >= 0 else ""] if seen else row)
    head = ["variable", "states", "factors", *["observed"] * bool(seen)]
    return Description("FactorGraph", facts, "", head, rows, graph.n_vars)


def describe_network(network: BayesianNetwork) -> Description:
    """Return counts, and a drawing of the network; of a large one the first variables with their parents."""
    from beliefs.display.drawing import MOST_ARCS, MOST_VERTICES, drawn_network

    graph = network.graph
    layout, n = graph.layout, network.n_vars
    n_arcs = layout.n_edges - n
    facts = [("variables", f"{n}"), ("arcs", f"{n_arcs}"), ("probabilities", f"{layout.n_cells}")]
    if 0 < n <= MOST_VERTICES and n_arcs <= MOST_ARCS:
        arcs = [(int(u), v) for v in range(n) for u in layout.scope(v)[:-1]]
        drawing = drawn_network([graph.naming.name(v) for v in range(n)], arcs)
        return Description("BayesianNetwork", facts, drawing=drawing)
    rows = [[graph.naming.name(v), _states(graph, v), _some(network.parents(v))] for v in range(min(n, MOST_ROWS))]
    return Description("BayesianNetwork", facts, "", ("variable", "states", "parents"), rows, n, Markup(""))


def describe_layers(machine: TwoLayers) -> Description:
    """Return the number of units and the size of the weights."""
    weights = machine.weights
    facts = [
        ("visible units", f"{machine.n_visible}"),
        ("hidden units", f"{machine.n_hidden}"),
        ("numbers", f"{weights.dtype}"),
    ]
    if weights.size:
        facts.append(("weights", f"from {weights.min():.4g} to {weights.max():.4g}"))
    return Description(repr(machine).partition("(")[0], facts)


def _states(graph: FactorGraph, v: int) -> str:
    card = int(graph.layout.card[v])
    shown = [graph.naming.label(v, x) for x in range(min(card, _FEW))]
    return ", ".join(shown) + (f", ... ({card})" if card > _FEW else "")


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_FEW]) + (f", ... ({len(names)})" if len(names) > _FEW else "")
