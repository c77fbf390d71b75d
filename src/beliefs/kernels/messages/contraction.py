r"""All messages out of one factor, axis by axis: every cell is read once however many variables the factor has.

For a table :math:`\psi` over axes 0..r-1 and one incoming vector :math:`c_j` an axis, wanted are all r vectors
:math:`m_j(x_j) = \bigoplus_{x_{\setminus j}} \psi(x) \bigotimes_{i \ne j} c_i(x_i)`. Let :math:`S_r = \psi`, and for
j = r-1, ..., 0, with :math:`W_j(x_0..x_{j-1}) = \bigotimes_{i<j} c_i(x_i)`,

.. math::
    m_j(x_j) = \bigoplus_{x_0..x_{j-1}} W_j \otimes S_{j+1}(x_0..x_j), \qquad
    S_j(x_0..x_{j-1}) = \bigoplus_{x_j} S_{j+1}(x_0..x_j) \otimes c_j(x_j).

Nothing is divided out, so zeros are safe. Cost: two operations a cell at the last axis, and a K-th part of that at each
axis before it. The same recursion serves sums of products (linear domain), log-sum-exp, and maxima of sums.
"""

from __future__ import annotations

import math
from typing import Any

from beliefs.kernels._jit import inlined_kernel, kernel
from beliefs.kernels.primitives.memory import get, put
from beliefs.typing import Floats

__all__ = ["contract_log", "contract_max", "contract_sum", "spread_log", "spread_sum"]


@inlined_kernel
def spread_sum(n_rows: int, weights: Any, k: int, incoming: Any, spread: Any) -> None:
    """Write ``spread = np.outer(weights, incoming).ravel()``: W of one more axis, linear domain, all by address."""
    for row in range(n_rows):
        w = get(weights, row)
        for x in range(k):
            put(spread, row * k + x, w * get(incoming, x))


@kernel
def spread_log(weights: Floats, incoming: Floats, spread: Floats) -> None:
    """Write ``spread = np.add.outer(weights, incoming).ravel()``: W of one more axis, in logs."""
    k = incoming.size
    for row in range(weights.size):
        for x in range(k):
            spread[row * k + x] = weights[row] + incoming[x]


@inlined_kernel
def contract_sum(n_rows: int, k: int, table: Any, weights: Any, incoming: Any, message: Any, rest: Any) -> None:
    """Write ``message = weights @ T`` and ``rest = T @ incoming`` for ``T = table.reshape(n_rows, k)``, by address.

    Finite values. ``rest`` may be ``table``: row r is read before place r <= r k is written.
    """
    for x in range(k):
        put(message, x, 0.0)
    for row in range(n_rows):
        w, total = get(weights, row), 0.0
        for x in range(k):
            cell = get(table, row * k + x)
            total += cell * get(incoming, x)
            put(message, x, get(message, x) + w * cell)
        put(rest, row, total)


@kernel
def contract_log(table: Floats, weights: Floats, incoming: Floats, message: Floats, rest: Floats) -> None:
    """Write what :func:`contract_sum` does, in logs: log-sum-exp over rows and along rows; ``-inf`` is zero.

    ``rest`` may be the beginning of ``table``: row r is read before place r <= r K is written, and the message, which
    reads all rows, is made first.
    """
    k = incoming.size
    for x in range(k):
        top = -math.inf
        for row in range(weights.size):
            top = max(top, weights[row] + table[row * k + x])
        total = 0.0
        if top > -math.inf:
            for row in range(weights.size):
                total += math.exp(weights[row] + table[row * k + x] - top)
            top += math.log(total)
        message[x] = top
    for row in range(weights.size):
        top = -math.inf
        for x in range(k):
            top = max(top, table[row * k + x] + incoming[x])
        total = 0.0
        if top > -math.inf:
            for x in range(k):
                total += math.exp(table[row * k + x] + incoming[x] - top)
            top += math.log(total)
        rest[row] = top


@kernel
def contract_max(table: Floats, weights: Floats, incoming: Floats, message: Floats, rest: Floats) -> None:
    """Write what :func:`contract_log` does with maxima in the place of log-sum-exp. ``rest`` may begin ``table``."""
    k = incoming.size
    for x in range(k):
        message[x] = -math.inf
    for row in range(weights.size):
        w, top = weights[row], -math.inf
        for x in range(k):
            cell = table[row * k + x]
            reached = w + cell
            message[x] = reached if reached > message[x] else message[x]
            onward = cell + incoming[x]
            top = onward if onward > top else top
        rest[row] = top
