"""What a loss sees of the data: a structure, inputs for the template, and labels, some of them hidden."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.typing import Bools, Floats, Ints

__all__ = ["HIDDEN", "Instance", "InstanceMemory", "Slot"]

T = TypeVar("T")

HIDDEN = -1
"""The label of a variable whose state is not known."""


@dataclass(frozen=True)
class Slot(Generic[T]):
    """A place in the memory of an instance: what is kept there, and by whose options it is told from others."""

    what: str
    owner: Hashable = None


class InstanceMemory:
    """What losses keep with an instance from one evaluation to the next: warm starts, chains, index arrays."""

    def __init__(self) -> None:
        self._kept: dict[Slot[Any], Any] = {}

    def get(self, slot: Slot[T]) -> T | None:
        """Return what is kept there, if anything."""
        found: T | None = self._kept.get(slot)
        return found

    def put(self, slot: Slot[T], value: T) -> T:
        """Keep a value, in the place of an earlier one, and return it."""
        self._kept[slot] = value
        return value

    def of(self, slot: Slot[T], make: Callable[[], T]) -> T:
        """Return what is kept there, made now if it is asked for the first time."""
        found = self.get(slot)
        return self.put(slot, make()) if found is None else found


@dataclass(frozen=True, eq=False)
class Instance:
    """One training example: the layout of its graph, what the template needs, and the labels.

    Attributes
    ----------
    labels : ndarray of int (n_vars,)
        The state of each variable, -1 where hidden.
    inputs : object
        What :meth:`Template.theta` takes; for the log-linear template a tuple of :class:`Rows`.
    weight : float
        How much the instance counts.
    label_weights : ndarray (n_vars,), optional
        How much each variable's term counts in losses that are sums over variables; None: 1.
    name : str
        What messages call it.
    costs : ndarray (n_states,), optional
        What each state of each variable costs in the place of its label, for losses with a margin: at least 0, and 0
        at the label; None: as the loss says.
    memory : InstanceMemory
        Messages and chains that a loss goes on from; private to one fit, and not handed on by ``replace``.
    """

    layout: Layout
    inputs: Any
    labels: Ints
    weight: float = 1.0
    label_weights: Floats | None = None
    name: str = "the instance"
    costs: Floats | None = None
    memory: InstanceMemory = field(default_factory=InstanceMemory, init=False, repr=False)

    @cached_property
    def labelled(self) -> Bools:
        """Which variables have a label, ``(n_vars,)``."""
        return self.labels >= 0

    @cached_property
    def n_labelled(self) -> int:
        """How many variables have a label."""
        return int(self.labelled.sum())

    @property
    def n_counted(self) -> float:
        """The labelled variables, weighted like the instance."""
        return self.weight * self.n_labelled

    @property
    def n_parts(self) -> int:
        """How many instances it stands for."""
        return 1

    def by_part(self, of_factors: Floats, of_vars: Floats | None = None) -> Floats:
        """Return the sum of terms, those of factors and of variables, of each instance that it stands for."""
        return np.array([of_factors.sum() + (0.0 if of_vars is None else of_vars.sum())])

    @cached_property
    def _empty(self) -> FactorGraph:
        return FactorGraph.build(self.layout, np.zeros(self.layout.n_cells))

    def graph(self, theta: Floats) -> FactorGraph:
        """Return the factor graph with these log potentials; layouts and plans are shared."""
        return self._empty.with_theta(theta)

    @cached_property
    def _empty_clamped(self) -> FactorGraph:
        seen = np.flatnonzero(self.labelled)
        return self._empty.condition(dict(zip(seen.tolist(), self.labels[seen].tolist(), strict=True)))

    @property
    def clamped_layout(self) -> Layout:
        """The layout of the graph in which every labelled variable is observed."""
        return self._empty_clamped.layout

    def clamped(self, theta: Floats) -> FactorGraph:
        """Return the graph in which every labelled variable is observed as its label; its structure is kept."""
        empty = self._empty_clamped
        assert empty.parent_cells is not None
        return empty.with_theta(theta[empty.parent_cells])

    @cached_property
    def label_cells(self) -> Ints:
        """The cell of ``theta`` that the labels pick in each factor, ``(n_factors,)``; -1 where one is hidden."""
        lay = self.layout
        offset = np.zeros(lay.n_factors, np.int64)
        arity = lay.arity
        for a in range(int(arity.max(initial=0))):
            f = np.flatnonzero(arity > a)
            v = lay.scope_vars[lay.scope_ptr[f] + a]
            offset[f] = offset[f] * lay.card[v] + self.labels[v]
        hidden = np.bincount(lay.edge_factor, ~self.labelled[lay.scope_vars], lay.n_factors) > 0
        return np.where(hidden, -1, lay.cell_ptr + offset)

    @cached_property
    def statistics(self) -> Floats:
        """The indicators ``f(x)`` of the labels, ``(n_cells,)``, tied cells added up; all labels must be known."""
        known = self.label_cells[self.label_cells >= 0]
        return np.bincount(known, minlength=self.layout.n_cells).astype(np.float64)
