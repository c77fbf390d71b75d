"""The tokens of a BIF text: words, blocks and properties, and errors with their line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beliefs.errors import FormatError
from beliefs.io.scanner import LONGEST, shown
from beliefs.kernels.text.bif import DONE, OPEN_QUOTE, QUOTED, WORD, Tokens, bif_blocks, bif_tokens
from beliefs.kernels.text.decimal import Bytes
from beliefs.typing import Ints

__all__ = ["BifTokens"]

_OPEN_BRACE, _CLOSE_BRACE, _SEMICOLON = ord("{"), ord("}"), ord(";")


@dataclass(frozen=True)
class BifTokens:
    """A text cut into tokens; token ``t`` is ``data[span[t, 0]:span[t, 1]]``."""

    data: bytes
    buf: Bytes
    span: Ints
    kind: Bytes

    @classmethod
    def cut(cls, data: bytes, beginning: bool = False) -> BifTokens:
        """Cut a UTF-8 text; the ``beginning`` of one may end in the midst of a comment or a quote."""
        try:
            data.decode()
        except UnicodeDecodeError as error:
            if not (beginning and error.start >= len(data) - 3):
                message = f"the text is not UTF-8 (byte {data[error.start]:#04x})"
                raise _error(data, message, error.start) from None
            return cls.cut(data[: error.start], beginning)
        buf = np.frombuffer(data, np.uint8)
        span, kind = np.empty((buf.size, 2), np.int64), np.empty(buf.size, np.uint8)
        n, state, place = bif_tokens(buf, span, kind)
        if state != DONE and not (beginning and len(data) - place <= LONGEST):
            what = "quote" if state == OPEN_QUOTE else "comment"
            raise _error(data, f"the {what} that starts here has no end", place)
        return cls(data, buf, span[:n], kind[:n])

    @cached_property
    def arrays(self) -> Tokens:
        """The tokens as kernels take them."""
        return Tokens(self.buf, self.span, self.kind)

    def blocks(self) -> list[tuple[int, int, int]]:
        """Return the first token, the opening and the closing brace of each block."""
        if not self.kind.size:
            raise FormatError("expected a network, found an empty file", line=1)
        found = np.empty((np.count_nonzero(self.kind == _OPEN_BRACE), 3), np.int64)
        n, wrong = bif_blocks(self.kind, found)
        if wrong >= 0:
            raise self.unexpected("blocks with balanced braces", wrong)
        return [(first, opened, closed) for first, opened, closed in found[:n].tolist()]

    def unfinished(self) -> tuple[int, int]:
        """Return the first token after the last whole block, and the opening brace that follows (or the end)."""
        depth = np.cumsum((self.kind == _OPEN_BRACE).astype(np.int64) - (self.kind == _CLOSE_BRACE))
        closed = np.flatnonzero((self.kind == _CLOSE_BRACE) & (depth == 0))
        first = int(closed[-1]) + 1 if closed.size else 0
        opened = np.flatnonzero(self.kind[first:] == _OPEN_BRACE)
        return first, first + int(opened[0]) if opened.size else len(self.kind)

    def raw(self, t: int) -> bytes:
        """Return a token's bytes; none after the last token."""
        return self.data[self.span[t, 0] : self.span[t, 1]] if t < len(self.span) else b""

    def raws(self, first: int, last: int) -> list[bytes]:
        """Return the bytes of a range of tokens."""
        return [self.data[a:b] for a, b in self.span[first:last].tolist()]

    def word(self, t: int) -> str:
        """Return a token's text, without quotes."""
        return self.raw(t).decode()

    def names(self, first: int, last: int) -> list[int]:
        """Return which tokens of a range are words, quoted or not."""
        return [t for t, kind in enumerate(self.kind[first:last].tolist(), first) if kind in (WORD, QUOTED)]

    def error(self, message: str, t: int) -> FormatError:
        """Return an error at a token."""
        return _error(self.data, message, int(self.span[t, 0]) if t < len(self.span) else len(self.data.rstrip()))

    def unexpected(self, expected: str, t: int) -> FormatError:
        """Return the error that one thing was expected and this token found."""
        found = shown(self.raw(t)) if t < len(self.span) else "the end of the file"
        return self.error(f"expected {expected}, found {found}", t)

    def properties(self, first: int, last: int) -> dict[str, str]:
        """Return ``{key: value}`` of each ``property key = value ;`` in a range (no ``=``: an empty value)."""
        found: dict[str, str] = {}
        if first >= last or b"property" not in self.data[self.span[first, 0] : self.span[last, 0]]:
            return found
        starts = first + 1 + np.flatnonzero(self.kind[first : last - 1] == _SEMICOLON)
        for t in (first, *starts.tolist()):
            if self._is_property(t):
                key, value = self._property(t, self._semicolon(t, last))
                found[key] = value
        return found

    def only_properties(self, first: int, last: int) -> dict[str, str]:
        """Return the properties of a range that must hold nothing else (but semicolons)."""
        t = self.skip_properties(first, last)
        if t < last:
            raise self.unexpected("property or }", t)
        return self.properties(first, last)

    def skip_properties(self, t: int, last: int) -> int:
        """Return the first token that belongs to no property."""
        while t < last and (self.kind[t] == _SEMICOLON or self._is_property(t)):
            t = self._semicolon(t, last) + 1
        return t

    def _is_property(self, t: int) -> bool:
        return bool(self.kind[t] == WORD) and self.raw(t) == b"property"

    def _semicolon(self, t: int, last: int) -> int:
        while t < last and self.kind[t] != _SEMICOLON:
            t += 1
        if t == last:
            raise self.unexpected("; after a property", t)
        return t

    def _property(self, t: int, stop: int) -> tuple[str, str]:
        whole = stop == t + 2 and self.kind[t + 1] == QUOTED
        text = self.word(t + 1) if whole else self.data[self.span[t, 1] : self.span[stop, 0]].decode().strip()
        key, _, value = text.partition("=")
        return key.strip(), value.strip()


def _error(data: bytes, message: str, place: int) -> FormatError:
    return FormatError(message, line=data.count(b"\n", 0, place) + 1)
