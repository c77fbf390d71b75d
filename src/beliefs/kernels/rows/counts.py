"""Counts and scores of families: cells of conditional tables that rows of codes fall into."""

from __future__ import annotations

from typing import Any, NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.kernels.layout import Scopes
from beliefs.typing import Floats, Ints

__all__ = ["BLOCK", "LANES", "Scratch", "count_families", "family_cells", "score_rows"]

BLOCK = 2048  # rows whose cells are known at a time: they stay in the first cache
LANES = 4 * 2048  # cells of tables that are counted in four lanes


class Scratch(NamedTuple):
    """Room for one thread that counts: ``cells (BLOCK,)`` of rows and ``lanes (LANES,)``."""

    cells: Any
    lanes: Ints


@kernel
def family_cells(
    scopes: Scopes, f: int, codes: Any, missing: int, begin: int, end: int, partial: bool, cells: Any
) -> None:
    """Write the cell of factor ``f`` that each of some rows falls into, -1 where a code is missing.

    Equivalent to ``cells[i] = np.ravel_multi_index(codes[scope, begin + i], card[scope])``.
    Shapes: ``codes (n_vars, n_rows)``, ``cells (BLOCK,)`` of int32 or int64; ``partial`` says whether a code of the
    scope is missing anywhere. Cost: one multiplication and addition a code. Numerics: integers.
    """
    n = end - begin
    for i in range(n):
        cells[i] = 0
    for at in range(scopes.scope_ptr[f], scopes.scope_ptr[f + 1]):
        v = scopes.scope_vars[at]
        column, card = codes[v, begin:end], cells.dtype.type(scopes.card[v])
        for i in range(n):
            cells[i] = cells[i] * card + cells.dtype.type(column[i])
    if partial:
        for at in range(scopes.scope_ptr[f], scopes.scope_ptr[f + 1]):
            column = codes[scopes.scope_vars[at], begin:end]
            for i in range(n):
                if column[i] == missing:
                    cells[i] = -1


@kernel
def count_families(
    scopes: Scopes, partial: Any, codes: Any, missing: int, weights: Floats, first: int, last: int, scratch: Scratch,
    out: Floats,
) -> None:  # fmt: skip
    """Add to the cells of some factors how many rows fall into them; rows with a missing code count nowhere.

    Equivalent to ``out[cell_ptr[f]:][:size] += np.bincount(cells of f, weights, size)`` for ``first <= f < last``.
    Shapes: ``partial (n_factors,)`` as in :func:`family_cells`, ``weights (n_rows,)`` or empty for ones,
    ``out (n_cells,)``.
    Cost: one pass over the columns of each scope. Small tables are counted in four lanes, since an addition to a cell
    waits for the one before it. Numerics: counts are whole, weighted ones are added row by row.
    """
    n_rows, cells, lanes = codes.shape[1], scratch.cells, scratch.lanes
    for f in range(first, last):
        table, size = out[scopes.cell_ptr[f] :], 1
        for at in range(scopes.scope_ptr[f], scopes.scope_ptr[f + 1]):
            size *= scopes.card[scopes.scope_vars[at]]
        in_lanes = weights.size == 0 and not partial[f] and 4 * size <= lanes.size
        for c in range(4 * size if in_lanes else 0):
            lanes[c] = 0
        for begin in range(0, n_rows, cells.size):
            end = min(n_rows, begin + cells.size)
            family_cells(scopes, f, codes, missing, begin, end, partial[f], cells)
            n = end - begin
            if in_lanes:
                for i in range(0, n - 3, 4):
                    lanes[cells[i]] += 1
                    lanes[size + cells[i + 1]] += 1
                    lanes[2 * size + cells[i + 2]] += 1
                    lanes[3 * size + cells[i + 3]] += 1
                for i in range(n - n % 4, n):
                    lanes[cells[i]] += 1
            else:
                for i in range(n):
                    if cells[i] >= 0:
                        table[cells[i]] += weights[begin + i] if weights.size else 1.0
        for c in range(size if in_lanes else 0):
            table[c] += lanes[c] + lanes[size + c] + lanes[2 * size + c] + lanes[3 * size + c]


@kernel
def score_rows(
    scopes: Scopes, partial: Any, codes: Any, missing: int, logs: Floats, begin: int, end: int, cells: Any, out: Floats
) -> None:
    """Add to each of some rows the logs of the cells it falls into; families with a missing code add nothing.

    Equivalent to ``out[begin:end] += sum_f logs[cell_ptr[f] + cells of f]``. Shapes: ``logs (n_cells,)``,
    ``out (n_rows,)``. Cost: one pass over the columns of all scopes. Numerics: ``-inf`` stays ``-inf``.
    """
    for start in range(begin, end, cells.size):
        stop = min(end, start + cells.size)
        for f in range(scopes.cell_ptr.size):
            family_cells(scopes, f, codes, missing, start, stop, partial[f], cells)
            table = logs[scopes.cell_ptr[f] :]
            for i in range(stop - start):
                if cells[i] >= 0:
                    out[start + i] += table[cells[i]]
