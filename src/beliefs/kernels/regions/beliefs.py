r"""The beliefs of a region from its log tables: a softmax, or around a loop by products of matrices.

A loop with tables :math:`A_k` (rows: states of its k-th variable, columns: of the next) has

.. math:: Z = \operatorname{tr} \prod_k e^{A_k}, \qquad
   p_k(a, b) = e^{A_k(a, b)} \Big(\prod_{l > k} e^{A_l} \prod_{l < k} e^{A_l}\Big)(b, a) \Big/ Z,

for all k from products of the first and of the last tables. They are taken of plain numbers, each scaled to a largest
entry of 1, while the ranges of all tables together are too small to underflow, or else those of each table and each
product, which is then looked at; beyond, of logs.
"""

from __future__ import annotations

import math

from beliefs.kernels._jit import kernel
from beliefs.kernels.regions.structure import RegionTables
from beliefs.typing import Floats, Ints

__all__ = ["in_range", "loop_beliefs", "refresh", "refresh_all"]

_SAFE = 600.0  # nats: a product of plain numbers that begins at 1 and falls by so much is still a normal number


@kernel
def log_sum(logs: Floats) -> float:
    """Return the log of the sum of exponentials; ``-inf`` of nothing but ``-inf``."""
    top = -math.inf
    for k in range(logs.size):
        top = max(top, logs[k])
    if top == -math.inf:
        return top
    total = 0.0
    for k in range(logs.size):
        total += math.exp(logs[k] - top)
    return top + math.log(total)


@kernel
def ranges(logs: Floats) -> tuple[float, float]:
    """Return the largest entry and the difference to the least finite one."""
    top, low = -math.inf, math.inf
    for k in range(logs.size):
        top = max(top, logs[k])
        if logs[k] > -math.inf:
            low = min(low, logs[k])
    return top, top - low if top > -math.inf else 0.0


@kernel
def multiply(one: Floats, other: Floats, n: int, m: int, k: int, plain: bool, out: Floats) -> float:
    """Write the product ``(n, m) @ (m, k)`` with largest entry 1 (as a log: 0); return the log of its scale.

    In logs, ``@`` is the log of the sum of exponentials of sums; ``one`` and ``other`` are then logs too.
    """
    top = 0.0 if plain else -math.inf
    for i in range(n):
        for j in range(k):
            if plain:
                total = 0.0
                for mid in range(m):
                    total += one[i * m + mid] * other[mid * k + j]
            else:
                best = -math.inf
                for mid in range(m):
                    best = max(best, one[i * m + mid] + other[mid * k + j])
                total = best
                if best > -math.inf:
                    rest = 0.0
                    for mid in range(m):
                        rest += math.exp(one[i * m + mid] + other[mid * k + j] - best)
                    total = best + math.log(rest)
            out[i * k + j] = total
            top = max(top, total)
    if (plain and top == 0.0) or top == -math.inf:
        return -math.inf
    for i in range(n * k):
        out[i] = out[i] / top if plain else out[i] - top
    return math.log(top) if plain else top


@kernel
def loop_beliefs(logs: Floats, rows: Ints, starts: Ints, room: Floats, out: Floats) -> float:
    """Write the log marginals of a loop's edges and return log Z; ``-inf``, and nothing written, where Z = 0.

    Equivalent to the formulas of the module.
    Shapes: ``rows (n,)`` the cardinalities, ``starts (n + 1,)`` where each table begins in ``logs`` and ``out``;
    ``room`` has at least ``(3 n + 3) K^2`` numbers for the largest cardinality K.
    Cost: about :math:`3 n K^3`.
    Numerics: ``-inf`` is an exact zero; nothing underflows that is not one.
    """
    total, widest = 0.0, 0.0
    for k in range(rows.size):
        top, span = ranges(logs[starts[k] : starts[k + 1]])
        if top == -math.inf:
            return top
        total, widest = total + span, max(widest, span)
    safe = total < _SAFE
    log_z = around_loop(logs, rows, starts, safe or widest < 0.5 * _SAFE, not safe, room, out)
    if log_z == math.inf:
        log_z = around_loop(logs, rows, starts, False, False, room, out)
    return log_z


@kernel
def in_range(values: Floats) -> bool:
    """Return whether all entries that are not 0 are so large that products of two do not underflow."""
    low = math.inf
    for k in range(values.size):
        low = min(low, values[k] if values[k] > 0.0 else math.inf)
    return low > math.exp(-0.5 * _SAFE)


@kernel
def around_loop(logs: Floats, rows: Ints, starts: Ints, plain: bool, careful: bool, room: Floats, out: Floats) -> float:
    """As :func:`loop_beliefs`, in plain numbers or not; if ``careful``, inf where plain products leave their range."""
    n, width, scale = rows.size, 1, 0.0
    for k in range(n):
        width = max(width, rows[k])
        scale += ranges(logs[starts[k] : starts[k + 1]])[0]
    cells = width * width
    first, last, here, rest = 0, (n + 1) * cells, (2 * n + 2) * cells, (3 * n + 2) * cells
    for k in range(n):  # the tables, their largest entry 1
        top, _ = ranges(logs[starts[k] : starts[k + 1]])
        for i in range(starts[k + 1] - starts[k]):
            shifted = logs[starts[k] + i] - top
            room[here + k * cells + i] = math.exp(shifted) if plain else shifted
    zero, one = (0.0, 1.0) if plain else (-math.inf, 0.0)
    for i in range(rows[0] * rows[0]):
        diagonal = i % (rows[0] + 1) == 0
        room[first + i] = room[last + n * cells + i] = one if diagonal else zero
    # room[first + k cells]: the product of tables before k; room[last + (k + 1) cells]: of those after k
    log_first, log_last = 0.0, 0.0
    for k in range(n - 1):
        step = multiply(
            room[first + k * cells :], room[here + k * cells :], rows[0], rows[k], rows[k + 1], plain,
            room[first + (k + 1) * cells :],
        )  # fmt: skip
        if step == -math.inf:
            return step
        begin = first + (k + 1) * cells
        if careful and not in_range(room[begin : begin + rows[0] * rows[k + 1]]):
            return math.inf
        log_first += step
    for k in range(n - 1, 0, -1):
        step = multiply(
            room[here + k * cells :], room[last + (k + 1) * cells :], rows[k], rows[(k + 1) % n], rows[0], plain,
            room[last + k * cells :],
        )  # fmt: skip
        if step == -math.inf:
            return step
        begin = last + k * cells
        if careful and not in_range(room[begin : begin + rows[k] * rows[0]]):
            return math.inf
        log_last += step
    log_z = -math.inf
    for k in range(n):
        after = rows[(k + 1) % n]
        step = multiply(
            room[last + (k + 1) * cells :], room[first + k * cells :], after, rows[0], rows[k], plain, room[rest:]
        )
        if step == -math.inf:
            return step
        begin, total = starts[k], 0.0
        for a in range(rows[k]):
            for b in range(after):
                around = room[rest + b * rows[k] + a]
                if plain:
                    total += room[here + k * cells + a * after + b] * around
                    around = math.log(around) if around > 0.0 else -math.inf
                out[begin + a * after + b] = logs[begin + a * after + b] + around
        if plain:  # the table's entries are plain numbers already
            top, _ = ranges(logs[begin : starts[k + 1]])
            norm = top + math.log(total) if total > 0.0 else -math.inf
        else:
            norm = log_sum(out[begin : starts[k + 1]])
        if norm == -math.inf:
            return norm
        for i in range(begin, starts[k + 1]):
            out[i] -= norm
        if k == n - 1:  # no table after it: its product is the first ones' alone
            top, _ = ranges(logs[begin : starts[k + 1]])
            log_z = norm - top + step + log_first + scale
    return log_z


@kernel
def refresh(tables: RegionTables, r: int, maximise: bool, room: Floats, logs: Floats, out: Floats) -> float:
    """Write the log beliefs of a region and return log Z, or the maximum; ``-inf`` where nothing is possible.

    Shapes: ``logs`` and ``out (n_cells,)``. Beliefs of a maximisation have a largest entry of 0.
    """
    q = tables.table_ptr[r]
    if tables.rows[q] > 0:
        end = tables.table_ptr[r + 1]
        return loop_beliefs(logs, tables.rows[q:end], tables.cell_ptr[q : end + 1], room, out)
    begin, end = tables.cell_ptr[q], tables.cell_ptr[q + 1]
    if maximise:
        norm, _ = ranges(logs[begin:end])
    else:
        norm = log_sum(logs[begin:end])
    if norm == -math.inf:
        return norm
    for k in range(begin, end):
        out[k] = logs[k] - norm
    return norm


@kernel
def refresh_all(
    tables: RegionTables, changed: Ints, maximise: bool, room: Floats, logs: Floats, out: Floats, log_norm: Floats
) -> bool:
    """Bring the beliefs of all changed regions up to date; return whether all of them are possible.

    Equivalent to ``refresh`` of every region, with ``log_norm (n_regions,)`` its results.
    """
    for r in range(changed.size):
        if changed[r] == 1:
            log_norm[r] = refresh(tables, r, maximise, room, logs, out)
            if log_norm[r] == -math.inf:
                return False
            changed[r] = 0
    return True
