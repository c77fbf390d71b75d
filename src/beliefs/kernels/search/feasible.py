"""Kernels of the search for a state of positive weight: arc consistency and backtracking.

A *value* is one state of one variable, by its place in ``mu_var``. ``alive (n_states,)`` says which are still possible,
``n_alive (n_vars,)`` counts them, ``trail`` lists those removed, in order, so that removals can be undone.
``support (n_messages,)`` keeps, for each value at each edge, the last cell of the factor that was found to allow it.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import kernel, twofold_kernel
from beliefs.kernels.primitives.heap import pop, put, sift
from beliefs.kernels.primitives.random import Bits, draw
from beliefs.typing import Bools, Floats, Ints

__all__ = ["FOUND", "PROVED", "SPENT", "find_feasible"]

FOUND, PROVED, SPENT = 0, 1, 2
_TRUST = 3.0  # a certain variable counts as much as one with so many times more failures
_WHIM = 0.005  # share of values drawn in spite of the scores, so that no two runs are alike
_FIRST_RUN = 100  # failures before the first restart; each later run may fail half as often again


# -- generalised arc consistency -------------------------------------------------------------------------------------
@twofold_kernel
def _is_alive(
    card: Ints, state_ptr: Ints, scope_vars: Ints, stride: Ints, alive: Bools, begin: int, end: int, cell: int
) -> bool:
    """Whether all values that meet in ``cell`` of the factor with edges ``begin..end`` are alive."""
    for e in range(begin, end):
        v = scope_vars[e]
        if not alive[state_ptr[v] + cell // stride[e] % card[v]]:
            return False
    return True


@twofold_kernel
def _seek(
    card: Ints, state_ptr: Ints, scope_vars: Ints, stride: Ints, alive: Bools, table: Floats, begin: int, end: int,
    fixed: int, x: int, digit: Ints, effort: Ints,
) -> int:  # fmt: skip
    """Return the first cell of positive weight whose values are alive, ``x`` at edge ``fixed``; -1 if there is none."""
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
        if table[cell] > -np.inf:
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
def _remove(
    v: int, value: int, alive: Bools, n_alive: Ints, trail: Ints, trail_var: Ints, n_trail: Ints, heap: Ints,
    place: Ints, key: Floats, size: Ints, weight: Floats,
) -> None:  # fmt: skip
    """Remove a value of ``v`` and note it on the trail."""
    alive[value] = False
    n_alive[v] -= 1
    trail[n_trail[0]] = value
    trail_var[n_trail[0]] = v
    n_trail[0] += 1
    key[v] = n_alive[v] / weight[v]
    if place[v] >= 0:
        sift(heap, place, key, size[0], place[v])


@twofold_kernel
def _undo(
    mark: int, alive: Bools, n_alive: Ints, trail: Ints, trail_var: Ints, n_trail: Ints, heap: Ints, place: Ints,
    key: Floats, size: Ints, weight: Floats,
) -> None:  # fmt: skip
    """Bring back all values removed since the trail had ``mark`` entries."""
    while n_trail[0] > mark:
        n_trail[0] -= 1
        v = trail_var[n_trail[0]]
        alive[trail[n_trail[0]]] = True
        n_alive[v] += 1
        key[v] = n_alive[v] / weight[v]
        put(heap, place, key, size, v)


@twofold_kernel
def _enqueue(
    v: int, but: int, var_ptr: Ints, var_edges: Ints, edge_factor: Ints, hard: Bools, queue: Ints, queued: Bools,
    ends: Ints,
) -> None:  # fmt: skip
    """Queue the hard factors of ``v``, except ``but``; ``ends (2,)`` is head and length of a circular queue."""
    for i in range(var_ptr[v], var_ptr[v + 1]):
        f = edge_factor[var_edges[i]]
        if hard[f] and f != but and not queued[f]:
            queued[f] = True
            queue[(ends[0] + ends[1]) % queue.size] = f
            ends[1] += 1


@twofold_kernel
def _propagate(
    card: Ints, state_ptr: Ints, scope_ptr: Ints, scope_vars: Ints, cell_ptr: Ints, var_ptr: Ints, var_edges: Ints,
    edge_factor: Ints, theta: Floats, hard: Bools, stride: Ints, msg_ptr: Ints, support: Ints, alive: Bools,
    n_alive: Ints, trail: Ints, trail_var: Ints, n_trail: Ints, heap: Ints, place: Ints, key: Floats, size: Ints,
    weight: Floats, queue: Ints, queued: Bools, ends: Ints, digit: Ints, effort: Ints,
) -> int:  # fmt: skip
    """Remove all values that a queued factor does not support; return the factor that has none left, or -1.

    The queue is empty afterwards.
    """
    failed = -1
    while ends[1] > 0:
        f = queue[ends[0]]
        queued[f] = False
        ends[0] = (ends[0] + 1) % queue.size
        ends[1] -= 1
        if failed >= 0:
            continue
        begin, end = scope_ptr[f], scope_ptr[f + 1]
        table = theta[cell_ptr[f] :]
        for e in range(begin, end):
            v = scope_vars[e]
            before = n_alive[v]
            for x in range(card[v]):
                if not alive[state_ptr[v] + x]:
                    continue
                effort[0] -= 1
                known = support[msg_ptr[e] + x]
                if known >= 0 and _is_alive(card, state_ptr, scope_vars, stride, alive, begin, end, known):
                    continue
                cell = _seek(card, state_ptr, scope_vars, stride, alive, table, begin, end, e, x, digit, effort)
                if cell >= 0:
                    for d in range(begin, end):
                        support[msg_ptr[d] + cell // stride[d] % card[scope_vars[d]]] = cell
                else:
                    _remove(
                        v, state_ptr[v] + x, alive, n_alive, trail, trail_var, n_trail, heap, place, key, size, weight
                    )
            if n_alive[v] == 0:
                failed = f
                break
            if n_alive[v] < before:
                _enqueue(v, f, var_ptr, var_edges, edge_factor, hard, queue, queued, ends)
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


@twofold_kernel
def _choose(v: int, state_ptr: Ints, alive: Bools, n_alive: Ints, score: Floats, random: Bits) -> int:
    """Return which of the values of ``v`` that are alive to take: that of largest score, or any."""
    pick = int(draw(random) * n_alive[v])
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
def find_feasible(
    card: Ints, state_ptr: Ints, scope_ptr: Ints, scope_vars: Ints, cell_ptr: Ints, var_ptr: Ints, var_edges: Ints,
    edge_factor: Ints, theta: Floats, hard: Bools, stride: Ints, msg_ptr: Ints, effort: Ints, stop: Ints,
    random: Bits, score: Floats, states: Ints,
) -> int:  # fmt: skip
    """Search for states without a cell of ``-inf``; return FOUND, PROVED (there are none) or SPENT (effort used up).

    Depth-first search that keeps every hard factor arc consistent. The next variable has the fewest values left for
    the number of failures at its factors, its value is drawn at random; restarts keep these numbers. With ``score
    (n_states,)``, empty otherwise, confident variables come sooner and the value of largest score is tried first, and
    drawn only now and then. ``hard
    (n_factors,)`` marks the factors with a cell of ``-inf``; ``stride (n_edges,)`` is the step in the table for one
    state more; ``msg_ptr (n_edges,)`` the offset of each edge's values; ``effort (1,)`` the cells that may be read;
    ``stop (1,)`` ends the search, as spent, when it is not 0; ``random (1,)`` the generator. Writes
    ``states (n_vars,)`` where FOUND, but only those with -1. Scratch: five integers a value, a few a variable. Cost of
    a propagation without removals: values times arity.
    """
    n_vars, n_states = card.size, state_ptr[-1]
    widest, n_messages = 1, 0
    weight = np.zeros(n_vars)
    for f in range(cell_ptr.size):
        widest = max(widest, scope_ptr[f + 1] - scope_ptr[f])
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            n_messages = max(n_messages, msg_ptr[e] + card[scope_vars[e]])
            if hard[f]:
                weight[scope_vars[e]] += 1.0
    support = np.full(n_messages, -1, np.int64)
    alive = np.ones(n_states, np.bool_)
    n_alive = card.copy()
    trail, trail_var, n_trail = np.empty(n_states, np.int64), np.empty(n_states, np.int64), np.zeros(1, np.int64)
    heap, place, size = np.empty(n_vars, np.int64), np.full(n_vars, -1, np.int64), np.zeros(1, np.int64)
    key = np.zeros(n_vars)
    queue, queued = np.empty(max(1, cell_ptr.size), np.int64), np.zeros(cell_ptr.size, np.bool_)
    ends, digit = np.zeros(2, np.int64), np.empty(widest, np.int64)
    decided, chosen, marks = np.empty(n_vars, np.int64), np.empty(n_vars, np.int64), np.empty(n_vars, np.int64)
    for v in range(n_vars):
        if weight[v] > 0:
            if score.size > 0:
                weight[v] *= 1.0 + _TRUST * _confidence(score[state_ptr[v] : state_ptr[v + 1]])
            key[v] = card[v] / weight[v]
            put(heap, place, key, size, v)
            _enqueue(v, -1, var_ptr, var_edges, edge_factor, hard, queue, queued, ends)
    depth, failures, allowed = 0, 0, _FIRST_RUN
    while True:
        failed = _propagate(
            card, state_ptr, scope_ptr, scope_vars, cell_ptr, var_ptr, var_edges, edge_factor, theta, hard, stride,
            msg_ptr, support, alive, n_alive, trail, trail_var, n_trail, heap, place, key, size, weight, queue, queued,
            ends, digit, effort,
        )  # fmt: skip
        if failed >= 0:
            if depth == 0:
                return PROVED
            for e in range(scope_ptr[failed], scope_ptr[failed + 1]):
                weight[scope_vars[e]] += 1.0
            failures += 1
            depth -= 1
            if failures > allowed:  # start again; what was learned stays in the weights
                failures, allowed = 0, allowed + allowed // 2
                _undo(marks[0], alive, n_alive, trail, trail_var, n_trail, heap, place, key, size, weight)
                depth = 0
            else:
                _undo(marks[depth], alive, n_alive, trail, trail_var, n_trail, heap, place, key, size, weight)
                v, value = decided[depth], chosen[depth]
                _remove(v, value, alive, n_alive, trail, trail_var, n_trail, heap, place, key, size, weight)
                _enqueue(v, -1, var_ptr, var_edges, edge_factor, hard, queue, queued, ends)
                continue
        if effort[0] < 0 or stop[0] != 0:
            return SPENT
        v = -1
        while size[0] > 0 and v < 0:
            v = pop(heap, place, key, size)
            if n_alive[v] == 1:
                v = -1
        if v < 0:
            break
        pick = _choose(v, state_ptr, alive, n_alive, score, random)
        decided[depth], marks[depth] = v, n_trail[0]
        for value in range(state_ptr[v], state_ptr[v + 1]):
            if alive[value]:
                if pick == 0:
                    chosen[depth] = value
                else:
                    _remove(v, value, alive, n_alive, trail, trail_var, n_trail, heap, place, key, size, weight)
                pick -= 1
        depth += 1
        _enqueue(v, -1, var_ptr, var_edges, edge_factor, hard, queue, queued, ends)
    for v in range(n_vars):
        if states[v] < 0:
            pick = _choose(v, state_ptr, alive, n_alive, score, random)
            for value in range(state_ptr[v], state_ptr[v + 1]):
                if alive[value]:
                    if pick == 0:
                        states[v] = value - state_ptr[v]
                    pick -= 1
    return FOUND
