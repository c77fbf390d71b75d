"""Pairs with maxima only: the closed form of Eq. (3.10) [ping2016] for every variable, and the tables of pairs."""

from __future__ import annotations

import math
from typing import Any

from beliefs.kernels._jit import inlined_kernel, kernel
from beliefs.kernels.dual.pairs.terms import column_sums, column_tops, pair_workspace, peak_of, power_of, row_maxima
from beliefs.kernels.dual.structure import (
    COLUMNS,
    KIND,
    LATER,
    OTHER_SHIFT,
    OWN_SHIFT,
    RECORD,
    TABLE,
    Axes,
    Decomposition,
    PairMemory,
)
from beliefs.kernels.primitives.memory import address, get, put
from beliefs.kernels.primitives.simd import add4, load4, store4, subtract4
from beliefs.typing import Bools, Floats, Ints

__all__ = ["absorb_shifts", "node_values", "pair_values", "update_max_pairs"]


@inlined_kernel
def binary_maxima(theta: Any, at: int, kind: int, shift: Any, other: int, out: Any, row: int) -> None:
    """Write both max-marginals of a table of two by two."""
    d0, d1 = get(shift, other), get(shift, other + 1)
    a, b, c, d = get(theta, at), get(theta, at + 1), get(theta, at + 2), get(theta, at + 3)
    b, c = (b, c) if kind == LATER else (c, b)
    put(out, row, max(a - d0, c - d1))
    put(out, row + 1, max(b - d0, d - d1))


@inlined_kernel
def gather_maxima(
    l0: int, l1: int, card: int, record: Any, theta: Any, shift: Any, g: Any, total: Any, pooled: Any
) -> float:
    """Add up the max-marginals of all clusters in ``pooled``, each in its row of ``g``; return the clusters' maxima."""
    value = 0.0
    for link in range(l0, l1):
        r, row = RECORD * link, (link - l0) * card
        at, kind, columns = get(record, r + TABLE), get(record, r + KIND), get(record, r + COLUMNS)
        own, other = get(record, r + OWN_SHIFT), get(record, r + OTHER_SHIFT)
        if card == 2 and columns == 2:
            binary_maxima(theta, at, kind, shift, other, g, row)
            g0, g1 = get(g, row) - get(shift, own), get(g, row + 1) - get(shift, own + 1)
            put(pooled, 0, get(pooled, 0) + g0)
            put(pooled, 1, get(pooled, 1) + g1)
            value += max(g0, g1)
            continue
        if kind == LATER:
            column_tops(theta, at, columns, card, shift, other, g, row)
        else:
            row_maxima(theta, at, card, columns, shift, other, g, row)
        for x in range(0, card, 4):
            found = subtract4(load4(g, row + x), load4(shift, own + x))
            store4(total, x, found)
            store4(pooled, x, add4(load4(pooled, x), found))
        value += peak_of(total, 0, card)
    return value


@inlined_kernel
def has_zeros(pooled: Any, card: int) -> bool:
    """Whether a state is impossible."""
    low = get(pooled, 0)
    for x in range(1, card):
        low = min(low, get(pooled, x))
    return bool(low == -math.inf)


@kernel
def update_max_pairs(
    order: Ints, begin: int, end: int, separators: Axes, link_ptr: Ints, record: Ints, revisited: Bools,
    state: Decomposition, shift: Floats, scratch: PairMemory,
) -> None:  # fmt: skip
    """Do what :func:`beliefs.kernels.dual.pairs.sums.update_pairs` does where all weights are 0. Cost: each table."""
    order, link_ptr, record, shift = address(order), address(link_ptr), address(record), address(shift)
    sep_card, sep_cell, theta = address(separators.card), address(separators.cell), address(state.tables)
    sep_tables, scores, decrease = address(state.sep_tables), address(state.scores), address(state.decrease)
    work = pair_workspace(scratch)
    pooled, g, total = work.pooled, work.g, work.total
    for turn in range(begin, end):
        s = get(order, turn)
        card, n0, l0, l1 = get(sep_card, s), get(sep_cell, s), get(link_ptr, s), get(link_ptr, s + 1)
        for x in range(card):
            put(pooled, x, get(sep_tables, n0 + x))
        before = peak_of(pooled, 0, card)
        before += gather_maxima(l0, l1, card, record, theta, shift, g, total, pooled)
        value, n_revisited = peak_of(pooled, 0, card), 0
        for link in range(l0, l1):
            n_revisited += 1 if revisited[link] else 0
        even, hard = 1.0 / (l1 - l0 + 1), has_zeros(pooled, card)
        constant = value * even
        for link in range(l0, l1):
            row, own = (link - l0) * card, get(record, RECORD * link + OWN_SHIFT)
            ratio = even if n_revisited == 0 else (1.0 / n_revisited if revisited[link] else 0.0)
            if hard:
                for x in range(card):
                    if get(pooled, x) > -math.inf:
                        part = ratio * (get(pooled, x) - value) + constant
                        put(shift, own + x, get(g, row + x) - part)
            else:
                for x in range(card):
                    part = ratio * (get(pooled, x) - value) + constant
                    put(shift, own + x, get(g, row + x) - part)
        ratio = even if n_revisited == 0 else 0.0
        for x in range(card):
            now = get(pooled, x)
            put(scores, n0 + x, now)
            put(sep_tables, n0 + x, ratio * (now - value) + constant if now > -math.inf else -math.inf)
        put(decrease, s, before - value)


@kernel
def absorb_shifts(sep_card: Ints, link_ptr: Ints, record: Ints, shift: Floats, tables: Floats) -> None:
    """Subtract all shifts from the tables, and set them to zero: ``tables[c] -= shift_i[:, None] + shift_j``."""
    for s in range(link_ptr.size - 1):
        card = sep_card[s]
        for link in range(link_ptr[s], link_ptr[s + 1]):
            r = RECORD * link
            at, own, columns = record[r + TABLE], record[r + OWN_SHIFT], record[r + COLUMNS]
            if record[r + KIND] == LATER:
                for y in range(columns):
                    for x in range(card):
                        tables[at + y * card + x] -= shift[own + x]
            else:
                for x in range(card):
                    for y in range(columns):
                        tables[at + x * columns + y] -= shift[own + x]
            for x in range(card):
                shift[own + x] = 0.0


@kernel
def pair_values(
    clusters: Axes, weight: Floats, tables: Floats, none: Floats, sums: Floats, values: Floats
) -> None:  # fmt: skip
    """Write the power sum of each table of two axes; ``none`` holds zeros, ``sums`` is scratch."""
    axis_ptr, card, cell_ptr = clusters.ptr, clusters.card, clusters.cell
    for c in range(values.size):
        a = axis_ptr[c]
        column_sums(address(tables), cell_ptr[c], card[a], card[a + 1], address(none), 0, weight[a], address(sums), 0)
        values[c] = power_of(address(sums), 0, card[a + 1], weight[a + 1])


@kernel
def node_values(sep_cell: Ints, sep_weight: Floats, sep_tables: Floats, values: Floats) -> None:
    """Write the power sum of each variable's own table."""
    for s in range(values.size):
        values[s] = power_of(address(sep_tables), sep_cell[s], sep_cell[s + 1] - sep_cell[s], sep_weight[s])
