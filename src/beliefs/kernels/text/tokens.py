"""Kernels that read numbers out of text: white space between tokens, any number of tokens a line.

All work on the bytes of a file as ``buf (n_bytes,)`` from a position on, and return the position they reached. On
trouble that is the start of the offending token, so that the caller can count its line; lines are never counted here.
"""

from __future__ import annotations

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.text.decimal import HARD, NOT_A_NUMBER, Bytes, parse_number
from beliefs.typing import Floats, Ints

__all__ = [
    "BROKEN", "ENDED", "FULL", "LONG", "OUTSIDE", "READ", "REPEATED",
    "read_integers", "read_numbers", "read_scopes", "skip_tokens", "table_sizes",
]  # fmt: skip

READ = 0  # all that was asked for
ENDED = 1  # the text ended
BROKEN = 2  # a token is no number, or no integer
FULL = 3  # no room for another hard number: resolve them and go on
LONG = 4  # a scope has more variables than the model, or fewer than none
OUTSIDE = 5  # a scope names a variable that does not exist
REPEATED = 6  # a scope names a variable twice


@twofold_kernel
def is_space(c: int) -> bool:
    """Return whether a byte separates tokens. Equivalent to ``chr(c) in " \\t\\n\\v\\f\\r"``."""
    return c == 32 or 9 <= c <= 13


@twofold_kernel
def _skip_space(buf: Bytes, at: int) -> int:
    while at < buf.size and is_space(buf[at]):
        at += 1
    return at


@twofold_kernel
def skip_tokens(buf: Bytes, at: int, count: int) -> int:
    """Return the start of the token ``count`` tokens after the next one, ``buf.size`` if there is none.

    Equivalent to the start of ``buf[at:].split()[count]``. Cost: the bytes passed.
    """
    at = _skip_space(buf, at)
    for _ in range(count):
        while at < buf.size and not is_space(buf[at]):
            at += 1
        at = _skip_space(buf, at)
    return at


@twofold_kernel
def read_numbers(buf: Bytes, at: int, start: int, out: Floats, hard: Ints) -> tuple[int, int, int, int]:
    """Read tokens into ``out[start:]``; return the position, the count in ``out``, the hard ones and the state.

    Equivalent to ``out[:] = [float(t) for t in text.split()]`` (without Python's underscores in numbers). Where
    the value is hard to round, ``hard (n, 2)`` gets the token's position and its index in ``out`` for the caller to
    resolve. Cost: one pass over the bytes, about 10 ns a number.
    """
    n_hard = 0
    for k in range(start, out.size):
        at = _skip_space(buf, at)
        if at == buf.size:
            return at, k, n_hard, ENDED
        value, end, status = parse_number(buf, at, buf.size)
        if status == NOT_A_NUMBER or (end < buf.size and not is_space(buf[end])):
            return at, k, n_hard, BROKEN
        if status == HARD:
            if n_hard == hard.shape[0]:
                return at, k, n_hard, FULL
            hard[n_hard, 0] = at
            hard[n_hard, 1] = k
            n_hard += 1
        out[k] = value
        at = end
    return at, out.size, n_hard, READ


@twofold_kernel
def _integer(buf: Bytes, at: int) -> tuple[int, int, int]:
    """Return the integer at ``at`` (a token's start), the position after it and READ, ENDED or BROKEN."""
    if at == buf.size:
        return 0, at, ENDED
    i = at
    negative = buf[i] == 45
    if negative or buf[i] == 43:
        i += 1
    first = i
    value = 0
    while i < buf.size and 48 <= buf[i] <= 57 and i - first < 18:
        value = value * 10 + int(buf[i]) - 48
        i += 1
    if i == first or (i < buf.size and not is_space(buf[i])):
        return 0, at, BROKEN
    return (-value if negative else value), i, READ


@twofold_kernel
def read_integers(buf: Bytes, at: int, out: Ints) -> tuple[int, int, int]:
    """Read tokens of at most 18 digits into ``out``; return the position, how many there were and the state.

    Equivalent to ``out[:] = [int(t) for t in text.split()]``. Cost: one pass over the bytes.
    """
    for k in range(out.size):
        at = _skip_space(buf, at)
        value, end, state = _integer(buf, at)
        if state != READ:
            return at, k, state
        out[k] = value
        at = end
    return at, out.size, READ


@twofold_kernel
def read_scopes(
    buf: Bytes, at: int, n_vars: int, scope_ptr: Ints, scope_vars: Ints, last_seen: Ints
) -> tuple[int, int, int]:
    """Read scopes ``k v1 .. vk`` into ``scope_ptr`` and ``scope_vars``; return the position, the factor and the state.

    Equivalent to reading ``k`` and then ``k`` integers for every factor. ``scope_vars`` has room for all the tokens
    that the text can hold; ``last_seen (at most n_vars,)`` is scratch filled with -1, and variables beyond it are not
    looked at for repetitions. Cost: one pass over the bytes.
    """
    edges = 0
    for f in range(scope_ptr.size - 1):
        at = _skip_space(buf, at)
        arity, end, state = _integer(buf, at)
        if state == READ and not 0 <= arity <= n_vars:
            state = LONG
        if state != READ:
            return at, f, state
        at = end
        for _ in range(arity):
            at = _skip_space(buf, at)
            v, end, state = _integer(buf, at)
            if state == READ and not 0 <= v < n_vars:
                state = OUTSIDE
            elif state == READ and v < last_seen.size and last_seen[v] == f:
                state = REPEATED
            if state != READ:
                return at, f, state
            if v < last_seen.size:
                last_seen[v] = f
            scope_vars[edges] = v
            edges += 1
            at = end
        scope_ptr[f + 1] = edges
    return at, scope_ptr.size - 1, READ


@twofold_kernel
def table_sizes(card: Ints, scope_ptr: Ints, scope_vars: Ints, most: int, sizes: Ints) -> int:
    """Write each factor's table size; return the first factor with more than ``most`` cells, or -1.

    Equivalent to ``sizes[f] = prod(card[scope(f)])`` without overflow. Cost: n_edges.
    """
    for f in range(sizes.size):
        size = 1
        for e in range(scope_ptr[f], scope_ptr[f + 1]):
            k = card[scope_vars[e]]
            if k > most or size > most // k:
                return f
            size *= k
        sizes[f] = size
    return -1
