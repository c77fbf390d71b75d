"""One sweep over cluster trees for many rows at a time: rows are the fastest axis of every table."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.typing import Floats, Ints

__all__ = ["LANES", "Programs", "SweepScratch", "Tables", "Work", "sweep_rows"]

LANES = 16  # rows that go through a tree together
_TINY = 1e-250  # a sum below it may have lost what counts; such rows are asked of slower arithmetic


class Programs(NamedTuple):
    """Cluster trees of groups of variables, one after the other; see :mod:`beliefs.inference.rows.programs`."""

    cluster_ptr: Ints  # (n_groups+1,) clusters of each group, children first
    factor_ptr: Ints  # (n_groups+1,) factors of each group
    factor_start: Ints  # (n_local,) where the factor's table begins
    factor_step: Ints  # (n_local,) by how much it moves from one row to the next: 0, or the cells of a row's own tables
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
    """Numbers of all factors: ``shared (n_cells,)`` by the rows, and ``own`` of each row, row by row.

    Places count on: those of at least ``n_cells`` are among a row's own.
    """

    shared: Floats
    own: Floats


class Work(NamedTuple):
    """Rows to be swept: ``group (n_entries,)`` rising, ``row (n_entries,)``, and their weights."""

    group: Ints
    row: Ints
    weight: Floats


class SweepScratch(NamedTuple):
    """Room of one thread, each for LANES rows: factors' places, clusters' tables, messages, beliefs, totals."""

    place: Ints
    tables: Floats
    messages: Floats
    beliefs: Floats
    totals: Floats


@kernel
def sweep_rows(
    programs: Programs, work: Work, codes: Any, missing: int, values: Tables, bounds: Ints, backward: bool,
    scratch: SweepScratch, log_z: Floats, out: Tables,
) -> None:  # fmt: skip
    """Sum out the missing variables of entries ``bounds[0]:bounds[1]``, and add posteriors of cells to ``out``.

    Equivalent to, entry by entry, ``log_z[e] = log(sum of prod values[cells])`` over the states of the group's
    variables given the row's codes, and ``out[cells] += weight * posterior``; the own tables of row number
    ``bounds[2]`` come first. Entries whose sum is below 1e-250 get ``-inf`` and add nothing.
    Shapes: ``values`` and ``out`` alike; no two entries share cells of a row's own.
    Cost: two passes over the clusters' cells an entry. Numerics: messages sum to one, their logs are added up.
    """
    begin = bounds[0]
    while begin < bounds[1]:
        g, end = work.group[begin], begin + 1
        while end < bounds[1] and end - begin < LANES and work.group[end] == g:
            end += 1
        find_places(programs, work, codes, missing, bounds[2], begin, end, scratch.place)
        for b in range(end - begin):
            log_z[begin + b] = 0.0
        for c in range(programs.cluster_ptr[g], programs.cluster_ptr[g + 1]):
            collect(programs, c, programs.cluster_ptr[g], values, scratch)
            normalise(programs, c, c - programs.cluster_ptr[g], end - begin, scratch, log_z[begin:end])
        if backward:
            last = programs.cluster_ptr[g + 1] - 1
            for k in range((programs.column_ptr[last] + programs.n_columns[last]) * LANES):
                scratch.beliefs[k] = 0.0
            for c in range(programs.cluster_ptr[g + 1] - 1, programs.cluster_ptr[g] - 1, -1):
                distribute(programs, c, programs.cluster_ptr[g], work.weight[begin:end], scratch, out)
        begin = end


@kernel
def find_places(
    programs: Programs, work: Work, codes: Any, missing: int, first_row: int, begin: int, end: int, place: Ints
) -> None:
    """Write where each factor's slice begins for each row; lanes without a row repeat the last."""
    g = work.group[begin]
    for k in range(programs.factor_ptr[g], programs.factor_ptr[g + 1]):
        at = (k - programs.factor_ptr[g]) * LANES
        for b in range(LANES):
            row = work.row[min(begin + b, end - 1)]
            cell = programs.factor_start[k] + programs.factor_step[k] * (row - first_row)
            for e in range(programs.scope_ptr[k], programs.scope_ptr[k + 1]):
                code = codes[programs.scope_vars[e], row]
                if code != missing:
                    cell += programs.scope_stride[e] * code
            place[at + b] = cell


@kernel
def collect(programs: Programs, c: int, first: int, values: Tables, scratch: SweepScratch) -> None:
    """Write the product of a cluster's operands, and its sums as the message."""
    n_cells, begin = programs.n_cells[c], programs.cell_ptr[c] * LANES
    table = scratch.tables[begin : begin + n_cells * LANES]
    for i in range(table.size):
        table[i] = 1.0
    for op in range(programs.op_ptr[c], programs.op_ptr[c + 1]):
        source, where = programs.op_source[op], programs.maps[programs.op_map[op] : programs.op_map[op] + n_cells]
        if source >= 0:
            place, start = scratch.place[source * LANES : (source + 1) * LANES], 0
            operand = values.shared
            if place[0] >= operand.size:
                start, operand = operand.size, values.own
            for i in range(n_cells):
                for b in range(LANES):
                    table[i * LANES + b] *= operand[place[b] - start + where[i]]
        else:
            message = scratch.messages[programs.column_ptr[first - 1 - source] * LANES :]
            for i in range(n_cells):
                for b in range(LANES):
                    table[i * LANES + b] *= message[where[i] * LANES + b]
    column = programs.column_ptr[c] * LANES
    message = scratch.messages[column : column + programs.n_columns[c] * LANES]
    own = programs.maps[programs.column_map[c] : programs.column_map[c] + n_cells]
    for i in range(message.size):
        message[i] = 0.0
    for i in range(n_cells):
        for b in range(LANES):
            message[own[i] * LANES + b] += table[i * LANES + b]


@kernel
def normalise(programs: Programs, c: int, number: int, n_rows: int, scratch: SweepScratch, log_z: Floats) -> None:
    """Divide a message by its sum; the sum's log goes to ``log_z``, ``-inf`` where it is too small to trust."""
    column = programs.column_ptr[c] * LANES
    for b in range(LANES):
        total = 0.0
        for i in range(programs.n_columns[c]):
            total += scratch.messages[column + i * LANES + b]
        good = total > _TINY
        inverse = 1.0 / total if good else 0.0
        for i in range(programs.n_columns[c]):
            scratch.messages[column + i * LANES + b] *= inverse
        scratch.totals[number * LANES + b] = inverse
        if b < n_rows:
            log_z[b] = log_z[b] + math.log(total) if good else -math.inf


@kernel
def distribute(programs: Programs, c: int, first: int, weight: Floats, scratch: SweepScratch, out: Tables) -> None:
    """Turn a cluster's table into posteriors and add them to its operands' beliefs."""
    n_cells, begin, column = programs.n_cells[c], programs.cell_ptr[c] * LANES, programs.column_ptr[c] * LANES
    table = scratch.tables[begin : begin + n_cells * LANES]
    own = programs.maps[programs.column_map[c] : programs.column_map[c] + n_cells]
    message, belief = scratch.messages[column:], scratch.beliefs[column:]
    if programs.n_columns[c] == 1:
        for b in range(LANES):
            belief[b] = weight[b] if b < weight.size else 0.0
    for i in range(programs.n_columns[c]):
        for b in range(LANES):
            at = i * LANES + b
            ratio = belief[at] / message[at] if message[at] > 0.0 else 0.0
            message[at] = ratio * scratch.totals[(c - first) * LANES + b]
    for i in range(n_cells):
        for b in range(LANES):
            table[i * LANES + b] *= message[own[i] * LANES + b]
    for op in range(programs.op_ptr[c], programs.op_ptr[c + 1]):
        source, where = programs.op_source[op], programs.maps[programs.op_map[op] : programs.op_map[op] + n_cells]
        if source >= 0:
            place, start = scratch.place[source * LANES : (source + 1) * LANES], 0
            operand = out.shared
            if place[0] >= operand.size:
                start, operand = operand.size, out.own
            for i in range(n_cells):
                for b in range(LANES):
                    operand[place[b] - start + where[i]] += table[i * LANES + b]
        else:
            below = scratch.beliefs[programs.column_ptr[first - 1 - source] * LANES :]
            for i in range(n_cells):
                for b in range(LANES):
                    below[where[i] * LANES + b] += table[i * LANES + b]
