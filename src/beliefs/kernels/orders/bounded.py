"""Which variables of a region to clamp, so that the others can be eliminated within a budget, and their order."""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.orders.greedy import ONE, ZERO, lowest
from beliefs.kernels.primitives.heap import pop, put
from beliefs.kernels.primitives.random import Bits, draw
from beliefs.typing import Bools, Floats, Ints

__all__ = ["bounded_order"]

_UNEVEN = 8.0  # the largest cliques are about so many times larger than the average one


@twofold_kernel
def _neighbours(rows: Bits, i: int, near: Ints) -> int:
    """List the neighbours of ``i`` in ``near``, and return their number."""
    count = 0
    for w in range(rows.shape[1]):
        word = rows[i, w]
        while word != ZERO:
            near[count] = 64 * w + lowest(word)
            count += 1
            word &= word - ONE
    return count


@twofold_kernel
def _region_rows(ptr: Ints, adj: Ints, members: Ints, local: Ints, own: Floats, rows: Bits, weight: Floats) -> None:
    """Write the interaction graph of the members as bit rows, and the ``weight`` of each with its neighbours.

    ``local (n_vars,)`` is scratch of -1, and left so.
    """
    for i in range(members.size):
        local[members[i]] = i
    for i in range(members.size):
        weight[i] = own[i]
        for e in range(ptr[members[i]], ptr[members[i] + 1]):
            j = local[adj[e]]
            if j >= 0:
                rows[i, j >> 6] |= ONE << np.uint64(j & 63)
                weight[i] += own[j]
    for i in range(members.size):
        local[members[i]] = -1


@twofold_kernel
def _join(rows: Bits, i: int, near: Ints, degree: int, own: Floats, weight: Floats) -> None:
    """Take ``i`` out of the graph and make its neighbours neighbours of each other."""
    for k in range(degree):
        j = near[k]
        for w in range(rows.shape[1]):
            new = rows[i, w] & ~rows[j, w]
            rows[j, w] |= new
            while new != ZERO:
                weight[j] += own[64 * w + lowest(new)]
                new &= new - ONE
        weight[j] -= own[i] + own[j]  # itself was new, and i goes
        rows[j, j >> 6] &= ~(ONE << np.uint64(j & 63))
        rows[j, i >> 6] &= ~(ONE << np.uint64(i & 63))


@twofold_kernel
def _cut(rows: Bits, i: int, near: Ints, degree: int, own: Floats, weight: Floats) -> None:
    """Take ``i`` out of the graph."""
    for k in range(degree):
        rows[near[k], i >> 6] &= ~(ONE << np.uint64(i & 63))
        weight[near[k]] -= own[i]


@twofold_kernel
def _joiner(i: int, near: Ints, degree: int, summed: Bools, weight: Floats, noise: Floats) -> int:
    """Return the variable among ``i`` and its neighbours that joins most and is not summed; -1 if all are."""
    chosen, top = -1, -1.0
    for k in range(degree + 1):
        j = i if k == degree else near[k]
        if not summed[j] and weight[j] + 2.0 * noise[j] > top:  # two bits of chance: no two cutsets are alike
            chosen, top = j, weight[j] + 2.0 * noise[j]
    return chosen


@twofold_kernel
def _room(i: int, near: Ints, degree: int, summed: Bools, own: Floats, extra: float, share: float) -> float:
    """Return the bits that the clique of ``i`` may have: those of its ``share``, or ``extra`` beyond its sums alone."""
    needed = own[i] if summed[i] else 0.0
    for k in range(degree):
        if summed[near[k]]:
            needed += own[near[k]]
    return max(needed + extra, math.log2(share)) if summed[i] else math.log2(share)


@twofold_kernel(cost=20.0)
def bounded_order(
    ptr: Ints, adj: Ints, bits: Floats, members: Ints, summed: Bools, rank: Ints, local: Ints, extra: float,
    budget: float, random: Bits, order: Ints, clamped: Bools,
) -> tuple[int, float, float]:  # fmt: skip
    """Choose which variables to clamp so that the others can be eliminated cheaply, and their order.

    Greedy elimination by the smallest clique, ties at random, sum variables (``summed``) before all others; these in
    the order of their ``rank (n_members,)`` where it is not negative. Where the next clique is larger than its share
    of what is left of the ``budget`` (cells of all cliques), the variable of most neighbours in it that is not summed
    is clamped instead. A sum variable may always have a clique of ``extra`` bits beyond that of its sums alone, which
    are never cut. ``ptr, adj`` is the interaction graph, ``bits (n_vars,)`` the logs to base 2 of the cardinalities,
    ``members`` the variables that may be free; ``local (n_vars,)`` is scratch of -1. Writes ``order`` (positions in
    ``members``, first eliminated first) and ``clamped (n_members,)``, which comes in False; returns the number of free
    variables, the log of the largest clique, and all cells. Cost: members times width times (members / 64 + width).
    """
    n = members.size
    rows = np.zeros((n, (n + 63) // 64), np.uint64)
    own, weight, noise, key = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    near, heap, place = np.empty(n, np.int64), np.empty(n, np.int64), np.full(n, -1, np.int64)
    size = np.zeros(1, np.int64)
    for i in range(n):
        own[i], noise[i] = bits[members[i]], draw(random)
    _region_rows(ptr, adj, members, local, own, rows, weight)
    done, left, largest, cells = 0, n, 0.0, 0.0
    for maximise in range(2):
        for i in range(n):
            if summed[i] != (maximise == 1) and not clamped[i]:
                key[i] = weight[i] + 1e-6 * noise[i] if rank[i] < 0 else float(rank[i])
                put(heap, place, key, size, i)
        while size[0] > 0:
            i = heap[0]
            degree = _neighbours(rows, i, near)
            share = max(_UNEVEN * (budget - cells) / left, 2.0)
            if weight[i] > _room(i, near, degree, summed, own, extra, share):
                j = _joiner(i, near, degree, summed, weight, noise)
                if j >= 0:
                    i = j
                    clamped[i] = True
                    degree = _neighbours(rows, i, near)
            left -= 1
            if clamped[i]:
                _cut(rows, i, near, degree, own, weight)
            else:
                order[done] = i
                done += 1
                largest = max(largest, weight[i])
                cells += 2.0 ** min(weight[i], 1000.0)
                _join(rows, i, near, degree, own, weight)
            if place[i] >= 0:
                key[i] = -1.0
                put(heap, place, key, size, i)
                pop(heap, place, key, size)
            for k in range(degree):
                j = near[k]
                if place[j] >= 0 and rank[j] < 0:
                    key[j] = weight[j] + 1e-6 * noise[j]
                    put(heap, place, key, size, j)
    return done, largest, cells
