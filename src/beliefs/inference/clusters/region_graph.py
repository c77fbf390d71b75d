r"""Region graphs: which sets of variables have a table together, how often each counts, and who covers whom.

A region :math:`\gamma` has a counting number :math:`c_\gamma`; the Kikuchi approximation of the entropy is
:math:`\sum_\gamma c_\gamma H(b_\gamma)` with beliefs that agree where a parent covers a child [yedidia2005]. Five ways
to choose regions:

==================  ================================================================================================
``bethe``           the factors of several variables, c = 1, and the variables, c = 1 - number of them around it
``cvm``             outer regions, closed under intersection, :math:`c_\beta = 1 - \sum_{\gamma \supset \beta} c_\gamma`
``join_graph``      mini-buckets, c = 1, and the separators between two of them, c = -1 each [mateescu2010]
``loops``           cycles of a pairwise model, the edges in several of them and the vertices that need it
                    [welling2005, gelfand2014]
``build``           any regions, any counting numbers
==================  ================================================================================================

A region graph is structure only: it serves every model with the same layout. Variables without a region get one of
their own, so that all entropies count. Observed variables are in no region. Sizes are those of Python lists; a region
is a tuple of variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from beliefs.cycles.pairs import checked_cycles
from beliefs.errors import ModelError
from beliefs.inference.base import Problem
from beliefs.inference.clusters import region_order, region_sets
from beliefs.inference.clusters.junction_graph import JunctionGraph
from beliefs.inference.clusters.loop_regions import loop_regions
from beliefs.inference.clusters.partition import check_ibound, partition
from beliefs.inference.clusters.region_criteria import Criteria, criteria
from beliefs.inference.clusters.region_entropy import kikuchi_entropy
from beliefs.inference.clusters.region_sets import Edges, Region
from beliefs.inference.orders.chosen import check_order, chosen_order
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.model.layout import Layout, frozen_ints
from beliefs.model.scopes import Scopes
from beliefs.typing import Bools, Floats, Ints, VariableRef

__all__ = ["RegionGraph", "counting_array"]


@dataclass(frozen=True, eq=False, repr=False)
class RegionGraph:
    """Regions, their counting numbers, and who covers whom; made by one of the class methods.

    Attributes
    ----------
    layout : Layout
        The structure of the models that it is for.
    scopes : tuple of tuples of int
        The variables of each region, outer regions (those without parents) first; a loop in cyclic order.
    counting : ndarray (n_regions,)
        The counting numbers.
    edges : ndarray (n_edges, 2)
        Positions of parent and child.
    is_loop : ndarray of bool (n_regions,)
        Which regions are loops, with one table an edge instead of one over all their variables.

    Examples
    --------
    >>> import beliefs as bl
    >>> grid = bl.datasets.make_ising_grid(3, seed=0)
    >>> regions = bl.RegionGraph.loops(grid, bl.cycles.faces(grid))
    >>> regions
    <RegionGraph of 9 regions>
    >>> regions.criteria()["tree_robust"]
    True
    """

    layout: Layout
    scopes: tuple[Region, ...]
    counting: Floats
    edges: Ints
    is_loop: Bools

    # -- ways to choose -------------------------------------------------------------------------------------------
    @classmethod
    def bethe(cls, graph: Model) -> RegionGraph:
        """Take factors of several variables, and variables."""
        layout = as_factor_graph(graph).layout
        wide = np.flatnonzero(layout.arity > 1)
        hidden = np.flatnonzero(~layout.observed)
        outer = [tuple(layout.scope(int(f)).tolist()) for f in wide]
        around = np.bincount(
            np.concatenate([*(layout.scope(int(f)) for f in wide), hidden[:0]]), minlength=layout.n_vars
        )
        place = np.full(layout.n_vars, -1, np.int64)
        place[hidden] = wide.size + np.arange(hidden.size)
        edges = [(k, int(place[v])) for k, scope in enumerate(outer) for v in scope]
        counting = np.concatenate([np.ones(wide.size), 1.0 - around[hidden]])
        return cls._of(layout, [*outer, *((int(v),) for v in hidden)], counting, edges)

    @classmethod
    def cvm(cls, graph: Model, outer: Iterable[Sequence[VariableRef]]) -> RegionGraph:
        """Take outer regions and their intersections; factors and variables that none covers become outer regions."""
        whole = as_factor_graph(graph)
        given = [region for region, _ in _regions(whole, outer)]
        scopes = [tuple(whole.layout.scope(f).tolist()) for f in range(whole.n_factors)]
        alone = [(int(v),) for v in np.flatnonzero(~whole.layout.observed)]
        tops = region_sets.maximal([*given, *scopes, *alone])
        regions = region_sets.closed(tops) or []
        edges = region_sets.covering(regions)
        return cls._of(whole.layout, regions, region_sets.counting_numbers(regions), edges)

    @classmethod
    def join_graph(cls, graph: Model, ibound: int, order: str | Sequence[Any] = "auto") -> RegionGraph:
        """Take the mini-buckets of an order, and for every edge of their join graph its separator.

        ``ibound`` is the number of variables in a message, one less than in a cluster; at the width of the order the
        join graph is a junction tree.
        """
        check_ibound(ibound)
        check_order(order)
        whole = as_factor_graph(graph)
        chosen = chosen_order(Problem(whole), order)
        buckets = partition(whole.layout, chosen, ibound)
        return cls.of_junction_graph(whole.layout, JunctionGraph.of_buckets(whole.layout, buckets))

    @classmethod
    def of_junction_graph(cls, layout: Layout, graph: JunctionGraph) -> RegionGraph:
        """Take the clusters, and for every edge of a tree between the clusters of a separator that separator."""
        clusters = [tuple(graph.scope(c).tolist()) for c in range(graph.n_clusters)]
        separators: list[Region] = []
        edges: list[tuple[int, int]] = []
        for scope, one, other in graph.tree_edges():
            place = len(clusters) + len(separators)
            separators.append(scope)
            edges += [(one, place), (other, place)]
        covered = {v for scope in clusters for v in scope}
        alone = [(int(v),) for v in np.flatnonzero(~layout.observed) if int(v) not in covered]
        counting = np.repeat([1.0, -1.0, 1.0], [len(clusters), len(separators), len(alone)])
        return cls._of(layout, [*clusters, *separators, *alone], counting, edges)

    @classmethod
    def of_separators(cls, layout: Layout, graph: JunctionGraph) -> RegionGraph:
        """Take the clusters, and every separator of n of them once, counting 1 - n: the same entropy."""
        n_linked = np.diff(graph.links.ptr)
        shared = n_linked != 1  # of no cluster: an isolated variable, a region by itself
        cluster = graph.links.cluster[np.repeat(shared, n_linked)]
        separator = graph.n_clusters + np.repeat(np.arange(shared.sum()), n_linked[shared])
        regions: list[Region] = [tuple(graph.scope(c).tolist()) for c in range(graph.n_clusters)]
        ptr, var = graph.separators.ptr, graph.separators.var
        regions += (tuple(var[ptr[s] : ptr[s + 1]].tolist()) for s in np.flatnonzero(shared))
        counting = np.concatenate([np.ones(graph.n_clusters), 1.0 - n_linked[shared]])
        return cls._of(layout, regions, counting, np.stack([cluster, separator], axis=1))

    @classmethod
    def loops(cls, graph: Model, cycles: Iterable[Sequence[VariableRef]]) -> RegionGraph:
        """Take cycles of a pairwise model as structured regions, with the edges and vertices that are needed."""
        whole = as_factor_graph(graph)
        given = checked_cycles(whole, cycles)
        regions, counting, edges = loop_regions(whole, given)
        loop = np.arange(len(regions)) < len(given)
        return cls._of(whole.layout, regions, counting, edges, loop)

    @classmethod
    def build(cls, graph: Model, regions: Iterable[Sequence[VariableRef]], counting: ArrayLike) -> RegionGraph:
        """Take regions and counting numbers as they are; parents are the smallest regions around.

        A region with all variables observed is left out.
        """
        whole = as_factor_graph(graph)
        given = list(regions)
        numbers = counting_array(counting, len(given))
        kept = _regions(whole, given)
        scopes = [region for region, _ in kept]
        covered = {v for scope in scopes for v in scope}
        for v in np.flatnonzero(~whole.layout.observed).tolist():
            if v not in covered:
                raise ModelError(f"no region has the variable {whole.naming.name(v)}; add one that does")
        _check_covered(whole, scopes)
        edges = region_sets.covering(scopes)
        return cls._of(whole.layout, scopes, numbers[[k for _, k in kept]], edges)

    @classmethod
    def _of(
        cls, layout: Layout, scopes: Sequence[Region], counting: Any, edges: Edges | Ints, loop: Bools | None = None
    ) -> RegionGraph:
        """Put outer regions first, and freeze."""
        pairs = np.array(edges, np.int64).reshape(-1, 2)
        inner = np.zeros(len(scopes), np.bool_)
        inner[pairs[:, 1]] = True
        order = np.argsort(inner, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        pairs = place[pairs]
        numbers = np.asarray(counting, np.float64)[order] + 0.0
        is_loop = (np.zeros(len(scopes), np.bool_) if loop is None else loop)[order]
        for array in (numbers, is_loop):
            array.setflags(write=False)
        by_parent = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
        return cls(layout, tuple(scopes[k] for k in order), numbers, frozen_ints(by_parent, "edges"), is_loop)

    # -- derived --------------------------------------------------------------------------------------------------
    @property
    def n_regions(self) -> int:
        """Number of regions."""
        return len(self.scopes)

    @cached_property
    def n_outer(self) -> int:
        """Number of regions without parents; they come first."""
        return self.n_regions - int(np.count_nonzero(np.bincount(self.edges[:, 1])))

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The children of each region."""
        ptr = np.searchsorted(self.edges[:, 0], np.arange(self.n_regions + 1))
        return tuple(tuple(self.edges[a:b, 1].tolist()) for a, b in zip(ptr[:-1], ptr[1:], strict=True))

    @cached_property
    def flat(self) -> Scopes:
        """The scopes side by side."""
        return Scopes.of(self.scopes)

    @cached_property
    def above(self) -> tuple[Ints, Ints]:
        """Each region together with all above it, ascending, as offsets and regions."""
        return region_order.above(self.n_regions, self.edges)

    @property
    def ancestors(self) -> tuple[frozenset[int], ...]:
        """Each region together with all above it, as sets."""
        ptr, region = self.above
        return tuple(frozenset(region[a:b].tolist()) for a, b in zip(ptr[:-1], ptr[1:], strict=True))

    def criteria(self) -> Criteria:
        """Return which of the criteria for choosing regions hold: True, False with a witness, or None (undecided)."""
        return criteria(self.layout, self.scopes, self.counting, self.edges, self.is_loop)

    def entropy(self, result: Any) -> float:
        """Return the Kikuchi entropy of a result's marginals, in nats.

        That of a loop is the largest given its edges that are regions or carry a factor that is not constant.
        """
        if not result.graph.layout.equals(self.layout):
            raise ModelError("the regions are those of a model with other factors or evidence than the result's")
        return kikuchi_entropy(result, self.scopes, self.counting, self.is_loop)

    def __repr__(self) -> str:
        return f"<RegionGraph of {self.n_regions} regions>"


def counting_array(counting: ArrayLike, n_regions: int) -> Floats:
    """Return given counting numbers as an array, refused where they are not one finite number a region."""
    try:
        numbers = np.array(counting, np.float64)
    except (TypeError, ValueError):
        raise ModelError(f"counting must be {n_regions} finite numbers, one a region, found {counting!r}") from None
    if numbers.shape != (n_regions,) or not np.isfinite(numbers).all():
        found = f"shape {numbers.shape}" if numbers.shape != (n_regions,) else "one that is not finite"
        raise ModelError(f"counting must be {n_regions} finite numbers, one a region, found {found}")
    return numbers


def _regions(graph: FactorGraph, given: Iterable[Sequence[VariableRef]]) -> list[tuple[Region, int]]:
    """Return regions as indices without observed variables, those that are left, and their positions."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ModelError("regions must be a list of tuples of variables")
    found = []
    for k, region in enumerate(given):
        if isinstance(region, str) or not isinstance(region, Iterable):
            raise ModelError(f"a region is a tuple of variables, found {region!r}")
        scope = tuple(graph.index(v) for v in region)
        if len(set(scope)) < len(scope):
            raise ModelError(f"region ({', '.join(graph.naming.name(v) for v in scope[:8])}) has a variable twice")
        hidden = tuple(v for v in scope if not graph.layout.observed[v])
        if hidden:
            found.append((hidden, k))
    return found


def _check_covered(graph: FactorGraph, scopes: Sequence[Region]) -> None:
    """Refuse regions none of which has all variables of a factor."""
    factors = [tuple(graph.layout.scope(f).tolist()) for f in range(graph.n_factors)]
    sets = [frozenset(scope) for scope in scopes]
    holders = region_sets.holders(scopes)
    for f, factor in enumerate(factors):
        if factor and not any(sets[k].issuperset(factor) for k in holders[factor[0]]):
            names = ", ".join(graph.naming.name(v) for v in factor)
            raise ModelError(f"no region covers factor {f} ({names}); add one that does")
