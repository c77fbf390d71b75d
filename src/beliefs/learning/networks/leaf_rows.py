"""Gaussian leaves in rows: their columns, soft evidence for the E-step, statistics for the M-step.

The density of a leaf's columns is a factor over its parents whose table is another for every row; the sweep of
:mod:`beliefs.inference.rows.sweep` takes it as soft evidence and returns its posterior, which is what the statistics of
:mod:`beliefs.learning.networks.gaussian` are weighted by. Densities are divided by the largest one of the row, whose
log is added to the row's log-likelihood. Where a row observes all parents and all columns its statistics never change
and are added up once. A leaf that a row lacks altogether says nothing of it; of one that it has in part the other
columns are missing cells like any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.networks.gaussian import GaussianLeaf, expected_statistics, log_densities, statistics
from beliefs.learning.networks.leaves import Leaves
from beliefs.model.rows.table import RowTable
from beliefs.options import is_number, shown
from beliefs.typing import Bools, Floats

__all__ = ["LeafRows", "leaf_values"]


def leaf_values(leaves: Mapping[str, GaussianLeaf], columns: Mapping[str, Any]) -> list[Floats]:
    """Return the numbers of each leaf's columns ``(n_rows, D)``, nan where they are missing."""
    found = []
    for name, leaf in leaves.items():
        parts = []
        for column in leaf.column_names:
            if column not in columns:
                raise ModelError(f"the leaf {name!r} needs a column {column!r}, which is not there")
            parts.append(_numbers(columns[column], column))
        if len({part.size for part in parts}) > 1:
            raise ModelError(f"the columns of the leaf {name!r} differ in length")
        x = np.stack(parts, axis=1)
        if np.isinf(x).any():
            row, c = (int(i) for i in np.argwhere(np.isinf(x))[0])
            raise ModelError(f"column {leaf.column_names[c]!r}, row {row}: expected a finite number, found {x[row, c]}")
        found.append(x)
    return found


def _numbers(values: Any, column: str) -> Floats:
    try:
        if hasattr(values, "to_numpy") and getattr(values.dtype, "na_value", None) is not None:
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(values, np.float64).reshape(-1)
    except (TypeError, ValueError):
        found = next((value for value in values if not is_number(value)), values)
        raise ModelError(f"column {column!r} of a leaf must hold numbers, found {shown(found)}") from None


class LeafRows:
    """Columns of leaves in some rows, and which joint states of the parents the rows allow."""

    def __init__(self, leaves: Leaves, table: RowTable, values: list[Floats]) -> None:
        self.leaves, self.table = leaves, table
        self.x = [x - origin for x, origin in zip(values, leaves.origins, strict=True)]
        self.has: list[Bools] = [np.asarray(~np.isnan(x).all(axis=1)) for x in self.x]
        self.whole: list[Bools] = [np.asarray(~np.isnan(x).any(axis=1)) for x in self.x]
        self.allowed = [self._allowed(j) for j in range(len(self.x))]

    def _allowed(self, j: int) -> Bools | None:
        """Return which joint states of the parents agree with each row ``(n_rows, K)``; None: all."""
        layout, table = self.leaves.layout, self.table
        scope = layout.scope(j)
        if not (table.codes[scope] != table.missing).any():
            return None
        found = np.ones((table.n_rows, int(layout.factor_size[j])), np.bool_)
        states = np.indices(layout.shape(j)).reshape(len(scope), -1)
        for v, own in zip(scope, states, strict=True):
            codes = table.codes[v][:, None]
            found &= (codes == table.missing) | (codes == own)
        return found

    def partial(self) -> Bools:
        """Return which rows have some leaf in part."""
        found = np.zeros(self.table.n_rows, np.bool_)
        for has, whole in zip(self.has, self.whole, strict=True):
            found |= has & ~whole
        return found

    def seen(self, j: int) -> Bools:
        """Return which rows observe all parents of a leaf."""
        scope = self.leaves.layout.scope(j)
        return np.asarray((self.table.codes[scope] != self.table.missing).all(axis=0))

    def settled(self, j: int) -> Bools:
        """Return which rows observe all parents and all columns of a leaf."""
        return self.seen(j) & self.whole[j]

    def evidence(self, flat: Floats, *, count_seen: bool = True) -> tuple[Floats, Floats]:
        """Return soft evidence ``(n_rows, n_cells)``, at most one, and the logs it was divided by ``(n_rows,)``.

        Where all parents are seen that log is the log density; ``count_seen=False`` leaves out those that have all
        columns, too.
        """
        leaves, n = self.leaves, self.table.n_rows
        soft, shift = np.ones((n, leaves.layout.n_cells)), np.zeros(n)
        for j, (x, has, allowed) in enumerate(zip(self.x, self.has, self.allowed, strict=True)):
            counted = has if count_seen else has & ~self.settled(j)
            means, covariances = leaves.split(flat, j)
            logs = log_densities(x[counted], means, covariances, leaves.leaves[j].covariance == "diagonal")
            if allowed is not None:
                logs[~allowed[counted]] = -np.inf
            top = logs.max(axis=1)
            soft[counted, leaves.layout.cells(j)] = np.exp(logs - top[:, None])
            shift[counted] += top
        return soft, shift

    def statistics(self) -> Floats:
        """Return the statistics of the rows that observe all parents and all columns, which never change."""
        leaves, found = self.leaves, np.zeros(self.leaves.size)
        for j, x in enumerate(self.x):
            rows = self.settled(j)
            diagonal = leaves.leaves[j].covariance == "diagonal"
            leaves.part(found, j)[:] = statistics(x[rows], self._known(j, rows), diagonal)
        return found

    def expected(self, posterior: Floats, flat: Floats) -> Floats:
        """Return the statistics of the other rows on average under the numbers of now.

        ``posterior (n_rows, n_cells)`` are those of the parents' joint states, times the weights of the rows.
        """
        leaves, found = self.leaves, np.zeros(self.leaves.size)
        for j, (x, has) in enumerate(zip(self.x, self.has, strict=True)):
            seen, rows = self.seen(j), has & ~self.settled(j)
            weights = posterior[:, leaves.layout.cells(j)][rows]
            known = seen[rows]
            weights[known] = self._known(j, rows & seen)
            diagonal = leaves.leaves[j].covariance == "diagonal"
            leaves.part(found, j)[:] = expected_statistics(x[rows], weights, *leaves.split(flat, j), diagonal)
        return found

    def _known(self, j: int, rows: Bools) -> Floats:
        """Return the weights of rows that observe all parents, in the column of their joint state."""
        allowed, weights = self.allowed[j], self.table.weights
        found = np.ones((int(rows.sum()), 1)) if allowed is None else allowed[rows].astype(np.float64)
        return found if weights is None else found * weights[rows][:, None]

    def log_density_of(self, flat: Floats, sums: Floats) -> float:
        """Return the log density of rows from their statistics."""
        total = 0.0
        for j, d in enumerate(self.leaves.widths):
            means, covariances = self.leaves.split(flat, j)
            part = self.leaves.part(sums, j)
            for k in np.flatnonzero(part[:, 0] > 0.0):
                first, second = part[k, 1 : 1 + d], part[k, 1 + d :].reshape(d, d)
                cross = np.outer(first, means[k])
                around = second - cross - cross.T + part[k, 0] * np.outer(means[k], means[k])
                _, log_det = np.linalg.slogdet(covariances[k])
                distance = float(np.trace(np.linalg.solve(covariances[k], around)))
                total -= 0.5 * (part[k, 0] * (d * np.log(2.0 * np.pi) + float(log_det)) + distance)
        return total
