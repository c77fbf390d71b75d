r"""Block updates of :mod:`beliefs.kernels.dual.blocks` where clusters have two variables and separators one.

The same steps without index maps: a cluster is a matrix, rows the earlier variable. Its table stays as it is, and the
shifts :math:`\delta_i^c` of both its variables are kept beside it, :math:`r_c = \theta_c - \delta_i^c - \delta_j^c`; so
an update reads matrices and writes vectors.

Rounding is the same wherever arrays lie: loops that write arrays beside those they read are in kernels without the
freedom to reassociate and contract, because their SIMD and plain versions are chosen by what lies beside what.

A link is eight integers: where its table begins, its kind (``LATER``, ``POOLED``, ``APART``), where the shifts of its
own and of the other variable begin, the other's cardinality, the places of both weights, and which cluster it is.
"""

from __future__ import annotations

import math
from typing import Any

from beliefs.kernels._jit import inlined_kernel, kernel
from beliefs.kernels.dual.pairs.terms import (
    belief_of,
    column_sums,
    conditional_entropy,
    exponentials,
    power_of,
    row_maxima,
    scaled_value,
)
from beliefs.kernels.primitives.elementary import fast_exp
from beliefs.kernels.primitives.exponential import exp4, log4
from beliefs.kernels.primitives.memory import address, get, put
from beliefs.kernels.primitives.simd import add4, fill4, load4, maximum4, multiply4, store4
from beliefs.typing import Bools, Floats, Ints

__all__ = ["APART", "LATER", "POOLED", "RECORD", "update_pairs"]

LATER, POOLED, APART = 0, 1, 2
RECORD = 8
_RANGE, _MOVE = 30.0, 4.0  # as in gdd_shifts
_ARMIJO, _HALVINGS, _FLAT, _ROUNDING = 1e-4, 10, 1e-13, 1e-15
_SLOWEST, _FASTEST, _TRIES, _SNAP = 1e-3, 1e3, 4, 1e-7  # as in gdd_weights
_SAFE = 300.0  # nats: shifts beyond are computed from the tables again


@kernel
def add_scaled(a: Any, at: int, t: float, b: Any, row: int, out: Any, to: int, n: int) -> None:
    """Write ``out[to:] = a[at:] + t * b[row:]``, n entries."""
    for x in range(n):
        put(out, to + x, get(a, at + x) + t * get(b, row + x))


@kernel
def write_shares(pooled: Any, value: float, ratio: float, constant: float, out: Any, to: int, n: int) -> None:
    """Write ``ratio * (pooled - value) + constant`` to ``out[to:]``; what is impossible stays so."""
    for x in range(n):
        now = get(pooled, x)
        put(out, to + x, ratio * (now - value) + constant if now > -math.inf else -math.inf)


@kernel
def write_moves(pooled: Any, v: float, total: Any, direction: Any, row: int, push: Any, n: int) -> None:
    """Subtract ``v * total`` from a cluster's direction, zero where a state is impossible, and add it to ``push``."""
    for x in range(n):
        move = get(direction, row + x) - v * get(total, x) if get(pooled, x) > -math.inf else 0.0
        put(direction, row + x, move)
        put(push, x, get(push, x) + move)


@kernel
def write_excess(push: Any, level: float, spread: float, total: Any, n: int) -> None:
    """Write ``total = (push - level) / spread`` and set ``push`` to zero."""
    share = 1.0 / spread
    for x in range(n):
        put(total, x, (get(push, x) - level) * share)
        put(push, x, 0.0)


@inlined_kernel
def slope_of(belief: Any, mu: Any, direction: Any, row: int, card: int) -> float:
    """Return ``(belief - mu[row:]) @ direction[row:]``."""
    slope = 0.0
    for x in range(card):
        slope += (get(belief, x) - get(mu, row + x)) * get(direction, row + x)
    return slope


@inlined_kernel
def moments_of(mu: Any, fresh: Any, direction: Any, row: int, card: int) -> tuple[float, float, float]:
    """Return mean and mean square of the direction, halfway from ``mu`` to ``fresh``, and the change of its mean."""
    mean, square, change = 0.0, 0.0, 0.0
    for x in range(row, row + card):
        d, old, new = get(direction, x), get(mu, x), get(fresh, x)
        mean += 0.5 * (old + new) * d
        square += 0.5 * (old + new) * d * d
        change += d * (old - new)
    return mean, square, change


@inlined_kernel
def find_pair_direction(
    l0: int, l1: int, card: int, value: float, pool_weight: float, record: Any, metric: Any, pooled: Any, belief: Any,
    mu: Any, direction: Any, push: Any, total: Any,
) -> float:  # fmt: skip
    """Write the direction of every cluster apart, and their sum to ``push``; return the slope along it."""
    spread = pool_weight
    for x in range(card):
        put(push, x, get(pooled, x) - value)
    for link in range(l0, l1):
        if get(record, RECORD * link + 1) == APART:
            row, v = (link - l0) * card, get(metric, link)
            spread += v
            floor = fill4(fast_exp(-min(max(_RANGE, _MOVE / v), 690.0)))
            for x in range(0, card, 4):
                logs = multiply4(fill4(v), log4(maximum4(load4(mu, row + x), floor)))
                store4(direction, row + x, logs)
                store4(push, x, add4(load4(push, x), logs))
    level = power_of(push, 0, card, spread)
    write_excess(push, level, spread, total, card)
    slope = 0.0
    for link in range(l0, l1):
        if get(record, RECORD * link + 1) == APART:
            row, v = (link - l0) * card, get(metric, link)
            write_moves(pooled, v, total, direction, row, push, card)
            slope += slope_of(belief, mu, direction, row, card)
    return slope


@inlined_kernel
def try_pair_shifts(
    l0: int, l1: int, card: int, t: float, record: Any, theta: Any, shift: Any, weight: Any, e: Any, far_e: int,
    tops: Any, far_top: int, scale: Any, z: Any, sums: Any, q: Any, total: Any, direction: Any, fresh: Any,
) -> float:  # fmt: skip
    """Return the values of the clusters apart after a step of ``t``; marginals go to ``fresh``."""
    found, e_at, top_at = 0.0, 0, 0
    for link in range(l0, l1):
        r, row = RECORD * link, (link - l0) * card
        if get(record, r + 1) == APART:
            columns, w, v = get(record, r + 4), get(weight, get(record, r + 5)), get(weight, get(record, r + 6))
            widest = 0.0
            for x in range(card):
                widest = max(widest, abs(t * get(direction, row + x)))
            near, at, base = w > 0.0 and widest < _SAFE * w, e_at, top_at
            if near:
                for x in range(0, card, 4):
                    store4(scale, x, exp4(multiply4(fill4(-t / w), load4(direction, row + x))))
            else:
                at, base = far_e, far_top
                add_scaled(shift, get(record, r + 2), t, direction, row, total, 0, card)
                for x in range(card):
                    put(scale, x, 1.0)
                exponentials(theta, get(record, r), card, columns, total, 0, w, e, at, tops, base)
            found += scaled_value(
                e, at, card, columns, w, v, tops, base, shift, get(record, r + 3), scale, z, sums, q, fresh, row
            )
            e_at += card * columns
            top_at += columns
    return found


@inlined_kernel
def take_step(
    l0: int, l1: int, card: int, t: float, again: bool, record: Any, theta: Any, shift: Any, weight: Any, metric: Any,
    e: Any, tops: Any, direction: Any, mu: Any, fresh: Any,
) -> None:  # fmt: skip
    """Move the shifts of the clusters apart, learn their curvature, and renew ``e`` if it is needed ``again``."""
    e_at, top_at = 0, 0
    for link in range(l0, l1):
        r, row = RECORD * link, (link - l0) * card
        if get(record, r + 1) == APART:
            own, columns = get(record, r + 2), get(record, r + 4)
            mean, square, change = moments_of(mu, fresh, direction, row, card)
            add_scaled(shift, own, t, direction, row, shift, own, card)
            for x in range(card):
                put(mu, row + x, get(fresh, row + x))
            variance, v = t * (square - mean * mean), get(metric, link)
            if variance > 1e-12 * t * square and change > 0.0:
                put(metric, link, min(max(variance / change, 0.25 * v), 4.0 * v))
            if again:
                w = get(weight, get(record, r + 5))
                exponentials(theta, get(record, r), card, columns, shift, own, w, e, e_at, tops, top_at)
                e_at += card * columns
                top_at += columns


@inlined_kernel
def pair_entropies(
    l0: int, l1: int, card: int, value: float, own_weight: float, pool_weight: float, record: Any, theta: Any,
    shift: Any, weight: Any, e: Any, tops: Any, scale: Any, z: Any, sums: Any, q: Any, belief: Any, pooled: Any,
    fresh: Any, entropy: Any, held: Any,
) -> None:  # fmt: skip
    """Write the entropies of the variable and its present weights, first the separator's own, then link by link."""
    alone, e_at, top_at = 0.0, 0, 0
    if pool_weight > 0.0:
        for x in range(card):
            if get(belief, x) > 0.0:
                alone += get(belief, x) * (value - get(pooled, x)) / pool_weight
    put(entropy, 0, alone)
    put(held, 0, own_weight)
    for x in range(card):
        put(scale, x, 1.0)
    for link in range(l0, l1):
        r, given = RECORD * link, alone
        columns, w, v = get(record, r + 4), get(weight, get(record, r + 5)), get(weight, get(record, r + 6))
        put(held, link - l0 + 1, w)
        if get(record, r + 1) == APART:
            scaled_value(
                e, e_at, card, columns, w, v, tops, top_at, shift, get(record, r + 3), scale, z, sums, q, fresh, 0
            )
            given = conditional_entropy(
                theta, get(record, r), card, columns, shift, get(record, r + 2), get(record, r + 3), w, e, e_at, z, q
            )
            e_at += card * columns
            top_at += columns
        put(entropy, link - l0 + 1, given)


@kernel
def propose_weights(n_terms: int, rate: float, least: float, entropy: Any, held: Any, proposed: Any) -> None:
    """Do what :func:`beliefs.kernels.dual.weights.propose` does for one axis."""
    total, mean, norm = 0.0, 0.0, 0.0
    for k in range(n_terms):
        total += get(held, k)
    scale = total - n_terms * least
    if scale <= 1e-9:
        for k in range(n_terms):
            put(proposed, k, get(held, k))
        return
    over = 1.0 / scale
    for k in range(n_terms):
        mean += max(get(held, k) - least, 0.0) * over * get(entropy, k)
    for k in range(n_terms):
        part = max(get(held, k) - least, 0.0) * over
        part *= fast_exp(-min(max(rate * scale * part * (get(entropy, k) - mean), -3.0), 3.0))
        if least == 0.0 and part < _SNAP:
            part = 0.0
        put(proposed, k, part)
    for k in range(n_terms):
        norm += get(proposed, k)
    scale /= norm
    for k in range(n_terms):
        put(proposed, k, least + scale * get(proposed, k))


@inlined_kernel
def try_weights(
    l0: int, l1: int, card: int, record: Any, theta: Any, shift: Any, weight: Any, e: Any, far_e: int, tops: Any,
    far_top: int, scale: Any, z: Any, sums: Any, q: Any, fresh: Any, proposed: Any,
) -> tuple[float, float]:  # fmt: skip
    """Return the values of the clusters apart and the weight of the pool, as proposed."""
    found, trial = 0.0, get(proposed, 0)
    for link in range(l0, l1):
        r, w = RECORD * link, get(proposed, link - l0 + 1)
        if get(record, r + 1) == APART:
            columns, v = get(record, r + 4), get(weight, get(record, r + 6))
            exponentials(theta, get(record, r), card, columns, shift, get(record, r + 2), w, e, far_e, tops, far_top)
            found += scaled_value(
                e, far_e, card, columns, w, v, tops, far_top, shift, get(record, r + 3), scale, z, sums, q, fresh, 0
            )
        else:
            trial += w
    return found, trial


@inlined_kernel
def share_pool(
    l0: int, l1: int, card: int, budget: float, own_weight: float, pool_weight: float, small: float, n_pool: int,
    n_ahead: int, record: Any, ahead: Bools, weight: Any, pooled: Any, push: Any, fresh: Any,
) -> float:  # fmt: skip
    """Write the pooled terms: the separator's to ``push``, the links' to ``fresh``; return their values.

    Where the pool has hardly any weight, all of it is handed on to the clusters ahead, if that leaves half of what
    the block has gained on ``budget``.
    """
    value = power_of(pooled, 0, card, pool_weight)
    hand_on = 0.0 < pool_weight <= small
    after, by_weight = value, pool_weight > 0.0 and not hand_on
    for _ in range(2):
        ratio = own_weight / pool_weight if by_weight else (1.0 / n_pool if n_ahead == 0 else 0.0)
        write_shares(pooled, value, ratio, value / n_pool, push, 0, card)
        after = power_of(push, 0, card, own_weight) if hand_on else value
        for link in range(l0, l1):
            r, row = RECORD * link, (link - l0) * card
            if get(record, r + 1) != APART:
                w = get(weight, get(record, r + 5))
                even = 1.0 / n_pool if n_ahead == 0 else (1.0 / n_ahead if ahead[link] else 0.0)
                ratio = w / pool_weight if by_weight else even
                write_shares(pooled, value, ratio, value / n_pool, fresh, row, card)
                if hand_on:
                    after += power_of(fresh, row, card, w)
        if not hand_on or after <= 0.5 * (budget + value):
            break
        hand_on, by_weight = False, True
    return after


@kernel
def update_pairs(
    order: Ints, begin: int, end: int, sep_card: Ints, sep_cell: Ints, link_ptr: Ints, record: Ints, ahead: Bools,
    least: Floats, small: Floats, local_steps: int, moving: bool, theta: Floats, shift: Floats, weight: Floats,
    nodes: Floats, sep_weight: Floats, metric: Floats, rate: Floats, drop: Floats, marks: Floats, pooled: Floats,
    g: Floats, total: Floats, e: Floats, tops: Floats, scale: Floats, z: Floats, sums: Floats, q: Floats,
    belief: Floats, push: Floats, trial_pooled: Floats, direction: Floats, mu: Floats, fresh: Floats, entropy: Floats,
    held: Floats, proposed: Floats,
) -> None:  # fmt: skip
    """Do what :func:`beliefs.kernels.dual.blocks.update_separators` does for pairs.

    ``shift`` holds the shifts of all links, variable after variable; ``e`` and ``tops`` have room for all clusters of
    a variable twice. Cost of a maximised variable: each of its tables once. Of a summed one: an exponential a cell for
    every table of an earlier variable, for those of later ones two (three where weights move), and some products.
    """
    far_e, far_top = e.size // 2, tops.size // 2
    order, sep_card, sep_cell, link_ptr = address(order), address(sep_card), address(sep_cell), address(link_ptr)
    record, least, small, theta, shift = address(record), address(least), address(small), address(theta), address(shift)
    weight, nodes, sep_weight, metric = address(weight), address(nodes), address(sep_weight), address(metric)
    rate, drop, marks, pooled, g = address(rate), address(drop), address(marks), address(pooled), address(g)
    total, e, tops, scale, z = address(total), address(e), address(tops), address(scale), address(z)
    sums, q, belief, push = address(sums), address(q), address(belief), address(push)
    trial_pooled, direction, mu, fresh = address(trial_pooled), address(direction), address(mu), address(fresh)
    entropy, held, proposed = address(entropy), address(held), address(proposed)
    for turn in range(begin, end):
        s = get(order, turn)
        card, n0, l0, l1 = get(sep_card, s), get(sep_cell, s), get(link_ptr, s), get(link_ptr, s + 1)
        own_weight = get(sep_weight, s)
        for x in range(card):
            put(pooled, x, get(nodes, n0 + x))
            put(scale, x, 1.0)
        before, others, pool_weight = power_of(pooled, 0, card, own_weight), 0.0, own_weight
        n_pool, n_ahead, n_apart, e_at, top_at = 1, 0, 0, 0, 0
        for link in range(l0, l1):  # what each cluster says
            r, row = RECORD * link, (link - l0) * card
            at, kind, own, other = get(record, r), get(record, r + 1), get(record, r + 2), get(record, r + 3)
            columns, w, v = get(record, r + 4), get(weight, get(record, r + 5)), get(weight, get(record, r + 6))
            if kind == APART:
                exponentials(theta, at, card, columns, shift, own, w, e, e_at, tops, top_at)
                others += scaled_value(
                    e, e_at, card, columns, w, v, tops, top_at, shift, other, scale, z, sums, q, mu, row
                )
                e_at += card * columns
                top_at += columns
                n_apart += 1
                continue
            if kind == LATER:
                column_sums(theta, at, columns, card, shift, other, v, g, row)
            else:
                row_maxima(theta, at, card, columns, shift, other, g, row)
            for x in range(card):
                put(total, x, get(g, row + x) - get(shift, own + x))
                put(pooled, x, get(pooled, x) + get(total, x))
            before += power_of(total, 0, card, w)
            pool_weight += w
            n_pool += 1
            n_ahead += 1 if ahead[link] else 0
        before += others
        if n_apart > 0:  # steps on the shifts, then on the weights
            value = belief_of(pooled, card, pool_weight, belief)
            for step in range(local_steps):
                slope = find_pair_direction(
                    l0, l1, card, value, pool_weight, record, metric, pooled, belief, mu, direction, push, total
                )
                size = 1.0 + abs(value) + abs(others)
                flat = not slope < -_FLAT * size
                if flat and step > 0:
                    break
                t, accepted, found, pool = 1.0, False, 0.0, 0.0
                for _ in range(1 if flat else _HALVINGS):
                    found = try_pair_shifts(
                        l0, l1, card, t, record, theta, shift, weight, e, far_e, tops, far_top, scale, z, sums, q,
                        total, direction, fresh,
                    )  # fmt: skip
                    add_scaled(pooled, 0, t, push, 0, trial_pooled, 0, card)
                    pool = belief_of(trial_pooled, card, pool_weight, belief)
                    gain = value + others - pool - found
                    accepted = gain >= -_ARMIJO * t * min(slope, 0.0) or (t == 1.0 and gain >= -_ROUNDING * size)
                    if accepted:
                        break
                    t *= min(max(-0.5 * t * slope / max(-gain - t * slope, 1e-300), 0.1), 0.5)
                if not accepted:
                    break
                value, others = pool, found
                for x in range(card):
                    put(pooled, x, get(trial_pooled, x))
                take_step(
                    l0, l1, card, t, moving or step + 1 < local_steps, record, theta, shift, weight, metric, e, tops,
                    direction, mu, fresh,
                )  # fmt: skip
            if moving:
                value = belief_of(pooled, card, pool_weight, belief)
                pair_entropies(
                    l0, l1, card, value, own_weight, pool_weight, record, theta, shift, weight, e, tops, scale, z,
                    sums, q, belief, pooled, fresh, entropy, held,
                )  # fmt: skip
                for _ in range(_TRIES):
                    propose_weights(l1 - l0 + 1, get(rate, s), get(least, s), entropy, held, proposed)
                    found, trial = try_weights(
                        l0, l1, card, record, theta, shift, weight, e, far_e, tops, far_top, scale, z, sums, q, fresh,
                        proposed,
                    )  # fmt: skip
                    if power_of(pooled, 0, card, trial) + found <= value + others:
                        others, pool_weight, own_weight = found, trial, get(proposed, 0)
                        put(rate, s, min(2.0 * get(rate, s), _FASTEST))
                        put(sep_weight, s, own_weight)
                        for link in range(l0, l1):
                            put(weight, get(record, RECORD * link + 5), get(proposed, link - l0 + 1))
                        break
                    put(rate, s, max(0.25 * get(rate, s), _SLOWEST))
        after = share_pool(
            l0, l1, card, before - others, own_weight, pool_weight, get(small, s), n_pool, n_ahead, record, ahead,
            weight, pooled, push, fresh,
        )  # fmt: skip
        for link in range(l0, l1):
            r, row = RECORD * link, (link - l0) * card
            if get(record, r + 1) != APART:
                for x in range(card):
                    if get(pooled, x) > -math.inf:
                        put(shift, get(record, r + 2) + x, get(g, row + x) - get(fresh, row + x))
        for x in range(card):
            put(marks, n0 + x, get(pooled, x))
            put(nodes, n0 + x, get(push, x))
        put(drop, s, before - others - after)
