r"""Identifiable weights of pairwise fields: K - 1 a vertex and (K - 1) x (K - 1) an edge, the first states being zero.

Tables are determined up to what factors can hand to each other. With a table for every vertex, and zero wherever some
variable of a factor is in its first state, every distribution has one set of weights:

.. math:: w_v(i) = \log \frac{p(x_v = i, 0)}{p(0)}, \qquad
          w_{uv}(i, j) = \log \frac{p(x_u = i, x_v = j, 0)\, p(0)}{p(x_u = i, 0)\, p(x_v = j, 0)}

where 0 stands for the first state of all other variables. Penalties are then on these weights alone.
"""

from __future__ import annotations

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.networks.structure import Structure
from beliefs.model.layout import Layout, offsets
from beliefs.typing import Bools, Floats

__all__ = ["identifiable", "identified", "weight_cells"]


def identifiable(structure: Structure) -> Structure:
    """Return the field with a table for every vertex, then one for every edge in the model's order."""
    layout, naming = structure.layout, structure.naming
    if layout.tied:
        raise ModelError("form='identifiable' has weights of every factor's own, found tied tables; use form='tables'")
    wide = np.flatnonzero(layout.arity > 2)
    if wide.size:
        names = ", ".join(naming.name(int(v)) for v in layout.scope(int(wide[0])))
        raise ModelError(f"form='identifiable' is of pairwise fields, found a factor of ({names}); use form='tables'")
    edges = [layout.scope(int(f)).tolist() for f in np.flatnonzero(layout.arity == 2)]
    if len({frozenset(edge) for edge in edges}) < len(edges):
        raise ModelError("form='identifiable' needs at most one factor an edge; use form='tables'")
    scopes = [[v] for v in range(layout.n_vars)] + edges
    ptr = offsets([len(scope) for scope in scopes])
    flat = np.array([v for scope in scopes for v in scope], np.int64)
    return Structure(naming, Layout.build(layout.card, ptr, flat))


def weight_cells(layout: Layout) -> Bools:
    """Return which cells have no variable in its first state ``(n_cells,)``: the weights."""
    found = np.zeros(layout.n_cells, np.bool_)
    for f in range(layout.n_factors):
        table = np.zeros(layout.shape(f), np.bool_)
        table[(slice(1, None),) * table.ndim] = True
        found[layout.cells(f)] = table.ravel()
    return found


def identified(layout: Layout, theta: Floats) -> Floats:
    """Return the same distribution with identifiable potentials; refuses zeros, which have no such weights."""
    if not np.isfinite(theta).all():
        raise ModelError("a field with probabilities of zero has no identifiable weights; set ess or l2")
    found, first = np.zeros(theta.size), layout.cell_ptr
    for f in range(layout.n_factors):
        table, scope = theta[layout.cells(f)].reshape(layout.shape(f)), layout.scope(f)
        if table.ndim == 1:
            found[layout.cells(f)] += table - table[0]
            continue
        row, column = table[:1], table[:, :1]
        found[layout.cells(f)] = (table - row - column + table[0, 0]).ravel()
        for v, alone in ((int(scope[0]), column.ravel()), (int(scope[1]), row.ravel())):
            found[first[v] : first[v] + alone.size] += alone - alone[0]
    return found
