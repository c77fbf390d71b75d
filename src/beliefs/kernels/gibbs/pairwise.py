"""Gibbs sampling for pairwise models with one cardinality K: rows of oriented tables, in the order of the sweep.

Tables are turned so that the neighbour's state selects a row of K potentials. Each pair is there twice, once a
direction, unless it is tied: then two turned tables serve all pairs. For the sweeps each row is scaled to a maximum of
1 and exponentiated, which leaves conditionals as they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import inlined_kernel, kernel
from beliefs.kernels.gibbs.general import (
    GibbsModel,
    States,
    add_scaled,
    cumulate,
    exponentiate,
    log_weights,
    maximum,
    pick,
    sweep_keys,
)
from beliefs.kernels.layout import Adjacency, Scopes
from beliefs.kernels.primitives.memory import address, prefetch
from beliefs.kernels.primitives.random import uniform
from beliefs.typing import Floats, Ints

__all__ = [
    "PairRows",
    "count_neighbours",
    "exponentiate_rows",
    "gibbs_sweeps_binary",
    "gibbs_sweeps_pairwise",
    "orient_pairs",
    "orient_tables",
    "sum_unary",
]

SMALLEST = 1e-250  # far above the smallest number, so that what underflows is below 1e-50 of the total


class PairRows(NamedTuple):
    """The neighbours of each variable of a sweep, and rows of weights, the largest of each row 1."""

    order: Ints  # (n_hidden,) variables in the order of a sweep
    in_ptr: Ints  # (n_hidden+1,) the entries of the i-th variable are in_ptr[i]:in_ptr[i+1]
    other: Ints  # (n_entries,) the neighbour
    rows: Ints  # (n_entries,) the row for the neighbour's first state
    tables: Floats  # (n_rows, K) rows of pairs
    unary: Floats  # (n_hidden, K) the row of the i-th variable alone


@kernel
def count_neighbours(scopes: Scopes, adjacency: Adjacency, order: Ints, in_ptr: Ints) -> None:
    """Write the offsets of the neighbours of each variable of ``order``, ``in_ptr (order.size + 1,)``."""
    scope_ptr = scopes.scope_ptr
    var_ptr, var_edges, edge_factor = adjacency
    in_ptr[0] = 0
    for i in range(order.size):
        v = order[i]
        in_ptr[i + 1] = in_ptr[i]
        for q in range(var_ptr[v], var_ptr[v + 1]):
            f = edge_factor[var_edges[q]]
            in_ptr[i + 1] += scope_ptr[f + 1] - scope_ptr[f] == 2


@kernel
def orient_pairs(scopes: Scopes, adjacency: Adjacency, order: Ints, other: Ints, source: Ints, turned: Ints) -> None:
    """Write the neighbours of each variable of ``order``: ``other``, where their table begins in theta, and whether
    it is to be transposed (0 or 1), each ``(in_ptr[-1],)``. Cost: n_edges.
    """
    scope_ptr, scope_vars, cell_ptr = scopes.scope_ptr, scopes.scope_vars, scopes.cell_ptr
    var_ptr, var_edges, edge_factor = adjacency
    j = 0
    for i in range(order.size):
        v = order[i]
        for q in range(var_ptr[v], var_ptr[v + 1]):
            e = var_edges[q]
            f = edge_factor[e]
            if scope_ptr[f + 1] - scope_ptr[f] == 2:
                first = e == scope_ptr[f]
                other[j] = scope_vars[e + 1 if first else e - 1]
                source[j] = cell_ptr[f]
                turned[j] = first
                j += 1


@kernel
def orient_tables(theta: Floats, k: int, source: Ints, turned: Ints, tables: Floats) -> None:
    """Copy the ``k x k`` tables that begin at ``source`` in theta one after the other, transposed where ``turned``.

    Equivalent to ``[t.T if turned[j] else t for t = theta[source[j]:][: k * k].reshape(k, k)]``. Cost: cells written.
    """
    for j in range(source.size):
        for x in range(k):
            for y in range(k):
                from_cell = y * k + x if turned[j] else x * k + y
                tables[(j * k + x) * k + y] = theta[source[j] + from_cell]


@kernel
def sum_unary(scopes: Scopes, adjacency: Adjacency, theta: Floats, order: Ints, unary: Floats) -> None:
    """Write the sum of each variable's unary log potentials, ``unary (order.size, K)``."""
    scope_ptr, cell_ptr = scopes.scope_ptr, scopes.cell_ptr
    var_ptr, var_edges, edge_factor = adjacency
    for i in range(order.size):
        v = order[i]
        for x in range(unary.shape[1]):
            unary[i, x] = 0.0
        for q in range(var_ptr[v], var_ptr[v + 1]):
            f = edge_factor[var_edges[q]]
            if scope_ptr[f + 1] - scope_ptr[f] == 1:
                for x in range(unary.shape[1]):
                    unary[i, x] += theta[cell_ptr[f] + x]


@kernel
def exponentiate_rows(rows: Floats) -> None:
    """Replace each row of log potentials by ``exp(row - row.max())``, and a row of ``-inf`` by zeros; in place."""
    for i in range(rows.shape[0]):
        top = maximum(rows[i])
        if top == -np.inf:
            rows[i, :] = 0.0
        else:
            for x in range(rows.shape[1]):
                rows[i, x] -= top
            exponentiate(rows[i])


@inlined_kernel
def prefetch_rows(i: int, c: int, pairs: PairRows, states: States) -> None:
    """Prefetch the rows that the neighbours' present states pick for the ``i``-th variable of the sweep."""
    tables, k = address(pairs.tables), pairs.unary.shape[1]
    for j in range(pairs.in_ptr[i], pairs.in_ptr[i + 1]):
        row = (pairs.rows[j] + states[pairs.other[j], c]) * k
        for line in range(row, row + k - 1, 8):
            prefetch(tables, line)
        prefetch(tables, row + k - 1)


@kernel
def gibbs_sweeps_pairwise(
    pairs: PairRows, model: GibbsModel, begin: int, end: int, key: np.uint64, first: int, n_sweeps: int, keep: bool,
    states: States, sums: Floats,
) -> None:  # fmt: skip
    """Redraw the variables ``order[begin:end]`` in every chain, ``n_sweeps`` times.

    The same draws as those of :func:`beliefs.kernels.gibbs.general.gibbs_sweeps`, but for rounding: weights are
    products of rows, without an ``exp``. Cost of a sweep and chain: K per neighbour, and its row from memory: only the
    states say which, so rows are prefetched a few variables ahead (in vain if such a state still changes). Numerics:
    where the total of the products is below ``SMALLEST`` the weights are made again from logs; where it is not, a
    product that underflows is too small to matter.
    """
    order, in_ptr, other, rows, tables, unary = pairs
    state_ptr = model.state_ptr
    n_chains, k = states.shape[1], unary.shape[1]
    weights, below = np.empty(k), np.empty(k)
    keys = np.empty(n_chains, np.uint64)
    ahead = 2 + 6 // n_chains
    for t in range(first, first + n_sweeps):
        sweep_keys(key, t, keys)
        for i in range(begin, end):
            v = order[i]
            run = sums[state_ptr[v] : state_ptr[v] + k]
            for c in range(n_chains):
                if i + ahead < end:
                    prefetch_rows(i + ahead, c, pairs, states)
                j, stop = in_ptr[i], in_ptr[i + 1]
                for x in range(k):
                    weights[x] = unary[i, x]
                while j + 4 <= stop:  # four rows at once, so that their cache misses overlap
                    a, b = rows[j] + states[other[j], c], rows[j + 1] + states[other[j + 1], c]
                    d, e = rows[j + 2] + states[other[j + 2], c], rows[j + 3] + states[other[j + 3], c]
                    for x in range(k):
                        weights[x] *= (tables[a, x] * tables[b, x]) * (tables[d, x] * tables[e, x])
                    j += 4
                while j < stop:
                    a = rows[j] + states[other[j], c]
                    for x in range(k):
                        weights[x] *= tables[a, x]
                    j += 1
                total = cumulate(weights, below)
                if total < SMALLEST:
                    log_weights(model, states, v, c, c + 1, weights)
                    exponentiate(weights)
                    total = cumulate(weights, below)
                states[v, c] = pick(below, uniform(keys[c], v) * total)
                if keep:
                    add_scaled(weights, 1.0 / total, run)


@kernel
def gibbs_sweeps_binary(
    pairs: PairRows, model: GibbsModel, begin: int, end: int, key: np.uint64, first: int, n_sweeps: int, keep: bool,
    states: States, sums: Floats,
) -> None:  # fmt: skip
    """Do what :func:`gibbs_sweeps_pairwise` does for K = 2, with the two weights in registers."""
    order, in_ptr, other, rows, tables, unary = pairs
    state_ptr = model.state_ptr
    n_chains = states.shape[1]
    weights = np.empty(2)
    keys = np.empty(n_chains, np.uint64)
    for t in range(first, first + n_sweeps):
        sweep_keys(key, t, keys)
        for i in range(begin, end):
            v = order[i]
            ones = 0.0
            for c in range(n_chains):
                zero, one = unary[i, 0], unary[i, 1]
                for j in range(in_ptr[i], in_ptr[i + 1]):
                    a = rows[j] + states[other[j], c]
                    zero *= tables[a, 0]
                    one *= tables[a, 1]
                total = zero + one
                if total < SMALLEST:
                    log_weights(model, states, v, c, c + 1, weights)
                    exponentiate(weights)
                    zero, one = weights[0], weights[1]
                    total = zero + one
                states[v, c] = zero <= uniform(keys[c], v) * total
                ones += one / total
            if keep:
                sums[state_ptr[v]] += n_chains - ones
                sums[state_ptr[v] + 1] += ones
