"""Work side by side: the one place of learning that knows how.

An :class:`Executor` answers for independent entries in the order of the entries, so that what is added up from the
answers has the same bytes for any number of workers. Here are threads: kernels and BLAS let go of the interpreter lock.
A sum over data may also be taken elsewhere, by the processes of an engine (:mod:`beliefs.inference.engine`).
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np

from beliefs.inference.parallel import parallel_chunks
from beliefs.options import MANY, check_integer, check_option

__all__ = ["WORTH_SHARING", "Executor", "Threads", "executor_of", "threads_of"]

WORTH_SHARING = 2**23
"""Multiplications of a mini-batch with its weights from which threads share them: an appointment takes as long as a
million of them, and weights that another thread has written or read must come from its cache."""

S = TypeVar("S")
T = TypeVar("T")
_WINDOW = 4  # entries a worker has under way between two additions


class Executor(ABC):
    """Runs tasks on independent entries; the answers come in the order of the entries."""

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """How many entries are worked on at a time."""

    @abstractmethod
    def map(self, task: Callable[[S], T], entries: Iterable[S]) -> list[T]:
        """Return the answers for all entries."""

    @abstractmethod
    def windows(self, task: Callable[[S], T], entries: Iterable[S]) -> Iterator[T]:
        """Yield the answers, with a few entries under way at a time.

        An entry that occurs twice is never beside itself: the second turn goes on from what the first has left.
        """

    def chunks(self, task: Callable[[int, int], None], n_chunks: int) -> None:
        """Run ``task(begin, end)`` over chunks that write to shared memory; always by threads of this process.

        A thread takes some neighbouring chunks as soon as it is free, and towards the end fewer and fewer: none waits
        long for another that began late or is slower.
        """
        if self.n_workers == 1 or n_chunks == 1:
            task(0, n_chunks)
            return
        lots = iter(_lots(n_chunks, self.n_workers))

        def work(begin: int, end: int) -> int:
            try:
                for lot in lots:  # shared by all: a step of it is one of the interpreter
                    task(*lot)
            except BaseException:
                deque(lots, maxlen=0)  # the others stop too
                raise
            return 0

        parallel_chunks(work, np.arange(self.n_workers + 1), self.n_workers)


def _lots(n_chunks: int, n_workers: int) -> list[tuple[int, int]]:
    """Cut chunks into lots, each a share of what is left [polychronopoulos1987]."""
    lots, begin = list[tuple[int, int]](), 0
    while begin < n_chunks:
        end = begin + max(1, (n_chunks - begin) // (2 * n_workers))
        lots.append((begin, end))
        begin = end
    return lots


@dataclass(frozen=True)
class Threads(Executor):
    """Threads of this process."""

    n_threads: int = 1

    @property
    def n_workers(self) -> int:
        """The number of threads."""
        return self.n_threads

    def map(self, task: Callable[[S], T], entries: Iterable[S]) -> list[T]:
        """Return the answers for all entries."""
        return list(self.windows(task, entries))

    def windows(self, task: Callable[[S], T], entries: Iterable[S]) -> Iterator[T]:
        """Yield the answers; entries are taken from their source as earlier ones are done.

        Nothing is under way any more when it ends, however it ends.
        """
        if self.n_threads == 1 or getattr(_THREAD, "works", False):  # work within work has the thread that it is on
            yield from map(task, entries)
            return
        pool, pending = _pool(os.getpid(), self.n_threads), deque[tuple[S, Future[T]]]()
        try:
            for entry in entries:
                again = any(entry is other for other, _ in pending)
                while pending and (again or len(pending) == self.n_threads * _WINDOW):
                    yield pending.popleft()[1].result()
                pending.append((entry, pool.submit(_work, task, entry)))
            while pending:
                yield pending.popleft()[1].result()
        finally:
            left = [future for _, future in pending if not future.cancel()]
            wait(left)


_THREAD = threading.local()


def _work(task: Callable[[S], T], entry: S) -> T:
    """Answer for one entry, on a thread of a pool."""
    _THREAD.works = True
    return task(entry)


@cache
def _pool(process: int, n_threads: int) -> ThreadPoolExecutor:
    """One pool a process and number of threads: threads do not survive a fork, and starting them takes a while."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="beliefs-learning")


def executor_of(threads: int | None) -> Executor:
    """Return the executor with as many threads; None: one for each core."""
    return Threads((os.cpu_count() or 1) if threads is None else threads)


def threads_of(n_jobs: int | None) -> int:
    """Return the threads that scikit-learn's ``n_jobs`` means: None one, -1 all cores."""
    from joblib import effective_n_jobs  # with estimators alone

    check_integer("n_jobs", n_jobs, -MANY, MANY, none=True)
    check_option(n_jobs != 0, "n_jobs", "None or an integer other than 0", n_jobs)
    return int(effective_n_jobs(n_jobs))
