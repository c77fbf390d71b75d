"""Work that Ctrl-C must not cut in two: what was done by halves cannot be done again."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["interrupts_wait"]


@contextmanager
def interrupts_wait() -> Iterator[Callable[[], None]]:
    """Within, Ctrl-C waits, and every other signal with a handler in Python, which may raise something as well.

    That is for imports of large packages, which cannot be begun again half-way, and for compilers, which lose what is
    raised where their libraries call back and where their objects die.

    Signals come at the end, or earlier where what is yielded is called. Whoever has handlers of their own is told.
    Other threads are never interrupted.
    """
    came: list[tuple[int, FrameType | None]] = []
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
    if threading.current_thread() is threading.main_thread():
        known = ((number, signal.getsignal(number)) for number in signal.valid_signals())
        handlers = {number: handler for number, handler in known if callable(handler)}

    def come() -> None:
        while came:
            number, frame = came.pop(0)
            handlers[number](number, frame)

    for number in handlers:
        signal.signal(number, lambda number, frame: came.append((number, frame)))
    try:
        yield come
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        come()
