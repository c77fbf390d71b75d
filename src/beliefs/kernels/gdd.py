r"""Block updates of generalised dual decomposition on a junction graph, any arity.

State: cluster tables :math:`r_c` and separator tables :math:`n_s` whose sum is :math:`\theta`, and weights of every
axis of both. A block moves shifts :math:`\Delta_c(x_s)` between one separator and its clusters,

.. math:: \min_\Delta\; V_s(n_s + \textstyle\sum_c \Delta_c) + \sum_{c \supseteq s} V_c(r_c - \Delta_c), \qquad
          V = \text{power sum along the axes},

and afterwards weight between the copies of the separator's variables. Axes of :math:`c` before the first of :math:`s`
are eliminated once. Where nothing but :math:`s` is left of :math:`c`, the cluster is *pooled* with the separator:
Hölder's inequality is tight for all pooled terms at once,

.. math:: \min \sum_t V_t = V_W(B), \qquad B = n_s + \sum_t g_t, \quad W_k = \sum_t w_k^t, \qquad
          \text{term } t \leftarrow \sum_k \tfrac{w_k^t}{W_k} (Z_{k-1} - Z_k) + \text{const},

(equal shares where :math:`W_k = 0`). With maxima only, later axes are maximised out too, so every cluster is pooled:
the closed form of max nodes, Eq. (3.10) [ping2016]. For the other clusters a few steps along

.. math:: \Delta_c = v_c (\log \mu_c(x_s) - \bar\ell(x_s)), \qquad
          \bar\ell = \frac{B - V_W(B) + \sum_c v_c \log \mu_c}{W + \sum_c v_c}

are taken, where :math:`1/v_c` is the curvature of :math:`V_c` met in earlier steps. The slope along it is minus a sum
of divergences from the weighted geometric mean, so it descends; a step is accepted only if the local value does not
increase. Weights follow an exponentiated gradient, Eq. (3.11) [ping2016] with :math:`-\bar H` in both lines and the sum
kept at what it was, under the same rule.
"""

from __future__ import annotations

import math

from beliefs.kernels._jit import kernel
from beliefs.kernels.elementary import fast_exp, fast_log
from beliefs.kernels.gdd_tables import chain_entropies, chain_marginals, power_chain, power_sum, table_index
from beliefs.typing import Bools, Floats, Ints

__all__ = ["reduce_early", "update_separators"]

_LEAST = 1e-300  # what a marginal counts at least in logs
_ARMIJO = 1e-4
_HALVINGS = 10
_FLAT = 1e-13  # relative slope at which a block is solved
_RATES = (1e-3, 1e3)  # of weight steps
_TRIES = 4
_SNAP = 1e-7  # share of a weight that becomes 0 where no floor keeps it


@kernel
def reduce_early(
    tables: Floats, begin: int, size: int, card: Ints, weight: Floats, first: int, until: int, z: Floats,
    total: Floats, h: Floats, at: int,
) -> None:  # fmt: skip
    """Eliminate the axes ``first..until`` of ``tables[begin : begin + size]`` to ``h[at:]``; the others stay."""
    if first == until:
        for k in range(size):
            h[at + k] = tables[begin + k]
        return
    place = 0
    for a in range(first, until):
        inner = size // card[a]
        if a == first and a == until - 1:
            power_sum(tables, begin, card[a], inner, weight[a], h, at, total)
        elif a == first:
            power_sum(tables, begin, card[a], inner, weight[a], z, 0, total)
        elif a == until - 1:
            power_sum(z, place, card[a], inner, weight[a], h, at, total)
        else:
            power_sum(z, place, card[a], inner, weight[a], z, place + size, total)
            place += size
        size = inner


@kernel
def shifted_term(
    h: Floats, at: int, size: int, index: Ints, shift: Floats, row: int, card: Ints, weight: Floats, first: int,
    last: int, z: Floats, p: Floats, total: Floats,
) -> float:  # fmt: skip
    """Return the power sum of ``h[at:] - shift[row + index]`` along its axes, steps kept in ``z`` and ``p``."""
    for k in range(size):
        z[k] = h[at + k] - shift[row + index[at + k]]
    return power_chain(z, p, size, card, weight, first, last, total)


@kernel
def marginal_onto(
    p: Floats, size: int, index: Ints, at: int, card: Ints, first: int, last: int, out: Floats, row: int, width: int
) -> None:
    """Write the marginal over the separator of the chain in ``p``."""
    chain_marginals(p, size, card, first, last)
    for x in range(width):
        out[row + x] = 0.0
    for k in range(size):
        out[row + index[at + k]] += p[k]


@kernel
def power_value(values: Floats, size: int, card: Ints, weight: Floats, first: int, last: int, z: Floats, p: Floats,
                total: Floats) -> float:  # fmt: skip
    """Return the power sum of ``values[:size]``, steps kept in ``z`` and ``p``."""
    for k in range(size):
        z[k] = values[k]
    return power_chain(z, p, size, card, weight, first, last, total)


@kernel
def gather(
    s: int, axis_ptr: Ints, card: Ints, cell_ptr: Ints, sep_ptr: Ints, sep_card: Ints, sep_cell: Ints, link_ptr: Ints,
    link_cluster: Ints, link_first: Ints, link_step: Ints, link_size: Ints, apart: Bools, stride: Ints, tables: Floats,
    weight: Floats, nodes: Floats, sep_weight: Floats, pool_weight: Floats, index: Ints, h: Floats, z: Floats,
    p: Floats, total: Floats, pooled: Floats, shift: Floats, mu: Floats, axes: Ints,
) -> tuple[float, float]:  # fmt: skip
    """Read what each cluster says about separator ``s``; return the values of all terms, and of those apart.

    Pooled clusters leave ``g`` in their row of ``mu``, the others their marginal; ``pooled`` is ``B``; ``axes`` gets
    the places of each cluster's weights of the separator's variables.
    """
    s0, s1, n0 = sep_ptr[s], sep_ptr[s + 1], sep_cell[s]
    width = sep_cell[s + 1] - n0
    for x in range(width):
        pooled[x] = nodes[n0 + x]
    for a in range(s0, s1):
        pool_weight[a] = sep_weight[a]
    before, others, at = power_value(pooled, width, sep_card, sep_weight, s0, s1, z, p, total), 0.0, 0
    for link in range(link_ptr[s], link_ptr[s + 1]):
        c, row, size = link_cluster[link], (link - link_ptr[s]) * width, link_size[link]
        first, last, step = link_first[link], axis_ptr[c + 1], link_step[link]
        table_index(card, stride, first, last, step, index, at)
        reduce_early(
            tables, cell_ptr[c], cell_ptr[c + 1] - cell_ptr[c], card, weight, axis_ptr[c], first, z, total, h, at
        )
        for x in range(width):
            shift[row + x] = 0.0
        value = shifted_term(h, at, size, index, shift, row, card, weight, first, last, z, p, total)
        if apart[link]:
            others += value
            marginal_onto(p, size, index, at, card, first, last, mu, row, width)
        else:
            before += value
            for x in range(width):
                mu[row + x] = -math.inf
            for k in range(size):
                x = row + index[at + k]
                mu[x] = max(mu[x], h[at + k])
            for x in range(width):
                pooled[x] += mu[row + x]
        own = 0
        for a in range(first, last):
            if stride[step + a] > 0:
                axes[(link - link_ptr[s]) * (s1 - s0) + own] = a
                pool_weight[s0 + own] += 0.0 if apart[link] else weight[a]
                own += 1
        at += size
    return before + others, others


@kernel
def find_direction(
    s: int, value: float, sep_ptr: Ints, sep_cell: Ints, link_ptr: Ints, apart: Bools, pool_weight: Floats,
    metric: Floats, pooled: Floats, belief: Floats, mu: Floats, direction: Floats, push: Floats,
) -> float:  # fmt: skip
    """Write the direction of every cluster apart, and their sum to ``push``; return the slope along it."""
    l0, l1, width = link_ptr[s], link_ptr[s + 1], sep_cell[s + 1] - sep_cell[s]
    spread = 0.0
    for a in range(sep_ptr[s], sep_ptr[s + 1]):
        spread = max(spread, pool_weight[a])
    for x in range(width):
        push[x] = pooled[x] - value
    for link in range(l0, l1):
        if apart[link]:
            row = (link - l0) * width
            spread += metric[link]
            for x in range(width):
                direction[row + x] = fast_log(max(mu[row + x], _LEAST))
                push[x] += metric[link] * direction[row + x]
    for x in range(width):
        belief[x + width] = push[x] / spread if pooled[x] > -math.inf else 0.0
        push[x] = 0.0
    slope = 0.0
    for link in range(l0, l1):
        if apart[link]:
            row = (link - l0) * width
            for x in range(width):
                move = metric[link] * (direction[row + x] - belief[x + width]) if pooled[x] > -math.inf else 0.0
                direction[row + x] = move
                push[x] += move
                slope += (belief[x] - mu[row + x]) * move
    return slope


@kernel
def try_shifts(
    s: int, t: float, axis_ptr: Ints, card: Ints, sep_cell: Ints, link_ptr: Ints, link_cluster: Ints, link_first: Ints,
    link_size: Ints, apart: Bools, weight: Floats, index: Ints, h: Floats, z: Floats, p: Floats, total: Floats,
    shift: Floats, direction: Floats, trial: Floats, fresh: Floats,
) -> float:  # fmt: skip
    """Return the values of the clusters apart at ``trial = shift + t direction``; marginals go to ``fresh``."""
    width = sep_cell[s + 1] - sep_cell[s]
    value, at = 0.0, 0
    for link in range(link_ptr[s], link_ptr[s + 1]):
        c, row, size = link_cluster[link], (link - link_ptr[s]) * width, link_size[link]
        if apart[link]:
            first, last = link_first[link], axis_ptr[c + 1]
            for x in range(row, row + width):
                trial[x] = shift[x] + t * direction[x]
            value += shifted_term(h, at, size, index, trial, row, card, weight, first, last, z, p, total)
            marginal_onto(p, size, index, at, card, first, last, fresh, row, width)
        at += size
    return value


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
    pool_weight: Floats, metric: Floats, index: Ints, h: Floats, z: Floats, p: Floats, total: Floats, belief: Floats,
    pooled: Floats, trial_pooled: Floats, push: Floats, shift: Floats, trial: Floats, direction: Floats, mu: Floats,
    fresh: Floats,
) -> float:  # fmt: skip
    """Take up to ``local_steps`` steps on the shifts of the clusters apart; return their values."""
    s0, s1, l0, l1 = sep_ptr[s], sep_ptr[s + 1], link_ptr[s], link_ptr[s + 1]
    width = sep_cell[s + 1] - sep_cell[s]
    value = power_value(pooled, width, sep_card, pool_weight, s0, s1, z, p, total)
    for _ in range(local_steps):
        chain_marginals(p, width, sep_card, s0, s1)
        for x in range(width):
            belief[x] = p[x]
        slope = find_direction(
            s, value, sep_ptr, sep_cell, link_ptr, apart, pool_weight, metric, pooled, belief, mu, direction, push
        )
        if not slope < -_FLAT * max(1.0, abs(value) + abs(others)):
            break
        t, accepted = 1.0, False
        for _ in range(_HALVINGS):
            found = try_shifts(
                s, t, axis_ptr, card, sep_cell, link_ptr, link_cluster, link_first, link_size, apart, weight, index, h,
                z, p, total, shift, direction, trial, fresh,
            )  # fmt: skip
            for x in range(width):
                trial_pooled[x] = pooled[x] + t * push[x]
            pool = power_value(trial_pooled, width, sep_card, pool_weight, s0, s1, z, p, total)
            gain = value + others - pool - found
            accepted = gain >= -_ARMIJO * t * slope or (t == 1.0 and gain >= 0.0)
            if accepted:
                break
            t *= min(max(-0.5 * t * slope / max(-gain - t * slope, 1e-300), 0.1), 0.5)
        if not accepted:
            break
        value, others = pool, found
        for x in range(width):
            pooled[x] = trial_pooled[x]
        for link in range(l0, l1):
            if apart[link]:
                row = (link - l0) * width
                metric[link] = learn_metric(width, row, t, direction, mu, fresh, metric[link])
                for x in range(row, row + width):
                    shift[x] = trial[x]
                    mu[x] = fresh[x]
    return others


@kernel
def settle(
    s: int, cell_ptr: Ints, sep_ptr: Ints, sep_card: Ints, sep_cell: Ints, link_ptr: Ints, link_cluster: Ints,
    link_size: Ints, apart: Bools, weight: Floats, sep_weight: Floats, pool_weight: Floats, index: Ints, axes: Ints,
    z: Floats, p: Floats, total: Floats, pooled: Floats, shift: Floats, mu: Floats, tables: Floats, nodes: Floats,
) -> float:  # fmt: skip
    """Share ``B`` out to the pooled terms and shift all tables; return the value of the pool."""
    s0, s1, l0, l1 = sep_ptr[s], sep_ptr[s + 1], link_ptr[s], link_ptr[s + 1]
    width, n_pool = sep_cell[s + 1] - sep_cell[s], 1
    for link in range(l0, l1):
        n_pool += 0 if apart[link] else 1
    value = power_value(pooled, width, sep_card, pool_weight, s0, s1, z, p, total)
    at = 0
    for link in range(l0, l1):
        c, row, size, own = link_cluster[link], (link - l0) * width, link_size[link], (link - l0) * (s1 - s0)
        if not apart[link]:
            for x in range(width):
                if pooled[x] > -math.inf:
                    part, place, left = value / n_pool, 0, width
                    for k in range(s0, s1):
                        inner = left // sep_card[k]
                        ratio = weight[axes[own + k - s0]] / pool_weight[k] if pool_weight[k] > 0.0 else 1.0 / n_pool
                        part += ratio * (z[place + x % left] - z[place + left + x % inner])
                        place += left
                        left = inner
                    shift[row + x] = mu[row + x] - part
        for begin in range(cell_ptr[c], cell_ptr[c + 1], size):
            for k in range(size):
                tables[begin + k] -= shift[row + index[at + k]]
        at += size
    for x in range(width):
        if pooled[x] > -math.inf:
            part, place, left = value / n_pool, 0, width
            for k in range(s0, s1):
                inner = left // sep_card[k]
                ratio = sep_weight[k] / pool_weight[k] if pool_weight[k] > 0.0 else 1.0 / n_pool
                part += ratio * (z[place + x % left] - z[place + left + x % inner])
                place += left
                left = inner
            nodes[sep_cell[s] + x] = part
    return value


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
    r"""Write new weights of one variable: :math:`w_t = \epsilon + S s_t`, an exponentiated-gradient step on :math:`s`."""
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


@kernel
def update_separators(
    order: Ints, begin: int, end: int, axis_ptr: Ints, card: Ints, cell_ptr: Ints, sep_ptr: Ints, sep_card: Ints,
    sep_cell: Ints, link_ptr: Ints, link_cluster: Ints, link_first: Ints, link_step: Ints, link_size: Ints,
    apart: Bools, stride: Ints, least: Floats, local_steps: int, moving: bool, tables: Floats, weight: Floats,
    nodes: Floats, sep_weight: Floats, pool_weight: Floats, metric: Floats, rate: Floats, drop: Floats, index: Ints,
    axes: Ints, h: Floats, z: Floats, p: Floats, total: Floats, belief: Floats, pooled: Floats, trial_pooled: Floats,
    push: Floats, shift: Floats, trial: Floats, direction: Floats, mu: Floats, fresh: Floats, entropy: Floats,
    held: Floats, proposed: Floats,
) -> None:  # fmt: skip
    """Update the separators ``order[begin:end]`` one after the other; ``drop[s]`` is what each took off the bound.

    Shapes: axes of cluster ``c`` are ``axis_ptr[c]:axis_ptr[c+1]`` with ``card`` and ``weight``; its table begins at
    ``cell_ptr[c]``. Axes of separator ``s`` are ``sep_ptr[s]:sep_ptr[s+1]`` with ``sep_card``, ``sep_weight`` and the
    least weight ``least``; its table begins at ``sep_cell[s]``. Its links name clusters; ``link_first`` is the first
    axis of the cluster that is in the separator, ``link_size`` the cells from there on, ``stride[link_step + a]`` the
    stride of axis ``a`` in the separator (0 outside), ``apart`` whether the cluster cannot be pooled. From ``tables``
    to ``drop`` it is state, the rest scratch (:class:`beliefs.inference.dual.state.Scratch`). Cost: the cells of the
    separator's clusters once to read and write, and (early axes eliminated) once for each evaluation, of which there
    are a few more than ``local_steps``, or for pooled clusters one.
    """
    for turn in range(begin, end):
        s = order[turn]
        before, others = gather(
            s, axis_ptr, card, cell_ptr, sep_ptr, sep_card, sep_cell, link_ptr, link_cluster, link_first, link_step,
            link_size, apart, stride, tables, weight, nodes, sep_weight, pool_weight, index, h, z, p, total, pooled,
            shift, mu, axes,
        )  # fmt: skip
        any_apart = False
        for link in range(link_ptr[s], link_ptr[s + 1]):
            any_apart |= apart[link]
        if any_apart:
            others = descend(
                s, others, local_steps, axis_ptr, card, sep_ptr, sep_card, sep_cell, link_ptr, link_cluster,
                link_first, link_size, apart, weight, pool_weight, metric, index, h, z, p, total, belief, pooled,
                trial_pooled, push, shift, trial, direction, mu, fresh,
            )  # fmt: skip
            if moving:
                others = move_weights(
                    s, others, axis_ptr, card, sep_ptr, sep_card, sep_cell, link_ptr, link_cluster, link_first,
                    link_size, apart, least, weight, sep_weight, pool_weight, rate, index, axes, h, z, p, total,
                    pooled, shift, direction, trial, fresh, entropy, held, proposed,
                )  # fmt: skip
        drop[s] = before - others - settle(
            s, cell_ptr, sep_ptr, sep_card, sep_cell, link_ptr, link_cluster, link_size, apart, weight, sep_weight,
            pool_weight, index, axes, z, p, total, pooled, shift, mu, tables, nodes,
        )  # fmt: skip
