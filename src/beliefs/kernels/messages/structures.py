"""What the kernels of message passing take together, on factors of any arity.

Each is made once, with the messages it belongs to, and handed to every sweep; where a variable's and a factor's entries
lie is in :class:`beliefs.kernels.layout.Scopes`. The structures of pairwise models are in
:mod:`beliefs.kernels.messages.pairwise.structures`.
"""

from __future__ import annotations

from typing import NamedTuple

from beliefs.typing import Floats, Ints

__all__ = ["LinearMessages", "LogSums", "Queue", "Reweighted", "ScaledTables", "Update"]


class Reweighted(NamedTuple):
    """Log potentials with their counting numbers, and where messages lie."""

    theta: Floats  # (n_cells,) all log tables
    rho: Floats  # (n_factors,) counting numbers
    message_ptr: Ints  # (n_edges+1,) where the message of each edge begins


class ScaledTables(NamedTuple):
    """Potentials as plain numbers, ``exp((theta - max theta) / rho)``, for sums."""

    ptr: Ints  # (n_factors,) where each factor's table begins
    psi: Floats  # all tables; empty where nothing is summed
    least: float  # the smallest entry that is not zero
    log_least: float  # its log


class LogSums(NamedTuple):
    """Log messages and, at each state of a variable, what they add up to."""

    messages: Floats  # one after the other, see ``message_ptr``
    finite: Floats  # (n_states,) the sum of ``rho * message`` over messages that are finite there
    zeros: Ints  # (n_states,) the number of messages that are -inf there


class LinearMessages(NamedTuple):
    """Messages as plain numbers, where they are sent to and, at each state of a variable, their product."""

    messages: Floats  # one after the other, see ``message_ptr``
    fresh: Floats  # where new messages are written: the same array, or another one in flooding
    product: Floats  # (n_states,) the product of ``message ** rho`` over messages that are not zero there
    zeros: Ints  # (n_states,) the number of messages that are zero there


class Update(NamedTuple):
    """How a new message takes the place of the old one."""

    damping: float  # share of the old message
    in_logs: bool  # whether the two are mixed as logs or as probabilities
    floor: float  # the least log of a message that is not zero; plain numbers have none
    at_once: bool  # flooding: sums and products are left as they are until all messages have been sent


class Queue(NamedTuple):
    """The messages that wait to be sent, with those that would change most first."""

    pending: Floats  # like messages: what each edge would send now
    residual: Floats  # (n_edges,) its largest difference to what was sent last, as probabilities
    heap: Ints  # edges of factors of two variables or more, a heap by residual
    place: Ints  # (n_edges,) where each edge stands in the heap, -1: nowhere
