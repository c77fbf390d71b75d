r"""Messages from parents to children on plain numbers: :mod:`beliefs.kernels.regions.parent_to_child` without logs.

Tables are :math:`e^{T_\gamma}`, each scaled so that they sum to 1 (those of a maximisation to a largest entry of 1,
those of a loop only where that is far away); ``growth[r]`` times :math:`e^{\mathrm{offset}[r]}` was taken out of
region r. A message is then a quotient and its damping a power, for the usual half a square root: no transcendental
function is left.

As long as every entry that is not 0 is at least :data:`LEAST` after scaling, products of two are normal numbers, so
that 0 means impossible; and regions are scaled anew before messages together could do more. Where an entry is smaller,
work stops at that message, and goes on in logs.
"""

from __future__ import annotations

import math

from beliefs.kernels._jit import kernel
from beliefs.kernels.regions.structure import Messages, PlainTables, RegionTables
from beliefs.typing import Floats, Ints

__all__ = ["LEAST", "plain_loop", "propagate_plain"]

LEAST = 1e-140  # the square of it is a normal number
_GROWN = 1e100


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
    """Write the product ``(n, m) @ (m, k)``."""
    for i in range(n):
        for j in range(k):
            out[i * k + j] = one[i * m] * other[j]
        for mid in range(1, m):
            x = one[i * m + mid]
            for j in range(k):
                out[i * k + j] += x * other[mid * k + j]


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
def plain_loop(tables: RegionTables, r: int, room: Floats, plain: PlainTables) -> bool:
    """Write the marginals of a loop's edges; False where logs are needed.

    Equivalent to ``exp`` of :func:`beliefs.kernels.regions.beliefs.loop_beliefs` of the logs.
    Shapes: as there. Cost: about :math:`3 (n - 2) K^3`.
    Numerics: as the module says. Tables, and products, are scaled where entries do not multiply safely as they are.
    """
    q, end = tables.table_ptr[r], tables.table_ptr[r + 1]
    rows, starts, lin, out = tables.rows[q:end], tables.cell_ptr[q : end + 1], plain.lin, plain.beliefs
    n = rows.size
    width, least, most = 1, 1.0, 1.0
    for k in range(n):
        width = max(width, rows[k])
        low, top = spans(lin[starts[k] : starts[k + 1]])
        if not 1e-20 < top < 1e20:
            scale = rescale(lin[starts[k] : starts[k + 1]], False)
            if scale == 0.0:
                return False
            take(plain, r, scale)
            low, top = low / top, 1.0
        least *= low
        most *= top * rows[k]
    safe = least > 1e-70 * most and 1e-70 < least and most < 1e70
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
    """Scale the tables of a region and write its beliefs; False where logs are needed."""
    plain.spread[r] = 1.0
    q = tables.table_ptr[r]
    if tables.rows[q] > 0:
        return bool(plain_loop(tables, r, room, plain))
    begin, end = tables.cell_ptr[q], tables.cell_ptr[q + 1]
    scale = rescale(plain.lin[begin:end], not maximise)
    if scale == 0.0:
        return False
    take(plain, r, scale)
    for k in range(begin, end):
        plain.beliefs[k] = plain.lin[k]
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
        first, wide = tables.cell_ptr[source], tables.cell_ptr[source + 1] - tables.cell_ptr[source]
        at = tables.map_ptr[edges.source_map[e]]
        message = room[room.size - size :]  # a loop's products end before it
        for y in range(size):
            message[y] = 0.0
        for k in range(wide):
            y = tables.maps[at + k]
            x = plain.beliefs[first + k]
            message[y] = max(message[y], x) if maximise else message[y] + x
        own = plain.beliefs[begin : begin + size]
        for y in range(size):
            worst = max(worst, abs(message[y] - own[y]))
        quotients(own, share, message)
        top, low = 1.0, 1.0
        for y in range(size):
            top, low = max(top, message[y]), min(low, message[y])
        most = max(top, 1.0 / low)
        for t in range(edges.target_ptr[e], edges.target_ptr[e + 1]):  # all have room, or nothing is sent
            r = edges.around_region[edges.target[t]]
            if plain.spread[r] * most * LEAST > 1.0 and not refresh_plain(tables, r, maximise, room, plain):
                return worst, step
        for t in range(edges.target_ptr[e], edges.target_ptr[e + 1]):
            entry = edges.target[t]
            to = edges.around_table[entry]
            start, cells = tables.cell_ptr[to], tables.cell_ptr[to + 1] - tables.cell_ptr[to]
            at, r = tables.map_ptr[edges.around_map[entry]], edges.around_region[entry]
            plain.spread[r] *= most
            multiply_by(message, tables.maps[at : at + cells], plain.lin[start : start + cells])
            changed[r] = 1
    return worst, order.size
