"""Pairs with maxima only: the closed form of Eq. (3.10) [ping2016] for every variable, and the tables of pairs."""

from __future__ import annotations

import math
from typing import Any

from beliefs.kernels._jit import inlined_kernel, kernel
from beliefs.kernels.dual.pairs.sums import LATER, RECORD
from beliefs.kernels.dual.pairs.terms import column_sums, column_tops, peak_of, power_of, row_maxima
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
        at, kind, own, other, columns = (
            get(record, r), get(record, r + 1), get(record, r + 2), get(record, r + 3), get(record, r + 4)
        )  # fmt: skip
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
    order: Ints, begin: int, end: int, sep_card: Ints, sep_cell: Ints, link_ptr: Ints, record: Ints, ahead: Bools,
    theta: Floats, shift: Floats, nodes: Floats, drop: Floats, marks: Floats, pooled: Floats, g: Floats, total: Floats,
) -> None:  # fmt: skip
    """Do what :func:`beliefs.kernels.dual.pairs.sums.update_pairs` does where all weights are 0. Cost: each table."""
    order, sep_card, sep_cell, link_ptr = address(order), address(sep_card), address(sep_cell), address(link_ptr)
    record, theta, shift, nodes, drop = address(record), address(theta), address(shift), address(nodes), address(drop)
    marks, pooled, g, total = address(marks), address(pooled), address(g), address(total)
    for turn in range(begin, end):
        s = get(order, turn)
        card, n0, l0, l1 = get(sep_card, s), get(sep_cell, s), get(link_ptr, s), get(link_ptr, s + 1)
        for x in range(card):
            put(pooled, x, get(nodes, n0 + x))
        before = peak_of(pooled, 0, card)
        before += gather_maxima(l0, l1, card, record, theta, shift, g, total, pooled)
        value, n_ahead = peak_of(pooled, 0, card), 0
        for link in range(l0, l1):
            n_ahead += 1 if ahead[link] else 0
        even, hard = 1.0 / (l1 - l0 + 1), has_zeros(pooled, card)
        constant = value * even
        for link in range(l0, l1):
            row, own = (link - l0) * card, get(record, RECORD * link + 2)
            ratio = even if n_ahead == 0 else (1.0 / n_ahead if ahead[link] else 0.0)
            if hard:
                for x in range(card):
                    if get(pooled, x) > -math.inf:
                        part = ratio * (get(pooled, x) - value) + constant
                        put(shift, own + x, get(g, row + x) - part)
            else:
                for x in range(card):
                    part = ratio * (get(pooled, x) - value) + constant
                    put(shift, own + x, get(g, row + x) - part)
        ratio = even if n_ahead == 0 else 0.0
        for x in range(card):
            now = get(pooled, x)
            put(marks, n0 + x, now)
            put(nodes, n0 + x, ratio * (now - value) + constant if now > -math.inf else -math.inf)
        put(drop, s, before - value)


@kernel
def absorb_shifts(sep_card: Ints, link_ptr: Ints, record: Ints, shift: Floats, tables: Floats) -> None:
    """Subtract all shifts from the tables, and set them to zero: ``tables[c] -= shift_i[:, None] + shift_j``."""
    for s in range(link_ptr.size - 1):
        card = sep_card[s]
        for link in range(link_ptr[s], link_ptr[s + 1]):
            r = RECORD * link
            at, own, columns = record[r], record[r + 2], record[r + 4]
            if record[r + 1] == LATER:
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
    axis_ptr: Ints, card: Ints, cell_ptr: Ints, weight: Floats, tables: Floats, none: Floats, sums: Floats,
    values: Floats,
) -> None:  # fmt: skip
    """Write the power sum of each table of two axes; ``none`` holds zeros, ``sums`` is scratch."""
    for c in range(values.size):
        a = axis_ptr[c]
        column_sums(address(tables), cell_ptr[c], card[a], card[a + 1], address(none), 0, weight[a], address(sums), 0)
        values[c] = power_of(address(sums), 0, card[a + 1], weight[a + 1])


@kernel
def node_values(sep_cell: Ints, sep_weight: Floats, nodes: Floats, values: Floats) -> None:
    """Write the power sum of each variable's own table."""
    for s in range(values.size):
        values[s] = power_of(address(nodes), sep_cell[s], sep_cell[s + 1] - sep_cell[s], sep_weight[s])
