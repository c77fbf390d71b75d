"""Residual message passing: always the message that would change most [elidan2006].

Every edge keeps the message it would send now; its residual is the largest difference to the one last sent, as
probabilities. A heap finds the largest residual. Sending a message changes one variable, hence the pending messages of
the other factors there.
"""

from __future__ import annotations

import math

from beliefs.kernels._jit import kernel
from beliefs.kernels.layout import Adjacency, Scopes
from beliefs.kernels.messages.damping import damp
from beliefs.kernels.messages.log import Scratch, messages_out, replace_message
from beliefs.kernels.messages.structures import LogSums, Queue, Reweighted, ScaledTables, Update
from beliefs.typing import Bools, Ints

__all__ = ["prepare_queue", "send_by_residual"]


@kernel
def _swap(queue: Queue, i: int, j: int) -> None:
    heap, place = queue.heap, queue.place
    heap[i], heap[j] = heap[j], heap[i]
    place[heap[i]], place[heap[j]] = i, j


@kernel
def _sift(queue: Queue, i: int) -> None:
    """Move entry ``i`` of the heap up or down to where its residual belongs; equal ones keep their places."""
    heap, residual = queue.heap, queue.residual
    while i > 0 and residual[heap[i]] > residual[heap[(i - 1) // 2]]:
        _swap(queue, i, (i - 1) // 2)
        i = (i - 1) // 2
    while True:
        largest = i
        for child in (2 * i + 1, 2 * i + 2):
            if child < heap.size and residual[heap[child]] > residual[heap[largest]]:
                largest = child
        if largest == i:
            return
        _swap(queue, i, largest)
        i = largest


@kernel
def _renew(
    f: int,
    scopes: Scopes,
    model: Reweighted,
    summed: Bools,
    scaled: ScaledTables,
    update: Update,
    sums: LogSums,
    work: Scratch,
    queue: Queue,
) -> bool:
    """Compute the pending messages out of factor ``f`` and their residuals; return False if one is zero everywhere."""
    if not messages_out(f, -1, scopes, model, summed, scaled, sums, work):
        return False
    message_ptr, residual = model.message_ptr, queue.residual
    for a in range(scopes.scope_ptr[f + 1] - scopes.scope_ptr[f]):
        e = scopes.scope_ptr[f] + work.places[0, a]
        old, new = sums.messages[message_ptr[e] : message_ptr[e + 1]], work.room[2, a, : work.places[1, a]]
        damp(old, new, update.damping, update.in_logs, update.floor, summed[scopes.scope_vars[e]])
        residual[e] = 0.0
        for x in range(new.size):
            queue.pending[message_ptr[e] + x] = new[x]
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
    scopes: Scopes,
    adjacency: Adjacency,
    model: Reweighted,
    summed: Bools,
    scaled: ScaledTables,
    update: Update,
    work: Scratch,
    n_updates: int,
    sums: LogSums,
    queue: Queue,
) -> bool:
    """Send the ``n_updates`` messages of largest residual one after the other; return False if one proves Z = 0.

    A negative ``n_updates`` only computes all pending messages and builds the heap. Stops early once every residual is
    zero. Cost of an update: the tables of the factors around one variable.
    """
    scope_ptr, message_ptr, rho = scopes.scope_ptr, model.message_ptr, model.rho
    heap, place, residual = queue.heap, queue.place, queue.residual
    if n_updates < 0:
        for f in range(scope_ptr.size - 1):
            if scope_ptr[f + 1] - scope_ptr[f] >= 2 and not _renew(
                f, scopes, model, summed, scaled, update, sums, work, queue
            ):
                return False
        for i in range(heap.size - 1, -1, -1):
            _sift(queue, i)
    for _ in range(n_updates):
        if heap.size == 0 or residual[heap[0]] == 0.0:
            return True
        e = heap[0]
        v, f = scopes.scope_vars[e], adjacency.edge_factor[e]
        old = sums.messages[message_ptr[e] : message_ptr[e + 1]]
        new = queue.pending[message_ptr[e] : message_ptr[e + 1]]
        replace_message(v, old, new, rho[f], scopes.state_ptr, sums)
        for x in range(old.size):
            old[x] = new[x]
        for i in range(adjacency.var_ptr[v], adjacency.var_ptr[v + 1]):
            g = adjacency.edge_factor[adjacency.var_edges[i]]
            # with counting numbers below 1 or damping a factor's messages depend on its own message too
            if scope_ptr[g + 1] - scope_ptr[g] < 2 or (g == f and rho[f] == 1.0 and update.damping == 0.0):
                continue
            if not _renew(g, scopes, model, summed, scaled, update, sums, work, queue):
                return False
            for other in range(scope_ptr[g], scope_ptr[g + 1]):
                _sift(queue, place[other])
        if rho[f] == 1.0 and update.damping == 0.0:
            residual[e] = 0.0
            _sift(queue, place[e])
    return True
