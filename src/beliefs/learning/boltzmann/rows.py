"""Rows of bits as a fit reads them: arrays, memory maps and sparse matrices stay as they are stored.

Numbers of the machine's type are made a mini-batch at a time (:meth:`BitRows.into`), so that memory does not grow with
the rows. What counts as a bit is said by ``binarize``:

============  ======================================================================================================
None          only 0 and 1 are bits; anything else is refused, by its row and unit
a number      what is above it is 1
``"sample"``  values are probabilities of 1, and bits are drawn anew for every pass over the data
``"mean"``    values are probabilities of 1, and taken as they are
============  ======================================================================================================
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
from scipy.sparse import issparse

from beliefs.errors import ModelError
from beliefs.learning.data import Data, read_once
from beliefs.options import check_option, is_number, is_word, shown
from beliefs.typing import Floats, Ints

__all__ = ["BitRows", "RowStream", "bit_rows", "check_binarize", "joined"]

_PIECE = 1024  # rows that are looked at together
_CHECKSUM = 2**28  # bytes of which a checkpoint takes the checksum; of more, that of some rows
_LONG = 2**40  # more rows than any pass has
_WORDS = ("sample", "mean")


def check_binarize(value: Any) -> None:
    """Raise for anything that is no way to make bits."""
    good = value is None or is_number(value) or is_word(value, _WORDS)
    check_option(good, "binarize", "None, a threshold, 'sample' or 'mean'", value)


@dataclass(frozen=True, eq=False)
class BitRows(Data):
    """Rows of a table that were checked; :func:`bit_rows` makes it.

    Attributes
    ----------
    table : ndarray or csr_matrix (N, width)
        As it is stored.
    numbers : ndarray of int, optional
        The rows that these are, in this order; None: all.
    binarize : None, float or str
    seed, n_pass : int
        Of the bits that are drawn.
    """

    table: Any
    numbers: Ints | None = None
    binarize: Any = None
    seed: int = 0
    n_pass: int = 0
    _sums: dict[str, str] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return int(self.table.shape[0]) if self.numbers is None else len(self.numbers)

    @property
    def width(self) -> int:
        """Number of visible units."""
        return int(self.table.shape[1])

    @property
    def n_labelled(self) -> float:
        """One a row: losses are per row."""
        return float(len(self))

    def take(self, numbers: Ints) -> BitRows:
        """Return some of the rows; nothing is copied."""
        chosen = numbers if self.numbers is None else self.numbers[numbers]
        return BitRows(self.table, chosen, self.binarize, self.seed, self.n_pass)

    def of_pass(self, n_pass: int) -> BitRows:
        """Return the rows as a pass over them sees them."""
        return replace(self, n_pass=n_pass) if self.binarize == "sample" else self

    def fingerprint(self) -> dict[str, str]:
        """Return sizes and checksums."""
        if not self._sums:
            drawn = f"binarize={self.binarize!r}"
            self._sums["rows"] = f"{len(self)} of width {self.width}, {drawn}, {self._checksum():08x}"
        return self._sums

    def _checksum(self) -> int:
        crc = 0
        every = max(1, len(self) * self.width * 8 // _CHECKSUM)
        for begin in range(0, len(self), _PIECE * every):
            crc = zlib.crc32(np.ascontiguousarray(self._stored(slice(begin, begin + _PIECE))).data, crc)
        return crc

    def _stored(self, rows: slice) -> np.ndarray:
        """Return some rows, dense, in the type they are stored in."""
        found = self.table[rows if self.numbers is None else self.numbers[rows]]
        return found.toarray() if issparse(found) else np.asarray(found)

    def into(self, out: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
        """Write some rows in the type of ``out (n, width)``, and return it."""
        values = self._stored(rows)
        if self.binarize is None or self.binarize == "mean":
            out[:] = values
        elif self.binarize == "sample":
            begin = rows.start or 0
            first = begin if self.numbers is None else int(self.numbers[begin])
            drawn = np.random.default_rng([self.seed, self.n_pass, first]).random(values.shape)
            np.less(drawn, values, out=out, casting="unsafe")
        else:
            np.greater(values, self.binarize, out=out, casting="unsafe")
        return out

    def log_odds(self) -> Floats:
        """Return the log odds of 1 of every unit, of one row of each kind more than there are: finite."""
        ones = np.zeros(self.width)
        for _, piece in self.pieces(np.float32):
            ones += piece.sum(axis=0)
        odds: Floats = np.log((ones + 1.0) / (len(self) - ones + 1.0))
        return odds

    def pieces(self, dtype: Any, size: int = _PIECE) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield all rows a piece at a time, each with its place; the memory is used again for the next."""
        buffer = np.empty((min(size, len(self)), self.width), dtype)
        for begin in range(0, len(self), size):
            rows = slice(begin, min(begin + size, len(self)))
            yield rows, self.into(buffer[: rows.stop - begin], rows)


class RowStream:
    """Rows from a generator or another source, one after the other, checked as they come.

    A generator can be read once; of an object whose ``__iter__`` starts anew every pass is a reading. What it yields
    are rows, or blocks of them.
    """

    def __init__(self, source: Iterable[Any], binarize: Any, seed: int, name: str) -> None:
        self.source, self.binarize, self.seed, self.name = source, binarize, seed, name
        self.once, self.n_pass = read_once(source), 0
        reader = iter(source)
        first = next(reader, None)
        if first is None:
            raise ModelError(f"expected rows in {name}, found none")
        self.width = self._block(first, 0, None).width
        if self.once:
            self.source = chain([first], reader)

    def _block(self, value: Any, begin: int, width: int | None) -> BitRows:
        table = value if issparse(value) else np.atleast_2d(np.asarray(value))
        return bit_rows(table, self.binarize, self.seed, self.name, width=width, begin=begin)

    def rows(self) -> Iterator[BitRows]:
        """Yield the rows one at a time, as bits or probabilities."""
        begin, kept = 0, "mean" if self.binarize == "mean" else None
        for value in self.source:
            block = self._block(value, begin, self.width)
            drawn = replace(block, n_pass=_LONG * self.n_pass + begin)  # numbers of its own for each block and pass
            made = drawn.into(np.empty((len(block), self.width), np.float64 if kept else np.uint8))
            for row in made:
                yield BitRows(row[None], None, kept)
            begin += len(block)
        self.n_pass += 1

    def data(self) -> Any:
        """Return what a fit takes: an iterator that is read once, or an object that is read again and again."""
        return self.rows() if self.once else self

    def __iter__(self) -> Iterator[BitRows]:
        return self.rows()


def joined(data: Any) -> BitRows:
    """Return rows as they are, or those of a mini-batch from a stream as one table."""
    if isinstance(data, BitRows):
        return data
    blocks = list(data)
    if not blocks or not all(isinstance(block, BitRows) for block in blocks):
        raise ModelError("a loss of machines takes rows, found " + (type(blocks[0]).__name__ if blocks else "none"))
    return BitRows(np.concatenate([block.table for block in blocks]), None, blocks[0].binarize)


def bit_rows(
    X: Any, binarize: Any = None, seed: int = 0, name: str = "X", *, width: int | None = None, begin: int = 0
) -> BitRows:
    """Check a table of rows, without a copy of it.

    Parameters
    ----------
    X : array_like or sparse matrix (N, width)
        Of bool, integers or floats.
    name : str
        What messages call it.
    width : int, optional
        Number of visible units that there must be.
    begin : int
        Number of the first row, for messages.
    """
    if isinstance(X, BitRows):
        return X
    table = X.tocsr() if issparse(X) else _dense(X, name)
    if table.dtype.kind not in "biuf":
        raise ModelError(f"{name} must be numbers, found an array of {table.dtype}")
    wanted = "(rows, units)" if width is None else f"(rows, {width})"
    if table.ndim != 2 or table.shape[1] < 1 or (width is not None and table.shape[1] != width):
        raise ModelError(f"{name} must have shape {wanted}, found {table.shape}")
    if table.shape[0] < 1:
        raise ModelError(f"expected rows in {name}, found none")
    found = BitRows(table, None, binarize, seed)
    if table.dtype.kind != "b":
        _check_cells(found, name, begin)
    return found


def _dense(X: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(X)
    except ValueError as error:  # rows of different length
        raise ModelError(f"{name} must be a table of rows ({' '.join(str(error).split())})") from None


def _check_cells(rows: BitRows, name: str, begin: int) -> None:
    """Raise for the first cell that cannot be made a bit."""
    for at in range(0, len(rows), _PIECE):
        values = rows._stored(slice(at, at + _PIECE))
        if rows.binarize is None:
            wrong, expected = ~((values == 0) | (values == 1)), "0 or 1 (or give binarize)"
        elif isinstance(rows.binarize, str):
            wrong, expected = ~((values >= 0) & (values <= 1)), "between 0 and 1"
        else:
            wrong, expected = np.isnan(values), "a number"
        if wrong.any():
            r, i = np.argwhere(wrong)[0]
            raise ModelError(
                f"{name} must be {expected}, found {shown(values[r, i].item())} in row {begin + at + r}, unit {i}"
            )
