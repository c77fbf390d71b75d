"""Data sets in ``.npz`` files, as ``fit`` and ``predict`` read them, and predictions as they are written.

Either all instances in one array, ``X`` and ``Y`` with a first axis of instances, or one array each, ``X_0``, ``Y_0``,
``X_1``, ``Y_1``, ...; ``Y`` is needed for fitting only. What else an instance has comes under its name in the same way;
which arrays these are, and their shapes, is declared by the estimator
(:class:`~beliefs.learning.estimators.base.DataForm`).
``edges (m, 2)`` without a number are those of every instance. Folders of images and tables of tokens are read by
:mod:`beliefs.cli.plain_data`.
"""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefs.errors import FormatError
from beliefs.inference.budget import default_budget
from beliefs.io.archive import check_beginning, unpacked
from beliefs.io.files import named_errors, read_bytes

__all__ = ["DataSet", "archive_bytes", "read_data"]

_NUMBERED = re.compile(r"X_(0|[1-9][0-9]*)")


@dataclass(frozen=True, eq=False)
class DataSet:
    """Inputs as the estimators take them, labels if there are any, and whether they came in one array."""

    inputs: list[Any]
    labels: list[Any] | None
    stacked: bool


def read_data(path: str, model: str) -> DataSet:
    """Read a data set for a model; what does not fit is a FormatError that names the array."""
    plain = _plain(path, model)
    if plain is not None:
        return DataSet(*plain, stacked=False)
    arrays = _arrays(path)
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
    from beliefs.learning.estimators.registry import estimator  # not needed by the other commands

    cls = estimator(model)
    form = cls.data_form
    names = ("X", "Y", *form.further)
    _check_names(arrays, model, names, path)
    columns = {
        name: _column(arrays, name, count, form.shared.get(name, -1), path) for name in names if _is_there(arrays, name)
    }
    further = [columns.get(name) for name in form.further]
    inputs = [cls.input_of(columns["X"][k], [None if c is None else c[k] for c in further]) for k in range(count)]
    return DataSet(inputs, columns.get("Y"), stacked)


def _plain(path: str, model: str) -> tuple[list[Any], list[Any] | None] | None:
    """Return data that come as a folder of images or a table of tokens, if the model takes such; else None."""
    kind = "images" if os.path.isdir(path) else "tokens" if path.lower().endswith(".csv") else ""
    if not kind:
        return None
    from beliefs.cli.plain_data import read_images, read_tokens
    from beliefs.learning.estimators.registry import estimator

    if estimator(model).data_form.files != kind:
        what = "a folder of images" if kind == "images" else "a table of tokens"
        raise FormatError(f"{what} is no data for --model {model}; see beliefs fit --help", path)
    return read_images(path) if kind == "images" else read_tokens(path)


def _arrays(path: str) -> dict[str, np.ndarray]:
    with named_errors(path):
        data = read_bytes(path, check_beginning)
        if not data.startswith(b"PK"):
            raise FormatError("not an .npz archive of plain arrays; numpy.savez writes one")
        return unpacked(data, most=default_budget())


def _length(array: np.ndarray, name: str, path: str) -> int:
    if array.ndim == 0:
        raise FormatError(f"{name} is a single number; its first axis must be instances", path)
    return len(array)


def _is_there(arrays: dict[str, np.ndarray], name: str) -> bool:
    return name in arrays or any(re.fullmatch(rf"{name}_[0-9]+", other) for other in arrays)


def _check_names(arrays: dict[str, np.ndarray], model: str, known: tuple[str, ...], path: str) -> None:
    for name in arrays:
        if re.sub(r"_[0-9]+$", "", name) not in known:
            raise FormatError(f"the array {name!r} is unknown for --model {model}; known are {', '.join(known)}", path)


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


def archive_bytes(columns: dict[str, list[np.ndarray]], stacked: bool) -> bytes:
    """Return an archive with what each instance has, in one array if it came so and the shapes allow it."""
    arrays: dict[str, np.ndarray] = {}
    for name, values in columns.items():
        if stacked and len({value.shape for value in values}) == 1:
            arrays[name] = np.stack(values)
        else:
            arrays |= {f"{name}_{k}": value for k, value in enumerate(values)}
    data = io.BytesIO()
    np.savez(data, allow_pickle=False, **arrays)
    return data.getvalue()
