"""What message passing will allocate, predicted from the structure, and from whether plain numbers can hold it."""

from __future__ import annotations

import numpy as np

from beliefs.inference.base import Task
from beliefs.inference.messages.pairwise_edges import has_pairwise_form
from beliefs.inference.messages.pairwise_tier import SAFE
from beliefs.inference.messages.schedule import is_forest
from beliefs.inference.search.forest_moves import moving_bytes
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.model.pieces import pieces

__all__ = ["needed_bytes"]


def needed_bytes(graph: FactorGraph, certified: bool, task: Task = Task.INFER, enough: float = 0.0) -> float:
    """Return the bytes of tables, messages, beliefs, order and temporaries; a certificate has arrays of its own.

    For the pairwise form where structure and potentials allow it (some schedules do not), else for plain numbers. The
    beliefs of factors, which are made when asked for, are not among them; what decoding and its moves take is, for a
    task that maximises everything. Potentials are not read where the larger of both forms is within ``enough``.
    """
    layout = graph.layout
    if not layout.n_edges:
        return 8.0 * (4.0 * layout.n_states + 4.0 * layout.n_factors)
    tree = 8.0 * (2.0 * layout.n_edges + layout.n_factors) if is_forest(layout) else 0.0
    needed = tree + (_decoding_bytes(layout, certified) if task is Task.MAXIMIZE else 0.0)
    if layout.arity.max() < 2 or not has_pairwise_form(layout):
        return needed + _general_bytes(layout, certified, float(layout.message_ptr[-1]))
    pairwise = needed + _pairwise_bytes(layout, certified)
    states = float(layout.card[0]) * layout.n_edges  # of all messages; where they begin is not needed for this form
    general = needed + _general_bytes(layout, certified, states) + 24.0 * float((layout.arity == 2).sum())
    if max(pairwise, general) <= enough:
        return max(pairwise, general)
    return pairwise if task is Task.MAXIMIZE or _fits_plain_products(graph) else general


def _general_bytes(layout: Layout, certified: bool, states: float) -> float:
    extra = 3.0 * states + layout.n_edges if certified else 0.0
    tables = float(layout.table_ptr[-1] if layout.tied and certified else layout.n_cells)
    structure = 1.5 * layout.n_edges + layout.n_factors + 3.0 * float(layout.factor_size.max())  # room for the widest
    return 8.0 * (tables + 5.0 * states + 4.0 * layout.n_states + structure + extra)


def _fits_plain_products(graph: FactorGraph) -> bool:
    """Whether the pairwise form can hold the products of all messages to a variable, about as it decides itself.

    Where the largest range of all potentials, at the largest degree, does not tell, those of the tables are added up.
    """
    layout, theta = graph.layout, graph.theta
    least, most = float(theta.min(initial=0.0)), float(theta.max(initial=0.0))
    if least == -np.inf or float(layout.degree.max()) * (most - least) <= SAFE:
        return least > -np.inf
    reach = np.zeros(layout.n_vars)
    for arity in (1, 2):
        factors, cells = np.flatnonzero(layout.arity == arity), np.arange(int(layout.card[0]) ** arity)
        for piece in pieces(factors.size):
            tables = theta[layout.cell_ptr[factors[piece]][:, None] + cells]
            span = tables.max(axis=1) - tables.min(axis=1)
            for axis in range(arity):
                np.add.at(reach, layout.scope_vars[layout.scope_ptr[factors[piece]] + axis], span)
    return bool(reach.max() <= SAFE)


def _decoding_bytes(layout: Layout, certified: bool) -> float:
    """Return what decoding takes besides: moves, and for a bound messages as logs, with the sizes of their errors."""
    moves = 0.0 if is_forest(layout) else moving_bytes(layout)
    if not certified:
        return moves
    states, sums = 8.0 * float(layout.message_ptr[-1]), 24.0 * layout.n_states
    return max(moves + states, 4.1 * states) + sums


def _pairwise_bytes(layout: Layout, certified: bool) -> float:
    n_vars, states, n_pairs = layout.n_vars, int(layout.card[0]), int((layout.arity == 2).sum())
    width, size = (1, 3) if states == 2 else ((states + 3) // 4 * 4, states**2)
    tables = size * (n_pairs if not layout.tied else min(n_pairs, layout.n_cells // states**2))
    order = 7.5 * n_pairs + 3.0 * layout.n_factors  # factors, ends, cells, ranges and shifts, counting numbers
    held = tables + 2.0 * width * n_pairs + (2.0 * width + states + 7.0) * n_vars
    extra = layout.n_edges + 6.0 * n_pairs + n_vars if certified else 0.0
    return 8.0 * (held + order + extra)
