"""Tables of rows as learners take them: whatever the model's reader takes, and paths of CSV and Parquet files."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.io.rows import read_chunks
from beliefs.model.naming import Naming
from beliefs.model.rows.columns import gathered
from beliefs.model.rows.reading import read_rows
from beliefs.model.rows.table import RowTable

__all__ = ["filled_like", "joined_rows", "opened", "partitions_of", "table_of"]


def opened(data: Any) -> Any:
    """Return the chunks of a file where data is its path, partitions (dask) as chunks, rows one by one as a list."""
    if isinstance(data, str | os.PathLike):
        return read_chunks(data)
    parts = partitions_of(data)
    return gathered(data) if parts is None else (part.compute() for part in parts)


def partitions_of(data: Any) -> list[Any] | None:
    """Return the partitions of a frame or array of dask, each with all columns; None: it is none."""
    if not hasattr(data, "to_delayed"):
        return None
    if hasattr(data, "rechunk"):
        data = data.rechunk({1: -1})
    return list(np.ravel(np.asarray(data.to_delayed(), object)))


def table_of(
    data: Any,
    naming: Naming | None = None,
    *,
    states: Mapping[str, Sequence[str]] | None = None,
    hidden: Collection[str] = (),
    weights: ArrayLike | None = None,
) -> RowTable:
    """Return data as a table; see :func:`beliefs.model.rows.reading.read_rows`."""
    return read_rows(opened(data), naming, states=states, hidden=hidden, weights=weights)


def filled_like(data: Any, filled: RowTable, kept: Collection[str] = ()) -> Any:
    """Return filled rows as the data came: a frame of labels, or codes ``(n_rows, n_vars)`` in the table's order.

    ``kept`` are columns of a frame that stay as they were.
    """
    if not hasattr(data, "columns"):
        return filled.codes.T.astype(np.int64)
    values = dict(zip(filled.names, filled.labelled(), strict=True)) | {name: data[name] for name in kept}
    order = [*map(str, data.columns), *(name for name in filled.names if name not in set(map(str, data.columns)))]
    return type(data)({name: values[name] for name in order}, index=data.index)


def joined_rows(tables: Sequence[RowTable]) -> RowTable:
    """Return tables with the same columns end to end."""
    if len(tables) == 1:
        return tables[0]
    if not tables:
        raise ModelError("there are no rows; at least one is needed")
    weights = None
    if any(table.weights is not None for table in tables):
        weights = np.concatenate([np.ones(t.n_rows) if t.weights is None else t.weights for t in tables])
    codes = np.concatenate([table.codes for table in tables], axis=1)
    return RowTable(tables[0].names, tables[0].labels, codes, weights)
