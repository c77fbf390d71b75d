"""What is set aside of a question's memory: for a machine's factor graph, and for the value of a query's states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from beliefs.inference.messages.memory import needed_bytes
from beliefs.inference.search.query_value import SECONDS, QueryPlan, conditioned_bytes
from beliefs.model.clamped_rbm import ClampedRBM
from beliefs.model.graph import FactorGraph
from beliefs.model.rbm import RBM
from beliefs.typing import Ints

__all__ = ["graph_bytes", "value_bytes"]

_A_WEIGHT = 72.0  # bytes: cells, scope and offsets of a pair
_OBSERVED = 104.0  # bytes: those of the slice, and where it is from


def graph_bytes(model: Any) -> float:
    """Return the bytes of a machine's factor graph; 0 where there is one already, for it is made once, or none to make.

    Examples
    --------
    >>> machine = RBM([[1.0, -1.0], [0.5, 2.0]])
    >>> graph_bytes(machine), graph_bytes(machine.to_factor_graph())
    (576.0, 0.0)
    """
    if "_graph" in vars(model):
        return 0.0
    if isinstance(model, ClampedRBM):
        return graph_bytes(model.machine) + _OBSERVED * model.machine.weights.size
    return _A_WEIGHT * (model.weights.size + model.n_vars) if isinstance(model, RBM) else 0.0


def value_bytes(graph: FactorGraph, query: Ints, seconds: float = SECONDS) -> float:
    """Predict the memory of the value of a query's states: exact where that fits the time, else of the lighter bounds.

    The plan is made, and kept on the layout. What there is beyond goes to the heavier bounds.
    """
    layout = graph.layout
    plan = QueryPlan.of(layout, query)
    if plan.fits(math.inf, seconds):
        return plan.n_bytes(layout) + plan.exact_bytes()
    states = np.where(layout.observed, graph.evidence_states, -1)
    states[query] = 0
    given = graph.observing(states)
    dividing = 96.0 * given.layout.n_edges  # buckets, before it is known whether wmb fits
    return plan.n_bytes(layout) + conditioned_bytes(given.layout) + needed_bytes(given, certified=True) + dividing
