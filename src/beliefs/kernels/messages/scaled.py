r"""Sums in the log domain with plain arithmetic inside: one exponential and one logarithm a state instead of a cell.

Incoming vectors are divided by their largest entries before they are exponentiated, and tables come ready as
:math:`\psi_c = e^{(\theta_c - \max \theta_c)/\rho_c}`. What was divided out is common to a whole message, which is
normalised anyway. Where the entries that are left span more than a double can hold, nothing is done and the caller
takes the logs of every cell.
"""

from __future__ import annotations

import math
from typing import Any

from beliefs.kernels._jit import kernel
from beliefs.kernels.messages.contraction import contract_sum, spread_sum
from beliefs.kernels.primitives.memory import address, get, onward, put
from beliefs.typing import Floats, Ints

__all__ = ["SPAN", "scaled_outgoing"]

SPAN = 600.0  # nats: what is left of a product of entries may span no more


@kernel
def scaled_outgoing(
    psi: Floats,
    at: int,
    log_least: float,
    sizes: Ints,
    incoming: Floats,
    work: Floats,
    rest: Floats,
    spread: Floats,
    out: Floats,
) -> bool:
    """Write all log messages out of the table at ``psi[at:]`` to ``out (arity, K)``, up to a constant each.

    ``incoming (arity, K)`` are logs; ``log_least`` is the log of the least non-zero entry of ``psi``; ``work``,
    ``rest`` and ``spread`` are working space. Returns False, with nothing written, if the range is too large.
    """
    arity = sizes.size
    span = -log_least
    for a in range(arity):
        low, high = math.inf, -math.inf
        for x in range(sizes[a]):
            if incoming[a, x] > -math.inf:
                low, high = min(low, incoming[a, x]), max(high, incoming[a, x])
        if high == -math.inf:
            return False
        span += high - low
        for x in range(sizes[a]):
            work[a, x] = math.exp(incoming[a, x] - high)
    if span > SPAN:
        return False
    width = work.shape[1]
    vectors, tables, cells, weights, sent = address(work), address(psi), address(rest), address(spread), address(out)
    put(weights, 0, 1.0)
    begin, length = 0, 1
    for a in range(arity - 1):
        spread_sum(
            length, onward(weights, begin), sizes[a], onward(vectors, a * width), onward(weights, begin + length)
        )
        begin, length = begin + length, length * sizes[a]
    table: Any = onward(tables, at)
    for a in range(arity - 1, -1, -1):
        message = onward(sent, a * width)
        contract_sum(
            length, sizes[a], table if a == arity - 1 else cells, onward(weights, begin), onward(vectors, a * width),
            message, cells,
        )  # fmt: skip
        if a > 0:
            length //= sizes[a - 1]
            begin -= length
        for x in range(sizes[a]):
            value = get(message, x)
            put(message, x, math.log(value) if value > 0.0 else -math.inf)
    return True
