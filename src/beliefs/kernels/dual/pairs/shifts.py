"""Steps on the shifts of coupled pairs: :mod:`beliefs.kernels.dual.shifts` for clusters of two variables.

Links and scratch are addresses. A variable with ``card`` states has the links ``l0 .. l1``. The exponentials of its
coupled clusters lie one after the other.
Loops that write arrays beside those they read are kernels without the freedom to reassociate.
"""

from __future__ import annotations

import math
from typing import Any

from beliefs.kernels._jit import inlined_kernel, kernel
from beliefs.kernels.dual.pairs.terms import exponentials, pair_of, power_of, scaled_value
from beliefs.kernels.dual.structure import (
    COUPLED,
    KIND,
    LEAST_SPREAD,
    LOG_RANGE,
    RECORD,
    SCALE_CHANGE,
    SHIFT_RANGE,
    PairLinks,
    PairWorkspace,
)
from beliefs.kernels.primitives.elementary import fast_exp
from beliefs.kernels.primitives.exponential import exp4, log4
from beliefs.kernels.primitives.memory import get, put
from beliefs.kernels.primitives.simd import add4, fill4, load4, maximum4, multiply4, store4

__all__ = ["accept_pair_step", "add_scaled", "find_pair_direction", "try_pair_shifts"]

_SAFE = 300.0  # nats: shifts beyond are computed from the tables again


@kernel
def add_scaled(a: Any, at: int, t: float, b: Any, row: int, out: Any, to: int, n: int) -> None:
    """Write ``out[to:] = a[at:] + t * b[row:]``, n entries."""
    for x in range(n):
        put(out, to + x, get(a, at + x) + t * get(b, row + x))


@kernel
def write_moves(pooled: Any, v: float, total: Any, direction: Any, row: int, term: Any, n: int) -> None:
    """Subtract ``v * total`` from a cluster's direction, zero where a state is impossible, and add it to ``term``."""
    for x in range(n):
        move = get(direction, row + x) - v * get(total, x) if get(pooled, x) > -math.inf else 0.0
        put(direction, row + x, move)
        put(term, x, get(term, x) + move)


@kernel
def write_excess(term: Any, level: float, spread: float, total: Any, n: int) -> None:
    """Write ``total = (term - level) / spread`` and set ``term`` to zero."""
    share = 1.0 / spread
    for x in range(n):
        put(total, x, (get(term, x) - level) * share)
        put(term, x, 0.0)


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
    l0: int, l1: int, card: int, value: float, pool_weight: float, links: PairLinks, work: PairWorkspace
) -> float:
    """Write the direction of every coupled cluster, and their sum to ``separator_term``; return the slope along it."""
    record, step_scale, pooled, mu, direction = links.record, links.step_scale, work.pooled, work.mu, work.direction
    term, total, spread = work.separator_term, work.total, pool_weight
    for x in range(card):
        put(term, x, get(pooled, x) - value)
    for link in range(l0, l1):
        if get(record, RECORD * link + KIND) == COUPLED:
            row, v = (link - l0) * card, get(step_scale, link)
            spread += v
            floor = fill4(fast_exp(-min(max(LOG_RANGE, SHIFT_RANGE / v), 690.0)))
            for x in range(0, card, 4):
                logs = multiply4(fill4(v), log4(maximum4(load4(mu, row + x), floor)))
                store4(direction, row + x, logs)
                store4(term, x, add4(load4(term, x), logs))
    level = power_of(term, 0, card, spread)
    write_excess(term, level, spread, total, card)
    slope = 0.0
    for link in range(l0, l1):
        if get(record, RECORD * link + KIND) == COUPLED:
            row, v = (link - l0) * card, get(step_scale, link)
            write_moves(pooled, v, total, direction, row, term, card)
            slope += slope_of(work.belief, mu, direction, row, card)
    return slope


@inlined_kernel
def try_pair_shifts(l0: int, l1: int, card: int, t: float, links: PairLinks, work: PairWorkspace) -> float:
    """Return the values of the coupled clusters after a step of ``t``; marginals go to ``fresh``."""
    shift, direction, scale, total = links.shift, work.direction, work.scale, work.total
    found, e_at, top_at = 0.0, 0, 0
    for link in range(l0, l1):
        row = (link - l0) * card
        if get(links.record, RECORD * link + KIND) == COUPLED:
            pair = pair_of(link, card, links)
            widest, w = 0.0, pair.weight
            for x in range(card):
                widest = max(widest, abs(t * get(direction, row + x)))
            near, at, base = w > 0.0 and widest < _SAFE * w, e_at, top_at
            if near:
                for x in range(0, card, 4):
                    store4(scale, x, exp4(multiply4(fill4(-t / w), load4(direction, row + x))))
            else:
                at, base = work.trial_e, work.trial_top
                add_scaled(shift, pair.own, t, direction, row, total, 0, card)
                for x in range(card):
                    put(scale, x, 1.0)
                exponentials(pair, links.theta, total, 0, at, base, work)
            found += scaled_value(pair, at, base, shift, work, work.fresh, row)
            e_at += card * pair.columns
            top_at += pair.columns
    return found


@inlined_kernel
def accept_pair_step(
    l0: int, l1: int, card: int, t: float, again: bool, links: PairLinks, work: PairWorkspace
) -> None:  # fmt: skip
    """Move the shifts of the coupled clusters, learn their step scales, and renew ``e`` if it is needed ``again``."""
    step_scale, mu, fresh, direction = links.step_scale, work.mu, work.fresh, work.direction
    e_at, top_at = 0, 0
    for link in range(l0, l1):
        row = (link - l0) * card
        if get(links.record, RECORD * link + KIND) == COUPLED:
            pair = pair_of(link, card, links)
            mean, square, change = moments_of(mu, fresh, direction, row, card)
            add_scaled(links.shift, pair.own, t, direction, row, links.shift, pair.own, card)
            for x in range(card):
                put(mu, row + x, get(fresh, row + x))
            variance, v = t * (square - mean * mean), get(step_scale, link)
            if variance > LEAST_SPREAD * t * square and change > 0.0:
                put(step_scale, link, min(max(variance / change, v / SCALE_CHANGE), SCALE_CHANGE * v))
            if again:
                exponentials(pair, links.theta, links.shift, pair.own, e_at, top_at, work)
                e_at += card * pair.columns
                top_at += pair.columns
