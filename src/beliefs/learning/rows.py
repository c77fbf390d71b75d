"""Tables of rows as learners take them: whatever the model's reader takes, and paths of CSV and Parquet files."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from beliefs.io.rows import read_chunks
from beliefs.model.naming import Naming
from beliefs.model.rows.reading import read_rows
from beliefs.model.rows.table import RowTable

__all__ = ["opened", "table_of"]


def opened(data: Any) -> Any:
    """Return the chunks of a file where data is its path, else the data; partitions (dask) are chunks too."""
    if isinstance(data, str | os.PathLike):
        return read_chunks(data)
    if hasattr(data, "to_delayed"):
        return (part.compute() for part in data.to_delayed())
    return data


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
