"""Small kernels between tables and marginals: scaling factors on the way in, variable marginals on the way out."""

from __future__ import annotations

import math

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.layout import Adjacency, Scopes
from beliefs.typing import Bools, Floats, Ints

__all__ = ["factor_spans", "scatter", "variable_marginals"]


@twofold_kernel
def scatter(values: Floats, target: Ints, out: Floats) -> None:
    """Write ``out[target] = values[: target.size]``."""
    for k in range(target.size):
        out[target[k]] = values[k]


@twofold_kernel
def factor_spans(theta: Floats, source: Ints, slot_ptr: Ints, tables: Floats, tops: Floats, ranges: Floats) -> bool:
    """Write factors' slots as logs with maximum zero; return False if some factor is zero everywhere.

    Equivalent to ``t = theta[source[slot]]; tables[slot] = t - t.max()``, with ``tops[f] = t.max()`` and
    ``ranges[f] = t.max() - min(t[t > -inf])``. Cost: one read of ``theta`` a cell, in the slots' order.
    """
    for f in range(tops.size):
        top = -math.inf
        least = math.inf
        for k in range(slot_ptr[f], slot_ptr[f + 1]):
            value = theta[source[k]]
            tables[k] = value
            top = max(top, value)
            if value > -math.inf:
                least = min(least, value)
        if top == -math.inf:
            return False
        tops[f] = top
        ranges[f] = top - least
        for k in range(slot_ptr[f], slot_ptr[f + 1]):
            tables[k] -= top
    return True


@twofold_kernel
def variable_marginals(
    scopes: Scopes,
    adjacency: Adjacency,
    table_ptr: Ints,
    observed: Bools,
    states: Ints,
    mu_factor: Floats,
    mu_var: Floats,
) -> None:
    """Normalise every factor marginal, then sum each variable's marginal out of its smallest factor.

    Equivalent to ``mu_f.sum(axis=all but v)``. Variables in no factor are uniform; observed ones have a 1 at their
    state, zeros where ``states (n_vars,)`` names none. ``mu_factor`` is scaled in place (it sums to one up to rounding
    already); factors of one cell get a 1 without being read. Cost: cells.
    """
    card, state_ptr, scope_ptr, scope_vars, _ = scopes
    var_ptr, var_edges, edge_factor = adjacency
    for f in range(table_ptr.size - 1):
        if table_ptr[f + 1] - table_ptr[f] == 1:
            mu_factor[table_ptr[f]] = 1.0
            continue
        total = 0.0
        for k in range(table_ptr[f], table_ptr[f + 1]):
            total += mu_factor[k]
        for k in range(table_ptr[f], table_ptr[f + 1]):
            mu_factor[k] /= total
    for v in range(card.size):
        start = state_ptr[v]
        if observed[v]:
            for x in range(card[v]):
                mu_var[start + x] = 1.0 if x == states[v] else 0.0
            continue
        best = -1
        for i in range(var_ptr[v], var_ptr[v + 1]):
            e = var_edges[i]
            f = edge_factor[e]
            if best < 0:
                best = e
            else:
                g = edge_factor[best]
                if table_ptr[f + 1] - table_ptr[f] < table_ptr[g + 1] - table_ptr[g]:
                    best = e
        if best < 0:
            for x in range(card[v]):
                mu_var[start + x] = 1.0 / card[v]
            continue
        f = edge_factor[best]
        stride = 1
        for e in range(best + 1, scope_ptr[f + 1]):
            stride *= card[scope_vars[e]]
        for x in range(card[v]):
            mu_var[start + x] = 0.0
        x = 0
        left = stride
        for k in range(table_ptr[f], table_ptr[f + 1]):
            mu_var[start + x] += mu_factor[k]
            left -= 1
            if left == 0:
                left = stride
                x += 1
                if x == card[v]:
                    x = 0
