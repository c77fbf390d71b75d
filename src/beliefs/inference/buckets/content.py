r"""Content-based mini-buckets: functions are put together where keeping them apart would cost most.

Scopes alone do not tell how much the bound loses when two functions :math:`f, g` of a bucket get a replica each. Their
tables do [rollon2010]. With temperature :math:`\tau` of the variable, by Hölder's inequality,

.. math::
    e(f, g) = \operatorname*{mean}_{s} \Big[ \log \sum_x^{\tau/2} f(x,s) + \log \sum_x^{\tau/2} g(x,s)
        - \log \sum_x^{\tau} f(x,s)\, g(x,s) \Big] \;\ge\; 0

is the mean log error made at this bucket by splitting them. Greedily the pair of largest error is joined as long as the
i-bound allows. Messages, which the next buckets weigh, are those of uniform weights.

Cost: for each bucket, pairs of functions times cells of their union; in NumPy, so for i-bounds up to about 15.
"""

from __future__ import annotations

import numpy as np

from beliefs.inference.base import Problem
from beliefs.inference.clusters.partition import MiniBuckets, sorted_scopes
from beliefs.inference.orders.orders import Order
from beliefs.typing import Floats

__all__ = ["partition_by_content"]

Scope = tuple[int, ...]


class Part:
    """Some functions of a bucket, multiplied together: their scope, table, and who they are."""

    def __init__(self, scope: Scope, table: Floats, members: list[int]) -> None:
        self.scope, self.table, self.members = scope, table, members

    def join(self, other: Part) -> Part:
        """Return the product of both."""
        scope = tuple(sorted({*self.scope, *other.scope}))
        table = _spread(self.table, self.scope, scope) + _spread(other.table, other.scope, scope)
        return Part(scope, table, self.members + other.members)


def partition_by_content(problem: Problem, order: Order, ibound: int, tau: Floats) -> MiniBuckets:
    """Divide the buckets of ``order`` by the error that splitting makes; functions are factors, then messages."""
    graph, layout = problem.graph, problem.graph.layout
    position, scope_ptr, scope = sorted_scopes(layout, order)
    functions: list[list[Part]] = [[] for _ in order.order]
    for f in range(layout.n_factors):
        placed = position[layout.scope(f)]
        if placed.size:
            axes = np.argsort(placed)
            table = graph.theta[layout.cell_ptr[f] :][: layout.factor_size[f]].reshape(layout.shape(f))
            sorted_scope = tuple(int(p) for p in placed[axes])
            functions[sorted_scope[0]].append(Part(sorted_scope, table.transpose(axes), [f]))
    host = np.full(layout.n_factors, -1, np.int64)
    clusters: list[Part] = []
    parent: list[int] = []
    heat = tau[order.order]
    for i, bucket in enumerate(functions):
        parts = _divided(bucket, ibound + 1, float(heat[i]))
        for part in parts:
            for member in part.members:
                if member < layout.n_factors:
                    host[member] = len(clusters)
                else:
                    parent[member - layout.n_factors] = len(clusters)
            message = _power_sum(part.table, float(heat[i]) / len(parts))
            if len(part.scope) > 1:
                functions[part.scope[1]].append(Part(part.scope[1:], message, [layout.n_factors + len(clusters)]))
            clusters.append(part)
            parent.append(-1)
    ends = np.cumsum([0, *(len(part.scope) for part in clusters)])
    axes_list = np.array([p for part in clusters for p in part.scope], np.int64)
    return MiniBuckets(
        order.order, ends, axes_list, np.array(parent, np.int64), host, scope_ptr, scope, layout.card[order.order]
    )


def _divided(bucket: list[Part], most: int, heat: float) -> list[Part]:
    """Join parts of one bucket, those of the largest error first, while unions have at most ``most`` variables."""
    parts = list(bucket)
    errors: dict[tuple[int, int, int, int], float] = {}
    while True:
        best, choice = -np.inf, None
        for a in range(len(parts)):
            for b in range(a + 1, len(parts)):
                one, other = parts[a], parts[b]
                key = (one.members[0], len(one.members), other.members[0], len(other.members))
                if key not in errors:
                    errors[key] = _error(one, other, most, heat)
                if errors[key] > best:
                    best, choice = errors[key], (a, b)
        if choice is None:
            return parts
        a, b = choice
        parts = [part for k, part in enumerate(parts) if k not in choice] + [parts[a].join(parts[b])]


def _error(one: Part, other: Part, most: int, heat: float) -> float:
    """Return the mean log error of splitting; inf where one contains the other, -inf where both are too large."""
    union = {*one.scope, *other.scope}
    if len(union) in (len(one.scope), len(other.scope)):
        return np.inf
    if len(union) > most:
        return -np.inf
    joint = one.join(other)
    apart = _spread(_power_sum(one.table, heat / 2), one.scope[1:], joint.scope[1:]) + _spread(
        _power_sum(other.table, heat / 2), other.scope[1:], joint.scope[1:]
    )
    together = _power_sum(joint.table, heat)
    finite = np.isfinite(together)
    return float((apart[finite] - together[finite]).mean()) if finite.any() else 0.0


def _spread(table: Floats, scope: Scope, wider: Scope) -> Floats:
    """Return a table with axes of length 1 for the variables that only ``wider`` has."""
    shape = iter(table.shape)
    return table.reshape([next(shape) if v in scope else 1 for v in wider])


def _power_sum(table: Floats, weight: float) -> Floats:
    """Power-sum out the first axis."""
    top: Floats = table.max(axis=0)
    if weight == 0.0:
        return top
    base = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        summed: Floats = base + weight * np.log(np.exp((table - base) / weight).sum(axis=0))
    return summed
