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
the closed form of max nodes, Eq. (3.10) [ping2016]. The other clusters are *coupled* to it: a few steps along

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
from beliefs.kernels.dual.structure import Axes, BlockOptions, Decomposition, Links, Workspace
from beliefs.kernels.dual.tables import power_chain
from beliefs.kernels.dual.weights import move_weights
from beliefs.kernels.primitives.memory import addresses
from beliefs.kernels.primitives.strides import table_index
from beliefs.typing import Bools, Floats, Ints

__all__ = ["update_separators"]


@kernel
def gather(
    s: int, clusters: Axes, separators: Axes, links: Links, coupled: Bools, state: Decomposition, work: Workspace
) -> tuple[float, float]:
    """Marginalise each cluster onto separator ``s``; return the values of all terms, and of the coupled ones.

    Pooled clusters leave ``g`` in their row of ``mu``, the others their marginal; ``pooled`` is ``B``; ``axes`` gets
    the places of each cluster's weights of the separator's variables.
    """
    weight, sep_weight, pool_weight = state.weight, state.sep_weight, state.pool_weight
    index, axes, h, pooled, shift, mu = work.cell_map, work.axes, work.h, work.pooled, work.shift, work.mu
    s0, s1, n0, l0 = separators.ptr[s], separators.ptr[s + 1], separators.cell[s], links.ptr[s]
    width = separators.cell[s + 1] - n0
    for x in range(width):
        pooled[x] = state.sep_tables[n0 + x]
    for a in range(s0, s1):
        pool_weight[a] = sep_weight[a]
    before, others, at = power_value(pooled, width, separators.card, sep_weight, s0, s1, work.chain), 0.0, 0
    for link in range(l0, links.ptr[s + 1]):
        c, row, size = links.cluster[link], (link - l0) * width, links.size[link]
        first, last, step = links.first[link], clusters.ptr[c + 1], links.step[link]
        reduce_early(c, first, clusters, weight, state.tables, work.chain, h, at)
        for x in range(width):
            shift[row + x] = 0.0
        value = shifted_term(link, at, clusters, links, weight, shift, row, work)
        if coupled[link]:
            others += value
            marginal_onto(link, at, clusters, links, work, mu, row, width)
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
            if links.stride[step + a] > 0:
                axes[(link - l0) * (s1 - s0) + own] = a
                pool_weight[s0 + own] += 0.0 if coupled[link] else weight[a]
                own += 1
        at += size
    return before + others, others


@kernel
def write_part(
    s: int, place: int, constant: float, even: float, hand_on: bool, separators: Axes, small: Floats,
    state: Decomposition, work: Workspace,
) -> None:  # fmt: skip
    """Write one pooled term: its share of each step of the chain, and of the value (``constant``).

    It is that of the separator's link number ``place``, in ``fresh``; the separator's own, -1, in ``separator_term``.
    The share is that of its weight; where the pool has none (or, to ``hand_on``, hardly any), ``even``.
    """
    pool_weight, sep_card, axes, z, pooled = state.pool_weight, separators.card, work.axes, work.chain.z, work.pooled
    s0, s1, width = separators.ptr[s], separators.ptr[s + 1], separators.cell[s + 1] - separators.cell[s]
    out = work.separator_term if place < 0 else work.fresh
    row = 0 if place < 0 else place * width
    for x in range(width):
        part, at, size = constant, 0, width
        if pooled[x] > -math.inf:
            for k in range(s0, s1):
                inner = size // sep_card[k]
                ratio = even
                if pool_weight[k] > (small[k] if hand_on else 0.0):
                    own = state.sep_weight[k] if place < 0 else state.weight[axes[place * (s1 - s0) + k - s0]]
                    ratio = own / pool_weight[k]
                part += ratio * (z[at + x % size] - z[at + size + x % inner])
                at += size
                size = inner
        else:
            part = -math.inf
        out[row + x] = part


@kernel
def write_parts(
    s: int, value: float, hand_on: bool, separators: Axes, links: Links, options: BlockOptions, state: Decomposition,
    work: Workspace,
) -> None:  # fmt: skip
    """Write all pooled terms: link by link to ``fresh``, the separator's own to ``separator_term``."""
    coupled, revisited, small, l0, l1 = (
        options.coupled,
        options.revisited,
        options.small,
        links.ptr[s],
        links.ptr[s + 1],
    )
    n_pool, n_revisited = 1, 0
    for link in range(l0, l1):
        n_pool += 0 if coupled[link] else 1
        n_revisited += 1 if revisited[link] and not coupled[link] else 0
    constant = value / n_pool
    for link in range(l0, l1):
        if not coupled[link]:
            even = 1.0 / n_pool if n_revisited == 0 else (1.0 / n_revisited if revisited[link] else 0.0)
            write_part(s, link - l0, constant, even, hand_on, separators, small, state, work)
    even = 1.0 / n_pool if n_revisited == 0 else 0.0
    write_part(s, -1, constant, even, hand_on, separators, small, state, work)


@kernel
def parts_value(
    s: int, separators: Axes, links: Links, coupled: Bools, state: Decomposition, work: Workspace
) -> float:  # fmt: skip
    """Return the values of all pooled terms as written."""
    z, own_weight, sep_card = work.chain.z, state.group_weight, separators.card
    s0, s1, l0, l1 = separators.ptr[s], separators.ptr[s + 1], links.ptr[s], links.ptr[s + 1]
    width = separators.cell[s + 1] - separators.cell[s]
    value = power_value(work.separator_term, width, sep_card, state.sep_weight, s0, s1, work.chain)
    for link in range(l0, l1):
        if not coupled[link]:
            for k in range(s0, s1):
                own_weight[k] = state.weight[work.axes[(link - l0) * (s1 - s0) + k - s0]]
            for x in range(width):
                z[x] = work.fresh[(link - l0) * width + x]
            value += power_chain(width, sep_card, own_weight, s0, s1, work.chain)
    return value


@kernel
def shift_tables(
    s: int, clusters: Axes, separators: Axes, links: Links, coupled: Bools, state: Decomposition, work: Workspace
) -> None:
    """Subtract the shifts from the tables of all clusters of a separator, and renew its own table and its scores."""
    index, pooled, shift, tables = work.cell_map, work.pooled, work.shift, state.tables
    l0, n0, at = links.ptr[s], separators.cell[s], 0
    width = separators.cell[s + 1] - n0
    for link in range(l0, links.ptr[s + 1]):
        c, row, size = links.cluster[link], (link - l0) * width, links.size[link]
        if not coupled[link]:
            for x in range(width):
                shift[row + x] = work.mu[row + x] - work.fresh[row + x] if pooled[x] > -math.inf else 0.0
        for begin in range(clusters.cell[c], clusters.cell[c + 1], size):
            for k in range(size):
                tables[begin + k] -= shift[row + index[at + k]]
        at += size
    for x in range(width):
        state.scores[n0 + x] = pooled[x]
        state.sep_tables[n0 + x] = work.separator_term[x]


@kernel
def distribute_pool(
    s: int, budget: float, clusters: Axes, separators: Axes, links: Links, options: BlockOptions, state: Decomposition,
    work: Workspace,
) -> float:  # fmt: skip
    """Share ``B`` out to the pooled terms and shift all tables; return the value of the pool.

    Where the pool has hardly any weight, all of it is handed on to the clusters that are revisited, if that leaves half
    of what the block has gained on ``budget``.
    """
    pool_weight, pooled, chain, sep_card = state.pool_weight, work.pooled, work.chain, separators.card
    s0, s1, width = separators.ptr[s], separators.ptr[s + 1], separators.cell[s + 1] - separators.cell[s]
    slight = False
    for k in range(s0, s1):
        slight |= 0.0 < pool_weight[k] <= options.small[k]
    value = power_value(pooled, width, sep_card, pool_weight, s0, s1, chain)
    write_parts(s, value, slight, separators, links, options, state, work)
    if slight:
        found = parts_value(s, separators, links, options.coupled, state, work)
        if found <= 0.5 * (budget + value):
            value = found
        else:
            power_value(pooled, width, sep_card, pool_weight, s0, s1, chain)
            write_parts(s, value, False, separators, links, options, state, work)
    shift_tables(s, clusters, separators, links, options.coupled, state, work)
    return value


@kernel
def update_separators(
    order: Ints, begin: int, end: int, clusters: Axes, separators: Axes, links: Links, options: BlockOptions,
    state: Decomposition, work: Workspace,
) -> None:  # fmt: skip
    """Update the separators ``order[begin:end]`` one after the other; ``decrease[s]`` is what each takes off the bound.

    Shapes: see :mod:`beliefs.kernels.dual.structure`. Cost: the cells of the separator's clusters once to read and
    write, and (early axes eliminated) once for each evaluation, of which there are a few more than ``local_steps``, or
    for pooled clusters one. Numerics: states that are ``-inf`` in the pool stay so, and no shift moves there.
    """
    card, stride, cell_map = clusters.card, links.stride, work.cell_map
    clusters, separators, links = addresses(clusters), addresses(separators), addresses(links)
    options, state, work = addresses(options), addresses(state), addresses(work)
    for turn in range(begin, end):
        s = order[turn]
        at = 0
        for link in range(links.ptr[s], links.ptr[s + 1]):
            last = clusters.ptr[links.cluster[link] + 1]
            at += table_index(card, stride, links.first[link], last, links.step[link], 0, cell_map, at)
        before, others = gather(s, clusters, separators, links, options.coupled, state, work)
        any_coupled = False
        for link in range(links.ptr[s], links.ptr[s + 1]):
            any_coupled |= options.coupled[link]
        if any_coupled:
            others = descend(s, others, clusters, separators, links, options, state, work)
            if options.moves_weights:
                others = move_weights(s, others, clusters, separators, links, options, state, work)
        pool = distribute_pool(s, before - others, clusters, separators, links, options, state, work)
        state.decrease[s] = before - others - pool
