"""Conditionals of all variables given their neighbours' labels, and the way back to the tables.

``label_cells (n_factors,)`` has the cell that the labels pick in each factor, -1 where a label is missing: such factors
are left out. Factors are walked in order, so that tables are read and written as they lie in memory.
"""

from __future__ import annotations

import math

from beliefs.kernels._jit import kernel
from beliefs.kernels.gibbs.general import exponentiate
from beliefs.kernels.layout import Scopes
from beliefs.typing import Floats, Ints

__all__ = ["add_conditional_errors", "conditional_errors", "conditional_logits", "softmax_tables"]


@kernel
def _last_edge(f: int, scopes: Scopes, widest: int, label_cells: Ints) -> int:
    """Return where the edges of a factor end; of one that is left out, where they begin."""
    first, last = scopes.scope_ptr[f], scopes.scope_ptr[f + 1]
    return int(first if label_cells[f] < 0 or last - first > widest else last)


@kernel
def _slice(e: int, cell: int, scopes: Scopes, stride: Ints, labels: Ints) -> tuple[int, int, int, int]:
    """Return where the states of an edge's variable begin, how many, the cell of the first and the step to the next.

    In these cells all others are at their labels; ``cell`` is the one that the labels of all pick.
    """
    v, step = scopes.scope_vars[e], stride[e]
    begin = scopes.state_ptr[v]
    return begin, scopes.state_ptr[v + 1] - begin, cell - step * labels[v], step


@kernel
def conditional_logits(
    scopes: Scopes, stride: Ints, widest: int, labels: Ints, label_cells: Ints, theta: Floats, logits: Floats
) -> None:
    """Add to each variable's run of ``logits (n_states,)`` the slices of its factors at the labels of all others.

    Equivalent to ``logits[v] += theta_f[..., :, ...]`` with all axes but that of ``v`` at their labels, for each factor
    of at most ``widest`` variables. Cost: the states of each edge. Numerics: ``-inf`` stays ``-inf``.
    """
    for f in range(label_cells.size):
        for e in range(scopes.scope_ptr[f], _last_edge(f, scopes, widest, label_cells)):
            begin, k, at, step = _slice(e, label_cells[f], scopes, stride, labels)
            for x in range(k):
                logits[begin + x] += theta[at + x * step]


@kernel
def conditional_errors(state_ptr: Ints, labels: Ints, weights: Floats, logits: Floats) -> float:
    """Turn logits into weighted errors in place, and return the weighted sum of ``-log p_v(label)``.

    Equivalent to ``p = softmax(logits[v]); logits[v] = weights[v] * (p - onehot(labels[v]))`` for every variable; a
    variable without a label (-1) gets zeros. Every labelled variable's label must have a finite logit. Numerics:
    logits are shifted by their maximum; a state less than exp(-708) times as likely as the best has p = 0. Cost:
    n_states, one exponential each.
    """
    n_vars = labels.size
    value = 0.0
    for v in range(n_vars):
        run = logits[state_ptr[v] : state_ptr[v + 1]]
        if labels[v] < 0:
            run[:] = 0.0
            continue
        top = run[0]
        for x in range(1, run.size):
            top = max(top, run[x])
        for x in range(run.size):
            run[x] -= top
        value -= weights[v] * run[labels[v]]
    exponentiate(logits)  # all at once: one loop that vectorises however few states a variable has
    for v in range(n_vars):
        run = logits[state_ptr[v] : state_ptr[v + 1]]
        if labels[v] < 0:
            run[:] = 0.0
            continue
        total = 0.0
        for x in range(run.size):
            total += run[x]
        value += weights[v] * math.log(total)
        scale = weights[v] / total
        for x in range(run.size):
            run[x] *= scale
        run[labels[v]] -= weights[v]
    return value


@kernel
def add_conditional_errors(
    scopes: Scopes, stride: Ints, widest: int, labels: Ints, label_cells: Ints, errors: Floats, grad: Floats
) -> None:
    """Add each variable's errors to the cells that :func:`conditional_logits` reads, ``grad (n_cells,)``.

    Equivalent to the transpose of that kernel. Cost: the states of each edge.
    """
    for f in range(label_cells.size):
        for e in range(scopes.scope_ptr[f], _last_edge(f, scopes, widest, label_cells)):
            begin, k, at, step = _slice(e, label_cells[f], scopes, stride, labels)
            for x in range(k):
                grad[at + x * step] += errors[begin + x]


@kernel
def softmax_tables(starts: Ints, sizes: Ints, counts: Floats, theta: Floats, grad: Floats) -> float:
    """Write ``counts[r] * softmax(table)`` to ``grad`` for each table, and return ``sum(counts * logsumexp(table))``.

    Table ``r`` is ``theta[starts[r] : starts[r] + sizes[r]]``, overlaps no other and must have a finite entry; where
    the count is 0 nothing is written. Cost: one exponential a cell. Numerics: as in :func:`conditional_errors`.
    """
    value = 0.0
    for r in range(starts.size):
        if counts[r] == 0.0:
            continue
        table, out = theta[starts[r] : starts[r] + sizes[r]], grad[starts[r] : starts[r] + sizes[r]]
        top = table[0]
        for k in range(1, table.size):
            top = max(top, table[k])
        for k in range(table.size):
            out[k] = table[k] - top
        exponentiate(out)
        total = 0.0
        for k in range(table.size):
            total += out[k]
        value += counts[r] * (top + math.log(total))
        scale = counts[r] / total
        for k in range(table.size):
            out[k] *= scale
    return value
