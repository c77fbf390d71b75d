r"""Edge probabilities of the uniform spanning tree, by effective resistances.

Read each edge as a conductance of 1 and hold one vertex of each component at potential 0. With :math:`G` the inverse of
the Laplacian without those vertices, the uniform spanning tree (forest, if there are several components) contains edge
:math:`e = \{u, v\}` with probability :math:`\rho_e = G_{uu} + G_{vv} - 2 G_{uv}`, its effective resistance
[kirchhoff1847]. Rooted at the held vertices, it has :math:`u` as the parent of :math:`v` along :math:`e` with
probability :math:`G_{vv} - G_{uv}`; so the orientation of the tree comes with it. Parallel edges have each their own
share.

Only the entries of :math:`G` on edges are needed. Small or dense graphs: all of the inverse, cost :math:`n^3`. Sparse
graphs: a sparse factorisation and the entries of the inverse on its pattern, some milliseconds for grid-like graphs of
thousands of vertices.
"""

from __future__ import annotations

import numpy as np

from beliefs.errors import BudgetError
from beliefs.kernels.messages.selected_inverse import selected_inverse
from beliefs.typing import Bools, Floats, Ints

__all__ = ["spanning_tree_probabilities"]

SMALL = 300  # below this the dense inverse is faster than loading the sparse solver
MAX_DENSE = 12_000  # the inverse is then 1.2 GB, and takes half a minute
MAX_PRODUCTS = 5e9  # of the entries of the factor, half a minute
DENSE_GAIN = 120  # a product in the dense inverse is so much cheaper than one in the sparse one, as measured


def spanning_tree_probabilities(n_vars: int, ends: Ints, held: Bools) -> Floats:
    """Return ``(n_edges, 2)``: the probability that an edge is in the tree and its first (second) end is the parent.

    Parameters
    ----------
    ends : ndarray (n_edges, 2)
        The edges; parallel ones are allowed.
    held : ndarray (n_vars,)
        One vertex of each connected component, its root.
    """
    place = np.cumsum(~held) - 1
    place[held] = -1
    n = int(n_vars - held.sum())
    diagonal, across = _inverse_entries(n, place[ends])
    into = np.maximum(diagonal[:, ::-1] - across[:, None], 0.0)  # the parent is the end that is not entered
    total = into.sum(axis=1, keepdims=True)
    shares: Floats = into / np.maximum(total, 1.0)  # bridges may come out above 1 by rounding
    return shares


def _inverse_entries(n: int, ends: Ints) -> tuple[Floats, Floats]:
    """Return ``G`` on the diagonal at both ends ``(n_edges, 2)`` and across the edges; 0 where an end is -1."""
    if n > SMALL and len(ends) < n * n / 20:  # a denser graph fills in at once
        found = _sparse_entries(n, ends)
        if found is not None:
            return found
    if n > MAX_DENSE:
        raise BudgetError(
            f"effective resistances of this graph need a dense inverse of {n} rows; choose rho='sampled' instead"
        )
    return _dense_entries(n, ends)


def _dense_entries(n: int, ends: Ints) -> tuple[Floats, Floats]:
    laplacian = np.zeros((n + 1, n + 1))  # the last row and column stand for the held vertices
    u, v = ends.T
    np.add.at(laplacian, (u, u), 1.0)
    np.add.at(laplacian, (v, v), 1.0)
    np.add.at(laplacian, (u, v), -1.0)
    np.add.at(laplacian, (v, u), -1.0)
    inverse = np.zeros_like(laplacian)
    inverse[:n, :n] = _inverted(laplacian[:n, :n])
    low, high = np.where(ends < 0, n, ends).min(axis=1), np.where(ends < 0, n, ends).max(axis=1)
    return inverse[ends, ends], inverse[high, low]


def _inverted(matrix: Floats) -> Floats:
    """Return the inverse of a positive definite matrix; of a large one, the lower triangle."""
    if len(matrix) <= SMALL:
        return np.asarray(np.linalg.inv(matrix), np.float64)
    from scipy.linalg import lapack  # kept out of the import of the package

    factor, _ = lapack.dpotrf(matrix, lower=1)
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    found: Floats = inverse
    return found


def _sparse_entries(n: int, ends: Ints) -> tuple[Floats, Floats] | None:
    """Use the sparse factorisation; None if it fills in so much that the dense inverse is cheaper."""
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu  # kept out of the import of the package

    free = ends[(ends >= 0).all(axis=1)]
    degree = np.bincount(ends[ends >= 0], minlength=n).astype(float)
    rows = np.concatenate([np.arange(n), free[:, 0], free[:, 1]])
    columns = np.concatenate([np.arange(n), free[:, 1], free[:, 0]])
    values = np.concatenate([degree, np.full(2 * len(free), -1.0)])
    laplacian = csc_array((values, (rows, columns)), shape=(n, n))
    factor = splu(
        laplacian, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )  # pivots on the diagonal: A = L D L^T
    lower = csc_array(factor.L)
    lower.sort_indices()
    length = np.diff(lower.indptr).astype(float)
    limit = n**3 / DENSE_GAIN if n <= MAX_DENSE else MAX_PRODUCTS
    if not np.array_equal(factor.perm_r, factor.perm_c) or length[lower.indices].sum() > limit:
        return None
    inverse = np.empty(lower.nnz)
    ptr, at = lower.indptr.astype(np.int64), lower.indices.astype(np.int64)
    selected_inverse(ptr, at, lower.data, factor.U.diagonal(), inverse)
    return _looked_up(n, np.where(ends >= 0, factor.perm_c[ends], -1), ptr, at, inverse)


def _looked_up(n: int, ends: Ints, ptr: Ints, rows: Ints, inverse: Floats) -> tuple[Floats, Floats]:
    """Read the entries at the edges off the columns ``(ptr, rows)`` of the lower triangle."""
    diagonal = np.where(ends >= 0, inverse[ptr[:-1]][ends], 0.0)
    key = np.repeat(np.arange(n), np.diff(ptr)) * n + rows
    wanted = ends.min(axis=1) * n + ends.max(axis=1)
    across = inverse[np.searchsorted(key, np.maximum(wanted, 0))]
    return diagonal, np.where(ends.min(axis=1) >= 0, across, 0.0)
