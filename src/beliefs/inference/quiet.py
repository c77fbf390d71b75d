"""Warnings of the doors, and how work of the library's own keeps them to itself.

``warnings.catch_warnings`` changes the filters of the whole process: from two threads at once it may leave them
changed, and it silences warnings of the other. Here silence belongs to a context, and so to a thread.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["quietly", "warn"]

_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quietly() -> Iterator[None]:
    """Within, the doors do not warn: the question is a part of another one, which judges the answer itself."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def warn(message: str, kind: type[Warning], stacklevel: int) -> None:
    """Warn as :func:`warnings.warn` does, ``stacklevel=1`` being the caller, unless it is to be done quietly."""
    if not _quiet.get():
        warnings.warn(message, kind, stacklevel=stacklevel + 1)
