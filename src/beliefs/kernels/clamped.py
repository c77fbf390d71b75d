"""Kernels of searches that hold most variables fixed: where the sliced tables lie, and which variables to free."""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.orders import Bits
from beliefs.kernels.orders_windows import draw
from beliefs.typing import Bools, Floats, Ints

__all__ = ["bounded_order", "clamped_cells", "grow_region"]

_FREE, _CLAMPED = 1, 2
_ONE = np.uint64(1)


@kernel
def clamped_cells(
    cells: Ints, table_ptr: Ints, shift_ptr: Ints, shift_var: Ints, shift_stride: Ints, states: Ints, out: Ints
) -> None:
    """Write the cell of ``theta`` that each cell of the sliced tables copies, the clamped variables at ``states``.

    Equivalent to ``out[f's cells] = cells[f's cells] + sum(shift_stride * states[shift_var])`` over the clamped
    variables of each factor. ``cells (n_cells,)`` are those for state 0 of all clamped variables, ``table_ptr
    (n_factors+1,)`` their offsets, ``shift_ptr (n_factors+1,)`` those of the clamped variables. Cost: n_cells.
    """
    for f in range(table_ptr.size - 1):
        shift = 0
        for i in range(shift_ptr[f], shift_ptr[f + 1]):
            shift += shift_stride[i] * states[shift_var[i]]
        for k in range(table_ptr[f], table_ptr[f + 1]):
            out[k] = cells[k] + shift


@kernel
def grow_region(
    ptr: Ints, adj: Ints, free: Bools, root: int, size: int, random: Bits, member: Bools, found: Ints
) -> int:
    """Collect about ``size`` variables marked ``free`` near ``root``, nearly breadth first; return their number.

    The walk passes through all other variables of the graph ``(ptr, adj)``. ``member (n_vars,)`` comes in False and
    goes out so; ``found (n_vars,)`` gets the region, free variables only. Cost: the neighbourhoods walked.
    """
    n = member.size
    queue = np.empty(n, np.int64)
    queue[0], member[root] = root, True
    head, tail, count = 0, 1, 0
    while head < tail and count < size:
        k = head + int(draw(random) * min(tail - head, 4))  # nearly breadth first: no two regions are alike
        v = queue[k]
        queue[k] = queue[head]
        queue[head] = v
        head += 1
        if free[v]:
            found[count] = v
            count += 1
        for e in range(ptr[v], ptr[v + 1]):
            if not member[adj[e]]:
                member[adj[e]] = True
                queue[tail] = adj[e]
                tail += 1
    for k in range(tail):
        member[queue[k]] = False
    return count


@kernel
def _clique(rows: Bits, i: int, n_words: int, bits: Floats, list_out: Ints) -> tuple[int, float]:
    """List the neighbours of ``i``, and return their number and the sum of their ``bits``."""
    count, total = 0, 0.0
    for w in range(n_words):
        word = rows[i * n_words + w]
        while word != np.uint64(0):
            low = word & (~word + _ONE)
            j = 64 * w + int(math.log2(float(low)))
            list_out[count] = j
            total += bits[j]
            count += 1
            word ^= low
    return count, total


@kernel
def _forget(rows: Bits, i: int, j: int, n_words: int) -> None:
    """Remove ``j`` from the neighbours of ``i``."""
    rows[i * n_words + j // 64] &= ~(_ONE << np.uint64(j % 64))


@kernel
def bounded_order(
    ptr: Ints, adj: Ints, bits: Floats, members: Ints, summed: Bools, rank: Ints, local: Ints, limit: float,
    budget: float, random: Bits, order: Ints, clamped: Bools,
) -> tuple[int, float, float]:  # fmt: skip
    """Choose which variables to clamp so that the others can be eliminated cheaply, and their order.

    Greedy elimination by the smallest clique, ties at random, sum variables (``summed``) before all others; these in
    the order of their ``rank (n_members,)`` where it is not negative. Where the next clique has more than ``2**limit``
    cells, the variable of most neighbours in it that is not summed is clamped instead; beyond ``budget`` cells in all,
    every one that is left. Cliques of sum variables alone are never
    cut, whatever they cost. ``ptr, adj`` is the interaction graph, ``bits (n_vars,)`` the logs to base 2 of the
    cardinalities, ``members`` the variables that may be free; ``local (n_vars,)`` is scratch of -1. Writes
    ``order`` (positions in ``members``, first eliminated first) and ``clamped (n_members,)``; returns the number of
    free variables, the log of the largest clique, and all cells. Cost: n_members^2 / 64 times the width.
    """
    n = members.size
    n_words = (n + 63) // 64
    rows = np.zeros(n * n_words, np.uint64)
    own, weight, noise = np.empty(n), np.empty(n), np.empty(n)
    state, near, around = np.zeros(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    n_sums = 0
    for i in range(n):
        local[members[i]] = i
        own[i] = bits[members[i]]
        noise[i] = draw(random)
        n_sums += summed[i]
    for i in range(n):
        weight[i] = own[i]
        for e in range(ptr[members[i]], ptr[members[i] + 1]):
            j = local[adj[e]]
            if j >= 0:
                rows[i * n_words + j // 64] |= _ONE << np.uint64(j % 64)
                weight[i] += own[j]
    for i in range(n):
        local[members[i]] = -1
    alive = np.arange(n)
    n_alive, done, largest, cells = n, 0, 0.0, 0.0
    while n_alive > 0:
        best, at, least = -1, -1, 0.0
        for k in range(n_alive):
            i = alive[k]
            if n_sums > 0 and not summed[i]:
                continue
            key = weight[i] if rank[i] < 0 else float(rank[i])
            if best < 0 or key < least or (key == least and noise[i] < noise[best]):
                best, at, least = i, k, key
        degree, _ = _clique(rows, best, n_words, own, near)
        gone = best
        if weight[best] > limit or cells > budget:  # too wide: clamp the variable that joins most
            gone, top = -1, -1.0
            for k in range(degree + 1):
                j = best if k == degree else near[k]
                if not summed[j] and weight[j] + 2.0 * noise[j] > top:
                    gone, top = j, weight[j] + 2.0 * noise[j]
            if gone < 0:
                gone = best
            else:
                state[gone] = _CLAMPED
                for k in range(n_alive):
                    if alive[k] == gone:
                        at = k
                degree, _ = _clique(rows, gone, n_words, own, near)
                for k in range(degree):
                    _forget(rows, near[k], gone, n_words)
                    weight[near[k]] -= own[gone]
        if state[gone] != _CLAMPED:
            state[gone] = _FREE
            order[done] = gone
            done += 1
            n_sums -= summed[gone]
            largest = max(largest, weight[gone])
            cells += 2.0 ** min(weight[gone], 1000.0)
            for k in range(degree):
                j = near[k]
                for w in range(n_words):
                    rows[j * n_words + w] |= rows[gone * n_words + w]
                _forget(rows, j, j, n_words)
                _forget(rows, j, gone, n_words)
                _, total = _clique(rows, j, n_words, own, around)
                weight[j] = own[j] + total
        n_alive -= 1
        alive[at] = alive[n_alive]
    for i in range(n):
        clamped[i] = state[i] == _CLAMPED
    return done, largest, cells
