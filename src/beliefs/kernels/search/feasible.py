"""Kernels of the search for a state of positive weight: arc consistency and backtracking.

A *value* is one state of one variable, by its place in ``mu_var``. Values that some factor no longer allows are removed
from the :class:`Domains`, which keep a trail of what was removed. ``support (n_messages,)`` keeps, for each value at
each edge, the last cell of the factor that was found to allow it; ``weight (n_vars,)`` counts the failures at each
variable's factors.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import kernel, twofold_kernel
from beliefs.kernels.layout import Adjacency, Scopes
from beliefs.kernels.primitives.heap import Heap, pop, put, sift
from beliefs.kernels.primitives.xorshift import draw
from beliefs.typing import Bits, Bools, Floats, Ints

__all__ = ["FOUND", "PROVED", "SPENT", "HardTables", "find_feasible"]

FOUND, PROVED, SPENT = 0, 1, 2
_TRUST = 3.0  # a certain variable counts as much as one with so many times more failures
_WHIM = 0.005  # share of values drawn in spite of the scores, so that no two runs are alike
_FIRST_RUN = 100  # failures before the first restart; each later run may fail half as often again


class HardTables(NamedTuple):
    """The factors' tables, and which of them exclude anything."""

    theta: Floats  # (n_cells,)
    hard: Bools  # (n_factors,) which have a cell of -inf
    stride: Ints  # (n_edges,) step in the table for one state more
    message_ptr: Ints  # (n_edges+1,) where the values of each edge begin


class Cells(NamedTuple):
    """What the cells of tables mean: no more than the innermost search reads, which is called for every value."""

    card: Ints
    state_ptr: Ints
    scope_vars: Ints
    stride: Ints
    theta: Floats


class Domains(NamedTuple):
    """The values that are still possible, and the trail by which removals are undone."""

    alive: Bools  # (n_states,)
    n_alive: Ints  # (n_vars,) how many of each variable's values are alive
    trail: Ints  # (n_states,) values removed, in order
    trail_var: Ints  # (n_states,) their variables
    n_trail: Ints  # (1,)


class Queue(NamedTuple):
    """Factors to be made consistent: a circular queue."""

    factors: Ints  # (n_factors,)
    queued: Bools  # (n_factors,)
    ends: Ints  # (2,) head and length


# -- generalised arc consistency -------------------------------------------------------------------------------------
@twofold_kernel
def _seek(
    cells: Cells, alive: Bools, begin: int, end: int, first: int, fixed: int, x: int, digit: Ints, effort: Ints
) -> int:
    """Return the first cell of positive weight whose values are alive, ``x`` at edge ``fixed``; -1 if there is none.

    The factor has the edges ``begin..end``, and its table begins at ``first``.
    """
    card, state_ptr, scope_vars, stride, theta = cells
    cell = x * stride[fixed]
    for e in range(begin, end):
        if e != fixed:
            v = scope_vars[e]
            digit[e - begin] = 0
            while not alive[state_ptr[v] + digit[e - begin]]:
                digit[e - begin] += 1
            cell += digit[e - begin] * stride[e]
    while True:
        effort[0] -= 1
        if theta[first + cell] > -np.inf:
            return int(cell)
        e = end - 1
        while e >= begin:
            if e != fixed:
                v = scope_vars[e]
                d = digit[e - begin] + 1
                while d < card[v] and not alive[state_ptr[v] + d]:
                    d += 1
                if d < card[v]:
                    cell += (d - digit[e - begin]) * stride[e]
                    digit[e - begin] = d
                    break
                d = 0
                while not alive[state_ptr[v] + d]:
                    d += 1
                cell += (d - digit[e - begin]) * stride[e]
                digit[e - begin] = d
            e -= 1
        if e < begin:
            return -1


@twofold_kernel
def _remove(v: int, value: int, domains: Domains, heap: Heap, weight: Floats) -> None:
    """Remove a value of ``v`` and note it on the trail."""
    alive, n_alive, trail, trail_var, n_trail = domains
    alive[value] = False
    n_alive[v] -= 1
    trail[n_trail[0]] = value
    trail_var[n_trail[0]] = v
    n_trail[0] += 1
    heap.key[v] = n_alive[v] / weight[v]
    if heap.place[v] >= 0:
        sift(heap, heap.place[v])


@twofold_kernel
def _undo(mark: int, domains: Domains, heap: Heap, weight: Floats) -> None:
    """Bring back all values removed since the trail had ``mark`` entries."""
    alive, n_alive, trail, trail_var, n_trail = domains
    while n_trail[0] > mark:
        n_trail[0] -= 1
        v = trail_var[n_trail[0]]
        alive[trail[n_trail[0]]] = True
        n_alive[v] += 1
        heap.key[v] = n_alive[v] / weight[v]
        put(heap, v)


@twofold_kernel
def _enqueue(v: int, but: int, adjacency: Adjacency, hard: Bools, queue: Queue) -> None:
    """Queue the hard factors of ``v``, except ``but``."""
    var_ptr, var_edges, edge_factor = adjacency
    factors, queued, ends = queue
    for i in range(var_ptr[v], var_ptr[v + 1]):
        f = edge_factor[var_edges[i]]
        if hard[f] and f != but and not queued[f]:
            queued[f] = True
            factors[(ends[0] + ends[1]) % factors.size] = f
            ends[1] += 1


@twofold_kernel
def _propagate(
    scopes: Scopes, adjacency: Adjacency, tables: HardTables, support: Ints, domains: Domains, heap: Heap,
    weight: Floats, queue: Queue, digit: Ints, effort: Ints,
) -> int:  # fmt: skip
    """Remove all values that a queued factor does not support; return the factor that has none left, or -1.

    The queue is empty afterwards.
    """
    card, state_ptr, scope_vars = scopes.card, scopes.state_ptr, scopes.scope_vars
    stride, message_ptr = tables.stride, tables.message_ptr
    cells = Cells(card, state_ptr, scope_vars, stride, tables.theta)
    alive, n_alive = domains.alive, domains.n_alive
    factors, queued, ends = queue
    failed = -1
    while ends[1] > 0:
        f = factors[ends[0]]
        queued[f] = False
        ends[0] = (ends[0] + 1) % factors.size
        ends[1] -= 1
        if failed >= 0:
            continue
        begin, end = scopes.scope_ptr[f], scopes.scope_ptr[f + 1]
        for e in range(begin, end):
            v = scope_vars[e]
            before = n_alive[v]
            for x in range(card[v]):
                if not alive[state_ptr[v] + x]:
                    continue
                effort[0] -= 1
                known = support[message_ptr[e] + x]
                supported = known >= 0
                if supported:
                    for d in range(begin, end):
                        u = scope_vars[d]
                        if not alive[state_ptr[u] + known // stride[d] % card[u]]:
                            supported = False
                            break
                if supported:
                    continue
                cell = _seek(cells, alive, begin, end, scopes.cell_ptr[f], e, x, digit, effort)
                if cell >= 0:
                    for d in range(begin, end):
                        support[message_ptr[d] + cell // stride[d] % card[scope_vars[d]]] = cell
                else:
                    _remove(v, state_ptr[v] + x, domains, heap, weight)
            if n_alive[v] == 0:
                failed = f
                break
            if n_alive[v] < before:
                _enqueue(v, f, adjacency, tables.hard, queue)
    return failed


@twofold_kernel
def _confidence(score: Floats) -> float:
    """Return how far the largest score is ahead of the next, between 0 and 1."""
    first, second = -np.inf, -np.inf
    for x in range(score.size):
        if score[x] > first:
            first, second = score[x], first
        else:
            second = max(second, score[x])
    return 1.0 - math.exp(second - first) if second > -np.inf else 1.0


# -- backtracking ----------------------------------------------------------------------------------------------------
@twofold_kernel
def _choose(v: int, state_ptr: Ints, domains: Domains, score: Floats, random: Bits) -> int:
    """Return which of the values of ``v`` that are alive to take: that of largest score, or any."""
    alive = domains.alive
    pick = int(draw(random) * domains.n_alive[v])
    if score.size == 0 or draw(random) < _WHIM:
        return pick
    count, top = 0, -np.inf
    for value in range(state_ptr[v], state_ptr[v + 1]):
        if alive[value]:
            if score[value] > top:
                top, pick = score[value], count
            count += 1
    return pick


@kernel
def _fresh_domains(card: Ints, n_states: int) -> Domains:
    """Return the domains in which every value is alive."""
    trail, trail_var = np.empty(n_states, np.int64), np.empty(n_states, np.int64)
    return Domains(np.ones(n_states, np.bool_), card.copy(), trail, trail_var, np.zeros(1, np.int64))


@kernel
def find_feasible(
    scopes: Scopes, adjacency: Adjacency, tables: HardTables, effort: Ints, stop: Ints, random: Bits, score: Floats,
    states: Ints,
) -> int:  # fmt: skip
    """Search for states without a cell of ``-inf``; return FOUND, PROVED (there are none) or SPENT (effort used up).

    Depth-first search that keeps every hard factor arc consistent. The next variable has the fewest values left for
    the number of failures at its factors, its value is drawn at random; restarts keep these numbers. With ``score
    (n_states,)``, empty otherwise, confident variables come sooner and the value of largest score is tried first, and
    drawn only now and then. ``effort (1,)`` is the cells that may be read; ``stop (1,)`` ends the search, as spent,
    when it is not 0; ``random (1,)`` the generator. Writes ``states (n_vars,)`` where FOUND, but only those with -1.
    Scratch: five integers a value, a few a variable. Cost of a propagation without removals: values times arity.
    """
    card, state_ptr, scope_ptr, scope_vars = scopes.card, scopes.state_ptr, scopes.scope_ptr, scopes.scope_vars
    hard, n_vars, n_factors = tables.hard, card.size, scopes.cell_ptr.size
    widest = 1
    weight = np.zeros(n_vars)
    for f in range(n_factors):
        widest = max(widest, scope_ptr[f + 1] - scope_ptr[f])
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            if hard[f]:
                weight[scope_vars[e]] += 1.0
    support = np.full(tables.message_ptr[-1], -1, np.int64)
    domains = _fresh_domains(card, state_ptr[-1])
    alive = domains.alive
    size = np.zeros(1, np.int64)
    heap = Heap(np.empty(n_vars, np.int64), np.full(n_vars, -1, np.int64), np.zeros(n_vars), size)
    queue = Queue(np.empty(max(1, n_factors), np.int64), np.zeros(n_factors, np.bool_), np.zeros(2, np.int64))
    digit = np.empty(widest, np.int64)
    decided, chosen, marks = np.empty(n_vars, np.int64), np.empty(n_vars, np.int64), np.empty(n_vars, np.int64)
    for v in range(n_vars):
        if weight[v] > 0:
            if score.size > 0:
                weight[v] *= 1.0 + _TRUST * _confidence(score[state_ptr[v] : state_ptr[v + 1]])
            heap.key[v] = card[v] / weight[v]
            put(heap, v)
            _enqueue(v, -1, adjacency, hard, queue)
    depth, failures, allowed = 0, 0, _FIRST_RUN
    while True:
        failed = _propagate(scopes, adjacency, tables, support, domains, heap, weight, queue, digit, effort)
        if failed >= 0:
            if depth == 0:
                return PROVED
            for e in range(scope_ptr[failed], scope_ptr[failed + 1]):
                weight[scope_vars[e]] += 1.0
            failures += 1
            depth -= 1
            if failures > allowed:  # start again; what was learned stays in the weights
                failures, allowed = 0, allowed + allowed // 2
                _undo(marks[0], domains, heap, weight)
                depth = 0
            else:
                _undo(marks[depth], domains, heap, weight)
                v, value = decided[depth], chosen[depth]
                _remove(v, value, domains, heap, weight)
                _enqueue(v, -1, adjacency, hard, queue)
                continue
        if effort[0] < 0 or stop[0] != 0:
            return SPENT
        v = -1
        while size[0] > 0 and v < 0:
            v = pop(heap)
            if domains.n_alive[v] == 1:
                v = -1
        if v < 0:
            break
        pick = _choose(v, state_ptr, domains, score, random)
        decided[depth], marks[depth] = v, domains.n_trail[0]
        for value in range(state_ptr[v], state_ptr[v + 1]):
            if alive[value]:
                if pick == 0:
                    chosen[depth] = value
                else:
                    _remove(v, value, domains, heap, weight)
                pick -= 1
        depth += 1
        _enqueue(v, -1, adjacency, hard, queue)
    for v in range(n_vars):
        if states[v] < 0:
            pick = _choose(v, state_ptr, domains, score, random)
            for value in range(state_ptr[v], state_ptr[v + 1]):
                if alive[value]:
                    if pick == 0:
                        states[v] = value - state_ptr[v]
                    pick -= 1
    return FOUND
