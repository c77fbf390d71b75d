"""Steps on the weights of one separator's variables: an exponentiated gradient, Eq. (3.11) [ping2016] corrected."""

from __future__ import annotations

from beliefs.kernels._jit import kernel
from beliefs.kernels.dual.local import power_value, shifted_term, try_shifts
from beliefs.kernels.dual.structure import (
    FASTER,
    FASTEST,
    LARGEST_MOVE,
    LEAST_FREE,
    SLOWER,
    SLOWEST,
    SNAP,
    TRIES,
    Axes,
    BlockOptions,
    Decomposition,
    Links,
    Workspace,
)
from beliefs.kernels.dual.tables import chain_entropies, chain_marginals
from beliefs.kernels.primitives.elementary import fast_exp
from beliefs.typing import Bools, Floats, Ints

__all__ = ["move_weights"]


@kernel
def local_entropies(
    s: int, clusters: Axes, separators: Axes, links: Links, coupled: Bools, state: Decomposition, work: Workspace
) -> float:
    """Write the conditional entropies of the separator's variables, first in the pool, then link by link.

    Returns the value of the pool.
    """
    entropy, axes, chain, sep_card = work.entropy, work.axes, work.chain, separators.card
    s0, s1, l0, l1 = separators.ptr[s], separators.ptr[s + 1], links.ptr[s], links.ptr[s + 1]
    width, n_axes, at = separators.cell[s + 1] - separators.cell[s], s1 - s0, 0
    spare = (l1 - l0 + 1) * n_axes
    value = power_value(work.pooled, width, sep_card, state.pool_weight, s0, s1, chain)
    chain_marginals(chain.p, width, sep_card, s0, s1)
    chain_entropies(width, sep_card, state.pool_weight, s0, s1, chain, entropy, 0)
    for link in range(l0, l1):
        size, to = links.size[link], (link - l0) * n_axes
        if coupled[link]:
            first, last = links.first[link], clusters.ptr[links.cluster[link] + 1]
            shifted_term(link, at, clusters, links, state.weight, work.shift, (link - l0) * width, work)
            chain_marginals(chain.p, size, clusters.card, first, last)
            chain_entropies(size, clusters.card, state.weight, first, last, chain, entropy, spare)
            for k in range(n_axes):
                entropy[to + n_axes + k] = entropy[spare + axes[to + k] - first]
        else:
            for k in range(n_axes):
                entropy[to + n_axes + k] = entropy[k]
        at += size
    return value


@kernel
def propose(
    n_terms: int, n_axes: int, k: int, rate: float, least: float, entropy: Floats, held: Floats, proposed: Floats
) -> None:
    r"""Write new weights :math:`w_t = \epsilon + S s_t` of a variable: an exponentiated-gradient step on :math:`s`."""
    total = 0.0
    for t in range(n_terms):
        total += held[t * n_axes + k]
    scale = total - n_terms * least
    if scale <= LEAST_FREE:
        for t in range(n_terms):
            proposed[t * n_axes + k] = held[t * n_axes + k]
        return
    mean = 0.0
    for t in range(n_terms):
        mean += max(held[t * n_axes + k] - least, 0.0) / scale * entropy[t * n_axes + k]
    norm = 0.0
    for t in range(n_terms):
        part = max(held[t * n_axes + k] - least, 0.0) / scale
        move = rate * scale * part * (entropy[t * n_axes + k] - mean)
        part *= fast_exp(-min(max(move, -LARGEST_MOVE), LARGEST_MOVE))
        if least == 0.0 and part < SNAP:
            part = 0.0
        proposed[t * n_axes + k] = part
        norm += part
    for t in range(n_terms):
        proposed[t * n_axes + k] = least + scale * (proposed[t * n_axes + k] / norm)


@kernel
def put_weights(
    s: int, separators: Axes, links: Links, coupled: Bools, axes: Ints, new: Floats, state: Decomposition
) -> None:
    """Set the weights of the separator's variables in all its terms, and those of the pool."""
    weight, sep_weight, pool_weight = state.weight, state.sep_weight, state.pool_weight
    s0, n_axes = separators.ptr[s], separators.ptr[s + 1] - separators.ptr[s]
    for k in range(n_axes):
        sep_weight[s0 + k] = new[k]
        pool_weight[s0 + k] = new[k]
        for link in range(links.ptr[s], links.ptr[s + 1]):
            own = (link - links.ptr[s]) * n_axes + k
            weight[axes[own]] = new[own + n_axes]
            pool_weight[s0 + k] += 0.0 if coupled[link] else new[own + n_axes]


@kernel
def move_weights(
    s: int, others: float, clusters: Axes, separators: Axes, links: Links, options: BlockOptions, state: Decomposition,
    work: Workspace,
) -> float:  # fmt: skip
    """Move weight between the copies of each variable of the separator; return the values of the coupled clusters."""
    coupled, axes, held, rate = options.coupled, work.axes, work.held, state.rate
    s0, s1, l0, l1 = separators.ptr[s], separators.ptr[s + 1], links.ptr[s], links.ptr[s + 1]
    width, n_axes, n_terms = separators.cell[s + 1] - separators.cell[s], s1 - s0, l1 - l0 + 1
    value = local_entropies(s, clusters, separators, links, coupled, state, work)
    for k in range(n_axes):
        held[k] = state.sep_weight[s0 + k]
        for link in range(l0, l1):
            held[(link - l0 + 1) * n_axes + k] = state.weight[axes[(link - l0) * n_axes + k]]
    for _ in range(TRIES):
        for k in range(n_axes):
            propose(n_terms, n_axes, k, rate[s], options.least[s0 + k], work.entropy, held, work.proposed)
        put_weights(s, separators, links, coupled, axes, work.proposed, state)
        found = try_shifts(s, 0.0, clusters, separators, links, coupled, state.weight, work)
        pool = power_value(work.pooled, width, separators.card, state.pool_weight, s0, s1, work.chain)
        if pool + found <= value + others:
            rate[s] = min(FASTER * rate[s], FASTEST)
            return found
        rate[s] = max(SLOWER * rate[s], SLOWEST)
    put_weights(s, separators, links, coupled, axes, held, state)
    return others
