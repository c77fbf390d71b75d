"""One sweep over cluster trees for many rows at a time: rows are the fastest axis of every table."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.typing import Floats, Ints

__all__ = ["LANES", "Programs", "SweepScratch", "Tables", "Work", "sweep_rows"]

LANES = 16  # rows that go through a tree together
_TINY, _LOST = 1e-280, 1e-300  # products that may be below the first may lose up to the second each
_TRUSTED = 1e-17  # share of a sum that may be lost; rows that may lose more are asked of slower arithmetic


class Programs(NamedTuple):
    """Cluster trees of groups of variables, one after the other; see :mod:`beliefs.inference.rows.group_plan`."""

    cluster_ptr: Ints  # (n_groups+1,) clusters of each group, children first
    factor_ptr: Ints  # (n_groups+1,) factors of each group
    factor_start: Ints  # (n_local,) where the factor's table begins
    factor_step: Ints  # (n_local,) by how much it moves from one row to the next: 0, or the cells of a row's own tables
    n_states: Ints  # (n_local,) of the one variable of soft evidence, 0 for other factors
    scope_ptr: Ints  # (n_local+1,) the variables of the factor's scope ...
    scope_vars: Ints
    scope_stride: Ints  # ... and the cells between two of their states
    n_cells: Ints  # (n_clusters,)
    cell_ptr: Ints  # (n_clusters,) where the cluster's table begins among those of its group
    n_columns: Ints  # (n_clusters,) cells of the message
    column_ptr: Ints  # (n_clusters,) where it begins among those of the group
    column_map: Ints  # (n_clusters,) where in ``maps`` the cell of the message that each cell adds to is said
    op_ptr: Ints  # (n_clusters+1,) operands of each cluster
    op_source: Ints  # (n_ops,) the number of a factor of the group, or -1 - c for the message of cluster c of it
    op_map: Ints  # (n_ops,) where in ``maps`` the cell of the operand that each cell reads is said
    maps: Any  # uint32


class Tables(NamedTuple):
    """Numbers of all factors, at most 1: ``shared (n_cells,)`` by the rows, and ``own`` of each row, row by row.

    Places count on: those of at least ``n_cells`` are among a row's own.
    """

    shared: Floats
    own: Floats


class Work(NamedTuple):
    """Rows to be swept: ``group (n_entries,)`` rising, ``row (n_entries,)``, and their weights.

    ``low (n_local,)`` has the least positive entry of each factor's table, 1 for soft evidence.
    """

    group: Ints
    row: Ints
    weight: Floats
    low: Floats


class SweepScratch(NamedTuple):
    """Room of one thread, each for LANES rows: factors' places, clusters' tables, messages, beliefs, ...

    ... the inverse sums of clusters, the least positive entries of their messages and what these may have lost, and one
    variable's soft evidence or posterior.
    """

    place: Ints
    tables: Floats
    messages: Floats
    beliefs: Floats
    totals: Floats
    lows: Floats
    lost: Floats
    local: Floats


@kernel
def sweep_rows(
    programs: Programs, work: Work, codes: Any, missing: int, values: Tables, begin: int, stop: int,
    scratch: SweepScratch, log_z: Floats, out: Tables,
) -> None:  # fmt: skip
    """Sum out the missing variables of entries ``begin:stop``, and add posteriors of cells to ``out``.

    Equivalent to, entry by entry, ``log_z[e] = log(sum of prod values[cells])`` over the states of the group's
    variables given the row's codes, and ``out[cells] += weight * posterior``. Entries whose products might have
    underflowed get ``-inf`` and add nothing.
    Shapes: ``values`` and ``out`` alike, or parts of ``out`` empty, which are then not asked for; no two entries share
    cells of a row's own.
    Cost: two passes over the clusters' cells an entry, one where ``out`` is empty. Numerics: messages sum to one, their
    logs are added up. Where the product of its operands' least positive entries is tiny, a cluster may lose cells to
    underflow; what may be lost of a message, per its sum, is carried along, since a state that lost most may be all
    that is left later.
    """
    while begin < stop:
        g, end = work.group[begin], begin + 1
        while end < stop and end - begin < LANES and work.group[end] == g:
            end += 1
        first, last = programs.cluster_ptr[g], programs.cluster_ptr[g + 1]
        find_places(programs, work, codes, missing, begin, end, scratch.place)
        for b in range(end - begin):
            log_z[begin + b] = 0.0
        for c in range(first, last):
            collect(programs, c, g, work.low, values, scratch)
            normalise(programs, c, c - first, end - begin, scratch, log_z[begin:end])
        if out.shared.size or out.own.size:
            for k in range((programs.column_ptr[last - 1] + programs.n_columns[last - 1]) * LANES):
                scratch.beliefs[k] = 0.0
            for c in range(last - 1, first - 1, -1):
                posterior(programs, c, c - first, work.weight[begin:end], scratch)
                distribute(programs, c, g, values.shared.size, scratch, out)
        begin = end


@kernel
def find_places(programs: Programs, work: Work, codes: Any, missing: int, begin: int, end: int, place: Ints) -> None:
    """Write where each factor's slice begins for each row; lanes without a row repeat the last."""
    g = work.group[begin]
    for k in range(programs.factor_ptr[g], programs.factor_ptr[g + 1]):
        at = (k - programs.factor_ptr[g]) * LANES
        for b in range(LANES):
            row = work.row[min(begin + b, end - 1)]
            place[at + b] = programs.factor_start[k] + programs.factor_step[k] * row
        for e in range(programs.scope_ptr[k], programs.scope_ptr[k + 1]):
            column = codes[programs.scope_vars[e]]
            for b in range(LANES):
                code = column[work.row[min(begin + b, end - 1)]]
                if code != missing:
                    place[at + b] += programs.scope_stride[e] * code


@kernel
def collect(programs: Programs, c: int, g: int, low: Floats, values: Tables, scratch: SweepScratch) -> None:
    """Write the product of a cluster's operands, its sums as the message, and a bound of its positive cells.

    What its children's messages may have lost is added up.
    """
    n_cells, start, first = programs.n_cells[c], programs.cell_ptr[c] * LANES, programs.cluster_ptr[g]
    table = scratch.tables[start : start + n_cells * LANES]
    own = slice((c - first) * LANES, (c - first + 1) * LANES)
    lows, lost, fresh = scratch.lows[own], scratch.lost[own], True
    for b in range(LANES):
        lows[b], lost[b] = 1.0, 0.0
    for op in range(programs.op_ptr[c], programs.op_ptr[c + 1]):
        source, where = programs.op_source[op], programs.maps[programs.op_map[op] : programs.op_map[op] + n_cells]
        if source < 0:
            child = first - 1 - source
            message = scratch.messages[programs.column_ptr[child] * LANES :]
            for b in range(LANES):
                lows[b] *= scratch.lows[(child - first) * LANES + b]
                lost[b] += scratch.lost[(child - first) * LANES + b]
            multiply(message, where, fresh, table)
            fresh = False
            continue
        k = programs.factor_ptr[g] + source
        place = scratch.place[source * LANES : (source + 1) * LANES]
        start = 0 if programs.factor_step[k] == 0 else values.shared.size
        if programs.n_states[k]:
            local = scratch.local[: programs.n_states[k] * LANES]
            if gather_soft(values.own, start, place, local, lows):
                multiply(local, where, fresh, table)
                fresh = False
            continue
        operand, alike = values.own if start else values.shared, True
        for b in range(LANES):
            lows[b] *= low[k]
            alike = alike and place[b] == place[0]
        if alike:
            for i in range(n_cells):
                value = operand[place[0] - start + where[i]]
                for b in range(LANES):
                    table[i * LANES + b] = value if fresh else table[i * LANES + b] * value
        else:
            for i in range(n_cells):
                for b in range(LANES):
                    value = operand[place[b] - start + where[i]]
                    table[i * LANES + b] = value if fresh else table[i * LANES + b] * value
        fresh = False
    if fresh:
        for i in range(table.size):
            table[i] = 1.0
    column = programs.column_ptr[c] * LANES
    message = scratch.messages[column : column + programs.n_columns[c] * LANES]
    to = programs.maps[programs.column_map[c] : programs.column_map[c] + n_cells]
    for i in range(message.size):
        message[i] = 0.0
    for i in range(n_cells):
        for b in range(LANES):
            message[to[i] * LANES + b] += table[i * LANES + b]


@kernel
def multiply(operand: Floats, where: Any, fresh: bool, table: Floats) -> None:
    """Multiply a table by an operand of LANES rows, or write it where nothing has been written yet."""
    if fresh:
        for i in range(where.size):
            for b in range(LANES):
                table[i * LANES + b] = operand[where[i] * LANES + b]
    else:
        for i in range(where.size):
            for b in range(LANES):
                table[i * LANES + b] *= operand[where[i] * LANES + b]


@kernel
def gather_soft(soft: Floats, start: int, place: Ints, local: Floats, lows: Floats) -> bool:
    """Bring a variable's soft evidence of LANES rows together; return whether any of it is not one."""
    some = False
    for b in range(LANES):
        for x in range(local.size // LANES):
            value = soft[place[b] - start + x]
            local[x * LANES + b] = value
            some = some or value != 1.0
            lows[b] *= value if 0.0 < value < 1.0 else 1.0  # below the least positive one, and as quick
    return some


@kernel
def normalise(programs: Programs, c: int, number: int, n_rows: int, scratch: SweepScratch, log_z: Floats) -> None:
    """Divide a message by its sum; the sum's log goes to ``log_z``, ``-inf`` where it cannot be trusted.

    The bound of the cluster's positive cells gives way to the least positive entry of the message.
    """
    column = programs.column_ptr[c] * LANES
    message = scratch.messages[column : column + programs.n_columns[c] * LANES]
    inverse = scratch.totals[number * LANES : (number + 1) * LANES]
    lows, lost = scratch.lows[number * LANES :], scratch.lost[number * LANES :]
    for b in range(LANES):
        inverse[b] = 0.0
    for i in range(programs.n_columns[c]):
        for b in range(LANES):
            inverse[b] += message[i * LANES + b]
    for b in range(LANES):
        total = inverse[b]
        lost[b] = programs.n_cells[c] * (lost[b] + (0.0 if lows[b] > _TINY else _LOST))
        good = total > 0.0 and lost[b] <= _TRUSTED * total
        inverse[b] = 1.0 / total if good else 0.0
        lows[b], lost[b] = 1.0, lost[b] * inverse[b]
        if b < n_rows:
            log_z[b] = log_z[b] + math.log(total) if good else -math.inf
    for i in range(programs.n_columns[c]):
        for b in range(LANES):
            value = message[i * LANES + b] * inverse[b]
            message[i * LANES + b] = value
            lows[b] = value if 0.0 < value < lows[b] else lows[b]


@kernel
def posterior(programs: Programs, c: int, number: int, weight: Floats, scratch: SweepScratch) -> None:
    """Turn a cluster's table into its posterior, given that of its separator."""
    n_cells, start, column = programs.n_cells[c], programs.cell_ptr[c] * LANES, programs.column_ptr[c] * LANES
    table = scratch.tables[start : start + n_cells * LANES]
    own = programs.maps[programs.column_map[c] : programs.column_map[c] + n_cells]
    message, belief = scratch.messages[column:], scratch.beliefs[column:]
    if programs.n_columns[c] == 1:
        for b in range(LANES):
            belief[b] = weight[b] if b < weight.size else 0.0
    for i in range(programs.n_columns[c]):
        for b in range(LANES):
            at = i * LANES + b
            ratio = belief[at] / message[at] if message[at] > 0.0 else 0.0
            message[at] = ratio * scratch.totals[number * LANES + b]
    for i in range(n_cells):
        for b in range(LANES):
            table[i * LANES + b] *= message[own[i] * LANES + b]


@kernel
def distribute(programs: Programs, c: int, g: int, n_shared: int, scratch: SweepScratch, out: Tables) -> None:
    """Add a cluster's posterior to those of its operands."""
    n_cells, begin, first = programs.n_cells[c], programs.cell_ptr[c] * LANES, programs.cluster_ptr[g]
    table = scratch.tables[begin : begin + n_cells * LANES]
    for op in range(programs.op_ptr[c], programs.op_ptr[c + 1]):
        source, where = programs.op_source[op], programs.maps[programs.op_map[op] : programs.op_map[op] + n_cells]
        if source < 0:
            below = scratch.beliefs[programs.column_ptr[first - 1 - source] * LANES :]
            add(table, where, below)
            continue
        k, place = programs.factor_ptr[g] + source, scratch.place[source * LANES : (source + 1) * LANES]
        if programs.n_states[k]:
            local = scratch.local[: programs.n_states[k] * LANES]
            for i in range(local.size):
                local[i] = 0.0
            add(table, where, local)
            for b in range(LANES):
                for x in range(programs.n_states[k]):
                    out.own[place[b] - n_shared + x] += local[x * LANES + b]
            continue
        start = 0 if programs.factor_step[k] == 0 else n_shared
        operand = out.own if start else out.shared
        for i in range(n_cells if operand.size else 0):
            for b in range(LANES):
                operand[place[b] - start + where[i]] += table[i * LANES + b]


@kernel
def add(table: Floats, where: Any, sums: Floats) -> None:
    """Add up the cells of a table of LANES rows."""
    for i in range(where.size):
        for b in range(LANES):
            sums[where[i] * LANES + b] += table[i * LANES + b]
