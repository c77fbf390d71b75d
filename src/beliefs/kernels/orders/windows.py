"""Improve an elimination order by making every short window of it optimal.

The graph left after eliminating a set of vertices does not depend on their order. So the vertices of a window can be
permuted freely, and the best permutation is a shortest path over subsets,

.. math:: cost(S) = \\min_{v \\in S} cost(S \\setminus v) + cells(v \\mid S \\setminus v),

where :math:`cells(v \\mid T)` is the table made by eliminating v after T. Windows are cut from a postorder of the
elimination tree, which leaves all cliques as they are and brings together vertices that interact; another postorder
cuts other windows. The cost never rises.
"""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.orders.greedy import ONE, ZERO, bit_rows, lowest
from beliefs.kernels.orders.symbolic import elimination_tree, postorder
from beliefs.kernels.primitives.random import Bits, draw, shuffle
from beliefs.typing import Floats, Ints

__all__ = ["refine_order"]

WINDOW = 7  # vertices; 6 to 9 do about as well for the same effort
IDLE = 8  # passes without a gain before the refinement ends
NEGLIGIBLE = 0.01  # windows with a smaller share of the cells are left alone


@twofold_kernel
def _local_masks(rows: Bits, card: Floats, window: Ints, label: Ints, names: Ints, mask: Bits, cells: Floats) -> bool:
    """Write the neighbourhoods of the window's vertices as masks over local labels; False if 64 are not enough."""
    k = window.shape[0]
    count, fits = k, True
    for i in range(k):
        names[i], label[window[i]] = window[i], i
    for i in range(k):
        v = names[i]
        bits, product = ZERO, card[v]
        for q in range(rows.shape[1]):
            x = rows[v, q]
            while x != ZERO and fits:
                u = (q << 6) + lowest(x)
                x &= x - ONE
                if label[u] < 0:
                    if count == 64:
                        fits = False
                        break
                    names[count], label[u] = u, count
                    count += 1
                bits |= ONE << np.uint64(label[u])
                product *= card[u]
        mask[i], cells[i] = bits, product
    for i in range(count):
        label[names[i]] = -1
    return fits


@twofold_kernel
def _solve_window(card: Floats, window: Ints, names: Ints, mask: Bits, cells: Floats, cost: Floats, last: Ints) -> None:
    """Put the window in its cheapest order.

    Row T of ``mask`` and ``cells`` describes the window's vertices after the elimination of the subset T. It comes
    from the row without T's lowest vertex j: who was next to j gets j's neighbours.
    """
    k = window.shape[0]
    full = (1 << k) - 1
    cost[0] = 0.0
    for subset in range(1, full + 1):
        cost[subset] = np.inf
    for subset in range(full):
        if subset > 0:
            j = lowest(np.uint64(subset))
            before = (subset & (subset - 1)) * k
            bit_j = ONE << np.uint64(j)
            for i in range(k):
                if (subset >> i) & 1:
                    continue
                near, product = mask[before + i], cells[before + i]
                if near & bit_j != ZERO:
                    wider = (near | mask[before + j]) & ~(bit_j | (ONE << np.uint64(i)))
                    product /= card[names[j]]
                    fresh = wider & ~near
                    while fresh != ZERO:
                        product *= card[names[lowest(fresh)]]
                        fresh &= fresh - ONE
                    near = wider
                mask[subset * k + i], cells[subset * k + i] = near, product
        for i in range(k):
            if (subset >> i) & 1 == 0:
                reached = cost[subset] + cells[subset * k + i]
                if reached < cost[subset | (1 << i)]:
                    cost[subset | (1 << i)], last[subset | (1 << i)] = reached, i
    for r in range(k - 1, -1, -1):
        window[r] = names[last[full]]
        full ^= 1 << last[full]


@twofold_kernel
def _eliminate(rows: Bits, card: Floats, v: int) -> float:
    """Join the neighbours of v, remove it, and return the cells of its clique."""
    cells, n_words = float(card[v]), rows.shape[1]
    others = ~(ONE << np.uint64(v & 63))
    for k in range(n_words):
        x = rows[v, k]
        while x != ZERO:
            a = (k << 6) + lowest(x)
            x &= x - ONE
            cells *= card[a]
            for q in range(n_words):
                rows[a, q] |= rows[v, q]
            rows[a, v >> 6] &= others
            rows[a, a >> 6] &= ~(ONE << np.uint64(a & 63))
    return cells


@twofold_kernel
def _regroup(ptr: Ints, adj: Ints, stage: Ints, order: Ints, state: Bits) -> None:
    """Replace the order by a random postorder of its elimination tree, within stages: the same cliques."""
    n = order.shape[0]
    position, parent = np.empty(n, np.int64), np.empty(n, np.int64)
    priority, post = np.empty(n, np.int64), np.empty(n, np.int64)
    last_stage = 0
    for i in range(n):
        position[order[i]], priority[i] = i, i
        last_stage = max(last_stage, stage[i])
    elimination_tree(ptr, adj, order, position, parent)
    shuffle(priority, state)
    postorder(parent, priority, post)
    count = 0
    for s in range(last_stage + 1):
        for i in range(n):
            if stage[order[post[i]]] == s:
                priority[count] = order[post[i]]
                count += 1
    for i in range(n):
        order[i] = priority[i]


@twofold_kernel(cost=200.0)
def refine_order(
    ptr: Ints, adj: Ints, card: Floats, stage: Ints, max_ops: float, state: Bits, order: Ints, cells_of: Floats
) -> float:
    """Refine an order pass by pass until nothing is gained or the operations are used up; return its cells.

    A pass regroups the order and makes its windows optimal. ``order`` and ``cells_of`` (cells of each vertex's clique)
    are updated. A window is left alone when its share of the cells is `NEGLIGIBLE` and when its vertices have more than
    64 neighbours; windows do not cross stages. Cost: about ``2**WINDOW * WINDOW`` for each window not left alone, and
    for each vertex ``degree * n_words``. Shapes: CSR graph; ``card, stage, order, cells_of (n,)``, ``state (1,)``.
    """
    n = order.shape[0]
    rows = np.empty((n, (n + 63) // 64), np.uint64)
    label, names = np.empty(n, np.int64), np.empty(64, np.int64)
    mask, cells = np.empty(WINDOW << WINDOW, np.uint64), np.empty(WINDOW << WINDOW)
    cost, last = np.empty(1 << WINDOW), np.empty(1 << WINDOW, np.int64)
    total, ops, idle = 0.0, 0.0, 0
    for v in range(n):
        total += cells_of[v]
        label[v] = -1
    while idle < IDLE and ops < max_ops:
        bit_rows(ptr, adj, rows)
        _regroup(ptr, adj, stage, order, state)
        before, total, t = total, 0.0, 0
        end = 1 + int(draw(state) * WINDOW)
        while t < n:
            k, held = 0, 0.0
            while t + k < min(end, n) and stage[order[t + k]] == stage[order[t]]:
                held += cells_of[order[t + k]]
                k += 1
            if k > 1 and held > NEGLIGIBLE * before:
                if _local_masks(rows, card, order[t : t + k], label, names, mask, cells):
                    _solve_window(card, order[t : t + k], names, mask, cells, cost, last)
                    ops += 4.0 * k * (1 << k)
            for i in range(t, t + k):
                cells_of[order[i]] = _eliminate(rows, card, order[i])
                total += cells_of[order[i]]
            t += k
            end = t + WINDOW
        ops += n * (16.0 + 16.0 * rows.shape[1])
        idle = 0 if total < 0.999 * before else idle + 1
    return total
