"""Mini-batches of examples, pass after pass, from data that can be chosen from, read again and again, or read once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.data import Data, LabelledData, can_choose, chosen

__all__ = ["Batches"]


class Batches:
    """The batches of one pass after the other, with a look at whether another follows.

    Lists, and :class:`~beliefs.learning.data.Data`, are shuffled anew for every pass by a generator seeded with the
    seed and the number of the pass, so that a pass can be entered anywhere and always has the same order; other
    iterables keep theirs.

    Parameters
    ----------
    n_pass, position : int
        Where to enter: passes finished, and examples of the present one already seen.
    """

    def __init__(self, data: LabelledData, size: int, seed: int, n_pass: int = 0, position: int = 0) -> None:
        self.data, self.size, self.seed = data, size, seed
        self.enter(n_pass, position)

    def enter(self, n_pass: int, position: int = 0) -> None:
        """Begin a pass, or go on within one."""
        self._source = self._drawn(n_pass, position) if can_choose(self.data) else self._read(position)
        self._next = next(self._source, None)
        if self._next is None and position == 0:
            raise ModelError("there are no instances to learn from" + (" in a further pass" if n_pass else ""))

    def take(self) -> Any:
        """Return the next batch: a list of instances, or such data as it is taken from; None if there is none."""
        batch, self._next = self._next, next(self._source, None)
        return batch

    @property
    def over(self) -> bool:
        """Whether the pass has no further batch."""
        return self._next is None

    def _drawn(self, n_pass: int, position: int) -> Iterator[Any]:
        data: Any = self.data.of_pass(n_pass) if isinstance(self.data, Data) else self.data
        order = np.random.default_rng([self.seed, n_pass]).permutation(len(data))
        for begin in range(position, len(order), self.size):
            yield chosen(data, order[begin : begin + self.size])

    def _read(self, position: int) -> Iterator[Any]:
        source = islice(iter(self.data), position, None)  # type: ignore[arg-type]
        while batch := list(islice(source, self.size)):
            yield batch
