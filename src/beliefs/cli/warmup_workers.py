"""The processes that share the jobs of ``warmup``; threads would wait for one another, as compiling holds a lock.

The first job is done before they start: where processes can be forked, they inherit the compiler that it has loaded.
Each begins in a part of the list of its own, so that two of them seldom want the same kernel, and helps where most
is left when its part is done. Where two do, the second waits for what the first compiles, and loads it: they claim
kernels in a file that they share. Ctrl-C goes to the first process alone, which asks the others to end.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn, TypeAlias

from beliefs.errors import BeliefsError, ConvergenceWarning
from beliefs.kernels._jit import Twofold
from beliefs.kernels._on_disk import claim_in

__all__ = ["done_in_turn", "n_cores"]

Line: TypeAlias = "Connection[Any, Any]"
Job: TypeAlias = tuple[str, Callable[[], object]]

_PATIENCE = 10.0  # seconds in which a process that was asked to end does so


class Stopped(Exception):
    """Raised in a worker that is asked to end; an error, so that files half-written are removed."""


def n_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def done_in_turn(names: tuple[str, ...], todo: list[Job], n_workers: int) -> Iterator[int]:
    """Run ``beliefs.cli.warmup.jobs(*names)``, which are ``todo``, in processes; yield each one's number when done."""
    n_left = len(todo) - 1
    parts = [deque(range(1 + n_left * w // n_workers, 1 + n_left * (w + 1) // n_workers)) for w in range(n_workers)]
    todo[0][1]()
    yield 0
    with tempfile.NamedTemporaryFile(prefix="beliefs-") as claims:
        yield from _shared_out(parts, _started(names, todo, n_workers, claims.name))


def _shared_out(parts: list[deque[int]], workers: dict[Line, tuple[int, BaseProcess]]) -> Iterator[int]:
    busy: list[Line] = []
    try:
        idle = list(workers)
        while True:
            for line in list(idle):
                own = parts[workers[line][0]]
                other = max(parts, key=len)
                if own or other:
                    line.send(own.popleft() if own else other.pop())
                    idle.remove(line)
                    busy.append(line)
            if not busy:
                return
            for ready in wait(busy):
                line = next(line for line in busy if line is ready)
                yield _heard(line)
                busy.remove(line)
                idle.append(line)
    finally:
        _ended([process for _, process in workers.values()])


def _started(
    names: tuple[str, ...], todo: list[Job], n_workers: int, claims: str
) -> dict[Line, tuple[int, BaseProcess]]:
    forked = sys.platform == "linux"  # elsewhere system libraries do not survive it
    context: Any = get_context("fork" if forked else "spawn")
    workers: dict[Line, tuple[int, BaseProcess]] = {}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which the others inherit
    try:
        for number in range(n_workers):
            ours, theirs = context.Pipe()
            inherited = ([*workers, ours], todo) if forked else ([], None)
            handed = (theirs, names, claims, *inherited)
            process = context.Process(target=_work, args=handed)  # no daemon: joblib would warn
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which NumPy has and ends itself
                process.start()
            theirs.close()
            workers[ours] = (number, process)
    finally:
        signal.signal(signal.SIGINT, before)
    return workers


def _heard(line: Line) -> int:
    try:
        answer: Any = line.recv()
    except EOFError:
        raise BeliefsError(
            "a process that compiled has ended; too little memory? try `beliefs warmup --jobs 1`"
        ) from None
    if isinstance(answer, str):
        raise BeliefsError(answer)
    return int(answer)


def _ended(processes: list[BaseProcess]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(_PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()


def _work(line: Line, names: tuple[str, ...], claims: str, others: list[Line], todo: list[Job] | None) -> None:
    """Run the jobs whose numbers come, until no more do.

    ``claims``: the file in which processes claim kernels; ``others``: lines of the first process to be let go;
    ``todo``: the jobs, where they could be inherited.
    """
    from beliefs.cli.warmup import jobs

    signal.signal(signal.SIGTERM, _stop)
    for other in others:  # else nobody would see the end of the first process
        other.close()
    logging.getLogger("beliefs").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", ConvergenceWarning)
    try:
        claim_in(claims)
        todo = list(jobs(*names)) if todo is None else todo
        Twofold.always_compiled = True
        while True:
            number = line.recv()
            try:
                todo[number][1]()
            except BeliefsError as error:
                line.send(f"{todo[number][0]}: {error}")
            else:
                line.send(number)
    except (Stopped, EOFError, OSError):
        return


def _stop(number: int, frame: object) -> NoReturn:
    raise Stopped
