r"""All Gaussian leaves of a structure: their columns in rows, soft evidence for the E-step, statistics for the M-step.

The density of a leaf's columns is a factor over its parents whose table is another for every row; the sweep of
:mod:`beliefs.inference.rows.sweep` takes it as soft evidence and returns its posterior, which is what the statistics of
:mod:`beliefs.learning.networks.gaussian` are weighted by. Densities are divided by the largest one of the row, whose
log is added to the row's log-likelihood. Where a row observes all parents and all columns its statistics never change
and are added up once. A leaf that a row lacks altogether says nothing of it; of one that it has in part the other
columns are missing cells like any.

Parameters and statistics of all leaves are one array each, of the same length: of each leaf ``(K, 1 + D + D * D)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.networks.gaussian import (
    FittedLeaf,
    GaussianLeaf,
    expected_statistics,
    log_densities,
    maximised,
    statistics,
)
from beliefs.learning.networks.structure import Structure
from beliefs.model.layout import Layout
from beliefs.model.naming import Naming
from beliefs.model.rows.table import RowTable
from beliefs.options import is_number, shown
from beliefs.typing import Bools, Floats, Ints

__all__ = ["LeafRows", "Leaves", "checked_leaves", "leaf_values"]


def checked_leaves(leaves: Any) -> dict[str, GaussianLeaf]:
    """Return leaves by name; refuse what is none, and columns of two leaves."""
    if leaves is None:
        return {}
    if not isinstance(leaves, Mapping) or not all(isinstance(leaf, GaussianLeaf) for leaf in leaves.values()):
        raise ModelError(f"leaves must be a mapping of names to GaussianLeaf, found {shown(leaves)}")
    seen: dict[str, str] = {}
    for name, leaf in leaves.items():
        for column in leaf.column_names:
            if column in seen:
                raise ModelError(f"column {column!r} is in two leaves, {seen[column]!r} and {name!r}")
            seen[column] = str(name)
    return {str(name): leaf for name, leaf in leaves.items()}


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


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of a structure.

    Attributes
    ----------
    layout : Layout
        One factor a leaf, over its parents.
    groups : tuple of tuple of int
        Leaves that share their numbers; every leaf is in one of them.
    origins : tuple of ndarray
        What is subtracted from each leaf's columns.
    overall : ndarray (size,)
        Statistics of all rows, for states that have none.
    """

    names: tuple[str, ...]
    leaves: tuple[GaussianLeaf, ...]
    layout: Layout
    groups: tuple[tuple[int, ...], ...]
    origins: tuple[Floats, ...]
    overall: tuple[Floats, ...]

    @classmethod
    def of(
        cls, structure: Structure, leaves: Mapping[str, GaussianLeaf], tied: Sequence[Sequence[str]],
        values: list[Floats],
    ) -> Leaves:  # fmt: skip
        """Bind leaves to a structure and to the rows that give origins and overall statistics."""
        origins, overall = [np.zeros(0)] * len(leaves), [np.zeros(0)] * len(leaves)
        bound = cls.bound(structure, leaves, tied, origins, overall)
        for group in bound.groups:
            together = np.concatenate([values[j] for j in group])
            together = together[~np.isnan(together).all(axis=1)]
            if not len(together):
                raise ModelError(f"no row has the columns of the leaf {bound.names[group[0]]!r}; leave the leaf out")
            empty = np.isnan(together).all(axis=0)
            if empty.any():
                column = bound.leaves[group[0]].column_names[int(np.argmax(empty))]
                raise ModelError(f"no row has a number in column {column!r}; leave it out of its leaf")
            origin = np.nanmean(together, axis=0)
            all_rows = _overall(together - origin)
            for j in group:
                origins[j], overall[j] = origin, all_rows
        return replace(bound, origins=tuple(origins), overall=tuple(overall))

    @classmethod
    def bound(
        cls, structure: Structure, leaves: Mapping[str, GaussianLeaf], tied: Sequence[Sequence[str]],
        origins: Sequence[Floats], overall: Sequence[Floats],
    ) -> Leaves:  # fmt: skip
        """Bind leaves to a structure, with origins and overall statistics as they are."""
        naming, names, given = structure.naming, tuple(leaves), tuple(leaves.values())
        known = {naming.name(v) for v in range(structure.n_vars)}
        for name, leaf in leaves.items():
            for word in (name, *leaf.column_names):
                if word in known:
                    raise ModelError(f"{word!r} is a variable of the structure and cannot be a leaf or its column")
        scopes = [[naming.index(parent) for parent in leaf.parent_names] for leaf in given]
        ends = np.cumsum([len(scope) for scope in scopes], dtype=np.int64)
        flat = np.array([v for scope in scopes for v in scope], np.int64)
        layout = Layout.build(naming.card, np.concatenate([[0], ends]), flat)
        groups = _groups(names, given, layout, tied)
        return cls(names, given, layout, groups, tuple(origins), tuple(overall))

    @cached_property
    def ptr(self) -> Ints:
        """Where each leaf's numbers begin."""
        sizes = [int(k) * (1 + d + d * d) for k, d in zip(self.layout.factor_size, self.widths, strict=True)]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @property
    def size(self) -> int:
        """Numbers of all leaves."""
        return int(self.ptr[-1])

    @cached_property
    def widths(self) -> list[int]:
        """Columns of each leaf."""
        return [len(leaf.column_names) for leaf in self.leaves]

    @property
    def n_parameters(self) -> int:
        """Free numbers."""
        total = 0
        for j in (group[0] for group in self.groups):
            k, d = int(self.layout.factor_size[j]), self.widths[j]
            matrix, kind = d * (d + 1) // 2, self.leaves[j].covariance
            total += k * d + {"full": k * matrix, "diagonal": k * d, "tied": matrix}[kind]
        return total

    def part(self, flat: Floats, j: int) -> Floats:
        """Return a leaf's numbers ``(K, 1 + D + D * D)``, a view."""
        return flat[self.ptr[j] : self.ptr[j + 1]].reshape(int(self.layout.factor_size[j]), -1)

    def split(self, flat: Floats, j: int) -> tuple[Floats, Floats]:
        """Return means ``(K, D)`` from the origin and covariances ``(K, D, D)``."""
        part, d = self.part(flat, j), self.widths[j]
        return part[:, 1 : 1 + d], part[:, 1 + d :].reshape(-1, d, d)

    def maximised(self, sums: Floats) -> Floats:
        """Return the parameters of largest likelihood from statistics; tied leaves share the sum of theirs."""
        found = np.empty_like(sums)
        for group in self.groups:
            first = group[0]
            total = np.sum([self.part(sums, j) for j in group], axis=0)
            leaf = self.leaves[first]
            numbers = maximised(total, self.widths[first], leaf.covariance, leaf.floor, self.overall[first])
            for j in group:
                self.part(found, j)[:] = numbers
        return found

    def start(self, seed: int, sums: Floats, values: list[Floats], given: bool) -> Floats:
        """Return where EM starts: numbers that are given, those of rows with parents seen, or random rows."""
        rng, found = np.random.default_rng([seed, 1]), self.maximised(sums)
        for group in self.groups:
            first, d = group[0], self.widths[group[0]]
            part = self.part(found, first)
            seen = sum(self.part(sums, j)[:, 0] for j in group) > 0.0
            x = np.concatenate([values[j] for j in group])
            x = np.nan_to_num(x[~np.isnan(x).all(axis=1)] - self.origins[first])
            free = np.flatnonzero(~seen)
            chosen = rng.choice(len(x), free.size, replace=free.size > len(x))
            part[free, 1 : 1 + d] = x[chosen]
            if given:
                self._take_given(first, part)
            for j in group:
                self.part(found, j)[:] = part
        return found

    def _take_given(self, j: int, part: Floats) -> None:
        leaf, d, shape = self.leaves[j], self.widths[j], self.layout.shape(j)
        if leaf.means is not None:
            means = _given(leaf.means, (*shape, d), f"means of the leaf {self.names[j]!r}")
            part[:, 1 : 1 + d] = means.reshape(-1, d) - self.origins[j]
        if leaf.covariances is not None:
            what = f"covariances of the leaf {self.names[j]!r}"
            matrices = _given(leaf.covariances, (*shape, d, d), what).reshape(-1, d, d)
            try:
                np.linalg.cholesky(matrices)
            except np.linalg.LinAlgError:
                raise ModelError(f"{what} must be positive definite") from None
            part[:, 1 + d :] = matrices.reshape(len(part), -1)

    def fitted(self, flat: Floats, naming: Naming) -> dict[str, FittedLeaf]:
        """Return the leaves with their numbers, by name."""
        found = {}
        for j, (name, leaf) in enumerate(zip(self.names, self.leaves, strict=True)):
            means, covariances = self.split(flat, j)
            shape, d = self.layout.shape(j), self.widths[j]
            found[name] = FittedLeaf(
                leaf.column_names,
                tuple(naming.name(int(v)) for v in self.layout.scope(j)),
                leaf.covariance,
                self.part(flat, j)[:, 0].reshape(shape).copy(),
                (means + self.origins[j]).reshape(*shape, d),
                covariances.reshape(*shape, d, d).copy(),
            )
        return found


def _given(numbers: Any, shape: tuple[int, ...], what: str) -> Floats:
    found = np.asarray(numbers, np.float64)
    if found.shape != shape or not np.isfinite(found).all():
        raise ModelError(f"{what} must be finite numbers of shape {shape}, found shape {found.shape}")
    return found


def _groups(
    names: tuple[str, ...], leaves: tuple[GaussianLeaf, ...], layout: Layout, tied: Sequence[Sequence[str]]
) -> tuple[tuple[int, ...], ...]:
    found, seen = [], set[int]()
    for group in tied:
        members = tuple(names.index(name) for name in group)
        for j in members:
            one, other = leaves[members[0]], leaves[j]
            same = layout.shape(j) == layout.shape(members[0]) and one.covariance == other.covariance
            if not same or len(one.column_names) != len(other.column_names):
                raise ModelError(
                    f"tied leaves must have as many columns, states of parents and the same covariance, found "
                    f"{names[members[0]]!r} and {names[j]!r}"
                )
            if j in seen:
                raise ModelError(f"the leaf {names[j]!r} is in two groups of tied tables")
            seen.add(j)
        found.append(members)
    return (*found, *((j,) for j in range(len(names)) if j not in seen))


def _overall(x: Floats) -> Floats:
    """Return statistics of all rows about their means; missing columns stand with their mean and variance."""
    missing = np.isnan(x)
    found: Floats = statistics(np.where(missing, 0.0, x), np.ones((len(x), 1)), False)[0]
    d = x.shape[1]
    found[1 + d :: d + 1] += missing.sum(axis=0) * np.nanmean(x * x, axis=0)
    return found


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
