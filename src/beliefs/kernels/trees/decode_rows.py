"""The best states of many rows that observe the same variables: one tree, row after row."""

from __future__ import annotations

import math

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.layout import Scopes, condition_cells
from beliefs.kernels.trees.blocks import Tree
from beliefs.kernels.trees.decode import decode_maximum
from beliefs.kernels.trees.linear import DONE, STOPPED
from beliefs.kernels.trees.log import collect_log
from beliefs.typing import Floats, Ints

__all__ = ["decode_rows"]


@twofold_kernel
def shared_or_own(theta: Floats, own: Floats, r: int, cell: int) -> float:
    """Return a cell of ``theta``, whose last ``own.shape[1]`` cells are row ``r``'s own."""
    begin = theta.size - own.shape[1]
    value: float = theta[cell] if cell < begin else own[r, cell - begin]
    return value


@twofold_kernel(cost=4.0)
def decode_rows(
    scopes: Scopes,
    cell_ptr: Ints,
    tree: Tree,
    source: Ints,
    theta: Floats,
    own: Floats,
    cells: Ints,
    tables: Floats,
    best: Ints,
    scores: Floats,
) -> int:
    """Write the maximiser and its log score for each row of evidence; return DONE or STOPPED (by ``tree.stop``).

    Equivalent, row by row, to ``condition``, :func:`collect_log` at temperature 0 and :func:`decode_maximum`, to the
    last bit. Shapes: ``scopes`` of the model, ``cell_ptr`` of the conditioned layout that ``tree`` and ``source``
    belong to, ``own (n_rows, n_own)`` the rows' own cells, ``cells`` and ``tables`` scratch, ``best (n_rows, n_vars)``
    the observed states, -1 elsewhere, overwritten. Cost: cells of the clusters, a row.
    Numerics: a row of weight zero has score ``-inf`` and states -1.
    """
    card, _, scope_ptr, scope_vars, starts = scopes
    for r in range(best.shape[0]):
        row = best[r]
        condition_cells(card, scope_ptr, scope_vars, starts, row, cell_ptr, cells)
        for k in range(source.size):
            tables[k] = shared_or_own(theta, own, r, cells[source[k]])
        code = collect_log(tree, tables)
        if code == STOPPED:
            return STOPPED
        for v in range(row.size):
            row[v] = max(row[v], 0)
        score = -math.inf
        if code == DONE:
            decode_maximum(tree, tables, row)
            score = 0.0
            for f in range(starts.size):
                at = 0
                for e in range(scope_ptr[f], scope_ptr[f + 1]):
                    at = at * card[scope_vars[e]] + row[scope_vars[e]]
                score += shared_or_own(theta, own, r, starts[f] + at)
        if score == -math.inf:
            row[:] = -1
        scores[r] = score
    return DONE
