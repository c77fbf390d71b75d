"""Working memory that is used again by the next question or instance.

Memory that a process touches for the first time costs several times more than a sweep that writes to it, and large
arrays go back to the system as soon as they are dropped. A fit walks forward and backward thousands of times over
graphs of much the same size, and a model is asked with one evidence after the other. So a few large arrays are kept
here, up to a limit, for whoever comes next.
"""

from __future__ import annotations

import threading
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
_kept: list[Floats] = []
_returned: deque[Floats] = deque()  # not yet among them


def take(size: int) -> Floats:
    """Return an array of ``size`` entries, any content: the smallest that is kept and large enough, or a new one."""
    if size < _SMALL:
        return np.empty(size)
    with _lock:
        _sort_in()
        fitting = [k for k, array in enumerate(_kept) if size <= array.size <= _WASTE * size]
        if fitting:
            array = _kept.pop(min(fitting, key=lambda k: _kept[k].size))
            return array[:size]
    return np.empty(size)


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
            while len(_kept) > _MANY or sum(kept.nbytes for kept in _kept) > limit:
                _kept.pop(0)
        finally:
            _lock.release()


def _sort_in() -> None:
    """Add what was returned to what is kept; under the lock."""
    while _returned:
        _kept.append(_returned.popleft())
