r"""Forest moves: exact max-product on random induced forests, all other variables clamped.

A random maximal set of variables is freed whose factors, with the others at their present states, form a forest; its
best joint state is found exactly by one pass from the leaves to the roots and one back [hamze2004]. A move on half of a
grid's variables at once leaves local maxima that no move of one variable can leave. States are compared as in
:mod:`beliefs.inference.search.icm`: cells of ``-inf`` first, then the sum of the others.

Guarantee: never worse than the start; on a model without cycles the first move finds the maximum. Deterministic for a
seed. Cost of a move: the cells of all factors at the states of their clamped variables, twice.
"""

from __future__ import annotations

import numpy as np

from beliefs.inference.search.icm import ascended, checked_assignment
from beliefs.kernels.search.forest_moves import Beliefs, Forest, Incidence, forest_move
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout, offsets
from beliefs.model.pieces import pieces
from beliefs.typing import Ints

__all__ = ["MOST_MOVES", "affordable_moves", "forest_moves", "locally_best", "moving_bytes"]

MOST_MOVES = 20
"""Random forests tried after coordinate ascent, on small models."""

_WORK = 2e6  # cells: larger models get fewer


class Forests:
    """Random forests of one graph, and the scratch of their moves."""

    def __init__(self, graph: FactorGraph, seed: int) -> None:
        layout = graph.layout
        n_vars, widest = layout.n_vars, int(layout.arity.max(initial=1))
        self.graph, self.stride, self.incidence = graph, layout.edge_stride, layout.plan(_incidence)
        self.order = np.flatnonzero(~layout.observed & (layout.card > 1))
        self.random = np.random.default_rng(seed).integers(1, 2**63, size=1, dtype=np.uint64)
        self.hard = bool((graph.theta == -np.inf).any())
        member, reached, parent, axes, digit = (
            np.empty(n, np.int64) for n in (layout.n_factors, n_vars, n_vars, widest, widest)
        )
        self.forest = Forest(np.zeros(n_vars, np.bool_), member, reached, parent)
        n_states, most = layout.n_states, int(layout.card.max())
        beliefs, best = (np.empty(n_states), np.empty(n_states)), (np.empty(most), np.empty(most))
        self.beliefs = Beliefs(*beliefs, *best, axes, digit)

    def move(self, states: Ints) -> tuple[int, bool]:
        """Free a new random maximal forest and move its trees to their best states, in place.

        Returns how many trees improved, and whether nothing was clamped: then the states are the best of all.
        """
        layout = self.graph.layout
        improved, n_free = forest_move(
            layout.scopes, self.incidence, self.graph.theta, self.stride, self.hard, self.order, self.random,
            self.forest, self.beliefs, states,
        )  # fmt: skip
        return improved, n_free == self.order.size


def _incidence(layout: Layout) -> Incidence:
    """Return the factors at each variable, those with two variables or more that may move before the others."""
    may_move, n_moving = ~layout.observed & (layout.card > 1), np.zeros(layout.n_factors, np.int64)
    n_links, ordered, n_done = np.zeros(layout.n_vars, np.int64), np.empty(layout.n_edges, np.int64), 0
    for piece in pieces(layout.n_edges):
        np.add.at(n_moving, layout.edge_factor[piece], may_move[layout.scope_vars[piece]])
    is_link = n_moving > 1
    for piece in pieces(layout.n_edges):
        np.add.at(n_links, layout.scope_vars[piece], is_link[layout.edge_factor[piece]])
    n_before = offsets(n_links)
    for piece in pieces(layout.n_edges):
        edges = layout.var_edges[piece]
        factor, vertex = layout.edge_factor[edges], layout.scope_vars[edges]
        links = is_link[factor]
        until = n_done + offsets(links)
        number = until[:-1] - n_before[vertex]  # of links of the same variable before
        place = np.arange(piece.start, piece.stop) - number + n_links[vertex]
        ordered[np.where(links, layout.var_ptr[vertex] + number, place)] = factor
        n_done = int(until[-1])
    return Incidence(layout.var_ptr, ordered, layout.var_ptr[:-1] + n_links)


def forest_moves(
    graph: FactorGraph, assignment: Ints, seed: int = 0, n_moves: int = 100, patience: int = 10
) -> tuple[Ints, float]:
    """Improve a joint state by forest moves; return it and its score.

    Parameters
    ----------
    assignment : ndarray (n_vars,)
        Where to start; observed variables take their states.
    n_moves : int
        Moves at most.
    patience : int
        Moves in a row without an improvement after which to stop.

    Examples
    --------
    >>> table = [[2, 0], [0, 3]]
    >>> g = FactorGraph.from_tables([2, 2, 2], [((0, 1), table), ((1, 2), table)])
    >>> forest_moves(g, np.array([0, 0, 0]))[0]
    array([1, 1, 1])
    """
    states = checked_assignment(graph, assignment)
    forests = Forests(graph, seed)
    idle = 0
    for _ in range(n_moves):
        if idle == patience:
            break
        improved, is_best = forests.move(states)
        idle = 0 if improved else idle + 1
        if is_best:
            break
    return states, float(graph.log_score(states))


def moving_bytes(layout: Layout) -> float:
    """Predict the memory of coordinate ascent and forest moves: who touches whom, in order, and what sorting takes."""
    return 8.0 * (6.5 * layout.n_edges + layout.n_factors + 4.0 * layout.n_vars)


def affordable_moves(layout: Layout) -> int:
    """Return how many forest moves a model can afford at any time: many if it is small, none if it is large."""
    return int(min(_WORK / max(1, int(layout.table_ptr[-1])), MOST_MOVES))


def locally_best(graph: FactorGraph, row: Ints, seed: int, n_moves: int | None = None) -> tuple[Ints, float]:
    """Return a joint state after coordinate ascent and some forest moves, and its score; never a worse one.

    ``n_moves`` None: as many as the model can afford, at least one.
    """
    row = ascended(graph, row)
    moves = max(1, affordable_moves(graph.layout)) if n_moves is None else n_moves
    return forest_moves(graph, row, seed, moves) if moves > 0 else (row, float(graph.log_score(row)))
