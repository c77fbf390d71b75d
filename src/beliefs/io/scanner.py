"""A cursor over text made of tokens and white space; each format's grammar is written with it.

Every failure is a FormatError that says the line, what was expected and what was found. Counts are checked against
the bytes that are left before anything of that size is allocated. Lines are counted only when an error needs one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from beliefs.errors import FormatError
from beliefs.io.limits import MOST_ENTRIES
from beliefs.kernels.text.tokens import (
    BROKEN,
    ENDED,
    FULL,
    LONG,
    OUTSIDE,
    READ,
    read_integers,
    read_numbers,
    read_scopes,
    skip_tokens,
)
from beliefs.typing import Floats, Ints

__all__ = [
    "LONGEST",
    "EndedError",
    "Scanner",
    "as_bytes",
    "check_beginning",
    "check_density",
    "shown",
    "without_comments",
]

_HARD = 1024  # numbers that the kernel leaves to Python's float before it is entered again
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(rb"\S*")
_NOT_NEWLINE = re.compile(rb"[^\n]")
_WHITE = b" \t\n\v\f\r"
_DENSE = 64  # one byte in so many, at least, is no white space where a beginning is judged
_MOST_VARIABLES = 2**31 - 1  # where nobody says how many there are
LONGEST = 2**19  # bytes of one comment or token: more are nonsense where a beginning is judged


class EndedError(FormatError):
    """The text ended before the format did: a longer one could go on from it."""


def check_beginning(loads: Callable[[bytes], object], text: bytes) -> None:
    """Raise a FormatError if no file can begin with this text: ``loads`` fails on it, and not for want of more."""
    check_density(text)
    whole = 1 + max(text.rfind(bytes([white])) for white in _WHITE)
    if len(text) - whole > LONGEST:
        raise FormatError(f"a token of more than {LONGEST} bytes")
    try:
        loads(text[:whole])
    except EndedError:
        return


def check_density(text: bytes) -> None:
    """Raise a FormatError where the last three quarters of a text have hardly anything but white space."""
    late = text[len(text) // 4 :]
    if _DENSE * len(late.translate(None, _WHITE)) < len(late):
        raise FormatError(f"{len(late)} bytes with hardly anything but white space")


def as_bytes(data: str | bytes) -> bytes:
    """Return the text as UTF-8 bytes without a byte order mark."""
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else bytes(data)
    return raw.removeprefix(_BYTE_ORDER_MARK)


def without_comments(data: str | bytes) -> bytes:
    """Return the bytes with every ``/* ... */`` blanked; line breaks stay, so lines keep their numbers."""
    raw = as_bytes(data)
    if b"/*" not in raw:
        return raw
    plain = _COMMENT.sub(lambda match: _NOT_NEWLINE.sub(b" ", match.group()), raw)
    opened = plain.find(b"/*")
    if opened >= 0:
        kind = FormatError if len(plain) - opened > LONGEST else EndedError
        raise kind("the comment that starts here with /* has no end", line=plain.count(b"\n", 0, opened) + 1)
    return plain


def shown(token: bytes) -> str:
    """Return a token as it appears in a message: quoted, printable and short."""
    text = token[:40].decode("utf-8", "backslashreplace")
    return repr(text if len(token) <= 24 else text[:21] + "...")


class Scanner:
    """Read tokens one after the other.

    Parameters
    ----------
    data : bytes
        Text without comments.
    first_line : int
        The number of its first line, for text cut out of a file.
    ending : str
        What its end is called in messages.

    Examples
    --------
    >>> scan = Scanner(b"3  0.5 1e-3 2")
    >>> scan.numbers(scan.count("a count", "numbers"), "number {}").tolist()
    [0.5, 0.001, 2.0]
    """

    def __init__(self, data: bytes, first_line: int = 1, ending: str = "the end of the file") -> None:
        self.data, self.first_line, self.ending = data, first_line, ending
        self.at = 0
        self._buf = np.frombuffer(data, np.uint8)

    # -- places -------------------------------------------------------------------------------------------------
    @property
    def left(self) -> int:
        """Bytes that have not been read."""
        return len(self.data) - self.at

    def next_token(self, skip: int = 0) -> int:
        """Return the start of the token ``skip`` tokens after the next one."""
        return int(skip_tokens(self._buf, self.at, skip))

    def token(self, at: int) -> bytes:
        """Return the token that starts at a position; empty at the end of the text."""
        match = _TOKEN.match(self.data, at)
        return match.group() if match else b""

    def error(self, message: str, at: int | None = None, ended: bool = False) -> FormatError:
        """Return the error with the line of a position, by default that of the next token (at the end, the last).

        ``ended``: a longer text might be right.
        """
        place = self.next_token() if at is None else at
        if place >= len(self.data):
            place = len(self.data.rstrip())
        line = self.data.count(b"\n", 0, place) + self.first_line
        return (EndedError if ended else FormatError)(message, line=line)

    def unexpected(self, expected: str, at: int | None = None, ended: bool = False) -> FormatError:
        """Return the error that one thing was expected and another, or the end, found."""
        place = self.next_token() if at is None else at
        token = self.token(place)
        found = shown(token) if token else self.ending
        return self.error(f"expected {expected}, found {found}", place, ended or not token)

    # -- tokens -------------------------------------------------------------------------------------------------
    def word(self, expected: str) -> str:
        """Return the next token as text."""
        start = self.next_token()
        token = self.token(start)
        if not token:
            raise self.unexpected(expected, start)
        self.at = start + len(token)
        return token.decode("utf-8", "replace")

    def integer(self, expected: str, at_least: int = 0) -> int:
        """Return the next token as an integer, not below ``at_least``."""
        start = self.next_token()
        value = int(self.integers(1, expected)[0])
        if value < at_least:
            raise self.unexpected(expected, start)
        return value

    def count(self, expected: str, things: str) -> int:
        """Return a number of things that follow, after checking that the text is long enough to hold as many."""
        start = self.next_token()
        value = self.integer(expected)
        if value > (self.left + 1) // 2:
            told = f"the file promises {value} {things} and has only {self.left} bytes left"
            raise self.error(told, start, ended=value <= MOST_ENTRIES)
        return value

    def integers(self, count: int, expected: str) -> Ints:
        """Return the next ``count`` integers; ``{}`` in ``expected`` stands for the index."""
        out = np.empty(count, np.int64)
        at, read, state = read_integers(self._buf, self.at, out)
        if state != READ:
            raise self.unexpected(expected.format(read), at)
        self.at = at
        return out

    def numbers(self, count: int, expected: str) -> Floats:
        """Return the next ``count`` numbers, infinities and nan included; ``{}`` in ``expected`` is the index."""
        out, state = self.some_numbers(count)
        if state != READ:
            raise self.unexpected(expected.format(out.size))
        return out

    def some_numbers(self, most: int) -> tuple[Floats, int]:
        """Return at most ``most`` numbers and why there are no more: READ, ENDED or BROKEN (at a token)."""
        out = np.empty(min(most, (self.left + 1) // 2))
        hard = np.empty((_HARD, 2), np.int64)
        read, state = 0, FULL
        while state == FULL:
            self.at, read, n_hard, state = read_numbers(self._buf, self.at, read, out, hard)
            for place, index in hard[:n_hard].tolist():
                out[index] = float(self.token(place))
        if state == READ and out.size < most:  # the text has no room for more tokens
            state = ENDED
        return out[:read], state

    def scopes(self, n_factors: int, n_vars: int | None) -> tuple[Ints, Ints]:
        """Read ``n_factors`` scopes ``k v1 .. vk`` and return ``scope_ptr`` and ``scope_vars``.

        Where nobody knows the number of variables, repeated ones are the caller's to find.
        """
        ptr = np.zeros(n_factors + 1, np.int64)
        flat = np.empty((self.left + 1) // 2, np.int64)
        most = _MOST_VARIABLES if n_vars is None else n_vars
        last_seen = np.full(0 if n_vars is None else n_vars, -1, np.int64)
        at, f, state = read_scopes(self._buf, self.at, most, ptr, flat, last_seen)
        if state != READ:
            raise self._scope_error(f, most, state, at)
        self.at = at
        return ptr, flat[: ptr[-1]].copy()

    def _scope_error(self, f: int, n_vars: int, state: int, at: int) -> FormatError:
        token = self.token(at).decode("utf-8", "replace")
        if state in (ENDED, BROKEN):
            return self.unexpected(f"an integer in the scope of factor {f}", at)
        if state == LONG:
            return self.error(f"factor {f} has a scope of {token} variables, but the model has {n_vars}", at)
        if state == OUTSIDE:
            return self.error(f"factor {f} names variable {token}, but variables are 0..{n_vars - 1}", at)
        return self.error(f"factor {f} has variable {token} twice in its scope", at)

    def end(self) -> None:
        """Raise unless everything has been read."""
        if self.next_token() < len(self.data):
            raise self.unexpected(self.ending)

    def rest(self, expected: str) -> Ints:
        """Return all remaining integers."""
        out = np.empty((self.left + 1) // 2, np.int64)
        at, read, state = read_integers(self._buf, self.at, out)
        if state == BROKEN:
            raise self.unexpected(expected.format(read), at)
        self.at = at
        return out[:read].copy()
