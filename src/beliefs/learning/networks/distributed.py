"""Rows with missing cells held by other processes: tables go out, expected counts come back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefs.inference.base import Method
from beliefs.inference.rows.sweep import RowSweep
from beliefs.model.layout import Layout
from beliefs.model.rows.table import RowTable
from beliefs.typing import Floats

__all__ = ["ExpectedCounts", "SweepJob", "row_pieces"]

_ROWS = 4096  # of a piece


@dataclass(frozen=True, eq=False)
class ExpectedCounts:
    """The log-likelihood of some rows and their expected counts ``(n_cells,)``."""

    log_z: float
    cells: Floats

    def plus(self, other: ExpectedCounts) -> ExpectedCounts:
        """Return the sum."""
        return ExpectedCounts(self.log_z + other.log_z, self.cells + other.cells)


@dataclass(frozen=True, eq=False)
class SweepJob:
    """Sweeps over pieces of a table; plans are kept with the pieces."""

    layout: Layout
    approximate: Method | None
    max_bytes: float

    def __call__(self, pieces: list[RowTable], state: dict[str, Any], tables: Floats) -> ExpectedCounts:
        """Return the sum over all rows of the pieces."""
        found = ExpectedCounts(0.0, np.zeros(self.layout.n_cells))
        for k, piece in enumerate(pieces):
            key = f"sweep {k}"
            if key not in state:
                state[key] = RowSweep(self.layout, piece, approximate=self.approximate, max_bytes=self.max_bytes)
            swept = state[key].run(tables)
            found = found.plus(ExpectedCounts(state[key].total_log_z(swept), swept.cells))
        return found


def row_pieces(table: RowTable) -> list[RowTable]:
    """Return a table cut into pieces, by the number of its rows alone."""
    return [table.take(slice(begin, begin + _ROWS)) for begin in range(0, table.n_rows, _ROWS)]
