"""Steps on the weights of one separator's variables: an exponentiated gradient, Eq. (3.11) [ping2016] corrected."""

from __future__ import annotations

from beliefs.kernels._jit import kernel
from beliefs.kernels.dual.local import power_value, shifted_term, try_shifts
from beliefs.kernels.dual.tables import chain_entropies, chain_marginals
from beliefs.kernels.primitives.elementary import fast_exp
from beliefs.typing import Bools, Floats, Ints

__all__ = ["move_weights"]

_RATES = (1e-3, 1e3)
_TRIES = 4
_SNAP = 1e-7  # share of a weight that becomes 0 where no floor keeps it


@kernel
def local_entropies(
    s: int, axis_ptr: Ints, card: Ints, sep_ptr: Ints, sep_card: Ints, sep_cell: Ints, link_ptr: Ints,
    link_cluster: Ints, link_first: Ints, link_size: Ints, apart: Bools, weight: Floats, pool_weight: Floats,
    index: Ints, axes: Ints, h: Floats, z: Floats, p: Floats, total: Floats, pooled: Floats, shift: Floats,
    entropy: Floats,
) -> float:  # fmt: skip
    """Write the conditional entropies of the separator's variables, first in the pool, then link by link."""
    s0, s1, l0, l1 = sep_ptr[s], sep_ptr[s + 1], link_ptr[s], link_ptr[s + 1]
    width, n_axes, at = sep_cell[s + 1] - sep_cell[s], s1 - s0, 0
    spare = (l1 - l0 + 1) * n_axes
    value = power_value(pooled, width, sep_card, pool_weight, s0, s1, z, p, total)
    chain_marginals(p, width, sep_card, s0, s1)
    chain_entropies(z, p, width, sep_card, pool_weight, s0, s1, entropy, 0)
    for link in range(l0, l1):
        c, row, size, to = link_cluster[link], (link - l0) * width, link_size[link], (link - l0) * n_axes
        if apart[link]:
            first, last = link_first[link], axis_ptr[c + 1]
            shifted_term(h, at, size, index, shift, row, card, weight, first, last, z, p, total)
            chain_marginals(p, size, card, first, last)
            chain_entropies(z, p, size, card, weight, first, last, entropy, spare)
            for k in range(n_axes):
                entropy[to + n_axes + k] = entropy[spare + axes[to + k] - first]
        else:
            for k in range(n_axes):
                entropy[to + n_axes + k] = entropy[k]
        at += size
    return value


@kernel
def propose(n_terms: int, n_axes: int, k: int, rate: float, least: float, entropy: Floats, held: Floats,
            proposed: Floats) -> None:  # fmt: skip
    r"""Write new weights :math:`w_t = \epsilon + S s_t` of a variable: an exponentiated-gradient step on :math:`s`."""
    total = 0.0
    for t in range(n_terms):
        total += held[t * n_axes + k]
    scale = total - n_terms * least
    if scale <= 1e-9:
        for t in range(n_terms):
            proposed[t * n_axes + k] = held[t * n_axes + k]
        return
    mean = 0.0
    for t in range(n_terms):
        mean += max(held[t * n_axes + k] - least, 0.0) / scale * entropy[t * n_axes + k]
    norm = 0.0
    for t in range(n_terms):
        part = max(held[t * n_axes + k] - least, 0.0) / scale
        part *= fast_exp(-min(max(rate * scale * part * (entropy[t * n_axes + k] - mean), -3.0), 3.0))
        if least == 0.0 and part < _SNAP:
            part = 0.0
        proposed[t * n_axes + k] = part
        norm += part
    for t in range(n_terms):
        proposed[t * n_axes + k] = least + scale * (proposed[t * n_axes + k] / norm)


@kernel
def put_weights(
    s: int, sep_ptr: Ints, link_ptr: Ints, apart: Bools, axes: Ints, new: Floats, weight: Floats, sep_weight: Floats,
    pool_weight: Floats,
) -> None:  # fmt: skip
    """Set the weights of the separator's variables in all its terms, and those of the pool."""
    s0, n_axes = sep_ptr[s], sep_ptr[s + 1] - sep_ptr[s]
    for k in range(n_axes):
        sep_weight[s0 + k] = new[k]
        pool_weight[s0 + k] = new[k]
        for link in range(link_ptr[s], link_ptr[s + 1]):
            own = (link - link_ptr[s]) * n_axes + k
            weight[axes[own]] = new[own + n_axes]
            pool_weight[s0 + k] += 0.0 if apart[link] else new[own + n_axes]


@kernel
def move_weights(
    s: int, others: float, axis_ptr: Ints, card: Ints, sep_ptr: Ints, sep_card: Ints, sep_cell: Ints, link_ptr: Ints,
    link_cluster: Ints, link_first: Ints, link_size: Ints, apart: Bools, least: Floats, weight: Floats,
    sep_weight: Floats, pool_weight: Floats, rate: Floats, index: Ints, axes: Ints, h: Floats, z: Floats, p: Floats,
    total: Floats, pooled: Floats, shift: Floats, direction: Floats, trial: Floats, fresh: Floats, entropy: Floats,
    held: Floats, proposed: Floats,
) -> float:  # fmt: skip
    """Move weight between the copies of each variable of the separator; return the values of the clusters apart."""
    s0, s1, l0, l1 = sep_ptr[s], sep_ptr[s + 1], link_ptr[s], link_ptr[s + 1]
    width, n_axes, n_terms = sep_cell[s + 1] - sep_cell[s], s1 - s0, l1 - l0 + 1
    value = local_entropies(
        s, axis_ptr, card, sep_ptr, sep_card, sep_cell, link_ptr, link_cluster, link_first, link_size, apart, weight,
        pool_weight, index, axes, h, z, p, total, pooled, shift, entropy,
    )  # fmt: skip
    for k in range(n_axes):
        held[k] = sep_weight[s0 + k]
        for link in range(l0, l1):
            held[(link - l0 + 1) * n_axes + k] = weight[axes[(link - l0) * n_axes + k]]
    for _ in range(_TRIES):
        for k in range(n_axes):
            propose(n_terms, n_axes, k, rate[s], least[s0 + k], entropy, held, proposed)
        put_weights(s, sep_ptr, link_ptr, apart, axes, proposed, weight, sep_weight, pool_weight)
        found = try_shifts(
            s, 0.0, axis_ptr, card, sep_cell, link_ptr, link_cluster, link_first, link_size, apart, weight, index, h, z,
            p, total, shift, direction, trial, fresh,
        )  # fmt: skip
        pool = power_value(pooled, width, sep_card, pool_weight, s0, s1, z, p, total)
        if pool + found <= value + others:
            rate[s] = min(2.0 * rate[s], _RATES[1])
            return found
        rate[s] = max(0.25 * rate[s], _RATES[0])
    put_weights(s, sep_ptr, link_ptr, apart, axes, held, weight, sep_weight, pool_weight)
    return others
