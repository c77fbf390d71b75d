"""What people have, as columns by name: arrays, lists of rows or dicts, mappings of columns, frames, tables.

An array has no names: its columns are the given variables in their order, or ``x0, x1, ...`` where none are given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.model.naming import Naming
from beliefs.model.rows.column import Column
from beliefs.model.rows.table import Codes, RowTable
from beliefs.options import is_iterable, shown

__all__ = [
    "NO_ROWS",
    "CodedColumn",
    "are_chunks",
    "are_records",
    "gathered",
    "is_record",
    "named_columns",
    "plain_rows",
    "without_column",
]

NO_ROWS = "there are no rows; at least one is needed"
_LOOKED_AT = 2**13  # entries in which a row by name is looked for


def are_chunks(data: Any) -> bool:
    """Whether data comes in chunks: an iterator, or a list of frames, arrays of rows or tables."""
    if isinstance(data, list | tuple):
        return bool(data) and all(
            isinstance(part, RowTable) or hasattr(part, "columns") or getattr(part, "ndim", 0) == 2 for part in data
        )
    known = isinstance(data, RowTable | Mapping | np.ndarray | str) or hasattr(data, "columns")
    return not known and isinstance(data, Iterable) and not hasattr(data, "__array__") and not hasattr(data, "__len__")


def are_records(data: Any) -> bool:
    """Whether data is a list of rows that name their columns: ``{name: state}``, or rows of a frame."""
    if isinstance(data, Mapping | str) or not isinstance(data, Collection) or hasattr(data, "columns"):
        return False
    return getattr(data, "ndim", 1) == 1 and len(data) > 0 and all(map(is_record, data))


def gathered(data: Any) -> Any:
    """Return rows by name that come one by one as a list; all else, chunks of tables among it, as it is."""
    if not isinstance(data, Iterator):
        return data
    first = next(data, None)
    if first is None:
        return []
    one_row = is_record(first) and not any(is_iterable(x) and not isinstance(x, str) for _, x in first.items())
    return [first, *data] if one_row else chain([first], data)


def is_record(row: Any) -> bool:
    """Whether something is a row that names its columns: a dict, or a row of a frame."""
    return isinstance(row, Mapping) or (hasattr(row, "items") and hasattr(row, "keys") and not hasattr(row, "columns"))


def named_columns(chunk: Any, names: Sequence[str] | None, hidden: Collection[str]) -> dict[str, Any]:
    """Return the columns of one chunk by name; an array's are the given variables that are not hidden."""
    if isinstance(chunk, Mapping) or hasattr(chunk, "columns"):
        found = {str(name): chunk[name] for name in (chunk if isinstance(chunk, Mapping) else chunk.columns)}
        if len(found) < len(chunk if isinstance(chunk, Mapping) else chunk.columns):
            raise ModelError("two columns have the same name")
        for name, values in found.items():
            if isinstance(values, str | int | float):
                raise ModelError(
                    f"column {name!r} must be a list, found {values!r}; a single row is passed as [row], rows as a list"
                )
        return {name: _column(values) for name, values in found.items()}
    if are_records(chunk):
        keys = list(dict.fromkeys(key for row in chunk for key in row.keys()))
        found = {str(key): _array([row.get(key) for row in chunk]) for key in keys}
        if len(found) < len(keys):
            raise ModelError("two columns have the same name")
        return found
    if not isinstance(chunk, Iterable):
        hint = "; give its to_frame()" if hasattr(chunk, "to_frame") else ""
        raise ModelError(f"rows must be a table, a list of rows or columns by name, found {type(chunk).__name__}{hint}")
    array = chunk if isinstance(chunk, np.ndarray) else _array(chunk)
    if array.shape == (0,):
        raise ModelError(NO_ROWS)
    if array.ndim != 2:
        raise ModelError(f"rows must form a table of two axes, (rows, columns), found {array.ndim}{_single(array)}")
    visible = [name for name in names or () if name not in hidden]
    if names is None:
        visible = [f"x{c}" for c in range(array.shape[1])]
    elif array.shape[1] == len(names):
        visible = list(names)
    if len(visible) != array.shape[1]:
        raise ModelError(f"expected {len(visible or names or ())} columns, one a variable, found {array.shape[1]}")
    return {name: array[:, c] for c, name in enumerate(visible)}


def _single(array: np.ndarray) -> str:
    """Return a hint at what stands in place of a list of rows."""
    named = [row for row, cell in enumerate(array[:_LOOKED_AT].tolist()) if is_record(cell)] if array.ndim == 1 else []
    if named:
        other = next(row for row in range(array.size) if not is_record(array[row]))
        return f": row {named[0]} names its columns, and row {other} is {shown(array[other])}"
    return "; a single row is passed as [row], rows as a list" if array.ndim == 1 else ""


def without_column(data: Any, naming: Naming) -> list[str]:
    """Return the variables that have no column in data that names its columns; of other data none are missing."""
    if isinstance(data, RowTable):
        given = set(data.names)
    elif hasattr(data, "columns") or hasattr(data, "keys") or are_records(data):
        given = set(named_columns(data, None, ()))
    else:
        return []
    return [name for v in range(naming.card.size) if (name := naming.name(v)) not in given]


class CodedColumn:
    """A column that is coded already: codes, the labels they stand for, and the code of a missing cell."""

    def __init__(self, codes: Codes, labels: Sequence[str], missing: int) -> None:
        self.codes, self.labels, self.missing = codes, labels, missing

    def __len__(self) -> int:
        return int(self.codes.size)

    def aligned(self, column: Column) -> Any:
        """Return codes where the states agree, else labels."""
        if column.labels is not None and tuple(column.labels) == tuple(self.labels):
            return np.where(self.codes == self.missing, -1, self.codes.astype(np.int32))
        states = np.array([*self.labels, None], object)
        return states[np.minimum(self.codes, len(self.labels))].tolist()


def plain_rows(chunk: Any) -> Any:
    """Return arrays of other classes as plain ones, with masked cells as missing."""
    if isinstance(chunk, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(chunk)
        if not mask.any():
            return chunk.data
        cells = chunk.data.astype(object)
        cells[mask] = None
        return cells
    if hasattr(chunk, "tocsr"):
        raise ModelError("rows must be a table of states, found a sparse matrix; give its toarray()")
    return np.asarray(chunk) if isinstance(chunk, np.ndarray) else chunk


def _column(values: Any) -> Any:
    values = plain_rows(values) if isinstance(values, np.ndarray) else values
    return values if hasattr(values, "dtype") or isinstance(values, CodedColumn) else _array(values)


def _array(values: Any) -> np.ndarray:
    """Return lists as an array: numbers stay numbers only if all are."""
    if not hasattr(values, "__array__") and not isinstance(values, Iterable):
        raise ModelError(f"rows must form a table of two axes, (rows, columns), found {type(values).__name__}")
    rows = list(values) if not hasattr(values, "__array__") else values
    if hasattr(rows, "__array__"):
        return np.asarray(rows)
    flat = [cell for row in rows for cell in (row if isinstance(row, list | tuple | np.ndarray) else [row])]
    numbers = all(isinstance(cell, int | float | np.number) and not isinstance(cell, bool) for cell in flat)
    try:
        return np.array(rows) if numbers else np.array(rows, object)
    except ValueError:
        raise ModelError("rows differ in length; each has one cell a column") from None
