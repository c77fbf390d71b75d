"""Fractional orientations of edge weights, the certificates of the forest polytope.

An orientation splits the weight of each edge over its two ends, the share *into* an end. Weights ``rho`` are a mixture
of forests if and only if for every vertex ``r`` some orientation gives every vertex at most 1 and ``r`` nothing: by
max-flow min-cut that says that the edges inside any vertex set ``S`` with ``r`` weigh at most ``|S| - 1``
[edmonds1970]. Once this has been seen for ``r``, all sets with ``r`` are done and the vertex can be deleted, which
frees capacity around it; so the flows stay short. A vertex whose edges weigh at most 1 needs no flow at all: if a set
with it were too heavy, the set without it would be too.

Edge ``e`` has two halves ``2e`` and ``2e + 1``, and ``h ^ 1`` is the other half of ``h``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Bools, Floats, Ints

__all__ = ["forest_orientation", "peel"]

TINY = 1e-14  # capacities below this are rounding; a million of them still stay within the tolerance of 1e-9


@twofold_kernel
def peel(
    scope_ptr: Ints,
    scope_vars: Ints,
    var_ptr: Ints,
    var_edges: Ints,
    edge_factor: Ints,
    rho: Floats,
    tolerance: float,
    parent: Floats,
    peeled: Bools,
) -> float:
    """Delete variables whose factors weigh at most 1, again and again; return the excess over 1 that was let pass.

    A factor counts at its variables as long as two of them are left, and hangs from the last one that is left:
    ``parent[e] = rho[f]`` there. If all variables go, this is an acyclic orientation that gives no variable more than
    1. What stays (``peeled`` False) is independent of the order.

    Shapes: ``rho (n_factors,)``, ``parent (n_edges,)`` zero at entry, ``peeled (n_vars,)`` False at entry.
    Cost: edges times arity.
    """
    n_vars, n_factors = var_ptr.size - 1, scope_ptr.size - 1
    left = np.empty(n_factors, np.int64)
    weight = np.zeros(n_vars)
    for f in range(n_factors):
        left[f] = scope_ptr[f + 1] - scope_ptr[f]
        if left[f] > 1:
            for e in range(scope_ptr[f], scope_ptr[f + 1]):
                weight[scope_vars[e]] += rho[f]
    gone = np.zeros(n_vars, np.bool_)  # peeled variables still wait in the queue until they are gone
    queue = np.empty(n_vars, np.int64)
    tail = 0
    for v in range(n_vars):
        if weight[v] <= 1.0 + tolerance:
            peeled[v] = True
            queue[tail] = v
            tail += 1
    head = 0
    excess = 0.0
    while head < tail:
        v = queue[head]
        head += 1
        gone[v] = True
        excess += max(0.0, weight[v] - 1.0)
        for i in range(var_ptr[v], var_ptr[v + 1]):
            f = edge_factor[var_edges[i]]
            left[f] -= 1
            if left[f] != 1:
                continue
            for e in range(scope_ptr[f], scope_ptr[f + 1]):
                u = scope_vars[e]
                if gone[u]:
                    continue
                parent[e] = rho[f]
                weight[u] -= rho[f]
                if not peeled[u] and weight[u] <= 1.0 + tolerance:
                    peeled[u] = True
                    queue[tail] = u
                    tail += 1
    return excess


class _Flow(NamedTuple):
    """Shares that move between the ends of edges, and working space of the search for paths."""

    half_ptr: Ints  # (n+1,) halves into each vertex
    halves: Ints  # (2 n_edges,)
    ends: Ints  # (2 n_edges,) vertex of each half
    share: Floats  # (2 n_edges,) weight of each half
    load: Floats  # (n,) shares into each vertex
    active: Bools  # (n,) vertices that have not been deleted
    level: Ints  # (n,) breadth-first number, -1: not reached
    cursor: Ints  # (n,) the next half to try
    queue: Ints  # (n,)
    path: Ints  # (n,) a stack of halves


@twofold_kernel
def _levels(flow: _Flow, source: int) -> tuple[int, bool]:
    """Number the vertices breadth first from ``source``, up to the first level with room; return how many, and if any.

    A step from ``v`` to ``u`` moves the share of an edge from ``v`` to ``u``. ``level`` is -1 where not reached.
    """
    half_ptr, level, queue = flow.half_ptr, flow.level, flow.queue
    level[source] = 0
    queue[0] = source
    head, tail = 0, 1
    last = -1
    while head < tail:
        v = queue[head]
        head += 1
        if level[v] == last:
            break
        for i in range(half_ptr[v], half_ptr[v + 1]):
            h = flow.halves[i]
            u = flow.ends[h ^ 1]
            if flow.share[h] > TINY and flow.active[u] and level[u] < 0:
                level[u] = level[v] + 1
                queue[tail] = u
                tail += 1
                if flow.load[u] < 1.0 - TINY:
                    last = level[u]
    return tail, last >= 0


@twofold_kernel
def _blocking_flow(flow: _Flow, source: int, amount: float) -> float:
    """Move shares down the levels to vertices with room until no such path is left; return what is left of ``amount``.

    ``cursor[v]`` is ``half_ptr[v]`` at entry.
    """
    half_ptr, ends, share, load = flow.half_ptr, flow.ends, flow.share, flow.load
    level, cursor, path = flow.level, flow.cursor, flow.path
    v, depth = source, 0
    while amount > TINY:
        if depth > 0 and load[v] < 1.0 - TINY:
            moved = min(amount, 1.0 - load[v])
            for d in range(depth):
                moved = min(moved, share[path[d]])
            for d in range(depth):
                share[path[d]] -= moved
                share[path[d] ^ 1] += moved
            load[v] += moved
            load[source] -= moved
            amount -= moved
            v, depth = source, 0
            continue
        forward = False
        while cursor[v] < half_ptr[v + 1]:
            h = flow.halves[cursor[v]]
            u = ends[h ^ 1]
            if share[h] > TINY and flow.active[u] and level[u] == level[v] + 1:
                path[depth] = h
                depth += 1
                v = u
                forward = True
                break
            cursor[v] += 1
        if not forward:
            if depth == 0:
                break
            depth -= 1
            v = ends[path[depth]]
            cursor[v] += 1
    return amount


@twofold_kernel
def _discharge(flow: _Flow, source: int, target: float) -> float:
    """Bring the load of ``source`` down to ``target`` [dinic1970]; return what could not be moved.

    Then ``level >= 0`` marks a set in which all have load 1 and no edge leads out; otherwise ``level`` is -1 again.
    """
    amount: float = flow.load[source] - target
    while amount > TINY:
        reached, room = _levels(flow, source)
        if not room:
            return amount
        for q in range(reached):
            flow.cursor[flow.queue[q]] = flow.half_ptr[flow.queue[q]]
        amount = _blocking_flow(flow, source, amount)
        for q in range(reached):
            flow.level[flow.queue[q]] = -1
    return 0.0


@twofold_kernel
def _lightest(weight: Floats, active: Bools) -> int:
    """Return the active vertex of least weight, -1 if none is active."""
    best = -1
    for v in range(weight.size):
        if active[v] and (best < 0 or weight[v] < weight[best]):
            best = v
    return best


@twofold_kernel
def forest_orientation(
    half_ptr: Ints, halves: Ints, ends: Ints, rho: Floats, tolerance: float, share: Floats, inside: Bools
) -> float:
    """Orient ``rho`` and test that it is a mixture of forests; return the largest excess of a set of vertices.

    If the excess is beyond ``tolerance``, ``inside`` marks a set ``S`` whose edges weigh that much more than
    ``|S| - 1``. If not, ``share`` gives no vertex more than 1 (within the tolerance): a mixture of rooted forests.

    Shapes: ``ends, share (2 n_edges,)``, ``half_ptr (n+1,)`` and ``halves (2 n_edges,)`` list the halves into each
    vertex, ``rho (n_edges,)``, ``inside (n,)``. Cost: a flow for each vertex, short ones as a rule (see above).
    """
    n = inside.size
    active = np.ones(n, np.bool_)
    load, weight = np.zeros(n), np.zeros(n)
    level, queue = np.full(n, -1, np.int64), np.empty(n, np.int64)
    cursor, path = np.empty(n, np.int64), np.empty(n, np.int64)
    moving = np.empty(share.size)
    for h in range(share.size):
        moving[h] = 0.5 * rho[h >> 1]
        load[ends[h]] += moving[h]
        weight[ends[h]] += rho[h >> 1]
    flow = _Flow(half_ptr, halves, ends, moving, load, active, level, cursor, queue, path)
    worst = 0.0
    for v in range(n):
        left = _discharge(flow, v, 1.0)
        if left > tolerance:
            for u in range(n):
                inside[u] = level[u] >= 0
            return 1.0 + left  # the set weighs more than its number of vertices
        worst = max(worst, left)
        if left > 0.0:
            level[:] = -1
    for h in range(share.size):
        share[h] = moving[h]
    for _ in range(n):
        r = _lightest(weight, active)
        if weight[r] > 1.0:
            left = _discharge(flow, r, 0.0)
            if left > tolerance:
                for u in range(n):
                    inside[u] = level[u] >= 0
                return left
            worst = max(worst, left)
            if left > 0.0:
                level[:] = -1
        active[r] = False
        for i in range(half_ptr[r], half_ptr[r + 1]):
            h = halves[i]
            if active[ends[h ^ 1]]:
                load[ends[h ^ 1]] -= moving[h ^ 1]
                weight[ends[h ^ 1]] -= rho[h >> 1]
    return worst
