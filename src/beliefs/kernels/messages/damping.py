"""How a new log message takes the place of the old one: normalised, damped, in turns, and never overflowing."""

from __future__ import annotations

import math

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Floats

__all__ = ["damp", "normalise", "relaxation", "turns_of"]


@twofold_kernel
def normalise(log_message: Floats, summed: bool) -> bool:
    """Shift to log-sum-exp zero (or maximum zero if not ``summed``); return False if all is ``-inf``."""
    top = -math.inf
    for x in range(log_message.size):
        top = max(top, log_message[x])
    if top == -math.inf:
        return False
    if summed:
        total = 0.0
        for x in range(log_message.size):
            total += math.exp(log_message[x] - top)
        top += math.log(total)
    for x in range(log_message.size):
        log_message[x] -= top
    return True


@twofold_kernel
def damped(old: float, new: float, damping: float, in_logs: bool) -> float:
    """Return the new log message mixed with a share ``damping`` of the old, in logs or as probabilities.

    A proved zero stays zero.
    """
    if damping == 0.0 or new == -math.inf or old == -math.inf and in_logs:
        return new
    if in_logs:
        return (1.0 - damping) * new + damping * old
    top = max(new, old)  # so that neither exponential is all that is left, and zero
    return top + math.log((1.0 - damping) * math.exp(new - top) + damping * math.exp(old - top))


@twofold_kernel
def raise_to(log_message: Floats, floor: float) -> None:
    """Raise what is below ``floor`` to it; hard zeros stay.

    Between hard constraints on loops, logs of messages can grow by a factor an iteration without end; were they let
    overflow, they would pass for a proof that Z = 0.
    """
    for x in range(log_message.size):
        if log_message[x] > -math.inf:
            log_message[x] = max(log_message[x], floor)


@twofold_kernel
def damp(old: Floats, new: Floats, share: float, in_logs: bool, floor: float, summed: bool) -> None:
    """Mix a normalised log message with a share of the old one, normalise, and keep it above the floor."""
    if share > 0.0:
        for x in range(new.size):
            new[x] = damped(old[x], new[x], share, in_logs)
        normalise(new, summed)
    raise_to(new, floor)


@twofold_kernel
def turns_of(arity: int, rho: float) -> int:
    """Return in how many turns a factor sends: all its messages at once, or one after the other.

    With a counting number below 1 its messages depend on each other: sent at once, an error comes back
    ``-(1 - rho) (arity - 1)`` times, and from three variables on may grow. One after the other (Gauss-Seidel) it
    shrinks.
    """
    return arity if arity > 2 and rho < 1.0 else 1


@twofold_kernel
def relaxation(arity: int, rho: float) -> float:
    """Return the share of a new message that flooding takes, so that what :func:`turns_of` describes cancels.

    All messages are sent at once there, so they move ``1 / (1 + (arity - 1)(1 - rho))`` of the way.
    """
    return 1.0 / (1.0 + (arity - 1) * (1.0 - rho)) if arity > 2 and rho < 1.0 else 1.0
