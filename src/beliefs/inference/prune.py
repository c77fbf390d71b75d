"""Barren variables: what a Bayesian network may forget when only some marginals are wanted.

A variable that is neither observed nor wanted, and occurs in no table but its own conditional one, sums out to one and
can be dropped with its table; this repeats upwards [koller2009]. Only tables whose columns sum to one to rounding are
dropped, so nothing changes in the answer. What is left depends on structure alone, and is kept on the layout with its
own plans, for all values and all evidence on the same variables.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout, offsets
from beliefs.typing import Bools, Ints

__all__ = ["prune_barren"]


class _Rest(NamedTuple):
    """What is left of a structure: which variables are not, and where its cells come from and belong."""

    layout: Layout
    pruned: Bools  # (n_vars,)
    theta_cells: Ints
    table_cells: Ints
    children: Ints


def prune_barren(graph: FactorGraph, targets: Ints) -> tuple[FactorGraph, Bools, Ints | None]:
    """Return the graph without barren variables' tables, the mask of those, and where kept factor cells belong.

    Barren variables stay in the graph, marked observed (at no state), so that indices and names do not move.
    """
    if graph.children is None:
        return graph, np.zeros(graph.n_vars, np.bool_), None
    normalised = (graph.without_evidence or graph).normalised
    rest = graph.layout.plan(_rest, graph.children, normalised, targets)
    if rest is None:
        return graph, np.zeros(graph.n_vars, np.bool_), None
    theta = graph.theta[rest.theta_cells]
    theta.setflags(write=False)
    left = FactorGraph(rest.layout, theta, graph.naming, graph.evidence_states, children=rest.children)
    return left, rest.pruned, rest.table_cells


def _rest(layout: Layout, children: Ints, normalised: Bools, targets: Ints) -> _Rest | None:
    """Drop what is barren; None where nothing is."""
    degree = layout.degree.copy()
    own = np.full(layout.n_vars, -1, np.int64)
    known = children >= 0
    own[children[known]] = np.flatnonzero(known)
    wanted = layout.observed.copy()
    wanted[targets] = True
    pruned, dropped = np.zeros(layout.n_vars, np.bool_), np.zeros(layout.n_factors, np.bool_)
    ready = [int(v) for v in np.flatnonzero((degree == 1) & ~wanted)]
    while ready:
        v = ready.pop()
        f = int(own[v])
        if f < 0 or dropped[f] or v not in layout.scope(f) or not normalised[f]:
            continue
        dropped[f] = pruned[v] = True
        for u in layout.scope(f):
            degree[u] -= 1
            if degree[u] == 1 and not wanted[u]:
                ready.append(int(u))
    if not pruned.any():
        return None
    pruned.setflags(write=False)
    kept = np.flatnonzero(~dropped)
    edges = np.flatnonzero(~dropped[layout.edge_factor])
    ptr = offsets(layout.arity[kept])
    smaller = Layout.build(layout.card, ptr, layout.scope_vars[edges], None, layout.observed | pruned)
    cells = np.flatnonzero(np.repeat(~dropped, layout.factor_size))
    return _Rest(smaller, pruned, layout.table_cells()[cells], cells, children[kept])
