r"""The tree-reweighted free energy of sums and of marginal MAP, at any iterate of the messages.

.. math:: \Phi^{trw}(b) = \theta \cdot b + \sum_{i \in A} H(b_i) - \sum_{ij \not\subseteq B} \rho_{ij} I(b_{ij})

with :math:`A` summed and :math:`B` maximised; edges inside :math:`B` carry no entropy. Its maximum over locally
consistent beliefs is at least the truth where :math:`\rho` is a mixture of spanning trees of the graph in which
:math:`B` is contracted to one node. At the beliefs of an iterate, which do not agree with each other yet, it may be
anything. Those of max nodes are point masses at their maximisers, as in mixed-product messages.
"""

from __future__ import annotations

import numpy as np

from beliefs.inference.base import Problem
from beliefs.inference.messages.propagation import MessageState
from beliefs.inference.messages.trw import TRW
from beliefs.typing import Floats, Ints

__all__ = ["spanning_tree_rho", "trw_energies", "trw_energy"]

_TIE = 1e-9  # nats: states within this of the best are maximisers


def spanning_tree_rho(problem: Problem) -> Floats:
    """Return how often each edge is in a random spanning tree, B contracted; edges inside B get a forest of their own.

    By Kirchhoff's theorem that is the edge's effective resistance. Factors of one variable have 1.
    """
    layout = problem.graph.layout
    pairs = np.flatnonzero(np.diff(layout.scope_ptr) == 2)
    ends = layout.scope_vars[layout.scope_ptr[pairs][:, None] + np.arange(2)]
    maximised = problem.tau == 0
    place = np.where(maximised, layout.n_vars, np.arange(layout.n_vars))
    rho = np.ones(layout.n_factors)
    rho[pairs] = _resistance(place[ends], layout.n_vars + 1)
    inside = maximised[ends].all(axis=1)
    rho[pairs[inside]] = _resistance(ends[inside], layout.n_vars)
    return rho


def _resistance(ends: Ints, n: int) -> Floats:
    laplacian = np.zeros((n, n))
    for i, j in ends:
        if i != j:
            laplacian[[i, j], [i, j]] += 1.0
            laplacian[[i, j], [j, i]] -= 1.0
    inverse = np.linalg.pinv(laplacian)
    i, j = ends.T
    return np.asarray(inverse[i, i] + inverse[j, j] - 2.0 * inverse[i, j])


def trw_energy(state: MessageState) -> float:
    """Return the free energy at the present messages of a model of fields and pairs."""
    problem, layout, rho = state.problem, state.spec.layout, state.spec.rho
    summed, theta = problem.tau > 0, problem.graph.theta
    beta = np.split(state.logs.beta, layout.state_ptr[1:-1])
    belief = [_normalised(beta[v], summed[v]) for v in range(layout.n_vars)]
    energy = sum(_entropy(belief[v]) for v in range(layout.n_vars) if summed[v])
    messages, starts = state.logs.messages, layout.message_ptr
    for f in range(layout.n_factors):
        edges = range(layout.scope_ptr[f], layout.scope_ptr[f + 1])
        scope = layout.scope_vars[layout.scope_ptr[f] : layout.scope_ptr[f + 1]]
        shape = layout.card[scope]
        table = theta[layout.cell_ptr[f] : layout.cell_ptr[f] + shape.prod()].reshape(shape)
        if scope.size == 1:
            energy += table @ belief[scope[0]]
            continue
        cavity = [beta[v] - messages[starts[e] : starts[e] + layout.card[v]] for e, v in zip(edges, scope)]
        pair = table / rho[f] + cavity[0][:, None] + cavity[1][None, :]
        if summed[scope].any():
            possible = [np.where(summed[v] | (belief[v] > 0), 0.0, -np.inf) for v in scope]
            pair = _normalised(pair + possible[0][:, None] + possible[1][None, :], True)
            energy -= rho[f] * (_entropy(belief[scope[0]]) + _entropy(belief[scope[1]]) - _entropy(pair))
        else:
            pair = _normalised(pair, False)
        energy += (table * pair).sum()
    return float(energy)


def _normalised(logs: Floats, summed: bool) -> Floats:
    """Return the distribution of these logs, or the uniform one on their maximisers."""
    weights = np.exp(logs - logs.max()) if summed else (logs >= logs.max() - _TIE).astype(float)
    return np.asarray(weights / weights.sum())


def _entropy(p: Floats) -> float:
    return float(-(p[p > 0] * np.log(p[p > 0])).sum())


def trw_energies(problem: Problem, iterations: int) -> list[float]:
    """Return the free energy of the uniform messages and after each sweep over all edges, one after the other."""
    method = TRW(rho=spanning_tree_rho(problem), schedule="sequential")
    state = method.init(problem)
    energies = [trw_energy(state)]
    for _ in range(iterations):
        method.step(state)
        energies.append(trw_energy(state))
    return energies
