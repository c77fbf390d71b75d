r"""Neighbourhoods for large moves: sets of variables whose best joint state, all others fixed, is cheap to find.

A random connected region of the query is freed, together with every summed component that it touches. Where its
elimination (sums first) would need a clique of more than ``2**limit`` cells, the query's variables that join most are
clamped again, which is what a *w-cutset* does [bidyuk2007]; so what stays free has bounded induced width and is solved
exactly by one pass over a small cluster tree. With ``limit`` 2 on a binary model this is a forest move; with the
constrained width of the whole problem it is the exact answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beliefs.inference.orders.orders import Order
from beliefs.inference.search.clamped import ClampedTree
from beliefs.kernels.orders.bounded import Region, bounded_order
from beliefs.kernels.orders.graph import connected_components, primal_graph
from beliefs.kernels.search.clamped import grow_region
from beliefs.model.layout import Layout
from beliefs.typing import Bools, Ints

__all__ = ["Neighbourhood", "Neighbourhoods"]

_MANY_CELLS = 2.0**15  # of the sums alone: beyond, their own order is kept, which greedy elimination would not find
_BYTES_PER_FACTOR = 320.0  # memory that a factor takes which a region touches
_MOST_MEMBERS = 4096  # variables of a region: its bit rows take 2 MB


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """A free part, and whether nothing was clamped: then its best state is the best of all."""

    tree: ClampedTree
    is_whole: bool


class Neighbourhoods:
    """Random neighbourhoods of one query; with all variables in the query, of joint states.

    Parameters
    ----------
    query : ndarray
        The variables to move; others are summed, observed ones are fixed.
    random : Generator
        Decides regions and ties.
    spare : float
        Bytes for the slices of the factors that a region touches, however few cells its clusters have, and for its
        graph; the smallest regions take theirs in any case.
    """

    def __init__(
        self, layout: Layout, query: Ints, sums: Order, random: np.random.Generator, spare: float = np.inf
    ) -> None:
        self.layout, self.query, self.sums = layout, query, sums
        self.most_factors, self.most_members = spare / _BYTES_PER_FACTOR, np.sqrt(8.0 * spare)
        active = ~layout.observed
        self.ptr, self.adj = primal_graph(layout.scope_ptr.copy(), layout.scope_vars.copy(), active)
        self.bits = np.log2(layout.card)
        self.free: Bools = np.zeros(layout.n_vars, np.bool_)
        self.free[query] = True
        self.random = random.integers(1, 2**63, size=1, dtype=np.uint64)
        self.movable = query[(layout.card[query] > 1) & (layout.degree[query] > 0)]
        self._components(active & ~self.free)
        self.rank = np.full(layout.n_vars, -1, np.int64)
        if sums.total_cells > _MANY_CELLS:
            self.rank[np.flatnonzero(active & ~self.free)[sums.order]] = np.arange(sums.order.size)
        self._scratch = np.full(layout.n_vars, -1, np.int64)
        self._seen: Bools = np.zeros(layout.n_vars, np.bool_)
        self._found = np.empty(layout.n_vars, np.int64)

    def _components(self, summed: Bools) -> None:
        """Number the connected components of the summed variables."""
        n = self.layout.n_vars
        self.members, self.bounds = np.empty(n, np.int64), np.empty(n + 1, np.int64)
        count = connected_components(self.ptr, self.adj, summed, self.members, self.bounds)
        self.component = np.full(n, -1, np.int64)
        sizes = np.diff(self.bounds[: count + 1])
        self.component[self.members[: self.bounds[count]]] = np.repeat(np.arange(count), sizes)

    def draw(self, root: int, size: int, budget: float) -> Neighbourhood:
        """Return a neighbourhood of up to ``size`` variables near ``root`` that takes about ``budget`` cells."""
        return self.within(self.region(root, size), budget)

    def region(self, root: int, size: int) -> Ints:
        """Return about ``size`` variables of the query near ``root``."""
        degree, size = self.layout.degree, min(size, _MOST_MEMBERS)
        if self.movable.size <= size and degree[self.movable].sum() <= self.most_factors:
            return self.movable
        count = grow_region(self.ptr, self.adj, self.free, root, size, self.random, self._seen, self._found)
        touched = np.cumsum(degree[self._found[:count]])
        return self._found[: max(1, int(np.searchsorted(touched, self.most_factors, side="right")))].copy()

    def within(self, region: Ints, budget: float) -> Neighbourhood:
        """Free as many variables of a ``region`` of the query as about ``budget`` cells allow.

        What the sums alone need comes on top.
        """
        members = self._with_components(region)
        while members.size > self.most_members and region.size > 1:
            region = region[: region.size // 2]
            members = self._with_components(region)
        summed = self.component[members] >= 0
        extra = max(1.0, np.log2(budget / self.sums.total_cells)) if self.sums.total_cells > _MANY_CELLS else 1.0
        order, clamped = np.empty(members.size, np.int64), np.zeros(members.size, np.bool_)
        n_free, largest, cells = bounded_order(
            self.ptr, self.adj, self.bits, Region(members, summed, self.rank[members]), self._scratch, extra, budget,
            self.random, order, clamped,
        )  # fmt: skip
        place = np.cumsum(~clamped) - 1
        kept = members[~clamped]
        plan = place[order[:n_free]]
        plan = plan[self.layout.degree[kept[plan]] > 0]
        priced = Order(plan, "bounded", 0, cells, 2.0**largest, cells, float(np.log2(cells)), largest)
        tree = ClampedTree.build(self.layout, kept, ~summed[~clamped], priced)
        return Neighbourhood(tree, int((~summed[~clamped]).sum()) >= self.movable.size)

    def _with_components(self, region: Ints) -> Ints:
        """Return the region and all summed components next to it, ascending."""
        lengths = np.diff(self.ptr)[region]
        ends = np.cumsum(lengths)
        places = np.repeat(self.ptr[region] - ends + lengths, lengths) + np.arange(int(lengths.sum()))
        near = np.unique(self.component[self.adj[places]])
        near = near[near >= 0]
        parts = [self.members[self.bounds[c] : self.bounds[c + 1]] for c in near]
        return np.sort(np.concatenate([region, *parts]))
