"""Values of clusters seen from one separator, under trial shifts; parts of :mod:`beliefs.kernels.dual.blocks`."""

from __future__ import annotations

from beliefs.kernels._jit import kernel
from beliefs.kernels.dual.tables import chain_marginals, power_chain, power_sum
from beliefs.typing import Bools, Floats, Ints

__all__ = ["marginal_onto", "power_value", "reduce_early", "shifted_term", "try_shifts"]


@kernel
def reduce_early(
    tables: Floats, begin: int, size: int, card: Ints, weight: Floats, first: int, until: int, z: Floats,
    total: Floats, h: Floats, at: int,
) -> None:  # fmt: skip
    """Eliminate the axes ``first..until`` of ``tables[begin : begin + size]`` to ``h[at:]``; the others stay."""
    if first == until:
        for k in range(size):
            h[at + k] = tables[begin + k]
        return
    place = 0
    for a in range(first, until):
        inner = size // card[a]
        if a == first and a == until - 1:
            power_sum(tables, begin, card[a], inner, weight[a], h, at, total)
        elif a == first:
            power_sum(tables, begin, card[a], inner, weight[a], z, 0, total)
        elif a == until - 1:
            power_sum(z, place, card[a], inner, weight[a], h, at, total)
        else:
            power_sum(z, place, card[a], inner, weight[a], z, place + size, total)
            place += size
        size = inner


@kernel
def shifted_term(
    h: Floats, at: int, size: int, index: Ints, shift: Floats, row: int, card: Ints, weight: Floats, first: int,
    last: int, z: Floats, p: Floats, total: Floats,
) -> float:  # fmt: skip
    """Return the power sum of ``h[at:] - shift[row + index]`` along its axes, steps kept in ``z`` and ``p``."""
    for k in range(size):
        z[k] = h[at + k] - shift[row + index[at + k]]
    return power_chain(z, p, size, card, weight, first, last, total)


@kernel
def marginal_onto(
    p: Floats, size: int, index: Ints, at: int, card: Ints, first: int, last: int, out: Floats, row: int, width: int
) -> None:
    """Write the marginal over the separator of the chain in ``p``."""
    chain_marginals(p, size, card, first, last)
    for x in range(width):
        out[row + x] = 0.0
    for k in range(size):
        out[row + index[at + k]] += p[k]


@kernel
def power_value(values: Floats, size: int, card: Ints, weight: Floats, first: int, last: int, z: Floats, p: Floats,
                total: Floats) -> float:  # fmt: skip
    """Return the power sum of ``values[:size]``, steps kept in ``z`` and ``p``."""
    for k in range(size):
        z[k] = values[k]
    return power_chain(z, p, size, card, weight, first, last, total)


@kernel
def try_shifts(
    s: int, t: float, axis_ptr: Ints, card: Ints, sep_cell: Ints, link_ptr: Ints, link_cluster: Ints, link_first: Ints,
    link_size: Ints, apart: Bools, weight: Floats, index: Ints, h: Floats, z: Floats, p: Floats, total: Floats,
    shift: Floats, direction: Floats, trial: Floats, fresh: Floats,
) -> float:  # fmt: skip
    """Return the values of the clusters apart at ``trial = shift + t direction``; marginals go to ``fresh``."""
    width = sep_cell[s + 1] - sep_cell[s]
    value, at = 0.0, 0
    for link in range(link_ptr[s], link_ptr[s + 1]):
        c, row, size = link_cluster[link], (link - link_ptr[s]) * width, link_size[link]
        if apart[link]:
            first, last = link_first[link], axis_ptr[c + 1]
            for x in range(row, row + width):
                trial[x] = shift[x] + t * direction[x]
            value += shifted_term(h, at, size, index, trial, row, card, weight, first, last, z, p, total)
            marginal_onto(p, size, index, at, card, first, last, fresh, row, width)
        at += size
    return value
