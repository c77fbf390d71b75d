r"""The Kikuchi entropy :math:`\sum_\gamma c_\gamma H(b_\gamma)` of the marginals of any result.

A loop has no table, so its entropy is the largest that marginals of its edges allow: of those that are regions, or
carry a factor that is not constant. Where an edge is free the loop is cut into chains, whose entropy is
:math:`\sum_e H_e - \sum_i H_i` over inner vertices; where none is, tables on the edges are scaled until their cyclic
product has these marginals (iterative proportional fitting), :math:`|C| K^3` a sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from beliefs.inference.clusters.region_sets import Region
from beliefs.typing import Bools, Floats

__all__ = ["kikuchi_entropy", "loop_entropy"]

_SWEEPS = 1000
_MET = 1e-12  # largest difference of a marginal


def kikuchi_entropy(result: Any, scopes: Sequence[Region], counting: Floats, is_loop: Bools) -> float:
    """Return the entropy of a result's marginals over the given regions."""
    tied = _tied_pairs(result.graph) | {frozenset(s) for s in scopes if len(s) == 2} if is_loop.any() else set()
    total = 0.0
    for scope, number, loop in zip(scopes, counting.tolist(), is_loop.tolist(), strict=True):
        if number:
            total += number * (_loop(result, scope, tied) if loop else float(result.entropy(list(scope))))
    return total


def _tied_pairs(graph: Any) -> set[frozenset[int]]:
    """Return the pairs of variables with a factor that is not constant."""
    layout, found = graph.layout, set()
    for f in np.flatnonzero(layout.arity == 2).tolist():
        table = graph.theta[layout.cells(f)]
        if (table != table[0]).any():
            found.add(frozenset(layout.scope(f).tolist()))
    return found


def _loop(result: Any, scope: Region, tied: set[frozenset[int]]) -> float:
    sides = [(u, v) for u, v in zip(scope, (*scope[1:], scope[0]), strict=True)]
    free = [k for k, side in enumerate(sides) if frozenset(side) not in tied]
    if not free:
        return loop_entropy([result.marginal(list(side)) for side in sides])
    total = 0.0
    for cut, end in pairwise([*free, free[0] + len(sides)]):  # chains between two free edges
        chain = [sides[k % len(sides)] for k in range(cut + 1, end)]
        total += sum(float(result.entropy(list(side))) for side in chain)
        total -= sum(float(result.entropy(u)) for u, _ in chain[1:])
        if not chain:
            total += float(result.entropy(sides[cut][1]))
    return total


def loop_entropy(marginals: Sequence[Floats]) -> float:
    """Return the largest entropy of a cycle whose edges have these marginals, each from one vertex to the next."""
    tables = [np.where(p > 0, 1.0, 0.0) for p in marginals]
    whole = np.eye(tables[0].shape[0])
    for _ in range(_SWEEPS):
        worst, before, behind = 0.0, whole, [whole]  # the products of tables before an edge, and behind each, scaled
        for table in tables[:0:-1]:
            behind.append(_scaled(table @ behind[-1]))
        for k, wanted in enumerate(marginals):
            found = tables[k] * (behind.pop() @ before).T
            found /= found.sum()
            worst = max(worst, float(np.abs(found - wanted).max()))
            tables[k] = _scaled(tables[k] * np.divide(wanted, found, out=np.zeros_like(wanted), where=found > 0))
            before = _scaled(before @ tables[k])
        if worst < _MET:
            break
    log_z, product = 0.0, whole
    for table in tables:
        product = product @ table
        log_z += float(np.log(product.max()))
        product = _scaled(product)
    mean = sum(float((p[p > 0] * np.log(t[p > 0])).sum()) for p, t in zip(marginals, tables, strict=True))
    return log_z + float(np.log(np.trace(product))) - mean


def _scaled(table: Floats) -> Floats:
    """Return a table with a largest entry of 1."""
    scaled: Floats = table / table.max()
    return scaled
