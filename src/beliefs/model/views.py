"""Sequences of variables and factors that exist only while they are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from beliefs.model.factor import Factor
from beliefs.model.naming import Naming
from beliefs.model.variable import Variable

if TYPE_CHECKING:
    from beliefs.model.graph import FactorGraph

__all__ = ["Factors", "Variables"]


@dataclass(frozen=True, slots=True)
class Variables(Sequence[Variable]):
    """The variables of a model, by index."""

    naming: Naming

    def __len__(self) -> int:
        return len(self.naming.card)

    @overload
    def __getitem__(self, index: int) -> Variable: ...
    @overload
    def __getitem__(self, index: slice) -> list[Variable]: ...
    def __getitem__(self, index: int | slice) -> Variable | list[Variable]:
        """Return the variable at an index, or a list for a slice."""
        if isinstance(index, slice):
            return [self.naming.variable(v) for v in range(len(self))[index]]
        return self.naming.variable(range(len(self))[index])


@dataclass(frozen=True, slots=True)
class Factors(Sequence[Factor]):
    """The factors of a graph, by number."""

    graph: FactorGraph

    def __len__(self) -> int:
        return self.graph.layout.n_factors

    @overload
    def __getitem__(self, index: int) -> Factor: ...
    @overload
    def __getitem__(self, index: slice) -> list[Factor]: ...
    def __getitem__(self, index: int | slice) -> Factor | list[Factor]:
        """Return the factor at an index, or a list for a slice."""
        if isinstance(index, slice):
            return [self._make(f) for f in range(len(self))[index]]
        return self._make(range(len(self))[index])

    def _make(self, f: int) -> Factor:
        layout = self.graph.layout
        scope = [self.graph.naming.variable(int(v)) for v in layout.scope(f)]
        return Factor(scope, self.graph.theta[layout.cells(f)])
