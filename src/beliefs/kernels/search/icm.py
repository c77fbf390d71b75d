"""Kernel of iterated conditional modes."""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.layout import Adjacency, Scopes
from beliefs.typing import Bools, Floats, Ints

__all__ = ["conditional_scores", "conditional_modes", "is_better"]

_ROUNDING = 1e-12  # relative: smaller gains are rounding, and could go round in circles


@twofold_kernel
def is_better(zeros: float, score: float, old_zeros: float, old_score: float) -> bool:
    """Whether fewer cells are ``-inf``, or as few and the score of the others is larger by more than rounding."""
    if zeros != old_zeros:
        return zeros < old_zeros
    return score > old_score + _ROUNDING * max(1.0, abs(old_score))


@twofold_kernel
def conditional_scores(
    scopes: Scopes, adjacency: Adjacency, theta: Floats, stride: Ints, states: Ints, v: int, zeros: Floats,
    scores: Floats,
) -> None:  # fmt: skip
    """Write, for each state of ``v``, how many of its factors' cells are ``-inf`` and the sum of the others.

    ``zeros (card[v],)`` and ``scores (card[v],)``. Cost: per edge of ``v`` the arity of its factor and its states.
    """
    scope_ptr, scope_vars, cell_ptr = scopes.scope_ptr, scopes.scope_vars, scopes.cell_ptr
    var_ptr, var_edges, edge_factor = adjacency
    for x in range(scores.size):
        zeros[x] = 0.0
        scores[x] = 0.0
    for i in range(var_ptr[v], var_ptr[v + 1]):
        e = var_edges[i]
        f = edge_factor[e]
        at = cell_ptr[f]
        for d in range(scope_ptr[f], scope_ptr[f + 1]):
            if d != e:
                at += stride[d] * states[scope_vars[d]]
        for x in range(scores.size):
            t = theta[at + x * stride[e]]
            if t == -np.inf:
                zeros[x] += 1.0
            else:
                scores[x] += t


@twofold_kernel
def conditional_modes(
    scopes: Scopes, adjacency: Adjacency, theta: Floats, stride: Ints, order: Ints, states: Ints, active: Bools
) -> int:
    """Move every active variable of ``order`` to its best state given the others; return how many moved.

    Best means fewest cells of ``-inf``, then the largest sum; ties keep the present state, else go to the smallest
    index. ``states (n_vars,)`` and ``active (n_vars,)`` change: a variable is inactive once looked at, and active again
    once a neighbour moves. Cost: that of the active variables' factors.
    """
    card, scope_ptr, scope_vars = scopes.card, scopes.scope_ptr, scopes.scope_vars
    var_ptr, var_edges, edge_factor = adjacency
    widest = 1
    for v in order:
        widest = max(widest, card[v])
    all_zeros, all_scores = np.empty(widest), np.empty(widest)
    moved = 0
    for v in order:
        if not active[v]:
            continue
        active[v] = False
        zeros, scores = all_zeros[: card[v]], all_scores[: card[v]]
        conditional_scores(scopes, adjacency, theta, stride, states, v, zeros, scores)
        best = states[v]
        for x in range(card[v]):  # from the smallest index, so that of equally good ones the first is kept
            if is_better(zeros[x], scores[x], zeros[best], scores[best]):
                best = x
        if best != states[v]:
            states[v] = best
            moved += 1
            for i in range(var_ptr[v], var_ptr[v + 1]):
                f = edge_factor[var_edges[i]]
                for e in range(scope_ptr[f], scope_ptr[f + 1]):
                    if scope_vars[e] != v:
                        active[scope_vars[e]] = True
    return moved
