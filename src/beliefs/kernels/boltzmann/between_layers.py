"""What belief propagation between two layers of binary units works on, whatever the form of its messages.

Many machines with the same weights and biases of their own are rows ``r``: a row is taken through all its sweeps before
the next one, so that what lies between the layers, one matrix of messages or two, is needed once a thread.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.typing import Floats, Ints

__all__ = [
    "Beliefs",
    "Couplings",
    "Rule",
    "Workspace",
    "may_turn",
    "remember",
    "restless",
    "softplus",
    "start_beliefs",
    "start_messages",
    "update_beliefs",
]

_SATURATED = 20.0  # nats: a probability of 0 or 1 up to 2e-9
_QUIET = 1e-3  # nats by which such log odds may still move towards 0
_ROUNDED = 1e-12  # share of them that rounding may move
_GROWN = 1e-2  # share by which they may still move away from 0


class Couplings(NamedTuple):
    """Weights in the form that messages have, and the biases of all rows in float64."""

    between: Any  # (n_visible, n_hidden): exp(W) for ratios, W for logs; float32 or float64
    visible_bias: Floats  # (rows, n_visible)
    hidden_bias: Floats  # (rows, n_hidden)


class Rule(NamedTuple):
    """How long to go on, and how."""

    max_iters: int
    tol: float
    maximise: bool  # maxima in the place of sums
    damping: float  # the share of an old log message in a new one
    block: int  # ratios whose product is a number
    most: float  # log odds beyond which messages do not change


class Workspace(NamedTuple):
    """What one row needs."""

    sent: Any  # (n_visible, n_hidden): messages from visible to hidden units
    came: Any  # the same the other way, where pairs are asked for or messages are logs
    spare: Any  # (n_hidden,): stands beside the last of an odd number of rows
    odds: Any  # (n_visible + n_hidden + 1,): of the hidden units, then of the visible ones and a last row's spare
    products: Floats  # (n_hidden,)
    change: Floats  # (n_visible + n_hidden,)
    before: Floats  # (n_visible + n_hidden,): log odds before the last sweep, of visible units, then of hidden ones


class Beliefs(NamedTuple):
    """Log odds and probabilities of both layers, how many sweeps they took, and how far the last one moved them."""

    visible_log_odds: Floats  # (rows, n_visible)
    hidden_log_odds: Floats  # (rows, n_hidden)
    visible: Floats  # (rows, n_visible)
    hidden: Floats  # (rows, n_hidden)
    n_iters: Ints  # (rows,)
    change: Floats  # (rows,)


@kernel
def start_beliefs(couplings: Couplings, work: Workspace, beliefs: Beliefs, r: int) -> None:
    """Start a row from the odds of its biases."""
    visible, hidden = beliefs.visible_log_odds[r], beliefs.hidden_log_odds[r]
    for i in range(visible.size):
        visible[i] = couplings.visible_bias[r, i]
    for j in range(hidden.size):
        hidden[j] = couplings.hidden_bias[r, j]
    moved(visible, work.change, beliefs.visible[r])
    moved(hidden, work.change, beliefs.hidden[r])
    beliefs.n_iters[r] = 0


@kernel
def update_beliefs(work: Workspace, beliefs: Beliefs, r: int) -> float:
    """Replace a row's probabilities by those of its log odds, count the sweep, and return the largest change."""
    change = moved(beliefs.visible_log_odds[r], work.change, beliefs.visible[r])
    change = max(change, moved(beliefs.hidden_log_odds[r], work.change, beliefs.hidden[r]))
    beliefs.n_iters[r] += 1
    beliefs.change[r] = change
    return change


@kernel
def remember(work: Workspace, beliefs: Beliefs, r: int) -> None:
    """Keep a row's log odds, for :func:`restless` after the next sweep."""
    visible, hidden = beliefs.visible_log_odds[r], beliefs.hidden_log_odds[r]
    for i in range(visible.size):
        work.before[i] = visible[i]
    for j in range(hidden.size):
        work.before[visible.size + j] = hidden[j]


@kernel
def may_turn(log_odds: float, rise: float) -> bool:
    """Return whether log odds so far from 0 that the probability stands still come nearer to it."""
    fall = -rise if log_odds > 0.0 else rise
    return abs(log_odds) > _SATURATED and fall > _QUIET + _ROUNDED * abs(log_odds)


@kernel
def restless(work: Workspace, beliefs: Beliefs, r: int) -> bool:
    """Return whether the last sweep moved a unit whose probability stands still: it, or others by it, may turn over.

    Towards 0 that is the least move beyond rounding, away from 0 a hundredth: a unit that becomes surer says so to its
    neighbours in the next sweep only.
    """
    visible, hidden = beliefs.visible_log_odds[r], beliefs.hidden_log_odds[r]
    n = visible.size
    for k in range(n + hidden.size):
        x = visible[k] if k < n else hidden[k - n]
        rise = x - work.before[k]
        if may_turn(x, rise) or (abs(x) > _SATURATED and abs(rise) > _GROWN * abs(x)):
            return True
    return False


@kernel
def start_messages(neutral: float, out: Any) -> None:
    """Make messages say nothing."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = neutral


@kernel
def softplus(x: float) -> float:
    """Return log(1 + exp(x))."""
    return max(x, 0.0) + fast_log(1.0 + fast_exp(-abs(x)))


@kernel
def moved(log_odds: Floats, change: Floats, out: Floats) -> float:
    """Replace probabilities by those of log odds, and return how far the one that moved most did.

    Equivalent to ``p = expit(log_odds); c = abs(p - out).max(initial=0); out[:] = p; return c``.
    Shapes: ``log_odds``, ``out (n,)``, ``change`` scratch of at least n.
    Cost: an exponential an entry.
    Numerics: log odds beyond 708 count as 708.
    """
    for i in range(log_odds.size):
        p = 1.0 / (1.0 + fast_exp(-log_odds[i]))
        change[i] = abs(p - out[i])
        out[i] = p
    largest = 0.0
    for i in range(log_odds.size):
        largest = max(largest, change[i])
    return largest
