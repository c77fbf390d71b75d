"""Working memory that is used again by the next question or instance.

Memory that a process touches for the first time costs several times more than a sweep that writes to it, and large
arrays go back to the system as soon as they are dropped. A fit walks forward and backward thousands of times over
graphs of much the same size, and a model is asked with one evidence after the other. So a few large arrays are kept
here, up to a limit, for the next question.

Ctrl-C may come at any moment, and an exception in what runs when an object dies is printed and lost. So no Python code
runs then (see :class:`_Loan`), and what was interrupted while it changed begins anew (:meth:`_Kept.begin`).
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import deque
from typing import Any
from weakref import ref

import numpy as np

from beliefs.inference.budget import default_budget
from beliefs.typing import Floats

__all__ = ["lend", "put_back", "take"]

_SHARE = 0.25  # of a question's budget, that is an eighth of the memory available: kept and lent at most
_MANY = 256  # arrays kept and lent at most
_SMALL = 2**12  # doubles: what the allocator keeps by itself
_LARGE = 2**24  # doubles, 128 MB: what is not kept when it is over
_WASTE = 4  # an array is not lent where less than this part of it is needed


class _Loan(ref[Any]):
    """A weak reference to whoever works in an array; when that is gone it lies among what was returned, by itself.

    Its callback is a function of the interpreter's own, in which no signal is looked at.
    """

    __slots__ = ("array",)
    array: Floats


_lock = threading.Lock()
_returned: deque[_Loan] = deque()  # not yet among those that are kept


class _Kept:
    """Arrays by size and by age: each is found, added or let go in a few steps, however many there are."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Let go of everything; what is lent goes back to the system when its owner is gone."""
        _returned.clear()
        self.arrays: dict[int, Floats] = {}  # by age, the oldest first
        self.sizes: list[tuple[int, int]] = []  # sorted, with the age of each
        self.lent: dict[int, _Loan] = {}
        self.n_bytes = 0  # kept and lent
        self.age = 0
        self.whole = True

    def begin(self) -> None:
        """Before a change, at whose end :attr:`whole` is set: if the last one was interrupted all is forgotten."""
        if not self.whole:
            self.forget()
        self.whole = False
        while _returned:
            loan = _returned.popleft()
            if self.lent.pop(id(loan), None) is not None:
                self.n_bytes -= loan.array.nbytes
                self.add(loan.array)

    def add(self, array: Floats) -> None:
        """Keep an array as the youngest."""
        self.age += 1
        self.arrays[self.age] = array
        insort(self.sizes, (array.size, self.age))
        self.n_bytes += array.nbytes

    def take(self, size: int) -> Floats | None:
        """Let go of the youngest, whose memory is warm, among the smallest that are large enough."""
        at = bisect_left(self.sizes, (size, 0))
        if at == len(self.sizes) or self.sizes[at][0] > _WASTE * size:
            return None
        at = bisect_left(self.sizes, (self.sizes[at][0] + 1, 0)) - 1
        return self._out(*self.sizes.pop(at))

    def lend(self, loan: _Loan, limit: float) -> None:
        """Expect an array back, unless what is lent alone would be too much."""
        self.lent[id(loan)] = loan
        self.n_bytes += loan.array.nbytes
        if self.shrink(limit):
            del self.lent[id(loan)]
            self.n_bytes -= loan.array.nbytes

    def shrink(self, limit: float) -> bool:
        """Let go of the oldest, as long as there are too many, or more bytes than ``limit``; return if still so."""
        while len(self.arrays) + len(self.lent) > _MANY or self.n_bytes > limit:
            if not self.arrays:
                return True
            age, array = next(iter(self.arrays.items()))
            self.sizes.pop(bisect_left(self.sizes, (array.size, age)))
            self._out(array.size, age)
        return False

    def _out(self, size: int, age: int) -> Floats:
        self.n_bytes -= 8 * size
        return self.arrays.pop(age)


_kept = _Kept()


def take(size: int) -> Floats:
    """Return an array of ``size`` entries, any content: the smallest that is kept and large enough, or a new one."""
    if size < _SMALL:
        return np.empty(size)
    with _lock:
        _kept.begin()
        array = _kept.take(size)
        _kept.whole = True
    return np.empty(size) if array is None else array[:size]


def lend(owner: object, array: Floats) -> None:
    """Keep an array as soon as its owner is gone; nobody else may use it after that."""
    whole = _whole(array)
    if not _SMALL <= whole.size <= _LARGE:
        return
    loan, limit = _Loan(owner, _returned.append), _limit()
    loan.array = whole
    with _lock:
        _kept.begin()
        _kept.lend(loan, limit)
        _kept.whole = True


def put_back(array: Floats) -> None:
    """Keep an array that was taken; nobody may use it any more. The oldest ones go if there is too much."""
    whole = _whole(array)
    if not _SMALL <= whole.size <= _LARGE:
        return
    limit = _limit()
    with _lock:
        _kept.begin()
        _kept.add(whole)
        _kept.shrink(limit)
        _kept.whole = True


def _whole(array: Floats) -> Floats:
    return array.base if isinstance(array.base, np.ndarray) else array


def _limit() -> float:
    return _SHARE * default_budget()
