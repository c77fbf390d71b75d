r"""Belief propagation between two layers of binary units with messages as ratios: a division for two, no exponential.

A message to a binary unit is one number, its value for 1 over that for 0. With :math:`T` the odds of the sender and
:math:`E` the ratio that comes back to it, Eqs. (6.10) and (6.11) of [ping2016] are

.. math:: r = \frac{E + e^{W} T}{E + T} \quad \text{(sums)}, \qquad
          r = \frac{\max(E, e^{W} T)}{\max(E, T)} \quad \text{(maxima)}

and the odds of a unit are those of its bias times all that it receives, (6.13) and (6.14). A row of the matrix is
visited once a sweep: messages to the visible unit, its odds, messages back, each in the place of the one before. Two
rows are visited together, since two ratios can be had by one division: with denominators a and b, :math:`1/a` is
:math:`b \cdot 1/(ab)`. It costs two roundings more, and the product of two denominators must be a number.

Ratios lie between 1 and :math:`e^{W}`. As many of them as are sure to stay numbers (``block``) are multiplied before a
logarithm is taken, in float64. Odds are kept between :math:`e^{\pm C}` (``most``), so far beyond all weights that
messages do not feel it, and below the square root of the largest number. Weights too large for that take
:mod:`beliefs.kernels.boltzmann.log_messages`.
"""

from __future__ import annotations

from typing import Any

from beliefs.kernels._jit import kernel, linear_kernel
from beliefs.kernels.boltzmann.between_layers import (
    Beliefs,
    Couplings,
    Rule,
    Workspace,
    remember,
    restless,
    softplus,
    start_beliefs,
    start_messages,
    update_beliefs,
)
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.typing import Floats

__all__ = ["log_product", "ratio_pairs", "ratio_rows", "ratio_sweeps"]

_NEAR = 8.0  # times the tolerance: the next sweep may be the last one, whose messages pairs are made of


@linear_kernel
def product(values: Any) -> float:
    """Return the product of entries, in float64."""
    p = 1.0
    for j in range(values.size):
        p *= values[j]
    return p


@linear_kernel
def products(first: Any, second: Any) -> tuple[float, float]:
    """Return the products of the entries of two rows of one length, in float64."""
    p = q = 1.0
    for j in range(first.size):
        p *= first[j]
        q *= second[j]
    return p, q


@kernel
def log_product(values: Any, block: int) -> float:
    """Return the log of the product of a row, a logarithm for ``block`` factors."""
    total = 0.0
    for begin in range(0, values.size, block):
        total += fast_log(product(values[begin : begin + block]))
    return total


@kernel
def log_products(first: Any, second: Any, block: int) -> tuple[float, float]:
    """Return the same of two rows."""
    x = y = 0.0
    for begin in range(0, first.size, block):
        p, q = products(first[begin : begin + block], second[begin : begin + block])
        x += fast_log(p)
        y += fast_log(q)
    return x, y


@kernel
def sum_ratios(between: Any, other: Any, s: Any, t: Any, b: Any, c: Any, one: Any) -> tuple[Any, Any]:
    """Return the answers to ratios ``b`` and ``c`` that came from units of odds ``s`` and ``t``; one division."""
    d, e = b + s, c + t
    shared = one / (d * e)
    return (b + between * s) * (e * shared), (c + other * t) * (d * shared)


@kernel
def max_ratios(between: Any, other: Any, s: Any, t: Any, b: Any, c: Any, one: Any) -> tuple[Any, Any]:
    """Return the same of maxima."""
    d, e = max(b, s), max(c, t)
    shared = one / (d * e)
    return max(b, between * s) * (e * shared), max(c, other * t) * (d * shared)


@kernel
def to_visible(between: Any, other: Any, odds: Any, maximise: bool, back: Any, back_other: Any) -> None:
    """Replace what two visible units have sent to all hidden ones by what these answer."""
    one = odds.dtype.type(1.0)
    if maximise:
        for j in range(odds.size):
            t = odds[j]
            back[j], back_other[j] = max_ratios(between[j], other[j], t, t, back[j], back_other[j], one)
    else:
        for j in range(odds.size):
            t = odds[j]
            back[j], back_other[j] = sum_ratios(between[j], other[j], t, t, back[j], back_other[j], one)


@kernel
def to_hidden(between: Any, other: Any, odds: Any, maximise: bool, back: Any, back_other: Any) -> None:
    """Replace what all hidden units have sent to two visible ones, of these two odds, by what these answer."""
    s, t = odds[0], odds[1]
    one = odds.dtype.type(1.0)
    if maximise:
        for j in range(back.size):
            back[j], back_other[j] = max_ratios(between[j], other[j], s, t, back[j], back_other[j], one)
    else:
        for j in range(back.size):
            back[j], back_other[j] = sum_ratios(between[j], other[j], s, t, back[j], back_other[j], one)


@kernel
def multiply(first: Any, second: Any, out: Floats) -> None:
    """Multiply two rows into a third."""
    for j in range(out.size):
        out[j] *= first[j] * second[j]


@kernel
def start_row(out: Any) -> None:
    """Make a row say nothing."""
    for j in range(out.size):
        out[j] = 1.0


@kernel
def copy_row(values: Any, out: Any) -> None:
    """Copy a row."""
    for j in range(out.size):
        out[j] = values[j]


@kernel
def ratio_sweep(
    couplings: Couplings, rule: Rule, work: Workspace, hidden_log_odds: Floats, r: int, keep: bool, out: Floats
) -> None:
    """Send all messages once, hidden to visible and back, and write the log odds that follow.

    Equivalent to an iteration of Algorithm 6.1 [ping2016].
    Shapes: as in the structures; ``hidden_log_odds (n_hidden,)`` in and out, ``out (n_visible,)``; ``keep``: the
    messages to visible units are kept, a row each. The last of an odd number of visible units is visited beside
    ``work.spare``, which says nothing.
    Cost: a division for a pair of units.
    Numerics: see the file.
    """
    between, most = couplings.between, rule.most
    n, m = between.shape
    odds, gathered, n_gathered = work.odds, work.products, 0
    for j in range(m):
        odds[j] = fast_exp(min(max(hidden_log_odds[j], -most), most))
        gathered[j] = 1.0
        hidden_log_odds[j] = couplings.hidden_bias[r, j]
    for i in range(0, n, 2):
        k = min(i + 1, n - 1)
        alone = k == i
        one, two = work.sent[i], work.spare if alone else work.sent[k]
        if alone:
            start_row(two)
        to_visible(between[i], between[k], odds[:m], rule.maximise, one, two)
        x, y = log_products(one, two, rule.block)
        out[k] = couplings.visible_bias[r, k] + y
        out[i] = couplings.visible_bias[r, i] + x
        if keep:
            copy_row(two, work.came[k])
            copy_row(one, work.came[i])
        odds[m + i] = fast_exp(min(max(out[i], -most), most))
        odds[m + i + 1] = fast_exp(min(max(out[k], -most), most))
        to_hidden(between[i], between[k], odds[m + i : m + i + 2], rule.maximise, one, two)
        if alone:
            start_row(two)
        multiply(one, two, gathered)
        n_gathered += 2
        if n_gathered + 2 > rule.block or i + 2 >= n:
            n_gathered = 0
            for j in range(m):
                hidden_log_odds[j] += fast_log(gathered[j])
                gathered[j] = 1.0


@kernel
def ratio_sweeps(
    couplings: Couplings, rule: Rule, work: Workspace, beliefs: Beliefs, r: int, fresh: bool, pairs: bool
) -> None:
    """Take a row through its sweeps; those go on from ``work.sent`` and the row's beliefs unless it is ``fresh``.

    They end once beliefs stand still, the saturated ones too. Where pairs are wanted the messages of the last sweep are
    kept. Should it have met the tolerance too early to know that it was the last one, there is one more.
    Shapes, Cost, Numerics: as :func:`ratio_sweep`.
    """
    visible, hidden = beliefs.visible_log_odds[r], beliefs.hidden_log_odds[r]
    if fresh:
        start_messages(1.0, work.sent)
        start_beliefs(couplings, work, beliefs, r)
    change, last = 2.0, rule.max_iters - 1
    for t in range(rule.max_iters):
        keep = pairs and (t == last or change <= _NEAR * rule.tol)
        remember(work, beliefs, r)
        ratio_sweep(couplings, rule, work, hidden, r, keep, visible)
        change = update_beliefs(work, beliefs, r)
        if change <= rule.tol and restless(work, beliefs, r):
            beliefs.change[r] = 1.0
            continue
        if change <= rule.tol and (keep or not pairs):
            break


@kernel
def pair_row(between: Any, came: Any, sent: Any, p: float, q: Floats, ratios: Floats, out: Any) -> None:
    """Write a row of pair beliefs and what normalises them; ``p`` and ``q`` are P(v = 1), P(h = 1)."""
    for j in range(out.size):
        u, w = came[j], sent[j]
        both = between[j] * (p * q[j])
        total = both + (w * (p * (1.0 - q[j])) + u * ((1.0 - p) * q[j])) + (u * w) * ((1.0 - p) * (1.0 - q[j]))
        share = 1.0 / total
        out[j] = both * share
        ratios[j] = (u * w) * share


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
    Shapes: ``out (n_visible, n_hidden)``, added to; if it is of size 0, pair beliefs replace messages that came.
    Cost: a division a pair.
    Numerics: probabilities in the place of odds, so nothing overflows.
    """
    between = couplings.between
    n, m = between.shape
    hidden = beliefs.hidden[r]
    block = max(rule.block // 2, 1)
    total = 0.0
    for i in range(n):
        came = work.came[i]
        made = work.spare if out.size else came
        pair_row(between[i], came, work.sent[i], beliefs.visible[r, i], hidden, work.products, made)
        total += softplus(beliefs.visible_log_odds[r, i]) - log_product(work.products[:m], block)
        if out.size:
            add_rows(made, out[i])
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
