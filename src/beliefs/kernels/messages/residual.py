"""Residual message passing: always the message that would change most [elidan2006].

Every edge keeps the message it would send now; its residual is the largest difference to the one last sent, as
probabilities. A heap finds the largest residual. Sending a message changes one variable, hence the pending messages of
the other factors there.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.messages.damping import settle
from beliefs.kernels.messages.log import messages_out, replace_message
from beliefs.typing import Bools, Floats, Ints

__all__ = ["prepare_queue", "send_by_residual"]


@kernel
def _swap(heap: Ints, place: Ints, i: int, j: int) -> None:
    heap[i], heap[j] = heap[j], heap[i]
    place[heap[i]], place[heap[j]] = i, j


@kernel
def _settle(heap: Ints, place: Ints, residual: Floats, i: int) -> None:
    """Move entry ``i`` of the heap up or down to where its residual belongs; equal ones keep their places."""
    while i > 0 and residual[heap[i]] > residual[heap[(i - 1) // 2]]:
        _swap(heap, place, i, (i - 1) // 2)
        i = (i - 1) // 2
    while True:
        largest = i
        for child in (2 * i + 1, 2 * i + 2):
            if child < heap.size and residual[heap[child]] > residual[heap[largest]]:
                largest = child
        if largest == i:
            return
        _swap(heap, place, i, largest)
        i = largest


@kernel
def _renew(
    f: int,
    card: Ints,
    scope_ptr: Ints,
    scope_vars: Ints,
    cell_ptr: Ints,
    state_ptr: Ints,
    msg_ptr: Ints,
    theta: Floats,
    summed: Bools,
    rho: Floats,
    messages: Floats,
    finite: Floats,
    zeros: Ints,
    room: Floats,
    table: Floats,
    spread: Floats,
    places: Ints,
    damping: float,
    in_logs: bool,
    floor: float,
    pending: Floats,
    residual: Floats,
    psi_ptr: Ints,
    psi: Floats,
    log_least: float,
) -> bool:
    """Compute the pending messages out of factor ``f`` and their residuals."""
    if not messages_out(
        f, -1, card, scope_ptr, scope_vars, cell_ptr, state_ptr, msg_ptr, theta, summed, rho, messages, finite, zeros,
        room, table, spread, places, psi_ptr, psi, log_least,
    ):  # fmt: skip
        return False
    arity = scope_ptr[f + 1] - scope_ptr[f]
    for a in range(arity):
        e = scope_ptr[f] + places[0, a]
        old, new = messages[msg_ptr[e] : msg_ptr[e + 1]], room[2, a, : places[1, a]]
        settle(old, new, damping, in_logs, floor, summed[scope_vars[e]])
        residual[e] = 0.0
        for x in range(new.size):
            pending[msg_ptr[e] + x] = new[x]
            residual[e] = max(residual[e], abs(math.exp(new[x]) - math.exp(old[x])))
    return True


@kernel
def prepare_queue(scope_ptr: Ints, heap: Ints, place: Ints) -> int:
    """List the edges of factors of two or more variables, unsorted; return how many there are."""
    count = 0
    for f in range(scope_ptr.size - 1):
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            place[e] = -1
            if scope_ptr[f + 1] - scope_ptr[f] >= 2:
                heap[count] = e
                place[e] = count
                count += 1
    return count


@kernel
def send_by_residual(
    card: Ints,
    scope_ptr: Ints,
    scope_vars: Ints,
    cell_ptr: Ints,
    state_ptr: Ints,
    var_ptr: Ints,
    var_edges: Ints,
    edge_factor: Ints,
    msg_ptr: Ints,
    theta: Floats,
    summed: Bools,
    rho: Floats,
    extent: Ints,
    damping: float,
    in_logs: bool,
    floor: float,
    n_updates: int,
    messages: Floats,
    finite: Floats,
    zeros: Ints,
    pending: Floats,
    residual: Floats,
    heap: Ints,
    place: Ints,
    psi_ptr: Ints,
    psi: Floats,
    log_least: float,
) -> bool:
    """Send the ``n_updates`` messages of largest residual one after the other; return False if one proves Z = 0.

    A negative ``n_updates`` only computes all pending messages and builds the heap. Stops early once every residual is
    zero. Cost of an update: the tables of the factors around one variable.
    """
    widest, largest, cells = extent[0], extent[1], extent[2]
    room, places = np.empty((4, widest, largest)), np.empty((3, widest), np.int64)
    table, spread = np.empty(cells), np.empty(extent[3])
    if n_updates < 0:
        for f in range(scope_ptr.size - 1):
            if scope_ptr[f + 1] - scope_ptr[f] >= 2 and not _renew(
                f, card, scope_ptr, scope_vars, cell_ptr, state_ptr, msg_ptr, theta, summed, rho, messages, finite,
                zeros, room, table, spread, places, damping, in_logs, floor, pending, residual, psi_ptr,
                psi, log_least,
            ):  # fmt: skip
                return False
        for i in range(heap.size - 1, -1, -1):
            _settle(heap, place, residual, i)
    for _ in range(n_updates):
        if heap.size == 0 or residual[heap[0]] == 0.0:
            return True
        e = heap[0]
        v, f = scope_vars[e], edge_factor[e]
        old, new = messages[msg_ptr[e] : msg_ptr[e + 1]], pending[msg_ptr[e] : msg_ptr[e + 1]]
        replace_message(v, old, new, rho[f], state_ptr, finite, zeros)
        old[:] = new
        for i in range(var_ptr[v], var_ptr[v + 1]):
            g = edge_factor[var_edges[i]]
            # with counting numbers below 1 or damping a factor hears its own message too
            if scope_ptr[g + 1] - scope_ptr[g] < 2 or (g == f and rho[f] == 1.0 and damping == 0.0):
                continue
            if not _renew(
                g, card, scope_ptr, scope_vars, cell_ptr, state_ptr, msg_ptr, theta, summed, rho, messages, finite,
                zeros, room, table, spread, places, damping, in_logs, floor, pending, residual, psi_ptr,
                psi, log_least,
            ):  # fmt: skip
                return False
            for other in range(scope_ptr[g], scope_ptr[g + 1]):
                _settle(heap, place, residual, place[other])
        if rho[f] == 1.0 and damping == 0.0:
            residual[e] = 0.0
            _settle(heap, place, residual, place[e])
    return True
