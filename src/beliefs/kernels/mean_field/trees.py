r"""Structured mean field: trees of factors, cut out of a graph, and the joint update of a whole tree.

A *tree* is a set of variables joined by *tree factors*; every other factor has at most one variable in it, up to
factors over a part of a tree factor's scope, whose tables are added to it. With the trees' distributions independent
of each other, the best distribution of one tree, the others fixed, has the tree factors' own tables and one potential
a variable, the expectation of the factors outside. Its marginals come from one pass up the tree and one down.

A tree factor's table has its parent variable first: shape ``(K of the parent, product of the others' K)``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.layout import Adjacency, Scopes
from beliefs.kernels.mean_field.general import Potentials, Product, Scratch, softmax, sweep_variables
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.typing import Floats, Ints

__all__ = ["TreeScratch", "Trees", "sweep_trees"]

_LEAST = -700.0  # nats below the best entry of a row: beyond, a probability is 0


class Trees(NamedTuple):
    """Trees of variables, and the tree factors that join them."""

    member_ptr: Ints  # (n_trees+1,)
    members: Ints  # (n_members,) variables, those of a tree together, its root first
    branch_ptr: Ints  # (n_trees+1,) tree factors, those of a tree together, parents first
    branches: Scopes  # of the tree factors, the parent variable first; cell_ptr has the end of the last table too


class TreeScratch(NamedTuple):
    """Room to update one tree in; a thread's own."""

    sums: Floats  # the largest table of a tree factor
    logs: Floats  # (n_states,)


@kernel
def _add_up(begin: int, end: int, scopes: Scopes, logs: Floats, sums: Floats) -> int:
    """Write ``sums = logs[v1][:, None, ...] + logs[v2][None, :, ...] + ...`` over some edges; return its size.

    Each axis widens the array in place, from its end.
    """
    sums[0] = 0.0
    size = 1
    for e in range(begin, end):
        k, m = scopes.card[scopes.scope_vars[e]], scopes.state_ptr[scopes.scope_vars[e]]
        for row in range(size - 1, -1, -1):
            head = sums[row]
            for x in range(k):
                sums[row * k + x] = head + logs[m + x]
        size *= k
    return size


@kernel
def collect(first: int, last: int, branches: Scopes, table: Floats, sums: Floats, logs: Floats, tree: Floats) -> None:
    """Send messages up a tree, from its last factor to its first, and keep the conditionals of children given parents.

    For each factor, with ``S = table + sum of the children's logs``: ``logs[parent] += LSE(S, axis=1)`` and
    ``tree = exp(S - LSE(S, axis=1)[:, None])``; rows that are all ``-inf`` give ``-inf`` and 0. Cost: one exponential
    a cell, one logarithm a row.
    """
    card, state_ptr, scope_vars = branches.card, branches.state_ptr, branches.scope_vars
    scope_ptr, table_ptr = branches.scope_ptr, branches.cell_ptr
    for i in range(last - 1, first - 1, -1):
        begin, end, row = scope_ptr[i], scope_ptr[i + 1], np.uint64(table_ptr[i])
        parent, child = scope_vars[begin], scope_vars[begin + 1]
        if end - begin == 2:
            rest, m = np.uint64(card[child]), np.uint64(state_ptr[child])
            for r in range(rest):
                sums[r] = logs[m + r]
        else:
            rest = np.uint64(_add_up(begin + 1, end, branches, logs, sums))
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
def distribute(first: int, last: int, branches: Scopes, sums: Floats, fresh: Floats, tree: Floats) -> None:
    """Turn the conditionals of a tree's factors into marginals, from its first to its last.

    ``fresh`` holds the root's marginal and gets those of the others: ``tree *= fresh[parent][:, None]``, and sums of it
    over all axes but a child's, normalised so that errors do not add up along the tree.
    """
    card, state_ptr, scope_vars = branches.card, branches.state_ptr, branches.scope_vars
    scope_ptr, table_ptr = branches.scope_ptr, branches.cell_ptr
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
            k, m = (
                np.uint64(card[scope_vars[e]]),
                np.uint64(state_ptr[scope_vars[e]]),
            )
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
    order: Ints, trees: Trees, table: Floats, scopes: Scopes, adjacency: Adjacency, potentials: Potentials,
    scratch: Scratch, tree_scratch: TreeScratch, product: Product, tree: Floats,
) -> int:  # fmt: skip
    """Update the trees in ``order``, one after the other; return the bits of the largest change, -1 if one cannot be.

    ``table`` holds the log tables of the tree factors; ``adjacency`` lists the edges of the factors outside only.
    ``product`` and the trees' marginals ``tree`` (like ``table``) change in place. A tree with no possible state (only
    from an impossible start) is left as it is, and so are those after it. Cost: cells of all tables, one exponential a
    cell of a tree factor.
    """
    state_ptr, branches = scopes.state_ptr, trees.branches
    sums, logs = tree_scratch
    mu, support = product
    largest = np.int64(0)
    for t in order:
        own = trees.members[trees.member_ptr[t] : trees.member_ptr[t + 1]]
        sweep_variables(own, False, scopes, adjacency, potentials, scratch, logs, product)
        first, last = trees.branch_ptr[t], trees.branch_ptr[t + 1]
        collect(first, last, branches, table, sums, logs, tree)
        root, possible = own[0], False
        for k in range(state_ptr[root], state_ptr[root + 1]):
            possible = possible or logs[k] > -math.inf
        if not possible:
            return -1
        softmax(state_ptr[root], logs, state_ptr[root], scopes.card[root], logs)
        distribute(first, last, branches, sums, logs, tree)
        for v in own:
            for k in range(state_ptr[v], state_ptr[v + 1]):
                change = np.float64(abs(logs[k] - mu[k])).view(np.int64)
                largest = max(largest, change)
                mu[k] = logs[k]
                if support.size > 0:
                    support[k] = 1.0 if mu[k] > 0.0 else 0.0
    return int(largest)
