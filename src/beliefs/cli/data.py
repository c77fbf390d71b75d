"""Data sets in ``.npz`` files, as ``fit`` and ``predict`` read them, and predictions as they are written.

Arrays are as :mod:`beliefs.io.columns` says; ``Y`` is needed for fitting only, and so are ``costs``. Which further
arrays there are, and their shapes, is declared by the estimator
(:class:`~beliefs.learning.estimators.base.DataForm`). A folder of such files is read file by file while it is fitted
to. Folders of images and tables of tokens are read by :mod:`beliefs.cli.plain_data`.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from beliefs.errors import FormatError

if TYPE_CHECKING:
    from beliefs.learning.estimators.parts import FileData

__all__ = ["archive_bytes", "in_files", "plain_form", "read_data"]


def in_files(path: str) -> bool:
    """Whether a path is a folder of archives, which are read one by one; one with ``images/`` is data of its own."""
    if not os.path.isdir(path) or os.path.isdir(os.path.join(path, "images")):
        return False
    return any(name.endswith(".npz") for name in os.listdir(path))


def read_data(path: str, model: str) -> FileData:
    """Read a data set for a model; what does not fit is a FormatError that names the array."""
    from beliefs.learning.estimators.parts import FileData, read_instances  # not needed by the other commands
    from beliefs.learning.estimators.registry import estimator

    plain = _plain(path, model)
    if plain is not None:
        return FileData(*plain, stacked=False)
    return read_instances(path, estimator(model), f"--model {model}")


def _plain(path: str, model: str) -> tuple[list[Any], list[Any] | None] | None:
    """Return data that come as a folder of images or a table of tokens, if the model takes such; else None."""
    kind = plain_form(path)
    if not kind:
        return None
    from beliefs.cli.plain_data import read_images, read_tokens
    from beliefs.learning.estimators.registry import estimator

    if estimator(model).data_form.files != kind:
        what = "a folder of images" if kind == "images" else "a table of tokens"
        raise FormatError(f"{what} is no data for --model {model}; see beliefs fit --help", path)
    return read_images(path) if kind == "images" else read_tokens(path)


def plain_form(path: str) -> str:
    """Return what data that are no archive must be: ``images`` of a folder, ``tokens`` of a table, else nothing."""
    return "images" if os.path.isdir(path) else "tokens" if path.lower().endswith(".csv") else ""


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
