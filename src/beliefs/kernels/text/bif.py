"""Kernels for BIF files: cutting the text into tokens and blocks, and filling conditional tables.

A token ``t`` of :class:`Tokens` is a span of the bytes, ``span[t, 0]`` up to ``span[t, 1]``, and a kind: WORD, QUOTED
(the span lies inside the quotes) or the punctuation byte itself, one of ``{}()[];,|``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.text.decimal import HARD, NOT_A_NUMBER, Bytes, parse_number
from beliefs.kernels.text.tokens import is_space
from beliefs.typing import Floats, Ints

__all__ = [
    "BAD_NUMBER", "DONE", "NO_STATE", "OPEN_COMMENT", "OPEN_QUOTE", "QUOTED", "TWICE", "UNEXPECTED", "WORD",
    "Tokens", "bif_blocks", "bif_table", "bif_tokens",
]  # fmt: skip

WORD, QUOTED = 0, 34
OPEN, CLOSE, COMMA, SEMICOLON = 40, 41, 44, 59
DONE, OPEN_QUOTE, OPEN_COMMENT = 0, 1, 2
UNEXPECTED, BAD_NUMBER, NO_STATE, TWICE = 3, 4, 5, 6

_PUNCTUATION = np.zeros(256, np.bool_)
_PUNCTUATION[np.frombuffer(b"{}()[];,|", np.uint8)] = True
_TABLE, _DEFAULT, _PROPERTY = (np.frombuffer(word, np.uint8) for word in (b"table", b"default", b"property"))


class Tokens(NamedTuple):
    """A text cut into tokens."""

    buf: Bytes  # the text
    span: Ints  # (n_tokens, 2)
    kind: Bytes  # (n_tokens,)


@twofold_kernel
def _skip_comment(buf: Bytes, i: int) -> int:
    """Return the position after the comment that starts at ``i``; ``i`` if none does, -1 if it has no end."""
    if i + 1 >= buf.size or buf[i] != 47 or (buf[i + 1] != 47 and buf[i + 1] != 42):
        return i
    if buf[i + 1] == 47:
        while i < buf.size and buf[i] != 10:
            i += 1
        return i
    i += 3
    while i < buf.size:
        if buf[i] == 47 and buf[i - 1] == 42:
            return i + 1
        i += 1
    return -1


@twofold_kernel
def _word_end(buf: Bytes, i: int) -> int:
    while i < buf.size and not (is_space(buf[i]) or _PUNCTUATION[buf[i]] or buf[i] == QUOTED):
        i += 1
    return i


@twofold_kernel(cost=0.5)
def bif_tokens(buf: Bytes, span: Ints, kind: Bytes) -> tuple[int, int, int]:
    """Cut the text into tokens; return their number, the state and, unless DONE, the position of the trouble.

    Equivalent to ``finditer(r'"[^"]*"|[{}()[\\];,|]|[^\\s{}()[\\];,|"]+', text)`` without comments: ``//`` to the end
    of a line, ``/* */``. A comment starts only where a token could. Outputs have room for a token a byte. Cost: a pass.
    """
    n, i = 0, 0
    while i < buf.size:
        if is_space(buf[i]):
            i += 1
            continue
        after = _skip_comment(buf, i)
        if after != i:
            if after < 0:
                return n, OPEN_COMMENT, i
            i = after
            continue
        first = i
        kind[n] = buf[i] if _PUNCTUATION[buf[i]] or buf[i] == QUOTED else WORD
        if kind[n] == WORD:
            i = _word_end(buf, i)
        else:
            i += 1
        span[n, 0], span[n, 1] = first, i
        if kind[n] == QUOTED:
            while i < buf.size and buf[i] != QUOTED:
                i += 1
            if i == buf.size:
                return n, OPEN_QUOTE, first
            span[n, 0], span[n, 1] = first + 1, i
            i += 1
        n += 1
    return n, DONE, i


@twofold_kernel(cost=0.5)
def bif_blocks(kind: Bytes, blocks: Ints) -> tuple[int, int]:
    """Write the first token, the ``{`` and the matching ``}`` of each block; return their number and -1.

    On trouble (a brace without a partner, tokens outside of blocks) the second value is the token where it shows.
    ``blocks`` has room for a block a token. Cost: one pass.
    """
    n, depth, first = 0, 0, 0
    for t in range(kind.size):
        if kind[t] == 123:  # {
            if depth == 0:
                blocks[n, 0] = first
                blocks[n, 1] = t
            depth += 1
        elif kind[t] == 125:  # }
            if depth == 0:
                return n, t
            depth -= 1
            if depth == 0:
                blocks[n, 2] = t
                n += 1
                first = t + 1
    return n, (-1 if first == kind.size else first)


@twofold_kernel
def _same(buf: Bytes, a: Ints, b: Ints) -> bool:
    """Return whether two spans hold the same bytes."""
    if a[1] - a[0] != b[1] - b[0]:
        return False
    for k in range(a[1] - a[0]):
        if buf[a[0] + k] != buf[b[0] + k]:
            return False
    return True


@twofold_kernel
def _is(buf: Bytes, a: Ints, word: Bytes) -> bool:
    """Return whether a span holds a word."""
    if a[1] - a[0] != word.size:
        return False
    for k in range(word.size):
        if buf[a[0] + k] != word[k]:
            return False
    return True


@twofold_kernel
def _find_state(buf: Bytes, token: Ints, labels: Ints, guess: int) -> int:
    """Return which of the labels ``(card, 2)`` a token repeats, or -1; the search starts at ``guess``."""
    card = labels.shape[0]
    for k in range(card):
        x = guess + k if guess + k < card else guess + k - card
        if _same(buf, token, labels[x]):
            return x
    return -1


@twofold_kernel
def _column(tokens: Tokens, t: int, last: int, labels: Ints, at: Ints, card: Ints, guess: Ints) -> tuple[int, int, int]:
    """Read ``state, .., state )``, one for each parent; return the token after it, the column and the state."""
    buf, span, kind = tokens
    column = 0
    for a in range(card.size - 1):
        while t < last and kind[t] == COMMA:
            t += 1
        if t >= last or (kind[t] != WORD and kind[t] != QUOTED):
            return t, column, UNEXPECTED
        x = _find_state(buf, span[t], labels[at[a] : at[a] + card[a]], guess[a])
        if x < 0:
            return t, a, NO_STATE
        guess[a] = x
        column = column * card[a] + x
        t += 1
    if t >= last or kind[t] != CLOSE:
        return t, column, UNEXPECTED
    return t + 1, column, DONE


@twofold_kernel
def _values(tokens: Tokens, t: int, last: int, values: Floats, offset: int, hard: Ints, n: int) -> tuple[int, int, int]:
    """Read ``p, .., p ;`` into ``values``; return the token after it, the number of hard ones and the state."""
    buf, span, kind = tokens
    for k in range(values.size):
        while t < last and kind[t] == COMMA:
            t += 1
        if t >= last or kind[t] != WORD:
            return t, n, UNEXPECTED
        value, stop, status = parse_number(buf, span[t, 0], span[t, 1])
        if status == HARD and stop == span[t, 1]:
            hard[n, 0] = t
            hard[n, 1] = offset + k
            n += 1
            value = 0.0
        elif status == NOT_A_NUMBER or stop != span[t, 1] or not 0.0 <= value < np.inf:
            return t, n, BAD_NUMBER
        values[k] = value
        t += 1
    while t < last and kind[t] == COMMA:
        t += 1
    if t >= last or kind[t] != SEMICOLON:
        return t, n, UNEXPECTED
    return t + 1, n, DONE


@twofold_kernel
def _child_fastest(table: Floats, card: int, hard: Ints, first_hard: int, n_hard: int) -> None:
    """Turn a table whose child varies slowest. Equivalent to ``table[:] = table.reshape(card, -1).T.ravel()``."""
    n_columns = table.size // card
    given = np.empty(table.size)
    for i in range(table.size):
        given[i] = table[i]
    for x in range(card):
        for column in range(n_columns):
            table[column * card + x] = given[x * n_columns + column]
    for h in range(first_hard, n_hard):
        hard[h, 1] = hard[h, 1] % n_columns * card + hard[h, 1] // n_columns


@twofold_kernel(cost=0.05)
def bif_table(
    tokens: Tokens,
    first: int,
    last: int,
    labels: Ints,
    first_label: Ints,
    card: Ints,
    table: Floats,
    default: Floats,
    row: Ints,
    hard: Ints,
) -> tuple[int, int, int, int]:
    """Read the body of a probability block, tokens ``first .. last``.

    A body is made of ``table p..;`` (the child varies slowest), ``default p..;``, ``(states) p..;``, ``property ..;``.
    Equivalent to ``table[parents' states] = row`` for each row. Returns the token reached, the number of hard values,
    the state and, for NO_STATE, the parent.

    ====================  ===========================================================================================
    ``labels``            (n_states, 2), spans of the state labels of all variables
    ``first_label``       (arity,), where the labels of the parents, then the child, start among them
    ``card (arity,)``     their cardinalities, K the child's
    ``table``             (n_columns * K,), child fastest
    ``default (K,)``      the default column; untouched if there is none
    ``row (n_columns,)``  the token that starts the row of a column; -1 where there is none, as given
    ``hard (n, 2)``       token and index in ``table`` (if negative, in ``default``) of numbers left to the caller
    ====================  ===========================================================================================

    Cost: one pass over the tokens; labels are found at once where rows come in order.
    """
    buf, span, kind = tokens
    guess = np.zeros(card.size, np.int64)
    k_child = card[-1]
    n_hard = 0
    t = first
    while t < last:
        begin = t
        is_word = kind[t] == WORD
        t += 1
        if kind[begin] == OPEN:
            t, column, state = _column(tokens, t, last, labels, first_label, card, guess)
            if state == DONE and row[column] >= 0:
                t, state = begin, TWICE
            if state != DONE:
                return t, n_hard, state, column
            row[column] = begin
            at = column * k_child
            t, n_hard, state = _values(tokens, t, last, table[at : at + k_child], at, hard, n_hard)
        elif is_word and _is(buf, span[begin], _TABLE):
            for column in range(row.size):
                if row[column] >= 0:
                    return begin, n_hard, TWICE, 0
            row[:] = begin
            before = n_hard
            t, n_hard, state = _values(tokens, t, last, table, 0, hard, n_hard)
            _child_fastest(table, k_child, hard, before, n_hard)
        elif is_word and _is(buf, span[begin], _DEFAULT):
            t, n_hard, state = _values(tokens, t, last, default, -k_child, hard, n_hard)
        elif is_word and _is(buf, span[begin], _PROPERTY):
            while t < last and kind[t] != SEMICOLON:
                t += 1
            state = DONE if t < last else UNEXPECTED
            t += 1
        else:
            return begin, n_hard, UNEXPECTED, 0
        if state != DONE:
            return t, n_hard, state, 0
    return t, n_hard, DONE, 0
