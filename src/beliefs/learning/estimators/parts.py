"""Examples in parts that are loaded one by one: files of a folder, partitions of dask's bags and arrays.

A part is loaded when its examples are needed, and not kept, so that data may be larger than memory; it must not be,
by itself. See :class:`~beliefs.learning.data.InParts` for the order in which mini-batches are drawn from parts.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from beliefs.errors import FormatError, ModelError
from beliefs.inference.budget import default_budget
from beliefs.io.columns import read_columns

__all__ = ["FileData", "Parts", "parts_of", "read_instances"]


class Parts(ABC):
    """Pairs (input, labels) in parts."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of parts."""

    @abstractmethod
    def load(self, number: int) -> list[Any]:
        """Return the pairs of a part."""


def parts_of(X: Any, Y: Any, estimator: type[Any]) -> Parts | None:
    """Return data that lies in parts; None where it does not.

    A path names a folder of ``.npz`` files (or one of them), each as ``beliefs fit`` reads it. A bag holds pairs, or
    inputs, with another one of labels in the same partitions; arrays have a first axis of instances.
    """
    if Y is None and isinstance(X, str | os.PathLike):
        return _Folder(_files(os.fspath(X)), estimator)
    if not hasattr(X, "to_delayed"):
        return None
    if hasattr(X, "rechunk") and Y is None:
        raise ModelError("X is an array; the array Y of labels is missing")
    inputs, labels = _partitions(X), None if Y is None else _aligned(X, Y)
    if labels is not None and len(inputs) != len(labels):
        raise ModelError(f"X has {len(inputs)} partitions and Y has {len(labels)}; they must be divided alike")
    return _Collection(inputs, labels)


class FileData(NamedTuple):
    """The inputs of a file, its labels and costs if there are any, and whether they came in one array."""

    inputs: list[Any]
    labels: list[Any] | None
    stacked: bool
    costs: list[Any] | None = None


def read_instances(path: str, estimator: type[Any], reader: str) -> FileData:
    """Return what a file holds for an estimator; ``reader`` is for messages."""
    form = estimator.data_form
    names = ("X", "Y", *form.further, *(("costs",) if estimator.takes_costs else ()))
    columns = read_columns(path, names, form.shared, reader, default_budget())
    found = columns.arrays
    further = [found.get(name) for name in form.further]
    inputs = [estimator.input_of(x, [None if c is None else c[k] for c in further]) for k, x in enumerate(found["X"])]
    return FileData(inputs, found.get("Y"), columns.stacked, found.get("costs"))


# -- folders ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Folder(Parts):
    """Each file a part, in the order of their names."""

    paths: Sequence[str]
    estimator: type[Any]

    def __len__(self) -> int:
        return len(self.paths)

    def load(self, number: int) -> list[Any]:
        """Read a file."""
        path = self.paths[number]
        found = read_instances(path, self.estimator, self.estimator.__name__)
        if found.labels is None:
            raise FormatError("there are no labels Y to fit to", path)
        if found.costs is not None:
            raise FormatError("costs are taken from a single file, or by fit(X, Y, costs=...); not from a folder", path)
        return list(zip(found.inputs, found.labels, strict=True))


def _files(path: str) -> list[str]:
    if os.path.isfile(path):
        return [path]
    if not os.path.isdir(path):
        raise FormatError("no such folder of .npz files", path)
    found = [str(file) for file in sorted(Path(path).glob("*.npz"))]
    if not found:
        raise FormatError("there is no .npz file in the folder", path)
    return found


# -- dask -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Collection(Parts):
    """Partitions of pairs; or of inputs, and as many of labels."""

    inputs: Sequence[Any]
    labels: Sequence[Any] | None

    def __len__(self) -> int:
        return len(self.inputs)

    def load(self, number: int) -> list[Any]:
        """Compute a partition."""
        inputs = list(self.inputs[number].compute())
        if self.labels is None:
            return inputs
        labels = list(self.labels[number].compute())
        if len(inputs) != len(labels):
            raise ModelError(
                f"partition {number} has {len(inputs)} inputs and {len(labels)} labels; X and Y must be divided alike"
            )
        return list(zip(inputs, labels, strict=True))


def _partitions(collection: Any) -> list[Any]:
    """Return the partitions of a bag, or the blocks of an array along its first axis."""
    if hasattr(collection, "rechunk"):
        collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
    return list(np.ravel(np.asarray(collection.to_delayed(), object)))


def _aligned(X: Any, Y: Any) -> list[Any]:
    """Return the partitions of the labels of X, arrays divided as X is."""
    if not hasattr(Y, "to_delayed"):
        raise ModelError(f"X is in partitions, and Y must be divided alike; found {type(Y).__name__}")
    if hasattr(X, "rechunk") and hasattr(Y, "rechunk"):
        if len(X) != len(Y):
            raise ModelError(f"X has {len(X)} instances and Y has {len(Y)}; each input needs its labels")
        Y = Y.rechunk({0: X.chunks[0]})
    return _partitions(Y)
