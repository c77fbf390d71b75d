r"""Structured mean field: trees of factors, cut out of a graph, and the joint update of a whole tree.

A *tree* is a set of variables joined by *tree factors*; every other factor has at most one variable in it, up to
factors over a part of a tree factor's scope, whose tables are added to it. With the trees' distributions independent
of each other, the best distribution of one tree, the others fixed, has the tree factors' own tables and one potential
a variable, the expectation of the factors outside. Its marginals come from one pass up the tree and one down.

A tree factor's table has its parent variable first: shape ``(K of the parent, product of the others' K)``.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.mean_field.general import softmax, sweep_variables
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.typing import Bools, Floats, Ints

__all__ = ["sweep_trees"]

_LEAST = -700.0  # nats below the best entry of a row: beyond, a probability is 0


@kernel
def _add_up(begin: int, end: int, card: Ints, state_ptr: Ints, scope_vars: Ints, logs: Floats, sums: Floats) -> int:
    """Write ``sums = logs[v1][:, None, ...] + logs[v2][None, :, ...] + ...`` over some edges; return its size.

    Each axis widens the array in place, from its end.
    """
    sums[0] = 0.0
    size = 1
    for e in range(begin, end):
        k, m = card[scope_vars[e]], state_ptr[scope_vars[e]]
        for row in range(size - 1, -1, -1):
            head = sums[row]
            for x in range(k):
                sums[row * k + x] = head + logs[m + x]
        size *= k
    return size


@kernel
def collect(
    first: int, last: int, card: Ints, state_ptr: Ints, scope_ptr: Ints, scope_vars: Ints, table_ptr: Ints,
    table: Floats, sums: Floats, logs: Floats, tree: Floats,
) -> None:  # fmt: skip
    """Send messages up a tree, from its last factor to its first, and keep the conditionals of children given parents.

    For each factor, with ``S = table + sum of the children's logs``: ``logs[parent] += LSE(S, axis=1)`` and
    ``tree = exp(S - LSE(S, axis=1)[:, None])``; rows that are all ``-inf`` give ``-inf`` and 0. Cost: one exponential
    a cell, one logarithm a row.
    """
    for i in range(last - 1, first - 1, -1):
        begin, end, row = scope_ptr[i], scope_ptr[i + 1], np.uint64(table_ptr[i])
        parent, child = scope_vars[begin], scope_vars[begin + 1]
        if end - begin == 2:
            rest, m = np.uint64(card[child]), np.uint64(state_ptr[child])
            for r in range(rest):
                sums[r] = logs[m + r]
        else:
            rest = np.uint64(_add_up(begin + 1, end, card, state_ptr, scope_vars, logs, sums))
        for x in range(card[parent]):
            top = -math.inf
            for r in range(rest):
                score = table[row + r] + sums[r]
                tree[row + r] = score
                if score > top:
                    top = score
            if top == -math.inf:
                for r in range(rest):
                    tree[row + r] = 0.0
                logs[state_ptr[parent] + x] = -math.inf
            else:
                for r in range(rest):
                    below = tree[row + r] - top
                    weight = fast_exp(below)
                    tree[row + r] = weight if below > _LEAST else 0.0
                total = 0.0
                for r in range(rest):
                    total += tree[row + r]
                scale = 1.0 / total
                for r in range(rest):
                    tree[row + r] *= scale
                logs[state_ptr[parent] + x] += top + fast_log(total)
            row += rest


@kernel
def distribute(
    first: int, last: int, card: Ints, state_ptr: Ints, scope_ptr: Ints, scope_vars: Ints, table_ptr: Ints,
    sums: Floats, fresh: Floats, tree: Floats,
) -> None:  # fmt: skip
    """Turn the conditionals of a tree's factors into marginals, from its first to its last.

    ``fresh`` holds the root's marginal and gets those of the others: ``tree *= fresh[parent][:, None]``, and sums of it
    over all axes but a child's, normalised so that errors do not add up along the tree.
    """
    for i in range(first, last):
        begin, end, row, rest = scope_ptr[i], scope_ptr[i + 1], np.uint64(table_ptr[i]), np.uint64(1)
        for e in range(begin + 1, end):
            rest *= np.uint64(card[scope_vars[e]])
        for r in range(rest):
            sums[r] = 0.0
        parent = scope_vars[begin]
        for x in range(card[parent]):
            weight = fresh[state_ptr[parent] + x]
            for r in range(rest):
                tree[row + r] *= weight
                sums[r] += tree[row + r]
            row += rest
        total = 0.0
        for r in range(rest):
            total += sums[r]
        scale, step = 1.0 / total, rest
        for e in range(begin + 1, end):
            k, m = np.uint64(card[scope_vars[e]]), np.uint64(state_ptr[scope_vars[e]])
            step //= k
            for x in range(k):
                fresh[m + x] = 0.0
            if end - begin == 2:
                for x in range(k):
                    fresh[m + x] = sums[x] * scale
            else:
                for r in range(rest):
                    fresh[m + np.uint64(r) // step % k] += sums[r] * scale


@kernel
def sweep_trees(
    order: Ints, member_ptr: Ints, members: Ints, branch_ptr: Ints, branch_scope_ptr: Ints, branch_vars: Ints,
    table_ptr: Ints, table: Floats, card: Ints, state_ptr: Ints, scope_ptr: Ints, scope_vars: Ints, cell_ptr: Ints,
    var_ptr: Ints, var_edges: Ints, edge_factor: Ints, hard: Bools, theta: Floats, forbidden: Floats, buffer: Floats,
    b: Floats, sums: Floats, logs: Floats, mu: Floats, support: Floats, tree: Floats,
) -> int:  # fmt: skip
    """Update the trees in ``order``, one after the other; return the bits of the largest change, -1 if one cannot be.

    Tree ``t`` has the variables ``members[member_ptr[t]:...]``, its root first, and the tree factors
    ``branch_ptr[t]:branch_ptr[t+1]``, parents first; factor ``i`` joins ``branch_vars[branch_scope_ptr[i]:...]`` by the
    table ``table[table_ptr[i]:...]``. ``var_ptr, var_edges`` list the edges of the factors outside only. ``mu``,
    ``support`` and the trees' marginals ``tree`` (like ``table``) change in place; ``logs (n_states,)`` is scratch. A
    tree with no possible state (only from an impossible start) is left as it is, and so are those after it. Cost: cells
    of all tables, one exponential a cell of a tree factor.
    """
    largest = np.int64(0)
    for t in order:
        own = members[member_ptr[t] : member_ptr[t + 1]]
        sweep_variables(
            own, False, card, state_ptr, scope_ptr, scope_vars, cell_ptr, var_ptr, var_edges, edge_factor, hard, theta,
            forbidden, buffer, b, logs, mu, support,
        )  # fmt: skip
        first, last = branch_ptr[t], branch_ptr[t + 1]
        collect(
            first, last, card, state_ptr, branch_scope_ptr, branch_vars, table_ptr, table, sums, logs, tree
        )  # fmt: skip
        root, possible = own[0], False
        for k in range(state_ptr[root], state_ptr[root + 1]):
            possible = possible or logs[k] > -math.inf
        if not possible:
            return -1
        softmax(state_ptr[root], logs, state_ptr[root], card[root], logs)
        distribute(first, last, card, state_ptr, branch_scope_ptr, branch_vars, table_ptr, sums, logs, tree)
        for v in own:
            for k in range(state_ptr[v], state_ptr[v + 1]):
                change = np.float64(abs(logs[k] - mu[k])).view(np.int64)
                largest = max(largest, change)
                mu[k] = logs[k]
                if support.size > 0:
                    support[k] = 1.0 if mu[k] > 0.0 else 0.0
    return int(largest)
