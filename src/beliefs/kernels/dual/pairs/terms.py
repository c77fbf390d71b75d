r"""Clusters of two variables seen from one of them; parts of :mod:`beliefs.kernels.dual.pairs.sums`.

Arrays are passed as addresses (:mod:`beliefs.kernels.primitives.memory`): these are loops of a few steps, and an array
costs more to hand over than they take. Columns are taken four at a time; what is read or written beyond the end of a
row belongs to the next one, which comes later, or to four entries to spare at the end of each array.

Seen from the later variable a cluster is one vector, :func:`column_sums`. Seen from the earlier one,
:func:`exponentials` are computed once; values and marginals after a further shift :math:`d` need two products of
:math:`E` with a vector, :func:`scaled_value`:

.. math:: S_j = \sum_i E_{ij} u_i, \quad u = e^{-d / w_i}, \quad Z_j = top_j + w_i \log S_j - \delta_j^c, \quad
          q = \text{belief of } Z, \quad \mu_i = u_i \sum_j E_{ij} q_j / S_j
"""

from __future__ import annotations

import math
from typing import Any

from beliefs.kernels._jit import inlined_kernel
from beliefs.kernels.dual.structure import (
    COLUMNS,
    LOWEST,
    OTHER_SHIFT,
    OTHER_WEIGHT,
    OWN_SHIFT,
    OWN_WEIGHT,
    RECORD,
    TABLE,
    TINY,
    Pair,
    PairLinks,
    PairMemory,
    PairWorkspace,
)
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.kernels.primitives.exponential import exp4, log4
from beliefs.kernels.primitives.memory import address, get, onward, put
from beliefs.kernels.primitives.simd import (
    add4,
    divide4,
    fill4,
    load4,
    maximum4,
    multiply4,
    multiply_add4,
    peak4,
    store4,
    subtract4,
    total4,
)

__all__ = [
    "belief_of",
    "column_sums",
    "column_tops",
    "conditional_entropy",
    "exponentials",
    "pair_of",
    "pair_workspace",
    "peak_of",
    "power_of",
    "reweighted",
    "row_maxima",
    "scaled_value",
]


@inlined_kernel
def pair_workspace(scratch: PairMemory) -> PairWorkspace:
    """Return the scratch cut up, as addresses."""
    m, at = address(scratch.memory), address(scratch.begin)
    return PairWorkspace(
        onward(m, get(at, 0)), onward(m, get(at, 1)), onward(m, get(at, 2)), onward(m, get(at, 3)),
        onward(m, get(at, 4)), onward(m, get(at, 5)), onward(m, get(at, 6)), onward(m, get(at, 7)),
        onward(m, get(at, 8)), onward(m, get(at, 9)), onward(m, get(at, 10)), onward(m, get(at, 11)),
        onward(m, get(at, 12)), onward(m, get(at, 13)), onward(m, get(at, 14)), onward(m, get(at, 15)),
        onward(m, get(at, 16)), onward(m, get(at, 17)), (get(at, 4) - get(at, 3)) // 2, (get(at, 5) - get(at, 4)) // 2,
    )  # fmt: skip


@inlined_kernel
def pair_of(link: int, rows: int, links: PairLinks) -> Pair:
    """Return a link's cluster as its record says it lies."""
    record, weight, r = links.record, links.weight, RECORD * link
    return Pair(
        get(record, r + TABLE), rows, get(record, r + COLUMNS), get(record, r + OWN_SHIFT),
        get(record, r + OTHER_SHIFT), get(weight, get(record, r + OWN_WEIGHT)),
        get(weight, get(record, r + OTHER_WEIGHT)),
    )  # fmt: skip


@inlined_kernel
def reweighted(pair: Pair, weight: float) -> Pair:
    """Return a cluster with another weight of its rows."""
    return Pair(pair.at, pair.rows, pair.columns, pair.own, pair.other, weight, pair.other_weight)


@inlined_kernel
def column_tops(theta: Any, at: int, rows: int, columns: int, shift: Any, from_shift: int, out: Any, row: int) -> None:
    """Write the maximum of each column of ``theta - shift[:, None]`` to ``out[row:]``."""
    for x in range(0, columns, 4):
        top = subtract4(load4(theta, at + x), fill4(get(shift, from_shift)))
        for y in range(1, rows):
            top = maximum4(top, subtract4(load4(theta, at + y * columns + x), fill4(get(shift, from_shift + y))))
        store4(out, row + x, top)


@inlined_kernel
def column_sums(
    theta: Any, at: int, rows: int, columns: int, shift: Any, from_shift: int, weight: float, out: Any, row: int
) -> None:
    """Write the power sum over the rows of ``theta - shift[:, None]``, one entry a column, to ``out[row:]``."""
    column_tops(theta, at, rows, columns, shift, from_shift, out, row)
    if weight > 0.0:
        scale, heat, lowest = fill4(1.0 / weight), fill4(weight), fill4(LOWEST)
        for x in range(0, columns, 4):
            top, total = load4(out, row + x), fill4(0.0)
            base = maximum4(top, lowest)
            for y in range(rows):
                value = subtract4(load4(theta, at + y * columns + x), fill4(get(shift, from_shift + y)))
                total = add4(total, exp4(multiply4(subtract4(value, base), scale)))
            store4(out, row + x, multiply_add4(heat, log4(maximum4(total, fill4(TINY))), top))


@inlined_kernel
def row_maxima(theta: Any, at: int, rows: int, columns: int, shift: Any, from_shift: int, out: Any, row: int) -> None:
    """Write the maximum of each row of ``theta - shift[None, :]`` to ``out[row:]``."""
    whole = columns // 4 * 4
    for x in range(rows):
        start, top = at + x * columns, -math.inf
        if whole > 0:
            tops = subtract4(load4(theta, start), load4(shift, from_shift))
            for y in range(4, whole, 4):
                tops = maximum4(tops, subtract4(load4(theta, start + y), load4(shift, from_shift + y)))
            top = peak4(tops)
        for y in range(whole, columns):
            top = max(top, get(theta, start + y) - get(shift, from_shift + y))
        put(out, row + x, top)


@inlined_kernel
def peak_of(values: Any, at: int, size: int) -> float:
    """Return the maximum of ``values[at : at + size]``."""
    top, whole = -math.inf, size // 4 * 4
    if whole > 0:
        tops = load4(values, at)
        for x in range(4, whole, 4):
            tops = maximum4(tops, load4(values, at + x))
        top = peak4(tops)
    for x in range(at + whole, at + size):
        top = max(top, get(values, x))
    return top


@inlined_kernel
def power_of(values: Any, at: int, size: int, weight: float) -> float:
    """Return the power sum of ``values[at : at + size]``."""
    top = peak_of(values, at, size)
    if weight > 0.0 and top > -math.inf:
        total, scale, whole = 0.0, 1.0 / weight, size // 4 * 4
        for x in range(at, at + whole, 4):
            total += total4(exp4(multiply4(subtract4(load4(values, x), fill4(top)), fill4(scale))))
        for x in range(at + whole, at + size):
            total += fast_exp((get(values, x) - top) * scale)
        top += weight * fast_log(total)
    return top


@inlined_kernel
def belief_of(values: Any, size: int, weight: float, out: Any) -> float:
    """Return the power sum of ``values[:size]`` and write its belief to ``out``, zeros in the padding."""
    top = peak_of(values, 0, size)
    shifted = max(top, LOWEST)
    if weight > 0.0:
        for x in range(0, size, 4):
            store4(out, x, exp4(multiply4(subtract4(load4(values, x), fill4(shifted)), fill4(1.0 / weight))))
    else:
        for x in range(size):
            put(out, x, 1.0 if get(values, x) == shifted else 0.0)
    for x in range(size, (size + 3) // 4 * 4):
        put(out, x, 0.0)
    sums = load4(out, 0)
    for x in range(4, size, 4):
        sums = add4(sums, load4(out, x))
    total = max(total4(sums), TINY)
    for x in range(0, size, 4):
        store4(out, x, multiply4(load4(out, x), fill4(1.0 / total)))
    return top + weight * fast_log(total) if weight > 0.0 else top


@inlined_kernel
def exponentials(pair: Pair, theta: Any, shift: Any, own: int, to: int, base: int, work: PairWorkspace) -> None:
    """Write ``tops = (theta - shift[:, None]).max(axis=0)`` and ``e = exp((theta - shift[:, None] - tops) / weight)``.

    The shifts of rows begin at ``own``, ``e`` at ``to``, ``tops`` at ``base``. At weight 0 ``e`` is 1 at the maxima
    and 0 elsewhere.
    """
    e, tops, at, rows, columns, weight = work.e, work.tops, pair.at, pair.rows, pair.columns, pair.weight
    column_tops(theta, at, rows, columns, shift, own, tops, base)
    lowest, scale = fill4(LOWEST), fill4(1.0 / weight if weight > 0.0 else 0.0)
    for x in range(rows):
        start, less, goal = at + x * columns, get(shift, own + x), to + x * columns
        if weight > 0.0:
            for y in range(0, columns, 4):
                value = subtract4(load4(theta, start + y), fill4(less))
                value = subtract4(value, maximum4(load4(tops, base + y), lowest))
                store4(e, goal + y, exp4(multiply4(value, scale)))
        else:
            for y in range(columns):
                put(e, goal + y, 1.0 if get(theta, start + y) - less == max(get(tops, base + y), LOWEST) else 0.0)
    for y in range(4):  # the padding of the last row
        put(e, to + rows * columns + y, 0.0)


@inlined_kernel
def scaled_value(pair: Pair, at: int, base: int, shift: Any, work: PairWorkspace, mu: Any, row: int) -> float:
    """Return the value with ``E`` scaled by ``scale`` row by row, and write its marginal to ``mu[row:]``.

    ``E`` begins at ``at``, the maxima of its columns at ``base``. Leaves ``Z`` in ``z``, ``S`` in ``sums`` and
    ``q / S`` in ``q``.
    """
    e, tops, scale, z, sums, q = work.e, work.tops, work.scale, work.z, work.sums, work.q
    rows, columns, other, weight = pair.rows, pair.columns, pair.other, pair.weight
    for y in range(0, columns, 4):
        total = multiply4(load4(e, at + y), fill4(get(scale, 0)))
        for x in range(1, rows):
            total = multiply_add4(load4(e, at + x * columns + y), fill4(get(scale, x)), total)
        total = maximum4(total, fill4(TINY))
        store4(sums, y, total)
        level = subtract4(load4(tops, base + y), load4(shift, other + y))
        store4(z, y, multiply_add4(fill4(weight), log4(total), level) if weight > 0.0 else level)
    value = belief_of(z, columns, pair.other_weight, q)
    for y in range(0, columns, 4):
        store4(q, y, divide4(load4(q, y), load4(sums, y)))
    for y in range(columns, (columns + 3) // 4 * 4):
        put(q, y, 0.0)
    for x in range(rows):
        start = at + x * columns
        mass = multiply4(load4(e, start), load4(q, 0))
        for y in range(4, columns, 4):
            mass = multiply_add4(load4(e, start + y), load4(q, y), mass)
        put(mu, row + x, total4(mass) * get(scale, x))
    return value


@inlined_kernel
def conditional_entropy(pair: Pair, at: int, links: PairLinks, work: PairWorkspace) -> float:
    """Return the entropy of the row given the column, after :func:`scaled_value` with factors of 1; ``E`` at ``at``."""
    theta, shift, e, z, q = links.theta, links.shift, work.e, work.z, work.q
    rows, columns, own, other, total = pair.rows, pair.columns, pair.own, pair.other, 0.0
    if pair.weight > 0.0:
        for x in range(rows):
            start, goal, less = pair.at + x * columns, at + x * columns, get(shift, own + x)
            for y in range(columns):
                mass = get(e, goal + y) * get(q, y)
                if mass > 0.0:
                    total += mass * (get(z, y) + get(shift, other + y) - get(theta, start + y) + less)
        total /= pair.weight
    return total
