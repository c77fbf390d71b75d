r"""Sums in the log domain with plain arithmetic inside: one exponential and one logarithm a state instead of a cell.

Incoming vectors are divided by their largest entries before they are exponentiated, and tables come ready as
:math:`\psi_c = e^{(\theta_c - \max \theta_c)/\rho_c}`. What was divided out is common to a whole message, which is
normalised as plain numbers, before its logarithms are taken. Nothing is larger than one until it is added up, so what
underflows is lost to sums that are far larger, or else such a sum is seen to be small: then the caller takes the logs
of every cell.
"""

from __future__ import annotations

import math
from typing import Any

from beliefs.kernels._jit import inlined_kernel
from beliefs.kernels.messages.contraction import contract_sum, spread_sum
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.kernels.primitives.memory import address, get, onward, put
from beliefs.typing import Floats, Ints

__all__ = ["SPAN", "scaled_outgoing"]

SPAN = 600.0  # nats: a product of entries that spans no more loses nothing
_RANGE = 700.0  # nats below the largest entry from which on one counts for nothing
_LEAST = 1e-250  # a sum from which on nothing that matters has been lost, where entries span more


@inlined_kernel
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
    """Write all log messages out of the table at ``psi[at:]`` to ``out (arity, K)``, each with log-sum-exp zero.

    ``incoming (arity, K)`` are logs; ``log_least`` is the log of the least non-zero entry of ``psi``; ``work``,
    ``rest`` and ``spread`` are working space. Returns False, with ``out`` of no use, if the range is too large.
    A message without a possible state is ``-inf`` throughout.
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
            below = incoming[a, x] - high
            work[a, x] = fast_exp(below) if below > -_RANGE else 0.0
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
        total = 0.0
        for x in range(sizes[a]):
            value = get(message, x)
            if span > SPAN and value < _LEAST:
                return False
            total += value
        scale = 1.0 / total if total > 0.0 else 0.0
        for x in range(sizes[a]):
            value = get(message, x)
            put(message, x, fast_log(value * scale) if value > 0.0 else -math.inf)
    return True
