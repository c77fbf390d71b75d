r"""Messages from parents to children on plain numbers: :mod:`beliefs.kernels.regions.parent_to_child` without logs.

Tables are :math:`e^{T_\gamma}`, each scaled to a largest entry of 1 now and then; ``growth[r]`` times
:math:`e^{\mathrm{offset}[r]}` was taken out of region r. A message is then a quotient and its damping a power, for the
usual half a square root: no transcendental function is left.

As long as every entry that is not 0 is at least :data:`LEAST` after scaling, products of two are normal numbers, so
that 0 means impossible; and regions are scaled anew before messages together could do more. Bounds on the products of
tables of a loop say whether these multiply safely as they are. Where an entry is smaller, work stops at that message,
and goes on in logs.
"""

from __future__ import annotations

import math

from beliefs.kernels._jit import kernel
from beliefs.kernels.regions.structure import Messages, PlainTables, RegionTables
from beliefs.typing import Floats, Ints

__all__ = ["LEAST", "plain_loop", "propagate_plain"]

LEAST = 1e-140  # the square of it is a normal number
_GROWN = 1e100
_USUAL, _WIDE = 1e30, 1e100  # changes by a message, and by messages since a region was scaled
_SAFE = 1e-70  # products of a region's tables, whatever messages have done since they were scaled


@kernel
def rescale(values: Floats, by_sum: bool) -> float:
    """Divide by the sum, or by the largest entry, and return it; 0, and nothing done, where an entry is too small."""
    total, top, low = 0.0, 0.0, math.inf
    for k in range(values.size):
        x = values[k]
        total += x
        top = max(top, x)
        if x > 0.0:
            low = min(low, x)
    scale = total if by_sum else top
    if not (0.0 < scale < math.inf) or low < LEAST * scale:
        return 0.0
    inverse = 1.0 / scale
    for k in range(values.size):
        values[k] *= inverse
    return scale


@kernel
def product(one: Floats, other: Floats, n: int, m: int, k: int, out: Floats) -> None:
    """Write the product ``(n, m) @ (m, k)``; four columns at a time, so that their sums stay in registers."""
    for i in range(n):
        row = one[i * m : (i + 1) * m]
        for j in range(0, k - 3, 4):
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            for mid in range(m):
                x, four = row[mid], other[mid * k + j : mid * k + j + 4]  # slices, as indices might be negative
                a += x * four[0]
                b += x * four[1]
                c += x * four[2]
                d += x * four[3]
            to = out[i * k + j : i * k + j + 4]
            to[0], to[1], to[2], to[3] = a, b, c, d
        for j in range(k - k % 4, k):
            total = 0.0
            for mid in range(m):
                total += row[mid] * other[mid * k + j]
            out[i * k + j] = total


@kernel
def take(plain: PlainTables, r: int, scale: float) -> None:
    """Note what was taken out of a region."""
    plain.growth[r] *= scale
    if not (1.0 / _GROWN < plain.growth[r] < _GROWN):
        plain.offset[r] += math.log(plain.growth[r])
        plain.growth[r] = 1.0


@kernel
def spans(values: Floats) -> tuple[float, float]:
    """Return the least entry that is not 0 and the largest one; inf and 0 where there is none."""
    top, low = 0.0, math.inf
    for k in range(values.size):
        x = values[k]
        top = max(top, x)
        low = min(low, x if x > 0.0 else math.inf)
    return low, top


@kernel
def scale_tables(tables: RegionTables, r: int, plain: PlainTables) -> bool:
    """Scale the tables of a region to a largest entry of 1 and bound their products; False where logs are needed."""
    plain.spread[r], plain.least[r] = 1.0, 1.0
    for q in range(tables.table_ptr[r], tables.table_ptr[r + 1]):
        table = plain.lin[tables.cell_ptr[q] : tables.cell_ptr[q + 1]]
        scale = rescale(table, False)
        if scale == 0.0:
            return False
        take(plain, r, scale)
        low, _ = spans(table)
        plain.least[r] *= low / max(tables.rows[q], 1)
    return True


@kernel
def binary_loop(starts: Ints, lin: Floats, room: Floats, out: Floats) -> None:
    """Write the marginals of the edges of a loop of binary variables, where products are safe.

    Equivalent to :func:`plain_loop`, written out.
    """
    n, at = starts.size - 1, starts[0]
    a, b, c, d = lin[at], lin[at + 1], lin[at + 2], lin[at + 3]
    for k in range(1, n):  # room[4 k]: the product of tables before k
        room[4 * k], room[4 * k + 1], room[4 * k + 2], room[4 * k + 3] = a, b, c, d
        at = starts[k]
        if k < n - 1:
            a, b = a * lin[at] + b * lin[at + 2], a * lin[at + 1] + b * lin[at + 3]
            c, d = c * lin[at] + d * lin[at + 2], c * lin[at + 1] + d * lin[at + 3]
    inverse = 1.0 / (lin[at] * a + lin[at + 1] * c + lin[at + 2] * b + lin[at + 3] * d)
    out[at], out[at + 1] = lin[at] * a * inverse, lin[at + 1] * c * inverse
    out[at + 2], out[at + 3] = lin[at + 2] * b * inverse, lin[at + 3] * d * inverse
    a, b, c, d = inverse * lin[at], inverse * lin[at + 1], inverse * lin[at + 2], inverse * lin[at + 3]
    for k in range(n - 2, 0, -1):  # a, b, c, d: the product of tables after k
        e, f, g, h = room[4 * k], room[4 * k + 1], room[4 * k + 2], room[4 * k + 3]
        at = starts[k]
        w, x, y, z = lin[at], lin[at + 1], lin[at + 2], lin[at + 3]
        out[at], out[at + 1] = w * (a * e + b * g), x * (c * e + d * g)
        out[at + 2], out[at + 3] = y * (a * f + b * h), z * (c * f + d * h)
        a, b, c, d = w * a + x * c, w * b + x * d, y * a + z * c, y * b + z * d
    at = starts[0]
    out[at], out[at + 1] = lin[at] * a, lin[at + 1] * c
    out[at + 2], out[at + 3] = lin[at + 2] * b, lin[at + 3] * d


@kernel
def plain_loop(tables: RegionTables, r: int, room: Floats, plain: PlainTables) -> bool:
    """Write the marginals of a loop's edges; False where logs are needed.

    Equivalent to ``exp`` of :func:`beliefs.kernels.regions.beliefs.loop_beliefs` of the logs.
    Shapes: as there. Cost: about :math:`3 (n - 2) K^3`.
    Numerics: as the module says. Products are scaled where they are not safe as they are.
    """
    q, end = tables.table_ptr[r], tables.table_ptr[r + 1]
    rows, starts, lin, out = tables.rows[q:end], tables.cell_ptr[q : end + 1], plain.lin, plain.beliefs
    n, width, binary = rows.size, 1, True
    for k in range(n):
        width = max(width, rows[k])
        binary = binary and rows[k] == 2
    safe = plain.least[r] > _SAFE * plain.spread[r]
    if binary and safe:
        binary_loop(starts, lin, room, out)
        return True
    cells = width * width
    last = n * cells
    # room[k cells]: the product of tables before k > 0; room[last + k cells]: of tables from k > 0 on
    for i in range(starts[1] - starts[0]):
        room[cells + i] = lin[starts[0] + i]
    for i in range(starts[n] - starts[n - 1]):
        room[last + (n - 1) * cells + i] = lin[starts[n - 1] + i]
    for k in range(1, n - 1):
        to = room[(k + 1) * cells : (k + 1) * cells + rows[0] * rows[k + 1]]
        product(room[k * cells :], lin[starts[k] :], rows[0], rows[k], rows[k + 1], to)
        if not safe and rescale(to, False) == 0.0:
            return False
    for k in range(n - 2, 0, -1):
        to = room[last + k * cells : last + k * cells + rows[k] * rows[0]]
        product(lin[starts[k] :], room[last + (k + 1) * cells :], rows[k], rows[k + 1], rows[0], to)
        if not safe and rescale(to, False) == 0.0:
            return False
    inverse = 1.0
    if safe:  # all edges have one normaliser then
        total = 0.0
        for a in range(rows[0]):
            for b in range(rows[1]):
                total += lin[starts[0] + a * rows[1] + b] * room[last + cells + b * rows[0] + a]
        inverse = 1.0 / total
    for k in range(n):
        after = rows[k + 1] if k < n - 1 else rows[0]
        rest = room[2 * n * cells : 2 * n * cells + after * rows[k]]
        if k == 0:
            rest = room[last + cells : last + cells + after * rows[k]]
        elif k == n - 1:
            rest = room[(n - 1) * cells : (n - 1) * cells + after * rows[k]]
        else:
            product(room[last + (k + 1) * cells :], room[k * cells :], after, rows[0], rows[k], rest)
        begin = starts[k]
        for a in range(rows[k]):
            for b in range(after):
                out[begin + a * after + b] = lin[begin + a * after + b] * rest[b * rows[k] + a] * inverse
        if not safe and rescale(out[begin : starts[k + 1]], True) == 0.0:
            return False
    return True


@kernel
def refresh_plain(tables: RegionTables, r: int, maximise: bool, room: Floats, plain: PlainTables) -> bool:
    """Write the beliefs of a region, and scale its tables where that is due; False where logs are needed."""
    if not plain.least[r] > _SAFE * plain.spread[r] and not scale_tables(tables, r, plain):
        return False
    q = tables.table_ptr[r]
    if tables.rows[q] > 0:
        return bool(plain_loop(tables, r, room, plain))
    begin, end = tables.cell_ptr[q], tables.cell_ptr[q + 1]
    total = 0.0
    if maximise:
        for k in range(begin, end):
            total = max(total, plain.lin[k])
    else:
        for k in range(begin, end):
            total += plain.lin[k]
    if not 0.0 < total < math.inf:
        return False
    inverse = 1.0 / total
    for k in range(begin, end):
        plain.beliefs[k] = inverse * plain.lin[k]
    return True


@kernel
def quotients(own: Floats, share: float, message: Floats) -> None:
    """Divide by the child's beliefs and damp; what is impossible in both has the quotient 1.

    Equivalent to ``message[:] = np.where(own > 0, message / own, 1) ** share``.
    """
    for y in range(own.size):
        message[y] = message[y] / own[y] if own[y] > 0.0 and message[y] > 0.0 else 1.0
    if share == 0.5:
        for y in range(own.size):
            message[y] = math.sqrt(message[y])
    elif share != 1.0:
        for y in range(own.size):
            message[y] = message[y] ** share


@kernel
def multiply_by(message: Floats, cells: Ints, table: Floats) -> None:
    """Multiply a table by a message on some of its variables.

    Equivalent to ``table *= message[cells]``; two binary variables are written out, as they are most tables.
    """
    if table.size == 4:
        table[0] *= message[cells[0]]
        table[1] *= message[cells[1]]
        table[2] *= message[cells[2]]
        table[3] *= message[cells[3]]
    else:
        for k in range(table.size):
            table[k] *= message[cells[k]]


@kernel
def project_plain(tables: RegionTables, m: int, maximise: bool, wide: Floats, out: Floats) -> None:
    """Write the marginal, or the max-marginal, of a table on the narrow cells of map ``m``.

    Equivalent to ``np.add.at(out, map, wide)`` on an ``out`` of zeros, or ``np.maximum.at``.
    """
    at, stride, n = tables.map_ptr[m], tables.stride[m], out.size
    for y in range(n):
        out[y] = 0.0
    if maximise:
        for k in range(wide.size):
            y = tables.maps[at + k]
            out[y] = max(out[y], wide[k])
    elif wide.size <= 4 or stride == 0:
        for k in range(wide.size):
            out[tables.maps[at + k]] += wide[k]
    elif stride == 1:
        for begin in range(0, wide.size, n):
            for y in range(n):
                out[y] += wide[begin + y]
    else:
        for begin in range(0, wide.size, n * stride):
            for y in range(n):
                total = out[y]
                for k in range(begin + y * stride, begin + (y + 1) * stride):
                    total += wide[k]
                out[y] = total


@kernel
def propagate_plain(
    tables: RegionTables, edges: Messages, order: Ints, changed: Ints, share: float, maximise: bool, room: Floats,
    plain: PlainTables,
) -> tuple[float, int]:  # fmt: skip
    """Send messages in the given order; return the largest difference of a belief, and how many were sent.

    Equivalent to ``propagate`` of the logs, as long as nothing is too small.
    Shapes: as there, with ``plain`` in the place of logs, beliefs and normalisers.
    Cost: cells of parents, and of all regions that a message goes to.
    Numerics: as the module says. Fewer messages than asked for were sent where the next one needs logs.
    """
    worst = 0.0
    for step in range(order.size):
        e = order[step]
        parent, child = edges.parent[e], edges.child[e]
        if changed[parent] == 1:
            if not refresh_plain(tables, parent, maximise, room, plain):
                return worst, step
            changed[parent] = 0
        if changed[child] == 1:
            if not refresh_plain(tables, child, maximise, room, plain):
                return worst, step
            changed[child] = 0
        q, source = tables.table_ptr[child], edges.source[e]
        begin, size = tables.cell_ptr[q], tables.cell_ptr[q + 1] - tables.cell_ptr[q]
        message = room[room.size - size :]  # a loop's products end before it
        wide = plain.beliefs[tables.cell_ptr[source] : tables.cell_ptr[source + 1]]
        project_plain(tables, edges.source_map[e], maximise, wide, message)
        own = plain.beliefs[begin : begin + size]
        for y in range(size):
            worst = max(worst, abs(message[y] - own[y]))
        quotients(own, share, message)
        top, low = 1.0, 1.0
        for y in range(size):
            top, low = max(top, message[y]), min(low, message[y])
        most = max(top, 1.0 / low)
        if most > _USUAL:
            for t in range(edges.target_ptr[e], edges.target_ptr[e + 1]):  # all have room, or nothing is sent
                r = edges.around_region[edges.target[t]]
                if plain.spread[r] * most * LEAST > 1.0 and not scale_tables(tables, r, plain):
                    return worst, step
        widest = 0.0
        for t in range(edges.target_ptr[e], edges.target_ptr[e + 1]):
            entry = edges.target[t]
            to, r = edges.around_table[entry], edges.around_region[entry]
            start, cells = tables.cell_ptr[to], tables.cell_ptr[to + 1] - tables.cell_ptr[to]
            at = tables.map_ptr[edges.around_map[entry]]
            spread = plain.spread[r] * most
            widest = max(widest, spread)
            plain.spread[r] = spread
            multiply_by(message, tables.maps[at : at + cells], plain.lin[start : start + cells])
            changed[r] = 1
        if widest > _WIDE:
            for t in range(edges.target_ptr[e], edges.target_ptr[e + 1]):
                r = edges.around_region[edges.target[t]]
                if plain.spread[r] > _WIDE and not scale_tables(tables, r, plain):
                    return worst, step + 1
    return worst, order.size
