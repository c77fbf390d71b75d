"""Values of clusters seen from one separator, under trial shifts; parts of :mod:`beliefs.kernels.dual.blocks`."""

from __future__ import annotations

from beliefs.kernels._jit import kernel
from beliefs.kernels.dual.structure import Axes, Chain, Links, Workspace
from beliefs.kernels.dual.tables import chain_marginals, power_chain, power_sum
from beliefs.typing import Bools, Floats, Ints

__all__ = ["marginal_onto", "power_value", "reduce_early", "shifted_term", "try_shifts"]


@kernel
def reduce_early(
    c: int, until: int, clusters: Axes, weight: Floats, tables: Floats, chain: Chain, h: Floats, at: int
) -> None:
    """Eliminate the axes of cluster ``c`` before ``until`` and write the table to ``h[at:]``; the others stay."""
    z, total, card = chain.z, chain.total, clusters.card
    first, begin = clusters.ptr[c], clusters.cell[c]
    size, place = clusters.cell[c + 1] - begin, 0
    if first == until:
        for k in range(size):
            h[at + k] = tables[begin + k]
        return
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
    link: int, at: int, clusters: Axes, links: Links, weight: Floats, shift: Floats, row: int, work: Workspace
) -> float:
    """Return the power sum of a link's ``h[at:] - shift[row + index]`` along its axes, steps kept in the chain."""
    h, index, z, size = work.h, work.cell_map, work.chain.z, links.size[link]
    for k in range(size):
        z[k] = h[at + k] - shift[row + index[at + k]]
    last = clusters.ptr[links.cluster[link] + 1]
    return power_chain(size, clusters.card, weight, links.first[link], last, work.chain)


@kernel
def marginal_onto(
    link: int, at: int, clusters: Axes, links: Links, work: Workspace, out: Floats, row: int, width: int
) -> None:
    """Write the marginal over the separator of the chain that :func:`shifted_term` left."""
    p, index, size = work.chain.p, work.cell_map, links.size[link]
    chain_marginals(p, size, clusters.card, links.first[link], clusters.ptr[links.cluster[link] + 1])
    for x in range(width):
        out[row + x] = 0.0
    for k in range(size):
        out[row + index[at + k]] += p[k]


@kernel
def power_value(
    values: Floats, size: int, card: Ints, weight: Floats, first: int, last: int, chain: Chain
) -> float:  # fmt: skip
    """Return the power sum of ``values[:size]``, steps kept in the chain."""
    z = chain.z
    for k in range(size):
        z[k] = values[k]
    return power_chain(size, card, weight, first, last, chain)


@kernel
def try_shifts(
    s: int, t: float, clusters: Axes, separators: Axes, links: Links, coupled: Bools, weight: Floats, work: Workspace
) -> float:
    """Return the values of the coupled clusters at ``trial = shift + t direction``; marginals go to ``fresh``."""
    shift, direction, trial = work.shift, work.direction, work.trial
    l0, l1, width = links.ptr[s], links.ptr[s + 1], separators.cell[s + 1] - separators.cell[s]
    value, at = 0.0, 0
    for link in range(l0, l1):
        row = (link - l0) * width
        if coupled[link]:
            for x in range(row, row + width):
                trial[x] = shift[x] + t * direction[x]
            value += shifted_term(link, at, clusters, links, weight, trial, row, work)
            marginal_onto(link, at, clusters, links, work, work.fresh, row, width)
        at += links.size[link]
    return value
