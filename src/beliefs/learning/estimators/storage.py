"""Fitted estimators in files (``.npz``), without pickles: nothing is executed that the file says.

A NumPy archive: ``header`` is UTF-8 JSON as bytes with ``format`` ("beliefs estimator"), ``version``, ``class``,
``params`` (the constructor's arguments that change answers: no others are taken from a file), ``needs`` (arguments that
are functions and cannot be written: they are to be given to ``load`` again), ``classes``, ``kinds`` and ``state`` (what
else the class has learned); the other members are arrays: ``weights``, ``class_counts``, and those that ``params`` and
``state`` refer to as ``{"array": name}``.
"""

from __future__ import annotations

import io
import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator

from beliefs.errors import BeliefsError, FormatError
from beliefs.io.archive import check_beginning, unpacked
from beliefs.io.files import StrPath, named_errors, read_bytes, write_bytes
from beliefs.learning.estimators.describing import DescribedEstimator
from beliefs.learning.estimators.inputs import FactorSpec
from beliefs.typing import Floats, Ints

__all__ = ["VERSION", "Learned", "StoredEstimator", "load"]

VERSION = 1
_FORMAT = "beliefs estimator"
_NOT_THE_MODELS = ("callback", "progress", "checkpoint", "n_jobs")  # of one run on one machine, not of the model
Arrays = dict[str, np.ndarray]


class Learned(NamedTuple):
    """What an estimator has learned: ``kinds`` are the types of its factors, ``state`` what else its class names."""

    weights: Floats
    classes: np.ndarray
    class_counts: Ints
    kinds: tuple[FactorSpec, ...]
    state: dict[str, Any]


class StoredEstimator(DescribedEstimator, BaseEstimator):  # type: ignore[misc]
    """An estimator with files: ``save`` writes what was learned, ``load`` makes an estimator of its class from it."""

    takes_costs: ClassVar[bool] = False
    """Whether ``fit`` takes what each label of each variable costs."""

    _unsaved: ClassVar[tuple[str, ...]] = ()  # parameters that do not belong into a file

    def save(self, path: StrPath) -> None:
        """Write the fitted model to an ``.npz`` file, whole or not at all, without pickles."""
        self._check_fitted()
        save(self, path)

    @classmethod
    def load(cls, path: StrPath, **functions: Any) -> Self:
        """Read a fitted model of this class; arguments that are functions are given again, by name."""
        found = load(path, {cls.__name__: lambda: cls}, **functions)
        assert isinstance(found, cls)
        return found

    @abstractmethod
    def _check_fitted(self) -> None:
        """Raise where nothing is fitted yet."""

    @abstractmethod
    def _learned(self) -> Learned:
        """Return what a file keeps."""

    @abstractmethod
    def _restore(self, learned: Learned) -> None:
        """Take up what a file has kept."""


# -- writing ------------------------------------------------------------------------------------------------------
def save(estimator: StoredEstimator, path: StrPath) -> None:
    """Write a fitted estimator, whole or not at all."""
    learned = estimator._learned()
    arrays: Arrays = {"weights": learned.weights, "class_counts": learned.class_counts}
    params, needs = {}, []
    for name, value in estimator.get_params(deep=False).items():
        if name in _NOT_THE_MODELS or name in estimator._unsaved:
            continue
        try:
            params[name] = _written(value, f"param {name}", arrays)
        except TypeError:
            needs.append(name)
    header = {
        "format": _FORMAT,
        "version": VERSION,
        "class": type(estimator).__name__,
        "params": params,
        "needs": needs,
        "classes": learned.classes.tolist(),
        "kinds": [asdict(kind) for kind in learned.kinds],
        "state": {name: _written(value, f"state {name}", arrays) for name, value in learned.state.items()},
    }
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    data = io.BytesIO()
    np.savez(data, allow_pickle=False, **arrays)
    write_bytes(path, data.getvalue())


def _written(value: Any, name: str, arrays: Arrays) -> Any:
    """Return a value as JSON, arrays by reference; methods, losses and optimisers by their text; else TypeError."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiubU":
        arrays[name] = value
        return {"array": name}
    if isinstance(value, list | tuple):
        return [_written(v, f"{name} {k}", arrays) for k, v in enumerate(value)]
    if isinstance(value, Mapping):
        return {"mapping": [[_written(k, name, arrays), _written(v, name, arrays)] for k, v in value.items()]}
    word, text = getattr(value, "name", None), repr(value)
    if isinstance(word, str) and isinstance(value, type):
        return word
    if isinstance(word, str) and text.startswith(word) and "<" not in text:
        return text
    raise TypeError(name)


# -- reading ------------------------------------------------------------------------------------------------------
def load(path: StrPath, known: Mapping[str, Callable[[], type[Any]]], **given: Any) -> Any:
    """Return the estimator in a file; ``known`` are the classes that it may be, ``given`` its functions."""
    with named_errors(path):
        arrays = unpacked(read_bytes(path, check_beginning))
        header = _header(arrays.pop("header", None))
        name = header["class"]
        if name not in known:
            raise FormatError(f"the file holds a {name}, expected {' or '.join(known)}")
        missing = [word for word in header["needs"] if word not in given]
        if missing:
            raise FormatError(f"{', '.join(missing)} of the {name} is a function, which no file holds; give it to load")
        try:
            return _estimator(known[name](), header, arrays, given)
        except FormatError:
            raise
        except (BeliefsError, AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise FormatError(f"the file does not make a {name}: {' '.join(str(error).split())[:200]}") from None


def _header(raw: np.ndarray | None) -> dict[str, Any]:
    try:
        header = json.loads(raw.tobytes()) if raw is not None else None
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise FormatError("the file holds no fitted estimator; write one with its save(path)")
    if header.get("version") != VERSION:
        raise FormatError(f"unknown version {header.get('version')!r}; this release reads version {VERSION}")
    kinds = {"class": str, "params": dict, "needs": list, "classes": list, "kinds": list, "state": dict}
    wrong = [name for name, kind in kinds.items() if not isinstance(header.get(name), kind)]
    if wrong:
        raise FormatError(f"the field {wrong[0]!r} of the header is missing or of a wrong type")
    return header


def _read(value: Any, arrays: Arrays) -> Any:
    if isinstance(value, list):
        return [_read(v, arrays) for v in value]
    if isinstance(value, dict):
        if "array" in value:
            return arrays[value["array"]]
        return {_read(k, arrays): _read(v, arrays) for k, v in value["mapping"]}
    return value


def _estimator(cls: type[Any], header: dict[str, Any], arrays: Arrays, given: dict[str, Any]) -> Any:
    unsaved = (*_NOT_THE_MODELS, *cls._unsaved)
    written = {name: value for name, value in header["params"].items() if name not in unsaved}
    found = cls(**({name: _read(value, arrays) for name, value in written.items()} | given))
    found._restore(
        Learned(
            np.array(arrays["weights"], np.float64),
            np.array(header["classes"]),
            np.array(arrays["class_counts"], np.int64),
            tuple(
                FactorSpec(str(k["name"]), int(k["arity"]), int(k["width"]), bool(k["tied"])) for k in header["kinds"]
            ),
            {name: _read(value, arrays) for name, value in header["state"].items()},
        )
    )
    return found
