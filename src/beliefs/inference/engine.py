"""Work elsewhere: inside :func:`engaged` fits and questions about many rows find an engine, whose processes do it.

What an engine is made of is not known here: :mod:`beliefs.learning.cluster` has one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, Self, TypeVar

__all__ = ["Engine", "Summand", "engaged", "engine_around"]

S = TypeVar("S")
T = TypeVar("T")


class Summand(Protocol):
    """What is found for a part of the data, and can be added to what is found for another."""

    def plus(self, other: Self) -> Self:
        """Return the sum."""
        ...


class Engine(ABC):
    """Processes that hold data and add up what a job finds in it, or answer for entries one by one.

    The same bytes for any number of them.
    """

    @abstractmethod
    def hold(self, items: Sequence[Any], sizes: Sequence[int]) -> None:
        """Hand the items out, unless they are held; ``sizes`` say how much work each is."""

    @abstractmethod
    def total(self, job: Callable[[list[Any], dict[str, Any], Any], Any], argument: Any, items: Any) -> Any:
        """Return the sum of ``job(items, state, argument)`` over all items, or some of them; None if they are not held.

        ``state`` is kept with the items from one call to the next.
        """

    @abstractmethod
    def map(self, task: Callable[[S], T], entries: Iterable[S]) -> list[T]:
        """Return the answers for independent entries, in their order."""


_ENGINE: ContextVar[Engine | None] = ContextVar("engine", default=None)


def engine_around() -> Engine | None:
    """Return the engine that work is engaged with, if any."""
    return _ENGINE.get()


@contextmanager
def engaged(engine: Engine) -> Iterator[None]:
    """Within, sums over data are taken by the engine."""
    token = _ENGINE.set(engine)
    try:
        yield
    finally:
        _ENGINE.reset(token)
