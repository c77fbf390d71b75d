"""Inference to a tolerance as gradients need it: beliefs of every untied table, messages to go on from, no warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefs.driver import Limits, Status, run
from beliefs.errors import UnsupportedError
from beliefs.inference.base import Marginals, Method, Problem, Task
from beliefs.inference.budget import default_budget
from beliefs.inference.sampling.gibbs import Gibbs
from beliefs.learning.gradients.directions import table_cells
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.typing import Floats

__all__ = ["Settled", "check_smooth", "settle", "untied"]


@dataclass(frozen=True, eq=False)
class Settled:
    """An answer, what a warm start needs, and whether the tolerance was met."""

    answer: Marginals
    kept: Any
    converged: bool

    @property
    def rho(self) -> Floats | None:
        """Counting numbers, of methods that have some."""
        reweighting = getattr(self.kept, "reweighting", None)
        return None if reweighting is None else reweighting.rho


def settle(method: Method, graph: FactorGraph, tol: float, max_iters: int, warm: Any = None) -> Settled:
    """Run a method until its residual is at most ``tol``; exact methods take their one step."""
    state = method.init(Problem(graph, max_bytes=default_budget()), warm)
    limits = Limits(tol=tol, max_iters=max_iters) if method.iterative else Limits(tol=0.0, max_iters=1)
    done = run(
        lambda: method.step(state),
        lambda: method.value(state),
        limits,
        value_is_free=False,
        fixed_point=method.fixed_point,
    )
    answer = method.finish(state)
    assert isinstance(answer, Marginals)
    return Settled(answer, method.kept(state), done.status is Status.CONVERGED)


def check_smooth(method: Method, what: str) -> None:
    """Raise UnsupportedError for methods whose marginals are no smooth function of the potentials."""
    if Task.INFER not in method.tasks:
        raise UnsupportedError(f"{method!r} gives no marginals, so there is nothing for {what} to differentiate")
    if isinstance(method, Gibbs):
        raise UnsupportedError(f"{method!r} estimates by sampling, and {what} would differentiate its noise")


def untied(graph: FactorGraph) -> FactorGraph:
    """Return the graph with cells of its own for each factor; the graph itself if no cells are shared."""
    old = graph.layout
    if not old.tied and np.array_equal(old.cell_ptr, old.table_ptr[:-1]):
        return graph
    layout = old.plan("untied", lambda: Layout.build(old.card, old.scope_ptr, old.scope_vars, None, old.observed))
    theta = FactorGraph.build(layout, graph.theta[table_cells(old)], graph.naming).theta
    return FactorGraph(layout, theta, graph.naming, graph.evidence_states)
