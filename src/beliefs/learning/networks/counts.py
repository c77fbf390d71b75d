r"""How often each family of a structure takes each of its joint states: the sufficient statistics of a network.

.. math:: N_v(x_{pa}, x_v) = \sum_s w_s \, [\text{row } s \text{ agrees with } (x_{pa}, x_v)]

Whole where rows are not weighted, whatever the chunks and threads: a family is counted by one thread. A family with
more cells than there are rows is kept sparse, ``(joint states of the parents, states)`` with the cells that occur.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefs.inference.budget import default_budget, over_budget
from beliefs.inference.rows.sweep import partial_factors
from beliefs.kernels.rows.counts import BLOCK, LANES, Scratch, count_families
from beliefs.learning.networks.structure import Structure
from beliefs.learning.parallel import Executor
from beliefs.model.layout import read_only
from beliefs.model.rows.table import RowTable
from beliefs.typing import Floats

__all__ = ["FamilyCounts", "check_budget", "count"]

_SMALL = 2**14  # cells that are always kept dense
_NO_WEIGHTS = np.zeros(0)


@dataclass(frozen=True, eq=False)
class FamilyCounts:
    """Counts of all families, or of a field's factors: of each its cells ``(factor_size,)``, or a sparse matrix."""

    structure: Structure
    tables: tuple[Any, ...]
    total: float

    def plus(self, other: FamilyCounts) -> FamilyCounts:
        """Return the sum."""
        tables = []
        for mine, theirs in zip(self.tables, other.tables, strict=True):
            if isinstance(mine, np.ndarray) != isinstance(theirs, np.ndarray):
                mine, theirs = _dense(mine), _dense(theirs)
            tables.append(mine + theirs)
        return FamilyCounts(self.structure, tuple(tables), self.total + other.total)

    def flat(self) -> Floats:
        """Return all cells, family after family ``(n_cells,)``."""
        return np.concatenate([*(_dense(table) for table in self.tables), np.zeros(0)])

    def by_name(self) -> dict[str, Any]:
        """Return the counts of each variable's family with axes as in ``cpt``, or as a sparse matrix."""
        layout, naming = self.structure.layout, self.structure.naming
        return {
            naming.name(v): table.reshape(layout.shape(v)) if isinstance(table, np.ndarray) else table
            for v, table in enumerate(self.tables)
        }

    def columns(self, v: int) -> tuple[Floats, Floats, int]:
        """Return the positive counts of a family, those of its parents' states, and how many cells are counted."""
        table = self.tables[v]
        if isinstance(table, np.ndarray):
            sums = table.reshape(-1, int(self.structure.layout.card[v])).sum(axis=1)
            return table[table > 0], sums[sums > 0], table.size
        sums = np.asarray(table.sum(axis=1)).ravel()
        return table.data[table.data > 0], sums[sums > 0], int(np.prod(table.shape))


def check_budget(structure: Structure, max_bytes: float | None = None) -> None:
    """Raise BudgetError for tables that would not fit, before anything is counted."""
    limit = default_budget() if max_bytes is None else max_bytes
    sizes = structure.layout.factor_size.astype(np.float64)
    needed = 24.0 * float(sizes.sum())  # counts, probabilities and their logs
    if needed > limit:
        v = int(sizes.argmax())
        advice = f"The table of {structure.naming.name(v)!r} is the largest; give it fewer parents"
        raise over_budget("the tables need", needed, limit, advice)


def count(structure: Structure, table: RowTable, executor: Executor) -> FamilyCounts:
    """Count all families; rows in which a family has a missing cell do not count for it."""
    layout, partial = structure.layout, partial_factors(structure.layout, table)
    sizes = layout.factor_size
    dense = sizes <= max(table.n_rows, _SMALL)
    weights = _NO_WEIGHTS if table.weights is None else table.weights
    starts = np.concatenate([[0], np.cumsum(np.where(dense, sizes, 0))])
    cells = np.zeros(int(starts[-1]))
    scopes = layout.scopes._replace(cell_ptr=read_only(starts[:-1]))

    def task(v: int) -> Any:
        if not dense[v]:
            return _sparse(structure, v, table, bool(partial[v]))
        scratch = Scratch(np.empty(BLOCK, np.int32), np.zeros(LANES, np.int64))
        count_families(scopes, partial, table.codes, table.missing, weights, v, v + 1, scratch, cells)
        return cells[starts[v] : starts[v + 1]]

    return FamilyCounts(structure, tuple(executor.map(task, range(layout.n_factors))), table.total)


def _sparse(structure: Structure, v: int, table: RowTable, partial: bool) -> Any:
    from scipy.sparse import csr_array

    layout = structure.layout
    card = int(layout.card[layout.scope(v)[-1]])
    scope, cells = layout.scope(v), np.zeros(table.n_rows, np.int64)
    for u in scope:
        cells *= layout.card[u]
        cells += table.codes[u]
    kept = (table.codes[scope] != table.missing).all(axis=0) if partial else slice(None)
    found, number = np.unique(cells[kept], return_inverse=True)
    weights = None if table.weights is None else table.weights[kept]
    sums = np.bincount(number, weights, found.size).astype(np.float64)
    return csr_array((sums, (found // card, found % card)), shape=(int(layout.factor_size[v]) // card, card))


def _dense(table: Any) -> Floats:
    return table if isinstance(table, np.ndarray) else table.toarray().ravel()
