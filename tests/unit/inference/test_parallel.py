"""Chunks side by side: every answer is waited for, errors come back in order, and threads hold on to nothing."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from contextvars import ContextVar

import numpy as np
import pytest

from beliefs.inference.parallel import parallel_chunks

BOUNDS = np.arange(7)
WORD: ContextVar[str] = ContextVar("word", default="")


@pytest.mark.parametrize("threads", [1, 2, 3, 50])
def test_every_chunk_once_and_the_largest_answer(threads: int) -> None:
    done: list[int] = []

    def task(begin: int, end: int) -> int:
        done.extend(range(begin, end))
        return 10 * end

    assert parallel_chunks(task, BOUNDS, threads) == 60 and sorted(done) == list(range(6))


@pytest.mark.parametrize("failing", [(0,), (2,), (2, 4), (0, 2, 4)])
def test_an_error_comes_back_when_nothing_is_under_way(failing: tuple[int, ...]) -> None:
    ended: list[int] = []

    def task(begin: int, end: int) -> int:
        time.sleep(0.01 * (6 - begin) if begin in failing else 0.05)
        ended.append(begin)
        if begin in failing:
            raise ValueError(str(begin))
        return 0

    with pytest.raises(ValueError, match=f"^{failing[0]}$"):
        parallel_chunks(task, BOUNDS, 3)
    assert sorted(ended) == [0, 2, 4]


def test_other_threads_know_the_context_and_keep_no_array() -> None:
    seen, array = set[tuple[str, bool]](), np.zeros(1000)
    here, gone = threading.get_ident(), weakref.ref(array)

    def task(begin: int, end: int, values: np.ndarray = array) -> int:
        time.sleep(0.01)
        seen.add((WORD.get(), threading.get_ident() == here))
        return int(values.sum())

    token = WORD.set("said")
    try:
        parallel_chunks(task, BOUNDS, 2)
    finally:
        WORD.reset(token)
    assert seen == {("said", True), ("said", False)}
    del task, array
    for _ in range(100):
        gc.collect()
        if gone() is None:
            break
        time.sleep(0.01)
    assert gone() is None
