"""Steps on the weights of one variable's pairs: :mod:`beliefs.kernels.dual.weights` for clusters of two variables."""

from __future__ import annotations

from typing import Any

from beliefs.kernels._jit import inlined_kernel, kernel
from beliefs.kernels.dual.pairs.terms import conditional_entropy, exponentials, pair_of, reweighted, scaled_value
from beliefs.kernels.dual.structure import (
    COUPLED,
    KIND,
    LARGEST_MOVE,
    LEAST_FREE,
    RECORD,
    SNAP,
    PairLinks,
    PairWorkspace,
    Pool,
)
from beliefs.kernels.primitives.elementary import fast_exp
from beliefs.kernels.primitives.memory import get, put

__all__ = ["pair_entropies", "propose_weights", "try_weights"]


@inlined_kernel
def pair_entropies(
    l0: int, l1: int, card: int, value: float, pool: Pool, links: PairLinks, work: PairWorkspace
) -> None:  # fmt: skip
    """Write the entropies of the variable and its present weights, first the separator's own, then link by link."""
    belief, pooled, scale, entropy, held = work.belief, work.pooled, work.scale, work.entropy, work.held
    alone, e_at, top_at = 0.0, 0, 0
    if pool.weight > 0.0:
        for x in range(card):
            if get(belief, x) > 0.0:
                alone += get(belief, x) * (value - get(pooled, x)) / pool.weight
    put(entropy, 0, alone)
    put(held, 0, pool.own_weight)
    for x in range(card):
        put(scale, x, 1.0)
    for link in range(l0, l1):
        pair, given = pair_of(link, card, links), alone
        put(held, link - l0 + 1, pair.weight)
        if get(links.record, RECORD * link + KIND) == COUPLED:
            scaled_value(pair, e_at, top_at, links.shift, work, work.fresh, 0)
            given = conditional_entropy(pair, e_at, links, work)
            e_at += card * pair.columns
            top_at += pair.columns
        put(entropy, link - l0 + 1, given)


@kernel
def propose_weights(n_terms: int, rate: float, least: float, entropy: Any, held: Any, proposed: Any) -> None:
    """Do what :func:`beliefs.kernels.dual.weights.propose` does for one axis."""
    total, mean, norm = 0.0, 0.0, 0.0
    for k in range(n_terms):
        total += get(held, k)
    scale = total - n_terms * least
    if scale <= LEAST_FREE:
        for k in range(n_terms):
            put(proposed, k, get(held, k))
        return
    over = 1.0 / scale
    for k in range(n_terms):
        mean += max(get(held, k) - least, 0.0) * over * get(entropy, k)
    for k in range(n_terms):
        part = max(get(held, k) - least, 0.0) * over
        move = rate * scale * part * (get(entropy, k) - mean)
        part *= fast_exp(-min(max(move, -LARGEST_MOVE), LARGEST_MOVE))
        if least == 0.0 and part < SNAP:
            part = 0.0
        put(proposed, k, part)
    for k in range(n_terms):
        norm += get(proposed, k)
    scale /= norm
    for k in range(n_terms):
        put(proposed, k, least + scale * get(proposed, k))


@inlined_kernel
def try_weights(l0: int, l1: int, card: int, links: PairLinks, work: PairWorkspace) -> tuple[float, float]:
    """Return the values of the coupled clusters and the weight of the pool, as proposed."""
    found, trial = 0.0, get(work.proposed, 0)
    for link in range(l0, l1):
        w = get(work.proposed, link - l0 + 1)
        if get(links.record, RECORD * link + KIND) == COUPLED:
            pair = reweighted(pair_of(link, card, links), w)
            exponentials(pair, links.theta, links.shift, pair.own, work.trial_e, work.trial_top, work)
            found += scaled_value(pair, work.trial_e, work.trial_top, links.shift, work, work.fresh, 0)
        else:
            trial += w
    return found, trial
