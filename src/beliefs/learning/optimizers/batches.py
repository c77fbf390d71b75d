"""Mini-batches of examples, pass after pass, from data that can be chosen from, read again and again, or read once.

What is not in memory is read ahead: while one batch is worked on, a thread makes the next. The order, and so every byte
of a fit, is that of reading when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.data import Data, InParts, LabelledData, can_choose, chosen

__all__ = ["Batches"]


class Batches:
    """The batches of one pass after the other, with a look at whether another follows.

    Lists, and :class:`~beliefs.learning.data.Data`, are shuffled anew for every pass by a generator seeded with the
    seed and the number of the pass, so that a pass can be entered anywhere and always has the same order; so are the
    parts of data that is :class:`~beliefs.learning.data.InParts`. Other iterables keep their order.

    Parameters
    ----------
    n_pass, position : int
        Where to enter: passes finished, and examples of the present one already seen.
    """

    def __init__(self, data: LabelledData, size: int, seed: int, n_pass: int = 0, position: int = 0) -> None:
        self.data, self.size, self.seed = data, size, seed
        self._reader = None if can_choose(data) else ThreadPoolExecutor(1, thread_name_prefix="beliefs-reading")
        self.enter(n_pass, position)

    def enter(self, n_pass: int, position: int = 0) -> None:
        """Begin a pass, or go on within one."""
        if can_choose(self.data):
            self._source = self._drawn(n_pass, position)
        elif isinstance(self.data, InParts):
            self._source = self._loaded(self.data, n_pass, position)
        else:
            self._source = self._read(position)
        self._next = self._made()
        if self.over and position == 0:
            raise ModelError("there are no instances to learn from" + (" in a further pass" if n_pass else ""))

    def take(self) -> Any:
        """Return the next batch: a list of instances, or such data as it is taken from; None if there is none."""
        batch, self._next = self._next(), self._made()
        return batch

    @property
    def over(self) -> bool:
        """Whether the pass has no further batch; where batches are read, it is waited for."""
        return self._next() is None

    def close(self) -> None:
        """Read no further; what is being read is waited for."""
        if self._reader is not None:
            self._reader.shutdown(cancel_futures=True)

    def _made(self) -> Callable[[], Any]:
        """Begin to make the next batch, and return the function that waits for it."""
        if self._reader is not None:
            return self._reader.submit(next, self._source, None).result
        batch = next(self._source, None)
        return lambda: batch

    def _drawn(self, n_pass: int, position: int) -> Iterator[Any]:
        data: Any = self.data.of_pass(n_pass) if isinstance(self.data, Data) else self.data
        order = np.random.default_rng([self.seed, n_pass]).permutation(len(data))
        for begin in range(position, len(order), self.size):
            yield chosen(data, order[begin : begin + self.size])

    def _loaded(self, data: InParts, n_pass: int, position: int) -> Iterator[Any]:
        """Go through parts in a drawn order, those before the position unread."""
        rng, batch = np.random.default_rng([self.seed, n_pass]), []
        for k in rng.permutation(len(data.sizes)).tolist():
            order = rng.permutation(data.sizes[k])[position:]
            position = max(0, position - data.sizes[k])
            part = data.part(k) if order.size else []
            for number in order:
                batch.append(part[number])
                if len(batch) == self.size:
                    yield batch
                    batch = []
        if batch:
            yield batch

    def _read(self, position: int) -> Iterator[Any]:
        source = islice(iter(self.data), position, None)  # type: ignore[arg-type]
        while batch := list(islice(source, self.size)):
            yield batch
