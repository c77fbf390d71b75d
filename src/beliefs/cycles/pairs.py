"""The graph below a pairwise model: its edges, each once, and cycles in it, checked.

Observed variables are in no scope and so in no edge. A factor of three or more variables has no place in such a graph
and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.model.distinct import distinct_rows
from beliefs.model.graph import Model, as_factor_graph
from beliefs.model.layout import Layout, frozen_ints
from beliefs.model.scopes import Scopes, row_codes
from beliefs.typing import Ints, VariableRef

__all__ = ["Cycle", "Edge", "EdgeSet", "PairGraph", "canonical", "checked_cycles", "components", "edge_set"]

Cycle = tuple[int, ...]
Edge = tuple[int, int]
EdgeSet = frozenset[Edge]


@dataclass(frozen=True, eq=False)
class PairGraph:
    """Vertices ``0..n_vars-1`` and edges ``(u, v)``, u < v, sorted, each once.

    Attributes
    ----------
    n_vars : int
        Number of vertices, those without edges included.
    edges : ndarray (n_edges, 2)
        Who is joined.
    """

    n_vars: int
    edges: Ints

    @classmethod
    def of(cls, model: Model) -> PairGraph:
        """Return the graph of a pairwise model."""
        graph = as_factor_graph(model)
        layout = graph.layout
        if not layout.is_pairwise:
            f = int(np.argmax(layout.arity > 2))
            names = ", ".join(graph.naming.name(int(v)) for v in layout.scope(f))
            raise ModelError(f"cycles need factors of at most two variables; factor {f} has ({names})")
        return cls.of_layout(layout)

    @classmethod
    def of_layout(cls, layout: Layout) -> PairGraph:
        """Return the graph of all factors of two variables, kept on the layout."""
        return layout.plan(_of_scopes)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(self.edges.shape[0])

    @cached_property
    def number(self) -> dict[tuple[int, int], int]:
        """The position of each edge ``(u, v)``, u < v."""
        return {(u, v): e for e, (u, v) in enumerate(self.edges.tolist())}

    def numbers(self, one: Ints, other: Ints) -> Ints:
        """Return the position of the edge between each two vertices, -1 where there is none."""
        keys = self.edges[:, 0] * self.n_vars + self.edges[:, 1]
        wanted = np.minimum(one, other) * self.n_vars + np.maximum(one, other)
        at = np.minimum(np.searchsorted(keys, wanted), max(keys.size - 1, 0))
        return np.where(keys[at] == wanted, at, -1) if keys.size else np.full(wanted.size, -1, np.int64)

    @cached_property
    def incident(self) -> tuple[Ints, Ints, Ints]:
        """Offsets a vertex, and the neighbour and the edge behind each entry, by neighbour."""
        ends, others = self.edges.ravel(), self.edges[:, ::-1].ravel()
        order = np.lexsort((others, ends))
        ptr = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=self.n_vars))])
        found = (ptr, others[order], np.repeat(np.arange(self.n_edges), 2)[order])
        return tuple(frozen_ints(array, "edges") for array in found)  # type: ignore[return-value]

    @property
    def degree(self) -> Ints:
        """Neighbours of each vertex."""
        return np.diff(self.incident[0])

    def neighbours(self, v: int) -> list[int]:
        """Return the neighbours of a vertex, ascending."""
        ptr, neighbour, _ = self.incident
        found: list[int] = neighbour[ptr[v] : ptr[v + 1]].tolist()
        return found

    @cached_property
    def component(self) -> Ints:
        """The component of each vertex, numbered from 0."""
        return components(self.n_vars, self.edges)

    @property
    def rank(self) -> int:
        """The dimension of the cycle space, edges - vertices + components."""
        n_components = int(self.component.max(initial=-1)) + 1
        return self.n_edges - self.n_vars + n_components


def _of_scopes(layout: Layout) -> PairGraph:
    starts = layout.scope_ptr[:-1][layout.arity == 2]
    pairs = np.stack([layout.scope_vars[starts], layout.scope_vars[starts + 1]], axis=1)
    pairs.sort(axis=1)
    return PairGraph(layout.n_vars, frozen_ints(distinct_rows(pairs).rows, "edges"))


def components(n_vars: int, edges: Ints) -> Ints:
    """Return the component of each vertex."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(edges.shape[0]), (edges[:, 0], edges[:, 1])), shape=(n_vars, n_vars))
    label: Ints = connected_components(links, directed=False)[1].astype(np.int64)
    return label


def edge_set(cycle: Cycle) -> EdgeSet:
    """Return the edges of a cycle, the smaller vertex of each first."""
    return frozenset((u, v) if u < v else (v, u) for u, v in zip(cycle, (*cycle[1:], cycle[0]), strict=True))


def canonical(cycle: Sequence[int]) -> Cycle:
    """Return the cycle from its smallest vertex, towards that one's smaller neighbour.

    Examples
    --------
    >>> canonical([4, 3, 0, 1])
    (0, 1, 4, 3)
    """
    at = min(range(len(cycle)), key=cycle.__getitem__)
    turned = [*cycle[at:], *cycle[:at]]
    return (turned[0], *turned[:0:-1]) if turned[-1] < turned[1] else tuple(turned)


def checked_cycles(model: Model, cycles: Iterable[Sequence[VariableRef]]) -> list[Cycle]:
    """Return the cycles as given, in indices.

    Raises
    ------
    ModelError
        For a cycle that is not simple, not in the graph, or there twice.
    """
    graph = as_factor_graph(model)
    pairs = PairGraph.of(graph)
    if isinstance(cycles, str) or not isinstance(cycles, Iterable):
        raise ModelError("cycles must be a list of tuples of variables in cyclic order")
    listed: list[Any] = list(cycles)
    if _plain(pairs, listed):
        return listed
    found, seen = [], set()
    for given in listed:
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ModelError(f"a cycle is a tuple of variables in cyclic order, found {given!r}")
        cycle = tuple(graph.index(v) for v in given)
        shown = f"cycle ({', '.join(graph.naming.name(v) for v in cycle[:8])}{', ...' if len(cycle) > 8 else ''})"
        if len(cycle) < 3 or len(set(cycle)) < len(cycle):
            raise ModelError(f"{shown} is not simple: it needs three or more variables, each once")
        for u, v in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            if (min(u, v), max(u, v)) not in pairs.number:
                one, other = graph.naming.name(u), graph.naming.name(v)
                raise ModelError(f"{shown} is not in the graph: no factor joins {one} and {other}")
        key = canonical(cycle)
        if key in seen:
            raise ModelError(f"{shown} is given twice; name every cycle once")
        seen.add(key)
        found.append(cycle)
    return found


def _plain(pairs: PairGraph, cycles: list[Any]) -> bool:
    """Whether these are tuples of indices, simple cycles of the graph, no two over the same variables."""
    if not cycles or not all(type(cycle) is tuple and len(cycle) > 2 for cycle in cycles):
        return False
    if not all(type(v) is int for cycle in cycles for v in cycle):
        return False
    rows = Scopes.of(cycles)
    if not ((rows.var >= 0) & (rows.var < pairs.n_vars)).all():
        return False
    sets = rows.ascending()
    twice = (sets.var[1:] == sets.var[:-1]) & (sets.row[1:] == sets.row[:-1])
    joined = pairs.numbers(rows.var, rows.next) >= 0
    return not twice.any() and bool(joined.all()) and bool((np.diff(np.sort(row_codes(sets))) > 0).all())
