r"""Belief propagation between two layers of binary units with log ratios as messages: any weights, and damping.

.. math:: a = t - L', \qquad L = s(W + a) - s(a), \qquad s(u) = \log(1 + e^u) \text{ or } \max(0, u)

where :math:`t` are the log odds of the sender and :math:`L'` is the message that comes back: the same numbers as in
:mod:`beliefs.kernels.boltzmann.ratio_messages`, at two exponentials and logarithms a message. With damping
:math:`d` a message is :math:`(1 - d) L + d L_{old}`.
"""

from __future__ import annotations

from typing import Any

from beliefs.kernels._jit import kernel
from beliefs.kernels.boltzmann.between_layers import (
    Beliefs,
    Couplings,
    Rule,
    Workspace,
    may_turn,
    remember,
    restless,
    softplus,
    start_beliefs,
    start_messages,
    update_beliefs,
)
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.kernels.primitives.lanes import lane_sum
from beliefs.typing import Floats

__all__ = ["log_apart", "log_pairs", "log_rows", "log_sweeps"]

_AGREE = 1e-6  # how closely pairs and units that stand still must agree, whatever the tolerance


@kernel
def soft_messages(between: Any, logits: Any, back: Any, damping: float, out: Any) -> None:
    """Write messages of sums along a row; ``logits`` are the senders', or of one sender as many times."""
    for j in range(out.size):
        a = logits[j] - back[j]
        new = softplus(between[j] + a) - softplus(a)
        out[j] = new + damping * (out[j] - new)


@kernel
def hard_messages(between: Any, logits: Any, back: Any, damping: float, out: Any) -> None:
    """Write messages of maxima along a row."""
    for j in range(out.size):
        a = logits[j] - back[j]
        new = max(between[j] + a, 0.0) - max(a, 0.0)
        out[j] = new + damping * (out[j] - new)


@kernel
def log_sweep(couplings: Couplings, rule: Rule, work: Workspace, hidden_log_odds: Floats, r: int, out: Floats) -> None:
    """Send all messages once, hidden to visible and back, and write the log odds that follow.

    Equivalent to an iteration of Algorithm 6.1 [ping2016].
    Shapes: as in the structures; ``hidden_log_odds (n_hidden,)`` in and out, ``out (n_visible,)``.
    Cost: four softplus for a pair of units.
    Numerics: nothing overflows.
    """
    between = couplings.between
    n, m = between.shape
    logits, sender = work.odds[:m], work.products
    for j in range(m):
        logits[j] = hidden_log_odds[j]
        hidden_log_odds[j] = couplings.hidden_bias[r, j]
    for i in range(n):
        came, sent = work.came[i], work.sent[i]
        if rule.maximise:
            hard_messages(between[i], logits, sent, rule.damping, came)
        else:
            soft_messages(between[i], logits, sent, rule.damping, came)
        out[i] = couplings.visible_bias[r, i] + lane_sum(came, m)
        for j in range(m):
            sender[j] = out[i]
        if rule.maximise:
            hard_messages(between[i], sender, came, rule.damping, sent)
        else:
            soft_messages(between[i], sender, came, rule.damping, sent)
        for j in range(m):
            hidden_log_odds[j] += sent[j]


@kernel
def log_apart(couplings: Couplings, rule: Rule, work: Workspace, beliefs: Beliefs, r: int) -> float:
    """Return how far a row's messages are from a fixed point: the most that one of them, sent anew, moves a belief.

    That is how far the beliefs of a pair and of a unit in it disagree. Probabilities of 0 or 1 stand still while damped
    messages have a long way to go, and pairs may agree all the while: if all messages, sent anew, move the log odds of
    such a unit towards 0, it is 1.
    Shapes: as in the structures.
    Cost: that of a sweep, and an exponential for each of a pair's units.
    Numerics: log odds beyond 708 count as 708.
    """
    between = couplings.between
    n, m = between.shape
    hidden, sender, new, rise = beliefs.hidden_log_odds[r], work.odds[:m], work.products, work.change
    for j in range(m):
        rise[j] = 0.0
    largest = 0.0
    for i in range(n):
        x, came, sent = beliefs.visible_log_odds[r, i], work.came[i], work.sent[i]
        if rule.maximise:
            hard_messages(between[i], hidden, sent, 0.0, new)
        else:
            soft_messages(between[i], hidden, sent, 0.0, new)
        for j in range(m):
            p = 1.0 / (1.0 + fast_exp(-(x + (new[j] - came[j]))))
            largest = max(largest, abs(p - beliefs.visible[r, i]))
            sender[j] = x
        if may_turn(x, lane_sum(new, m) - lane_sum(came, m)):
            largest = 1.0
        if rule.maximise:
            hard_messages(between[i], sender, came, 0.0, new)
        else:
            soft_messages(between[i], sender, came, 0.0, new)
        for j in range(m):
            p = 1.0 / (1.0 + fast_exp(-(hidden[j] + (new[j] - sent[j]))))
            largest = max(largest, abs(p - beliefs.hidden[r, j]))
        for j in range(m):
            rise[j] += new[j] - sent[j]
    for j in range(m):
        if may_turn(hidden[j], rise[j]):
            largest = 1.0
    return largest


@kernel
def log_sweeps(couplings: Couplings, rule: Rule, work: Workspace, beliefs: Beliefs, r: int, fresh: bool) -> None:
    """Take a row through its sweeps; those go on from ``work`` and the row's beliefs unless it is ``fresh``.

    They end once beliefs stand still, the saturated ones too, and, where messages are damped, pairs and units agree.
    Shapes, Cost, Numerics: as :func:`log_sweep`.
    """
    visible, hidden = beliefs.visible_log_odds[r], beliefs.hidden_log_odds[r]
    if fresh:
        start_messages(0.0, work.came)
        start_messages(0.0, work.sent)
        start_beliefs(couplings, work, beliefs, r)
    for _ in range(rule.max_iters):
        remember(work, beliefs, r)
        log_sweep(couplings, rule, work, hidden, r, visible)
        if update_beliefs(work, beliefs, r) <= rule.tol:
            if restless(work, beliefs, r):
                beliefs.change[r] = 1.0
                continue
            if rule.damping > 0.0:
                apart = log_apart(couplings, rule, work, beliefs, r)
                if apart > max(rule.tol, _AGREE):
                    beliefs.change[r] = apart
                    continue
            break


@kernel
def log_pairs(couplings: Couplings, work: Workspace, beliefs: Beliefs, r: int, out: Any) -> float:
    """Add the pair beliefs of a row (6.15) and return its Bethe value; see :func:`.ratio_messages.ratio_pairs`.

    Shapes: ``out (n_visible, n_hidden)``, added to; of size 0 it is left alone.
    Cost: four exponentials a pair.
    Numerics: shifted by the largest of the four terms, so nothing overflows.
    """
    between = couplings.between
    n, m = between.shape
    terms = work.products
    total = 0.0
    for i in range(n):
        x, came, sent = beliefs.visible_log_odds[r, i], work.came[i], work.sent[i]
        own = softplus(x)
        for j in range(m):
            y = beliefs.hidden_log_odds[r, j]
            a, b = x - came[j], y - sent[j]
            both = between[i, j] + (a + b)
            top = max(max(a, b), max(both, 0.0))
            log_total = top + fast_log(fast_exp(-top) + fast_exp(a - top) + fast_exp(b - top) + fast_exp(both - top))
            came[j] = fast_exp(both - log_total)
            terms[j] = log_total - own - softplus(y)
        total += own + lane_sum(terms, m)
        if out.size:
            for j in range(m):
                out[i, j] += came[j]
    for j in range(m):
        total += softplus(beliefs.hidden_log_odds[r, j])
    return total


@kernel
def log_rows(
    couplings: Couplings, rule: Rule, work: Workspace, beliefs: Beliefs, begin: int, end: int, log_z: Floats, pairs: Any
) -> None:
    """Take rows ``begin`` to ``end`` through their sweeps; with ``log_z``, add up pair beliefs and write the values.

    Shapes: ``log_z (rows,)`` or of size 0, ``pairs (n_visible, n_hidden)`` or of size 0.
    Cost, Numerics: as :func:`log_sweep` and :func:`log_pairs`.
    """
    for r in range(begin, end):
        log_sweeps(couplings, rule, work, beliefs, r, True)
        if log_z.size:
            log_z[r] = log_pairs(couplings, work, beliefs, r, pairs)
