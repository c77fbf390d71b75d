"""The distinct rows of an array, as :func:`numpy.unique` finds them with ``axis=0``, column by column.

NumPy compares such rows as structures, and asks Python code of its own whether two types of structures can be compared:
Ctrl-C in there comes out as a TypeError about types.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from beliefs.typing import Ints

__all__ = ["DistinctRows", "distinct_rows"]


class DistinctRows(NamedTuple):
    """The distinct rows in lexicographic order.

    Attributes
    ----------
    rows : ndarray (n_distinct, ...)
    first : ndarray (n_distinct,)
        Where each occurs first.
    number : ndarray (n_rows,)
        Which of them each row is.
    """

    rows: np.ndarray[Any, Any]
    first: Ints
    number: Ints


def distinct_rows(rows: np.ndarray[Any, Any]) -> DistinctRows:
    """Return the distinct rows of ``rows (n_rows, n_columns)``.

    Examples
    --------
    >>> found = distinct_rows(np.array([[2, 1], [0, 3], [2, 1]]))
    >>> found.rows.tolist(), found.first.tolist(), found.number.tolist()
    ([[0, 3], [2, 1]], [1, 0], [1, 0, 1])
    """
    order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
    ordered, begins = rows[order], np.ones(len(rows), np.bool_)
    begins[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    number = np.empty(len(rows), np.int64)
    number[order] = np.cumsum(begins) - 1
    return DistinctRows(ordered[begins], order[begins], number)
