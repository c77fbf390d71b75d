"""A word to whoever waits for the compiler: kernels are compiled on first use, which looks like hanging."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click

__all__ = ["explained_wait", "no_explanation"]

_LOG = logging.getLogger("beliefs")


class _OneLine(logging.Handler):
    """Writes what the library has to say as the command writes its own lines."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"beliefs: {record.getMessage()}", err=True)


@contextmanager
def explained_wait() -> Iterator[None]:
    """Say on standard error what the library tells its log: that something long is being compiled."""
    handler = _OneLine(logging.WARNING)
    _LOG.addHandler(handler)
    try:
        yield
    finally:
        _LOG.removeHandler(handler)


def no_explanation() -> None:
    """Keep quiet for the command that is running, and for this process."""
    _LOG.setLevel(logging.ERROR)
