"""A table of rows over discrete variables: one byte a cell, column by column.

``codes (n_columns, n_rows)`` has one byte a cell where no variable has more than 255 states, two otherwise; the largest
number of the type stands for a missing cell. Rows may be weighted, and equal rows merged to one with a weight.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefs.typing import Bools, Floats, Ints

__all__ = ["Codes", "RowTable", "code_type"]

Codes = NDArray[Any]
"""Codes of cells, uint8 or uint16."""

_DENSE = 2**20  # joint states that are counted in an array to find equal rows


def code_type(card: int) -> Any:
    """Return the type of the codes of up to ``card`` states and of missing cells."""
    return np.uint8 if card <= np.iinfo(np.uint8).max else np.uint16


@dataclass(frozen=True, eq=False)
class RowTable:
    """Rows of observations.

    Attributes
    ----------
    names : tuple of str
        The columns.
    labels : tuple of tuple of str
        The states of each.
    codes : ndarray (n_columns, n_rows)
        The states of the cells; see the module.
    weights : ndarray (n_rows,) or None
        How often each row counts; None: once.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    codes: Codes
    weights: Floats | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.codes.shape[1])

    @cached_property
    def missing(self) -> int:
        """The code of a missing cell."""
        return int(np.iinfo(self.codes.dtype).max)

    @cached_property
    def card(self) -> Ints:
        """Number of states of each column."""
        return np.array([len(labels) for labels in self.labels], np.int64)

    @cached_property
    def n_missing(self) -> Ints:
        """Missing cells of each column."""
        return np.array([np.count_nonzero(column == self.missing) for column in self.codes], np.int64)

    @cached_property
    def total(self) -> float:
        """The sum of the weights."""
        return float(self.n_rows) if self.weights is None else float(self.weights.sum())

    def incomplete(self) -> Bools:
        """Return which rows have missing cells."""
        found = np.zeros(self.n_rows, np.bool_)
        for column in np.flatnonzero(self.n_missing):
            found |= self.codes[column] == self.missing
        return found

    def take(self, rows: Any) -> RowTable:
        """Return some rows, by number, by a mask or a slice."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, codes=np.ascontiguousarray(self.codes[:, rows]), weights=weights)

    def columns(self, columns: Ints) -> RowTable:
        """Return some columns, by number."""
        names, labels = tuple(self.names[c] for c in columns), tuple(self.labels[c] for c in columns)
        return RowTable(names, labels, np.ascontiguousarray(self.codes[columns]), self.weights)

    def merged(self) -> tuple[RowTable, Ints]:
        """Return the distinct rows, weighted by how often they occur, and which of them each row is.

        Cost: one pass where the joint states fit into an array; otherwise rows are sorted.
        """
        if math.prod((self.card + 1).tolist()) <= max(_DENSE, 2 * self.n_rows):
            index = np.zeros(self.n_rows, np.int64)
            for column, k in zip(self.codes, self.card, strict=True):
                index = index * (k + 1) + np.minimum(column, k)
            sums = np.bincount(index, self.weights).astype(np.float64)
            seen = np.zeros(sums.size, np.bool_)
            seen[index] = True
            first = np.empty(sums.size, np.int64)
            first[index[::-1]] = np.arange(self.n_rows)[::-1]
            distinct = np.flatnonzero(seen)
            number = np.cumsum(seen) - 1
            return replace(self, codes=self.codes[:, first[distinct]], weights=sums[distinct]), number[index]
        rows = np.ascontiguousarray(self.codes.T)
        keys = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
        _, at, inverse = np.unique(keys, return_index=True, return_inverse=True)
        sums = np.bincount(inverse, self.weights).astype(np.float64)
        return replace(self, codes=np.ascontiguousarray(self.codes[:, at]), weights=sums), inverse

    def labelled(self) -> list[np.ndarray]:
        """Return the columns as labels, None where missing."""
        found = []
        for column, labels in zip(self.codes, self.labels, strict=True):
            states = np.array([*labels, None], object)
            found.append(states[np.minimum(column, len(labels))])
        return found

    def fingerprint(self) -> dict[str, str]:
        """Return sizes and checksums, by which a checkpoint knows its data."""
        weights = 0 if self.weights is None else zlib.crc32(self.weights.tobytes())
        return {
            "rows": str(self.n_rows),
            "columns": ",".join(self.names)[:200],
            "cells": f"{zlib.crc32(np.ascontiguousarray(self.codes).data):08x}",
            "weights of rows": f"{weights:08x}",
        }

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return f"RowTable({self.n_rows} rows of {len(self.names)} variables, {int(self.n_missing.sum())} cells missing)"
