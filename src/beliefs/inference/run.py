"""Inference as learning asks for it: no warnings and no trace, flags instead, side by side in threads.

The doors of :mod:`beliefs.inference` speak to a person: they choose, warn and wrap. A fit asks the same question many
thousand times, so here is the bare question; the method, its verbs and the driver are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from beliefs.driver import Limits, Status, run
from beliefs.errors import UnsupportedError
from beliefs.inference.base import Bound, Marginals, Method, Problem, Task
from beliefs.inference.budget import default_budget
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.messages.bp import BP
from beliefs.inference.messages.propagation import MessagePassing
from beliefs.inference.messages.schedule import is_forest
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.typing import Floats

__all__ = ["Answer", "answer", "exact_method", "settled"]

_PATIENCE = 100  # iterations after which messages that have not settled are damped
_DAMPING = 0.5


@dataclass(frozen=True, eq=False)
class Answer:
    """Log Z, what it is worth, marginals, whether they have settled, and what a warm start needs."""

    layout: Layout
    log_z: float
    bound: Bound
    mu_var: Floats
    mu_factor: Floats
    converged: bool
    kept: Any

    @property
    def rho(self) -> Floats | None:
        """Counting numbers of the factors' entropies, of methods that have some."""
        reweighting = getattr(self.kept, "reweighting", None)
        return None if reweighting is None else reweighting.rho

    @cached_property
    def mu(self) -> Floats:
        """Expected statistics ``(n_cells,)``, the gradient of log Z at a fixed point; tied cells hold sums."""
        return self.layout.in_cells(self.mu_factor)


def answer(
    graph: FactorGraph,
    method: Method,
    *,
    tol: float | None = None,
    max_iters: int | None = None,
    warm: Any = None,
    seed: int = 0,
) -> Answer:
    """Ask for log Z and all marginals; ``warm`` is the ``kept`` of an earlier answer on the same layout."""
    if Task.INFER not in method.tasks:
        raise UnsupportedError(
            f"{method.name} does not answer infer, so it has no log Z and no marginals to learn with"
        )
    problem = Problem(graph, max_bytes=default_budget(), seed=seed)
    state = method.init(problem, warm)
    limits = Limits(
        tol=method.default_tol if tol is None else tol,
        max_iters=(method.default_max_iters if max_iters is None else max_iters) if method.iterative else 1,
    )
    done = run(
        lambda: method.step(state), lambda: method.value(state), limits, fixed_point=False,
        verify=lambda: method.verify(state),
    )  # fmt: skip
    found = method.finish(state)
    assert isinstance(found, Marginals)
    converged = not method.iterative or done.status is Status.CONVERGED or found.bound is Bound.EXACT
    return Answer(graph.layout, found.log_z, found.bound, found.mu_var, found.mu_factor, converged, method.kept(state))


def settled(
    graph: FactorGraph, method: Method, *, tol: float | None = None, max_iters: int | None = None, warm: Any = None
) -> Answer:
    """Ask until the answer settles: messages that have not after a hundred iterations are damped from there.

    Damping moves no fixed point, so the value and its gradient are those that were asked for.
    """
    damp = isinstance(method, MessagePassing) and method.damping == 0
    limit = method.default_max_iters if max_iters is None else max_iters
    found = answer(graph, method, tol=tol, max_iters=min(limit, _PATIENCE) if damp else limit, warm=warm)
    if found.converged or not damp or limit <= _PATIENCE:
        return found
    assert isinstance(method, MessagePassing)
    calmer = replace(method, damping=_DAMPING)
    return answer(graph, calmer, tol=tol, max_iters=limit - _PATIENCE, warm=found.kept)


def exact_method(layout: Layout) -> Method:
    """Return the exact method for a structure: one sweep of messages on forests, else a junction tree."""
    return BP() if is_forest(layout) else JunctionTree()
