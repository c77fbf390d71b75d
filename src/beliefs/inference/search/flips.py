r"""Moves of single variables where sums are expensive: all of them are ranked by one pass, a few are tried.

With the marginals :math:`\mu` of the summed variables given the query, a change of one variable brings about

.. math:: \sum_{f \ni v} \log \mathbb{E}_{\mu_f} \exp(\theta_f(x_v', \cdot) - \theta_f(x_v, \cdot)),

exact if at most one of the factors at v has summed variables, and else as if they were independent. The changes that
promise most are made at once; where that is for the worse, half as many, and in the end one alone.

Guarantee: never worse than before; values are real. Cost: one pass to the roots and back for all estimates, and one to
the roots for each trial.
"""

from __future__ import annotations

import numpy as np

from beliefs.inference.search.query_value import QueryPlan
from beliefs.kernels.search.clamped import clamped_cells
from beliefs.kernels.search.flip_gains import Slices, flip_gains
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats, Ints

__all__ = ["Flips"]

_NEAR = 0.5  # nats: changes that promise to be worse by no more than this are tried as well
_TRIALS = 6  # single changes tried where none at once is for the better


class Flips:
    """Single changes of one query, ranked."""

    def __init__(self, graph: FactorGraph, query: Ints, plan: QueryPlan) -> None:
        self.graph, self.query, self.plan = graph, query, plan
        self.sliced = np.full(graph.n_factors, -1, np.int64)
        self.sliced[plan.summed.factors] = np.arange(plan.summed.factors.size)
        self._promising = 0
        self.owner = np.repeat(np.arange(graph.n_vars), graph.layout.card)

    def gains(self, row: Ints) -> Floats | None:
        """Return what each state of each query variable would bring, ``(n_states,)``; None if ``row`` is impossible."""
        tree, lay = self.plan.summed, self.graph.layout
        run = tree.solved(self.graph.theta, row)
        if run is None:
            return None
        cells = np.empty(tree.local.n_cells, np.int64)
        clamped_cells(tree.cells, tree.local.table_ptr, *tree.shifts, row, cells)
        gain = np.full(lay.n_states, -np.inf)
        flip_gains(
            self.query, lay.scopes, lay.adjacency, lay.edge_stride, self.graph.theta,
            Slices(self.sliced, tree.local.table_ptr, cells, run.distribute()[1]), row, gain,
        )  # fmt: skip
        return gain

    def ranked(self, row: Ints, least: float) -> tuple[Ints, Ints]:
        """Return variables and their best other states, by estimated gain as far as it is above ``least``."""
        gain = self.gains(row)
        if gain is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        gain[self.graph.layout.state_ptr[self.query] + row[self.query]] = -np.inf
        order = np.argsort(-gain, kind="stable")
        order = order[gain[order] > least]
        self._promising = np.unique(self.owner[order[gain[order] > 0]]).size
        first = np.sort(np.unique(self.owner[order], return_index=True)[1])
        best = order[first]
        return self.owner[best], best - self.graph.layout.state_ptr[self.owner[best]]

    def climb(self, row: Ints, value: float, room: float = 0.0) -> tuple[Ints, float]:
        """Return better states and their value after one round of trials, the same ones if all were for the worse."""
        variables, states = self.ranked(row, -_NEAR)
        n = int(np.clip(variables.size, 1, max(1, self._promising)))
        while n > 0 and variables.size:
            trial = row.copy()
            trial[variables[:n]] = states[:n]
            reached = self.plan.log_value(self.graph, trial)
            if reached > value + room:
                return trial, reached
            n //= 2
        for v, x in list(zip(variables, states))[1:_TRIALS]:
            trial = row.copy()
            trial[v] = x
            reached = self.plan.log_value(self.graph, trial)
            if reached > value + room:
                return trial, reached
        return row, value
