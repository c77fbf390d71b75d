"""Tables of rows from what people have (:mod:`beliefs.model.rows.columns`), whole or in chunks.

Columns meet variables by name. Codes are written chunk by chunk, so a memory map is read once, a piece at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.model.naming import Naming
from beliefs.model.rows.column import Column
from beliefs.model.rows.columns import NO_ROWS, CodedColumn, are_chunks, named_columns, plain_rows
from beliefs.model.rows.table import Codes, RowTable, code_type
from beliefs.model.variable import suggestion
from beliefs.typing import Floats

__all__ = ["chunk_tables", "read_rows", "row_weights"]

_PIECE = 2**13  # rows of an array that are coded at a time: they stay in cache while all columns are read

States = Mapping[str, Sequence[str]]


def read_rows(
    data: Any,
    naming: Naming | None = None,
    *,
    states: States | None = None,
    hidden: Collection[str] = (),
    weights: ArrayLike | None = None,
) -> RowTable:
    """Return data as a table; a table with the same variables and states is returned as it is.

    Parameters
    ----------
    data : array, list of rows or dicts, mapping of columns, DataFrame, RowTable, or an iterator of chunks of these
    naming : Naming, optional
        The variables and states that the columns must have; the table has its variables in its order.
    states : mapping, optional
        States of some columns, where there is no ``naming``.
    hidden : collection of str
        Variables without a column: all their cells are missing.
    weights : array_like (n_rows,), optional
        How often each row counts.

    Raises
    ------
    ModelError
        For no rows, unknown columns and states, variables without a column, and weights that make no sense.
    """
    if isinstance(data, RowTable) and naming is None:
        table = data
    else:
        labels = None if naming is None else [naming.states(v) for v in range(naming.card.size)]
        names = None if naming is None else [naming.name(v) for v in range(naming.card.size)]
        reader = _Reader(names, labels, states or {}, frozenset(hidden))
        for chunk in data if are_chunks(data) else (data,):
            reader.add(chunk)
        table = reader.finish()
    kept = data.weights if isinstance(data, RowTable) else None
    found = row_weights(kept if weights is None else weights, table.n_rows)
    return table if found is None else RowTable(table.names, table.labels, table.codes, found)


def chunk_tables(data: Any, naming: Naming, hidden: Collection[str] = ()) -> Iterator[RowTable]:
    """Yield one table a chunk; the states are those of the variables."""
    for chunk in data:
        yield read_rows(chunk, naming, hidden=hidden)


def row_weights(weights: ArrayLike | None, n_rows: int) -> Floats | None:
    """Check weights of rows."""
    if weights is None:
        return None
    found = np.asarray(weights)
    if found.dtype.kind not in "iufb" or found.shape != (n_rows,):
        raise ModelError(f"sample_weight must be {n_rows} numbers, one a row, found {found.dtype} of {found.shape}")
    numbers = found.astype(np.float64)
    wrong = ~(numbers >= 0.0) | np.isinf(numbers)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ModelError(f"sample_weight of row {at} must be finite and at least 0, found {numbers[at]}")
    if not numbers.any():
        raise ModelError("every sample_weight is zero; at least one row must count")
    return numbers


class _Reader:
    """Codes of chunks, as they come by."""

    def __init__(
        self,
        names: Sequence[str] | None,
        labels: Sequence[Sequence[str]] | None,
        states: States,
        hidden: Collection[str],
    ) -> None:
        self.names, self.labels, self.states, self.hidden = names, labels, states, hidden
        self.columns: list[Column] | None = None
        self.n_rows = 0
        self.pieces: list[Codes] = []  # of each chunk

    def add(self, chunk: Any) -> None:
        """Code one more chunk."""
        if isinstance(chunk, RowTable):
            table = chunk
            chunk = {
                name: CodedColumn(table.codes[c], table.labels[c], table.missing) for c, name in enumerate(table.names)
            }
        chunk = plain_rows(chunk)
        found = named_columns(chunk, self.names, self.hidden)
        if self.columns is None:
            self.columns = self._columns(found)
        self._check_names(found)
        lengths = {len(values) for values in found.values()}
        if len(lengths) > 1:
            raise ModelError(f"the columns differ in length: {', '.join(map(str, sorted(lengths)))} rows")
        n_rows = lengths.pop() if lengths else 0
        written = _Codes(len(self.columns), n_rows)
        together = []  # columns of arrays: rows lie side by side, and are read once
        for c, column in enumerate(self.columns):
            values = found.get(column.name)
            if isinstance(values, np.ndarray):
                together.append((c, column, values))
            elif values is not None:
                written.put(c, 0, self._coded(column, values))
        for begin in range(0, n_rows, _PIECE):
            rows = slice(begin, begin + _PIECE)
            codes = self._plain_codes(chunk[rows], together) if isinstance(chunk, np.ndarray) else None
            if codes is not None:
                for (c, _, _), column_codes in zip(together, codes, strict=True):
                    written.codes[c, rows] = column_codes
                continue
            for c, column, values in together:
                written.put(c, begin, column.encode(values[rows], self.n_rows + begin))
        self.pieces.append(written.codes)
        self.n_rows += n_rows

    def _columns(self, found: Mapping[str, Any]) -> list[Column]:
        if self.names is not None and self.labels is not None:
            return [Column(name, labels) for name, labels in zip(self.names, self.labels, strict=True)]
        for name in self.states:
            if name not in found and name not in self.hidden:
                raise ModelError(f"states names a column {name!r} that is not there{suggestion(name, found)}")
        names = self.names or [*found, *sorted(name for name in self.hidden if name not in found)]
        return [Column(name, self.states.get(name)) for name in names]

    def _check_names(self, found: Mapping[str, Any]) -> None:
        known = [column.name for column in self.columns or ()]
        for name in found:
            if name not in known:
                raise ModelError(f"no variable {name!r} for this column; leave it out{suggestion(name, known)}")
        for name in known:
            if name not in found and name not in self.hidden:
                raise ModelError(f"variable {name!r} has no column; name it in hidden if it is never seen")

    def _plain_codes(self, rows: np.ndarray, columns: Sequence[tuple[int, Column, Any]]) -> Codes | None:
        """Return rows of an array as bytes ``(columns, rows)`` where they are codes; the columns know their largest.

        The whole piece is compared first and turned as bytes, which is quicker than column by column.
        """
        if rows.dtype.kind not in "iu" or rows.shape[1] != len(columns) or not rows.size:
            return None
        if rows.min() < -1 or rows.max() >= 255:
            return None
        codes = np.ascontiguousarray(rows.astype(np.uint8).T)  # -1, which is missing, becomes 255
        high = (codes + np.uint8(1)).max(axis=1).astype(np.int64) - 1
        if (high >= [column.most_codes for _, column, _ in columns]).any():
            return None
        for (_, column, _), top in zip(columns, high.tolist(), strict=True):
            column.accept(top)
        return codes

    def _coded(self, column: Column, values: Any) -> np.ndarray:
        """Return the codes of one column, -1 missing."""
        if isinstance(values, CodedColumn):
            column.adopt(values.labels)
            values = values.aligned(column)
            if isinstance(values, np.ndarray):
                return values
        return column.encode(values, self.n_rows)

    def finish(self) -> RowTable:
        """Return all chunks as one table."""
        if self.columns is None or self.n_rows == 0:
            raise ModelError(NO_ROWS)
        closed = [column.close() for column in self.columns]
        kind = code_type(max((len(labels) for labels, _ in closed), default=1))
        codes = self._joined(kind)
        missing = np.iinfo(kind).max
        for c, (_, new) in enumerate(closed):
            if new is not None:
                table = np.full(missing + 1, missing, kind)
                table[: new.size] = new
                codes[c] = table[codes[c]]
        return RowTable(tuple(column.name for column in self.columns), tuple(labels for labels, _ in closed), codes)

    def _joined(self, kind: Any) -> Codes:
        """Return the codes of all chunks; those that have been copied are let go."""
        if len(self.pieces) == 1 and self.pieces[0].dtype == kind:
            return self.pieces.pop()
        codes: Codes = np.empty((len(self.columns or ()), self.n_rows), kind)
        begin = 0
        for k, piece in enumerate(self.pieces):
            end = begin + piece.shape[1]
            codes[:, begin:end] = piece
            if piece.dtype != kind:
                codes[:, begin:end][piece == np.iinfo(piece.dtype).max] = np.iinfo(kind).max
            self.pieces[k] = np.zeros((0, 0), kind)
            begin = end
        return codes


class _Codes:
    """The codes of a chunk, all missing at first: one byte a cell until there are too many states for that."""

    def __init__(self, n_columns: int, n_rows: int) -> None:
        self.codes: Codes = np.full((n_columns, n_rows), 255, np.uint8)

    def put(self, c: int, begin: int, codes: np.ndarray) -> None:
        """Write the codes of a column from a row on; -1, which is missing, becomes the largest number."""
        if self.codes.itemsize == 1 and codes.max(initial=0) >= 255:
            missing = self.codes == 255
            self.codes = self.codes.astype(np.uint16)
            self.codes[missing] = np.iinfo(np.uint16).max
        self.codes[c, begin : begin + codes.size] = codes
