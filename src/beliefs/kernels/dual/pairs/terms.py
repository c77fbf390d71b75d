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

from beliefs.kernels._jit import inlined_kernel, kernel
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.kernels.primitives.exponential import exp4, log4
from beliefs.kernels.primitives.memory import address, get, put
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
from beliefs.typing import Floats

__all__ = [
    "belief_of",
    "column_sums",
    "column_tops",
    "conditional_entropy",
    "exponentials",
    "pair_value_and_marginal",
    "peak_of",
    "power_of",
    "row_maxima",
    "scaled_value",
]

LOWEST = -1e308  # stands in for the maximum of a column of -inf
_LEAST = 1e-300


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
            store4(out, row + x, multiply_add4(heat, log4(maximum4(total, fill4(_LEAST))), top))


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
    total = max(total4(sums), _LEAST)
    for x in range(0, size, 4):
        store4(out, x, multiply4(load4(out, x), fill4(1.0 / total)))
    return top + weight * fast_log(total) if weight > 0.0 else top


@inlined_kernel
def exponentials(
    theta: Any, at: int, rows: int, columns: int, shift: Any, own: int, weight: float, e: Any, to: int, tops: Any,
    base: int,
) -> None:  # fmt: skip
    """Write ``tops = (theta - shift[:, None]).max(axis=0)`` and ``e = exp((theta - shift[:, None] - tops) / weight)``.

    At weight 0 ``e`` is 1 at the maxima and 0 elsewhere.
    """
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
def scaled_value(
    e: Any, at: int, rows: int, columns: int, weight: float, other_weight: float, tops: Any, base: int, shift: Any,
    other: int, scale: Any, z: Any, sums: Any, q: Any, mu: Any, row: int,
) -> float:  # fmt: skip
    """Return the value with ``E`` scaled by ``scale`` row by row, and write its marginal to ``mu[row:]``.

    Leaves ``Z`` in ``z``, ``S`` in ``sums`` and ``q / S`` in ``q``.
    """
    for y in range(0, columns, 4):
        total = multiply4(load4(e, at + y), fill4(get(scale, 0)))
        for x in range(1, rows):
            total = multiply_add4(load4(e, at + x * columns + y), fill4(get(scale, x)), total)
        total = maximum4(total, fill4(_LEAST))
        store4(sums, y, total)
        level = subtract4(load4(tops, base + y), load4(shift, other + y))
        store4(z, y, multiply_add4(fill4(weight), log4(total), level) if weight > 0.0 else level)
    value = belief_of(z, columns, other_weight, q)
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
def conditional_entropy(
    theta: Any, at: int, rows: int, columns: int, shift: Any, own: int, other: int, weight: float, e: Any, to: int,
    z: Any, q: Any,
) -> float:  # fmt: skip
    """Return the entropy of the row given the column, after :func:`scaled_value` with factors of 1."""
    total = 0.0
    if weight > 0.0:
        for x in range(rows):
            start, goal, less = at + x * columns, to + x * columns, get(shift, own + x)
            for y in range(columns):
                mass = get(e, goal + y) * get(q, y)
                if mass > 0.0:
                    total += mass * (get(z, y) + get(shift, other + y) - get(theta, start + y) + less)
        total /= weight
    return total


@kernel
def pair_value_and_marginal(
    theta: Floats, at: int, rows: int, columns: int, shift: Floats, own: int, other: int, weight: float,
    other_weight: float, e: Floats, tops: Floats, scale: Floats, z: Floats, sums: Floats, q: Floats, mu: Floats,
    repeat: int,
) -> float:  # fmt: skip
    """Return one cluster's value and write its marginal of the earlier variable: value and gradient of a sum node.

    ``scale`` is ``exp(-d / weight)`` for a shift by ``d``. Once with the exponentials, then ``repeat`` times without,
    as in a block update. All scratch has four entries to spare.
    """
    exponentials(address(theta), at, rows, columns, address(shift), own, weight, address(e), 0, address(tops), 0)
    value = 0.0
    for _ in range(repeat):
        value = scaled_value(
            address(e), 0, rows, columns, weight, other_weight, address(tops), 0, address(shift), other,
            address(scale), address(z), address(sums), address(q), address(mu), 0,
        )  # fmt: skip
    return value
