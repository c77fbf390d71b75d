r"""Power sums with two temperatures by approximate methods: what each can be asked, and what its answer is worth.

====================================  =================================================================================
temperatures                          how
====================================  =================================================================================
equal, above 0                        ``infer`` of theta / eps: value and beliefs are the method's own
``eps_y = 0``                         ``maximize``, or ``marginal_map`` of theta / eps_h, decodes outputs; the value is
                                      that of these outputs, a lower bound, and hidden variables have their expectation
                                      given them; the method's own bound on the maximum stands beside it
different, ``eps_y > 0``              ``infer`` with temperatures, by methods that have a field ``tau``
certified                             the upper bound itself: with ``tau`` its beliefs are its gradient; where a method
                                      has none the gradient is that of the decoded outputs
====================================  =================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beliefs.errors import UnsupportedError
from beliefs.inference.base import Bound, Method, Problem, Task
from beliefs.inference.orders.planned import planned_order
from beliefs.inference.run import Answer, answer, decoding, settled, tol_for_marginals
from beliefs.inference.text import known_methods
from beliefs.learning.losses.power_sums import given_outputs, one_temperature, point_answer, rescaled
from beliefs.model.graph import FactorGraph
from beliefs.typing import Bools

__all__ = ["Approximation", "certified_lower", "check_answers"]


@dataclass(frozen=True)
class Approximation:
    """A method, when it stops, and whether its bound is taken instead of its best outputs.

    ``tol`` None: the method's own; ``max_iters`` limits maximisation, sums run until they settle.
    """

    method: Method
    tol: float | None = None
    max_iters: int | None = None
    seed: int = 0
    certified: bool = False

    def power_sum(
        self, graph: FactorGraph, inner: Bools, eps_y: float, eps_h: float, given: Callable[[FactorGraph], Answer]
    ) -> Answer:
        """Return the power sum as the method has it; ``given`` answers for hidden variables where outputs are fixed."""
        eps = one_temperature(graph, inner, eps_y, eps_h)
        if eps is not None and eps > 0:
            scaled = graph if eps == 1 else graph.with_theta(graph.theta / eps)
            found = settled(scaled, self.method, tol=tol_for_marginals(self.method, self.tol))
            return rescaled(self._upper(found) if self.certified else found, eps)
        if eps_y > 0 or (self.certified and self.method.any_temperatures):
            return self._bounded(graph, inner, eps_y, eps_h)
        decoded = self._decoded(graph, inner, eps_h if eps is None else 0.0, given)
        return self._upper(decoded) if self.certified else decoded

    def _upper(self, found: Answer) -> Answer:
        """Return an answer whose value is its certified upper bound."""
        if found.upper == np.inf:
            raise UnsupportedError(f"{self.method} has no certified upper bound here; use gdd, or certified=False")
        return found if found.upper == found.log_z else replace(found, log_z=found.upper, bound=Bound.UPPER)

    def _bounded(self, graph: FactorGraph, inner: Bools, eps_y: float, eps_h: float) -> Answer:
        """Return the bound on the power sum and its gradient."""
        tau, options = np.where(inner, eps_h, eps_y), dict[str, Any]()
        if eps_y != eps_h and inner.any():
            order = planned_order(Problem(graph), "auto", stages=np.where(inner, 0, 1)).order
            options["order"] = [*order.tolist(), *graph.layout.isolated.tolist()]
        method: Any = self.method
        found = answer(graph, replace(method, tau=tau, **options), tol=tol_for_marginals(method, self.tol))
        return replace(found, bound=Bound.UPPER, lower=-np.inf, upper=found.log_z)

    def _decoded(
        self, graph: FactorGraph, inner: Bools, eps_h: float, given: Callable[[FactorGraph], Answer]
    ) -> Answer:
        """Return the value of the best outputs found, with the method's bound on the best there are."""
        free = ~graph.layout.observed
        query, scale = np.flatnonzero(free & ~inner) if eps_h > 0 else None, eps_h if eps_h > 0 else 1.0
        scaled = graph if scale == 1 else graph.with_theta(graph.theta / scale)
        found, met = decoding(scaled, self.method, query, tol=self.tol, max_iters=self.max_iters, seed=self.seed)
        upper = scale * found.upper
        if query is None:
            at = point_answer(graph, found.assignment, upper, met)
        else:
            outputs = graph.evidence_states.copy()
            outputs[query] = found.assignment
            at = given_outputs(graph, outputs, ~inner, given)
            certain = at.bound in (Bound.EXACT, Bound.LOWER)
            at = replace(
                at, bound=Bound.LOWER if certain else Bound.ESTIMATE, converged=at.converged and met,
                upper=max(upper, at.lower),
            )  # fmt: skip
        return replace(at, bound=Bound.EXACT) if at.lower == at.upper == at.log_z else at


def certified_lower(found: Answer, method: Method) -> Answer:
    """Return an answer whose value is its certified lower bound."""
    if found.lower == -np.inf:
        raise UnsupportedError(f"{method} has no certified lower bound here; use mean_field, or exact inference")
    return found if found.lower == found.log_z else replace(found, log_z=found.lower, bound=Bound.LOWER)


def check_answers(method: Method, eps_y: float, eps_h: float, *, hidden: bool, certified: bool = False) -> None:
    """Refuse a method that cannot answer, and name those that can; ``hidden``: whether there are hidden variables."""
    what = _question(eps_y, eps_h, hidden)
    lower = method.lower and (certified or what[0] is not Task.INFER or what[1])
    if lower or not _can(type(method), *what, certified):
        able = [cls.name for cls in known_methods() if _can(cls, *what, certified)]
        aim = "an upper bound on " if certified else ""
        raise UnsupportedError(
            f"{method} does not give {aim}{what[2]}, which max_margin needs at eps_y={eps_y:g}, eps_h={eps_h:g}; "
            f"use {', '.join(able)}, or None for exact inference"
        )


def _question(eps_y: float, eps_h: float, hidden: bool) -> tuple[Task, bool, str]:
    """Return what is asked, whether with temperatures of one's own, and in words."""
    if eps_y > 0:
        mixed = hidden and eps_y != eps_h
        return Task.INFER, mixed, "sums with different temperatures" if mixed else "sums and their marginals"
    if hidden and eps_h > 0:
        return Task.MARGINAL_MAP, False, "maxima over sums"
    return Task.MAXIMIZE, False, "maxima"


def _can(method: type[Method], task: Task, mixed: bool, words: str, certified: bool) -> bool:
    if task not in method.tasks or (certified and not method.guarantee.gives(Bound.UPPER)):
        return False
    if mixed:
        return method.any_temperatures
    return task is not Task.INFER or (method.has_marginals and method.deterministic)
