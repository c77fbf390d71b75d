"""Walking back over passes whose states do not all fit in memory.

To go back through pass t one needs the messages before it. If only c states are held at a time, those in between are
computed again from the nearest one. Where to hold them so that least is computed again is known [griewank2000]: from
c states and r repetitions one can go back over ``binomial(c + r, c)`` passes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import comb

from beliefs.inference.messages.buffer_pool import lend, take
from beliefs.typing import Floats

__all__ = ["Recording", "Replayed", "Room", "State"]


class Room:
    """An array that goes back to the pool when nobody has the room any more."""

    def __init__(self, array: Floats) -> None:
        self.array = array
        lend(self, array)


@dataclass(frozen=True, eq=False)
class State:
    """Messages between two passes, and what else it takes to go on from them to the same bytes."""

    messages: Floats
    rest: tuple[Floats, ...] | None = None
    room: Room | None = None

    @classmethod
    def copied(cls, messages: Floats, rest: tuple[Floats, ...] | None) -> State:
        """Copy the messages to memory of the pool."""
        room = Room(take(messages.size))
        room.array[:] = messages
        return cls(room.array, rest, room)


class Replayed(ABC):
    """Something that runs numbered passes, and can be put back to an earlier state."""

    @abstractmethod
    def run_pass(self, t: int) -> None:
        """Run pass ``t`` from the present state."""

    @abstractmethod
    def save(self, whole: bool) -> State:
        """Return the present state, which later passes do not change; ``whole`` if it will be gone on from."""

    @abstractmethod
    def load(self, state: State) -> None:
        """Go back to a whole state."""


@dataclass(eq=False)
class Recording:
    """Passes ``0..n_passes - 1`` of a run, with at most ``held`` states in memory beside the present one."""

    run: Replayed
    n_passes: int
    held: int
    spine: list[tuple[int, State]] = field(default_factory=list)
    """States to go back to, the first one always among them."""

    complete: bool = False
    """Whether the spine is still as the way forward left it."""

    def forward(self) -> State:
        """Run all passes, holding states on the way; return the last state."""
        whole, free, at = self.held < self.n_passes, self.held - 1, 0
        if not self.spine:
            self.spine.append((0, self.run.save(whole)))
        while at < self.n_passes:
            end = _split(at, self.n_passes, free) if free > 0 and self.n_passes - at > 1 else self.n_passes
            for t in range(at, end):
                self.run.run_pass(t)
            at, free = end, free - 1
            if at < self.n_passes:
                self.spine.append((at, self.run.save(whole)))
        self.complete = True
        return self.run.save(True)

    def backward(self, last: State) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield each pass, the last first, with the messages before and after it."""
        if not self.complete:
            self.run.load(self.spine[0][1])
            self.forward()
        self.complete = self.held >= self.n_passes
        end, after = self.n_passes, last
        for place in range(len(self.spine) - 1, -1, -1):
            at, state = self.spine[place]
            if not self.complete and place > 0:
                self.spine.pop()  # its memory is needed on the way back
            yield from self._back(at, end, state, self.held - 1 - place, after)
            end, after = at, state

    def _back(self, at: int, end: int, state: State, free: int, after: State) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield passes ``at..end - 1`` backwards from the state before the first, with room for ``free`` states."""
        if end - at == 1:
            yield at, state.messages, after.messages
        elif end > at and free == 0:
            for t in range(end - 1, at - 1, -1):
                before = state if t == at else self._ahead(state, at, t, False)
                yield t, before.messages, after.messages
                after = before
        elif end > at:
            middle = _split(at, end, free)
            ahead = self._ahead(state, at, middle, True)
            yield from self._back(middle, end, ahead, free - 1, after)
            yield from self._back(at, middle, state, free, ahead)

    def _ahead(self, state: State, at: int, to: int, whole: bool) -> State:
        self.run.load(state)
        for t in range(at, to):
            self.run.run_pass(t)
        return self.run.save(whole)


def _split(at: int, end: int, free: int) -> int:
    """Return where between two passes to hold a state, if ``free`` states may be held."""
    repeats = 1
    while comb(free + repeats, free) < end - at:
        repeats += 1
    return at + min(comb(free + repeats - 1, free), end - at - 1)
