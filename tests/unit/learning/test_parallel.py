"""Chunks that threads take as they become free: each once, whatever the number of threads, and none after a failure."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from beliefs.learning.parallel import Threads


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n_chunks", [1, 2, 7, 100])
def test_every_chunk_is_worked_on_once(threads: int, n_chunks: int) -> None:
    counts = np.zeros(n_chunks, np.int64)

    def task(begin: int, end: int) -> None:
        assert 0 <= begin < end <= n_chunks
        counts[begin:end] += 1

    Threads(threads).chunks(task, n_chunks)
    assert (counts == 1).all()


def test_a_thread_that_is_slow_leaves_the_rest_to_others() -> None:
    by: dict[str, int] = {}
    done = threading.Event()

    def task(begin: int, end: int) -> None:
        name = threading.current_thread().name
        by[name] = by.get(name, 0) + end - begin
        if begin == 0:
            assert done.wait(60), "the other thread takes all that is left"
        elif end == 64:
            done.set()

    Threads(2).chunks(task, 64)
    assert sum(by.values()) == 64 and sorted(by.values()) == [16, 48]


def test_after_a_failure_nothing_new_begins() -> None:
    seen: list[int] = []

    def task(begin: int, end: int) -> None:
        seen.append(begin)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Threads(2).chunks(task, 1000)
    assert len(seen) <= 2
