"""One progress line, off by default; rich is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from beliefs.driver import Progress
from beliefs.inference.base import Method, Task

__all__ = ["reporter"]


@contextmanager
def reporter(show: bool, method: Method, task: Task) -> Iterator[Callable[[Progress], None] | None]:
    """Yield a callback that keeps one status line on standard error, or None when ``show`` is false."""
    if not show:
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{task.value} with {method}") as status:

        def report(now: Progress) -> None:
            value = "" if now.value is None else f", log Z {now.value.log_z:.8g}"
            status.update(f"{task.value} with {method}: step {now.iteration}, residual {now.residual:.2e}{value}")

        yield report
