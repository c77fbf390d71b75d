r"""From the tables of a pairwise field to biases and couplings of indicators, and slopes back.

With K - 1 indicators a variable, :math:`h_{vj} = \sum_f \theta_f(v = j, 0) - \theta_f(0, 0)` over the factors of v, and
:math:`J_{ui,vj}` as in :mod:`beliefs.learning.fields.matrices`: one sparse matrix whose rows are all h, then the
couplings that some factor has, each once. Cost: eight entries for a cell of a coupling, four for one of a bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefs.model.layout import Layout
from beliefs.typing import Floats, Ints

__all__ = ["PairMap"]


@dataclass(frozen=True, eq=False)
class PairMap:
    """The linear map of a field.

    Attributes
    ----------
    bias : sparse array (D, n_cells)
        To h.
    coupling : sparse array (P, n_cells)
        To the couplings.
    low, high : ndarray (P,)
        The indicators that each coupling joins.
    """

    bias: Any
    coupling: Any
    low: Ints
    high: Ints

    @classmethod
    def of(cls, layout: Layout, first: Ints) -> PairMap:
        """Return the map of a field, given the first indicator of each variable, and how many there are."""
        d = int(first[-1])
        biases, couplings = _Entries(), _Entries()
        for factors, shape in _by_shape(layout):
            table = (layout.cell_ptr[factors, None] + np.arange(np.prod(shape))).reshape(factors.size, *shape)
            ends = [layout.scope_vars[layout.scope_ptr[factors] + axis] for axis in range(len(shape))]
            own = [first[v, None] + np.arange(k - 1) for v, k in zip(ends, shape, strict=True)]
            alone = table if len(shape) == 1 else table[:, :, 0]
            biases.add(own[0], alone[:, 1:], 1.0)
            biases.add(own[0], alone[:, :1], -1.0)
            if len(shape) == 1:
                continue
            biases.add(own[1], table[:, 0, 1:], 1.0)
            biases.add(own[1], table[:, 0, :1], -1.0)
            u, v = own[0][:, :, None], own[1][:, None, :]
            pair = np.minimum(u, v) * d + np.maximum(u, v)
            couplings.add(pair, table[:, 1:, 1:], 1.0)
            couplings.add(pair, table[:, :1, 1:], -1.0)
            couplings.add(pair, table[:, 1:, :1], -1.0)
            couplings.add(pair, table[:, :1, :1], 1.0)
        pairs, rows = np.unique(np.concatenate(couplings.rows), return_inverse=True)
        n_cells = layout.n_cells
        bias, coupling = (
            biases.matrix(np.concatenate(biases.rows), d, n_cells),
            couplings.matrix(rows, pairs.size, n_cells),
        )
        return cls(bias, coupling, pairs // d, pairs % d)

    def biases_and_couplings(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return h ``(D,)`` and J ``(D, D)``."""
        h, numbers = self.bias @ theta, self.coupling @ theta
        found = np.zeros((h.size, h.size))
        found[self.low, self.high] = found[self.high, self.low] = numbers
        return h, found

    def add_slopes(self, bias: Floats, coupling: Floats, grad: Floats) -> None:
        """Add to a gradient in the tables that of derivatives in h and in J, both halves of which are as if free."""
        grad += self.bias.T @ bias
        grad += self.coupling.T @ (coupling[self.low, self.high] + coupling[self.high, self.low])

    def between(self, vector: Floats) -> Any:
        """Return the map ``(D, P)`` from couplings to ``vector @ J``."""
        from scipy.sparse import csr_array

        to, pair = np.concatenate([self.high, self.low]), np.tile(np.arange(self.low.size), 2)
        return csr_array(
            (vector[np.concatenate([self.low, self.high])], (to, pair)), shape=(vector.size, self.low.size)
        )


class _Entries:
    """Entries of a sparse matrix under way."""

    def __init__(self) -> None:
        self.rows, self.cells, self.signs = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]

    def add(self, row: Any, cell: Any, sign: float) -> None:
        """Add one sign for every row and cell."""
        row, cell = np.broadcast_arrays(row, cell)
        self.rows.append(row.ravel())
        self.cells.append(cell.ravel())
        self.signs.append(np.full(row.size, sign))

    def matrix(self, rows: Ints, n_rows: int, n_cells: int) -> Any:
        """Return the matrix, its rows numbered anew."""
        from scipy.sparse import csr_array

        return csr_array((np.concatenate(self.signs), (rows, np.concatenate(self.cells))), shape=(n_rows, n_cells))


def _by_shape(layout: Layout) -> list[tuple[Ints, tuple[int, ...]]]:
    """Return the factors with variables, those of one shape together."""
    found: dict[tuple[int, ...], list[int]] = {}
    for f in np.flatnonzero(layout.arity > 0).tolist():
        found.setdefault(layout.shape(f), []).append(f)
    return [(np.array(factors, np.int64), shape) for shape, factors in found.items()]
