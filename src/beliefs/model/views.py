"""Sequences of variables and factors that exist only while they are looked at."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, overload

from beliefs.model.factor import Factor
from beliefs.model.naming import Naming
from beliefs.model.variable import Variable

if TYPE_CHECKING:
    from beliefs.model.graph import FactorGraph

__all__ = ["Factors", "Variables"]


T = TypeVar("T")


class Views(Sequence[T]):
    """A sequence whose elements are made when they are asked for."""

    __slots__ = ()

    @abstractmethod
    def _make(self, index: int) -> T:
        """Return the element at an index that exists."""

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        """Return the element at an index, or a list for a slice."""
        if isinstance(index, slice):
            return [self._make(i) for i in range(len(self))[index]]
        return self._make(range(len(self))[index])


@dataclass(frozen=True, slots=True)
class Variables(Views[Variable]):
    """The variables of a model, by index."""

    naming: Naming

    def __len__(self) -> int:
        return len(self.naming.card)

    def _make(self, v: int) -> Variable:
        return self.naming.variable(v)


@dataclass(frozen=True, slots=True)
class Factors(Views[Factor]):
    """The factors of a graph, by number."""

    graph: FactorGraph

    def __len__(self) -> int:
        return self.graph.layout.n_factors

    def _make(self, f: int) -> Factor:
        layout = self.graph.layout
        scope = [self.graph.naming.variable(int(v)) for v in layout.scope(f)]
        return Factor(scope, self.graph.theta[layout.cells(f)])
