"""One column of observations as codes: which value stands for which state of a variable.

===========================  =========================================================================================
values                       states
===========================  =========================================================================================
NumPy integers               they are the codes 0, 1, ...; -1 is missing
NumPy floats                 likewise, whole numbers only; nan is missing
pandas categories            the categories in their order, also those that do not occur
booleans                     False, True
pandas integers, words, ...  their distinct values, sorted: numbers as numbers, all else as text; NA is missing
===========================  =========================================================================================

Where the states are given (a model, a table that was read before), words are labels. Integers of pandas are labels too
where all labels are texts of integers, and otherwise, like those of NumPy, indices. Booleans are the labels that say
so, ``TRUE`` or ``yes`` in any case, and indices where no label does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.model.variable import truths
from beliefs.options import shown
from beliefs.typing import Ints

__all__ = ["MOST_STATES", "Column"]

MOST_STATES = 2**16 - 1  # a code has at most two bytes, and one of them stands for missing
_SPAN = 2**20  # integers within such a range are looked up, others are sorted


class Column:
    """The states of one variable, given or growing with the values that come by.

    Parameters
    ----------
    name : str
    labels : sequence of str, optional
        The states, if they are known; None: they are learned from the values.
    """

    def __init__(self, name: str, labels: Sequence[str] | None = None) -> None:
        self.name = name
        self.labels = None if labels is None else tuple(labels)
        self._codes: dict[Any, int] = {}  # of learned states, in the order of their appearance
        self._indexed = self._ordered = False
        self._n_indices = 0
        known = self.labels or ()
        self._integers = bool(known) and all(_is_integer_text(label) for label in known)
        self._position = {label: k for k, label in enumerate(known)}
        self._truths = truths(known)

    def adopt(self, labels: Sequence[str]) -> None:
        """Take these states, if none are known yet."""
        if self.labels is None and not self._codes and not self._indexed:
            self.__init__(self.name, labels)  # type: ignore[misc]

    def encode(self, values: Any, first_row: int = 0) -> Ints:
        """Return the codes of some values, -1 where missing; ``first_row`` is the number of the first, for errors."""
        if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
            return self._indices(_whole(values, self.name, first_row), first_row)
        if self.labels is not None and self._are_indices(values):
            return np.asarray(values.to_numpy())
        codes, found, ordered = _factorized(values, self.name, first_row)
        if self.labels is not None:
            table = [self._known(value, codes, k, first_row) for k, value in enumerate(found)]
        else:
            self._grow(found, ordered)
            table = [self._codes[value] for value in found]
        return np.array([*table, -1], np.int64)[codes]

    def close(self) -> tuple[tuple[str, ...], Ints | None]:
        """Return the labels of the states, sorted, and the new code of each old one (None: codes stay)."""
        if self.labels is not None:
            return self.labels, None
        if self._indexed:
            return tuple(map(str, range(max(self._n_indices, 1)))), None
        values = list(self._codes)
        if not values:
            raise ModelError(f"column {self.name!r} has no value at all; give its states, or name it in hidden")
        texts = [str(value) for value in values]
        if len(set(texts)) < len(texts):
            twice = next(text for k, text in enumerate(texts) if text in texts[:k])
            raise ModelError(f"column {self.name!r} has two different values that are written {twice!r}")
        numbers = all(isinstance(value, int | float) for value in values)
        keys: list[Any] = values if numbers else texts
        if not numbers and all(_is_integer_text(text) for text in texts):  # cells of text files
            keys = [int(text) for text in texts]
        at = list(range(len(values)))
        if not self._ordered:
            at.sort(key=keys.__getitem__)
        new = np.empty(len(at), np.int64)
        new[at] = np.arange(len(at))
        return tuple(texts[k] for k in at), new

    # -- states ---------------------------------------------------------------------------------------------------
    def _indices(self, codes: Ints, first_row: int) -> Ints:
        """Check values that are codes already."""
        low, high = (int(codes.min()), int(codes.max())) if codes.size else (-1, -1)
        if low < -1:
            self._refuse(codes, codes < -1, first_row, "codes are 0, 1, ... and -1 where missing")
        limit = self.most_codes
        if high >= limit:
            states = f"at most {limit} states" if self.labels is None else f"states 0..{limit - 1}"
            self._refuse(codes, codes >= limit, first_row, f"expected {states}")
        self.accept(high)
        return codes

    def _are_indices(self, values: Any) -> bool:
        """Whether a pandas column has plain integers that all are indices of the given states: then they are codes."""
        dtype = getattr(values, "dtype", None)
        if not isinstance(dtype, np.dtype) or dtype.kind not in "iu" or not len(values):
            return False
        low, labels = int(values.min()), self.labels or ()
        if self._integers and labels != tuple(map(str, range(len(labels)))):
            return False
        return low >= -1 and int(values.max()) < len(labels)

    @property
    def most_codes(self) -> int:
        """How many states there may be."""
        return MOST_STATES if self.labels is None else len(self.labels)

    def accept(self, largest: int) -> None:
        """Take note of values that are codes, up to this one."""
        if self.labels is None:
            self._check_kind(True)
            self._n_indices = max(self._n_indices, largest + 1)

    def _refuse(self, codes: Ints, wrong: Any, first_row: int, expected: str) -> None:
        at = int(np.argmax(wrong))
        raise ModelError(f"column {self.name!r}, row {first_row + at}: {expected}, found {int(codes[at])}")

    def _check_kind(self, indexed: bool) -> None:
        if self._codes if indexed else self._indexed:
            raise ModelError(f"column {self.name!r} has codes in some chunks and values in others; give its states")
        self._indexed = indexed

    def _grow(self, found: Sequence[Any], ordered: bool) -> None:
        self._check_kind(False)
        self._ordered = ordered and (self._ordered or not self._codes)
        for value in found:
            self._codes.setdefault(value, len(self._codes))
        if len(self._codes) > MOST_STATES:
            raise ModelError(
                f"column {self.name!r} has more than {MOST_STATES} distinct values; bin it (bins=), or leave it out"
            )

    def _known(self, value: Any, codes: Ints, code: int, first_row: int) -> int:
        """Return the index of a value among given states."""
        assert self.labels is not None
        index = self._position.get(str(value), -1)
        if index < 0 and isinstance(value, bool):
            index = self._truths.get(value, -1)
        if index < 0 and isinstance(value, int) and not self._integers:  # also False and True
            index = int(value) if -1 <= value < len(self.labels) else -2
        if index < 0 and not (index == -1 and value == -1 and isinstance(value, int)):
            rows = np.flatnonzero(codes == code)
            if not rows.size:
                return -1  # a category that does not occur
            states = ", ".join(self.labels[:8]) + (", ..." if len(self.labels) > 8 else "")
            row = first_row + int(rows[0])
            raise ModelError(f"column {self.name!r}, row {row}: no state {shown(value)} (its states are {states})")
        return index


def _is_integer_text(label: str) -> bool:
    return label.removeprefix("-").isdecimal()


def _whole(values: np.ndarray, name: str, first_row: int) -> Ints:
    """Return numbers as integers, -1 for nan; fractions and infinities raise."""
    if values.dtype.kind == "u" and values.size and values.max() > MOST_STATES:
        at = int(values.argmax())
        raise ModelError(f"column {name!r}, row {first_row + at}: expected at most {MOST_STATES} states, "
                         f"found {values[at]}")  # fmt: skip
    if values.dtype.kind != "f":
        return values.astype(np.int64, copy=False)
    missing = np.isnan(values)
    filled = np.where(missing, -1.0, values) if missing.any() else values
    _check_whole(filled, name, first_row)
    return filled.astype(np.int64)


def _check_whole(values: np.ndarray, name: str, first_row: int) -> None:
    with np.errstate(invalid="ignore"):
        wrong = (values != np.rint(values)) | ~(np.abs(values, dtype=np.float64) < 2.0**53)
    if wrong.any():
        at = int(np.argmax(wrong))
        kind = "continuous" if np.isfinite(values[at]) else "not finite"
        raise ModelError(
            f"column {name!r}, row {first_row + at}: expected a state, found {float(values[at])!r}, which is {kind}; "
            "bin the column (bins=), or leave it out"
        )


def _factorized(values: Any, name: str, first_row: int) -> tuple[Ints, list[Any], bool]:
    """Return codes (-1 missing), the values they stand for, and whether these have an order of their own."""
    dtype: Any = getattr(values, "dtype", None)
    if hasattr(dtype, "categories"):
        categories = values.cat if hasattr(values, "cat") else values
        return np.asarray(categories.codes).astype(np.int64), [_plain(c) for c in dtype.categories], True
    kind = getattr(dtype, "kind", "O")
    if kind in "Mmc":
        raise ModelError(f"column {name!r} holds {dtype}, which is no discrete type; bin it yourself, or leave it out")
    if kind in "biuf" and hasattr(values, "isna"):
        return _factorized_numbers(values, kind, name, first_row)
    if kind == "b":
        return np.asarray(values).astype(np.int64), [False, True], True
    if hasattr(values, "factorize"):
        codes, found = values.factorize()
        return np.asarray(codes).astype(np.int64), [_plain(value) for value in found], False
    return _factorized_objects(values)


def _factorized_numbers(values: Any, kind: str, name: str, first_row: int) -> tuple[Ints, list[Any], bool]:
    """Factorize a pandas column of numbers, nullable or not."""
    missing = np.asarray(values.isna(), np.bool_)
    if kind == "b":
        filled = values.to_numpy(dtype=np.bool_, na_value=False) if missing.any() else values.to_numpy(dtype=np.bool_)
        return np.where(missing, -1, filled).astype(np.int64), [False, True], True
    if kind == "f" or missing.any():
        floats = values.to_numpy(dtype=np.float64, na_value=np.nan)
        present = np.where(missing, 0.0, floats)
        _check_whole(present, name, first_row)
        numbers = present.astype(np.int64)
    else:
        numbers = values.to_numpy(dtype=np.int64)
    seen = numbers[~missing] if missing.any() else numbers
    if not seen.size:
        return np.full(missing.size, -1, np.int64), [], False
    low, high = int(seen.min()), int(seen.max())
    if high - low < _SPAN:
        table = np.full(high - low + 1, -1, np.int64)
        table[seen - low] = 0
        found = np.flatnonzero(table == 0)
        table[found] = np.arange(found.size)
        codes = table[np.clip(numbers - low, 0, high - low) if missing.any() else numbers - low]
        distinct = found + low
    else:
        distinct, codes = np.unique(numbers, return_inverse=True)
    codes = np.where(missing, -1, codes) if missing.any() else codes
    return codes, distinct.tolist(), False


def _factorized_objects(values: Any) -> tuple[Ints, list[Any], bool]:
    """Factorize whatever else is a sequence: words, or objects of any kind."""
    known: dict[Any, int] = {}
    codes = [-1 if _missing(value) else known.setdefault(_plain(value), len(known)) for value in values]
    return np.array(codes, np.int64), list(known), False


def _plain(value: Any) -> Any:
    """Return a value as plain Python: what NumPy and pandas call a number is one; whole floats are integers."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, bool | int | float | str) else str(value)


def _missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return True
