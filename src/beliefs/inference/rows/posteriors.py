"""Posteriors of the missing cells of many rows, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.rows.sweep import RowSweep
from beliefs.model.graph import FactorGraph
from beliefs.model.rows.table import RowTable
from beliefs.typing import Floats, Ints

__all__ = ["filled_rows", "row_posteriors"]

_CELLS = 2**20  # posteriors that are held at a time


def row_posteriors(
    graph: FactorGraph, table: RowTable, *, threads: int = 1, max_bytes: float | None = None
) -> Iterator[tuple[Ints, Floats]]:
    """Yield rows with missing cells, and the posteriors of their missing variables ``(rows, n_states)``.

    Tables are divided by their largest entries, which changes no posterior.
    """
    layout = graph.layout
    values = graph.theta.copy()
    for f in range(layout.n_factors):
        top = values[layout.cells(f)].max()
        values[layout.cells(f)] -= top if top > -np.inf else 0.0
    np.exp(values, out=values)
    rows = np.flatnonzero(table.incomplete())
    step = max(1, _CELLS // max(layout.n_states, 1))
    for begin in range(0, rows.size, step):
        part = rows[begin : begin + step]
        sweep = RowSweep(layout, table.take(part), soft=True, max_bytes=max_bytes, threads=threads)
        swept = sweep.run(values, np.ones((part.size, layout.n_states)))
        impossible = np.flatnonzero(swept.log_z == -np.inf)
        if impossible.size:
            row = int(part[sweep.row[impossible[0]]])
            raise ModelError(f"row {row} has probability zero under the model, so its missing cells have no posterior")
        assert swept.soft is not None
        yield part, swept.soft


def filled_rows(graph: FactorGraph, table: RowTable, *, threads: int = 1, max_bytes: float | None = None) -> RowTable:
    """Return the rows with each missing cell at its likeliest state."""
    codes, where = table.codes.copy(), graph.layout.state_ptr
    for rows, soft in row_posteriors(graph, table, threads=threads, max_bytes=max_bytes):
        for v in np.flatnonzero(table.n_missing):
            missing = table.codes[v, rows] == table.missing
            codes[v, rows[missing]] = soft[missing, where[v] : where[v + 1]].argmax(axis=1)
    return RowTable(table.names, table.labels, codes, table.weights)
