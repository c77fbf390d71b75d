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
from beliefs.kernels.dual.local import marginal_onto, power_value, reduce_early, shifted_term
from beliefs.kernels.dual.shifts import descend
from beliefs.kernels.dual.tables import power_chain, table_index
from beliefs.kernels.dual.weights import move_weights
from beliefs.typing import Bools, Floats, Ints

__all__ = ["update_separators"]


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
def write_parts(
    width: int, value: float, n_pool: int, even: float, sep_card: Ints, s0: int, s1: int, weight: Floats, axes: Ints,
    own: int, pool_weight: Floats, small: Floats, hand_on: bool, z: Floats, pooled: Floats, out: Floats, row: int,
) -> None:  # fmt: skip
    """Write one pooled term: its share of each step of the chain in ``z``, and of the value.

    The share is that of its weight; where the pool has none (or, to ``hand_on``, hardly any), ``even``. Its weights
    are at ``axes[own:]`` in ``weight``, with ``own < 0`` at ``s0:s1``.
    """
    for x in range(width):
        part, at, size = value / n_pool, 0, width
        if pooled[x] > -math.inf:
            for k in range(s0, s1):
                inner = size // sep_card[k]
                ratio = even
                if pool_weight[k] > (small[k] if hand_on else 0.0):
                    ratio = (weight[k] if own < 0 else weight[axes[own + k - s0]]) / pool_weight[k]
                part += ratio * (z[at + x % size] - z[at + size + x % inner])
                at += size
                size = inner
        else:
            part = -math.inf
        out[row + x] = part


@kernel
def share_out(
    s: int, value: float, hand_on: bool, sep_ptr: Ints, sep_card: Ints, sep_cell: Ints, link_ptr: Ints, apart: Bools,
    ahead: Bools, weight: Floats, sep_weight: Floats, pool_weight: Floats, small: Floats, axes: Ints, z: Floats,
    pooled: Floats, parts: Floats, node: Floats,
) -> None:  # fmt: skip
    """Write all pooled terms: link by link to ``parts``, the separator's own to ``node``."""
    s0, s1, l0, l1 = sep_ptr[s], sep_ptr[s + 1], link_ptr[s], link_ptr[s + 1]
    width, n_pool, n_ahead = sep_cell[s + 1] - sep_cell[s], 1, 0
    for link in range(l0, l1):
        n_pool += 0 if apart[link] else 1
        n_ahead += 1 if ahead[link] and not apart[link] else 0
    for link in range(l0, l1):
        if not apart[link]:
            even = 1.0 / n_pool if n_ahead == 0 else (1.0 / n_ahead if ahead[link] else 0.0)
            write_parts(
                width, value, n_pool, even, sep_card, s0, s1, weight, axes, (link - l0) * (s1 - s0), pool_weight,
                small, hand_on, z, pooled, parts, (link - l0) * width,
            )  # fmt: skip
    even = 1.0 / n_pool if n_ahead == 0 else 0.0
    write_parts(
        width, value, n_pool, even, sep_card, s0, s1, sep_weight, axes, -1, pool_weight, small, hand_on, z, pooled,
        node, 0,
    )  # fmt: skip


@kernel
def parts_value(
    s: int, sep_ptr: Ints, sep_card: Ints, sep_cell: Ints, link_ptr: Ints, apart: Bools, weight: Floats,
    sep_weight: Floats, matched: Floats, axes: Ints, z: Floats, p: Floats, total: Floats, parts: Floats, node: Floats,
) -> float:  # fmt: skip
    """Return the values of all pooled terms as written."""
    s0, s1, l0, l1 = sep_ptr[s], sep_ptr[s + 1], link_ptr[s], link_ptr[s + 1]
    width = sep_cell[s + 1] - sep_cell[s]
    value = power_value(node, width, sep_card, sep_weight, s0, s1, z, p, total)
    for link in range(l0, l1):
        if not apart[link]:
            for k in range(s0, s1):
                matched[k] = weight[axes[(link - l0) * (s1 - s0) + k - s0]]
            for x in range(width):
                z[x] = parts[(link - l0) * width + x]
            value += power_chain(z, p, width, sep_card, matched, s0, s1, total)
    return value


@kernel
def settle(
    s: int, budget: float, cell_ptr: Ints, sep_ptr: Ints, sep_card: Ints, sep_cell: Ints, link_ptr: Ints,
    link_cluster: Ints, link_size: Ints, apart: Bools, ahead: Bools, weight: Floats, sep_weight: Floats,
    pool_weight: Floats, matched: Floats, small: Floats, index: Ints, axes: Ints, z: Floats, p: Floats, total: Floats,
    pooled: Floats, push: Floats, shift: Floats, fresh: Floats, mu: Floats, tables: Floats, nodes: Floats,
    marks: Floats,
) -> float:  # fmt: skip
    """Share ``B`` out to the pooled terms and shift all tables; return the value of the pool.

    Where the pool has hardly any weight, all of it is handed on to the clusters ahead, if that leaves half of what
    the block has gained on ``budget``.
    """
    s0, s1, l0, l1 = sep_ptr[s], sep_ptr[s + 1], link_ptr[s], link_ptr[s + 1]
    width, at, slight = sep_cell[s + 1] - sep_cell[s], 0, False
    for k in range(s0, s1):
        slight |= 0.0 < pool_weight[k] <= small[k]
    value = power_value(pooled, width, sep_card, pool_weight, s0, s1, z, p, total)
    share_out(
        s, value, slight, sep_ptr, sep_card, sep_cell, link_ptr, apart, ahead, weight, sep_weight, pool_weight, small,
        axes, z, pooled, fresh, push,
    )  # fmt: skip
    if slight:
        found = parts_value(
            s, sep_ptr, sep_card, sep_cell, link_ptr, apart, weight, sep_weight, matched, axes, z, p, total, fresh,
            push,
        )  # fmt: skip
        if found <= 0.5 * (budget + value):
            value = found
        else:
            power_value(pooled, width, sep_card, pool_weight, s0, s1, z, p, total)
            share_out(
                s, value, False, sep_ptr, sep_card, sep_cell, link_ptr, apart, ahead, weight, sep_weight, pool_weight,
                small, axes, z, pooled, fresh, push,
            )  # fmt: skip
    for link in range(l0, l1):
        c, row, size = link_cluster[link], (link - l0) * width, link_size[link]
        if not apart[link]:
            for x in range(width):
                shift[row + x] = mu[row + x] - fresh[row + x] if pooled[x] > -math.inf else 0.0
        for begin in range(cell_ptr[c], cell_ptr[c + 1], size):
            for k in range(size):
                tables[begin + k] -= shift[row + index[at + k]]
        at += size
    for x in range(width):
        marks[sep_cell[s] + x] = pooled[x]
        nodes[sep_cell[s] + x] = push[x]
    return value


@kernel
def update_separators(
    order: Ints, begin: int, end: int, axis_ptr: Ints, card: Ints, cell_ptr: Ints, sep_ptr: Ints, sep_card: Ints,
    sep_cell: Ints, link_ptr: Ints, link_cluster: Ints, link_first: Ints, link_step: Ints, link_size: Ints,
    apart: Bools, ahead: Bools, stride: Ints, least: Floats, small: Floats, local_steps: int, moving: bool,
    tables: Floats, weight: Floats, nodes: Floats, sep_weight: Floats, pool_weight: Floats, matched: Floats,
    metric: Floats, rate: Floats, drop: Floats, marks: Floats, index: Ints, axes: Ints, h: Floats, z: Floats,
    p: Floats, total: Floats, belief: Floats, pooled: Floats, trial_pooled: Floats, push: Floats, shift: Floats,
    trial: Floats, direction: Floats, mu: Floats, fresh: Floats, entropy: Floats, held: Floats, proposed: Floats,
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
                link_first, link_size, apart, weight, pool_weight, metric, matched, small, ahead, index, axes, h, z, p,
                total, belief, pooled, trial_pooled, push, shift, trial, direction, mu, fresh,
            )  # fmt: skip
            if moving:
                others = move_weights(
                    s, others, axis_ptr, card, sep_ptr, sep_card, sep_cell, link_ptr, link_cluster, link_first,
                    link_size, apart, least, weight, sep_weight, pool_weight, rate, index, axes, h, z, p, total,
                    pooled, shift, direction, trial, fresh, entropy, held, proposed,
                )  # fmt: skip
        drop[s] = before - others - settle(
            s, before - others, cell_ptr, sep_ptr, sep_card, sep_cell, link_ptr, link_cluster, link_size, apart, ahead,
            weight, sep_weight, pool_weight, matched, small, index, axes, z, p, total, pooled, push, shift, fresh, mu,
            tables, nodes, marks,
        )  # fmt: skip
