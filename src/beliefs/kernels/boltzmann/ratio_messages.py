r"""Belief propagation between two layers of binary units with messages as ratios: one division each, no exponential.

A message to a binary unit is one number, its value for 1 over that for 0. With :math:`T` the odds of the sender and
:math:`E` the ratio that comes back to it, Eqs. (6.10) and (6.11) of [ping2016] are

.. math:: r = \frac{E + e^{W} T}{E + T} \quad \text{(sums)}, \qquad
          r = \frac{\max(E, e^{W} T)}{\max(E, T)} \quad \text{(maxima)}

and the odds of a unit are those of its bias times all that it receives, (6.13) and (6.14). A row of the matrix is
visited once a sweep: messages to the visible unit, its odds, messages back, which replace those that came.

Ratios lie between 1 and :math:`e^{W}`. As many of them as are sure to stay numbers (``block``) are multiplied before a
logarithm is taken, in float64. Odds are kept between :math:`e^{\pm C}` (``most``), so far beyond all weights that
messages do not feel it. Weights too large for that take :mod:`beliefs.kernels.boltzmann.log_messages`.
"""

from __future__ import annotations

from typing import Any

from beliefs.kernels._jit import kernel, linear_kernel
from beliefs.kernels.boltzmann.between_layers import (
    Beliefs,
    Couplings,
    Rule,
    Workspace,
    softplus,
    start_beliefs,
    start_messages,
    update_beliefs,
)
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.typing import Floats

__all__ = ["ratio_pairs", "ratio_rows", "ratio_sweeps"]

_NEAR = 8.0  # times the tolerance: the next sweep may be the last one, whose messages pairs are made of


@linear_kernel
def product(values: Any) -> float:
    """Return the product of entries, in float64."""
    p = 1.0
    for j in range(values.size):
        p *= values[j]
    return p


@kernel
def log_product(values: Any, block: int) -> float:
    """Return the log of the product of a row, a logarithm for ``block`` factors."""
    total = 0.0
    for begin in range(0, values.size, block):
        total += fast_log(product(values[begin : begin + block]))
    return total


@kernel
def to_visible(between: Any, odds: Any, back: Any, maximise: bool, out: Any) -> None:
    """Write the messages of all hidden units to a visible one."""
    if maximise:
        for j in range(out.size):
            out[j] = max(back[j], between[j] * odds[j]) / max(back[j], odds[j])
    else:
        for j in range(out.size):
            out[j] = (back[j] + between[j] * odds[j]) / (back[j] + odds[j])


@kernel
def to_hidden(between: Any, odds: Any, back: Any, maximise: bool, out: Any, products: Floats) -> None:
    """Write the messages of a visible unit to all hidden ones, and multiply them into products."""
    if maximise:
        for j in range(out.size):
            r = max(back[j], between[j] * odds) / max(back[j], odds)
            out[j] = r
            products[j] *= r
    else:
        for j in range(out.size):
            r = (back[j] + between[j] * odds) / (back[j] + odds)
            out[j] = r
            products[j] *= r


@kernel
def ratio_sweep(
    couplings: Couplings, rule: Rule, work: Workspace, hidden_log_odds: Floats, r: int, keep: bool, out: Floats
) -> None:
    """Send all messages once, hidden to visible and back, and write the log odds that follow.

    Equivalent to an iteration of Algorithm 6.1 [ping2016].
    Shapes: as in the structures; ``hidden_log_odds (n_hidden,)`` in and out, ``out (n_visible,)``; ``keep``: the
    messages to visible units are kept, a row each.
    Cost: two divisions for a pair of units.
    Numerics: see the file.
    """
    between, most = couplings.between, rule.most
    n, m = between.shape
    odds, products = work.odds, work.products
    for j in range(m):
        odds[j] = fast_exp(min(max(hidden_log_odds[j], -most), most))
        products[j] = 1.0
        hidden_log_odds[j] = couplings.hidden_bias[r, j]
    for i in range(n):
        came = work.came[i if keep else 0]
        to_visible(between[i], odds[:m], work.sent[i], rule.maximise, came)
        x = couplings.visible_bias[r, i] + log_product(came, rule.block)
        out[i] = x
        odds[m + i] = fast_exp(min(max(x, -most), most))
        to_hidden(between[i], odds[m + i], came, rule.maximise, work.sent[i], products)
        if (i + 1) % rule.block == 0 or i == n - 1:
            for j in range(m):
                hidden_log_odds[j] += fast_log(products[j])
                products[j] = 1.0


@kernel
def ratio_sweeps(
    couplings: Couplings, rule: Rule, work: Workspace, beliefs: Beliefs, r: int, fresh: bool, pairs: bool
) -> None:
    """Take a row through its sweeps; those go on from ``work.sent`` and the row's beliefs unless it is ``fresh``.

    Where pairs are wanted the messages of the last sweep are kept. Should it have met the tolerance too early to know
    that it was the last one, there is one more.
    Shapes, Cost, Numerics: as :func:`ratio_sweep`.
    """
    visible, hidden = beliefs.visible_log_odds[r], beliefs.hidden_log_odds[r]
    if fresh:
        start_messages(1.0, work.sent)
        start_beliefs(couplings, work, beliefs, r)
    change, last = 2.0, rule.max_iters - 1
    for t in range(rule.max_iters):
        keep = pairs and (t == last or change <= _NEAR * rule.tol)
        ratio_sweep(couplings, rule, work, hidden, r, keep, visible)
        change = update_beliefs(work, beliefs, r)
        if change <= rule.tol and (keep or not pairs):
            break


@kernel
def pair_row(between: Any, came: Any, sent: Any, p: float, q: Floats, ratios: Floats, out: Any) -> None:
    """Write a row of pair beliefs and their normalisers; ``p`` and ``q`` are P(v = 1), P(h = 1)."""
    for j in range(out.size):
        u, w = came[j], sent[j]
        both = between[j] * (p * q[j])
        total = both + (w * (p * (1.0 - q[j])) + u * ((1.0 - p) * q[j])) + (u * w) * ((1.0 - p) * (1.0 - q[j]))
        out[j] = both / total
        ratios[j] = total / (u * w)


@kernel
def add_rows(values: Any, out: Any) -> None:
    """Add one row to another."""
    for j in range(out.size):
        out[j] += values[j]


@kernel
def ratio_pairs(couplings: Couplings, rule: Rule, work: Workspace, beliefs: Beliefs, r: int, out: Any) -> float:
    r"""Add the pair beliefs of a row (6.15) and return its Bethe value.

    .. math::
        \log Z \approx \sum_i \log(1 + T_i) + \sum_j \log(1 + T_j)
            + \sum_{ij} \log \frac{Z_{ij}}{(1 + T_i)(1 + T_j)}

    with :math:`Z_{ij}` the sum of the pair's weight times what comes from elsewhere: stationary where messages settle.
    Messages that came are replaced by pair beliefs.
    Shapes: ``out (n_visible, n_hidden)``, added to; of size 0 it is left alone.
    Cost: two divisions a pair.
    Numerics: probabilities in the place of odds, so nothing overflows.
    """
    between = couplings.between
    n, m = between.shape
    hidden = beliefs.hidden[r]
    block = max(rule.block // 2, 1)
    total = 0.0
    for i in range(n):
        came = work.came[i]
        pair_row(between[i], came, work.sent[i], beliefs.visible[r, i], hidden, work.products, came)
        total += log_product(work.products[:m], block) + softplus(beliefs.visible_log_odds[r, i])
        if out.size:
            add_rows(came, out[i])
    for j in range(m):
        total += softplus(beliefs.hidden_log_odds[r, j])
    return total


@kernel
def ratio_rows(
    couplings: Couplings, rule: Rule, work: Workspace, beliefs: Beliefs, begin: int, end: int, log_z: Floats, pairs: Any
) -> None:
    """Take rows ``begin`` to ``end`` through their sweeps; with ``log_z``, add up pair beliefs and write the values.

    Shapes: ``log_z (rows,)`` or of size 0, ``pairs (n_visible, n_hidden)`` or of size 0.
    Cost, Numerics: as :func:`ratio_sweep` and :func:`ratio_pairs`.
    """
    for r in range(begin, end):
        ratio_sweeps(couplings, rule, work, beliefs, r, True, log_z.size > 0)
        if log_z.size:
            log_z[r] = ratio_pairs(couplings, rule, work, beliefs, r, pairs)
