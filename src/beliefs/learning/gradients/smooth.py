"""Which methods have marginals that can be perturbed, and graphs whose every table can be."""

from __future__ import annotations

import numpy as np

from beliefs.errors import UnsupportedError
from beliefs.inference.base import Method, Task
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout

__all__ = ["check_smooth", "untied"]


def check_smooth(method: Method, what: str) -> None:
    """Raise UnsupportedError for methods whose marginals are no smooth function of the potentials."""
    if Task.INFER not in method.tasks:
        raise UnsupportedError(f"{method!r} gives no marginals, so there is nothing for {what} to differentiate")
    if not method.deterministic:
        raise UnsupportedError(f"{method!r} estimates by sampling, and {what} would differentiate its noise")


def untied(graph: FactorGraph) -> FactorGraph:
    """Return the graph with cells of its own for each factor; the graph itself if no cells are shared."""
    old = graph.layout
    if not old.tied and np.array_equal(old.cell_ptr, old.table_ptr[:-1]):
        return graph
    layout = old.plan(_untied)
    theta = FactorGraph.build(layout, graph.theta[old.table_cells()], graph.naming).theta
    return FactorGraph(layout, theta, graph.naming, graph.evidence_states)


def _untied(layout: Layout) -> Layout:
    return Layout.build(layout.card, layout.scope_ptr, layout.scope_vars, None, layout.observed)
