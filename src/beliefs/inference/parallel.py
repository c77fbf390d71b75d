"""Kernels side by side: fixed chunks of work on a pool of threads.

Kernels let go of the interpreter lock, so threads are enough. What a chunk computes never depends on how many threads
there are or which of them runs it; chunks of one group touch nothing in common.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import cache
from typing import Any

import numpy as np

from beliefs.typing import Ints

__all__ = ["in_chunks", "one_thread_of_blas", "parallel_chunks"]


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One pool a process: threads do not survive a fork, so a child makes its own."""
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="beliefs")


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
    pool = _pool(os.getpid())
    others = list[Future[int]]()
    try:
        for k in range(1, lots):
            others.append(pool.submit(copy_context().run, task, cuts[k], cuts[k + 1]))
        own = task(cuts[0], cuts[1])
    finally:
        wait(others)
    return max(own, *(other.result() for other in others))


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
