"""Structures: the edges of chains, grids, complete graphs and triangulations, as integer arrays ``(m, 2)``.

Every edge stands once, smaller index first. Random structures take a generator; the others are fixed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from beliefs.datasets.arguments import check_count, check_room
from beliefs.errors import ModelError
from beliefs.model.distinct import distinct_rows
from beliefs.typing import Floats, Ints

__all__ = ["chain_edges", "complete_edges", "delaunay_edges", "grid_edges", "long_range_edges"]


def chain_edges(n_vars: int) -> Ints:
    """Return the edges ``(i, i+1)`` of a chain, ``(n_vars-1, 2)``."""
    check_room(check_count("n_vars", n_vars))
    left = np.arange(n_vars - 1, dtype=np.int64)
    return np.stack([left, left + 1], axis=1)


def complete_edges(n_vars: int) -> Ints:
    """Return all pairs ``i < j`` in lexicographic order, ``(n_vars*(n_vars-1)/2, 2)``."""
    check_room(check_count("n_vars", n_vars) ** 2 / 2)
    return np.stack(np.triu_indices(n_vars, k=1), axis=1).astype(np.int64, copy=False)


def grid_edges(rows: int, cols: int, *, periodic: bool = False, diagonals: bool = False) -> Ints:
    """Return the edges of a ``rows x cols`` grid whose vertices are numbered row by row.

    Order: horizontal edges, vertical edges, the edges that close the torus (``periodic``; a side shorter than three
    is already closed), then the falling and the rising ``diagonals``. A plain grid has ``2*rows*cols - rows - cols``
    edges, its diagonals number ``2*(rows-1)*(cols-1)``. A periodic grid with diagonals is not defined here.
    """
    check_room((4 if diagonals else 2) * check_count("rows", rows) * check_count("cols", cols))
    index = np.arange(rows * cols, dtype=np.int64).reshape(rows, cols)
    if periodic and diagonals:
        raise ModelError("a periodic grid with diagonals is not offered; choose one of the two")
    pairs = [(index[:, :-1], index[:, 1:]), (index[:-1], index[1:])]
    if periodic:
        pairs += [(index[:, :1], index[:, -1:])] * (cols > 2) + [(index[:1], index[-1:])] * (rows > 2)
    if diagonals:
        pairs += [(index[:-1, :-1], index[1:, 1:]), (index[:-1, 1:], index[1:, :-1])]
    return np.concatenate([np.stack([u.ravel(), v.ravel()], axis=1) for u, v in pairs])


def delaunay_edges(points: ArrayLike) -> Ints:
    """Return the edges of the Delaunay triangulation of points in the plane, ``(n, 2)`` in; sorted.

    Cost n log n. Two points are joined, one has no edge; more must not all lie on one line.
    """
    from scipy.spatial import Delaunay, QhullError  # kept out of the import of the package

    places: Floats = np.asarray(points, np.float64)
    if places.ndim != 2 or places.shape[1] != 2 or not np.isfinite(places).all():
        raise ModelError(f"points must be finite and have shape (n, 2), found {places.shape}")
    if len(places) < 3:
        return complete_edges(len(places))
    try:
        triangles = Delaunay(places).simplices
    except QhullError:
        raise ModelError(f"the {len(places)} points lie on one line and have no triangulation") from None
    sides = np.concatenate([triangles[:, [0, 1]], triangles[:, [0, 2]], triangles[:, [1, 2]]])
    return distinct_rows(np.sort(sides, axis=1)).rows.astype(np.int64)


def long_range_edges(n_vars: int, edges: Ints, count: int, rng: np.random.Generator) -> Ints:
    """Draw ``count`` distinct pairs that ``edges`` does not join, uniformly, in the order drawn.

    Rejection in batches sized so that each is expected to find most of what is missing.
    """
    if check_count("extra_edges", count, 0) == 0:
        return np.zeros((0, 2), np.int64)
    n_pairs = n_vars * (n_vars - 1) // 2
    n_free = n_pairs - len(edges)
    if count > n_free:
        raise ModelError(f"extra_edges must be at most the {n_free} pairs not yet joined, found {count}")
    taken = np.sort(edges.min(axis=1) * n_vars + edges.max(axis=1))
    taken = np.append(taken, n_vars**2)  # larger than any pair, so that every search ends within
    found = np.zeros(0, np.int64)
    while len(found) < count:
        missing = count - len(found)
        batch = min(2 * missing * n_pairs // (n_free - len(found)) + 16, 1_000_000)
        pair = np.sort(rng.integers(n_vars, size=(batch, 2)), axis=1)
        keys = pair[pair[:, 0] < pair[:, 1]] @ np.array([n_vars, 1])
        keys = np.concatenate([found, keys[taken[np.searchsorted(taken, keys)] != keys]])
        found = keys[np.sort(np.unique(keys, return_index=True)[1])][:count]
    return np.stack([found // n_vars, found % n_vars], axis=1)
