"""Entries of the inverse of a sparse symmetric matrix, only where its Cholesky factor has entries."""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.typing import Floats, Ints

__all__ = ["selected_inverse"]


@kernel
def selected_inverse(ptr: Ints, rows: Ints, lower: Floats, diagonal: Floats, inverse: Floats) -> None:
    """Write the inverse ``Z`` of ``A = L D L^T`` on the pattern of ``L``.

    From the last column to the first, for ``i >= j`` in the pattern [takahashi1973]:
    ``Z[i, j] = (i == j) / D[j] - sum over k > j of Z[i, k] L[k, j]``, and all ``Z[i, k]`` that are needed are in the
    pattern. Equivalent to ``np.linalg.inv(L @ np.diag(D) @ L.T)`` there.

    Shapes: ``ptr (n+1,)``, ``rows, lower, inverse (n_entries,)``: ``L`` by columns, rows ascending, its unit diagonal
    stored first in each column; ``diagonal (n,)`` is ``D``. Cost: the sum over the entries ``(k, j)`` of the length of
    column ``k``.
    """
    n = diagonal.size
    place = np.full(n, -1, np.int64)
    for j in range(n - 1, -1, -1):
        first, last = ptr[j] + 1, ptr[j + 1]
        for p in range(first, last):
            place[rows[p]] = p
            inverse[p] = 0.0
        for p in range(first, last):
            k, weight = rows[p], lower[p]
            inverse[p] -= inverse[ptr[k]] * weight
            for q in range(ptr[k] + 1, ptr[k + 1]):
                at = place[rows[q]]
                if at >= 0:  # Z[i, k] serves row i with L[k, j] and row k with L[i, j]
                    inverse[at] -= inverse[q] * weight
                    inverse[p] -= inverse[q] * lower[at]
        corner = 1.0 / diagonal[j]
        for p in range(first, last):
            corner -= inverse[p] * lower[p]
            place[rows[p]] = -1
        inverse[ptr[j]] = corner
