"""Progress on standard error, off by default; rich is imported only when it is asked for.

A method of one step, or one that writes to no terminal, has one status line. On a terminal an iterative method shows
its numbers and draws its interval (:mod:`beliefs.inference.show.live`); a drawing that somebody had time to look at
stays.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from beliefs.driver import Progress
from beliefs.inference.base import Method, Task

__all__ = ["reporter"]

_A_LOOK = 2.0  # seconds after which a drawing stays on the screen
_REFRESH = 8.0  # drawings a second
_NUMBER = {Task.INFER: "log Z", Task.MAXIMIZE: "best score", Task.MARGINAL_MAP: "optimum", Task.SAMPLE: "log Z"}

Report = Callable[[Progress], None]


@contextmanager
def reporter(method: Method, task: Task, limit: float = math.inf, started: float | None = None) -> Iterator[Report]:
    """Yield a callback that keeps the progress on standard error up to date."""
    from rich.console import Console

    console = Console(stderr=True)
    drawn = method.iterative and console.is_terminal and not console.is_dumb_terminal
    if not drawn:
        with console.status(f"{task.value} with {method}") as status:
            yield lambda now: status.update(_line(task, method, now))
        return
    from rich.live import Live

    from beliefs.inference.show.live import IntervalView

    view = IntervalView(
        task.value, repr(method), _NUMBER[task], limit, time.perf_counter() if started is None else started
    )
    live = Live(view, console=console, refresh_per_second=_REFRESH, transient=True, vertical_overflow="crop")
    with live:
        try:
            yield view.record
        finally:
            view.ended = time.perf_counter()
            live.transient = not (view.drawn and view.elapsed >= _A_LOOK)


def _line(task: Task, method: Method, now: Progress) -> str:
    value = "" if now.value is None else f", log Z {now.value.log_z:.8g}"
    return f"{task.value} with {now.stage or method}: step {now.iteration}, residual {now.residual:.2e}{value}"
