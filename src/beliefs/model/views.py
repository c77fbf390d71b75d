"""Sequences of variables and factors that exist only while they are looked at."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, overload

from beliefs.errors import ModelError
from beliefs.model.factor import Factor
from beliefs.model.naming import Naming
from beliefs.model.variable import Variable

if TYPE_CHECKING:
    from beliefs.model.graph import FactorGraph

__all__ = ["Factors", "Variables"]


T = TypeVar("T")
_SHOWN = 10  # elements that a repr shows


class Views(Sequence[T]):
    """A sequence whose elements are made when they are asked for."""

    __slots__ = ()

    @abstractmethod
    def _make(self, index: int) -> T:
        """Return the element at an index that exists."""

    def _number(self, ref: str) -> int:
        """Return the index of an element that is asked for by name."""
        raise ModelError(f"{type(self).__name__.lower()} are counted from 0, found {ref!r}")

    @overload
    def __getitem__(self, index: int | str) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | str | slice) -> T | list[T]:
        """Return the element at an index or of a name, or a list for a slice."""
        if isinstance(index, slice):
            return [self._make(i) for i in range(len(self))[index]]
        if isinstance(index, str):
            index = self._number(index)
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"no number {index}: the model has {n} {type(self).__name__.lower()}")
        return self._make(range(n)[index])

    def __repr__(self) -> str:
        more = "" if len(self) <= _SHOWN else f", ... {len(self) - _SHOWN} more"
        return f"[{', '.join(map(repr, self[:_SHOWN]))}{more}]"


@dataclass(frozen=True, slots=True, repr=False)
class Variables(Views[Variable]):
    """The variables of a model, by index."""

    naming: Naming

    def __len__(self) -> int:
        return len(self.naming.card)

    def __contains__(self, variable: object) -> bool:
        return self.naming.has(variable) if isinstance(variable, str) else super().__contains__(variable)

    def _number(self, ref: str) -> int:
        return self.naming.index(ref)

    def _make(self, v: int) -> Variable:
        return self.naming.variable(v)


@dataclass(frozen=True, slots=True, repr=False)
class Factors(Views[Factor]):
    """The factors of a graph, by number."""

    graph: FactorGraph

    def __len__(self) -> int:
        return self.graph.layout.n_factors

    def _make(self, f: int) -> Factor:
        layout = self.graph.layout
        scope = [self.graph.naming.variable(int(v)) for v in layout.scope(f)]
        return Factor(scope, self.graph.theta[layout.cells(f)])
