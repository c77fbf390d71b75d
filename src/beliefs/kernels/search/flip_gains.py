"""What every change of one query variable would bring, from one set of marginals of the summed variables."""

from __future__ import annotations

import math

from beliefs.kernels._jit import kernel
from beliefs.typing import Floats, Ints

__all__ = ["flip_gains"]


@kernel
def flip_gains(
    query: Ints, card: Ints, state_ptr: Ints, scope_ptr: Ints, scope_vars: Ints, cell_ptr: Ints, var_ptr: Ints,
    var_edges: Ints, edge_factor: Ints, stride: Ints, theta: Floats, sliced: Ints, table_ptr: Ints, cells: Ints,
    mu_factor: Floats, states: Ints, gain: Floats,
) -> None:  # fmt: skip
    """Write an estimate of ``Q(x_v -> x) - Q`` for every state ``x`` of every variable of the query.

    Equivalent to ``sum_f log sum_k mu_f[k] exp(theta_f(x, k) - theta_f(x_v, k))`` over the factors f at v, ``k``
    running over the cells of f's slice and ``mu_f`` being its marginal with the query at ``states (n_vars,)``: exact
    where at most one of them has summed variables, or where these are independent. ``sliced (n_factors,)`` is the
    number of a factor among those with summed variables, else -1; ``table_ptr, cells`` are these slices' cells in
    ``theta``, ``mu_factor`` their marginals; ``stride (n_edges,)`` the step in a table for one state more. Writes
    ``gain (n_states,)`` at the query's variables. Numerics: marginals of 0 are left out, so mass that the change would
    make possible is not seen; ``-inf`` where nothing is left. Cost: the query's factors' cells.
    """
    for i in range(query.size):
        v = query[i]
        for x in range(card[v]):
            total = 0.0
            for j in range(var_ptr[v], var_ptr[v + 1]):
                edge = var_edges[j]
                f = edge_factor[edge]
                shift = (x - states[v]) * stride[edge]
                if sliced[f] < 0:
                    cell = cell_ptr[f]
                    for e in range(scope_ptr[f], scope_ptr[f + 1]):
                        cell += states[scope_vars[e]] * stride[e]
                    total += theta[cell + shift] - theta[cell] if theta[cell] > -math.inf else 0.0
                    continue
                ratio = 0.0
                for k in range(table_ptr[sliced[f]], table_ptr[sliced[f] + 1]):
                    if mu_factor[k] > 0.0:
                        ratio += mu_factor[k] * math.exp(min(theta[cells[k] + shift] - theta[cells[k]], 700.0))
                total += math.log(ratio) if ratio > 0.0 else -math.inf
            gain[state_ptr[v] + x] = total
