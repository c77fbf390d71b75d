"""Mini-batches of instances, pass after pass, from a list, from anything that can be iterated again, or once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.instances import Instance

__all__ = ["Batches", "n_labels"]


def n_labels(instances: Iterable[Any]) -> float:
    """Return the labelled variables of some instances, weighted as the loss weights them."""
    return float(sum(getattr(i, "weight", 1.0) * getattr(i, "n_labelled", 1) for i in instances))


class Batches:
    """The batches of one pass after the other, with a look at whether another follows.

    A list is shuffled anew for every pass by a generator seeded with the seed and the number of the pass, so that a
    pass can be entered anywhere and always has the same order; other iterables keep theirs.

    Parameters
    ----------
    n_pass, position : int
        Where to enter: passes finished, and instances of the present one already seen.
    """

    def __init__(self, instances: Iterable[Instance], size: int, seed: int, n_pass: int = 0, position: int = 0) -> None:
        self.instances, self.size, self.seed = instances, size, seed
        self.ordered = not isinstance(instances, (list, tuple))
        self.enter(n_pass, position)

    def enter(self, n_pass: int, position: int = 0) -> None:
        """Begin a pass, or go on within one."""
        self._source = self._pass(n_pass, position)
        self._next = list(islice(self._source, self.size))
        if not self._next and position == 0:
            raise ModelError("there are no instances to learn from" + (" in a further pass" if n_pass else ""))

    def take(self) -> list[Instance]:
        """Return the next batch."""
        batch, self._next = self._next, list(islice(self._source, self.size))
        return batch

    @property
    def over(self) -> bool:
        """Whether the pass has no further batch."""
        return not self._next

    def _pass(self, n_pass: int, position: int) -> Iterator[Instance]:
        if self.ordered:
            return islice(iter(self.instances), position, None)
        data: Any = self.instances
        order = np.random.default_rng([self.seed, n_pass]).permutation(len(data))
        return (data[k] for k in order[position:])
