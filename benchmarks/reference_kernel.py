"""The fixed reference: message passing as one writes it down first, straight loops over vertices, compiled by Numba.

Nothing here is tuned, and nothing here should be: a ratio to these loops, measured in the same run, can be carried from
one machine to another, and to other libraries that were once measured beside them (``messages.cases.LIBDAI``).

A sweep visits all vertices in the order of their numbers. For a pairwise model with ``K`` states everywhere:

``bp``      one product of all incoming messages; for each neighbour divide out the message that comes back, multiply
            by the table, normalise to sum one; plain numbers, not logs
``trw``     the same with counting numbers, as logs: one ``exp`` and one ``log`` a state and message, both of libm
``mean_field``  add up expected log potentials, exponentiate, normalise
``gibbs``   multiply the rows that the neighbours' states pick, and draw

Arrays: neighbours of vertex ``i`` are the entries ``ptr[i]:ptr[i+1]`` of ``edge`` and ``side`` (0 if ``i`` is the first
axis of the edge's table) and ``other``; ``tables[at[e]]`` is ``(K, K)``; ``messages[e, s]`` arrives at end ``s``.
Two states are known to the compiler, because a loop of two steps left open would be a straw man.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Loops = tuple[Callable[..., None], Callable[..., None], Callable[..., None], Callable[..., None]]

_FAST = {"contract", "reassoc", "nsz", "arcp"}


@lru_cache
def loops(fixed: int) -> Loops:
    """Return the four loops, compiled for ``fixed`` states; 0 leaves their number open."""

    @numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
    def _times(table: Floats, side: int, cavity: Floats, out: Floats) -> None:
        """Sum over the axis ``side``: scaled rows for the first axis, dot products for the second."""
        n_states = fixed if fixed else out.size
        if side == 0:
            for y in range(n_states):
                out[y] = 0.0
            for x in range(n_states):
                for y in range(n_states):
                    out[y] += cavity[x] * table[x, y]
        else:
            for x in range(n_states):
                value = 0.0
                for y in range(n_states):
                    value += cavity[y] * table[x, y]
                out[x] = value

    @numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
    def bp(ptr: Ints, edge: Ints, side: Ints, at: Ints, tables: Floats, unary: Floats, messages: Floats) -> None:
        """Send every message once; ``tables`` and ``unary`` are potentials."""
        n_states = fixed if fixed else unary.shape[1]
        product, cavity, out = np.empty(n_states), np.empty(n_states), np.empty(n_states)
        for i in range(ptr.size - 1):
            for x in range(n_states):
                product[x] = unary[i, x]
            for k in range(ptr[i], ptr[i + 1]):
                for x in range(n_states):
                    product[x] *= messages[edge[k], side[k], x]
            for k in range(ptr[i], ptr[i + 1]):
                e, s = edge[k], side[k]
                for x in range(n_states):
                    cavity[x] = product[x] / messages[e, s, x]
                _times(tables[at[e]], s, cavity, out)
                total = 0.0
                for x in range(n_states):
                    total += out[x]
                for x in range(n_states):
                    messages[e, 1 - s, x] = out[x] / total

    @numba.njit(cache=True, nogil=True, error_model="numpy")
    def trw(
        ptr: Ints, edge: Ints, side: Ints, at: Ints, tables: Floats, unary: Floats, rho: float, messages: Floats
    ) -> None:
        """Send every message once; ``tables`` are potentials to the power ``1 / rho``, the rest is logs."""
        n_states = fixed if fixed else unary.shape[1]
        total, cavity, out = np.empty(n_states), np.empty(n_states), np.empty(n_states)
        for i in range(ptr.size - 1):
            for x in range(n_states):
                total[x] = unary[i, x]
            for k in range(ptr[i], ptr[i + 1]):
                for x in range(n_states):
                    total[x] += rho * messages[edge[k], side[k], x]
            for k in range(ptr[i], ptr[i + 1]):
                e, s = edge[k], side[k]
                table, top = tables[at[e]], -np.inf
                for x in range(n_states):
                    cavity[x] = total[x] - messages[e, s, x]
                    top = max(top, cavity[x])
                for x in range(n_states):
                    cavity[x] = math.exp(cavity[x] - top)
                top = -np.inf
                for y in range(n_states):
                    value = 0.0
                    for x in range(n_states):
                        value += cavity[x] * (table[x, y] if s == 0 else table[y, x])
                    out[y] = math.log(value)
                    top = max(top, out[y])
                for y in range(n_states):
                    messages[e, 1 - s, y] = out[y] - top

    @numba.njit(cache=True, nogil=True, error_model="numpy")
    def mean_field(
        ptr: Ints, edge: Ints, side: Ints, other: Ints, at: Ints, tables: Floats, unary: Floats, mu: Floats
    ) -> None:
        """Update every marginal once; ``tables`` and ``unary`` are log potentials."""
        n_states = fixed if fixed else unary.shape[1]
        total = np.empty(n_states)
        for i in range(ptr.size - 1):
            for x in range(n_states):
                total[x] = unary[i, x]
            for k in range(ptr[i], ptr[i + 1]):
                table, s, j = tables[at[edge[k]]], side[k], other[k]
                for x in range(n_states):
                    value = 0.0
                    for y in range(n_states):
                        value += mu[j, y] * (table[x, y] if s == 0 else table[y, x])
                    total[x] += value
            top, norm = -np.inf, 0.0
            for x in range(n_states):
                top = max(top, total[x])
            for x in range(n_states):
                total[x] = math.exp(total[x] - top)
                norm += total[x]
            for x in range(n_states):
                mu[i, x] = total[x] / norm

    @numba.njit(cache=True, nogil=True, error_model="numpy")
    def gibbs(
        ptr: Ints, edge: Ints, side: Ints, other: Ints, at: Ints, tables: Floats, unary: Floats, state: Ints
    ) -> None:
        """Redraw every vertex once; ``tables`` and ``unary`` are potentials."""
        n_states = fixed if fixed else unary.shape[1]
        weight = np.empty(n_states)
        for i in range(ptr.size - 1):
            for x in range(n_states):
                weight[x] = unary[i, x]
            for k in range(ptr[i], ptr[i + 1]):
                table, y = tables[at[edge[k]]], state[other[k]]
                for x in range(n_states):
                    weight[x] *= table[x, y] if side[k] == 0 else table[y, x]
            for x in range(1, n_states):
                weight[x] += weight[x - 1]
            threshold, x = np.random.random() * weight[n_states - 1], 0  # noqa: NPY002 - compiled code has only these
            while x < n_states - 1 and weight[x] <= threshold:
                x += 1
            state[i] = x

    return bp, trw, mean_field, gibbs


class Reference:
    """A pairwise model held for these loops; each method does one sweep."""

    def __init__(self, unary: Floats, edges: Ints, tables: Floats) -> None:
        """Take log potentials: ``unary (n, K)``, ``edges (m, 2)`` and ``tables (m, K, K)`` or one tied ``(K, K)``."""
        (n_vars, n_states), n_edges = unary.shape, len(edges)
        ends = edges.T.reshape(-1)
        order = np.argsort(ends, kind="stable")
        self.ptr = np.searchsorted(ends[order], np.arange(n_vars + 1))
        self.edge, self.side = order % n_edges, order // n_edges
        self.other = edges[self.edge, 1 - self.side]
        self.log_tables = tables.reshape(-1, n_states, n_states)
        self.at = np.zeros(n_edges, np.int64) if tables.ndim == 2 else np.arange(n_edges)
        self.log_unary, self.unary, self.tables = unary, np.exp(unary), np.exp(self.log_tables)
        self.powered: dict[float, Floats] = {}
        self.messages = np.full((n_edges, 2, n_states), 1.0 / n_states)
        self.log_messages = np.zeros((n_edges, 2, n_states))
        self.mu = np.full((n_vars, n_states), 1.0 / n_states)
        self.state = np.zeros(n_vars, np.int64)
        self.loops = loops(2 if n_states == 2 else 0)

    def bp(self) -> None:
        """Do one sweep of belief propagation."""
        self.loops[0](self.ptr, self.edge, self.side, self.at, self.tables, self.unary, self.messages)

    def trw(self, rho: float) -> None:
        """Do one sweep with one counting number for all edges."""
        if rho not in self.powered:
            self.powered[rho] = np.exp(self.log_tables / rho)
        powered = self.powered[rho]
        self.loops[1](self.ptr, self.edge, self.side, self.at, powered, self.log_unary, rho, self.log_messages)

    def mean_field(self) -> None:
        """Do one sweep of coordinate ascent."""
        where = self.ptr, self.edge, self.side, self.other, self.at
        self.loops[2](*where, self.log_tables, self.log_unary, self.mu)

    def gibbs(self) -> None:
        """Do one sweep of Gibbs sampling."""
        self.loops[3](self.ptr, self.edge, self.side, self.other, self.at, self.tables, self.unary, self.state)

    def bp_marginals(self) -> Floats:
        """Return beliefs of vertices, ``(n, K)``."""
        beliefs = self.unary.copy()
        for i in range(len(beliefs)):
            for k in range(self.ptr[i], self.ptr[i + 1]):
                beliefs[i] *= self.messages[self.edge[k], self.side[k]]
        return beliefs / beliefs.sum(axis=1, keepdims=True)

    def trw_marginals(self, rho: float) -> Floats:
        """Return beliefs of vertices, ``(n, K)``."""
        logs = self.log_unary.copy()
        for i in range(len(logs)):
            for k in range(self.ptr[i], self.ptr[i + 1]):
                logs[i] += rho * self.log_messages[self.edge[k], self.side[k]]
        beliefs = np.exp(logs - logs.max(axis=1, keepdims=True))
        return beliefs / beliefs.sum(axis=1, keepdims=True)
