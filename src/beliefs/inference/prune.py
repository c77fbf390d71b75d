"""Barren variables: what a Bayesian network may forget when only some marginals are wanted.

A variable that is neither observed nor wanted, and occurs in no table but its own conditional one, sums out to one and
can be dropped with its table; this repeats upwards [koller2009]. Only tables whose columns sum to one to rounding are
dropped, so nothing changes in the answer.
"""

from __future__ import annotations

import numpy as np

from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.typing import Bools, Ints

__all__ = ["prune_barren"]

_ROUNDING = 1e-12


def prune_barren(graph: FactorGraph, targets: Ints) -> tuple[FactorGraph, Bools, Ints | None]:
    """Return the graph without barren variables' tables, the mask of those, and where kept factor cells belong.

    Barren variables stay in the graph, marked observed (at no state), so that indices and names do not move.
    """
    pruned = np.zeros(graph.n_vars, np.bool_)
    if graph.children is None:
        return graph, pruned, None
    layout = graph.layout
    degree = np.diff(layout.var_ptr).copy()
    own = np.full(graph.n_vars, -1, np.int64)
    known = graph.children >= 0
    own[graph.children[known]] = np.flatnonzero(known)
    wanted = layout.observed.copy()
    wanted[targets] = True
    dropped = np.zeros(layout.n_factors, np.bool_)
    ready = [int(v) for v in np.flatnonzero((degree == 1) & ~wanted)]
    while ready:
        v = ready.pop()
        f = int(own[v])
        if f < 0 or dropped[f] or v not in layout.scope(f) or not _normalised(graph, f, v):
            continue
        dropped[f] = pruned[v] = True
        for u in layout.scope(f):
            degree[u] -= 1
            if degree[u] == 1 and not wanted[u]:
                ready.append(int(u))
    if not pruned.any():
        return graph, pruned, None
    kept = np.flatnonzero(~dropped)
    edges = np.flatnonzero(~dropped[layout.edge_factor])
    ptr = np.concatenate([[0], np.cumsum(np.diff(layout.scope_ptr)[kept])])
    smaller = Layout.build(layout.card, ptr, layout.scope_vars[edges], None, layout.observed | pruned)
    cells = np.flatnonzero(np.repeat(~dropped, layout.factor_size))
    tables = np.repeat(layout.cell_ptr - layout.table_ptr[:-1], layout.factor_size) + np.arange(layout.table_ptr[-1])
    theta = graph.theta[tables[cells]]
    theta.setflags(write=False)
    rest = FactorGraph(smaller, theta, graph.naming, graph.evidence_states, children=graph.children[kept])
    return rest, pruned, cells


def _normalised(graph: FactorGraph, f: int, v: int) -> bool:
    layout = graph.layout
    after = int(np.prod(layout.card[layout.scope(f)[np.flatnonzero(layout.scope(f) == v)[0] + 1 :]]))
    sums = np.exp(graph.theta[layout.cells(f)]).reshape(-1, int(layout.card[v]), after).sum(axis=1)
    return bool(np.abs(sums - 1).max() < _ROUNDING)
