"""Message passing in plain NumPy, one equation a line, factors of any arity: slow, and easy to compare with the papers.

Log messages ``lam[c][i]``, beliefs ``beta[v] = sum rho_c lam[c][i]``, ``T_c = theta_c/rho_c + sum (beta_j - lam_cj)``.
Flooding: all messages from those of the iteration before. Used as an oracle, and as the slow end of the benchmark.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from beliefs.model import FactorGraph

Messages = list[list[np.ndarray]]


def lse(table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Log-sum-exp over axes; all ``-inf`` gives ``-inf``."""
    if not axes:
        return table
    top = table.max(axis=axes, keepdims=True)
    safe = np.where(top == -np.inf, 0.0, top)
    with np.errstate(divide="ignore"):
        return np.squeeze(np.log(np.exp(table - safe).sum(axis=axes, keepdims=True)) + safe, axis=axes)


def along(vector: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    """A vector shaped to be added along one axis of a table."""
    return vector.reshape([-1 if a == axis else 1 for a in range(ndim)])


def normalised(message: np.ndarray, summed: bool) -> np.ndarray:
    return message - (lse(message, (0,)) if summed else message.max())


class Flooding:
    """State and one step of flooding message passing."""

    def __init__(self, graph: FactorGraph, rho: np.ndarray | None = None, tau: np.ndarray | None = None) -> None:
        layout = graph.layout
        self.graph, self.tau = graph, np.ones(graph.n_vars) if tau is None else tau
        self.rho = np.ones(graph.n_factors) if rho is None else rho
        self.scopes = [[int(v) for v in layout.scope(f)] for f in range(graph.n_factors)]
        self.tables = [graph.theta[layout.cells(f)].reshape(layout.shape(f)) for f in range(graph.n_factors)]
        self.lam: Messages = []
        for scope, table in zip(self.scopes, self.tables, strict=True):
            start = [normalised(np.zeros(layout.card[v]), self.tau[v] > 0) for v in scope]
            self.lam.append([normalised(table, self.tau[scope[0]] > 0)] if len(scope) == 1 else start)

    def beta(self) -> list[np.ndarray]:
        beta = [np.zeros(k) for k in self.graph.layout.card]
        for scope, weight, lam in zip(self.scopes, self.rho, self.lam, strict=True):
            for v, message in zip(scope, lam, strict=True):
                beta[v] = beta[v] + weight * message
        return beta

    def step(self) -> None:
        """Send all messages of factors of several variables at once (finite messages only)."""
        beta, new = self.beta(), []
        for scope, table, weight, lam in zip(self.scopes, self.tables, self.rho, self.lam, strict=True):
            if len(scope) < 2:
                new.append(lam)
                continue
            cavity = [beta[v] - m for v, m in zip(scope, lam, strict=True)]
            # factors of more than two variables hear themselves where rho < 1: they move less than all the way
            share = 1 / (1 + (len(scope) - 1) * (1 - weight)) if len(scope) > 2 and weight < 1 else 1.0
            row = []
            for i, target in enumerate(scope):
                total = table / weight
                for j, v in enumerate(scope):
                    if j == i:
                        continue
                    vector = cavity[j]
                    if self.tau[v] == 0 and self.tau[target] > 0:  # towards a sum variable: only the maximisers
                        vector = np.where(beta[v] >= beta[v].max() - 1e-9, vector, -np.inf)
                    total = total + along(vector, j, len(scope))
                keep_max = self.tau[target] == 0
                summed = tuple(j for j, v in enumerate(scope) if j != i and (self.tau[v] > 0 or not keep_max))
                maxed = tuple(j for j in range(len(scope)) if j != i and j not in summed)
                total = np.expand_dims(lse(total, summed), summed)
                total = np.squeeze(total.max(axis=maxed, keepdims=True), axis=tuple(sorted(summed + maxed)))
                message = normalised(total, self.tau[target] > 0)
                row.append(normalised(share * message + (1 - share) * lam[i], self.tau[target] > 0))
            new.append(row)
        self.lam = new

    def marginals(self) -> np.ndarray:
        return np.concatenate([np.exp(b - lse(b, (0,))) for b in self.beta()])

    def value(self) -> float:
        """``sum_c rho_c lse(T_c) + sum_i (1 - sum rho_c) lse(beta_i)``."""
        total = sum(weight * float(lse(logs, tuple(range(logs.ndim)))) for _, weight, logs in self.log_beliefs())
        return total + sum(c * float(lse(b, (0,))) for c, b in zip(self.counts(), self.beta(), strict=True))

    def log_beliefs(self) -> Iterator[tuple[np.ndarray, float, np.ndarray]]:
        """Each factor's table, its counting number, and its log belief before it is normalised."""
        beta = self.beta()
        for scope, table, weight, lam in zip(self.scopes, self.tables, self.rho, self.lam, strict=True):
            logs = table / weight
            for j, v in enumerate(scope):
                logs = logs + along(beta[v] - lam[j], j, len(scope))
            yield table, weight, logs

    def counts(self) -> np.ndarray:
        """The counting number of each variable: one minus those of its factors."""
        count = np.ones(self.graph.n_vars)
        for scope, weight in zip(self.scopes, self.rho, strict=True):
            for v in scope:
                count[v] -= weight
        return count

    def free_energy(self) -> float:
        """``sum_c <b_c, theta_c> + rho_c H(b_c) + sum_i (1 - sum rho_c) H(b_i)``."""

        def entropy(p: np.ndarray) -> float:
            return float(-(p[p > 0] * np.log(p[p > 0])).sum())

        value = 0.0
        for table, weight, logs in self.log_beliefs():
            b = np.exp(logs - lse(logs, tuple(range(logs.ndim))))
            value += float((b * np.where(b > 0, table, 0.0)).sum()) + weight * entropy(b)
        each = zip(self.counts(), self.beta(), strict=True)
        return value + sum(c * entropy(np.exp(b - lse(b, (0,)))) for c, b in each)
