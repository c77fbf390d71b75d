"""Instances in ``.npz`` files: what each has under a name, in one array with a first axis of instances, or one by one.

Either all instances in one array, ``X`` and ``Y`` with a first axis of instances, or one array each, ``X_0``, ``Y_0``,
``X_1``, ``Y_1``, ...; further arrays come under their names in the same way. ``edges (m, 2)`` without a number are
those of every instance, where ``shared`` says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from beliefs.errors import FormatError
from beliefs.io.archive import check_beginning, unpacked
from beliefs.io.files import named_errors, read_bytes

__all__ = ["Columns", "read_columns"]

_NUMBERED = re.compile(r"X_(0|[1-9][0-9]*)")


@dataclass(frozen=True, eq=False)
class Columns:
    """What each instance has under the names that are there, and whether ``X`` came in one array."""

    arrays: dict[str, list[np.ndarray]]
    stacked: bool

    def __len__(self) -> int:
        return len(self.arrays["X"])


def read_columns(path: str, names: Sequence[str], shared: Mapping[str, int], reader: str, most: float) -> Columns:
    """Read the arrays of a file by these names; what does not fit is a FormatError that names the array.

    ``shared`` has the number of axes of arrays that one instance has and all may share; ``reader`` is for whom an
    array of another name is unknown. Compressed arrays may take ``most`` bytes.
    """
    arrays = _arrays(path, most)
    stacked = "X" in arrays
    numbers = sorted(int(match[1]) for name in arrays if (match := _NUMBERED.fullmatch(name)))
    if stacked == bool(numbers):
        raise FormatError("instances come as one array X, or as X_0, X_1, ...; found " + _listed(arrays), path)
    count = _length(arrays["X"], "X", path) if stacked else len(numbers)
    if not stacked and numbers != list(range(count)):
        missing = next(k for k in range(count) if k not in numbers)
        raise FormatError(f"X_{missing} is missing, and there is X_{numbers[-1]}", path)
    if count == 0:
        raise FormatError("there is no instance in X", path)
    for name in arrays:
        if re.sub(r"_[0-9]+$", "", name) not in names:
            raise FormatError(f"the array {name!r} is unknown for {reader}; known are {', '.join(names)}", path)
    found = {
        name: _column(arrays, name, count, shared.get(name, -1), path) for name in names if _is_there(arrays, name)
    }
    return Columns(found, stacked)


def _arrays(path: str, most: float) -> dict[str, np.ndarray]:
    with named_errors(path):
        data = read_bytes(path, check_beginning)
        if not data.startswith(b"PK"):
            raise FormatError("not an .npz archive of plain arrays; numpy.savez writes one")
        return unpacked(data, most=most)


def _length(array: np.ndarray, name: str, path: str) -> int:
    if array.ndim == 0:
        raise FormatError(f"{name} is a single number; its first axis must be instances", path)
    return len(array)


def _is_there(arrays: dict[str, np.ndarray], name: str) -> bool:
    return name in arrays or any(re.fullmatch(rf"{name}_[0-9]+", other) for other in arrays)


def _column(arrays: dict[str, np.ndarray], name: str, count: int, shared: int, path: str) -> list[np.ndarray]:
    """Return what each instance has under a name; an array of so many axes is shared by all."""
    if name not in arrays:
        missing = [k for k in range(count) if f"{name}_{k}" not in arrays]
        if missing:
            raise FormatError(f"{name}_{missing[0]} is missing", path)
        return [arrays[f"{name}_{k}"] for k in range(count)]
    array = arrays[name]
    if array.ndim == shared:
        return [array] * count
    if _length(array, name, path) != count:
        raise FormatError(f"{name} has {len(array)} instances, X has {count}", path)
    return list(array)


def _listed(arrays: dict[str, np.ndarray]) -> str:
    return ", ".join(sorted(arrays)[:6]) or "no array"
