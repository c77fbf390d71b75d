"""Kernels side by side: fixed chunks of work on a pool of threads.

Kernels let go of the interpreter lock, so threads are enough. What a chunk computes never depends on how many threads
there are or which of them runs it; chunks of one group touch nothing in common.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import copy_context
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeAlias

import numpy as np

from beliefs.typing import Ints

__all__ = ["in_chunks", "one_thread_of_blas", "parallel_chunks"]


Answer: TypeAlias = SimpleQueue[tuple[int, BaseException | None]]
"""Where one answer will be, or the exception that came in its place."""


class Pool:
    """Threads that take tasks from one queue and answer each in a queue of its own; started as they are needed.

    Futures would do the same. Queues alone take two thirds of the time, and many tasks take no more than 100 us.
    """

    def __init__(self, most: int) -> None:
        self._most, self._started, self._under_way, self._lock = most, 0, 0, Lock()
        self._tasks: SimpleQueue[Any] = SimpleQueue()

    def submit(self, task: Callable[..., int], *arguments: Any) -> Answer:
        """Have ``task(*arguments)`` run by another thread."""
        answer = Answer()
        with self._lock:
            if self._started < min(self._most, self._under_way + 1):
                Thread(target=self._work, name=f"beliefs_{self._started}", daemon=True).start()
                self._started += 1
            self._under_way += 1
        self._tasks.put((answer, task, arguments))
        return answer

    def _work(self) -> None:
        while True:
            answer, task, arguments = self._tasks.get()
            found: tuple[int, BaseException | None]
            try:
                found = task(*arguments), None
            except BaseException as error:  # belongs to whoever asked
                found = 0, error
            with self._lock:
                self._under_way -= 1
            answer.put(found)
            del answer, task, arguments, found  # a thread that waits holds on to nothing


@cache
def _pool(process: int) -> Pool:
    """One pool a process: threads do not survive a fork, so a child makes its own."""
    return Pool(os.cpu_count() or 1)


def parallel_chunks(task: Callable[[int, int], int], bounds: Ints, threads: int) -> int:
    """Run ``task(begin, end)`` over the chunks ``bounds[k]:bounds[k+1]``; return the largest answer.

    Neighbouring chunks are handed out together, one lot a thread, and know the time limit of the question around them.
    Nothing is under way any more when it ends, however it ends: what is written to may be somebody else's soon.
    """
    n_chunks = bounds.size - 1
    lots = min(threads, n_chunks)
    if lots <= 1:
        return task(int(bounds[0]), int(bounds[-1]))
    cuts = [int(bounds[k * n_chunks // lots]) for k in range(lots + 1)]
    pool, others = _pool(os.getpid()), list[Answer]()
    try:
        for k in range(1, lots):
            others.append(pool.submit(copy_context().run, task, cuts[k], cuts[k + 1]))
        largest = task(cuts[0], cuts[1])
    finally:
        found = [other.get() for other in others]
    for value, error in found:
        if error is not None:
            raise error
        largest = max(largest, value)
    return largest


def in_chunks(n: int, n_chunks: int) -> Ints:
    """Return the bounds of ``n`` items cut into at most ``n_chunks`` even chunks."""
    if n == 0 or n_chunks == 1:
        return np.array([0, n])
    return np.unique(np.linspace(0, n, n_chunks + 1).astype(np.int64))


def one_thread_of_blas() -> Any:
    """Keep matrix products to one thread: ours share the work, and short products lose by being shared again."""
    return _loaded_libraries(os.getpid()).limit(limits=1, user_api="blas")


@cache
def _loaded_libraries(process: int) -> Any:
    """Look once for the libraries of this process that have threads; that takes as long as a small fit."""
    from scipy import linalg  # noqa: F401  # has one of its own
    from threadpoolctl import ThreadpoolController  # comes with scikit-learn

    return ThreadpoolController()
