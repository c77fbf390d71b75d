r"""Enumeration: the joint table written out, the oracle of every other method.

All questions are answered from the log scores :math:`\theta(x) = \sum_f \theta_f(x_f)` of all
:math:`N = \prod_v K_v` joint states of the unobserved variables:

    log Z = LSE_x theta(x),   mu_f(x_f) = sum over x that agree of exp(theta(x) - log Z),
    MAP = argmax_x theta(x),  marginal MAP = argmax_{x_B} LSE_{x_A} theta(x_A, x_B)

Exact; ties go to the smallest state of the first variable. Cost: N x factors, memory 64 N bytes, checked against the
budget first. Fails only by size: BudgetError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from beliefs.deadline import check_time
from beliefs.driver import Value
from beliefs.errors import BudgetError
from beliefs.inference.base import (
    Bound,
    Decoding,
    Derivative,
    Guarantee,
    Marginals,
    Method,
    Problem,
    Samples,
    Task,
    observed_point_masses,
    zero_probability,
)
from beliefs.typing import Floats, Ints

__all__ = ["Enumeration"]

_BYTES_PER_STATE = 64  # scores, probabilities, and index arrays with their temporaries, eight bytes each


@dataclass(eq=False)
class JointTable:
    """The joint states in C order over ``order``: query first, then the other unobserved variables."""

    problem: Problem
    order: Ints
    stride: Ints
    scores: Floats


@dataclass(frozen=True, kw_only=True, repr=False)
class Enumeration(Method):
    """Write out the joint table; the oracle for small models.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
    >>> bl.infer(g, "enumeration").marginal("x0")
    array([0.3, 0.7])
    """

    name: ClassVar[str] = "enumeration"
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.EXACT)
    derivative: ClassVar[Derivative] = Derivative.EXACT
    cost: ClassVar[str] = "product of all cardinalities"
    reference: ClassVar[str] = "the definition"

    def init(self, problem: Problem, warm: object = None) -> JointTable:
        """Check the budget and lay out the joint states."""
        graph = problem.graph
        hidden = np.flatnonzero(~graph.layout.observed)
        order = np.concatenate([problem.query, np.setdiff1d(hidden, problem.query)]).astype(np.int64)
        card = graph.layout.card[order]
        bits = float(np.log2(card).sum())
        if bits > 62 or 2.0**bits * _BYTES_PER_STATE > problem.max_bytes:
            raise BudgetError(
                f"enumeration needs 2^{bits:.1f} joint states of {_BYTES_PER_STATE} bytes, the limit is "
                f"{problem.max_bytes:.3g} bytes; try junction_tree"
            )
        stride = np.zeros(graph.n_vars, np.int64)
        stride[order] = np.concatenate([np.cumprod(card[::-1])[::-1][1:], [1]]) if order.size else 1
        return JointTable(problem, order, stride, np.zeros(int(np.prod(card))))

    def step(self, state: JointTable) -> float:
        """Add up the log scores of all joint states."""
        graph = state.problem.graph
        for f in range(graph.n_factors):
            start = graph.layout.cell_ptr[f]
            state.scores += graph.theta[start + self._cells(state, f)]
            check_time()
        if not (state.scores > -np.inf).any():
            raise zero_probability(graph)
        return 0.0

    def value(self, state: JointTable) -> Value:
        """Return log Z, or the maximum, or the marginal-MAP value; all exact."""
        task = state.problem.task
        if task is Task.MAXIMIZE:
            log_z = float(state.scores.max())
        elif task is Task.MARGINAL_MAP:
            log_z = float(self._query_values(state).max())
        else:
            log_z = float(log_sum_exp(state.scores))
        return Value(log_z, log_z, log_z)

    def finish(self, state: JointTable) -> Marginals | Decoding | Samples:
        """Read the answer off the joint table."""
        problem = state.problem
        value = self.value(state).log_z
        if problem.task is Task.INFER:
            return self._marginals(state, value)
        if problem.task is Task.MAXIMIZE:
            return Decoding(self._row(state, np.argmax(state.scores)), value, Bound.EXACT, value, value)
        if problem.task is Task.MARGINAL_MAP:
            best = int(np.argmax(self._query_values(state)))
            shape = problem.graph.layout.card[problem.query]
            strides = np.concatenate([np.cumprod(shape[::-1])[::-1][1:], [1]]).astype(np.int64)[: shape.size]
            return Decoding(best // strides % shape, value, Bound.EXACT, value, value)
        cumulative = np.cumsum(np.exp(state.scores - state.scores.max()))
        uniform = np.random.default_rng(problem.seed).random(problem.n_samples) * cumulative[-1]
        drawn = np.searchsorted(cumulative, uniform, side="right")
        return Samples(np.stack([self._row(state, x) for x in drawn]) if drawn.size else _no_rows(problem), Bound.EXACT)

    def _cells(self, state: JointTable, f: int) -> Ints:
        """Cell of factor ``f`` in each joint state, (N,)."""
        layout = state.problem.graph.layout
        joint = np.arange(state.scores.size)
        cells = np.zeros(state.scores.size, np.int64)
        for v in layout.scope(f):
            cells = cells * layout.card[v] + joint // state.stride[v] % layout.card[v]
        return cells

    def _marginals(self, state: JointTable, log_z: float) -> Marginals:
        graph = state.problem.graph
        layout = graph.layout
        p = np.exp(state.scores - log_z)
        p /= p.sum()
        joint = np.arange(p.size)
        mu_var = observed_point_masses(graph)
        for v in np.flatnonzero(~layout.observed):
            run = mu_var[layout.state_ptr[v] : layout.state_ptr[v + 1]]
            run[:] = np.bincount(joint // state.stride[v] % layout.card[v], weights=p, minlength=len(run))
            check_time()
        mu = []
        for f in range(layout.n_factors):
            mu.append(np.bincount(self._cells(state, f), p, int(layout.factor_size[f])))
            check_time()
        return Marginals(log_z, Bound.EXACT, mu_var, np.concatenate([*mu, np.zeros(0)]), log_z, log_z)

    def _query_values(self, state: JointTable) -> Floats:
        """Q(x_B) for every state of the query, (N_B,)."""
        n_query = int(np.prod(state.problem.graph.layout.card[state.problem.query]))
        return log_sum_exp(state.scores.reshape(n_query, -1))

    def _row(self, state: JointTable, x: np.intp) -> Ints:
        graph = state.problem.graph
        row = graph.evidence_states.copy()
        row[state.order] = x // state.stride[state.order] % graph.layout.card[state.order]
        return row


def log_sum_exp(scores: Floats) -> Floats:
    """Log-sum-exp over the last axis, max-shifted; an all ``-inf`` row gives ``-inf``."""
    top = scores.max(axis=-1, keepdims=True)
    shift = np.where(top > -np.inf, top, 0.0)
    with np.errstate(divide="ignore"):
        result: Floats = np.log(np.exp(scores - shift).sum(axis=-1)) + shift[..., 0]
    return result


def _no_rows(problem: Problem) -> Ints:
    return np.zeros((0, problem.graph.n_vars), np.int64)
