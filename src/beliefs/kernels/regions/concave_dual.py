r"""The dual of :mod:`beliefs.kernels.regions.concave` at given multipliers, from nothing but potentials.

.. math:: \sum_\gamma w_\gamma \log \sum \exp\Big(\frac{\theta_\gamma + \sum_\beta \lambda_{\gamma\beta}}{w_\gamma}\Big)
   + \sum_\beta c_\beta \log \sum_{y_\beta}
   \exp\Big(\frac{\theta_\beta - \sum_\gamma \lambda_{\gamma\beta}}{c_\beta}\Big)

Beside each sum stands the magnitude of what was added, from which its rounding is bounded.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.kernels.regions.beliefs import in_range, log_sum, multiply, ranges
from beliefs.kernels.regions.concave import Agreements
from beliefs.kernels.regions.plain import product, rescale
from beliefs.kernels.regions.structure import RegionTables
from beliefs.typing import Floats, Ints

__all__ = ["OuterEntries", "inner_terms", "outer_terms"]

_SAFE = 600.0  # nats


class OuterEntries(NamedTuple):
    """Outer region ``r`` has the entries ``entry[ptr[r]:ptr[r+1]]`` of the agreements."""

    ptr: Ints
    entry: Ints


@kernel
def loop_log_z(logs: Floats, rows: Ints, starts: Ints, room: Floats) -> float:
    """Return log Z of a loop, ``-inf`` where nothing is possible.

    Equivalent to the value of ``loop_beliefs``. Shapes: as there; ``room`` takes three tables. Cost: :math:`n K^3`.
    """
    n, width, span, widest = rows.size, 1, 0.0, 0.0
    for k in range(n):
        width = max(width, rows[k])
        top, own = ranges(logs[starts[k] - starts[0] : starts[k + 1] - starts[0]])
        if top == -math.inf:
            return top
        span, widest = span + own, max(widest, own)
    safe = span + n * math.log(width) < _SAFE
    log_z = trace_around(logs, rows, starts, safe or widest < 0.5 * _SAFE, not safe, room)
    if log_z == math.inf:
        log_z = trace_around(logs, rows, starts, False, False, room)
    return log_z


@kernel
def trace_around(logs: Floats, rows: Ints, starts: Ints, plain: bool, careful: bool, room: Floats) -> float:
    """As :func:`loop_log_z`, in plain numbers or not; if ``careful``, inf where scaled products leave their range."""
    n, width, scale = rows.size, 1, 0.0
    for k in range(n):
        width = max(width, rows[k])
        scale += ranges(logs[starts[k] - starts[0] : starts[k + 1] - starts[0]])[0]
    cells, here = width * width, 0
    for k in range(n):
        begin, size = starts[k] - starts[0], starts[k + 1] - starts[k]
        top, _ = ranges(logs[begin : begin + size])
        to = 2 * cells if k > 0 else 0
        for i in range(size):
            room[to + i] = math.exp(logs[begin + i] - top) if plain else logs[begin + i] - top
        if k == 0:
            continue
        after = rows[k + 1] if k < n - 1 else rows[0]
        out = room[cells - here : cells - here + rows[0] * after]
        if plain:
            product(room[here:], room[to:], rows[0], rows[k], after, out)
            if careful:
                step = rescale(out, False)
                if step == 0.0 or not in_range(out):
                    return math.inf
                scale += math.log(step)
        else:
            step = multiply(room[here:], room[to:], rows[0], rows[k], after, False, out)
            if step == -math.inf:
                return step
            scale += step
        here = cells - here
    if plain:
        total = 0.0
        for a in range(rows[0]):
            total += room[here + a * (rows[0] + 1)]
        return scale + math.log(total) if total > 0.0 else -math.inf
    for a in range(rows[0]):
        room[2 * cells + a] = room[here + a * (rows[0] + 1)]
    return scale + log_sum(room[2 * cells : 2 * cells + rows[0]])


@kernel
def outer_terms(
    tables: RegionTables, pairs: Agreements, outer: OuterEntries, weight: Floats, potentials: Floats,
    multipliers: Floats, room: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Return the sum over outer regions, and the largest entries of their tables and their logs added up.

    Equivalent to the first sum of the module. Shapes: ``potentials (n_cells,)``; ``room`` as for ``refresh``, and the
    cells of an outer region. Cost: the cells of all outer regions, :math:`n K^3` for loops.
    """
    value, magnitude = 0.0, 0.0
    for r in range(outer.ptr.size - 1):
        q, end = tables.table_ptr[r], tables.table_ptr[r + 1]
        begin, size = tables.cell_ptr[q], tables.cell_ptr[end] - tables.cell_ptr[q]
        scale = 1.0 / weight[r]
        for k in range(size):
            room[k] = scale * potentials[begin + k]
        for e in range(outer.ptr[r], outer.ptr[r + 1]):
            entry = outer.entry[e]
            to, at, lam = pairs.table[entry], tables.map_ptr[pairs.map[entry]], pairs.start[entry]
            start = tables.cell_ptr[to] - begin
            for k in range(tables.cell_ptr[to + 1] - tables.cell_ptr[to]):
                room[start + k] += scale * multipliers[lam + tables.maps[at + k]]
        for p in range(q, end):
            most = 0.0
            for k in range(tables.cell_ptr[p] - begin, tables.cell_ptr[p + 1] - begin):
                if room[k] > -math.inf:
                    most = max(most, abs(room[k]))
            magnitude += weight[r] * most
        if tables.rows[q] > 0:
            log_z = loop_log_z(room[:size], tables.rows[q:end], tables.cell_ptr[q : end + 1], room[size:])
        else:
            log_z = log_sum(room[:size])
        value += weight[r] * log_z
        magnitude += weight[r] * abs(log_z)
    return value, magnitude


@kernel
def inner_terms(
    tables: RegionTables, pairs: Agreements, weight: Floats, target: Floats, multipliers: Floats, room: Floats
) -> tuple[float, float]:
    """Return the sum over inner regions, and its terms and the largest sums of their multipliers added up.

    Equivalent to the second sum of the module. Cost: the number of all multipliers.
    """
    value, magnitude = 0.0, 0.0
    for i in range(pairs.inner.size):
        q, c = tables.table_ptr[pairs.inner[i]], weight[pairs.inner[i]]
        begin, size = tables.cell_ptr[q], tables.cell_ptr[q + 1] - tables.cell_ptr[q]
        for y in range(size):
            room[y] = 0.0
        for entry in range(pairs.ptr[i], pairs.ptr[i + 1]):
            for y in range(size):
                room[y] += multipliers[pairs.start[entry] + y]
        top, most = -math.inf, 0.0
        for y in range(size):
            most = max(most, abs(room[y]))
            room[y] = target[begin + y] - room[y]
            top = max(top, room[y])
        found = top
        if c > 0.0:
            for y in range(size):
                room[y] = (room[y] - top) / c
            found += c * log_sum(room[:size])
        value += found
        magnitude += most + abs(found)
    return value, magnitude
