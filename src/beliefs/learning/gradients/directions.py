r"""A gradient in beliefs as one direction in the space of tables.

Where the Jacobian :math:`d\mu / d\theta` is symmetric (it is the second derivative of log Z or of its surrogate), the
pullback of :math:`\bar\mu` is the change of the beliefs along :math:`\bar\mu`, read as a direction of log potentials.
Factors that share cells in ``theta`` have different entries in :math:`\bar\mu`, so the direction lives in the tables
laid side by side (``layout.table_ptr``). What belongs to a variable is added to one factor that has it, a factor of
this variable alone if there is one: beliefs depend on the sum of all potentials only.
"""

from __future__ import annotations

import numpy as np

from beliefs.model.layout import Layout
from beliefs.typing import Floats, Ints

__all__ = ["direction", "strides", "table_cells", "tied_sum"]


def direction(layout: Layout, bar_var: Floats, bar_factor: Floats | None) -> Floats:
    """Return gradients in all beliefs as one vector ``(table_ptr[-1],)``; parts of single-variable factors are ignored.

    Variables without factors have constant marginals and are left out.
    """
    found = np.zeros(int(layout.table_ptr[-1])) if bar_factor is None else bar_factor.copy()
    if bar_factor is not None:
        found[np.repeat(np.diff(layout.scope_ptr) < 2, layout.factor_size)] = 0.0
    if bar_var.any():
        cells, states = layout.plan("hosts of variables", lambda: _hosts(layout))
        found[:] += np.bincount(cells, bar_var[states], found.size)
    return found


def table_cells(layout: Layout) -> Ints:
    """Return the cell of ``theta`` that each cell of the tables laid side by side holds."""
    shift = np.repeat(layout.cell_ptr - layout.table_ptr[:-1], layout.factor_size)
    cells: Ints = shift + np.arange(shift.size)
    return cells


def tied_sum(layout: Layout, tables: Floats) -> Floats:
    """Add up what belongs to the same cell of ``theta``."""
    if not layout.tied and np.array_equal(layout.cell_ptr, layout.table_ptr[:-1]):
        return tables
    return np.bincount(table_cells(layout), tables, layout.n_cells).astype(np.float64, copy=False)


def _hosts(layout: Layout) -> tuple[Ints, Ints]:
    """Return for one factor of each variable all its table's cells, and the variable's state in each of them."""
    edges = layout.var_edges
    arity = np.diff(layout.scope_ptr)[layout.edge_factor[edges]]
    smallest = edges[np.lexsort((np.arange(edges.size), arity, layout.scope_vars[edges]))]
    chosen = smallest[layout.var_ptr[:-1][np.diff(layout.var_ptr) > 0]]
    factor, variable = layout.edge_factor[chosen], layout.scope_vars[chosen]
    size = layout.factor_size[factor]
    within = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    state = within // np.repeat(strides(layout)[chosen], size) % np.repeat(layout.card[variable], size)
    return np.repeat(layout.table_ptr[factor], size) + within, np.repeat(layout.state_ptr[variable], size) + state


def strides(layout: Layout) -> Ints:
    """Return how many cells apart two states of each edge's variable are in its factor's table, ``(n_edges,)``."""
    strides = np.ones(layout.n_edges, np.int64)
    place = layout.scope_ptr[1:][layout.edge_factor] - 1 - np.arange(layout.n_edges)  # axes to the right
    for right in range(1, int(place.max(initial=0)) + 1):
        e = np.flatnonzero(place == right)
        strides[e] = strides[e + 1] * layout.card[layout.scope_vars[e + 1]]
    return strides
