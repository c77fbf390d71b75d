r"""Power sums of linear chains at two temperatures: hidden labels innermost, the other labels around them.

.. math:: S_y \Bigl[ S_h \sum_t u_t + A \Bigr], \qquad S\, f = \varepsilon \log \sum e^{f / \varepsilon}
   \text{, the maximum at } \varepsilon = 0

Between two outputs s and t lies a run of hidden tokens, which depends on both of their labels:

.. math:: F_{s+1}(y', x) = A(y', x) + u_{s+1}(x), \qquad
          F_{j+1}(y', x) = u_{j+1}(x) + S_{h,\,x'} \bigl[ F_j(y', x') + A(x', x) \bigr], \qquad
          b_t(y) = u_t(y) + S_{y,\,y'} \bigl[ b_s(y') + S_{h,\,x} [ F_{t-1}(y', x) + A(x, y) ] \bigr]

so a hidden token costs K times an output. The gradient goes the same way back. A run is then done again for each label
y' of its first output that has a part in the answer, which at :math:`\varepsilon_y = 0` is one of them, so that memory
is linear in the length of a chain.

Sums are made of exponentials of the table, made once, and those of a row, shifted by its maximum: K^2 multiplications
and K exponentials. Where such a sum is as small as to have lost digits it is made again in logs. Ties go to the
smallest label. Log potentials are finite; impossible labels are -1e300. Where outputs are maximised and nothing spans
much, :mod:`beliefs.kernels.chains.marginal_map` has the same answers sooner.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.kernels.chains.linear import Chains
from beliefs.typing import Bools, Floats, Ints

__all__ = ["Power", "Powers", "n_room", "two_temperatures"]

_SMALL = 1e-280  # what underflows beside a larger sum does not count


class Power(NamedTuple):
    """A temperature, and the table ``(K * K,)`` with its exponentials ``exp((table - top) / eps)``; at 0 unused."""

    states: int
    table: Floats
    exponentials: Floats
    top: float
    eps: float


class Powers(NamedTuple):
    """Those of outputs and of hidden labels."""

    outer: Power
    inner: Power


class Chain(NamedTuple):
    """One chain: where its tokens begin, how many there are, and what all tokens have."""

    first: int
    n: int
    width: int
    hidden: Bools  # (n_tokens,)
    unary: Floats  # (n_tokens * width,)


class Work(NamedTuple):
    """Room for one chain, and where in it what begins.

    ``outputs`` has b of all tokens, ``before`` what that was without their own potentials, ``mu`` the gradient,
    ``rows`` a run; ``tables`` two tables F; ``spare`` eight rows.
    """

    room: Floats
    choice: Ints  # (longest * K,)  the best label of the output before a run, for each after it
    outputs: int
    before: int
    mu: int
    rows: int
    tables: int
    spare: int


def n_room(longest: int, states: int) -> int:
    """Return how many numbers the kernel needs room for."""
    return (5 * longest + 2 * states + 8) * states


@kernel
def _onward(power: Power, room: Floats, row: int, out: int) -> None:
    """Write ``room[out + y] = S over x of room[row + x] + table[x, y]``; rows are where they begin in the room."""
    states, table, exponentials, top, eps = power
    peak = room[row]
    for x in range(1, states):
        peak = max(peak, room[row + x])
    if eps == 0.0:
        for y in range(states):
            room[out + y] = room[row] + table[y]
        for x in range(1, states):
            for y in range(states):
                room[out + y] = max(room[out + y], room[row + x] + table[x * states + y])
        return
    for y in range(states):
        room[out + y] = 0.0
    for x in range(states):
        share = math.exp((room[row + x] - peak) / eps)
        if share > 0.0:
            for y in range(states):
                room[out + y] += share * exponentials[x * states + y]
    for y in range(states):
        if room[out + y] > _SMALL:
            room[out + y] = peak + top + eps * math.log(room[out + y])
            continue
        highest = room[row] + table[y]
        for x in range(1, states):
            highest = max(highest, room[row + x] + table[x * states + y])
        total = 0.0
        for x in range(states):
            total += math.exp((room[row + x] + table[x * states + y] - highest) / eps)
        room[out + y] = highest + eps * math.log(total)


@kernel
def _back(power: Power, width: int, room: Floats, row: int, out: int, given: int, onto: int, pairs: Floats) -> None:
    """Turn the gradient ``given`` in what :func:`_onward` wrote to ``out`` into one in its row, and in the table."""
    states, table, _, _, eps = power
    for x in range(states):
        room[onto + x] = 0.0
    for y in range(states):
        part = room[given + y]
        if part == 0.0:
            continue
        if eps == 0.0:
            best = 0
            for x in range(1, states):
                if room[row + x] + table[x * states + y] > room[row + best] + table[best * states + y]:
                    best = x
            room[onto + best] += part
            pairs[best * width + y] += part
            continue
        for x in range(states):
            share = part * math.exp((room[row + x] + table[x * states + y] - room[out + y]) / eps)
            room[onto + x] += share
            pairs[x * width + y] += share


@kernel
def _sum(eps: float, states: int, room: Floats, row: int, weight: float, shares: int) -> float:
    """Return the power sum of a row, and write its gradient, times a weight."""
    best = 0
    for x in range(1, states):
        if room[row + x] > room[row + best]:
            best = x
    peak: float = room[row + best]
    total = 0.0
    for x in range(states):
        if eps == 0.0:
            room[shares + x] = weight if x == best else 0.0
        else:
            room[shares + x] = math.exp((room[row + x] - peak) / eps)
            total += room[shares + x]
    if eps == 0.0:
        return peak
    for x in range(states):
        room[shares + x] *= weight / total
    return peak + eps * math.log(total)


@kernel
def _run(power: Power, chain: Chain, room: Floats, rows: int, origin: int, t: int, n: int) -> int:
    """Write the rows of n hidden tokens from t on, after the label ``origin``, -1: at the beginning; return the last.

    Token j has its row at ``rows + 2 j K``, and behind it what it was before its own potentials were added.
    """
    states, table, unary = power.states, power.table, chain.unary
    for j in range(n):
        row, before = rows + 2 * j * states, rows + (2 * j + 1) * states
        token = (chain.first + t + j) * chain.width
        if j > 0:
            _onward(power, room, row - 2 * states, before)
        for x in range(states):
            if j == 0:
                room[before + x] = table[origin * states + x] if origin >= 0 else 0.0
            room[row + x] = room[before + x] + unary[token + x]
    return rows + 2 * (n - 1) * states


@kernel
def _run_back(
    power: Power, width: int, origin: int, n: int, room: Floats, rows: int, given: int, spare: int, mu: int,
    pairs: Floats,
) -> None:  # fmt: skip
    """Add the gradient in the potentials of a run, whose last row has the gradient ``given``, to ``mu`` and pairs."""
    states = power.states
    for j in range(n - 1, -1, -1):
        for x in range(states):
            room[mu + j * states + x] += room[given + x]
        if j > 0:
            row = rows + 2 * (j - 1) * states
            _back(power, width, room, row, row + 3 * states, given, spare, pairs)
            given, spare = spare, given
        elif origin >= 0:
            for x in range(states):
                pairs[origin * width + x] += room[given + x]


@kernel
def _forward(outer: Power, inner: Power, chain: Chain, work: Work) -> tuple[int, int]:
    """Write b of all outputs; return the last of them, -1: none, and where F of the last token is, if it is hidden."""
    room, choice, states = work.room, work.choice, outer.states
    lower, turn = work.spare + states, work.spare + 4 * states
    last, now, other = -1, work.tables, work.tables + states * states
    for t in range(chain.n):
        token, after_hidden = (chain.first + t) * chain.width, t > 0 and chain.hidden[chain.first + t - 1]
        if chain.hidden[chain.first + t]:
            for r in range(states if last >= 0 else 1):
                if after_hidden:
                    _onward(inner, room, now + r * states, other + r * states)
                for x in range(states):
                    if not after_hidden:
                        room[other + r * states + x] = inner.table[r * states + x] if last >= 0 else 0.0
                    room[other + r * states + x] += chain.unary[token + x]
            now, other = other, now
            continue
        here = work.before + t * states
        if t == 0:
            for y in range(states):
                room[here + y] = 0.0
        elif not after_hidden:
            _onward(outer, room, work.outputs + (t - 1) * states, here)
        elif last < 0:
            _onward(inner, room, now, here)
        else:
            for r in range(states):
                _onward(inner, room, now + r * states, other + r * states)
            for y in range(states):
                best = 0
                for r in range(states):
                    room[turn + r] = room[work.outputs + last * states + r] + room[other + r * states + y]
                    best = r if room[turn + r] > room[turn + best] else best
                room[here + y] = _sum(outer.eps, states, room, turn, 1.0, lower)
                choice[t * states + y] = best
        for y in range(states):
            room[work.outputs + t * states + y] = room[here + y] + chain.unary[token + y]
        last = t
    return last, now


@kernel
def _from_the_end(
    outer: Power, inner: Power, chain: Chain, work: Work, ends: tuple[int, int], weight: float, pairs: Floats
) -> float:
    """Return the power sum of a chain; write its gradient in b of the last output, and add that in what follows it."""
    room, states, n, (last, now) = work.room, outer.states, chain.n, ends
    upper, lower, given = work.spare, work.spare + states, work.spare + 2 * states
    onto, tail = work.spare + 3 * states, work.spare + 5 * states
    if last == n - 1:
        return _sum(outer.eps, states, room, work.outputs + last * states, weight, upper)
    origins = states if last >= 0 else 1
    for r in range(origins):
        room[tail + r] = _sum(inner.eps, states, room, now + r * states, 1.0, lower)
        if last >= 0:
            room[tail + r] += room[work.outputs + last * states + r]
    value = _sum(outer.eps, origins, room, tail, weight, upper)
    for r in range(origins):
        if room[upper + r] > 0.0:
            origin, length, mu = r if last >= 0 else -1, n - 1 - last, work.mu + (last + 1) * states
            row = _run(inner, chain, room, work.rows, origin, last + 1, length)
            _sum(inner.eps, states, room, row, room[upper + r], given)
            _run_back(inner, chain.width, origin, length, room, work.rows, given, onto, mu, pairs)
    return value


@kernel
def _over_a_run(
    outer: Power, inner: Power, chain: Chain, work: Work, last: int, t: int, upper: int, lower: int, pairs: Floats
) -> None:
    """Turn the gradient ``upper`` in b of output t into that in b of ``last``, the output before; add that between."""
    room, states = work.room, outer.states
    given, onto = work.spare + 2 * states, work.spare + 3 * states
    turn, tail = work.spare + 4 * states, work.spare + 5 * states
    length, mu = t - 1 - last, work.mu + (last + 1) * states
    for r in range(states if last >= 0 else 1):
        room[lower + r], part = 0.0, False
        for y in range(states):
            chosen = last < 0 or outer.eps > 0.0 or work.choice[t * states + y] == r
            room[tail + y] = room[upper + y] if chosen else 0.0
            part = part or room[tail + y] != 0.0
        if not part:
            continue
        origin = r if last >= 0 else -1
        row = _run(inner, chain, room, work.rows, origin, last + 1, length)
        _onward(inner, room, row, turn)
        for y in range(states):
            if last >= 0 and outer.eps > 0.0:
                high = room[work.outputs + last * states + r] + room[turn + y]
                room[tail + y] *= math.exp((high - room[work.before + t * states + y]) / outer.eps)
            room[lower + r] += room[tail + y]
        _back(inner, chain.width, room, row, turn, tail, given, pairs)
        _run_back(inner, chain.width, origin, length, room, work.rows, given, onto, mu, pairs)


@kernel
def two_temperatures(
    chains: Chains, powers: Powers, hidden: Bools, weight: Floats, wide: Bools, unary: Floats, room: Floats,
    choice: Ints, value: Floats, pairs: Floats,
) -> None:  # fmt: skip
    """Replace log potentials by the gradient of each ``wide`` chain's power sum, times its weight; write the sum.

    Shapes: ``hidden (n_tokens,)``, ``wide (n_chains,)``, ``unary (n_tokens * width,)``, ``room (n_room(longest,
    K),)``, ``choice (longest * K,)``, ``value (n_chains,)``, and ``pairs (K * width,)``, to which the gradient in the
    table is added.
    Cost: K^3 multiplications and K^2 exponentials a hidden token, and as much again for each label of the output before
    it that has a part; K times less an output.
    """
    starts, begin, end, states, width = chains
    outer, inner = powers
    for s in range(begin, end):
        if not wide[s]:
            continue
        n = starts[s + 1] - starts[s]
        size = n * states
        chain = Chain(starts[s], n, width, hidden, unary)
        work = Work(room, choice, 0, size, 2 * size, 3 * size, 5 * size, 5 * size + 2 * states * states)
        ends = _forward(outer, inner, chain, work)
        for i in range(size):
            room[work.mu + i] = 0.0
        value[s] = _from_the_end(outer, inner, chain, work, ends, weight[s], pairs)
        t, upper, lower = ends[0], work.spare, work.spare + states  # ``upper``: the gradient in b of output t
        while t >= 0:
            for y in range(states):
                room[work.mu + t * states + y] += room[upper + y]
            last = t - 1
            while last >= 0 and hidden[chain.first + last]:
                last -= 1
            if t > 0 and last == t - 1:
                row, out = work.outputs + last * states, work.before + t * states
                _back(outer, width, room, row, out, upper, lower, pairs)
            elif t > 0:
                _over_a_run(outer, inner, chain, work, last, t, upper, lower, pairs)
            upper, lower, t = lower, upper, last
        for t in range(n):
            for y in range(width):
                unary[(chain.first + t) * width + y] = room[work.mu + t * states + y] if y < states else 0.0
