"""The oracle: every answer by its definition, from the joint table written out in plain NumPy.

Nothing here imports an engine of the package; a model is read through its public face (cardinalities, scopes, tables).
A joint table has one axis per variable and holds log scores; states that contradict the evidence are ``-inf``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefs.model import FactorGraph

Table = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]


def joint_table(graph: FactorGraph, evidence: Mapping[int, int] | None = None) -> Table:
    """Log scores of all joint states, one axis per variable."""
    card = tuple(int(k) for k in graph.layout.card)
    joint = np.zeros(card)
    for f in range(graph.n_factors):
        scope = [int(v) for v in graph.layout.scope(f)]
        table = graph.theta[graph.layout.cells(f)].reshape([card[v] for v in scope])
        joint = joint + _spread(table, scope, len(card))
    for v, x in {**graph.evidence, **(evidence or {})}.items():
        wrong = np.arange(card[v]) != x
        joint[(slice(None),) * v + (wrong,)] = -np.inf
    return joint


def _spread(table: Table, scope: Sequence[int], n_vars: int) -> Table:
    """Turn a table's axes to ascending variables and add axes of length one for the others."""
    ascending = sorted(range(len(scope)), key=lambda a: scope[a])
    turned = table.transpose(ascending)
    shape = [1] * n_vars
    for a in ascending:
        shape[scope[a]] = table.shape[a]
    return turned.reshape(shape)


def log_sum_exp(logs: Table, axis: int | tuple[int, ...] | None = None) -> Table:
    """Log-sum-exp, shifted by the maximum; ``-inf`` where all are."""
    top = logs.max(axis=axis, keepdims=True)
    shift = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(logs - shift).sum(axis=axis, keepdims=True)) + shift
    return total.reshape(()) if axis is None else total.squeeze(axis)


def log_z(joint: Table) -> float:
    """Log of the sum of all weights."""
    return float(log_sum_exp(joint))


def probabilities(joint: Table) -> Table:
    """The normalised joint; needs Z > 0."""
    p = np.exp(joint - joint.max())
    return p / p.sum()


def marginal(joint: Table, scope: Sequence[int] | Ints) -> Table:
    """Joint marginal of some variables, axes in the order of ``scope``."""
    summed = probabilities(joint).sum(axis=tuple(v for v in range(joint.ndim) if v not in scope))
    kept = sorted(scope)
    return summed.transpose([kept.index(v) for v in scope])


def mu_var(joint: Table) -> Table:
    """All variable marginals, one after the other."""
    return np.concatenate([marginal(joint, [v]) for v in range(joint.ndim)])


def mu(graph: FactorGraph, joint: Table) -> Table:
    """Expected statistics, the gradient of log Z in ``graph.theta``: tied cells hold sums over their factors."""
    total = np.zeros(graph.layout.n_cells)
    for f in range(graph.n_factors):
        total[graph.layout.cells(f)] += marginal(joint, [int(v) for v in graph.layout.scope(f)]).ravel()
    return total


def maximum(joint: Table) -> float:
    """Best log score."""
    return float(joint.max())


def query_values(joint: Table, query: Sequence[int]) -> Table:
    """Q(x_B), the log-sum over all variables outside the query, axes in the order of ``query``."""
    rest = tuple(v for v in range(joint.ndim) if v not in query)
    values = log_sum_exp(joint, rest) if rest else joint
    kept = sorted(query)
    return values.transpose([kept.index(v) for v in query])


def power_sum(joint: Table, order: Sequence[int], tau: Sequence[float] | Table) -> tuple[float, Table]:
    """Return the nested power sum along ``order`` and its belief over all joint states.

    The belief multiplies the conditionals ``exp((u - m) / tau)``, first maximiser at 0, from the last eliminated
    variable to the first; it is the gradient of the value in the joint table.
    """
    u = joint
    conditionals = []
    for v in order:
        m = _power(u, v, tau[v])
        conditionals.append(_conditional(u, m, v, tau[v]))
        u = m
    belief = np.ones(())
    for conditional in reversed(conditionals):
        belief = belief * conditional
    return float(u.reshape(())), belief


def _power(u: Table, axis: int, tau: float) -> Table:
    if tau == 0:
        return u.max(axis=axis, keepdims=True)
    return np.expand_dims(tau * log_sum_exp(u / tau, axis), axis)


def _conditional(u: Table, m: Table, axis: int, tau: float) -> Table:
    if tau == 0:
        first = np.expand_dims(u.argmax(axis=axis), axis)
        index = np.arange(u.shape[axis]).reshape([-1 if a == axis else 1 for a in range(u.ndim)])
        return (index == first).astype(float)
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(u), 0.0, np.exp((u - m) / tau))


def log_score(graph: FactorGraph, row: Sequence[int] | Ints) -> float:
    """Sum of the factors' entries at one joint state."""
    total = 0.0
    for f in range(graph.n_factors):
        shape = graph.layout.shape(f)
        index = tuple(int(row[v]) for v in graph.layout.scope(f))
        total += float(graph.theta[graph.layout.cells(f)].reshape(shape)[index])
    return total


def joint_states(card: Sequence[int] | Ints) -> list[tuple[int, ...]]:
    """All joint states, last variable fastest."""
    return list(product(*(range(int(k)) for k in card)))


def is_forest(graph: FactorGraph) -> bool:
    """Whether the bipartite graph of variables and factors has no cycle (union-find)."""
    leader = list(range(graph.n_vars + graph.n_factors))

    def find(a: int) -> int:
        while leader[a] != a:
            a = leader[a]
        return a

    for f in range(graph.n_factors):
        for v in graph.layout.scope(f):
            a, b = find(graph.n_vars + f), find(int(v))
            if a == b:
                return False
            leader[a] = b
    return True


def total_table(split: Any) -> np.ndarray:
    """The sum of all tables of a dual decomposition, spread over the joint table."""
    g, n = split.graph, split.model.n_vars
    joint = np.full([int(k) for k in split.model.layout.card], split.constant)
    for (ptr, var, _, cells), flat in ((g.clusters, split.tables), (g.separators, split.state.sep_tables)):
        for c in range(ptr.size - 1):
            scope = [int(v) for v in var[ptr[c] : ptr[c + 1]]]
            table = flat[cells[c] : cells[c + 1]].reshape([int(split.model.layout.card[v]) for v in scope])
            joint = joint + _spread(table, scope, n)
    return joint
