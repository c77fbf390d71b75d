r"""Block updates of :mod:`beliefs.kernels.dual.blocks` where clusters have two variables and separators one.

The same steps without index maps: a cluster is a matrix, rows the earlier variable. Its table stays as it is, and the
shifts :math:`\delta_i^c` of both its variables are kept beside it, :math:`r_c = \theta_c - \delta_i^c - \delta_j^c`; so
an update reads matrices and writes vectors.

Rounding is the same wherever arrays lie: loops that write arrays beside those they read are in kernels without the
freedom to reassociate and contract, because their SIMD and plain versions are chosen by what lies beside what.

A link is a record of eight integers, whose columns :mod:`beliefs.kernels.dual.structure` names: where its table begins,
its kind (``LATER``, ``POOLED``, ``COUPLED``), where the shifts of its own and of the other variable begin, the other's
cardinality, the places of both weights, and which cluster it is.
"""

from __future__ import annotations

import math
from typing import Any

from beliefs.kernels._jit import inlined_kernel, kernel
from beliefs.kernels.dual.pairs.shifts import accept_pair_step, add_scaled, find_pair_direction, try_pair_shifts
from beliefs.kernels.dual.pairs.terms import (
    belief_of,
    column_sums,
    exponentials,
    pair_of,
    pair_workspace,
    power_of,
    row_maxima,
    scaled_value,
)
from beliefs.kernels.dual.pairs.weights import pair_entropies, propose_weights, try_weights
from beliefs.kernels.dual.structure import (
    ARMIJO,
    COUPLED,
    FASTER,
    FASTEST,
    FLAT,
    HALVINGS,
    KIND,
    LATER,
    OWN_SHIFT,
    OWN_WEIGHT,
    RECORD,
    ROUNDING,
    SLOWER,
    SLOWEST,
    TINY,
    TRIES,
    Axes,
    BlockOptions,
    Decomposition,
    PairLinks,
    PairMemory,
    PairWorkspace,
    Pool,
)
from beliefs.kernels.primitives.memory import address, addresses, get, put
from beliefs.typing import Bools, Floats, Ints

__all__ = ["update_pairs"]


@kernel
def write_shares(pooled: Any, value: float, ratio: float, constant: float, out: Any, to: int, n: int) -> None:
    """Write ``ratio * (pooled - value) + constant`` to ``out[to:]``; what is impossible stays so."""
    for x in range(n):
        now = get(pooled, x)
        put(out, to + x, ratio * (now - value) + constant if now > -math.inf else -math.inf)


@inlined_kernel
def share_pool(
    l0: int, l1: int, card: int, budget: float, small: float, pool: Pool, links: PairLinks, revisited: Bools,
    work: PairWorkspace,
) -> float:  # fmt: skip
    """Write the pooled terms: the separator's to ``separator_term``, the links' to ``fresh``; return their values.

    Where the pool has hardly any weight, all of it is handed on to the clusters that are revisited, if that leaves half
    of what the block has gained on ``budget``.
    """
    pooled, term, fresh = work.pooled, work.separator_term, work.fresh
    n_pool, n_revisited = pool.n_terms, pool.n_revisited
    value = power_of(pooled, 0, card, pool.weight)
    hand_on = 0.0 < pool.weight <= small
    after, by_weight = value, pool.weight > 0.0 and not hand_on
    for _ in range(2):
        ratio = pool.own_weight / pool.weight if by_weight else (1.0 / n_pool if n_revisited == 0 else 0.0)
        write_shares(pooled, value, ratio, value / n_pool, term, 0, card)
        after = power_of(term, 0, card, pool.own_weight) if hand_on else value
        for link in range(l0, l1):
            r, row = RECORD * link, (link - l0) * card
            if get(links.record, r + KIND) != COUPLED:
                w = get(links.weight, get(links.record, r + OWN_WEIGHT))
                even = 1.0 / n_pool if n_revisited == 0 else (1.0 / n_revisited if revisited[link] else 0.0)
                ratio = w / pool.weight if by_weight else even
                write_shares(pooled, value, ratio, value / n_pool, fresh, row, card)
                if hand_on:
                    after += power_of(fresh, row, card, w)
        if not hand_on or after <= 0.5 * (budget + value):
            break
        hand_on, by_weight = False, True
    return after


@kernel
def update_pairs(
    order: Ints, begin: int, end: int, separators: Axes, link_ptr: Ints, record: Ints, options: BlockOptions,
    state: Decomposition, shift: Floats, scratch: PairMemory,
) -> None:  # fmt: skip
    """Do what :func:`beliefs.kernels.dual.blocks.update_separators` does for pairs.

    ``record`` has the links' records and ``shift`` their shifts, variable after variable; ``e`` and ``tops`` have room
    for all clusters of a variable twice. Cost of a maximised variable: each of its tables once. Of a summed one: an
    exponential a cell for every table of an earlier variable, for those of later ones two (three where weights move),
    and some products.
    """
    order, link_ptr, record, shift = address(order), address(link_ptr), address(record), address(shift)
    separators, options, state = addresses(separators), addresses(options), addresses(state)
    revisited, local_steps, moves_weights = options.revisited, options.local_steps, options.moves_weights
    theta, weight, rate = state.tables, state.weight, state.rate
    links, work = PairLinks(record, theta, shift, weight, state.step_scale), pair_workspace(scratch)
    pooled, trial_pooled, total, g, belief = work.pooled, work.trial_pooled, work.total, work.g, work.belief
    for turn in range(begin, end):
        s = get(order, turn)
        card, n0, l0, l1 = get(separators.card, s), get(separators.cell, s), get(link_ptr, s), get(link_ptr, s + 1)
        own_weight = get(state.sep_weight, s)
        for x in range(card):
            put(pooled, x, get(state.sep_tables, n0 + x))
            put(work.scale, x, 1.0)
        before, others, pool_weight = power_of(pooled, 0, card, own_weight), 0.0, own_weight
        n_pool, n_revisited, n_coupled, e_at, top_at = 1, 0, 0, 0, 0
        for link in range(l0, l1):  # marginalise each cluster onto the variable
            kind, row, pair = get(record, RECORD * link + KIND), (link - l0) * card, pair_of(link, card, links)
            if kind == COUPLED:
                exponentials(pair, theta, shift, pair.own, e_at, top_at, work)
                others += scaled_value(pair, e_at, top_at, shift, work, work.mu, row)
                e_at += card * pair.columns
                top_at += pair.columns
                n_coupled += 1
                continue
            if kind == LATER:
                column_sums(theta, pair.at, pair.columns, card, shift, pair.other, pair.other_weight, g, row)
            else:
                row_maxima(theta, pair.at, card, pair.columns, shift, pair.other, g, row)
            for x in range(card):
                put(total, x, get(g, row + x) - get(shift, pair.own + x))
                put(pooled, x, get(pooled, x) + get(total, x))
            before += power_of(total, 0, card, pair.weight)
            pool_weight += pair.weight
            n_pool += 1
            n_revisited += 1 if revisited[link] else 0
        before += others
        if n_coupled > 0:  # steps on the shifts, then on the weights
            value = belief_of(pooled, card, pool_weight, belief)
            for step in range(local_steps):
                slope = find_pair_direction(l0, l1, card, value, pool_weight, links, work)
                size = 1.0 + abs(value) + abs(others)
                flat = not slope < -FLAT * size
                if flat and step > 0:
                    break
                t, accepted, found, trial = 1.0, False, 0.0, 0.0
                for _ in range(1 if flat else HALVINGS):
                    found = try_pair_shifts(l0, l1, card, t, links, work)
                    add_scaled(pooled, 0, t, work.separator_term, 0, trial_pooled, 0, card)
                    trial = belief_of(trial_pooled, card, pool_weight, belief)
                    gain = value + others - trial - found
                    accepted = gain >= -ARMIJO * t * min(slope, 0.0) or (t == 1.0 and gain >= -ROUNDING * size)
                    if accepted:
                        break
                    t *= min(max(-0.5 * t * slope / max(-gain - t * slope, TINY), 0.1), 0.5)
                if not accepted:
                    break
                value, others = trial, found
                for x in range(card):
                    put(pooled, x, get(trial_pooled, x))
                accept_pair_step(l0, l1, card, t, moves_weights or step + 1 < local_steps, links, work)
            if moves_weights:
                value = belief_of(pooled, card, pool_weight, belief)
                pair_entropies(l0, l1, card, value, Pool(own_weight, pool_weight, n_pool, n_revisited), links, work)
                for _ in range(TRIES):
                    propose_weights(
                        l1 - l0 + 1, get(rate, s), get(options.least, s), work.entropy, work.held, work.proposed
                    )
                    found, trial = try_weights(l0, l1, card, links, work)
                    if power_of(pooled, 0, card, trial) + found <= value + others:
                        others, pool_weight, own_weight = found, trial, get(work.proposed, 0)
                        put(rate, s, min(FASTER * get(rate, s), FASTEST))
                        put(state.sep_weight, s, own_weight)
                        for link in range(l0, l1):
                            put(weight, get(record, RECORD * link + OWN_WEIGHT), get(work.proposed, link - l0 + 1))
                        break
                    put(rate, s, max(SLOWER * get(rate, s), SLOWEST))
        pool = Pool(own_weight, pool_weight, n_pool, n_revisited)
        after = share_pool(l0, l1, card, before - others, get(options.small, s), pool, links, revisited, work)
        for link in range(l0, l1):
            r, row = RECORD * link, (link - l0) * card
            if get(record, r + KIND) != COUPLED:
                for x in range(card):
                    if get(pooled, x) > -math.inf:
                        put(shift, get(record, r + OWN_SHIFT) + x, get(g, row + x) - get(work.fresh, row + x))
        for x in range(card):
            put(state.scores, n0 + x, get(pooled, x))
            put(state.sep_tables, n0 + x, get(work.separator_term, x))
        put(state.decrease, s, before - others - after)
