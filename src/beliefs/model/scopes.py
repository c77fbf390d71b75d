"""Sets of variables as arrays: questions about all pairs of them at once.

A planner that asks one set after the other in Python takes microseconds a question; region graphs of large grids have
millions of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from beliefs.model.layout import offsets
from beliefs.typing import Bools, Ints

__all__ = ["Scopes", "row_codes", "within"]


@dataclass(frozen=True, eq=False)
class Scopes:
    """Row ``r`` has the variables ``var[ptr[r]:ptr[r+1]]``."""

    ptr: Ints
    var: Ints

    @classmethod
    def of(cls, rows: Sequence[tuple[int, ...]]) -> Scopes:
        """Return tuples side by side."""
        ptr = offsets(np.fromiter(map(len, rows), np.int64, len(rows)))
        return cls(ptr, np.fromiter(chain.from_iterable(rows), np.int64, int(ptr[-1])))

    @property
    def size(self) -> Ints:
        """The number of variables of each row."""
        return np.diff(self.ptr)

    @cached_property
    def row(self) -> Ints:
        """The row of each entry."""
        return np.repeat(np.arange(self.ptr.size - 1), self.size)

    @property
    def next(self) -> Ints:
        """What follows each entry in its row, the first after the last."""
        after = np.arange(1, self.var.size + 1)
        full = self.size > 0
        after[self.ptr[1:][full] - 1] = self.ptr[:-1][full]
        return self.var[after]

    @cached_property
    def _sorted(self) -> tuple[int, Ints, Ints]:
        base = int(self.var.max(initial=0)) + 1
        keys = self.row * base + self.var
        order = np.argsort(keys, kind="stable")
        return base, keys[order], order

    def place(self, row: Ints, var: Ints) -> Ints:
        """Return where each variable is in its row; it must be there."""
        base, keys, order = self._sorted
        return order[np.searchsorted(keys, row * base + var)] - self.ptr[row]

    def ascending(self) -> Scopes:
        """Return the same rows, each in ascending order."""
        return Scopes(self.ptr, self.var[self._sorted[2]])

    def take(self, rows: Ints) -> Scopes:
        """Return some rows."""
        ptr = offsets(self.size[rows])
        return Scopes(ptr, self.var[within(self.ptr[:-1][rows], self.size[rows])])

    def keep(self, entries: Bools) -> Scopes:
        """Return the rows without some of their entries."""
        return Scopes(offsets(np.bincount(self.row[entries], minlength=self.ptr.size - 1)), self.var[entries])


def within(starts: Ints, lengths: Ints) -> Ints:
    """Return the numbers of several ranges side by side.

    Examples
    --------
    >>> within(np.array([5, 1]), np.array([2, 3])).tolist()
    [5, 6, 1, 2, 3]
    """
    ptr = offsets(lengths)
    return np.repeat(starts - ptr[:-1], lengths) + np.arange(ptr[-1])


def row_codes(rows: Scopes, before: Ints | None = None) -> Ints:
    """Return one number a row, the same for equal rows only (with equal numbers ``before``, where given).

    Cost: a pass a column, and sorting where numbers would become too large.
    """
    size = rows.size
    code = size if before is None else before * (int(size.max(initial=0)) + 1) + size
    base = int(rows.var.max(initial=0)) + 2
    for column in range(int(size.max(initial=0))):
        if int(code.max(initial=0)) >= 2**62 // base:
            code = np.unique(code, return_inverse=True)[1].astype(np.int64)
        has = size > column
        code = code * base
        code[has] += rows.var[rows.ptr[:-1][has] + column] + 1
    return code
