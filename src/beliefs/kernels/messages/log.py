r"""Messages on factors of any arity, in the log domain, for sums, maxima and both at once.

One update serves all methods that differ only in their counting numbers :math:`\rho_c` (1: belief propagation; a
mixture of forests: tree-reweighted; anything positive: fractional). With log messages :math:`\lambda_{ci}` and
:math:`\beta_i = \sum_{d \ni i} \rho_d \lambda_{di}`,

.. math:: \lambda_{ci}(x_i) = R_{x_{c \setminus i}} \Big[ \theta_c(x_c) / \rho_c
          + \sum_{j \in c \setminus i} (\beta_j - \lambda_{cj})(x_j) \Big] + \text{const}

where R is the log-sum-exp over variables of temperature 1, then the maximum over those of temperature 0. Towards a sum
variable, max variables are restricted to the maximisers of their beliefs (mixed-product [liu2013]).

Messages to sum variables have log-sum-exp zero, messages to max variables have maximum zero. :math:`\beta` is kept as
``finite``, the weighted sum of finite logs, and ``zeros``, the number of ``-inf``, so that a hard zero can be taken
out again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import inlined_kernel, kernel, twofold_kernel
from beliefs.kernels.layout import Scopes
from beliefs.kernels.messages.contraction import contract_log, contract_max, spread_log
from beliefs.kernels.messages.damping import damp, normalise, relaxation, turns_of
from beliefs.kernels.messages.scaled import scaled_outgoing
from beliefs.kernels.messages.structures import LogSums, Reweighted, ScaledTables, Update
from beliefs.typing import Bools, Floats, Ints

__all__ = [
    "TIE",
    "Scratch",
    "cavity",
    "log_beliefs",
    "messages_out",
    "replace_message",
    "scratch",
    "send_unary",
    "sweep_log",
    "widest_scope",
]

TIE = 1e-9  # nats: states within this of the best belief are maximisers
UNLIKELY = 50.0  # nats


class Scratch(NamedTuple):
    """Working space for the messages out of one factor."""

    room: Floats  # (4, arity, K) cavities, those of maximisers, messages, and messages put aside
    table: Floats  # the largest table
    spread: Floats  # room for the tables over 0, 1, 2, ... axes
    places: Ints  # (3, arity) axes in the order of the table, their sizes, and digits


@twofold_kernel
def widest_scope(card: Ints, scope_ptr: Ints, scope_vars: Ints) -> tuple[int, int, int, int]:
    """Return the largest arity, cardinality and table, and room for the tables over 0, 1, 2, ... axes in any order.

    With two states or more an axis these add up to twice the whole; every axis of one state adds the whole once more.
    """
    widest, largest, cells, spread = 1, 1, 1, 1
    for v in range(card.size):
        largest = max(largest, card[v])
    for f in range(scope_ptr.size - 1):
        widest = max(widest, scope_ptr[f + 1] - scope_ptr[f])
        size, single = 1, 0
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            size *= card[scope_vars[e]]
            single += card[scope_vars[e]] == 1
        cells, spread = max(cells, size), max(spread, (2 + single) * size + 1)
    return widest, largest, cells, spread


@twofold_kernel
def send_unary(scopes: Scopes, model: Reweighted, summed: Bools, messages: Floats) -> bool:
    """Set the messages of all factors of one variable to their tables, normalised; False if one is all ``-inf``."""
    for f in range(scopes.cell_ptr.size):
        if scopes.scope_ptr[f + 1] - scopes.scope_ptr[f] == 1:
            e = scopes.scope_ptr[f]
            run = messages[model.message_ptr[e] : model.message_ptr[e + 1]]
            for x in range(run.size):
                run[x] = model.theta[scopes.cell_ptr[f] + x]
            if not normalise(run, summed[scopes.scope_vars[e]]):
                return False
    return True


@twofold_kernel
def log_beliefs(scopes: Scopes, message_ptr: Ints, rho: Floats, messages: Floats, finite: Floats, zeros: Ints) -> None:
    """Add up ``rho * message`` into each variable: finite ones to ``finite``, counts of ``-inf`` to ``zeros``."""
    finite[:] = 0.0
    zeros[:] = 0
    for f in range(rho.size):
        for e in range(scopes.scope_ptr[f], scopes.scope_ptr[f + 1]):
            s = scopes.state_ptr[scopes.scope_vars[e]]
            for x in range(message_ptr[e + 1] - message_ptr[e]):
                m = messages[message_ptr[e] + x]
                if m == -math.inf:
                    zeros[s + x] += 1
                else:
                    finite[s + x] += rho[f] * m


@twofold_kernel
def cavity(finite: float, zeros: int, message: float) -> float:
    """Return ``beta - lambda``: ``-inf`` if any *other* message is; where only this one is, the sum of the others."""
    if message == -math.inf:
        return finite if zeros == 1 else -math.inf
    return finite - message if zeros == 0 else -math.inf


@twofold_kernel
def maximisers(cavities: Floats, finite: Floats, zeros: Ints, restricted: Floats) -> None:
    """Copy the cavities of the states of largest belief; all others become ``-inf``."""
    top = -math.inf
    for x in range(cavities.size):
        if zeros[x] == 0:
            top = max(top, finite[x])
    for x in range(cavities.size):
        restricted[x] = cavities[x] if zeros[x] == 0 and finite[x] >= top - TIE else -math.inf


@twofold_kernel
def max_axes_first(scope: Ints, summed: Bools, axes: Ints) -> int:
    """Write the axes of a scope, max variables first; return how many these are."""
    n_max = 0
    for a in range(scope.size):
        if not summed[scope[a]]:
            axes[n_max] = a
            n_max += 1
    at = n_max
    for a in range(scope.size):
        if summed[scope[a]]:
            axes[at] = a
            at += 1
    return n_max


@kernel
def load_table(cells: Floats, card: Ints, scope: Ints, axes: Ints, weight: float, digit: Ints, table: Floats) -> None:
    """Write ``(cells / weight)`` as a table with axes in the order ``axes``, flat."""
    in_order = True
    for a in range(axes.size):
        in_order = in_order and axes[a] == a
        digit[a] = 0
    if in_order:
        for k in range(cells.size):
            table[k] = cells[k] / weight
        return
    for k in range(cells.size):
        at = 0
        for a in range(axes.size):
            at = at * card[scope[axes[a]]] + digit[axes[a]]
        table[at] = cells[k] / weight
        a = scope.size - 1
        while a >= 0:
            digit[a] += 1
            if digit[a] < card[scope[a]]:
                break
            digit[a] = 0
            a -= 1


@kernel
def outgoing(
    table: Floats, sizes: Ints, n_max: int, incoming: Floats, restricted: Floats, spread: Floats, out: Floats
) -> None:
    """Write all messages out of one table (axes: max variables, then sum variables) to ``out (arity, K)``.

    ``incoming`` and ``restricted (arity, K)`` hold cavities in the order of axes; the second is used for max variables
    on the way to sum variables. ``table`` is overwritten. See :mod:`beliefs.kernels.messages.contraction`.
    """
    arity = sizes.size
    spread[0] = 0.0
    begin, length = 0, 1  # W_j is spread[begin : begin + length]
    for j in range(arity - 1):
        vector = restricted[j, : sizes[j]] if j < n_max < arity else incoming[j, : sizes[j]]
        ahead = begin + length
        spread_log(spread[begin:ahead], vector, spread[ahead : ahead + length * sizes[j]])
        begin, length = ahead, length * sizes[j]
    for j in range(arity - 1, -1, -1):
        if j == n_max - 1 and n_max < arity:  # from here on maxima, with all states of max variables
            first, size = 0, 1
            for i in range(j):
                spread_log(
                    spread[first : first + size],
                    incoming[i, : sizes[i]],
                    spread[first + size : first + size + size * sizes[i]],
                )
                first, size = first + size, size * sizes[i]
        cells, vector, message = table[: length * sizes[j]], incoming[j, : sizes[j]], out[j, : sizes[j]]
        if j >= n_max:
            contract_log(cells, spread[begin : begin + length], vector, message, table[:length])
        else:
            contract_max(cells, spread[begin : begin + length], vector, message, table[:length])
        if j > 0:
            length //= sizes[j - 1]
            begin -= length


def scratch(extent: Ints) -> Scratch:
    """Allocate working space for factors of this ``extent``, see :func:`widest_scope`.

    By the caller: a kernel that makes arrays counts the references to all that it touches, and takes longer to compile.
    """
    room, places = np.empty((4, extent[0], extent[1])), np.empty((3, extent[0]), np.int64)
    return Scratch(room, np.empty(extent[2]), np.empty(extent[3]), places)


@inlined_kernel
def messages_out(
    f: int,
    skip: int,
    scopes: Scopes,
    model: Reweighted,
    summed: Bools,
    scaled: ScaledTables,
    sums: LogSums,
    work: Scratch,
) -> bool:
    """Write the messages out of factor ``f``, normalised, to ``room[2]``; return False if one is zero everywhere.

    Row a of ``room[2]`` is the message to axis ``places[0, a]`` (max variables first); the axis ``skip`` is left out.
    ``scaled``, if not empty, has potentials for :mod:`beliefs.kernels.messages.scaled`.
    """
    incoming, restricted, out = work.room[0], work.room[1], work.room[2]
    card, finite, zeros = scopes.card, sums.finite, sums.zeros
    first, arity = scopes.scope_ptr[f], scopes.scope_ptr[f + 1] - scopes.scope_ptr[f]
    scope = scopes.scope_vars[first : first + arity]
    axes, sizes, digit = work.places[0, :arity], work.places[1, :arity], work.places[2]
    n_max = max_axes_first(scope, summed, axes)
    size = 1
    for a in range(arity):
        e = first + axes[a]
        v = scopes.scope_vars[e]
        sizes[a] = card[v]
        size *= card[v]
        s, m = scopes.state_ptr[v], model.message_ptr[e]
        for x in range(card[v]):
            incoming[a, x] = cavity(finite[s + x], zeros[s + x], sums.messages[m + x])
        if a < n_max < arity:
            maximisers(incoming[a, : card[v]], finite[s : s + card[v]], zeros[s : s + card[v]], restricted[a])
    cells = model.theta[scopes.cell_ptr[f] : scopes.cell_ptr[f] + size]
    done = n_max == 0 and scaled.psi.size > 0
    if done:
        done = scaled_outgoing(
            scaled.psi, scaled.ptr[f], scaled.log_least, sizes, incoming, restricted, work.table, work.spread, out
        )
    turn = 2 if done else 0
    while turn < 2:  # one place for a call that is much code
        load_table(cells, card, scope, axes, model.rho[f], digit, work.table)
        outgoing(work.table, sizes, n_max, incoming, incoming if turn == 1 else restricted, work.spread, out)
        if turn == 1:
            for a in range(n_max, arity):
                allow_unlikely(work.room[3, a, : sizes[a]], out[a, : sizes[a]])
        elif 0 < n_max < arity and any_zero(out, sizes, n_max):
            # a zero that only holds at the present maximisers is no proof: what all their states allow stays possible
            for a in range(n_max, arity):
                for x in range(sizes[a]):
                    work.room[3, a, x] = out[a, x]
        else:
            break
        turn += 1
    reached = True
    for a in range(arity):
        if axes[a] != skip:
            message = out[a, : sizes[a]]
            reached = (is_possible(message) if done else normalise(message, summed[scope[axes[a]]])) and reached
    return reached


@twofold_kernel
def is_possible(log_message: Floats) -> bool:
    """Whether any entry is not ``-inf``."""
    for x in range(log_message.size):
        if log_message[x] > -math.inf:
            return True
    return False


@twofold_kernel
def any_zero(out: Floats, sizes: Ints, first: int) -> bool:
    """Whether a message to one of the axes from ``first`` on has a ``-inf``."""
    for a in range(first, sizes.size):
        for x in range(sizes[a]):
            if out[a, x] == -math.inf:
                return True
    return False


@kernel
def allow_unlikely(at_maximisers: Floats, message: Floats) -> None:
    """Put the message at the maximisers in the place of ``message``; states it excludes but that does not, stay.

    They stay ``UNLIKELY`` nats below the best. If it excludes all states, ``message`` is left as it is.
    """
    top = -math.inf
    for x in range(message.size):
        top = max(top, at_maximisers[x])
    if top == -math.inf:
        return
    for x in range(message.size):
        if at_maximisers[x] > -math.inf:
            message[x] = at_maximisers[x]
        elif message[x] > -math.inf:
            message[x] = top - UNLIKELY


@kernel
def replace_message(v: int, old: Floats, new: Floats, weight: float, state_ptr: Ints, sums: LogSums) -> None:
    """Exchange one message in the sums of variable ``v``."""
    for x in range(new.size):
        s = state_ptr[v] + x
        if old[x] == -math.inf:
            sums.zeros[s] -= 1
        else:
            sums.finite[s] -= weight * old[x]
        if new[x] == -math.inf:
            sums.zeros[s] += 1
        else:
            sums.finite[s] += weight * new[x]


@kernel
def sweep_log(
    scopes: Scopes,
    model: Reweighted,
    summed: Bools,
    scaled: ScaledTables,
    update: Update,
    work: Scratch,
    order: Ints,
    skip: Ints,
    sums: LogSums,
    fresh: Floats,
) -> bool:
    """Update the messages out of each factor of ``order``; return False if one is zero everywhere (Z = 0).

    Messages are read from ``sums`` and written to ``fresh``; unless all are sent at once (flooding) these are the same
    array, and the sums follow each update. ``skip[k]`` is the axis of ``order[k]`` whose message is left out, empty for
    none; ``work`` is :func:`scratch` of the widest scope; ``scaled`` may be empty. Cost: an exponential and a logarithm
    a state of a sum, two exponentials a cell where its range is too large for that, none of a maximum.
    """
    message_ptr, rho = model.message_ptr, model.rho
    for k in range(order.size):
        f = order[k]
        first, arity = scopes.scope_ptr[f], scopes.scope_ptr[f + 1] - scopes.scope_ptr[f]
        if arity < 2:
            continue
        left_out = skip[k] if skip.size > 0 else -1
        turns = 1 if update.at_once else turns_of(arity, rho[f])
        share = 1.0 - (1.0 - update.damping) * relaxation(arity, rho[f]) if update.at_once else update.damping
        for turn in range(turns):
            if not messages_out(f, left_out, scopes, model, summed, scaled, sums, work):
                return False
            for a in range(arity):
                if work.places[0, a] == left_out or (turns > 1 and a != turn):
                    continue
                e = first + work.places[0, a]
                v = scopes.scope_vars[e]
                old, new = sums.messages[message_ptr[e] : message_ptr[e + 1]], work.room[2, a, : work.places[1, a]]
                damp(old, new, share, update.in_logs, update.floor, summed[v])
                if not update.at_once:
                    replace_message(v, old, new, rho[f], scopes.state_ptr, sums)
                for x in range(new.size):
                    fresh[message_ptr[e] + x] = new[x]
    return True
