r"""Random k-trees and partial k-trees: graphs whose treewidth is known.

A k-tree starts from a clique of :math:`k+1` vertices; every further vertex is joined to the :math:`k` vertices of a
clique that is already there, here chosen uniformly among all of them, so degrees follow a power law. It is chordal,
its largest cliques have :math:`k+1` vertices, its treewidth is :math:`k` and it has :math:`kn - k(k+1)/2` edges.
A partial k-tree is a k-tree that has lost some edges; its treewidth is at most :math:`k`.

[gelfand2014] section 3.5 counts the clique's vertices instead: its ``K = 10`` is ``k = 9`` here.
"""

from __future__ import annotations

from collections import deque
from itertools import combinations
from typing import Unpack

import numpy as np

from beliefs.datasets.arguments import check_count, check_room, check_share, generator
from beliefs.datasets.pairwise import PairwiseOptions, make_pairwise
from beliefs.errors import ModelError
from beliefs.model.graph import FactorGraph
from beliefs.typing import Ints

__all__ = ["k_tree_edges", "make_k_tree", "make_partial_k_tree", "partial_k_tree_edges"]


def make_k_tree(
    n_vars: int = 20, k: int = 3, *, seed: int | np.random.Generator = 0, **options: Unpack[PairwiseOptions]
) -> FactorGraph:
    """Draw a pairwise model on a random k-tree, of treewidth exactly ``k``; options as in :func:`make_pairwise`.

    Examples
    --------
    >>> make_k_tree(20, 3)
    FactorGraph(20 variables, 74 factors, 256 cells)
    """
    rng = generator(seed)
    return make_pairwise(n_vars, k_tree_edges(n_vars, k, rng), seed=rng, **options)


def make_partial_k_tree(
    n_vars: int = 100,
    k: int = 9,
    *,
    connectivity: float = 0.5,
    seed: int | np.random.Generator = 0,
    **options: Unpack[PairwiseOptions],
) -> FactorGraph:
    """Draw a pairwise model on a random k-tree thinned until no vertex has too many neighbours.

    Parameters
    ----------
    n_vars, k : int
    connectivity : float
        Edges are removed until the largest degree is below this share of ``n_vars``;
        see :func:`partial_k_tree_edges`.
    seed : int or numpy.random.Generator
    **options
        As in :func:`make_pairwise`; [gelfand2014] section 3.5 has ``field=1.0, coupling=0.3``.

    Examples
    --------
    >>> g = make_partial_k_tree(100, 9, connectivity=0.3, field=1.0, coupling=0.3)
    >>> int(np.bincount(g.layout.scope_vars).max()) - 1 < 30  # one factor of each variable is its unary
    True
    """
    rng = generator(seed)
    edges = partial_k_tree_edges(n_vars, k, connectivity, rng)
    return make_pairwise(n_vars, edges, seed=rng, **options)


def k_tree_edges(n_vars: int, k: int, seed: int | np.random.Generator = 0) -> Ints:
    """Draw the edges of a random k-tree, in the order in which they are added; cost n k^2."""
    n, k = check_count("n_vars", n_vars), check_count("k", k)
    if n < k + 1:
        raise ModelError(f"a {k}-tree needs at least {k + 1} variables, found {n}")
    check_room(n * k**2)  # the cliques
    rng = generator(seed)
    edges = list(combinations(range(k + 1), 2))
    cliques = list(combinations(range(k + 1), k))
    for v in range(k + 1, n):
        host = cliques[rng.integers(len(cliques))]
        edges.extend((u, v) for u in host)
        # the new cliques of k vertices are those that contain v: the host with one vertex replaced by it
        cliques.extend((*host[:a], *host[a + 1 :], v) for a in range(k))
    return np.array(edges, np.int64)


def partial_k_tree_edges(n_vars: int, k: int, connectivity: float, seed: int | np.random.Generator = 0) -> Ints:
    """Draw a random k-tree and remove edges until ``largest degree / n_vars < connectivity``.

    An edge is chosen through a vertex picked with probability proportional to its degree and one of its neighbours,
    which is to say uniformly, and removed unless that would disconnect the graph. An edge that cannot be removed
    never can be later, so one pass over a random permutation has the same law. A threshold that even the spanning
    tree left at the end does not meet is a ModelError.
    """
    check_share("connectivity", connectivity)
    rng = generator(seed)
    edges = k_tree_edges(n_vars, k, rng)
    neighbours: list[set[int]] = [set() for _ in range(n_vars)]
    for u, v in edges.tolist():
        neighbours[u].add(v)
        neighbours[v].add(u)
    for e in rng.permutation(len(edges)).tolist():
        if max(map(len, neighbours)) < connectivity * n_vars:
            break
        _remove_unless_bridge(neighbours, *edges[e].tolist())
    largest = max(map(len, neighbours))
    if largest >= connectivity * n_vars:
        raise ModelError(
            f"connectivity {connectivity} cannot be reached on {n_vars} variables: "
            f"the spanning tree that is left has a vertex of degree {largest}"
        )
    return np.array([(u, v) for u, v in edges.tolist() if v in neighbours[u]], np.int64)


def _remove_unless_bridge(neighbours: list[set[int]], u: int, v: int) -> None:
    """Remove the edge ``(u, v)`` and put it back if ``v`` can no longer be reached from ``u``."""
    neighbours[u].remove(v)
    neighbours[v].remove(u)
    seen, queue = {u}, deque([u])
    while queue and v not in seen:
        fresh = neighbours[queue.popleft()] - seen
        seen |= fresh
        queue.extend(fresh)
    if v not in seen:
        neighbours[u].add(v)
        neighbours[v].add(u)
