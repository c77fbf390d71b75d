r"""A convex quadratic on a product of simplices, one simplex after the other.

.. math:: \min_\alpha \tfrac{1}{4\lambda} \Bigl\lVert \sum_{i,t} \alpha_{it} a_{it} \Bigr\rVert^2
   - \sum_{i,t} \alpha_{it} b_{it}, \qquad \alpha_{it} \ge 0, \quad \sum_t \alpha_{it} = 1

The dual of cutting planes with a slack an instance: block i has the planes of instance i, few; there are many blocks. A
sweep minimises over each block in turn, the others as they are, which is a small program of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.optimizers.simplex_qp import Support, dot, simplex_qp, support_of
from beliefs.typing import Floats, Ints

__all__ = ["BlockPlanes", "Room", "room_for", "sweep_blocks"]


class BlockPlanes(NamedTuple):
    """Planes block by block: those of block i are ``ptr[i]`` to ``ptr[i + 1]``; ``gram`` are products within blocks.

    Shapes: ``ptr (n + 1,)``, ``slopes (P, d)``, ``offsets (P,)``, ``gram (P, widest)``: row ``ptr[i] + s`` has the
    products of plane s of block i with the planes of that block.
    """

    ptr: Ints
    slopes: Floats
    offsets: Floats
    gram: Floats


class Room(NamedTuple):
    """Memory for the program of one block."""

    quadratic: Floats
    linear: Floats
    before: Floats
    support: Support


def room_for(widest: int) -> Room:
    """Return room for blocks of at most so many planes."""
    return Room(np.zeros((widest, widest)), np.zeros(widest), np.zeros(widest), support_of(widest))


@kernel
def sweep_blocks(planes: BlockPlanes, l2: float, tol: float, room: Room, alpha: Floats, total: Floats) -> float:
    """Minimise over each block in turn; ``alpha (P,)`` and ``total (d,)``, its ``alpha @ slopes``, change in place.

    Returns the sum of the gaps that the blocks had when their turn came: a measure of what is left to gain. Equivalent
    to :func:`~beliefs.kernels.optimizers.simplex_qp.simplex_qp` for each block with
    ``linear = offsets - slopes @ (total - own) / (2 * l2)``. Cost: ``P d`` and the small programs. Numerics: ``total``
    gathers rounding of as many updates as there are sweeps; make it anew before its value counts.
    """
    ptr, slopes, gram, d = planes.ptr, planes.slopes, planes.gram, total.size
    quadratic, linear, before = room.quadratic, room.linear, room.before
    gaps = 0.0
    for i in range(ptr.size - 1):
        first, m = ptr[i], ptr[i + 1] - ptr[i]
        if m == 1:
            continue
        mean, least = 0.0, 0.0
        for s in range(m):
            own = 0.0
            for t in range(m):
                quadratic[s, t] = gram[first + s, t] / (2.0 * l2)
                own += quadratic[s, t] * alpha[first + t]
            slope = dot(slopes[first + s], total, d) / (2.0 * l2) - planes.offsets[first + s]
            linear[s] = own - slope
            before[s] = alpha[first + s]
            mean += before[s] * slope
            least = slope if s == 0 else min(least, slope)
        gaps += max(mean - least, 0.0)
        simplex_qp(quadratic, linear, room.support, tol, 20 * m, alpha[first : first + m])
        for s in range(m):
            change = alpha[first + s] - before[s]
            if change != 0.0:
                for k in range(d):
                    total[k] += change * slopes[first + s, k]
    return gaps
