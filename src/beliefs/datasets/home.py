"""Where data that does not come with the package lies: the folder named by ``BELIEFS_DATA``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, overload

__all__ = ["data_home"]


@overload
def data_home(path: str | os.PathLike[str] | None = None, *, missing_ok: Literal[False] = False) -> Path: ...
@overload
def data_home(path: str | os.PathLike[str] | None = None, *, missing_ok: bool) -> Path | None: ...
def data_home(path: str | os.PathLike[str] | None = None, *, missing_ok: bool = False) -> Path | None:
    """Return the data folder: ``path``, or else the environment variable ``BELIEFS_DATA``.

    A folder that is not named or not there is a FileNotFoundError, or None with ``missing_ok=True``.
    """
    named = path if path is not None else os.environ.get("BELIEFS_DATA", "")
    if os.fspath(named) and Path(named).is_dir():
        return Path(named)
    if missing_ok:
        return None
    if not os.fspath(named):
        raise FileNotFoundError("no data folder: set the environment variable BELIEFS_DATA")
    raise FileNotFoundError(f"the data folder {os.fspath(named)} does not exist")
