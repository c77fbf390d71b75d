"""Ctrl-C while a method runs: the first one asks for the result so far, the second one aborts.

The method runs in a second thread, so that this one can take the signal at any moment, also while compiled code runs.
The request reaches the driver through a callback that returns True, the same way a caller of the library would stop.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Generic, NoReturn, TypeVar

import click

from beliefs.driver import Progress

__all__ = ["Stoppable"]

T = TypeVar("T")
_SHOW_CURSOR = b"\x1b[?25h"  # a progress line hides it


class Stoppable(Generic[T]):
    """One run of a method that signals can stop.

    Parameters
    ----------
    question : callable
        Called with the callback to pass on to the door.
    signals : tuple of signals
        Those that stop the run; Ctrl-C by default.

    Attributes
    ----------
    received : int
        The first signal that came, 0 if none did.
    """

    def __init__(
        self, question: Callable[[Callable[[Progress], bool]], T], signals: tuple[int, ...] = (signal.SIGINT,)
    ) -> None:
        self.question, self.signals = question, signals
        self.received = 0

    def run(self) -> T:
        """Ask the question and return its answer, or raise what it raises."""
        answer: list[T] = []
        trouble: list[BaseException] = []

        def work() -> None:
            try:
                answer.append(self.question(lambda _: self.received != 0))
            except BaseException as error:  # raised again below
                trouble.append(error)

        if threading.current_thread() is not threading.main_thread():  # no signals arrive here
            work()
        else:
            self._watch(threading.Thread(target=work, daemon=True))
        if trouble:
            raise trouble[0]
        return answer[0]

    @property
    def exit_code(self) -> int:
        """The shell's code for a run ended by a signal, or 0."""
        return 128 + self.received if self.received else 0

    def _watch(self, worker: threading.Thread) -> None:
        before = {number: signal.signal(number, self._stop) for number in self.signals}
        try:
            worker.start()
            worker.join()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            _leave(number)
        self.received = number
        _note("stopping after this step; once more to abort")


def _leave(number: int) -> NoReturn:
    """End the process at once; compiled code cannot be asked to return."""
    _note("aborted")
    if sys.stderr.isatty():
        os.write(2, _SHOW_CURSOR)
    os._exit(128 + number)


def _note(text: str) -> None:
    """Write a line past Python's buffers, which a signal may have caught half-way; above a drawing, if there is one."""
    if hasattr(sys.stderr, "rich_proxied_file"):  # a drawing is on the screen, and prints what comes above itself
        click.echo(f"beliefs: {text}", err=True)
        return
    start = "\n" if sys.stderr.isatty() else ""  # the terminal shows ^C on the line
    try:
        os.write(2, f"{start}beliefs: {text}\n".encode())
    except OSError:  # nobody listens
        pass
