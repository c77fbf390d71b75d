"""Steps on the shifts of coupled clusters; the direction is in :mod:`beliefs.kernels.dual.blocks`."""

from __future__ import annotations

import math

from beliefs.kernels._jit import kernel
from beliefs.kernels.dual.local import power_value, try_shifts
from beliefs.kernels.dual.structure import (
    ARMIJO,
    FLAT,
    HALVINGS,
    LEAST_SPREAD,
    LOG_RANGE,
    ROUNDING,
    SCALE_CHANGE,
    SHIFT_RANGE,
    TINY,
    Axes,
    BlockOptions,
    Decomposition,
    Links,
    Workspace,
)
from beliefs.kernels.dual.tables import chain_marginals
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.typing import Bools, Floats

__all__ = ["descend"]


@kernel
def log_conditionals(s: int, place: int, scale: float, separators: Axes, weight: Floats, work: Workspace) -> None:
    r"""Write :math:`\sum_k v_k \log \mu(x_k | x_{k+1:m})` of the separator's link number ``place`` to ``direction``.

    ``v_k = scale * weight_k``, of one axis alone ``v = scale``.
    """
    mu, out, z, axes, sep_card = work.mu, work.direction, work.chain.z, work.axes, separators.card
    s0, s1, size = separators.ptr[s], separators.ptr[s + 1], separators.cell[s + 1] - separators.cell[s]
    row, own = place * size, place * (s1 - s0)
    if s1 - s0 == 1:
        least = fast_exp(-min(max(LOG_RANGE, SHIFT_RANGE / scale), 690.0))
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
            out[row + x] += v * (fast_log(max(z[at + x % size], TINY)) - fast_log(max(z[at + size + x % inner], TINY)))
        at += size
        size = inner


@kernel
def find_direction(
    s: int, value: float, hand_on: bool, separators: Axes, links: Links, options: BlockOptions, state: Decomposition,
    work: Workspace,
) -> float:  # fmt: skip
    """Write the direction of every coupled cluster, and their sum to ``separator_term``; return the slope along it.

    To ``hand_on``, what little weight cannot place goes to the clusters that are revisited.
    """
    coupled, revisited, small = options.coupled, options.revisited, options.small
    weight, step_scale, group_weight, sep_card = state.weight, state.step_scale, state.group_weight, separators.card
    axes, z, pooled, belief, mu = work.axes, work.chain.z, work.pooled, work.belief, work.mu
    direction, separator_term = work.direction, work.separator_term
    s0, s1, l0, l1 = separators.ptr[s], separators.ptr[s + 1], links.ptr[s], links.ptr[s + 1]
    width, n_axes = separators.cell[s + 1] - separators.cell[s], s1 - s0
    for a in range(s0, s1):
        group_weight[a] = state.pool_weight[a]
    for x in range(width):
        separator_term[x] = pooled[x] - value
    for link in range(l0, l1):
        if coupled[link]:
            row, own = (link - l0) * width, (link - l0) * n_axes
            log_conditionals(s, link - l0, step_scale[link], separators, weight, work)
            for a in range(s0, s1):
                group_weight[a] += step_scale[link] * (weight[axes[own + a - s0]] if n_axes > 1 else 1.0)
            for x in range(width):
                separator_term[x] += direction[row + x]
    power_value(separator_term, width, sep_card, group_weight, s0, s1, work.chain)
    for x in range(width):
        separator_term[x] = 0.0
    slope, n_revisited = 0.0, 0
    for link in range(l0, l1):
        n_revisited += 1 if coupled[link] and revisited[link] else 0
    for link in range(l0, l1):
        if coupled[link]:
            row, own = (link - l0) * width, (link - l0) * n_axes
            for x in range(width):
                move = 0.0
                if pooled[x] > -math.inf:
                    move, at, size = direction[row + x], 0, width
                    for a in range(s0, s1):
                        inner = size // sep_card[a]
                        v = step_scale[link] * (weight[axes[own + a - s0]] if n_axes > 1 else 1.0)
                        if group_weight[a] > (small[a] if hand_on else 0.0):
                            move -= v / group_weight[a] * (z[at + x % size] - z[at + size + x % inner])
                        elif revisited[link]:
                            move -= (z[at + x % size] - z[at + size + x % inner]) / n_revisited
                        at += size
                        size = inner
                direction[row + x] = move
                separator_term[x] += move
                slope += (belief[x] - mu[row + x]) * move
    return slope


@kernel
def learnt_scale(width: int, row: int, t: float, direction: Floats, mu: Floats, fresh: Floats, old: float) -> float:
    r"""Return :math:`v = \mathrm{Var}(t d) / \langle t d, \mu - \mu' \rangle`, within a factor of 4 of the old."""
    mean, square, change = 0.0, 0.0, 0.0
    for x in range(row, row + width):
        weight = 0.5 * (mu[x] + fresh[x])
        mean += weight * direction[x]
        square += weight * direction[x] * direction[x]
        change += direction[x] * (mu[x] - fresh[x])
    variance = t * (square - mean * mean)
    if not (variance > LEAST_SPREAD * t * square and change > 0.0):
        return old
    return min(max(variance / change, old / SCALE_CHANGE), SCALE_CHANGE * old)


@kernel
def accept_step(
    s: int, t: float, separators: Axes, links: Links, coupled: Bools, step_scale: Floats, work: Workspace
) -> None:
    """Make the trial shifts those of the coupled clusters, and learn their step scales."""
    direction, shift, trial, mu, fresh = work.direction, work.shift, work.trial, work.mu, work.fresh
    l0, width = links.ptr[s], separators.cell[s + 1] - separators.cell[s]
    for x in range(width):
        work.pooled[x] = work.trial_pooled[x]
    for link in range(l0, links.ptr[s + 1]):
        if coupled[link]:
            row = (link - l0) * width
            if separators.ptr[s + 1] - separators.ptr[s] == 1:
                step_scale[link] = learnt_scale(width, row, t, direction, mu, fresh, step_scale[link])
            else:
                step_scale[link] *= 0.5 if t < 1.0 else min(1.25, 1.0 / step_scale[link])
            for x in range(row, row + width):
                shift[x] = trial[x]
                mu[x] = fresh[x]


@kernel
def descend(
    s: int, others: float, clusters: Axes, separators: Axes, links: Links, options: BlockOptions, state: Decomposition,
    work: Workspace,
) -> float:  # fmt: skip
    """Take up to ``local_steps`` steps on the shifts of the coupled clusters; return their values."""
    coupled, pool_weight, sep_card = options.coupled, state.pool_weight, separators.card
    belief, pooled, trial_pooled, p = work.belief, work.pooled, work.trial_pooled, work.chain.p
    s0, s1 = separators.ptr[s], separators.ptr[s + 1]
    width = separators.cell[s + 1] - separators.cell[s]
    value = power_value(pooled, width, sep_card, pool_weight, s0, s1, work.chain)
    step, hand_on = 0, False
    for link in range(links.ptr[s], links.ptr[s + 1]):
        hand_on |= s1 - s0 > 1 and coupled[link] and options.revisited[link]
    while step < options.local_steps:
        chain_marginals(p, width, sep_card, s0, s1)
        for x in range(width):
            belief[x] = p[x]
        slope = find_direction(s, value, hand_on, separators, links, options, state, work)
        size = 1.0 + abs(value) + abs(others)
        flat = not slope < -FLAT * size
        if flat and step > 0:
            break
        t, accepted = 1.0, False
        for _ in range(1 if flat or hand_on else HALVINGS):
            found = try_shifts(s, t, clusters, separators, links, coupled, state.weight, work)
            for x in range(width):
                trial_pooled[x] = pooled[x] + t * work.separator_term[x]
            pool = power_value(trial_pooled, width, sep_card, pool_weight, s0, s1, work.chain)
            gain = value + others - pool - found
            accepted = gain >= -ARMIJO * t * min(slope, 0.0) or (t == 1.0 and gain >= -ROUNDING * size)
            if accepted:
                break
            t *= min(max(-0.5 * t * slope / max(-gain - t * slope, TINY), 0.1), 0.5)
        if hand_on and not accepted:
            hand_on = False
            value = power_value(pooled, width, sep_card, pool_weight, s0, s1, work.chain)
            continue
        hand_on = False
        step += 1
        if not accepted:
            break
        value, others = pool, found
        accept_step(s, t, separators, links, coupled, state.step_scale, work)
    return others
