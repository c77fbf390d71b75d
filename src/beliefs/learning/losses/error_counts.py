r"""The best labelling with a given number of wrong labels, by elimination over (state, errors so far).

.. math:: S(e) = \max_{y : \#\{i : y_i \ne \hat y_i\} = e} \varepsilon_h \log \sum_h
          \exp \frac{\theta(y, h)}{\varepsilon_h}

A bucket's message has one more axis, the wrong labels among the variables eliminated so far. Tables are multiplied by a
(max, +) convolution along it, and a labelled variable moves its wrong states up by one. ``most`` ends the counting: the
last entry then stands for so many errors or more. Slack rescaling needs the whole curve, as its cost multiplies the
margin; costs of 0 and 1 need ``most = 1``, where S(1) is the best labelling other than the labels.

Guarantee: exact. Cost: cells of elimination, hidden variables first, times errors; where branches that both hold labels
meet, times the product of their errors. Written in NumPy, bucket after bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefs.inference.base import Problem
from beliefs.inference.budget import default_budget
from beliefs.inference.clusters.cluster_tree import check_memory, check_work
from beliefs.inference.orders.planned import planned_order
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats, Ints

__all__ = ["ErrorCounts", "count_errors"]


@dataclass(frozen=True, eq=False)
class _Function:
    """A log table over some variables, errors on its last axis, and whose bucket has sent it (-1: none)."""

    scope: tuple[int, ...]
    table: Floats
    sender: int = -1

    def spread(self, scope: Sequence[int]) -> Floats:
        """Return the table with an axis for every variable of a larger scope."""
        axes = sorted(range(len(self.scope)), key=lambda a: scope.index(self.scope[a]))
        turned = self.table.transpose([*axes, len(self.scope)])
        kept = dict(zip((self.scope[a] for a in axes), turned.shape, strict=False))
        return turned.reshape([*(kept.get(v, 1) for v in scope), turned.shape[-1]])


@dataclass(frozen=True, eq=False)
class _Bucket:
    """A maximised variable, what was multiplied there, the rest of the scope, and the product with errors counted."""

    variable: int
    operands: list[_Function]
    rest: tuple[int, ...]
    table: Floats


@dataclass(frozen=True, eq=False)
class ErrorCounts:
    """Scores by errors, ``best (errors + 1,)``, -inf where there is no such labelling, and what they were made of."""

    best: Floats
    most: int
    labels: Ints
    roots: list[_Function]
    buckets: list[_Bucket]

    def labelling(self, errors: int) -> Ints:
        """Return a labelling of the best score with so many errors, ``(n_vars,)``; hidden variables have -1."""
        return np.where(self.labels < 0, -1, self.states(errors))

    def states(self, errors: int) -> Ints:
        """Return the same with the states of what is maximised though hidden, which all is at ``eps_h`` = 0."""
        state, left = np.zeros(self.labels.size, np.int64), dict[int, int]()
        self._divide(self.roots, errors, state, left)
        for bucket in reversed(self.buckets):
            v, e = bucket.variable, left[bucket.variable]
            column: Any = (slice(None), *(int(state[u]) for u in bucket.rest), e)
            state[v] = int(np.argmax(bucket.table[column]))
            if self.labels[v] >= 0:
                e = self._errors_below(bucket, state, e)
            self._divide(bucket.operands, e, state, left)
        return state

    def _errors_below(self, bucket: _Bucket, state: Ints, errors: int) -> int:
        """Return the errors of what was multiplied in a bucket, without that of its own variable."""
        if state[bucket.variable] == self.labels[bucket.variable]:
            return errors
        if errors < self.most:
            return errors - 1
        product = _product([_at(f, state) for f in bucket.operands], self.most)  # as many or more, with one of its own
        return self.most - 1 + int(np.argmax(product[self.most - 1 :]))

    def _divide(self, operands: list[_Function], errors: int, state: Ints, left: dict[int, int]) -> None:
        """Say how many errors each function of a product accounts for, given all states that they depend on."""
        vectors = [_at(f, state) for f in operands]
        for k in range(len(operands) - 1, -1, -1):
            before, own = _product(vectors[:k], self.most), vectors[k]
            splits = [(a, b) for a in range(before.size) for b in range(own.size) if min(a + b, self.most) == errors]
            errors, share = max(splits, key=lambda split: before[split[0]] + own[split[1]])
            left[operands[k].sender] = share


def count_errors(graph: FactorGraph, labels: Ints, eps_h: float, most: int | None = None) -> ErrorCounts:
    """Return the best scores by the number of wrong labels; variables with label -1 are summed out at ``eps_h``.

    ``most`` None: as many as there are labels.
    """
    layout, outputs = graph.layout, (labels >= 0) & ~graph.layout.observed
    limit = int(outputs.sum()) if most is None else most
    tau = np.where(outputs, 0.0, eps_h)
    pool, buckets = _factors(graph), list[_Bucket]()
    for v in _order(graph, tau, limit):
        own, pool = [f for f in pool if v in f.scope], [f for f in pool if v not in f.scope]
        rest = tuple(sorted({u for f in own for u in f.scope} - {v}))
        shape = [int(layout.card[v]), *(1 for _ in rest), 1]
        table = _product([np.zeros(shape), *(f.spread([v, *rest]) for f in own)], limit)
        if outputs[v]:
            table = _moved(table, int(labels[v]), limit)
        if tau[v] == 0:
            buckets.append(_Bucket(v, own, rest, table))
        pool.append(_Function(rest, _power(table, tau[v]), v if tau[v] == 0 else -1))
    best = _product([f.table for f in pool], limit)
    return ErrorCounts(best, limit, np.where(outputs, labels, -1), pool, buckets)


def _factors(graph: FactorGraph) -> list[_Function]:
    lay = graph.layout
    return [
        _Function(tuple(lay.scope(f).tolist()), graph.theta[lay.cells(f)].reshape([*lay.shape(f), 1]))
        for f in range(lay.n_factors)
    ]


def _order(graph: FactorGraph, tau: Floats, limit: int) -> list[int]:
    """Return all unobserved variables, warm ones first; raises BudgetError where tables would not fit."""
    lay, problem = graph.layout, Problem(graph, max_bytes=default_budget())
    order = planned_order(problem, "auto", stages=np.where(tau > 0, 0, 1))
    check_work(order, "counting errors", problem.task)
    check_memory(order, 8.0 * (limit + 1) * order.total_cells, problem, "counting errors")
    return [*order.order.tolist(), *lay.isolated.tolist()]


def _product(tables: Sequence[Floats], most: int) -> Floats:
    """Return the (max, +) convolution of tables along their last axis, cut at ``most``; the rest is broadcast."""
    total = np.zeros(1)
    for table in tables:
        long, short = (total, table) if total.shape[-1] >= table.shape[-1] else (table, total)
        size = min(long.shape[-1] + short.shape[-1] - 1, most + 1)
        found = np.full((*np.broadcast_shapes(long.shape[:-1], short.shape[:-1]), size), -np.inf)
        for e in range(short.shape[-1]):
            term, n = long + short[..., e : e + 1], min(long.shape[-1], size - e)
            np.maximum(found[..., e : e + n], term[..., :n], out=found[..., e : e + n])
            if n < term.shape[-1]:
                np.maximum(found[..., -1], term[..., n:].max(axis=-1), out=found[..., -1])
        total = found
    return total


def _moved(table: Floats, label: int, most: int) -> Floats:
    """Return a table with one error more where the first axis is not at its label."""
    n = table.shape[-1]
    found = np.full((*table.shape[:-1], min(n + 1, most + 1)), -np.inf)
    found[label, ..., :n] = table[label]
    wrong = np.arange(table.shape[0]) != label
    kept = found.shape[-1] - 1
    found[wrong, ..., 1 : kept + 1] = table[wrong][..., :kept]
    if n > kept:
        found[wrong, ..., kept] = np.maximum(found[wrong, ..., kept], table[wrong][..., kept])
    return found


def _power(table: Floats, tau: float) -> Floats:
    """Return the power sum over the first axis."""
    top: Floats = table.max(axis=0)
    if tau == 0:
        return top
    shift = np.where(top == -np.inf, 0.0, top)
    with np.errstate(divide="ignore"):
        summed: Floats = shift + tau * np.log(np.exp((table - shift) / tau).sum(axis=0))
    return summed


def _at(function: _Function, state: Ints) -> Floats:
    """Return the values by errors where the variables of a function have these states."""
    found: Floats = function.table[tuple(int(state[v]) for v in function.scope)]
    return found
