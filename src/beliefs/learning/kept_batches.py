"""What was made of lists of instances, so that the next evaluation on the same list finds it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from beliefs.learning.instances import Instance

__all__ = ["KeptBatches"]

T = TypeVar("T")
_KEPT = 4  # lists: those of training, of validation, and room for others


class KeptBatches(Generic[T]):
    """Batches made for lists of instances, by identity, with what was in the list then; a copy begins without."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Sequence[Instance], tuple[Instance, ...], T]] = {}

    def of(self, instances: Sequence[Instance], make: Callable[[Sequence[Instance]], T]) -> T:
        """Return what was made of this list, as long as it holds the same instances; the oldest lists are let go."""
        found, now = self._made.get(id(instances)), tuple(instances)
        if found is None or found[0] is not instances or found[1] != now:  # instances are equal if they are the same
            self._made.pop(id(instances), None)
            while len(self._made) >= _KEPT:
                del self._made[next(iter(self._made))]
            found = self._made[id(instances)] = (instances, now, make(instances))
        return found[2]

    def __len__(self) -> int:
        return len(self._made)

    def clear(self) -> None:
        """Let go of all."""
        self._made.clear()

    def __repr__(self) -> str:
        return "kept batches"

    def __reduce__(self) -> Any:
        return KeptBatches, ()
