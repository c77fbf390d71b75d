"""Posteriors of the missing cells of many rows, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.rows.sweep import RowSweep, single_variables
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.model.rows.table import RowTable
from beliefs.typing import Floats, Ints

__all__ = ["Evidence", "filled_rows", "row_posteriors"]

Evidence = tuple[Layout, Floats]
"""Soft evidence: factors, and their tables of every row ``(n_rows, n_cells)``."""

_CELLS = 2**20  # posteriors that are held at a time


def row_posteriors(
    graph: FactorGraph, table: RowTable, *, evidence: Evidence | None = None, threads: int = 1,
    max_bytes: float | None = None,
) -> Iterator[tuple[Ints, Floats]]:  # fmt: skip
    """Yield rows with missing cells, and the posteriors of their missing variables ``(rows, n_states)``.

    Those of soft evidence follow. Tables are divided by their largest entries, which changes no posterior.
    """
    layout = graph.layout
    values = graph.theta.copy()
    for f in range(layout.n_factors):
        top = values[layout.cells(f)].max()
        values[layout.cells(f)] -= top if top > -np.inf else 0.0
    np.exp(values, out=values)
    rows = np.flatnonzero(table.incomplete())
    soft = layout.plan(single_variables, None if evidence is None else evidence[0])
    step = max(1, _CELLS // max(soft.n_cells, 1))
    for begin in range(0, rows.size, step):
        part = rows[begin : begin + step]
        sweep = RowSweep(layout, table.take(part), soft=soft, max_bytes=max_bytes, threads=threads)
        own = np.ones((part.size, layout.n_states))
        swept = sweep.run(values, own if evidence is None else np.concatenate([own, evidence[1][part]], axis=1))
        impossible = np.flatnonzero(swept.log_z == -np.inf)
        if impossible.size:
            row = int(part[sweep.row[impossible[0]]])
            raise ModelError(f"row {row} has probability zero under the model, so its missing cells have no posterior")
        assert swept.soft is not None
        yield part, swept.soft


def filled_rows(
    graph: FactorGraph, table: RowTable, *, evidence: Evidence | None = None, threads: int = 1,
    max_bytes: float | None = None,
) -> RowTable:  # fmt: skip
    """Return the rows with each missing cell at its likeliest state."""
    codes, where = table.codes.copy(), graph.layout.state_ptr
    for rows, soft in row_posteriors(graph, table, evidence=evidence, threads=threads, max_bytes=max_bytes):
        for v in np.flatnonzero(table.n_missing):
            missing = table.codes[v, rows] == table.missing
            codes[v, rows[missing]] = soft[missing, where[v] : where[v + 1]].argmax(axis=1)
    return RowTable(table.names, table.labels, codes, table.weights)
