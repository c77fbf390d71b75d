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
from beliefs.model.pieces import pieces
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
    if n > SMALL and len(ends) < n * n / 20:  # a denser graph fills in at once
        found = _sparse_entries(n, place[ends])
        if found is not None:
            return _shares(*found)
    if n > MAX_DENSE:
        raise BudgetError(
            f"effective resistances of this graph need a dense inverse of {n} rows; choose rho='sampled' instead"
        )
    return _dense_shares(n, ends, place)


def _shares(diagonal: Floats, across: Floats) -> Floats:
    """Return the probabilities, from ``G`` on the diagonal at both ends ``(n_edges, 2)`` and across the edges."""
    into = np.maximum(diagonal[:, ::-1] - across[:, None], 0.0)  # the parent is the end that is not entered
    total = into.sum(axis=1, keepdims=True)
    shares: Floats = into / np.maximum(total, 1.0)  # bridges may come out above 1 by rounding
    return shares


def _dense_shares(n: int, ends: Ints, place: Ints) -> Floats:
    """Use all of the inverse, made in the place of the Laplacian."""
    matrix = np.zeros((n, n), order="F")
    for piece in pieces(len(ends)):
        here = place[ends[piece]]
        vertices, (low, high) = here[here >= 0], _free(here)[1:]
        np.add.at(matrix, (vertices, vertices), 1.0)
        np.add.at(matrix, (low, high), -1.0)
        np.add.at(matrix, (high, low), -1.0)
    matrix = _inverted(matrix)
    shares = np.empty((len(ends), 2))
    for piece in pieces(len(ends)):
        here = place[ends[piece]]
        across, (inside, low, high) = np.zeros(len(here)), _free(here)
        across[inside] = matrix[high, low]
        shares[piece] = _shares(np.where(here >= 0, matrix[here, here], 0.0), across)
    return shares


def _free(ends: Ints) -> tuple[Bools, Ints, Ints]:
    """Return which edges have no held end, and the smaller and the larger end of each of these."""
    inside: Bools = np.all(ends >= 0, axis=1)
    return inside, ends[inside].min(axis=1), ends[inside].max(axis=1)


def _inverted(matrix: Floats) -> Floats:
    """Return the inverse of a positive definite matrix; of a large one, the lower triangle, in its place."""
    if len(matrix) <= SMALL:
        return np.asarray(np.linalg.inv(matrix), np.float64)
    from scipy.linalg import lapack  # kept out of the import of the package

    factor, _ = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
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
