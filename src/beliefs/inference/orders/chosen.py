"""The elimination order of one question: a heuristic by name, or the user's own list, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.base import Problem
from beliefs.inference.orders.orders import ORDERS, Order, order_cost
from beliefs.inference.orders.planned import planned_order
from beliefs.options import check_option
from beliefs.typing import Ints

__all__ = ["check_order", "chosen_order"]


def check_order(order: object, *further: str) -> None:
    """Refuse what is neither a heuristic's name (or one of ``further`` words) nor a list."""
    listed = isinstance(order, (Sequence, np.ndarray)) and not isinstance(order, str)
    words = (*ORDERS, *further)
    check_option(listed or (isinstance(order, str) and order in words), "order", f"one of {_or_list(words)}", order)


def _or_list(words: Sequence[str]) -> str:
    return f"{', '.join(words)}, or a list"


def chosen_order(problem: Problem, order: str | Sequence[Any], stages: Ints | None = None) -> Order:
    """Return the order and its cost; variables in no factor are left out of it.

    A heuristic takes variables of lower ``stages (n_vars,)`` first; a list is taken as it is.

    Raises
    ------
    ModelError
        For a list that lacks an unobserved variable, repeats one or, for marginal MAP, does not end with the query:
        sums stand inside the maximum, so they are eliminated first.
    """
    if isinstance(order, str):
        return planned_order(problem, order, stages=stages)
    graph, layout = problem.graph, problem.graph.layout
    named = np.array([graph.index(v) for v in order], np.int64)
    hidden = np.flatnonzero(~layout.observed)
    if not np.array_equal(np.sort(named), hidden):
        missing = np.setdiff1d(hidden, named)
        what = (
            f"lacks {graph.naming.name(int(missing[0]))!r}"
            if missing.size
            else "names a variable twice or one observed"
        )
        raise ModelError(f"an elimination order lists every unobserved variable once; this one {what}")
    later = np.isin(named, problem.query)
    if problem.query.size and not later[-problem.query.size :].all():
        raise ModelError("an elimination order for marginal MAP must end with the query")
    used = named[layout.degree[named] > 0]
    return order_cost(layout.card, layout.scope_ptr, layout.scope_vars, used)
