"""Checkpoints of a fit: everything needed to go on after a kill, in one ``.npz`` file that is always whole.

The file is a NumPy archive without pickles. ``header`` is JSON as bytes (format, version, fingerprint, counts); the
other members are the weights, the trace, the best weights by validation and whatever the optimiser remembers. It is
written beside its destination, flushed to the disk and renamed, so that a kill leaves the checkpoint before.

A checkpoint belongs to one loss, one optimiser and one set of data; the fingerprint says which, and a fit that differs
in any part is refused with the part's name. How long to go on (limits, tolerances) is no part of it, nor are threads.
"""

from __future__ import annotations

import io
import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from beliefs.errors import FormatError, ModelError
from beliefs.io.archive import check_beginning, unpacked
from beliefs.io.files import StrPath, named_errors, read_bytes, write_bytes
from beliefs.learning.data import Data, LabelledData
from beliefs.learning.instances import Instance
from beliefs.learning.optimizers.base import Optimizer, Point
from beliefs.learning.optimizers.objective import Objective
from beliefs.learning.result import FitTrace
from beliefs.model.features import Rows
from beliefs.typing import Floats

__all__ = ["Checkpoint", "Saved", "fingerprint"]

VERSION = 2
_MEMORY = "memory."


@dataclass(frozen=True, eq=False)
class Saved:
    """A fit under way: its last whole point, its past, and the best point by validation so far."""

    point: Point
    trace: FitTrace
    seconds: float
    best: Point | None
    best_validation: float


@dataclass(frozen=True)
class Checkpoint:
    """A file for one fit."""

    path: StrPath
    fingerprint: Mapping[str, str]

    def save(self, saved: Saved) -> None:
        """Write the file whole or not at all."""
        header: dict[str, Any] = {
            "format": "beliefs fit",
            "version": VERSION,
            "fingerprint": dict(self.fingerprint),
            "point": _numbers(saved.point),
            "best": None if saved.best is None else _numbers(saved.best),
            "best_validation": saved.best_validation,
            "seconds": saved.seconds,
        }
        arrays: dict[str, Any] = {
            "weights": saved.point.weights,
            "trace": np.array(saved.trace.rows(), float).reshape(-1, len(fields(FitTrace))),
        }
        arrays |= {_MEMORY + name: array for name, array in saved.point.memory.items()}
        if saved.best is not None:
            arrays["best_weights"] = saved.best.weights
        file = io.BytesIO()
        np.savez(file, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)
        write_bytes(self.path, file.getvalue(), durable=True)

    def load(self) -> Saved | None:
        """Return what the file holds, or None if there is no file; remove what a kill while writing left behind."""
        folder = os.path.dirname(os.path.realpath(os.fspath(self.path)))
        if not os.path.isdir(folder):
            raise FormatError("no such folder; make it first", os.fspath(self.path))
        if not os.access(folder, os.W_OK):
            raise FormatError("the folder cannot be written to", os.fspath(self.path))
        _tidy(self.path)
        if not os.path.exists(self.path):
            return None
        header, arrays = _read(self.path)
        self._compare(header["fingerprint"])
        memory = {n.removeprefix(_MEMORY): a for n, a in arrays.items() if n.startswith(_MEMORY)}
        try:
            best = header["best"]
            return Saved(
                Point(weights=self._weights(arrays["weights"]), memory=memory, **header["point"]),
                FitTrace.of([tuple(row) for row in arrays["trace"]]),
                header["seconds"],
                None if best is None else Point(weights=self._weights(arrays["best_weights"]), **best),
                header["best_validation"],
            )
        except (KeyError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise FormatError(f"the checkpoint contradicts itself ({reason})", os.fspath(self.path)) from None

    def _weights(self, found: np.ndarray) -> Floats:
        """Return weights as a fit takes them, or raise a ValueError."""
        n = self.fingerprint.get("number of weights", str(found.size))
        if (
            str(found.dtype) != self.fingerprint.get("type of weights", "float64")
            or str(found.size) != n
            or found.ndim != 1
            or not np.isfinite(found).all()
        ):
            raise ValueError(f"expected {n} finite weights, found an array of {found.dtype} {found.shape}")
        return found

    def _compare(self, found: Mapping[str, str]) -> None:
        for part in [*self.fingerprint, *found]:
            here, there = self.fingerprint.get(part, "nothing"), found.get(part, "nothing")
            if here != there:
                raise ModelError(
                    f"the checkpoint {os.fspath(self.path)} is of another fit: {part} is {there} there and {here} "
                    "here; use another file, or delete it to begin anew"
                )


def _numbers(point: Point) -> dict[str, Any]:
    """Return what of a point is not an array."""
    return {f.name: getattr(point, f.name) for f in fields(point) if f.name not in ("weights", "memory")}


def _read(path: StrPath) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with named_errors(path):
        data = read_bytes(path, check_beginning)
    try:
        arrays = unpacked(data)
        header = json.loads(arrays.pop("header").tobytes())
        if header["format"] != "beliefs fit" or header["version"] != VERSION:
            raise KeyError("format")
        return header, arrays
    except (FormatError, KeyError, TypeError, ValueError, RecursionError) as error:
        reason = f" ({error.message})" if isinstance(error, FormatError) else ""
        raise FormatError(f"not a checkpoint of a fit{reason}; use another file name", os.fspath(path)) from None


def _tidy(path: StrPath) -> None:
    """Remove temporary files beside the checkpoint: a fit has its file for itself, so they are of a killed run."""
    folder, name = os.path.split(os.path.realpath(os.fspath(path)))
    pattern = re.compile(re.escape(f".{name[:100]}.") + "[0-9a-f]{12}")
    try:
        for entry in os.listdir(folder):
            if pattern.fullmatch(entry):
                os.unlink(os.path.join(folder, entry))
    except OSError:
        return  # not ours to tidy


# -- fingerprints ---------------------------------------------------------------------------------------------------
def fingerprint(loss: Any, objective: Objective, optimizer: Optimizer, seed: int) -> dict[str, str]:
    """Return the parts that two runs must share, each as text; ``loss`` is as it was given."""
    parts = {"loss": objective.loss.name, "optimizer": repr(optimizer), "seed": str(seed)}
    parts |= {f"loss.{name}": text for name, text in _options(loss).items()}
    parts["number of weights"] = str(objective.start.size)
    if objective.start.dtype != np.float64:
        parts["type of weights"] = str(objective.start.dtype)
    for name in ("l1", "free", "low", "high"):
        array = getattr(objective, name)
        same = array.size and (array == array[0]).all()
        parts[name] = str(array[0]) if same else f"array {_checksum(array)}"
    held = objective.start[~objective.free]
    parts["weights that may not move"] = f"{held.size}, {_checksum(held)}"
    return parts | _shape_of(objective.data)


def _options(loss: Any) -> dict[str, str]:
    """Return a loss's options that have a text; the template by its type and size, threads not at all."""
    if not is_dataclass(loss):
        return {}
    found = {}
    for f in fields(loss):
        if f.name == "threads" or f.name.startswith("_"):
            continue
        value = getattr(loss, f.name)
        text = " ".join(repr(value).split())
        found[f.name] = text if len(text) <= 200 and " at 0x" not in text else type(value).__name__
    return found


def _shape_of(instances: LabelledData) -> dict[str, str]:
    """Return the sizes and checksums of a list of instances, or of data; streams are not known beforehand."""
    if isinstance(instances, Data):
        return instances.fingerprint()
    if not isinstance(instances, (list, tuple)):
        return {"data": "a stream"}
    known = [i for i in instances if isinstance(i, Instance)]
    sums = {"labels": 0, "weights of instances and labels": 0, "features": 0}
    for i in known:
        parts = (i.labels, (i.weight, i.label_weights), i.inputs)
        sums = {name: _added(part, crc) for (name, crc), part in zip(sums.items(), parts, strict=True)}
    return {
        "number of instances": str(len(instances)),
        "number of variables": str(sum(i.labels.size for i in known)),
        **{name: f"{crc:08x}" for name, crc in sums.items()},
    }


def _added(thing: Any, crc: int) -> int:
    """Return the checksum with the numbers in arrays, rows, and tuples and dataclasses of them; the rest is left out.

    Features that are made on the fly are made once for it.
    """
    if isinstance(thing, Rows):
        return _added(None if thing.values is None else thing.features(), crc)
    if isinstance(thing, int | float | np.number):
        return _added(np.array(thing, np.float64), crc)
    if hasattr(thing, "tocsr"):
        rows = thing.tocsr()
        return _added((rows.indptr, rows.indices, rows.data), crc)
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        return zlib.crc32(np.ascontiguousarray(thing).reshape(-1).view(np.uint8).data, crc)
    if isinstance(thing, list | tuple):
        parts: Iterable[Any] = thing
    elif isinstance(thing, Mapping):
        parts = thing.values()
    else:
        parts = [getattr(thing, f.name) for f in fields(thing)] if is_dataclass(thing) else []
    for part in parts:
        crc = _added(part, crc)
    return crc


def _checksum(array: np.ndarray) -> str:
    return f"{zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}"
