"""Connected groups of missing cells, row by row."""

from __future__ import annotations

from typing import Any, NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.typing import Ints

__all__ = ["Found", "missing_groups"]


class Found(NamedTuple):
    """Groups: the row of each, where its variables begin, and the variables; room for as many as missing cells."""

    row: Ints
    ptr: Ints
    variables: Ints


@kernel
def missing_groups(codes: Any, missing: int, rows: Ints, ptr: Ints, neighbours: Ints, mark: Ints, found: Found) -> int:
    """Write the connected groups of missing cells of some rows; return how many there are.

    Equivalent to the components of the graph ``ptr, neighbours`` (CSR) over the missing variables of each row; the
    variables of a group are ascending, and so are the first variables of a row's groups.
    Shapes: ``rows (n,)``, ``mark (n_vars,)`` scratch of -1, ``found`` of as many as cells are missing (``ptr`` one
    more). Cost: the neighbours of each missing cell. Numerics: integers.
    """
    n_groups, end = 0, 0
    found.ptr[0] = 0
    n_vars = codes.shape[0]
    for at in range(rows.size):
        r = rows[at]
        for first in range(n_vars):
            if codes[first, r] != missing or mark[first] == at:
                continue
            begin = end
            found.variables[end] = first
            end += 1
            mark[first] = at
            head = begin
            while head < end:
                v = found.variables[head]
                head += 1
                for k in range(ptr[v], ptr[v + 1]):
                    u = neighbours[k]
                    if codes[u, r] == missing and mark[u] != at:
                        mark[u] = at
                        found.variables[end] = u
                        end += 1
            for i in range(begin + 1, end):  # insertion: groups are small, or found in order
                v, j = found.variables[i], i
                while j > begin and found.variables[j - 1] > v:
                    found.variables[j] = found.variables[j - 1]
                    j -= 1
                found.variables[j] = v
            found.row[n_groups] = r
            n_groups += 1
            found.ptr[n_groups] = end
    return n_groups
