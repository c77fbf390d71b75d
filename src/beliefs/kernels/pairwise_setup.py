"""Tables and products of the pairwise kernels: copied in the order of the sweep, scaled, and added up."""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.elementary import fast_exp, fast_power
from beliefs.typing import Floats, Ints

__all__ = ["load_tables", "multiply_up"]


@kernel
def load_tables(cells: Ints, theta: Floats, rho: Floats, in_logs: bool, psi: Floats, span: Floats) -> bool:
    """Write each table ``theta[cells[d] : cells[d] + K^2] / rho[d]`` to row d of ``psi``, scaled; False at a ``-inf``.

    ``psi (tables, K^2)`` has its maximum at one (zero in logs). Binary tables are ``psi (tables, 3)``: divided by
    their first entry, which is left out. ``span`` gets the range of each table in nats.
    """
    n_cells = 4 if psi.shape[1] == 3 else psi.shape[1]
    for d in range(cells.size):
        table = theta[cells[d] : cells[d] + n_cells]
        low, high = np.inf, -np.inf
        for k in range(n_cells):
            low, high = min(low, table[k]), max(high, table[k])
        if low == -np.inf:
            return False
        span[d] = high - low
        if psi.shape[1] == 3:
            for k in range(3):
                value = (table[k + 1] - table[0]) / rho[d]
                psi[d, k] = value if in_logs else fast_exp(value)
        else:
            for k in range(n_cells):
                value = (table[k] - high) / rho[d]
                psi[d, k] = value if in_logs else fast_exp(value)
    return True


@kernel
def multiply_up(u: Ints, v: Ints, rho: Floats, in_logs: bool, messages: Floats, product: Floats) -> None:
    """Multiply ``messages (m, 2, K) ** rho`` (add ``rho * messages`` in logs) into ``product (n, K)``."""
    for e in range(u.size):
        for side in range(2):
            into = product[u[e] if side == 0 else v[e]]
            for x in range(into.size):
                if in_logs:
                    into[x] += rho[e] * messages[e, side, x]
                elif rho[e] == 1.0:
                    into[x] *= messages[e, side, x]
                else:
                    into[x] *= fast_power(messages[e, side, x], rho[e])
