"""Files of fitted learners: a header of JSON and arrays in an ``.npz`` archive, never pickles.

Every header says which format and version it is, and of which class the learner was.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from beliefs.errors import BeliefsError, FormatError
from beliefs.io.archive import check_beginning, unpacked
from beliefs.io.files import StrPath, named_errors, read_bytes, write_bytes
from beliefs.model.naming import Naming

__all__ = ["LearnerFormat", "plain_option"]

L = TypeVar("L")
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class LearnerFormat:
    """One kind of file.

    Attributes
    ----------
    of_a_run : tuple of str
        Options of one run on one machine, which belong into no file.
    given : callable
        Returns the model that a structure is, None where it is none; models are written as arrays.
    """

    name: str
    version: int
    of_a_run: tuple[str, ...]
    given: Callable[[Any], object | None]

    def header(self, learner: Any, naming: Naming, as_json: Callable[[str, Any], Any]) -> dict[str, Any]:
        """Return the options that change answers, and the names of variables and states, as JSON."""
        params = {
            name: as_json(name, value)
            for name, value in learner.get_params(deep=False).items()
            if name not in self.of_a_run and not (name == "structure" and self.given(value) is not None)
        }
        variables = range(naming.card.size)
        names, states = [naming.name(v) for v in variables], [list(naming.states(v)) for v in variables]
        return {"params": params, "names": names, "states": states}

    def from_header(self, header: Mapping[str, Any]) -> tuple[Naming, dict[str, Any]]:
        """Return the names and the options of a header."""
        states = [tuple(labels) for labels in header["states"]]
        naming = Naming.of(header["names"], states, np.array([len(labels) for labels in states], np.int64))
        return naming, {name: value for name, value in header["params"].items() if name not in self.of_a_run}

    def write(self, learner: Any, path: StrPath, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Write a fitted learner, whole or not at all."""
        own = {"format": self.name, "version": self.version, "class": type(learner).__name__}
        text = np.frombuffer(json.dumps({**own, **header}).encode(), np.uint8)
        data = io.BytesIO()
        np.savez(data, allow_pickle=False, header=text, **arrays)
        write_bytes(path, data.getvalue())

    def read(self, cls: type[L], path: StrPath, made: Callable[[type[L], dict[str, Any], Arrays], L]) -> L:
        """Return what is ``made`` of header and arrays; whatever that raises becomes a FormatError."""
        with named_errors(path):
            arrays = unpacked(read_bytes(path, check_beginning))
            try:
                header = json.loads(arrays["header"].tobytes())
                found = header["format"], header["version"], header["class"]
                if found != (self.name, self.version, cls.__name__):
                    raise KeyError("format")
            except (KeyError, TypeError, ValueError, RecursionError):
                raise FormatError(f"the file holds no fitted {cls.__name__}; write one with its save(path)") from None
            try:
                return made(cls, header, arrays)
            except (BeliefsError, AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
                reason = " ".join(str(error).split())[:200]
                raise FormatError(f"the file does not make a {cls.__name__}: {reason}") from None


def plain_option(name: str, value: Any) -> Any:
    """Return an option as JSON; what has no text is refused by its name."""
    if hasattr(value, "name") and not isinstance(value, type):
        value = repr(value)
    try:
        return json.loads(json.dumps(value, default=_item))
    except (TypeError, ValueError):
        raise FormatError(
            f"{name}={type(value).__name__} cannot be written; give it as text to save the learner"
        ) from None


def _item(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError
