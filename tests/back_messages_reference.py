"""Truncated message passing and its reverse in plain NumPy, with probabilities: slow, and close to the paper.

Messages ``m[c][a]`` sum to one. A factor sends all its messages from the same cavities, or one after the other where it
has more than two variables and a counting number below 1. Going back, every message has its own adjoint, and each use
of a product ``prod_d m_d^rho_d / m_c`` adds ``(rho_d - [c = d]) R / m_d`` to all of them ([domke2013] appendix C, with
the unnormalised message in the denominator). No logs, no running sums: nothing in common with the kernels.
"""

from __future__ import annotations

import numpy as np

from beliefs.model import FactorGraph


def along(vector: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    return vector.reshape([-1 if a == axis else 1 for a in range(ndim)])


def backnorm(bar: np.ndarray, p: np.ndarray) -> np.ndarray:
    """``p * (bar - bar . p)``: if p = b / sum(b), this over b is the adjoint of b."""
    return p * (bar - (bar * p).sum())


class Truncated:
    """Run ``orders`` (one list of factors a pass); then :meth:`back` gives the gradient in all factors' own tables."""

    def __init__(self, graph: FactorGraph, rho: np.ndarray, orders: list[list[int]]) -> None:
        lay = graph.layout
        self.rho, self.card = rho, lay.card
        self.scopes = [[int(v) for v in lay.scope(f)] for f in range(lay.n_factors)]
        tables = [graph.theta[lay.cells(f)].reshape(lay.shape(f)) for f in range(lay.n_factors)]
        self.psi = [np.exp(table / r) for table, r in zip(tables, rho, strict=True)]
        self.m = [[np.full(self.card[v], 1.0 / self.card[v]) for v in scope] for scope in self.scopes]
        self.stack: list[tuple[int, list[int], list[np.ndarray]]] = []
        for f in (f for order in orders for f in order):
            arity = len(self.scopes[f])
            turns = [[a] for a in range(arity)] if arity > 2 and rho[f] < 1 else [list(range(arity))]
            for axes in turns:
                new = [self.unnormalised(f, a) for a in axes]
                self.stack.append((f, axes, [self.m[f][a] for a in axes]))
                for a, message in zip(axes, new, strict=True):
                    self.m[f][a] = message / message.sum()
        self.mu_var = [self.product(v) / self.product(v).sum() for v in range(len(self.card))]
        self.mu_factor = [s / s.sum() for s in (self.joint(f, None) for f in range(len(self.psi)))]

    def product(self, v: int) -> np.ndarray:
        """``prod exp(theta_i) prod m_d^rho_d`` over all factors at a variable."""
        p = np.ones(self.card[v])
        for f, scope in enumerate(self.scopes):
            if v in scope:
                p = p * (self.psi[f] if len(scope) == 1 else self.m[f][scope.index(v)] ** self.rho[f])
        return p

    def joint(self, f: int, without: int | None) -> np.ndarray:
        """``psi_c`` times the cavities of all axes, or of all but one."""
        s = self.psi[f]
        for a, v in enumerate(self.scopes[f]):
            if a != without and len(self.scopes[f]) > 1:
                s = s * along(self.product(v) / self.m[f][a], a, s.ndim)
        return s if len(self.scopes[f]) != 1 else self.product(self.scopes[f][0])

    def unnormalised(self, f: int, target: int) -> np.ndarray:
        s = self.joint(f, target)
        return s.sum(axis=tuple(a for a in range(s.ndim) if a != target))

    def back(self, bar_var: list[np.ndarray], bar_factor: list[np.ndarray]) -> list[np.ndarray]:
        self.grad = [np.zeros(psi.shape) for psi in self.psi]
        self.bar = [[np.zeros(m.size) for m in row] for row in self.m]
        for f, scope in enumerate(self.scopes):
            if len(scope) > 1:
                nu = backnorm(bar_factor[f], self.mu_factor[f])
                self.use(f, nu, list(range(len(scope))))
        for v, p in enumerate(self.mu_var):
            self.reach(v, -1, backnorm(bar_var[v], p))
        while self.stack:
            f, axes, old = self.stack.pop()
            nus = [backnorm(self.bar[f][a], self.m[f][a]) for a in axes]
            for a, message in zip(axes, old, strict=True):
                self.m[f][a], self.bar[f][a] = message, np.zeros(message.size)
            for a, nu in zip(axes, nus, strict=True):
                s = self.joint(f, a)
                others = [b for b in range(s.ndim) if b != a]
                self.use(f, s * along(nu / s.sum(axis=tuple(others)), a, s.ndim), others)
        return self.grad

    def use(self, f: int, t: np.ndarray, axes: list[int]) -> None:
        """Hand the adjoint t of a table's logs on to its potentials and to the cavities of some axes."""
        self.grad[f] += t / self.rho[f]
        for a in axes:
            self.reach(self.scopes[f][a], f, t.sum(axis=tuple(b for b in range(t.ndim) if b != a)))

    def reach(self, v: int, cavity_of: int, r: np.ndarray) -> None:
        for d, scope in enumerate(self.scopes):
            if v in scope and len(scope) == 1:
                self.grad[d] += r
            elif v in scope:
                a = scope.index(v)
                self.bar[d][a] += (self.rho[d] - (d == cavity_of)) * r / self.m[d][a]
