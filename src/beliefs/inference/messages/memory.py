"""What message passing will allocate, predicted from the structure alone."""

from __future__ import annotations

from beliefs.inference.base import Task
from beliefs.inference.messages.pairwise_edges import has_pairwise_form
from beliefs.inference.messages.schedule import is_forest
from beliefs.inference.search.forest_moves import moving_bytes
from beliefs.model.layout import Layout

__all__ = ["needed_bytes"]


def needed_bytes(layout: Layout, certified: bool, task: Task = Task.INFER) -> float:
    """Return the bytes of tables, messages, beliefs, order and temporaries; a certificate has arrays of its own.

    For the pairwise form where the structure allows it (hard zeros and some schedules do not, and need less), else for
    plain numbers. The beliefs of factors, which are made when asked for, are not among them; what decoding and its
    moves take is, for a task that maximises everything.
    """
    if not layout.n_edges:
        return 8.0 * (4.0 * layout.n_states + 4.0 * layout.n_factors)
    decoding = _decoding_bytes(layout, certified) if task is Task.MAXIMIZE else 0.0
    if layout.arity.max() == 2 and has_pairwise_form(layout):
        return _pairwise_bytes(layout, certified) + decoding
    states = float(layout.message_ptr[-1])
    extra = 3.0 * states + layout.n_edges if certified else 0.0
    tables = float(layout.table_ptr[-1] if layout.tied and certified else layout.n_cells)
    return 8.0 * (tables + 5.0 * states + 4.0 * layout.n_states + 1.5 * layout.n_edges + extra) + decoding


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
    order = 10.5 * n_pairs + layout.n_factors  # factors, ends, cells, ranges and shifts, counting numbers, sorting
    held = tables + 2.0 * width * n_pairs + (2.0 * width + states + 3.0) * n_vars
    extra = layout.n_edges + 6.0 * n_pairs + n_vars if certified else 0.0
    return 8.0 * (held + order + extra)
