"""The elimination order of one question, searched for once and kept on the layout."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beliefs.deadline import OutOfTime, limited, now
from beliefs.inference.base import Problem, Task
from beliefs.inference.orders.orders import Order, degeneracy_plan, plan_order
from beliefs.model.layout import Layout
from beliefs.typing import Ints

__all__ = ["degeneracy_of", "planned_order"]

_SHARE, _LEAST = 0.2, 0.3  # of a time limit, and seconds, that the search for an order may take


@dataclass
class _Plan:
    """An order that was searched for, or the seconds that were not enough for that."""

    order: Order | None = None
    not_enough: float = 0.0


def planned_order(
    problem: Problem,
    method: str,
    restarts: int | None = None,
    seconds: float | None = None,
    stages: Ints | None = None,
) -> Order:
    """Return an elimination order, kept on the layout: variables of lower stages ``(n_vars,)`` before those of higher.

    None: sum variables before max variables. Where the search for it takes too much of the time limit it is a
    degeneracy order instead, and so again in questions that have no more time for it.
    """
    layout = problem.graph.layout
    mixed = problem.task is Task.MARGINAL_MAP and 0 < problem.query.size
    by_stage = (problem.query.tobytes() if mixed else b"", b"" if stages is None else stages.tobytes())
    kept = layout.keep((planned_order, method, restarts, seconds, *by_stage), _Plan)
    if kept.order is not None:
        return kept.order
    stage = np.zeros(layout.n_vars, np.int64) if stages is None else stages
    if mixed:
        stage[problem.query] = 1
    active = ~layout.observed & (layout.degree > 0)
    scopes = layout.card, layout.scope_ptr, layout.scope_vars
    began, share = now(), max(_SHARE * problem.time_limit, _LEAST)
    if share > kept.not_enough:
        try:
            with limited(share, grace=False):
                kept.order = plan_order(
                    *scopes, method=method, restarts=restarts, stage=stage, active=active, time_limit=seconds
                )
            return kept.order
        except OutOfTime:
            kept.not_enough = max(kept.not_enough, now() - began)
    return layout.plan(degeneracy_of, np.where(active, stage, -1))


def degeneracy_of(layout: Layout, stage: Ints) -> Order:
    """Return a degeneracy order; ``stage (n_vars,)`` says who is eliminated first, and -1 who is left out."""
    return degeneracy_plan(layout.card, layout.scope_ptr, layout.scope_vars, stage)
