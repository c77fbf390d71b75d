"""Chains, stars and random trees: the models on which belief propagation is exact."""

from __future__ import annotations

import heapq
from typing import Unpack

import numpy as np

from beliefs.datasets.arguments import check_count, check_room, generator
from beliefs.datasets.edges import chain_edges
from beliefs.datasets.pairwise import PairwiseOptions, make_pairwise
from beliefs.model.graph import FactorGraph
from beliefs.typing import Ints

__all__ = ["make_chain", "make_star", "make_tree", "tree_edges"]


def make_chain(
    n_vars: int = 10, *, seed: int | np.random.Generator = 0, **options: Unpack[PairwiseOptions]
) -> FactorGraph:
    """Draw a pairwise model on the chain 0 - 1 - ... ; options as in :func:`make_pairwise`.

    Examples
    --------
    >>> make_chain(2000, n_states=4)
    FactorGraph(2000 variables, 3999 factors, 39984 cells)
    """
    return make_pairwise(n_vars, chain_edges(n_vars), seed=seed, **options)


def make_star(
    n_vars: int = 10, *, seed: int | np.random.Generator = 0, **options: Unpack[PairwiseOptions]
) -> FactorGraph:
    """Draw a pairwise model on a star with variable 0 in the middle; options as in :func:`make_pairwise`.

    Examples
    --------
    >>> make_star(5)
    FactorGraph(5 variables, 9 factors, 26 cells)
    """
    check_room(check_count("n_vars", n_vars))
    leaves = np.arange(1, n_vars, dtype=np.int64)
    return make_pairwise(n_vars, np.stack([np.zeros_like(leaves), leaves], axis=1), seed=seed, **options)


def make_tree(
    n_vars: int = 10, *, seed: int | np.random.Generator = 0, **options: Unpack[PairwiseOptions]
) -> FactorGraph:
    r"""Draw a pairwise model on a tree that is uniform among all :math:`n^{n-2}` labelled trees.

    The structure is drawn first, then the potentials; options as in :func:`make_pairwise`.

    Examples
    --------
    >>> make_tree(50, seed=3)
    FactorGraph(50 variables, 99 factors, 296 cells)
    """
    rng = generator(seed)
    return make_pairwise(n_vars, tree_edges(n_vars, rng), seed=rng, **options)


def tree_edges(n_vars: int, seed: int | np.random.Generator = 0) -> Ints:
    """Draw a uniform labelled tree by decoding a random Prüfer sequence; ``(n_vars-1, 2)``, cost n log n.

    A vertex occurs in the sequence one time less than its degree, so the smallest vertex that does not occur in the
    rest is a leaf, and its neighbour is the next entry.
    """
    n = check_count("n_vars", n_vars)
    check_room(4 * n)  # lists of Python's integers
    if n < 3:
        return chain_edges(n)
    sequence = generator(seed).integers(n, size=n - 2)
    remaining = np.bincount(sequence, minlength=n).tolist()
    leaves = [v for v in range(n) if remaining[v] == 0]
    edges = []
    for v in sequence.tolist():
        edges.append((heapq.heappop(leaves), v))
        remaining[v] -= 1
        if remaining[v] == 0:
            heapq.heappush(leaves, v)
    edges.append((heapq.heappop(leaves), heapq.heappop(leaves)))
    return np.sort(np.array(edges, np.int64), axis=1)
