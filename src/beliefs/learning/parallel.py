"""Work side by side: the one place of learning that knows how.

An :class:`Executor` answers for independent entries in the order of the entries, so that what is added up from the
answers has the same bytes for any number of workers. Here are threads: kernels and BLAS let go of the interpreter lock.
Processes and clusters are further executors behind the same two calls.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from beliefs.inference.parallel import parallel_chunks
from beliefs.options import MANY, check_integer, check_option

__all__ = ["Executor", "Threads", "executor_of", "threads_of"]

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
        """Run ``task(begin, end)`` over chunks that write to shared memory; always by threads of this process."""

        def run(begin: int, end: int) -> int:
            task(begin, end)
            return 0

        parallel_chunks(run, np.arange(n_chunks + 1), self.n_workers)


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
        if self.n_threads == 1:
            return [task(entry) for entry in entries]
        with ThreadPoolExecutor(self.n_threads) as pool:
            return list(pool.map(task, entries))

    def windows(self, task: Callable[[S], T], entries: Iterable[S]) -> Iterator[T]:
        """Yield the answers; entries are taken from their source a window at a time."""
        if self.n_threads == 1:
            yield from map(task, entries)
            return
        with ThreadPoolExecutor(self.n_threads) as pool:
            window: list[S] = []
            for entry in entries:
                again = any(entry is other for other in window)
                if again or len(window) == self.n_threads * _WINDOW:
                    yield from list(pool.map(task, window))
                    window = []
                window.append(entry)
            yield from list(pool.map(task, window))


def executor_of(threads: int | None) -> Executor:
    """Return the executor with as many threads; None: one for each core."""
    return Threads((os.cpu_count() or 1) if threads is None else threads)


def threads_of(n_jobs: int | None) -> int:
    """Return the threads that scikit-learn's ``n_jobs`` means: None one, -1 all cores."""
    from joblib import effective_n_jobs  # with estimators alone

    check_integer("n_jobs", n_jobs, -MANY, MANY, none=True)
    check_option(n_jobs != 0, "n_jobs", "None or an integer other than 0", n_jobs)
    return int(effective_n_jobs(n_jobs))
