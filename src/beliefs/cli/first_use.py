"""A word to whoever waits for the compiler: kernels are compiled on first use, which looks like hanging."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from beliefs.kernels._jit import kernels

__all__ = ["explained_wait", "no_explanation"]

_PATIENCE = 3.0  # seconds before anyone wonders
_TIMER = "beliefs.first_use"


@contextmanager
def explained_wait(context: click.Context) -> Iterator[None]:
    """Say on a terminal that kernels are being compiled, if that has begun and takes long."""
    context.meta[_TIMER] = timer = threading.Timer(_PATIENCE, _explain)
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def no_explanation() -> None:
    """Keep quiet for the command that is running."""
    click.get_current_context().meta[_TIMER].cancel()


def _explain() -> None:
    if any(sum(kernel.stats.cache_misses.values()) for kernel in kernels()):
        click.echo("beliefs: compiling for the first use; `beliefs warmup` does it once for all", err=True)
