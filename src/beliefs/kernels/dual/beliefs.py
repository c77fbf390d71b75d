r"""Beliefs from a decomposition whose terms do not quite agree.

Every cluster says how its earlier variables depend on its later ones, :math:`\mu_c(x_k | x_{k+1:m})`. What it says
about its last ones may be worth little: where their weight is near 0, that is a maximum over nearly equal values. So
variables are taken from the last eliminated to the first; the belief of each is the mean over all terms, by weight,

.. math:: \mu_i(x_i) = \sum_t w_i^t \sum_{x_{c \setminus i}} \mu_t(x_i | x_{later})\, b_t(x_{later}) / \tau_i,

and each cluster's :math:`b_t` is then scaled to it before earlier variables are asked. At the optimum all terms agree
and this is the gradient of the bound; on pairwise forests with orders of width 1 it is exact.
"""

from __future__ import annotations

from beliefs.kernels._jit import kernel
from beliefs.kernels.dual.structure import TINY, Axes, Chain, ChainSteps
from beliefs.kernels.dual.tables import term_chain
from beliefs.kernels.primitives.memory import address, addresses
from beliefs.typing import Floats, Ints

__all__ = ["cluster_chains", "consensus_beliefs", "decode_chains"]


@kernel
def cluster_chains(
    clusters: Axes, weight: Floats, tables: Floats, chain: Chain, begin: Ints, in_logs: bool, chains: Floats
) -> None:
    """Write the conditionals of every cluster, axis by axis, to ``chains``; those of axis ``a`` at ``begin[a]``.

    ``in_logs``: the tables themselves instead, earlier axes eliminated.
    """
    n_clusters = clusters.ptr.size - 1
    clusters, weight, chain = addresses(clusters), address(weight), addresses(chain)
    card, z, p = clusters.card, chain.z, chain.p
    for c in range(n_clusters):
        term_chain(c, clusters, weight, tables, chain)
        size, at = clusters.cell[c + 1] - clusters.cell[c], 0
        for a in range(clusters.ptr[c], clusters.ptr[c + 1]):
            for k in range(size):
                chains[begin[a] + k] = z[at + k] if in_logs else p[at + k]
            at += size
            size //= card[a]


@kernel
def scale_axis(a: int, size: int, is_last: bool, card: int, begin: Ints, chains: Floats, own: Floats) -> None:
    """Turn the conditional of axis ``a`` to a joint belief, and write its marginal to ``own``."""
    inner, at = size // card, begin[a]
    for x in range(card):
        own[x] = 0.0
        for y in range(inner):
            if not is_last:
                chains[at + x * inner + y] *= chains[begin[a + 1] + y]
            own[x] += chains[at + x * inner + y]


@kernel
def consensus_beliefs(
    order: Ints, clusters: Axes, steps: ChainSteps, weight: Floats, state_ptr: Ints, own: Floats, chains: Floats,
    mu_var: Floats,
) -> None:  # fmt: skip
    """Write the belief of each variable of ``order``, from the last to the first, and make all chains joint beliefs.

    ``mu_var`` holds the separators' shares on entry, weight times belief; ``own`` is scratch. Afterwards the belief of
    cluster ``c`` begins where the steps of its first axis do. Cost: the cells of all clusters, a few times.
    """
    level, axis_cluster, var_ptr, var_axes = steps.begin, steps.cluster, steps.var_ptr, steps.var_axes
    axis_ptr, card = clusters.ptr, clusters.card
    for turn in range(order.size - 1, -1, -1):
        v = order[turn]
        begin, states = state_ptr[v], state_ptr[v + 1] - state_ptr[v]
        for i in range(var_ptr[v], var_ptr[v + 1]):
            a = var_axes[i]
            size = 1
            for b in range(a, axis_ptr[axis_cluster[a] + 1]):
                size *= card[b]
            scale_axis(a, size, a + 1 == axis_ptr[axis_cluster[a] + 1], states, level, chains, own)
            for x in range(states):
                mu_var[begin + x] += max(weight[a], TINY) * own[x]
        mass = 0.0
        for x in range(states):
            mass += mu_var[begin + x]
        for x in range(states):
            mu_var[begin + x] = mu_var[begin + x] / mass if mass > 0.0 else 1.0 / states
        for i in range(var_ptr[v], var_ptr[v + 1]):
            a = var_axes[i]
            inner = 1
            for b in range(a + 1, axis_ptr[axis_cluster[a] + 1]):
                inner *= card[b]
            for x in range(states):
                found = 0.0
                for y in range(inner):
                    found += chains[level[a] + x * inner + y]
                ratio = mu_var[begin + x] / found if found > 0.0 else 0.0
                for y in range(inner):
                    chains[level[a] + x * inner + y] *= ratio
                if inner == 1:  # a maximum leaves nothing to scale where it is not
                    chains[level[a] + x] = mu_var[begin + x]


@kernel
def decode_chains(
    order: Ints, clusters: Axes, steps: ChainSteps, node: Ints, separators: Axes, chains: Floats, sep_tables: Floats,
    score: Floats, states: Ints,
) -> None:  # fmt: skip
    r"""Choose the states of ``order``, from the last to the first, each given the later ones in its clusters.

    Equivalent to :math:`\hat x_i = \arg\max_{x_i} n_i(x_i) + \sum_{c \ni i} Z_c(x_i, \hat x_{later})`, ties to the
    first. ``chains`` are those of :func:`cluster_chains` in logs; ``score`` is scratch.
    """
    level, axis_cluster, var_ptr, var_axes = steps.begin, steps.cluster, steps.var_ptr, steps.var_axes
    axis_ptr, axis_var, card, sep_cell = clusters.ptr, clusters.var, clusters.card, separators.cell
    for turn in range(order.size - 1, -1, -1):
        v = order[turn]
        begin = sep_cell[node[v]]
        n_states = sep_cell[node[v] + 1] - begin
        for x in range(n_states):
            score[x] = sep_tables[begin + x]
        for i in range(var_ptr[v], var_ptr[v + 1]):
            a = var_axes[i]
            cell, inner = 0, 1
            for b in range(axis_ptr[axis_cluster[a] + 1] - 1, a, -1):
                cell += states[axis_var[b]] * inner
                inner *= card[b]
            for x in range(n_states):
                score[x] += chains[level[a] + x * inner + cell]
        best = 0
        for x in range(1, n_states):
            best = x if score[x] > score[best] else best
        states[v] = best
