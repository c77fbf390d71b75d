"""One line on standard error while a fit runs: loss, gradient, and how long it may last; rich is imported on demand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from beliefs.driver import Limits
from beliefs.learning.optimizers.base import Optimizer
from beliefs.learning.result import FitProgress

__all__ = ["line", "reporter", "seconds_left"]

Report = Callable[[FitProgress], None]


@contextmanager
def reporter(show: bool, optimizer: Optimizer, limits: Limits) -> Iterator[Report | None]:
    """Yield a callback that keeps the line up to date, or None when ``show`` is false."""
    if not show:
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status(f"fit with {optimizer}") as status:
        first: list[FitProgress] = []

        def report(now: FitProgress) -> None:
            first.append(now) if not first else None
            status.update(line(optimizer, now, seconds_left(first[0], now, limits)))

        yield report


def line(optimizer: Optimizer, now: FitProgress, left: float) -> str:
    """Return the line."""
    text = f"fit with {optimizer}: iteration {now.iteration}, loss {now.loss:.6g}, gradient {now.grad_norm:.1e}"
    if math.isfinite(now.gap):
        text += f", gap {now.gap:.1e}"
    if math.isfinite(now.validation):
        text += f", validation {now.validation:.6g}"
    if now.n_diverged:
        text += f", {now.n_diverged} diverged"
    return text + (f", at most {_readable(left)} left" if math.isfinite(left) else "")


def seconds_left(first: FitProgress, now: FitProgress, limits: Limits) -> float:
    """Return how long the fit may still last: what ``time_limit`` leaves, or ``max_iters`` at the pace so far."""
    by_clock = max(limits.time_limit - now.seconds, 0.0)
    done = now.iteration - first.iteration
    if done < 1:
        return by_clock
    pace = (now.seconds - first.seconds) / done
    return min(by_clock, pace * max(limits.max_iters - now.iteration, 0))


def _readable(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
