"""Gibbs sampling for factors of any arity: sweeps, cell counts, scores and conditional probabilities.

``states (n_vars, n_chains)``, int32, holds all chains side by side, so that a variable's tables are read once for all
of them. The number that decides variable ``v`` in sweep ``t`` of chain ``c`` depends on (key, c, t, v) alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from beliefs.kernels._jit import kernel
from beliefs.kernels.primitives.elementary import fast_exp
from beliefs.kernels.primitives.random import stream, uniform
from beliefs.typing import Bits, Floats, Ints

__all__ = [
    "PART",
    "LEAST",
    "GibbsModel",
    "States",
    "add_scaled",
    "chain_scores",
    "count_cells",
    "cumulate",
    "exponentiate",
    "gibbs_sweeps",
    "log_conditionals",
    "log_weights",
    "maximum",
    "pick",
    "sweep_keys",
]

PART = 512  # terms of a sum that are added one after the other  # fmt: skip

States: TypeAlias = NDArray[np.int32]

LEAST = -708.0  # nats below the most likely state at which a state counts as impossible; exp underflows there


class GibbsModel(NamedTuple):
    """The model as sweeps read it: scopes, edges at variables and tables, flat because each structure costs a call."""

    card: Ints  # (n_vars,)
    state_ptr: Ints  # (n_vars+1,)
    scope_ptr: Ints  # (n_factors+1,)
    scope_vars: Ints  # (n_edges,)
    cell_ptr: Ints  # (n_factors,)
    var_ptr: Ints  # (n_vars+1,)
    var_edges: Ints  # (n_edges,)
    edge_factor: Ints  # (n_edges,)
    theta: Floats  # (n_cells,)
    stride: Ints  # (n_edges,) cells from one state of an edge's variable to the next


@kernel
def sweep_keys(key: np.uint64, sweep: int, keys: Bits) -> None:
    """Write the key of each chain's numbers in one sweep, ``keys (n_chains,)``."""
    for c in range(keys.size):
        keys[c] = stream(stream(key, c), sweep)


@kernel
def maximum(values: Floats) -> float:
    """Return the largest value; four at a time, because one comparison would wait for the other."""
    n = values.size
    a = b = c = d = values[0]
    for i in range(n // 4):
        four = values[4 * i : 4 * i + 4]
        a, b, c, d = max(a, four[0]), max(b, four[1]), max(c, four[2]), max(d, four[3])
    for i in range(n - n % 4, n):
        a = max(a, values[i])
    return float(max(max(a, b), max(c, d)))


@kernel
def cumulate(weights: Floats, below: Floats) -> float:
    """Write ``below = cumsum(weights)``, both ``(K,)``, and return the total."""
    total = 0.0
    for x in range(weights.size):
        total += weights[x]
        below[x] = total
    return total


@kernel
def pick(below: Floats, rest: float) -> int:
    """Return ``(below <= rest).sum()``: the state that ``rest``, uniform in [0, total), falls to.

    A state of weight 0 is never picked: ``u < 1``, so ``u * total < total``, the last of the cumulative weights.
    """
    chosen = 0
    for x in range(below.size):
        chosen += below[x] <= rest
    return chosen


@kernel
def add_scaled(weights: Floats, scale: float, sums: Floats) -> None:
    """Do ``sums += scale * weights``, all ``(K,)``."""
    for x in range(sums.size):
        sums[x] += scale * weights[x]


@kernel
def log_weights(model: GibbsModel, states: States, v: int, begin: int, end: int, logits: Floats) -> None:
    """Write the log weights of ``v`` given all other states of the chains ``begin..end``, each with maximum 0.

    ``logits ((end - begin) * card[v],)``. The chains' states must have positive weight, else a maximum is ``-inf``.
    """
    scope_ptr, scope_vars, stride, theta = model.scope_ptr, model.scope_vars, model.stride, model.theta
    k = logits.size // (end - begin)
    for x in range(logits.size):
        logits[x] = 0.0
    for i in range(model.var_ptr[v], model.var_ptr[v + 1]):
        e = model.var_edges[i]
        f, step = model.edge_factor[e], stride[e]
        for c in range(begin, end):
            at = model.cell_ptr[f]
            for d in range(scope_ptr[f], scope_ptr[f + 1]):
                if d != e:
                    at += stride[d] * states[scope_vars[d], c]
            own, table = logits[(c - begin) * k : (c - begin + 1) * k], theta[at : at + (k - 1) * step + 1]
            if step == 1:
                for x in range(k):
                    own[x] += table[x]
            else:
                for x in range(k):
                    own[x] += table[x * step]
    for c in range(end - begin):
        own = logits[c * k : c * k + k]
        top = maximum(own)
        for x in range(k):
            own[x] -= top


@kernel
def exponentiate(logits: Floats) -> None:
    """Replace log weights of at most 0 by weights; those below ``LEAST``, and ``-inf``, become 0."""
    for i in range(logits.size):
        shifted = logits[i]
        weight = fast_exp(shifted)
        logits[i] = weight if shifted > LEAST else 0.0


@kernel
def gibbs_sweeps(
    model: GibbsModel, order: Ints, begin: int, end: int, key: np.uint64, first: int, n_sweeps: int, keep: bool,
    states: States, sums: Floats,
) -> None:  # fmt: skip
    """Redraw the variables ``order[begin:end]`` one after the other in every chain, ``n_sweeps`` times.

    Equivalent to ``states[v] ~ p(x_v | all other states)`` per variable and chain, with the numbers of the sweeps
    ``first``, ``first + 1``, ... With ``keep``, the conditionals are added to ``sums (n_states,)``. Cost of a sweep and
    chain: per edge the arity of its factor and the states of its variable.
    """
    card, state_ptr = model.card, model.state_ptr
    widest = 1
    for i in range(begin, end):
        widest = max(widest, card[order[i]])
    n_chains = states.shape[1]
    scratch, below = np.empty(widest * n_chains), np.empty(widest)
    keys = np.empty(n_chains, np.uint64)
    for t in range(first, first + n_sweeps):
        sweep_keys(key, t, keys)
        for i in range(begin, end):
            v = order[i]
            k = card[v]
            logits = scratch[: n_chains * k]
            log_weights(model, states, v, 0, n_chains, logits)
            exponentiate(logits)  # all chains at once: one loop that vectorises for small K too
            run = sums[state_ptr[v] : state_ptr[v] + k]
            for c in range(n_chains):
                weights = logits[c * k : c * k + k]
                total = cumulate(weights, below[:k])
                states[v, c] = pick(below[:k], uniform(keys[c], v) * total)
                if keep:
                    add_scaled(weights, 1.0 / total, run)


@kernel
def log_conditionals(model: GibbsModel, order: Ints, begin: int, end: int, states: States, out: Floats) -> None:
    """Add ``sum over v in order[begin:end] of log p(x_v | all other states)`` of each chain to ``out (n_chains,)``.

    The states must have positive weight; variables are added up ``PART`` at a time. Cost: that of a sweep over these
    variables.
    """
    card = model.card
    widest = 1
    for i in range(begin, end):
        widest = max(widest, card[order[i]])
    scratch, part = np.empty(widest), np.zeros(out.size)
    for i in range(begin, end):
        v = order[i]
        logits = scratch[: card[v]]
        for c in range(states.shape[1]):
            log_weights(model, states, v, c, c + 1, logits)
            total = 0.0
            for x in range(card[v]):
                total += math.exp(logits[x])
            part[c] += logits[states[v, c]] - math.log(total)
        if (i + 1 - begin) % PART == 0 or i + 1 == end:
            for c in range(out.size):
                out[c] += part[c]
                part[c] = 0.0


@kernel
def count_cells(
    scope_ptr: Ints, scope_vars: Ints, table_ptr: Ints, stride: Ints, begin: int, end: int, states: States,
    counts: Floats,
) -> None:  # fmt: skip
    """Add 1 to the cell of each factor ``begin..end`` that each chain is in, ``counts (table_ptr[-1],)``.

    Unary factors are left out: they have the marginals of their variables. Cost: edges of these factors times chains.
    """
    for f in range(begin, end):
        if scope_ptr[f + 1] - scope_ptr[f] == 1:
            continue
        for c in range(states.shape[1]):
            at = table_ptr[f]
            for e in range(scope_ptr[f], scope_ptr[f + 1]):
                at += stride[e] * states[scope_vars[e], c]
            counts[at] += 1.0


@kernel
def chain_scores(model: GibbsModel, states: States, out: Floats) -> None:
    """Write the log score of each chain's state, ``out (n_chains,)``; cost: n_edges times chains.

    Factors are added up ``PART`` at a time and then the parts, so that roundings grow with neither number alone.
    """
    scope_ptr, scope_vars, cell_ptr = model.scope_ptr, model.scope_vars, model.cell_ptr
    theta, stride = model.theta, model.stride
    part = np.empty(out.size)
    out[:] = 0.0
    for begin in range(0, cell_ptr.size, PART):
        part[:] = 0.0
        for f in range(begin, min(begin + PART, cell_ptr.size)):
            for c in range(out.size):
                at = cell_ptr[f]
                for e in range(scope_ptr[f], scope_ptr[f + 1]):
                    at += stride[e] * states[scope_vars[e], c]
                part[c] += theta[at]
        for c in range(out.size):
            out[c] += part[c]
