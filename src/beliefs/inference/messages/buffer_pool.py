"""Working memory that is used again by the next question or instance.

Memory that a process touches for the first time costs several times more than a sweep that writes to it, and large
arrays go back to the system as soon as they are dropped. A fit walks forward and backward thousands of times over
graphs of much the same size, and a model is asked with one evidence after the other. So a few large arrays are kept
here, up to a limit, for whoever comes next.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import deque

import numpy as np

from beliefs.inference.budget import default_budget
from beliefs.typing import Floats

__all__ = ["put_back", "take"]

_SHARE = 0.25  # of a question's budget, that is an eighth of the memory available: kept at most
_MANY = 256  # arrays kept at most
_SMALL = 2**12  # doubles: what the allocator keeps by itself
_LARGE = 2**24  # doubles, 128 MB: what is not kept when it is over
_WASTE = 4  # an array is not given to somebody who needs less than this part of it

_lock = threading.Lock()
_returned: deque[Floats] = deque()  # not yet among those that are kept


class _Kept:
    """Arrays by size and by age: each is found, added or let go in a few steps, however many there are."""

    def __init__(self) -> None:
        self.arrays: dict[int, Floats] = {}  # by age, the oldest first
        self.sizes: list[tuple[int, int]] = []  # sorted, with the age of each
        self.n_bytes = 0
        self.age = 0

    def add(self, array: Floats) -> None:
        """Keep an array as the youngest."""
        self.age += 1
        self.arrays[self.age] = array
        insort(self.sizes, (array.size, self.age))
        self.n_bytes += 8 * array.size

    def take(self, size: int) -> Floats | None:
        """Let go of the youngest, whose memory is warm, among the smallest that are large enough."""
        at = bisect_left(self.sizes, (size, 0))
        if at == len(self.sizes) or self.sizes[at][0] > _WASTE * size:
            return None
        at = bisect_left(self.sizes, (self.sizes[at][0] + 1, 0)) - 1
        return self._out(*self.sizes.pop(at))

    def shrink(self, limit: float) -> None:
        """Let go of the oldest, as long as there are too many, or more bytes than ``limit``."""
        while len(self.arrays) > _MANY or self.n_bytes > limit:
            age, array = next(iter(self.arrays.items()))
            self.sizes.pop(bisect_left(self.sizes, (array.size, age)))
            self._out(array.size, age)

    def _out(self, size: int, age: int) -> Floats:
        self.n_bytes -= 8 * size
        return self.arrays.pop(age)


_kept = _Kept()


def take(size: int) -> Floats:
    """Return an array of ``size`` entries, any content: the smallest that is kept and large enough, or a new one."""
    if size < _SMALL:
        return np.empty(size)
    with _lock:
        _sort_in()
        array = _kept.take(size)
    return np.empty(size) if array is None else array[:size]


def put_back(array: Floats) -> None:
    """Keep an array that was taken; nobody may use it any more. The oldest ones go if there is too much.

    The garbage collector may call this at any moment, also while the same thread holds the lock: nothing is waited for.
    """
    whole = array.base if isinstance(array.base, np.ndarray) else array
    if not _SMALL <= whole.size <= _LARGE:
        return
    limit = _SHARE * default_budget()
    _returned.append(whole)
    if _lock.acquire(blocking=False):
        try:
            _sort_in()
            _kept.shrink(limit)
        finally:
            _lock.release()


def _sort_in() -> None:
    """Add what was returned to what is kept; under the lock."""
    while _returned:
        _kept.add(_returned.popleft())
