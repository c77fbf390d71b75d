"""Steps on the shifts of clusters that cannot be pooled; the direction is in :mod:`beliefs.kernels.dual.blocks`."""

from __future__ import annotations

import math

from beliefs.kernels._jit import kernel
from beliefs.kernels.dual.local import power_value, try_shifts
from beliefs.kernels.dual.tables import chain_marginals
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.typing import Bools, Floats, Ints

__all__ = ["descend"]

_LEAST = 1e-300  # what a marginal counts at least in logs
_RANGE, _MOVE = 30.0, 4.0  # nats: how much a marginal near 0 may say, in logs or as a shift, where that is more
_ARMIJO = 1e-4
_HALVINGS = 10
_FLAT = 1e-13  # relative slope at which a block is solved
_ROUNDING = 1e-15  # relative: what a step that only hands tables on may seem to lose


@kernel
def log_conditionals(
    mu: Floats, row: int, size: int, sep_card: Ints, s0: int, s1: int, weight: Floats, axes: Ints, own: int,
    scale: float, z: Floats, out: Floats,
) -> None:  # fmt: skip
    r"""Write :math:`\sum_k v_k \log \mu(x_k | x_{k+1:m})` to ``out[row:]``.

    ``v_k = scale * weight[axes[own + k]]``, of one axis alone ``v = scale``.
    """
    if s1 - s0 == 1:
        least = fast_exp(-min(max(_RANGE, _MOVE / scale), 690.0))
        for x in range(row, row + size):
            out[x] = scale * fast_log(max(mu[x], least))
        return
    width, at = size, 0
    for x in range(width):
        z[x] = mu[row + x]
        out[row + x] = 0.0
    for k in range(s0, s1):
        inner, v = size // sep_card[k], scale * weight[axes[own + k - s0]]
        for y in range(inner):
            total = 0.0
            for x in range(sep_card[k]):
                total += z[at + x * inner + y]
            z[at + size + y] = total
        for x in range(width):
            out[row + x] += v * (
                fast_log(max(z[at + x % size], _LEAST)) - fast_log(max(z[at + size + x % inner], _LEAST))
            )
        at += size
        size = inner


@kernel
def find_direction(
    s: int, value: float, sep_ptr: Ints, sep_card: Ints, sep_cell: Ints, link_ptr: Ints, apart: Bools, weight: Floats,
    pool_weight: Floats, metric: Floats, axes: Ints, z: Floats, p: Floats, total: Floats, pooled: Floats,
    belief: Floats, mu: Floats, direction: Floats, push: Floats, matched: Floats, small: Floats, ahead: Bools,
    hand_on: bool,
) -> float:  # fmt: skip
    """Write the direction of every cluster apart, and their sum to ``push``; return the slope along it.

    To ``hand_on``, what little weight cannot place goes to the clusters ahead.
    """
    s0, s1, l0, l1 = sep_ptr[s], sep_ptr[s + 1], link_ptr[s], link_ptr[s + 1]
    width, n_axes = sep_cell[s + 1] - sep_cell[s], s1 - s0
    for a in range(s0, s1):
        matched[a] = pool_weight[a]
    for x in range(width):
        push[x] = pooled[x] - value
    for link in range(l0, l1):
        if apart[link]:
            row, own = (link - l0) * width, (link - l0) * n_axes
            log_conditionals(mu, row, width, sep_card, s0, s1, weight, axes, own, metric[link], z, direction)
            for a in range(s0, s1):
                matched[a] += metric[link] * (weight[axes[own + a - s0]] if n_axes > 1 else 1.0)
            for x in range(width):
                push[x] += direction[row + x]
    power_value(push, width, sep_card, matched, s0, s1, z, p, total)
    for x in range(width):
        push[x] = 0.0
    slope, n_ahead = 0.0, 0
    for link in range(l0, l1):
        n_ahead += 1 if apart[link] and ahead[link] else 0
    for link in range(l0, l1):
        if apart[link]:
            row, own = (link - l0) * width, (link - l0) * n_axes
            for x in range(width):
                move = 0.0
                if pooled[x] > -math.inf:
                    move, at, size = direction[row + x], 0, width
                    for a in range(s0, s1):
                        inner = size // sep_card[a]
                        v = metric[link] * (weight[axes[own + a - s0]] if n_axes > 1 else 1.0)
                        if matched[a] > (small[a] if hand_on else 0.0):
                            move -= v / matched[a] * (z[at + x % size] - z[at + size + x % inner])
                        elif ahead[link]:
                            move -= (z[at + x % size] - z[at + size + x % inner]) / n_ahead
                        at += size
                        size = inner
                direction[row + x] = move
                push[x] += move
                slope += (belief[x] - mu[row + x]) * move
    return slope


@kernel
def learn_metric(width: int, row: int, t: float, direction: Floats, mu: Floats, fresh: Floats, old: float) -> float:
    r"""Return :math:`v = \mathrm{Var}(t d) / \langle t d, \mu - \mu' \rangle`, within a factor of 4 of the old."""
    mean, square, change = 0.0, 0.0, 0.0
    for x in range(row, row + width):
        weight = 0.5 * (mu[x] + fresh[x])
        mean += weight * direction[x]
        square += weight * direction[x] * direction[x]
        change += direction[x] * (mu[x] - fresh[x])
    variance = t * (square - mean * mean)
    if not (variance > 1e-12 * t * square and change > 0.0):
        return old
    return min(max(variance / change, 0.25 * old), 4.0 * old)


@kernel
def descend(
    s: int, others: float, local_steps: int, axis_ptr: Ints, card: Ints, sep_ptr: Ints, sep_card: Ints, sep_cell: Ints,
    link_ptr: Ints, link_cluster: Ints, link_first: Ints, link_size: Ints, apart: Bools, weight: Floats,
    pool_weight: Floats, metric: Floats, matched: Floats, small: Floats, ahead: Bools, index: Ints, axes: Ints,
    h: Floats, z: Floats, p: Floats, total: Floats, belief: Floats, pooled: Floats, trial_pooled: Floats, push: Floats,
    shift: Floats, trial: Floats, direction: Floats, mu: Floats, fresh: Floats,
) -> float:  # fmt: skip
    """Take up to ``local_steps`` steps on the shifts of the clusters apart; return their values."""
    s0, s1, l0, l1 = sep_ptr[s], sep_ptr[s + 1], link_ptr[s], link_ptr[s + 1]
    width = sep_cell[s + 1] - sep_cell[s]
    value = power_value(pooled, width, sep_card, pool_weight, s0, s1, z, p, total)
    slight = False
    for link in range(l0, l1):
        slight |= s1 - s0 > 1 and apart[link] and ahead[link]
    step, hand_on = 0, slight
    while step < local_steps:
        chain_marginals(p, width, sep_card, s0, s1)
        for x in range(width):
            belief[x] = p[x]
        slope = find_direction(
            s, value, sep_ptr, sep_card, sep_cell, link_ptr, apart, weight, pool_weight, metric, axes, z, p, total,
            pooled, belief, mu, direction, push, matched, small, ahead, hand_on,
        )  # fmt: skip
        size = 1.0 + abs(value) + abs(others)
        flat = not slope < -_FLAT * size
        if flat and step > 0:
            break
        t, accepted = 1.0, False
        for _ in range(1 if flat or hand_on else _HALVINGS):
            found = try_shifts(
                s, t, axis_ptr, card, sep_cell, link_ptr, link_cluster, link_first, link_size, apart, weight, index, h,
                z, p, total, shift, direction, trial, fresh,
            )  # fmt: skip
            for x in range(width):
                trial_pooled[x] = pooled[x] + t * push[x]
            pool = power_value(trial_pooled, width, sep_card, pool_weight, s0, s1, z, p, total)
            gain = value + others - pool - found
            accepted = gain >= -_ARMIJO * t * min(slope, 0.0) or (t == 1.0 and gain >= -_ROUNDING * size)
            if accepted:
                break
            t *= min(max(-0.5 * t * slope / max(-gain - t * slope, 1e-300), 0.1), 0.5)
        if hand_on and not accepted:
            hand_on = False
            value = power_value(pooled, width, sep_card, pool_weight, s0, s1, z, p, total)
            continue
        hand_on = False
        step += 1
        if not accepted:
            break
        value, others = pool, found
        for x in range(width):
            pooled[x] = trial_pooled[x]
        for link in range(l0, l1):
            if apart[link]:
                row = (link - l0) * width
                if s1 - s0 == 1:
                    metric[link] = learn_metric(width, row, t, direction, mu, fresh, metric[link])
                else:
                    metric[link] *= 0.5 if t < 1.0 else min(1.25, 1.0 / metric[link])
                for x in range(row, row + width):
                    shift[x] = trial[x]
                    mu[x] = fresh[x]
    return others
