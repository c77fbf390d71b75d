"""All Gaussian leaves of a structure: which columns and parents they have, which share numbers, and the numbers.

Parameters and statistics of all leaves are one array each, of the same length. Of each leaf they are
``(K, 1 + D + D * D)``: for each joint state of its parents the count, D means from the origin (of statistics sums) and
D x D covariances (of statistics products). What rows say of them is in :mod:`beliefs.learning.networks.leaf_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.networks.gaussian import FittedLeaf, GaussianLeaf, maximised, statistics
from beliefs.learning.networks.structure import Structure
from beliefs.model.layout import Layout
from beliefs.model.naming import Naming
from beliefs.options import shown
from beliefs.typing import Floats, Ints

__all__ = ["Leaves", "checked_leaves"]


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
