r"""Iterated conditional modes: coordinate ascent on the score of a joint state.

.. math:: x_v \leftarrow \arg\max_{x_v} \sum_{f \ni v} \theta_f(x_v, x_{f \setminus v})

until no single variable can improve [besag1986]. States are compared first by the number of factors at a cell of
``-inf``, then by the sum of the others, so an impossible state is repaired as far as single moves can.

Guarantee: never worse than the start, and no change of one variable improves the result by more than rounding.
Deterministic. Cost of a sweep: the factors of variables whose neighbourhood has changed.
"""

from __future__ import annotations

import numpy as np

from beliefs.errors import ModelError
from beliefs.kernels.search.icm import conditional_modes
from beliefs.model.graph import FactorGraph
from beliefs.typing import Ints

__all__ = ["ascended", "checked_assignment", "icm"]


def icm(graph: FactorGraph, assignment: Ints, order: Ints | None = None) -> tuple[Ints, float]:
    """Return a local maximum of the score near ``assignment``, and its score.

    Parameters
    ----------
    assignment : ndarray (n_vars,)
        Where to start; observed variables take their states.
    order : ndarray, optional
        Variables in the order of a sweep; those left out keep their states. Default: all, by index.

    Examples
    --------
    >>> g = FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [4, 3]])])
    >>> icm(g, np.array([0, 0]))[0]
    array([1, 0])
    """
    states = ascended(graph, assignment, order)
    return states, graph.log_score(states)


def ascended(graph: FactorGraph, assignment: Ints, order: Ints | None = None) -> Ints:
    """Return the local maximum of :func:`icm` without its score."""
    layout = graph.layout
    states = checked_assignment(graph, assignment)
    visited = np.arange(layout.n_vars) if order is None else np.array(order, np.int64)
    active = np.ones(layout.n_vars, np.bool_)
    stride = layout.edge_stride
    while conditional_modes(layout.scopes, layout.adjacency, graph.theta, stride, visited, states, active):
        pass
    return states


def checked_assignment(graph: FactorGraph, assignment: Ints) -> Ints:
    """Return a copy of a joint state, observed variables at their states; one out of range is a ModelError."""
    states = np.array(assignment, np.int64)
    if states.shape != (graph.n_vars,):
        raise ModelError(f"an assignment must have shape ({graph.n_vars},), found {states.shape}")
    states = np.where(graph.evidence_states >= 0, graph.evidence_states, states)
    wrong = (states < 0) | (states >= graph.layout.card)
    if wrong.any():
        v = int(np.argmax(wrong))
        raise ModelError(f"variable {graph.naming.name(v)!r} has states 0..{graph.layout.card[v] - 1}")
    return states
