r"""Dual block descent on plain numbers: :mod:`beliefs.kernels.regions.concave` without logs.

Outer regions have tables :math:`e^{X_\gamma}`, inner ones :math:`e^{\theta_\beta}`, and multipliers are
:math:`L = e^\lambda`; each may be scaled as is convenient, since neither beliefs nor the dual know the scale of a
multiplier. With marginals :math:`m_\gamma`, normalised, a step is

.. math:: b_\beta \propto \Big(e^{\theta_\beta} \prod_\gamma m_\gamma^{w_\gamma} / L_\gamma\Big)
   ^{1 / (c_\beta + \sum_\gamma w_\gamma)}, \quad
   e^{X_\gamma} \leftarrow e^{X_\gamma} \frac{b_\beta}{m_\gamma}, \quad
   L_\gamma \leftarrow L_\gamma \Big(\frac{b_\beta}{m_\gamma}\Big)^{w_\gamma}.

Of a loop only the one edge is made anew that is asked for, by the product of all other tables: a third of what its
beliefs cost. Those of a long loop are kept in a tree (:mod:`beliefs.kernels.regions.loop_tree`), or a sweep over its n
edges would take :math:`n^2` products.

As long as all numbers of inner regions that are not 0 lie between ``_LEAST`` and its inverse, products of three are
normal numbers, so that 0 means impossible. ``low[r]`` and ``high[r]`` bound every product of tables of a loop, and are
found anew when they allow too much. Where a number leaves its range, work stops before that inner region, which is
untouched, and goes on in logs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.kernels.regions.concave import Agreements
from beliefs.kernels.regions.loop_tree import LoopTrees, other_edges
from beliefs.kernels.regions.plain import multiply_by, product, project_plain, rescale, spans
from beliefs.kernels.regions.structure import RegionTables
from beliefs.typing import Floats

__all__ = ["PlainAgreements", "descend_plain", "to_plain_agreements"]

_LEAST = 1e-70
_SAFE = 1e-150  # products of tables, and what a message makes of them


class PlainAgreements(NamedTuple):
    """What dual block descent works on, as plain numbers.

    ``lin (n_cells,)`` are tables of outer regions, ``beliefs`` and ``target (n_cells,)`` those of inner ones;
    ``low`` and ``high (n_regions,)`` bound the products of tables of an outer region.
    """

    lin: Floats
    beliefs: Floats
    target: Floats
    multipliers: Floats
    low: Floats
    high: Floats


@kernel
def exponentials(logs: Floats, least: float, write: bool, out: Floats) -> bool:
    """Write exponentials with a largest entry of 1; False where one that is not 0 would be smaller than ``least``."""
    top, low = -math.inf, math.inf
    for k in range(logs.size):
        top = max(top, logs[k])
        low = min(low, logs[k] if logs[k] > -math.inf else math.inf)
    if not (-math.inf < top < math.inf) or low - top < math.log(least):
        return False
    if write:
        for k in range(logs.size):
            out[k] = math.exp(logs[k] - top)
    return True


@kernel
def to_plain_agreements(
    tables: RegionTables, pairs: Agreements, logs: Floats, beliefs: Floats, target: Floats, multipliers: Floats,
    plain: PlainAgreements,
) -> bool:  # fmt: skip
    """Turn logs into plain numbers, maybe in the same memory; False, and nothing written, beyond their range.

    Shapes: logs as in ``descend``. Cost: an exponential for every number.
    """
    outer = tables.table_ptr[pairs.inner[0]] if pairs.inner.size else tables.cell_ptr.size - 1
    for write in (False, True):
        for q in range(tables.cell_ptr.size - 1):
            begin, end = tables.cell_ptr[q], tables.cell_ptr[q + 1]
            if q < outer:
                if not exponentials(logs[begin:end], 1e-140, write, plain.lin[begin:end]):
                    return False
            else:
                if not exponentials(beliefs[begin:end], _LEAST, write, plain.beliefs[begin:end]):
                    return False
                if write:
                    rescale(plain.beliefs[begin:end], True)
                if not exponentials(target[begin:end], _LEAST, write, plain.target[begin:end]):
                    return False
        for i in range(pairs.inner.size):
            q = tables.table_ptr[pairs.inner[i]]
            size = tables.cell_ptr[q + 1] - tables.cell_ptr[q]
            for entry in range(pairs.ptr[i], pairs.ptr[i + 1]):
                begin, end = pairs.start[entry], pairs.start[entry] + size
                if not exponentials(multipliers[begin:end], _LEAST, write, plain.multipliers[begin:end]):
                    return False
    for r in range(plain.low.size):
        plain.low[r] = 0.0  # unknown
    return True


@kernel
def bound_products(tables: RegionTables, r: int, plain: PlainAgreements) -> bool:
    """Scale the tables of a region to a largest entry of 1 and bound their products; False where logs are needed."""
    plain.low[r], plain.high[r] = 1.0, 1.0
    for q in range(tables.table_ptr[r], tables.table_ptr[r + 1]):
        begin, end = tables.cell_ptr[q], tables.cell_ptr[q + 1]
        scale = rescale(plain.lin[begin:end], False)
        if scale == 0.0:
            return False
        low, _ = spans(plain.lin[begin:end])
        plain.low[r] *= low
        plain.high[r] *= max(tables.rows[q], 1)
    return True


@kernel
def edge_of_loop(tables: RegionTables, r: int, q: int, safe: bool, room: Floats, lin: Floats) -> int:
    """Write the beliefs of one edge of a loop, not normalised, and return where in ``room``; -1 where logs are needed.

    Equivalent to ``table[q] * (product of the tables after and before q).T``.
    Cost: :math:`(n - 2) K^3`.
    """
    first, end = tables.table_ptr[r], tables.table_ptr[r + 1]
    n, width, binary = end - first, 1, True
    for p in range(first, end):
        width = max(width, tables.rows[p])
        binary = binary and tables.rows[p] == 2
    p = q + 1 if q + 1 < end else first
    at, after = tables.cell_ptr[p], tables.cell_ptr[q]
    if binary and safe:
        a, b, c, d = lin[at], lin[at + 1], lin[at + 2], lin[at + 3]
        for _ in range(n - 2):
            p = p + 1 if p + 1 < end else first
            at = tables.cell_ptr[p]
            a, b = a * lin[at] + b * lin[at + 2], a * lin[at + 1] + b * lin[at + 3]
            c, d = c * lin[at] + d * lin[at + 2], c * lin[at + 1] + d * lin[at + 3]
        room[0], room[1] = lin[after] * a, lin[after + 1] * c
        room[2], room[3] = lin[after + 2] * b, lin[after + 3] * d
        return 0
    cells, here, rows = width * width, 0, tables.rows[p]
    for k in range(tables.cell_ptr[p + 1] - at):
        room[k] = lin[at + k]
    for _ in range(n - 2):
        p = p + 1 if p + 1 < end else first
        middle, columns = tables.rows[p], tables.rows[p + 1 if p + 1 < end else first]
        to = room[cells - here : cells - here + rows * columns]
        product(room[here : here + rows * middle], lin[tables.cell_ptr[p] :], rows, middle, columns, to)
        if not safe and rescale(to, False) == 0.0:
            return -1
        here = cells - here
    columns = tables.rows[q]
    for i in range(columns):
        for j in range(rows):
            room[2 * cells + i * rows + j] = lin[after + i * rows + j] * room[here + j * columns + i]
    return 2 * cells


@kernel
def edge_of_long_loop(tables: RegionTables, r: int, q: int, room: Floats, lin: Floats, trees: LoopTrees) -> int:
    """As :func:`edge_of_loop`, from a tree."""
    if other_edges(tables, r, q, True, trees, lin, room) < 0:
        return -1
    begin, rows, here = tables.cell_ptr[q], tables.rows[q], int(trees.width[r] * trees.width[r])
    columns = (tables.cell_ptr[q + 1] - begin) // rows
    for a in range(rows):
        for b in range(columns):
            room[here + a * columns + b] = lin[begin + a * columns + b] * room[b * rows + a]
    return here


@kernel
def marginal_of(
    tables: RegionTables, r: int, q: int, m: int, room: Floats, plain: PlainAgreements, trees: LoopTrees, out: Floats
) -> bool:
    """Write the marginal of outer region ``r`` through its table ``q`` and map ``m``; False where logs are needed."""
    begin = tables.cell_ptr[q]
    size = tables.cell_ptr[q + 1] - begin
    wide = plain.lin[begin : begin + size]
    if trees.begin[r] >= 0:
        here = edge_of_long_loop(tables, r, q, room, plain.lin, trees)
        if here < 0:
            return False
        wide = room[here : here + size]
    else:
        safe = plain.low[r] > _SAFE and plain.high[r] < 1.0 / _SAFE
        if not safe:
            if not bound_products(tables, r, plain):
                return False
            safe = plain.low[r] > _SAFE and plain.high[r] < 1.0 / _SAFE
        if tables.rows[q] > 0:
            here = edge_of_loop(tables, r, q, safe, room, plain.lin)
            if here < 0:
                return False
            wide = room[here : here + size]
    project_plain(tables, m, False, wide, out)
    total, low = 0.0, math.inf
    for y in range(out.size):
        total += out[y]
        low = min(low, out[y] if out[y] > 0.0 else math.inf)
    if not (0.0 < total < math.inf) or low < _LEAST * total:
        return False
    inverse = 1.0 / total
    for y in range(out.size):
        out[y] *= inverse
    return True


@kernel
def power(x: float, exponent: float) -> float:
    """Return a power, fast for the usual exponents."""
    if exponent == 1.0:
        return x
    if exponent == 0.5:
        return math.sqrt(x)
    if exponent == 0.25:
        return math.sqrt(math.sqrt(x))
    raised: float = x**exponent
    return raised


@kernel
def descend_plain(
    tables: RegionTables, pairs: Agreements, weight: Floats, room: Floats, plain: PlainAgreements, trees: LoopTrees
) -> tuple[float, float, int]:
    """Set the multipliers of every inner region once; return the changes that ``descend`` does, and how many were set.

    Equivalent to ``descend`` of the logs, as long as nothing is too small.
    Shapes: as there; ``room`` has one more of the largest inner table than a loop's products take, and two more for
    each outer region around it.
    Cost: one edge of all outer loops around each inner region, of long ones as :mod:`.loop_tree` says.
    Numerics: as the module says. Fewer than asked for were set where the next one needs logs.
    """
    worst, apart = 0.0, 0.0
    for i in range(pairs.inner.size):
        q = tables.table_ptr[pairs.inner[i]]
        begin, size = tables.cell_ptr[q], tables.cell_ptr[q + 1] - tables.cell_ptr[q]
        first, n_around = pairs.ptr[i], pairs.ptr[i + 1] - pairs.ptr[i]
        belief = room[room.size - size :]
        kept = room.size - size * (2 * n_around + 1)  # marginals of outer regions, then their new multipliers
        share = weight[pairs.inner[i]]
        for y in range(size):
            belief[y] = plain.target[begin + y]
        for j in range(n_around):
            r, lam = pairs.region[first + j], pairs.start[first + j]
            own = room[kept + j * size : kept + (j + 1) * size]
            at, m = pairs.table[first + j], pairs.map[first + j]
            if not marginal_of(tables, r, at, m, room, plain, trees, own):
                return worst, apart, i
            share += weight[r]
            for y in range(size):
                x = power(own[y], weight[r])
                if own[y] > 0.0 and x < _LEAST:
                    return worst, apart, i
                belief[y] *= x / plain.multipliers[lam + y]
            if rescale(belief, False) == 0.0:
                return worst, apart, i
        for y in range(size):
            x = belief[y]
            belief[y] = power(x, 1.0 / share)
            if x > 0.0 and belief[y] < _LEAST:
                return worst, apart, i
        if rescale(belief, True) == 0.0:
            return worst, apart, i
        for y in range(size):
            if 0.0 < belief[y] < _LEAST:
                return worst, apart, i
        for j in range(n_around):
            r, lam, own = pairs.region[first + j], pairs.start[first + j], kept + j * size
            new = own + n_around * size
            for y in range(size):
                apart = max(apart, abs(belief[y] - room[own + y]))
                possible = belief[y] > 0.0 and room[own + y] > 0.0
                ratio = belief[y] / room[own + y] if possible else 1.0
                room[own + y] = ratio
                room[new + y] = plain.multipliers[lam + y] * power(ratio, weight[r]) if possible else 1.0
                if not (_LEAST < room[new + y] < 1.0 / _LEAST):
                    return worst, apart, i
        for y in range(size):
            worst = max(worst, abs(belief[y] - plain.beliefs[begin + y]))
            plain.beliefs[begin + y] = belief[y]
        for j in range(n_around):
            r, lam, to = pairs.region[first + j], pairs.start[first + j], pairs.table[first + j]
            own = kept + j * size
            low, top = spans(room[own : own + size])
            plain.low[r] *= low
            plain.high[r] *= top
            for y in range(size):
                plain.multipliers[lam + y] = room[own + n_around * size + y]
            start, end, m = tables.cell_ptr[to], tables.cell_ptr[to + 1], pairs.map[first + j]
            cells = tables.maps[tables.map_ptr[m] : tables.map_ptr[m + 1]]
            multiply_by(room[own : own + size], cells, plain.lin[start:end])
    return worst, apart, pairs.inner.size
