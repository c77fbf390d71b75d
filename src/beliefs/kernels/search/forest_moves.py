"""Kernels of forest moves: a random induced forest, and exact max-product on it with all other variables clamped.

:class:`Beliefs` are pairs: ``zeros`` counts the cells of ``-inf`` below a state, ``scores`` adds up the others; fewer
zeros win, then the larger score.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.layout import Scopes
from beliefs.kernels.primitives.unionfind import find
from beliefs.kernels.primitives.xorshift import shuffle
from beliefs.kernels.search.icm import is_better
from beliefs.typing import Bits, Bools, Floats, Ints

__all__ = ["Beliefs", "Forest", "Incidence", "forest_move"]


class Incidence(NamedTuple):
    """The factors at each variable, first those in which another variable may move too."""

    var_ptr: Ints  # (n_vars+1,)
    var_factors: Ints  # (n_edges,)
    link_end: Ints  # (n_vars,) where those end


class Forest(NamedTuple):
    """An induced forest, and how it is walked from the root of one tree."""

    free: Bools  # (n_vars,) the variables of the forest; all others are clamped
    member: Ints  # (n_factors,) a free variable of each factor, -1 where there is none
    reached: Ints  # (n_vars,) those of a tree, parents before children
    parent: Ints  # (n_vars,) the factor towards the root, -1 at the root, -2 where not reached


class Beliefs(NamedTuple):
    """Beliefs of all states, and the scratch of one message."""

    zeros: Floats  # (n_states,)
    scores: Floats  # (n_states,)
    best_zeros: Floats  # (largest cardinality,) of the message
    best_scores: Floats  # (largest cardinality,)
    axes: Ints  # (largest arity,) the edges of a factor over which it is maximised
    digit: Ints  # (largest arity,) their states


@twofold_kernel
def _grow_forest(incidence: Incidence, order: Ints, random: Bits, forest: Forest) -> int:
    """Free a maximal set of the variables in ``order`` whose induced factor graph is a forest; return its size.

    Variables come in random order; one joins if its factors with free variables lead to different trees. ``order`` is
    permuted. Cost: n_edges, up to the inverse of Ackermann's function.
    """
    var_ptr, var_factors, link_end = incidence
    free, member, leader, seen_by = forest  # the walk comes later, so its arrays are scratch here
    size = 0
    shuffle(order, random)
    for v in range(leader.size):
        leader[v], seen_by[v], free[v] = v, -1, False
    for f in range(member.size):
        member[f] = -1
    for v in order:
        alone = True
        for i in range(var_ptr[v], link_end[v]):
            u = member[var_factors[i]]
            if u >= 0:
                tree = find(leader, u)
                if seen_by[tree] == v:
                    alone = False
                    break
                seen_by[tree] = v
        if not alone:
            continue
        free[v] = True
        size += 1
        for i in range(var_ptr[v], link_end[v]):
            f = var_factors[i]
            if member[f] >= 0:
                leader[find(leader, member[f])] = v
            member[f] = v
    return size


@twofold_kernel
def _open_axes(
    scopes: Scopes, stride: Ints, states: Ints, free: Bools, f: int, v: int, axes: Ints, digit: Ints
) -> tuple[int, int, int]:
    """List the edges of ``f`` to free variables other than ``v``; return their number, a cell, and the step of ``v``.

    In that cell ``v`` and they are at state 0, all others at their states. ``digit`` is set to zeros.
    """
    n_axes, at, step = 0, scopes.cell_ptr[f], 0
    for e in range(scopes.scope_ptr[f], scopes.scope_ptr[f + 1]):
        u = scopes.scope_vars[e]
        if u == v:
            step = stride[e]
        elif free[u]:
            axes[n_axes] = e
            digit[n_axes] = 0
            n_axes += 1
        else:
            at += stride[e] * states[u]
    return n_axes, at, step


@twofold_kernel
def _advance(card: Ints, scope_vars: Ints, n_axes: int, axes: Ints, digit: Ints) -> bool:
    """Go to the next joint state of some edges, the last fastest; False after the last one."""
    for a in range(n_axes - 1, -1, -1):
        digit[a] += 1
        if digit[a] < card[scope_vars[axes[a]]]:
            return True
        digit[a] = 0
    return False


@twofold_kernel
def _add_message(
    scopes: Scopes, theta: Floats, stride: Ints, states: Ints, free: Bools, f: int, v: int, hard: bool,
    beliefs: Beliefs,
) -> None:  # fmt: skip
    """Add to the belief of ``v`` the maximum of ``f`` and the beliefs below it over its other free variables.

    Cost: cells of ``f`` at the states of its clamped variables, times its free variables.
    """
    card, state_ptr, scope_vars = scopes.card, scopes.state_ptr, scopes.scope_vars
    zeros, scores, best_zeros, best_scores, axes, digit = beliefs
    n_axes, first, step = _open_axes(scopes, stride, states, free, f, v, axes, digit)
    k, own = card[v], state_ptr[v]
    for x in range(k):
        best_zeros[x], best_scores[x] = np.inf if hard else 0.0, -np.inf
    going = True
    while going:
        at, count, total = first, 0.0, 0.0
        for a in range(n_axes):
            below = state_ptr[scope_vars[axes[a]]] + digit[a]
            at += stride[axes[a]] * digit[a]
            count += zeros[below]
            total += scores[below]
        table = theta[at : at + (k - 1) * step + 1]
        if not hard:
            for x in range(k):
                best_scores[x] = max(best_scores[x], total + table[x * step])
        else:
            for x in range(k):
                t = table[x * step]
                c, s = (count + 1.0, total) if t == -np.inf else (count, total + t)
                if c < best_zeros[x] or (c == best_zeros[x] and s > best_scores[x]):
                    best_zeros[x] = c
                    best_scores[x] = s
        going = _advance(card, scope_vars, n_axes, axes, digit)
    for x in range(k):
        zeros[own + x] += best_zeros[x]
        scores[own + x] += best_scores[x]


@twofold_kernel
def _choose_below(
    scopes: Scopes, theta: Floats, stride: Ints, states: Ints, free: Bools, f: int, v: int, beliefs: Beliefs
) -> None:
    """Set the free variables of ``f`` other than ``v`` to their best states given that of ``v``; ties to the first."""
    card, state_ptr, scope_vars = scopes.card, scopes.state_ptr, scopes.scope_vars
    zeros, scores, axes, digit = beliefs.zeros, beliefs.scores, beliefs.axes, beliefs.digit
    n_axes, first, step = _open_axes(scopes, stride, states, free, f, v, axes, digit)
    best_zeros, best_score = np.inf, 0.0
    going = True
    while going:
        at, c, s = first + step * states[v], 0.0, 0.0
        for a in range(n_axes):
            below = state_ptr[scope_vars[axes[a]]] + digit[a]
            at += stride[axes[a]] * digit[a]
            c += zeros[below]
            s += scores[below]
        if theta[at] == -np.inf:
            c += 1.0
        else:
            s += theta[at]
        if c < best_zeros or (c == best_zeros and s > best_score):
            best_zeros, best_score = c, s
            for a in range(n_axes):
                states[scope_vars[axes[a]]] = digit[a]
        going = _advance(card, scope_vars, n_axes, axes, digit)


@twofold_kernel
def _joint(scopes: Scopes, stride: Ints, states: Ints, forest: Forest, f: int) -> tuple[int, int, int, int, bool]:
    """Find the free variables of a factor: which is above, and whether a single one is below.

    Returns the one above, the step of the one below, the cell in which both are at state 0 and all others at their
    states, the step of the one above, and whether no other is below.
    """
    free, parent = forest.free, forest.parent
    top, step, at, top_step, n_below = -1, 0, scopes.cell_ptr[f], 0, 0
    for e in range(scopes.scope_ptr[f], scopes.scope_ptr[f + 1]):
        u = scopes.scope_vars[e]
        if not free[u]:
            at += stride[e] * states[u]
        elif parent[u] == f:
            step = stride[e]
            n_below += 1
        else:
            top, top_step = u, stride[e]
    return top, step, at, top_step, n_below == 1


@twofold_kernel(cost=5.0)
def forest_move(
    scopes: Scopes, incidence: Incidence, theta: Floats, stride: Ints, hard: bool, order: Ints, random: Bits,
    forest: Forest, beliefs: Beliefs, states: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Free a random forest of the variables in ``order`` and put each of its trees at its best joint state.

    Best given all clamped ones; a tree that cannot improve by more than rounding keeps its states. Returns how many
    trees improved and how many variables were free. ``hard`` says whether any cell is ``-inf``; where none is, zeros
    need not be counted. ``states (n_vars,)`` changes, and ``order`` is permuted. Scratch: ``forest`` and ``beliefs``.
    A factor is looked at once on the way out from the root, and again only if it joins two free variables.
    Cost: n_edges for the forest, and the free cells of the factors that touch it, twice.
    """
    card, state_ptr, scope_ptr, scope_vars, cell_ptr = scopes
    var_ptr, var_factors, _ = incidence
    n_free = _grow_forest(incidence, order, random, forest)
    free, _, reached, parent = forest
    zeros, scores = beliefs.zeros, beliefs.scores
    improved = 0
    for v in range(parent.size):
        parent[v] = -2  # not reached; -1 is a root
    for root in range(parent.size):
        if not free[root] or parent[root] != -2:
            continue
        parent[root], reached[0] = -1, root
        head, size = 0, 1
        old_zeros, old_score = 0.0, 0.0
        while head < size:  # breadth first: parents before children, and those of one factor side by side
            v = reached[head]
            own = state_ptr[v]
            head += 1
            for x in range(card[v]):
                zeros[own + x], scores[own + x] = 0.0, 0.0
            for i in range(var_ptr[v], var_ptr[v + 1]):
                f = var_factors[i]
                if f == parent[v]:
                    continue
                at, step, before = cell_ptr[f], 0, size
                for e in range(scope_ptr[f], scope_ptr[f + 1]):
                    u = scope_vars[e]
                    if u == v:
                        step = stride[e]
                        continue
                    at += stride[e] * states[u]
                    if free[u]:
                        parent[u], reached[size] = f, u
                        size += 1
                t = theta[at + step * states[v]]
                if t == -np.inf:
                    old_zeros += 1.0
                else:
                    old_score += t
                if size > before:
                    continue
                for x in range(card[v]):  # all others are clamped
                    t = theta[at + step * x]
                    if t == -np.inf:
                        zeros[own + x] += 1.0
                    else:
                        scores[own + x] += t
        first = size
        while first > 1:  # from the leaves: messages of factors, each with the variables that it leads to
            v = reached[first - 1]
            f = parent[v]
            while parent[reached[first - 1]] == f:
                first -= 1
            top, step, at, top_step, alone = _joint(scopes, stride, states, forest, f)
            if not alone:
                _add_message(scopes, theta, stride, states, free, f, top, hard, beliefs)
                continue
            own, above = state_ptr[v], state_ptr[top]
            for y in range(card[top]):
                best_zeros, best_score = np.inf if hard else 0.0, -np.inf
                for x in range(card[v]):
                    t = theta[at + step * x + top_step * y]
                    c, s = zeros[own + x], scores[own + x]
                    c, s = (c + 1.0, s) if t == -np.inf else (c, s + t)
                    if c < best_zeros or (c == best_zeros and s > best_score):
                        best_zeros, best_score = c, s
                zeros[above + y] += best_zeros
                scores[above + y] += best_score
        own, best = state_ptr[root], 0
        for x in range(1, card[root]):
            c, s = zeros[own + x], scores[own + x]
            if c < zeros[own + best] or (c == zeros[own + best] and s > scores[own + best]):
                best = x
        if not is_better(zeros[own + best], scores[own + best], old_zeros, old_score):
            continue
        improved += 1
        states[root] = best
        for q in range(1, size):
            v, f = reached[q], parent[reached[q]]
            if parent[reached[q - 1]] == f:
                continue
            top, step, at, top_step, alone = _joint(scopes, stride, states, forest, f)
            if not alone:
                _choose_below(scopes, theta, stride, states, free, f, top, beliefs)
                continue
            own, best, best_zeros, best_score = state_ptr[v], 0, np.inf, 0.0
            for x in range(card[v]):
                t = theta[at + step * x + top_step * states[top]]
                c, s = zeros[own + x], scores[own + x]
                c, s = (c + 1.0, s) if t == -np.inf else (c, s + t)
                if c < best_zeros or (c == best_zeros and s > best_score):
                    best, best_zeros, best_score = x, c, s
            states[v] = best
    return improved, n_free
