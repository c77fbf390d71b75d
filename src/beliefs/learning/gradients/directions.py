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

__all__ = ["direction"]


def direction(layout: Layout, bar_var: Floats, bar_factor: Floats | None) -> Floats:
    """Return gradients in all beliefs as one vector ``(table_ptr[-1],)``; parts of single-variable factors are ignored.

    Variables without factors have constant marginals and are left out.
    """
    found = np.zeros(int(layout.table_ptr[-1])) if bar_factor is None else bar_factor.copy()
    if bar_factor is not None:
        found[np.repeat(layout.arity < 2, layout.factor_size)] = 0.0
    if bar_var.any():
        cells, states = layout.plan(_hosts)
        found[:] += np.bincount(cells, bar_var[states], found.size)
    return found


def _hosts(layout: Layout) -> tuple[Ints, Ints]:
    """Return for one factor of each variable all its table's cells, and the variable's state in each of them."""
    edges = layout.var_edges
    arity = layout.arity[layout.edge_factor[edges]]
    smallest = edges[np.lexsort((np.arange(edges.size), arity, layout.scope_vars[edges]))]
    chosen = smallest[layout.var_ptr[:-1][layout.degree > 0]]
    factor, variable = layout.edge_factor[chosen], layout.scope_vars[chosen]
    size = layout.factor_size[factor]
    within = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    state = within // np.repeat(layout.edge_stride[chosen], size) % np.repeat(layout.card[variable], size)
    return np.repeat(layout.table_ptr[factor], size) + within, np.repeat(layout.state_ptr[variable], size) + state
