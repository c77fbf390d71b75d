"""Rows of inputs, each with a row of bits, as a fit reads them: they stay as they are stored.

Numbers of the machine's type are made a piece at a time (:meth:`PairedRows.into`), so that memory does not grow with
the rows. A bit of -1 is hidden.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from beliefs.errors import ModelError
from beliefs.learning.data import Data
from beliefs.model.crbm import checked_inputs
from beliefs.model.machine import number_array
from beliefs.options import shown
from beliefs.typing import Ints

__all__ = ["PairedRows", "paired_rows"]

_PIECE = 4096  # rows that are looked at together


@dataclass(frozen=True, eq=False)
class PairedRows(Data):
    """Inputs and bits that were checked; :func:`paired_rows` makes it.

    Attributes
    ----------
    inputs : ndarray or csr_matrix (N, n_inputs)
    bits : ndarray (N, n_visible)
        0, 1, or -1 where nothing is known.
    numbers : ndarray of int, optional
        The rows that these are, in this order; None: all.
    n_pass : int
        Passes over the data that were finished before this one.
    """

    inputs: Any
    bits: np.ndarray
    numbers: Ints | None = None
    n_pass: int = 0
    _sums: dict[str, str] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.bits) if self.numbers is None else len(self.numbers)

    @property
    def n_labelled(self) -> float:
        """One a row: losses are per row."""
        return float(len(self))

    @property
    def has_hidden(self) -> bool:
        """Whether a bit is -1."""
        if self.bits.dtype.kind in "bu":
            return False
        return any((self._bits(slice(at, at + _PIECE)) < 0).any() for at in range(0, len(self), _PIECE))

    def take(self, numbers: Ints) -> PairedRows:
        """Return some of the rows; nothing is copied."""
        return replace(self, numbers=numbers if self.numbers is None else self.numbers[numbers])

    def of_pass(self, n_pass: int) -> PairedRows:
        """Return the rows as a pass over them sees them."""
        return replace(self, n_pass=n_pass)

    def fingerprint(self) -> dict[str, str]:
        """Return sizes and checksums."""
        if not self._sums:
            crc = 0
            for at in range(0, len(self), _PIECE):
                rows = slice(at, at + _PIECE)
                crc = zlib.crc32(np.ascontiguousarray(self._bits(rows)).data, crc)
                crc = zlib.crc32(np.ascontiguousarray(self._inputs(rows)).data, crc)
            self._sums["rows"] = (
                f"{len(self)} of {self.inputs.shape[1]} inputs and {self.bits.shape[1]} bits, {crc:08x}"
            )
        return self._sums

    def into(self, inputs: np.ndarray, bits: np.ndarray, rows: slice) -> None:
        """Write some rows in the types of the arrays."""
        inputs[:] = self._inputs(rows)
        bits[:] = self._bits(rows)

    def everything(self) -> tuple[Any, np.ndarray]:
        """Return inputs and bits, copies where these are some of the rows."""
        if self.numbers is None:
            return self.inputs, self.bits
        return self.inputs[self.numbers], self.bits[self.numbers]

    def _bits(self, rows: slice) -> np.ndarray:
        return np.asarray(self.bits[rows if self.numbers is None else self.numbers[rows]])

    def _inputs(self, rows: slice) -> np.ndarray:
        found = self.inputs[rows if self.numbers is None else self.numbers[rows]]
        return found.toarray() if issparse(found) else np.asarray(found)


def paired_rows(X: Any, V: Any, n_inputs: int | None = None, n_visible: int | None = None) -> PairedRows:
    """Check inputs and bits, without a copy of them."""
    inputs = checked_inputs(X, n_inputs, "X")
    if inputs.ndim != 2:
        raise ModelError(f"X must have shape (rows, inputs), found {inputs.shape}")
    bits = number_array(V, "V", "bits")
    wanted = "(rows, units)" if n_visible is None else f"(rows, {n_visible})"
    if bits.ndim != 2 or bits.shape[1] < 1 or (n_visible is not None and bits.shape[1] != n_visible):
        raise ModelError(f"V must have shape {wanted}, found {bits.shape}")
    if len(bits) != inputs.shape[0]:
        raise ModelError(f"X has {inputs.shape[0]} rows and V has {len(bits)}")
    if not len(bits):
        raise ModelError("expected rows in X and V, found none")
    for at in range(0, len(bits), _PIECE):
        piece = bits[at : at + _PIECE]
        wrong = np.zeros(piece.shape, np.bool_) if bits.dtype.kind == "b" else ~((piece == 0) | (piece == 1))
        wrong &= piece != -1
        if wrong.any():
            r, i = np.argwhere(wrong)[0]
            found = shown(piece[r, i].item())
            raise ModelError(f"V must be 0 or 1, or -1 where hidden, found {found} in row {at + r}, unit {i}")
    return PairedRows(inputs, bits)
