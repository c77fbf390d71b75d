"""The arrays of a layout as kernels take them, and kernels on structure: scope checks, conditioning, scores.

Integers mostly; linear in edges or cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.primitives.strides import axis_room, table_index
from beliefs.typing import Bools, Floats, Ints

__all__ = [
    "Adjacency",
    "Scopes",
    "ancestral_samples",
    "condition_cells",
    "condition_scopes",
    "log_scores",
    "repeated_variable",
]


class Scopes(NamedTuple):
    """Who is in which factor, and where its table lies; see :mod:`beliefs.model.layout`."""

    card: Ints  # (n_vars,)
    state_ptr: Ints  # (n_vars+1,) where a variable's entries of mu_var begin
    scope_ptr: Ints  # (n_factors+1,) edges of each factor
    scope_vars: Ints  # (n_edges,) variable of each edge
    cell_ptr: Ints  # (n_factors,) where a factor's table begins in theta


class Adjacency(NamedTuple):
    """The edges at each variable."""

    var_ptr: Ints  # (n_vars+1,)
    var_edges: Ints  # (n_edges,) in the order of factors
    edge_factor: Ints  # (n_edges,) factor of each edge


@twofold_kernel
def repeated_variable(scope_ptr: Ints, scope_vars: Ints, last_seen: Ints) -> int:
    """Return the first factor whose scope names a variable twice, or -1.

    Equivalent to ``next((f for f in ... if len(set(scope(f))) < len(scope(f))), -1)``. ``last_seen (n_vars,)``
    is scratch filled with -1. Cost: n_edges.
    """
    for f in range(scope_ptr.size - 1):
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            if last_seen[scope_vars[e]] == f:
                return f
            last_seen[scope_vars[e]] = f
    return -1


@twofold_kernel
def condition_scopes(
    card: Ints,
    scope_ptr: Ints,
    scope_vars: Ints,
    cell_ptr: Ints,
    n_cells: int,
    observed: Bools,
    new_ptr: Ints,
    new_vars: Ints,
    new_cell_ptr: Ints,
) -> int:
    """Drop observed variables from all scopes; write the new scopes and cell offsets; return their edge count.

    Equivalent to ``[v for v in scope(f) if not observed[v]]`` per factor. Factors that lose nothing go on sharing
    their run of cells; any other gets a run of its own, in factor order. Cost: n_edges + n_cells.
    """
    moved_to = np.full(n_cells, -1, np.int64)
    edges = 0
    cells = 0
    for f in range(cell_ptr.size):
        size = 1
        before = edges
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            if not observed[scope_vars[e]]:
                new_vars[edges] = scope_vars[e]
                edges += 1
                size *= card[scope_vars[e]]
        new_ptr[f + 1] = edges
        whole = edges - before == scope_ptr[f + 1] - scope_ptr[f]
        if whole and moved_to[cell_ptr[f]] >= 0:
            new_cell_ptr[f] = moved_to[cell_ptr[f]]
            continue
        new_cell_ptr[f] = cells
        if whole:
            moved_to[cell_ptr[f]] = cells
        cells += size
    return edges


@twofold_kernel
def condition_cells(
    card: Ints, scope_ptr: Ints, scope_vars: Ints, cell_ptr: Ints, states: Ints, new_cell_ptr: Ints, cells: Ints
) -> None:
    """Write, for every cell of the conditioned layout, the parent's cell that it copies.

    Equivalent to ``arange(n_cells)[cells(f)].reshape(shape(f))[tuple(states[v] if states[v] >= 0 else slice(None))]``
    raveled, per factor. ``states (n_vars,)`` is -1 where unobserved. Cost: cells written, and edges.
    """
    stride, extent = axis_room(scope_ptr)
    widest = stride.size
    for f in range(cell_ptr.size):
        first = widest  # of the kept axes, which end where the arrays end
        at = cell_ptr[f]
        step = 1
        for e in range(scope_ptr[f + 1] - 1, scope_ptr[f] - 1, -1):
            v = scope_vars[e]
            if states[v] >= 0:
                at += step * states[v]
            else:
                first -= 1
                stride[first] = step
                extent[first] = card[v]
            step *= card[v]
        table_index(extent, stride, first, widest, 0, at, cells, new_cell_ptr[f])


@twofold_kernel
def log_scores(
    card: Ints, scope_ptr: Ints, scope_vars: Ints, cell_ptr: Ints, theta: Floats, samples: Ints, out: Floats
) -> None:
    """Write the log score of each row of ``samples (n, n_vars)`` to ``out (n,)``.

    Equivalent to ``sum(theta[cells(f)].reshape(shape(f))[tuple(x[scope(f)])] for f in ...)``. Cost: n x n_edges.
    Numerics: ``-inf`` plus anything is ``-inf``; ``+inf`` cannot occur.
    """
    for s in range(samples.shape[0]):
        total = 0.0
        for f in range(cell_ptr.size):
            k = 0
            for e in range(scope_ptr[f], scope_ptr[f + 1]):
                k = k * card[scope_vars[e]] + samples[s, scope_vars[e]]
            total += theta[cell_ptr[f] + k]
        out[s] = total


@twofold_kernel
def ancestral_samples(
    card: Ints,
    scope_ptr: Ints,
    scope_vars: Ints,
    cell_ptr: Ints,
    probabilities: Floats,
    order: Ints,
    uniform: Floats,
    samples: Ints,
) -> None:
    """Draw each variable given its parents, along ``order``; ``uniform (n, n_vars)`` gives one number a draw.

    Equivalent to ``searchsorted(cumsum(column), u * column.sum(), side="right")`` with the column of ``v`` selected by
    the parents already drawn. Columns that do not sum to one exactly are scaled; zero states are never drawn.
    Writes ``samples (n, n_vars)``. Cost: n x (n_edges + n_states).
    """
    for s in range(samples.shape[0]):
        for v in order:
            k = 0
            for e in range(scope_ptr[v], scope_ptr[v + 1] - 1):
                k = k * card[scope_vars[e]] + samples[s, scope_vars[e]]
            start = cell_ptr[v] + k * card[v]
            total = 0.0
            for x in range(card[v]):
                total += probabilities[start + x]
            rest = uniform[s, v] * total
            chosen = 0
            for x in range(card[v]):
                p = probabilities[start + x]
                if p > 0.0:
                    chosen = x
                    if rest < p:
                        break
                    rest -= p
            samples[s, v] = chosen
