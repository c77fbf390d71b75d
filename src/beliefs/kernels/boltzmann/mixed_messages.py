r"""Mixed-product belief propagation between two layers: the best visible units, with the hidden ones summed out.

A visible unit is in its better state :math:`\tilde v_i = 1[\tau_i > 1/2]`, so what it says to a hidden one is
:math:`\log m = W_{ij} \tilde v_i` (Eq. (6.12) of [ping2016]) and needs no memory: hidden units have the odds that they
have given :math:`\tilde v`. Messages to visible units are those of sums, (6.10), as ratios or as logs.
"""

from __future__ import annotations

from typing import Any

from beliefs.kernels._jit import kernel
from beliefs.kernels.boltzmann.between_layers import (
    Beliefs,
    Couplings,
    Rule,
    Workspace,
    remember,
    restless,
    start_beliefs,
    start_messages,
    update_beliefs,
)
from beliefs.kernels.boltzmann.log_messages import soft_messages
from beliefs.kernels.boltzmann.ratio_messages import log_product
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.kernels.primitives.lanes import lane_sum
from beliefs.typing import Floats

__all__ = ["mixed_rows", "mixed_sweeps"]


@kernel
def add_to_hidden(between: Any, logs: bool, out: Floats) -> None:
    """Add what a visible unit that is on says to all hidden ones."""
    if logs:
        for j in range(out.size):
            out[j] += between[j]
    else:
        for j in range(out.size):
            out[j] *= between[j]


@kernel
def to_visible(between: Any, odds: Any, back: Any, out: Any) -> None:
    """Write the ratios that a visible unit receives from all hidden ones."""
    for j in range(out.size):
        out[j] = (back[j] + between[j] * odds[j]) / (back[j] + odds[j])


@kernel
def mixed_sweep(
    couplings: Couplings, rule: Rule, work: Workspace, logs: bool, hidden_log_odds: Floats, r: int, out: Floats
) -> int:
    """Send all messages once, write the log odds that follow, and return how many visible units changed their state.

    Equivalent to an iteration of Algorithm 6.2 [ping2016].
    Shapes: as in the structures, but ``work.sent`` and ``work.came`` have one row: what units that are off say, and
    what came; ``hidden_log_odds (n_hidden,)`` and ``out (n_visible,)`` in and out.
    Cost: a division for a pair of units, or two softplus.
    Numerics: those of the messages.
    """
    between, most = couplings.between, rule.most
    n, m = between.shape
    odds, products, silent, came = work.odds[:m], work.products, work.sent[0], work.came[0]
    for j in range(m):
        x = hidden_log_odds[j]
        odds[j] = x if logs else fast_exp(min(max(x, -most), most))
        hidden_log_odds[j] = couplings.hidden_bias[r, j]
        products[j] = 0.0 if logs else 1.0
    n_flips = 0
    for i in range(n):
        was_on = out[i] > 0.0
        back = between[i] if was_on else silent
        if logs:
            soft_messages(between[i], odds, back, 0.0, came)
            out[i] = couplings.visible_bias[r, i] + lane_sum(came, m)
        else:
            to_visible(between[i], odds, back, came)
            out[i] = couplings.visible_bias[r, i] + log_product(came, rule.block)
        n_flips += was_on != (out[i] > 0.0)
        if out[i] > 0.0:
            add_to_hidden(between[i], logs, products)
        if (i + 1) % rule.block == 0 or i == n - 1:
            for j in range(m):
                hidden_log_odds[j] += products[j] if logs else fast_log(products[j])
                products[j] = 0.0 if logs else 1.0
    return n_flips


@kernel
def mixed_sweeps(
    couplings: Couplings, rule: Rule, work: Workspace, beliefs: Beliefs, r: int, fresh: bool, logs: bool
) -> None:
    """Take a row through its sweeps, until no visible unit changes and beliefs move no more than the tolerance.

    They go on from the row's beliefs unless it is ``fresh``.
    Shapes, Cost, Numerics: as :func:`mixed_sweep`.
    """
    visible, hidden = beliefs.visible_log_odds[r], beliefs.hidden_log_odds[r]
    start_messages(0.0 if logs else 1.0, work.sent)
    if fresh:
        start_beliefs(couplings, work, beliefs, r)
        for i in range(visible.size):
            visible[i] = 0.0  # no unit has said that it is on
    for _ in range(rule.max_iters):
        remember(work, beliefs, r)
        n_flips = mixed_sweep(couplings, rule, work, logs, hidden, r, visible)
        change = update_beliefs(work, beliefs, r)
        if n_flips > 0 or (change <= rule.tol and restless(work, beliefs, r)):
            beliefs.change[r] = 1.0
        if beliefs.change[r] <= rule.tol:
            break


@kernel
def mixed_rows(
    couplings: Couplings, rule: Rule, work: Workspace, beliefs: Beliefs, begin: int, end: int, logs: bool
) -> None:
    """Take rows ``begin`` to ``end`` through their sweeps.

    Shapes, Cost, Numerics: as :func:`mixed_sweep`.
    """
    for r in range(begin, end):
        mixed_sweeps(couplings, rule, work, beliefs, r, True, logs)
