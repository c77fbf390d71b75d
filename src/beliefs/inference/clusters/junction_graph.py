r"""Junction graphs: clusters, the separators between them, and which cluster has each factor.

Axes of clusters and separators follow one elimination order, first eliminated first, so that the power sum along the
order reduces the leading axis. Two graphs are built here. The factor graph: clusters are the factors of several
variables, separators the variables. And the mini-bucket graph of an i-bound: clusters are mini-buckets, separators the
scopes of their messages and, for the replicas of a variable, the variable. Factors of one variable belong to the
variable's own separator; variables of one state are left out of clusters. Section 3.5 [ping2016].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from beliefs.inference.clusters.partition import MiniBuckets
from beliefs.kernels.dual.graph import link_axes, separator_levels
from beliefs.kernels.dual.structure import Axes, ChainSteps, Links
from beliefs.model.layout import Layout, frozen_ints, offsets
from beliefs.typing import Bools, Floats, Ints

__all__ = ["JunctionGraph"]


@dataclass(frozen=True, eq=False)
class JunctionGraph:
    """Clusters and separators as flat arrays, as kernels read them.

    Attributes
    ----------
    order : ndarray
        All unobserved variables, first eliminated first.
    clusters : Axes
        Cluster ``c`` has the variables ``var[ptr[c]:ptr[c+1]]``, with their cardinalities; its table begins at
        ``cell[c]``.
    own : ndarray (n_axes,)
        Whether the cluster takes part in its variable's weight at the start.
    separators : Axes
        The same for separators, in the order in which they are swept.
    links : Links
        The clusters of each separator.
    home : ndarray (n_factors,)
        The cluster of each factor of several variables, else -1.
    node : ndarray (n_vars,)
        The separator of each unobserved variable alone, else -1.
    """

    order: Ints
    clusters: Axes
    own: Bools
    separators: Axes
    links: Links
    home: Ints
    node: Ints

    @classmethod
    def of_factors(cls, layout: Layout, order: Ints) -> JunctionGraph:
        """Take the factors of several variables as clusters and the variables as separators."""
        position = positions(layout, order)
        arity = layout.arity
        wide = np.flatnonzero(arity > 1)
        home = np.full(layout.n_factors, -1, np.int64)
        home[wide] = np.arange(wide.size)
        inside = (arity[layout.edge_factor] > 1) & (layout.card[layout.scope_vars] > 1)
        owner, variable = home[layout.edge_factor[inside]], layout.scope_vars[inside]
        by_order = np.lexsort((position[variable], owner))
        owner, variable = owner[by_order], variable[by_order]
        axis_ptr = offsets(np.bincount(owner, minlength=wide.size))
        own = np.append(owner[1:] == owner[:-1], np.zeros(min(1, owner.size), np.bool_))  # a later variable is there
        hidden = np.flatnonzero(~layout.observed)
        seps = hidden[np.argsort(position[hidden], kind="stable")]
        rank = np.full(layout.n_vars, -1, np.int64)
        rank[seps] = np.arange(seps.size)
        links = np.argsort(rank[variable], kind="stable")
        link_ptr = offsets(np.bincount(rank[variable], minlength=seps.size))
        clusters = (axis_ptr, variable, own)
        return cls._linked(layout, clusters, np.arange(seps.size + 1), seps, link_ptr, owner[links], home, rank)

    @classmethod
    def of_buckets(cls, layout: Layout, buckets: MiniBuckets) -> JunctionGraph:
        """Take mini-buckets as clusters, their messages' scopes and the variables as separators."""
        order, ptr = buckets.order, buckets.axes_ptr
        several = buckets.card > 1
        members: dict[tuple[int, ...], list[int]] = {(p,): [] for p in range(order.size)}
        turn: dict[tuple[int, ...], float] = {(p,): float(p) for p in range(order.size)}
        for c in np.flatnonzero(several[buckets.variable]):
            members[(int(buckets.variable[c]),)].append(int(c))
        for c in np.flatnonzero(buckets.parent >= 0):
            message = tuple(int(p) for p in buckets.axes[ptr[c] + 1 : ptr[c + 1]] if several[p])
            if not message:
                continue
            key = message if len(message) == 1 else (*message, -1 - int(buckets.parent[c]))
            joined = members.setdefault(key, [int(buckets.parent[c])])
            joined.append(int(c))
            if len(message) > 1:
                turn[key] = max(turn.get(key, 0.0), float(buckets.variable[c]) + 0.5)
        keys = sorted(members, key=lambda key: (turn[key], key))
        alone = np.setdiff1d(np.flatnonzero(~layout.observed), order)
        scopes = [order[[p for p in key if p >= 0]] for key in keys] + [alone[k : k + 1] for k in range(alone.size)]
        sep_ptr = offsets([scope.size for scope in scopes])
        links = [members[key] for key in keys] + [[] for _ in alone]
        link_ptr = offsets([len(link) for link in links])
        node = np.full(layout.n_vars, -1, np.int64)
        for s, scope in enumerate(scopes):
            if scope.size == 1:
                node[scope[0]] = s
        home = np.where(layout.arity > 1, buckets.host, -1)
        flat = np.array([c for link in links for c in link], np.int64)
        kept = several[buckets.axes]
        counts = offsets(kept)
        own = np.zeros(buckets.axes.size, np.bool_)
        own[ptr[:-1]] = True
        clusters = (counts[ptr], order[buckets.axes[kept]], own[kept])
        return cls._linked(layout, clusters, sep_ptr, np.concatenate([*scopes, order[:0]]), link_ptr, flat, home, node)

    @classmethod
    def _linked(
        cls, layout: Layout, clusters: tuple[Ints, Ints, Bools], sep_ptr: Ints, sep_var: Ints, link_ptr: Ints,
        link_cluster: Ints, home: Ints, node: Ints,
    ) -> JunctionGraph:  # fmt: skip
        axis_ptr, axis_var, own = clusters
        own.setflags(write=False)
        order = frozen_ints(sep_var[sep_ptr[:-1][np.diff(sep_ptr) == 1]], "order")
        of_clusters, of_separators = _axes(layout, axis_ptr, axis_var), _axes(layout, sep_ptr, sep_var)
        links = _links(of_clusters, of_separators, frozen_ints(link_ptr, "links"), frozen_ints(link_cluster, "links"))
        home, node = frozen_ints(home, "links"), frozen_ints(node, "links")
        return cls(order, of_clusters, own, of_separators, links, home, node)

    # -- derived --------------------------------------------------------------------------------------------------
    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self.clusters.ptr.size - 1)

    @property
    def n_separators(self) -> int:
        """Number of separators."""
        return int(self.separators.ptr.size - 1)

    @property
    def n_cells(self) -> int:
        """Cells of all clusters."""
        return int(self.clusters.cell[-1])

    def scope(self, c: int) -> Ints:
        """Return the variables of a cluster."""
        return self.clusters.var[self.clusters.ptr[c] : self.clusters.ptr[c + 1]]

    def tree_edges(self) -> Iterator[tuple[tuple[int, ...], int, int]]:
        """Yield every separator's variables with two of its clusters, a chain of them a separator."""
        for s in range(self.n_separators):
            scope = tuple(self.separators.var[self.separators.ptr[s] : self.separators.ptr[s + 1]].tolist())
            linked = self.links.cluster[self.links.ptr[s] : self.links.ptr[s + 1]].tolist()
            yield from ((scope, one, other) for one, other in pairwise(linked))

    @property
    def n_bytes(self) -> int:
        """Memory of all arrays, those derived included."""
        whole = (self.order, self.own, self.home, self.node, *self.clusters, *self.separators, *self.links)
        derived = 3 * self.clusters.var.size + 2 * self.links.cluster.size + self.node.size
        return int(sum(array.nbytes for array in whole) + 8 * derived)

    @cached_property
    def steps(self) -> ChainSteps:
        """Where the cells over each axis and its later ones begin, laid side by side; and the axes of each variable."""
        ptr, var, card, _ = self.clusters
        cluster = np.repeat(np.arange(self.n_clusters), np.diff(ptr))
        after, end = card.copy(), ptr[cluster + 1]
        for further in range(1, int(np.diff(ptr).max(initial=1))):
            axes = np.flatnonzero(np.arange(after.size) + further < end)
            after[axes] *= card[axes + further]
        begin = offsets(after)
        var_ptr = offsets(np.bincount(var, minlength=self.node.size))
        var_axes = np.argsort(var, kind="stable")
        return ChainSteps(*(frozen_ints(array, "steps") for array in (begin, cluster, var_ptr, var_axes)))

    @cached_property
    def link_owner(self) -> Ints:
        """The separator of each link, (n_links,)."""
        return np.repeat(np.arange(self.n_separators), np.diff(self.links.ptr))

    @cached_property
    def link_width(self) -> Ints:
        """Cells of each link's separator, (n_links,)."""
        return np.repeat(np.diff(self.separators.cell), np.diff(self.links.ptr))

    def coupled(self, tau: Floats) -> Bools:
        """Return which links cannot be pooled: other axes follow the first common one, and not all are maximised."""
        hot = offsets(tau[self.clusters.var] > 0)
        summed = hot[self.clusters.ptr[self.links.cluster + 1]] > hot[self.links.first]
        coupled: Bools = (self.links.size != self.link_width) & summed
        return coupled

    def levels(self, *, backward: bool) -> tuple[Ints, Ints]:
        """Return the separators level by level, those of one level independent, and where each level begins."""
        order = np.arange(self.n_separators)[:: -1 if backward else 1].copy()
        level = np.empty(self.n_separators, np.int64)
        n_levels = separator_levels(
            order, self.links.ptr, self.links.cluster, np.full(self.n_clusters, -1, np.int64), level
        )
        sizes = np.bincount(level, minlength=n_levels)
        return np.argsort(level, kind="stable"), offsets(sizes)

    def revisited(self, *, backward: bool) -> Bools:
        """Return which links lead to a cluster that a sweep will meet again, read-only."""
        turn = -self.link_owner if backward else self.link_owner
        latest = np.full(self.n_clusters, -self.n_separators)
        np.maximum.at(latest, self.links.cluster, turn)
        again: Bools = latest[self.links.cluster] > turn
        again.setflags(write=False)
        return again

    def equals(self, other: JunctionGraph) -> bool:
        """Whether clusters, separators and links are the same."""
        mine, theirs = (
            (*g.clusters[:2], *g.separators[:2], g.links.ptr, g.links.cluster) for g in (self, other)
        )  # fmt: skip
        return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))


def positions(layout: Layout, order: Ints) -> Ints:
    """Return the place of each variable in the order; those without factors come last, by index."""
    position = layout.n_vars + np.arange(layout.n_vars)
    position[order] = np.arange(order.size)
    return position


def _axes(layout: Layout, ptr: Ints, var: Ints) -> Axes:
    """Return tables over the given variables, with their cardinalities and offsets."""
    card = layout.card[var]
    padded = np.concatenate([card, [1]])
    sizes = np.where(np.diff(ptr) > 0, np.multiply.reduceat(padded, ptr[:-1]) if ptr.size > 1 else 1, 1)
    cell = offsets(sizes)
    return Axes(*(frozen_ints(array, "axes") for array in (ptr, var, card, cell)))


def _links(clusters: Axes, separators: Axes, ptr: Ints, cluster: Ints) -> Links:
    """Return the links with the first common axis, the cells from there on, and the strides of each."""
    room = offsets(np.diff(clusters.ptr)[cluster])
    step, first, size = room[:-1].copy(), np.empty_like(room[:-1]), np.empty_like(room[:-1])
    stride = np.empty(int(room[-1]), np.int64)
    link_axes(clusters, separators, ptr, cluster, first, size, step, stride)
    first, size, step = (frozen_ints(array, "links") for array in (first, size, step))
    return Links(ptr, cluster, first, size, step, stride)
