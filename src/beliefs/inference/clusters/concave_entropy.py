r"""Counting numbers with one optimum: whether given ones have it, and which ones cover every variable sparingly.

:math:`H(b_\gamma) - H(b_\beta)` is concave for a region and one inside it. So :math:`\sum_\gamma c_\gamma H(b_\gamma)`
is, if every negative number can be paid for by positive ones above it, each used up at most once: a transport problem
[heskes2006], solved as a linear program.

Non-negative numbers that cover every variable, :math:`\sum_{\gamma \ni i} c_\gamma \ge 1`, bound the entropy from above
(Shearer's inequality), the tighter the less they count. A second linear program takes those of least entropy at uniform
beliefs. Outer regions keep half of what they would have if each variable counted its own alike, since block descent
needs them all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beliefs.inference.clusters.region_order import above
from beliefs.inference.clusters.region_sets import Region
from beliefs.model.layout import Layout
from beliefs.typing import Floats, Ints

__all__ = ["covering_numbers", "is_concave"]

_MOST_PAIRS = 200_000  # variables of the linear program
_FLOOR = 0.5  # share that every outer region keeps


def is_concave(counting: Floats, edges: Ints) -> bool:
    """Whether positive counting numbers can pay for the negative ones below them; False where that is not decided."""
    debtors = np.flatnonzero(counting < 0)
    if not debtors.size:
        return True
    ptr, payer = above(counting.size, edges)
    payee = np.repeat(np.arange(counting.size), np.diff(ptr))
    pays = (counting[payer] > 0) & (counting[payee] < 0)
    payer, payee = payer[pays], payee[pays]
    if payer.size > _MOST_PAIRS or np.unique(payee).size < debtors.size:
        return False
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    at, ones = np.arange(payer.size), np.ones(payer.size)
    most = coo_array((ones, (payer, at)), shape=(counting.size, payer.size)).tocsr()
    least = coo_array((ones, (payee, at)), shape=(counting.size, payer.size)).tocsr()[debtors]
    done = linprog(np.zeros(payer.size), A_ub=most, b_ub=np.maximum(counting, 0.0), A_eq=least, b_eq=-counting[debtors])
    return bool(done.status == 0)


def covering_numbers(layout: Layout, scopes: Sequence[Region], n_outer: int) -> Floats:
    """Return counting numbers of at least 0, more for the first ``n_outer`` regions, that cover every variable."""
    if not scopes:  # nothing is left to cover where all is observed
        return np.zeros(0)
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    sizes = [len(scope) for scope in scopes]
    variable, region = (
        np.array([v for scope in scopes for v in scope], np.int64),
        np.repeat(np.arange(len(sizes)), sizes),
    )
    holds = coo_array((np.ones(region.size), (variable, region)), shape=(layout.n_vars, len(sizes))).tocsr()
    hidden = holds[np.flatnonzero(~layout.observed)]
    around = np.bincount(variable[region < n_outer], minlength=layout.n_vars)
    least = np.zeros(len(sizes))
    for r in range(n_outer):
        least[r] = _FLOOR / around[list(scopes[r])].max()
    entropy = holds.T @ np.log(layout.card)
    bounds = np.stack([least, np.full(least.size, np.inf)], axis=1)
    found = linprog(entropy, A_ub=-hidden, b_ub=-np.ones(hidden.shape[0]), bounds=bounds).x
    counting: Floats = np.maximum(found, least)
    return counting / min(float((hidden @ counting).min(initial=1.0)), 1.0)  # what rounding left uncovered
