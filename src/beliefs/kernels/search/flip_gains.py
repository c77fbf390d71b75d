"""What every change of one query variable would bring, from one set of marginals of the summed variables."""

from __future__ import annotations

import math
from typing import NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.kernels.layout import Adjacency, Scopes
from beliefs.typing import Floats, Ints

__all__ = ["Slices", "flip_gains"]


class Slices(NamedTuple):
    """The factors with summed variables, sliced at the states of the query."""

    number: Ints  # (n_factors,) of a factor among them, -1 where it has no summed variable
    table_ptr: Ints  # (n_slices+1,) their cells
    cells: Ints  # those cells' places in theta
    marginal: Floats  # and their marginals


@kernel
def flip_gains(
    query: Ints, scopes: Scopes, adjacency: Adjacency, stride: Ints, theta: Floats, slices: Slices, states: Ints,
    gain: Floats,
) -> None:  # fmt: skip
    """Write an estimate of ``Q(x_v -> x) - Q`` for every state ``x`` of every variable of the query.

    Equivalent to ``sum_f log sum_k mu_f[k] exp(theta_f(x, k) - theta_f(x_v, k))`` over the factors f at v, ``k``
    running over the cells of f's slice and ``mu_f`` being its marginal with the query at ``states (n_vars,)``: exact
    where at most one of them has summed variables, or where these are independent. ``stride (n_edges,)`` is the step
    in a table for one state more. Writes ``gain (n_states,)`` at the query's variables. Numerics: marginals of 0 are
    left out, so mass that the change would make possible is not seen; ``-inf`` where nothing is left. Cost: the query's
    factors' cells.
    """
    var_ptr, var_edges, edge_factor = adjacency
    table_ptr, cells, marginal = slices.table_ptr, slices.cells, slices.marginal
    for i in range(query.size):
        v = query[i]
        for x in range(scopes.card[v]):
            total = 0.0
            for j in range(var_ptr[v], var_ptr[v + 1]):
                edge = var_edges[j]
                f = edge_factor[edge]
                shift = (x - states[v]) * stride[edge]
                s = slices.number[f]
                if s < 0:
                    cell = scopes.cell_ptr[f]
                    for e in range(scopes.scope_ptr[f], scopes.scope_ptr[f + 1]):
                        cell += states[scopes.scope_vars[e]] * stride[e]
                    total += theta[cell + shift] - theta[cell] if theta[cell] > -math.inf else 0.0
                    continue
                ratio = 0.0
                for k in range(table_ptr[s], table_ptr[s + 1]):
                    if marginal[k] > 0.0:
                        ratio += marginal[k] * math.exp(min(theta[cells[k] + shift] - theta[cells[k]], 700.0))
                total += math.log(ratio) if ratio > 0.0 else -math.inf
            gain[scopes.state_ptr[v] + x] = total
